//! Why a run failed.

use std::fmt;

use super::GraphChange;
use crate::ids::{Branch, NodeName, QuestionId, RunId, Seq, Step, TaskPath, ThreadId};
use crate::node::{ErrorClass, NodeError};
use crate::state::{CodecError, ReduceFault};
use crate::store::{Status, StoreError};

/// Why a run failed. With a store, everything that had finished is kept, the thread says that it
/// failed, and `Command::go_on` tries again what is left.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RunError {
    /// Tasks failed for good. What their siblings finished is recorded.
    Node {
        /// The thread.
        thread: ThreadId,
        /// The first failed task in path order.
        task: TaskPath,
        /// How often it was tried.
        attempts: u32,
        /// Its last error.
        error: NodeError,
        /// The other failed tasks of the superstep.
        others: Vec<(TaskPath, NodeError)>,
    },
    /// Two tasks of one superstep wrote a field that takes one writer. Nothing of it is committed.
    Conflict {
        /// The thread.
        thread: ThreadId,
        /// The field.
        field: &'static str,
        /// The first writer.
        first: TaskPath,
        /// The second writer.
        second: TaskPath,
    },
    /// A reducer refused or panicked. Nothing of the superstep is committed.
    Reduce {
        /// The thread.
        thread: ThreadId,
        /// The superstep; the last closed one where an input was refused.
        step: Step,
        /// The field.
        field: &'static str,
        /// Whether it panicked.
        panicked: bool,
        /// Why.
        fault: ReduceFault,
    },
    /// A decision (a branch, or the payloads of a fan-out) failed. The nodes are not run again.
    Route {
        /// The thread.
        thread: ThreadId,
        /// The superstep.
        step: Step,
        /// The node whose way out was to be decided; none for the start.
        node: Option<NodeName>,
        /// Why.
        error: NodeError,
    },
    /// A join waits, and nothing that is left can bring those that are missing. The superstep after
    /// which this was found stays open.
    UnsatisfiedJoin {
        /// The thread.
        thread: ThreadId,
        /// The superstep; the last closed one where an input was refused.
        step: Step,
        /// The join.
        join: NodeName,
        /// Who has not arrived.
        missing: Box<[NodeName]>,
        /// Who has arrived.
        arrived: Box<[NodeName]>,
        /// How many would be enough.
        enough: usize,
        /// The other joins that wait in vain.
        others: Box<[NodeName]>,
    },
    /// A task wrote a field that its node does not say it writes. Nothing of the superstep is
    /// committed.
    UndeclaredWrite {
        /// The thread.
        thread: ThreadId,
        /// The task.
        task: TaskPath,
        /// The field.
        field: &'static str,
        /// What the node says it writes.
        declared: Box<[&'static str]>,
    },
    /// The rule that settles a task that never finished failed or panicked. The input is refused, and
    /// nothing is changed.
    Settle {
        /// The thread.
        thread: ThreadId,
        /// The task.
        task: TaskPath,
        /// Why.
        error: NodeError,
    },
    /// A value cannot be stored. Nothing of the superstep is committed.
    Encode {
        /// The thread.
        thread: ThreadId,
        /// The superstep.
        step: Step,
        /// Where the value came from: a task, the input, or a payload.
        origin: String,
        /// The field, or the payload's type.
        field: String,
        /// Why.
        error: CodecError,
    },
    /// The store refused or failed.
    Store(StoreError),
    /// A new input came while a superstep is open.
    Unfinished {
        /// The thread.
        thread: ThreadId,
        /// How it stands.
        status: Status,
        /// The open superstep.
        step: Step,
    },
    /// A new input came while questions are open.
    PendingInterrupt {
        /// The thread.
        thread: ThreadId,
        /// The open questions.
        open: Vec<QuestionId>,
    },
    /// An answer came to a question that is not there.
    NoQuestion {
        /// The thread.
        thread: ThreadId,
        /// What was to be answered; none for an answer without an id.
        id: Option<QuestionId>,
        /// The open questions.
        open: Vec<QuestionId>,
    },
    /// An answer without an id came while several questions are open.
    AmbiguousAnswer {
        /// The thread.
        thread: ThreadId,
        /// The open questions.
        open: Vec<QuestionId>,
    },
    /// An answer is none of the type that the question is answered with. The question is open.
    WrongAnswer {
        /// The thread.
        thread: ThreadId,
        /// The question.
        id: QuestionId,
        /// The answer's Rust type and serde shape.
        expected: String,
        /// Why it is none.
        error: Box<CodecError>,
    },
    /// A task was to run again that is none of the open superstep. Nothing was discarded.
    NoTask {
        /// The thread.
        thread: ThreadId,
        /// What was named.
        task: TaskPath,
        /// The tasks of the open superstep, and whether each has ended; none where nothing is open.
        open: Vec<(TaskPath, bool)>,
    },
    /// The question has another answer already.
    AlreadyAnswered {
        /// The thread.
        thread: ThreadId,
        /// The question.
        id: QuestionId,
    },
    /// The run was to pause at a node that the graph does not have. Nothing was stored.
    NoPause {
        /// The graph.
        graph: String,
        /// What was named.
        node: String,
        /// The names that the graph has.
        known: Vec<NodeName>,
    },
    /// There is no such thread.
    NotFound {
        /// The thread.
        thread: ThreadId,
    },
    /// There is no such checkpoint.
    NoCheckpoint {
        /// The thread.
        thread: ThreadId,
        /// What was asked for.
        seq: Seq,
    },
    /// The checkpoint, or what it is read from, was dropped by a prune.
    Pruned {
        /// The thread.
        thread: ThreadId,
        /// What was asked for.
        seq: Seq,
    },
    /// A thread was to be rewound to a checkpoint that did not lead to where it stands.
    OtherLine {
        /// The thread.
        thread: ThreadId,
        /// The checkpoint.
        seq: Seq,
        /// Its branch.
        branch: Branch,
        /// The branch that the thread stands on.
        head: Branch,
    },
    /// There is no such branch.
    NoBranch {
        /// The thread.
        thread: ThreadId,
        /// What was asked for.
        branch: Branch,
        /// The branches that it has.
        known: Vec<Branch>,
    },
    /// A patch was to stand for a node that the graph does not have. Nothing was stored.
    NoNode {
        /// The graph.
        graph: String,
        /// What was named.
        node: String,
        /// The names that the graph has.
        known: Vec<NodeName>,
    },
    /// A patch, or an answer that a node ran, does not say by which exit the node is left, or names
    /// one that it does not have. Nothing was stored.
    NoExit {
        /// The node.
        node: NodeName,
        /// What was named; none where nothing was.
        exit: Option<String>,
        /// The exits that the node has.
        exits: Vec<String>,
    },
    /// The first input of a thread lacks a required field.
    MissingInput {
        /// The field.
        field: &'static str,
    },
    /// The thread belongs to another graph.
    OtherGraph {
        /// The thread.
        thread: ThreadId,
        /// The graph that it was written by.
        stored: String,
        /// The graph that was to run it.
        graph: String,
    },
    /// A stored field does not fit the program's.
    SchemaMismatch {
        /// The thread.
        thread: ThreadId,
        /// The checkpoint.
        at: Seq,
        /// The field, or the payload's worker.
        field: String,
        /// What is stored.
        stored: String,
        /// What the program has.
        program: String,
    },
    /// The stored frontier names a node that the graph does not have.
    UnknownNode {
        /// The thread.
        thread: ThreadId,
        /// The checkpoint.
        at: Seq,
        /// The stored name.
        node: String,
        /// The names that the graph has.
        known: Vec<NodeName>,
    },
    /// Every process that takes up this superstep dies of it.
    Poison {
        /// The thread.
        thread: ThreadId,
        /// The superstep.
        step: Step,
        /// How often it was taken over.
        takeovers: u32,
    },
    /// A state of an older version could not be lifted to this program's. The thread is untouched.
    Migrate {
        /// The thread.
        thread: ThreadId,
        /// The checkpoint.
        at: Seq,
        /// The state's name.
        state: &'static str,
        /// The version that was to be lifted.
        from: u32,
        /// The version to which.
        to: u32,
        /// Why not.
        error: NodeError,
    },
    /// The open superstep has results of an older version of the state, which are not merged yet:
    /// nothing can lift them. The state can be seen all the same, and the thread is untouched.
    OlderOutcomes {
        /// The thread.
        thread: ThreadId,
        /// The checkpoint before the open superstep.
        at: Seq,
        /// The open superstep.
        step: Step,
        /// The first task whose result is recorded.
        task: TaskPath,
        /// The version of the state that it was recorded with.
        stored: u32,
        /// This program's version.
        program: u32,
    },
    /// The thread was written with another version of its graph, and the run is pinned
    /// ([`RunOptions::pin`](super::RunOptions::pin), S050).
    GraphVersionMismatch {
        /// The thread.
        thread: ThreadId,
        /// The checkpoint from which it was to go on.
        at: Seq,
        /// The fingerprint of the graph that wrote it.
        stored: [u8; 16],
        /// This program's fingerprint.
        program: [u8; 16],
        /// What differs.
        changes: Vec<GraphChange>,
    },
    /// The run was given up for a later input and has no end of its own.
    Superseded {
        /// The thread.
        thread: ThreadId,
        /// The run.
        run: RunId,
    },
    /// The runtime ended under the run. What was recorded is kept.
    Interrupted {
        /// The thread.
        thread: ThreadId,
        /// What the runtime said.
        error: NodeError,
    },
    /// The call was made outside of a tokio runtime. Nothing was stored.
    NoRuntime {
        /// The thread.
        thread: ThreadId,
    },
    /// The tokio runtime has no timer, and this run needs one: it has a time limit, a retry or a
    /// way to be stopped. Nothing was stored.
    NoTimer {
        /// The thread.
        thread: ThreadId,
    },
    /// The handle has failed before; take the thread up again.
    Over {
        /// The thread.
        thread: ThreadId,
    },
}

