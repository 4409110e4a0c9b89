//! The records of a thread's log: plain structs of names and bytes.
//!
//! In come values that the driver has already turned into bytes, out go the same values; how a
//! record becomes bytes is the business of [`frame`](crate::store). A record knows no node, no
//! graph and no state type. `docs/format.md` is the contract; nothing here changes without it. The
//! order of fields and cases is that of the stored bytes, their names are those of exports.

use serde::{Deserialize, Serialize};

use super::few::Few;
use super::text::Text;

/// One entry of a thread's log. The order of the variants is part of the stored format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the usual one, and a pointer to it would be an allocation"
)]
pub enum Record {
    /// What the state looked like to the program that wrote what follows.
    Schema(SchemaRecord),
    /// An input was accepted and reduced; moves the head.
    Input(InputRecord),
    /// A superstep that another call had begun is taken up again.
    Started(StartedRecord),
    /// A task of an open superstep ended.
    Outcome(OutcomeRecord),
    /// A superstep closed; moves the head.
    Commit(CommitRecord),
    /// The whole state at a head, so that loading need not begin at the first record.
    Base(BaseRecord),
    /// A call ended without closing its superstep.
    Stopped(StoppedRecord),
    /// The result of a durable step inside a node.
    Step(StepRecord),
    /// A task asks.
    Question(QuestionRecord),
    /// A question was answered.
    Answer(AnswerRecord),
    /// A wake-up time was set.
    Timer(TimerRecord),
    /// Reserved: an effect that a later failure has to undo.
    Compensation(CompensationRecord),
    /// A record of a subgraph, inside of an open superstep.
    Inner(InnerRecord),
    /// A branch was begun: the head went to an earlier position.
    Branch(BranchRecord),
    /// The body of an irreversible task begins.
    Begun(BegunRecord),
    /// Outcomes of an open superstep were discarded: their tasks run again.
    Discarded(DiscardedRecord),
}

/// What the thread was written with: names, shapes, reducers of all fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaRecord {
    /// The graph's name.
    pub graph: String,
    /// The graph's fingerprint.
    #[serde(with = "super::bytes::short")]
    pub fingerprint: [u8; 16],
    /// The state type's name.
    pub state: String,
    /// The state's declared version.
    pub version: u32,
    /// The fields in declaration order.
    pub fields: Vec<FieldRecord>,
    /// The nodes in declaration order.
    pub nodes: Vec<NodeRecord>,
    /// The joins in declaration order.
    pub joins: Vec<JoinRecord>,
}

/// One node of a [`SchemaRecord`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The node's name.
    pub name: String,
    /// What it is for.
    pub kind: String,
    /// The labels of its exits; none for a node with one way out.
    pub exits: Vec<String>,
    /// The serde shape of its payloads; none for a node that is no worker.
    pub payload: Option<String>,
    /// The serde shape of what its questions are answered with; none for a node that asks nothing.
    pub answer: Option<String>,
}

/// One join of a [`SchemaRecord`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRecord {
    /// The join's name.
    pub name: String,
    /// The nodes that it waits for.
    pub members: Vec<String>,
    /// What it waits for, in a few words.
    pub rule: String,
}

/// One field of a [`SchemaRecord`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldRecord {
    /// The field's name.
    pub name: String,
    /// The serde shape of the value, as text: kinds and widths of scalars, names of fields and variants.
    pub shape: String,
    /// The codec of values and updates: 1 MessagePack with names, 2 bincode.
    pub codec: u8,
    /// The reducer's id.
    pub reducer: String,
    /// The reducer's version; 0 for one that is stored by value.
    pub reducer_version: u32,
    /// Whether stored bytes must have the field.
    pub required: bool,
}

/// One change to one field, as bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredChange {
    /// The field's name.
    pub field: Text,
    /// The codec of the bytes: 1 MessagePack with names, 2 bincode.
    pub codec: u8,
    /// What happens before the merges.
    pub base: StoredBase,
    /// What the reducer is given, in order.
    #[serde(with = "super::bytes::many")]
    pub merges: Few<Vec<u8>>,
}

/// What a change does before anything is merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredBase {
    /// Nothing.
    Keep,
    /// The field is set to its default.
    Clear,
    /// The field is set to this value.
    Overwrite(#[serde(with = "super::bytes")] Vec<u8>),
}

/// One field's whole value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredValue {
    /// The field's name.
    pub field: String,
    /// The codec of the bytes.
    pub codec: u8,
    /// The value.
    #[serde(with = "super::bytes")]
    pub bytes: Vec<u8>,
}

/// One entry of a frontier: what is to run next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTask {
    /// The node's name.
    pub node: Text,
    /// The place among the tasks of that node.
    pub index: u32,
    /// The node it was reached from; empty for the start.
    pub from: Text,
    /// The label of the edge it was reached by; empty for a plain edge.
    pub by: Text,
    /// A worker's payload, as MessagePack with names.
    #[serde(with = "super::bytes::maybe")]
    pub payload: Option<Vec<u8>>,
}

/// A round of a join that has begun. A second one of the same join and entry says that it has gone
/// on, and who may still bring late ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredJoin {
    /// The join's name.
    pub node: String,
    /// The nodes that have arrived; in the second one, the nodes and joins that may bring late ones.
    pub arrived: Vec<String>,
    /// The superstep in which the round began.
    pub entry: u64,
}

/// An edge that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredEdge {
    /// From which node; empty for the start.
    pub from: Text,
    /// The exit's label; empty for a plain edge.
    pub label: Text,
    /// To which node; empty for the end.
    pub to: Text,
    /// How many tasks it led to.
    pub tasks: u32,
}

/// How a thread stands. Stored, never inferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// A call works on it, or died while it did.
    Running,
    /// A question is open.
    Paused,
    /// It waits for a time to come.
    Parked,
    /// A node, reducer or router failed; the superstep is open.
    Failed,
    /// Nothing is left to run.
    Finished,
    /// A caller cancelled; the superstep is open.
    Cancelled,
    /// The step budget or the deadline of the call is used up.
    Limited,
    /// Its process gave it back at a boundary, for another one to go on.
    Drained,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Status::Running => "running",
            Status::Paused => "paused",
            Status::Parked => "parked",
            Status::Failed => "failed",
            Status::Finished => "finished",
            Status::Cancelled => "cancelled",
            Status::Limited => "limited",
            Status::Drained => "drained",
        })
    }
}

/// An accepted input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRecord {
    /// The run that it begins.
    pub run: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// How many supersteps the branch has closed before, one that this input gave up included.
    pub step: u64,
    /// The outcomes of an open superstep that this input gave up, by seq; they are reduced first.
    pub closed: Vec<u64>,
    /// What settles the tasks that never finished, reduced after `closed`.
    pub settled: Vec<StoredChange>,
    /// The input as an update.
    pub update: Vec<StoredChange>,
    /// Values of the fields whose reducers cannot be replayed.
    pub values: Vec<StoredValue>,
    /// The edges out of the start.
    pub edges: Few<StoredEdge>,
    /// What runs first.
    pub frontier: Few<StoredTask>,
    /// Running, or finished where there is nothing to run.
    pub status: Status,
}

/// A takeover of an open superstep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedRecord {
    /// The superstep.
    pub step: u64,
    /// How often it was taken over, this time included.
    pub takeover: u32,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
}

/// A try of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAttempt {
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// How long it took, in microseconds.
    pub micros: u64,
    /// Why it failed; none for the try that succeeded.
    pub error: Option<StoredError>,
    /// Whether nothing was run, because a cache had the outcome.
    pub cached: bool,
}

/// An error, as text for people and a class for machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredError {
    /// The class's name: `transient`, `timeout`, `panicked`, …
    pub class: String,
    /// The message with its causes.
    pub message: String,
}

/// A task's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeRecord {
    /// The superstep.
    pub step: u64,
    /// The node's name.
    pub node: Text,
    /// The place among the tasks of that node.
    pub index: u32,
    /// The exit's label; none for a node without exits, or where the failure was tolerated.
    pub exit: Option<Text>,
    /// Whether the task failed and the graph tolerated it.
    pub tolerated: bool,
    /// What the node returned.
    pub changes: Few<StoredChange>,
    /// The tries, in order; the last one ended it.
    pub attempts: Few<StoredAttempt>,
    /// Why it failed, where an error exit took it on; `exit` is then that one's label.
    pub caught: Option<StoredError>,
}

/// A task's end inside a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the usual one, and a pointer to it would be an allocation"
)]
pub enum OutcomeRef {
    /// Kept here: a superstep of one task.
    Inline(OutcomeRecord),
    /// Recorded before, under this seq.
    At(u64),
}

/// A closed superstep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitRecord {
    /// The superstep that this closes.
    pub step: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The outcomes, in task-path order: the order in which they were reduced.
    pub outcomes: Few<OutcomeRef>,
    /// Values of the changed fields whose reducers cannot be replayed.
    pub values: Vec<StoredValue>,
    /// The edges taken.
    pub edges: Few<StoredEdge>,
    /// What runs next, in the order in which its updates will be merged.
    pub frontier: Few<StoredTask>,
    /// Joins that wait.
    pub joins: Vec<StoredJoin>,
    /// Timers of joins that wait only for a time, by seq of their record.
    pub timers: Vec<u64>,
    /// Running, or finished where nothing is left.
    pub status: Status,
}