impl RunError {
    /// The class under which the error is stored and shown.
    pub fn class(&self) -> &'static str {
        match self {
            RunError::Node { error, .. } | RunError::Route { error, .. } => error.class().name(),
            RunError::Conflict { .. } => "conflict",
            RunError::Reduce { panicked: true, .. } => ErrorClass::Panicked.name(),
            RunError::Reduce { .. } => "refused",
            RunError::UnsatisfiedJoin { .. } => "unsatisfied_join",
            RunError::UndeclaredWrite { .. } => "undeclared_write",
            RunError::Settle { .. } => "settle",
            RunError::Encode { .. } => "serialization",
            RunError::Store(_) => "store",
            RunError::Unfinished { .. } => "unfinished",
            RunError::PendingInterrupt { .. } => "pending_interrupt",
            RunError::NoQuestion { .. } => "no_question",
            RunError::AmbiguousAnswer { .. } => "ambiguous_answer",
            RunError::WrongAnswer { .. } => "wrong_answer",
            RunError::NoTask { .. } => "no_task",
            RunError::AlreadyAnswered { .. } => "already_answered",
            RunError::NoPause { .. } => "no_pause",
            RunError::NotFound { .. } => "not_found",
            RunError::NoCheckpoint { .. } => "no_checkpoint",
            RunError::Pruned { .. } => "pruned",
            RunError::OtherLine { .. } => "other_line",
            RunError::NoBranch { .. } => "no_branch",
            RunError::NoNode { .. } => "no_node",
            RunError::NoExit { .. } => "no_exit",
            RunError::MissingInput { .. } => "missing_input",
            RunError::OtherGraph { .. } => "other_graph",
            RunError::SchemaMismatch { .. } => "schema_mismatch",
            RunError::UnknownNode { .. } => "unknown_node",
            RunError::Migrate { .. } => "migrate",
            RunError::OlderOutcomes { .. } => "older_outcomes",
            RunError::GraphVersionMismatch { .. } => "graph_version_mismatch",
            RunError::Poison { .. } => "poison",
            RunError::Superseded { .. } => "superseded",
            RunError::Interrupted { .. } => "interrupted",
            RunError::NoRuntime { .. } => "no_runtime",
            RunError::NoTimer { .. } => "no_timer",
            RunError::Over { .. } => "over",
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Node {
                thread,
                task,
                attempts,
                error,
                others,
            } => {
                write!(
                    f,
                    "node \"{}\" failed (thread {thread}, task {task}, ",
                    task.task().node
                )?;
                match attempts {
                    1 => write!(f, "1 try): ")?,
                    tries => write!(f, "{tries} tries): ")?,
                }
                f.write_str(&error.full())?;
                for (task, error) in others {
                    write!(f, "\nalso failed: task {task}: {}", error.full())?;
                }
                Ok(())
            }
            RunError::Conflict {
                thread,
                field,
                first,
                second,
            } => write!(
                f,
                "field \"{field}\" was written by \"{}\" (task {first}) and by \"{}\" (task {second}) in one superstep of thread {thread}, and its reducer takes one writer: give the field a reducer, or order the nodes",
                first.task().node,
                second.task().node
            ),
            RunError::Reduce {
                thread,
                step,
                field,
                panicked,
                fault,
            } => {
                let what = if *panicked { "panicked" } else { "refused" };
                write!(
                    f,
                    "the reducer of field \"{field}\" {what} (thread {thread}, superstep {step}): {fault}"
                )
            }
            RunError::Route {
                thread,
                step,
                node,
                error,
            } => {
                match node {
                    Some(node) => write!(f, "the way out of node \"{node}\" could not be decided")?,
                    None => write!(f, "what runs first could not be decided")?,
                }
                write!(f, " (thread {thread}, superstep {step}): {}", error.full())
            }
            RunError::UnsatisfiedJoin {
                thread,
                step,
                join,
                missing,
                arrived,
                enough,
                others,
            } => {
                write!(
                    f,
                    "\"{join}\" waits in vain (thread {thread}, superstep {step}): {} arrived, {} did not and cannot any more, and it needs {enough}",
                    named(arrived),
                    named(missing),
                )?;
                if !others.is_empty() {
                    write!(f, "; so do {}", named(others))?;
                }
                f.write_str(". A `gather` goes on with those that were started")
            }
            RunError::UndeclaredWrite {
                thread,
                task,
                field,
                declared,
            } => write!(
                f,
                "node \"{}\" wrote field \"{field}\" (thread {thread}, task {task}), and says that it writes {}: declare it with `writes`, or do not write it",
                task.task().node,
                match &**declared {
                    [] => "nothing".to_owned(),
                    fields => fields.join(", "),
                }
            ),
            RunError::Settle {
                thread,
                task,
                error,
            } => write!(
                f,
                "the rule of node \"{}\" for tasks that never finish could not settle task {task} (thread {thread}), so the input was refused and nothing is changed: {}",
                task.task().node,
                error.full()
            ),
            RunError::Encode {
                thread,
                step,
                origin,
                field,
                error,
            } => {
                write!(
                    f,
                    "{origin} gave a value for \"{field}\" that cannot be stored (thread {thread}, superstep {step}): {error}"
                )
            }
            RunError::Store(error) => error.fmt(f),
            RunError::Unfinished {
                thread,
                status,
                step,
            } => write!(
                f,
                "thread {thread} is {status} inside superstep {step}: go on with it, or abandon it to start anew"
            ),
            RunError::PendingInterrupt { thread, open } => write!(
                f,
                "thread {thread} waits for answers ({}): answer them, or abandon the run to start anew",
                listed(open)
            ),
            RunError::NoQuestion { thread, id, open } => {
                match id {
                    Some(id) => write!(f, "thread {thread} has no open question {id}")?,
                    None => write!(f, "thread {thread} has no open question")?,
                }
                match open.as_slice() {
                    [] => Ok(()),
                    open => write!(f, "; open are {}", listed(open)),
                }
            }
            RunError::AmbiguousAnswer { thread, open } => write!(
                f,
                "thread {thread} has several open questions: say which one is answered, of {}",
                listed(open)
            ),
            RunError::WrongAnswer {
                thread,
                id,
                expected,
                error,
            } => write!(
                f,
                "the answer to {id} of thread {thread} was not accepted, and the question is still open.\nexpected: {expected}\nfound:    {error}"
            ),
            RunError::NoTask { thread, task, open } => {
                write!(f, "thread {thread} has no open task {task} to run again")?;
                let open: Vec<_> = open
                    .iter()
                    .map(|(task, ended)| match ended {
                        true => format!("{task} (ended)"),
                        false => format!("{task} (left to run)"),
                    })
                    .collect();
                match open.as_slice() {
                    [] => f.write_str(": no superstep is open"),
                    open => write!(f, "; open are {}", open.join(", ")),
                }
            }
            RunError::AlreadyAnswered { thread, id } => write!(
                f,
                "question {id} of thread {thread} has another answer already, which stays"
            ),
            RunError::NoPause { graph, node, known } => {
                let known: Vec<_> = known.iter().map(|name| format!("\"{name}\"")).collect();
                write!(
                    f,
                    "a pause was asked for at node \"{node}\", which graph \"{graph}\" does not have; it has {}",
                    known.join(", ")
                )
            }
            RunError::NotFound { thread } => write!(f, "there is no thread {thread}"),
            RunError::NoCheckpoint { thread, seq } => {
                write!(
                    f,
                    "thread {thread} has no checkpoint {seq}: its history lists those it has"
                )
            }
            RunError::Pruned { thread, seq } => write!(
                f,
                "checkpoint {seq} of thread {thread} was pruned: its history lists those that are left"
            ),
            RunError::OtherLine {
                thread,
                seq,
                branch,
                head,
            } => write!(
                f,
                "checkpoint {seq} of thread {thread} is on branch {branch} and did not lead to where the thread stands, on branch {head}: fork it there, or switch to branch {branch} first"
            ),
            RunError::NoBranch {
                thread,
                branch,
                known,
            } => {
                let known: Vec<_> = known.iter().map(Branch::to_string).collect();
                let known = known.join(", ");
                write!(f, "thread {thread} has no branch {branch}; it has {known}")
            }
            RunError::NoNode { graph, node, known } => {
                let known: Vec<_> = known.iter().map(|name| format!("\"{name}\"")).collect();
                write!(
                    f,
                    "a patch was to stand for node \"{node}\", which graph \"{graph}\" does not have; it has {}",
                    known.join(", ")
                )
            }
            RunError::NoExit { node, exit, exits } => {
                match exit {
                    Some(exit) => write!(f, "node \"{node}\" has no exit \"{exit}\"")?,
                    None => write!(f, "by which exit is node \"{node}\" left?")?,
                }
                match exits.as_slice() {
                    [] => f.write_str("; it has one way out, which needs no name"),
                    exits => write!(f, "; it has {}", exits.join(", ")),
                }
            }
            RunError::MissingInput { field } => {
                write!(
                    f,
                    "the first input of a thread must set the required field \"{field}\""
                )
            }
            RunError::OtherGraph {
                thread,
                stored,
                graph,
            } => {
                write!(
                    f,
                    "thread {thread} belongs to graph \"{stored}\", not to \"{graph}\""
                )
            }
            RunError::SchemaMismatch {
                thread,
                at,
                field,
                stored,
                program,
            } => write!(
                f,
                "\"{field}\" of thread {thread} does not fit this program (checkpoint {at}).\nstored:  {stored}\nprogram: {program}\nThe thread is untouched: an older program can still open it"
            ),
            RunError::UnknownNode {
                thread,
                at,
                node,
                known,
            } => {
                let known: Vec<_> = known.iter().map(|name| format!("\"{name}\"")).collect();
                write!(
                    f,
                    "thread {thread} is to go on at node \"{node}\" (checkpoint {at}), which this graph does not have; it has {}",
                    known.join(", ")
                )
            }
            RunError::Migrate {
                thread,
                at,
                state,
                from,
                to,
                error,
            } => write!(
                f,
                "version {from} of `{state}` could not be lifted to version {to} (thread {thread}, checkpoint {at}): {}\nThe thread is untouched: an older program can still open it",
                error.full()
            ),
            RunError::OlderOutcomes {
                thread,
                at,
                step,
                task,
                stored,
                program,
            } => write!(
                f,
                "superstep {step} of thread {thread} is open, and has results of version {stored} of the state (of task {task}, maybe others), which version {program} cannot merge. Finish it with the program that began it, or fork the thread at checkpoint {at}: then its tasks run again"
            ),
            RunError::GraphVersionMismatch {
                thread,
                at,
                stored,
                program,
                changes,
            } => {
                write!(
                    f,
                    "thread {thread} was written with another version of its graph (checkpoint {at}), and the run is pinned.\nstored:  {:032x}\nprogram: {:032x}",
                    u128::from_be_bytes(*stored),
                    u128::from_be_bytes(*program)
                )?;
                for change in changes {
                    write!(f, "\n- {change}")?;
                }
                Ok(())
            }
            RunError::Poison {
                thread,
                step,
                takeovers,
            } => write!(
                f,
                "superstep {step} of thread {thread} was taken up {takeovers} times after a crash, and not once survived: find out what kills the process, then go on with the thread"
            ),
            RunError::Superseded { thread, run } => {
                write!(
                    f,
                    "run {run} of thread {thread} was given up for a later input"
                )
            }
            RunError::Interrupted { thread, error } => {
                write!(
                    f,
                    "the run of thread {thread} was ended from outside: {error}"
                )
            }
            RunError::NoRuntime { thread } => {
                write!(
                    f,
                    "thread {thread} cannot be run outside of a tokio runtime: call it in one, from `#[tokio::main]` or by `Runtime::block_on`"
                )
            }
            RunError::NoTimer { thread } => {
                write!(
                    f,
                    "thread {thread} cannot be run in a tokio runtime without a timer, for it has a time limit, a retry or a way to be stopped: build the runtime with `enable_time` or `enable_all`"
                )
            }
            RunError::Over { thread } => {
                write!(
                    f,
                    "this run of thread {thread} has failed before: take the thread up again"
                )
            }
        }
    }
}

fn named(names: &[NodeName]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    names.join(", ")
}

fn listed(ids: &[QuestionId]) -> String {
    let ids: Vec<_> = ids.iter().map(QuestionId::to_string).collect();
    ids.join(", ")
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RunError::Node { error, .. } | RunError::Route { error, .. } => error.inner().source(),
            RunError::Store(error) => std::error::Error::source(error),
            _ => None,
        }
    }
}

impl From<StoreError> for RunError {
    fn from(error: StoreError) -> Self {
        RunError::Store(error)
    }
}