/// A whole state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseRecord {
    /// The input or commit that it is the state of.
    pub at: u64,
    /// The fields.
    pub fields: Vec<BaseField>,
}

/// One field of a base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseField {
    /// The field's name.
    pub field: String,
    /// The codec of the bytes.
    pub codec: u8,
    /// The value.
    pub value: BaseValue,
}

/// How a base holds a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaseValue {
    /// As one value.
    Whole(#[serde(with = "super::bytes")] Vec<u8>),
    /// As items: sealed segments in order, then what is not yet sealed. Segments without items are
    /// the pieces of one long value, in order.
    Items {
        /// Sealed segments, oldest first.
        sealed: Vec<SegmentRef>,
        /// The items after the last sealed one.
        #[serde(with = "super::bytes")]
        tail: Vec<u8>,
        /// How many items the tail has.
        tail_items: u64,
    },
}

/// Names a sealed segment of this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SegmentRef {
    /// The first 16 bytes of the BLAKE3 hash of its bytes.
    #[serde(with = "super::bytes::short")]
    pub id: [u8; 16],
    /// How many items it has; 0 for a piece of one value.
    pub items: u64,
    /// How many bytes it has.
    pub bytes: u32,
}

/// A call that ended inside a superstep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoppedRecord {
    /// The superstep that stays open.
    pub step: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// How the thread stands.
    pub status: Status,
    /// Why, where it failed: the error that the caller got.
    pub error: Option<StoredError>,
    /// The tasks that failed, with their tries.
    pub failed: Vec<FailedTask>,
}

/// A task that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTask {
    /// The node's name.
    pub node: String,
    /// The place among the tasks of that node.
    pub index: u32,
    /// The tries.
    pub attempts: Vec<StoredAttempt>,
}

/// The recorded result of a durable step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The task's path, as text.
    pub task: String,
    /// The author's key.
    pub key: String,
    /// The result type's name.
    pub type_name: String,
    /// The serde shape of the result, as text.
    pub shape: String,
    /// The result, as MessagePack with names.
    #[serde(with = "super::bytes")]
    pub value: Vec<u8>,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionRecord {
    /// The task's path, as text.
    pub task: String,
    /// The author's key.
    pub key: String,
    /// The question type's name.
    pub type_name: String,
    /// The answer's schema, as text.
    pub answer: String,
    /// The question, as MessagePack with names.
    #[serde(with = "super::bytes")]
    pub value: Vec<u8>,
    /// When it expires, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
    /// What counts as its answer from then on, as MessagePack with names.
    #[serde(with = "super::bytes::maybe")]
    pub default: Option<Vec<u8>>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerRecord {
    /// The seq of the question.
    pub question: u64,
    /// The answer, as MessagePack with names.
    #[serde(with = "super::bytes")]
    pub value: Vec<u8>,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
}

/// A wake-up time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerRecord {
    /// The task's path, as text.
    pub task: String,
    /// The author's key.
    pub key: String,
    /// When it is due, in milliseconds since 1970.
    pub due_ms: u64,
}

/// Reserved: how to undo an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompensationRecord {
    /// The task's path, as text.
    pub task: String,
    /// The node that undoes.
    pub undo: String,
    /// What the node needs, as MessagePack with names.
    #[serde(with = "super::bytes")]
    pub value: Vec<u8>,
}

/// A record of the log of a subgraph, inside of an open superstep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InnerRecord {
    /// The path of the task that runs the subgraph, as text.
    pub path: String,
    /// The place in that subgraph's own log.
    pub seq: u64,
    /// The inner record, framed like an outer one.
    #[serde(with = "super::bytes")]
    pub record: Vec<u8>,
}

/// A branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchRecord {
    /// The new branch's number.
    pub branch: u32,
    /// The branch it leaves: that of the position `at`.
    pub parent: u32,
    /// The position from which it goes on, which is the last record that both share.
    pub at: u64,
}

/// The body of an irreversible task begins, or goes on after a wait. Without an end behind it, nobody
/// knows whether the task did what it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BegunRecord {
    /// The task's path, as text.
    pub task: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
}

/// Outcomes that somebody has discarded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscardedRecord {
    /// The superstep, which is open.
    pub step: u64,
    /// The outcomes, by seq.
    pub outcomes: Vec<u64>,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
}
