//! What happened: the only report a run makes.
//!
//! In come facts of the driver and of nodes, out goes one enum in the order of the data path. An
//! event carries updates as names and bytes, never a state. What is not marked "live only" is a
//! projection of the stored records: a listener and a reader of the log see the same list.

use serde::{Deserialize, Serialize};

use crate::ids::{Branch, Epoch, NodeName, QuestionId, RunId, Seq, Step, TaskPath, ThreadId};

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The claim under which it happened.
    pub epoch: Epoch,
    /// The record that says so; none for what is live only, and without a store. A run tells what is
    /// recorded in this order, but that graphs inside which run at the same time are told as they come:
    /// all that is before a `Committed` of the outermost graph is told before it.
    pub seq: Option<Seq>,
    /// The task that runs the graph in which it happened; none for the outermost graph. Steps,
    /// nodes and edges of the event are that graph's own; paths of tasks are whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<TaskPath>,
    /// What happened.
    pub kind: EventKind,
}

impl Event {
    /// The same, as it happened in the graph that a task runs: paths of tasks are those below it.
    pub(crate) fn within(mut self, outer: &TaskPath) -> Self {
        if let Some(task) = self.kind.task_mut() {
            *task = task.within(outer);
        }
        match &mut self.kind {
            EventKind::SuperstepStarted { tasks, .. } => {
                tasks.iter_mut().for_each(|task| *task = task.within(outer));
            }
            EventKind::Asked { id, .. } | EventKind::Answered { id, .. } => {
                *id = id.within(outer);
            }
            _ => {}
        }
        self.within = Some(match self.within {
            Some(inner) => inner.within(outer),
            None => outer.clone(),
        });
        self
    }
}

/// What happened. The variants stand in the order of the data path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// An input was accepted; the run begins.
    Started {
        /// The thread.
        thread: ThreadId,
        /// The run.
        run: RunId,
        /// When, in milliseconds since 1970.
        at_ms: u64,
        /// The input.
        update: Vec<FieldUpdate>,
        /// The edges taken out of the start.
        edges: Vec<TakenEdge>,
        /// What runs first.
        next: Vec<NodeName>,
    },
    /// The thread was taken up again where another call had left it.
    Resumed {
        /// The thread.
        thread: ThreadId,
        /// The run.
        run: RunId,
        /// When, in milliseconds since 1970.
        at_ms: u64,
        /// How many supersteps are closed.
        step: Step,
        /// How often the open superstep was taken over after a crash, this time included.
        takeover: u32,
    },
    /// The thread went back to an earlier checkpoint, on a branch of its own.
    Branched {
        /// The new branch.
        branch: Branch,
        /// The branch that it leaves.
        parent: Branch,
        /// The checkpoint from which it goes on.
        at: Seq,
    },
    /// Somebody has discarded what tasks of the open superstep had brought: they run again.
    Discarded {
        /// When, in milliseconds since 1970.
        at_ms: u64,
        /// The tasks, in path order.
        tasks: Vec<TaskPath>,
    },
    /// A superstep begins. Live only.
    SuperstepStarted {
        /// The superstep.
        step: Step,
        /// The tasks that are to run, in path order.
        tasks: Vec<TaskPath>,
    },
    /// A task is tried. Live only.
    TaskStarted {
        /// The task.
        task: TaskPath,
        /// The try, from 1.
        attempt: u32,
    },
    /// The body of an irreversible task begins, or goes on after a wait; with a store, that is
    /// durable before it does.
    Begun {
        /// The task.
        task: TaskPath,
        /// When, in milliseconds since 1970.
        at_ms: u64,
    },
    /// A piece of text from a node. Live only.
    Token {
        /// The task.
        task: TaskPath,
        /// The text.
        text: String,
    },
    /// An event of a node's own. Live only.
    Custom {
        /// The task.
        task: TaskPath,
        /// The name that the node gave.
        name: String,
        /// The value, as MessagePack with names.
        value: Vec<u8>,
    },
    /// A task ended; with a store, its record is durable, or where the run does not wait for that
    /// ([`Durability`](crate::Durability)), accepted.
    TaskFinished {
        /// The task.
        task: TaskPath,
        /// How many tries it took.
        attempts: u32,
        /// How long the last try took, in microseconds; 0 where no clock was read.
        micros: u64,
        /// The tries, in order; empty where no clock was read.
        tries: Vec<Try>,
        /// The exit, for a node that has some.
        exit: Option<String>,
        /// The error that the graph tolerated, where it failed.
        tolerated: Option<ErrorText>,
        /// What it returned.
        update: Vec<FieldUpdate>,
    },
    /// A task asks, and waits for the answer; with a store, the question is durable.
    Asked {
        /// The question's id, with the task that asks.
        id: QuestionId,
        /// The question's Rust type.
        type_name: String,
        /// The question, as MessagePack with names.
        question: Vec<u8>,
        /// When it expires, in milliseconds since 1970.
        expires_ms: Option<u64>,
    },
    /// A durable step of a task succeeded, and its result is recorded.
    StepFinished {
        /// The task.
        task: TaskPath,
        /// The step's key.
        key: String,
    },
    /// A task waits for a time to come; with a store, the time is durable.
    TimerSet {
        /// The task.
        task: TaskPath,
        /// The wait's key.
        key: String,
        /// When it is over, in milliseconds since 1970.
        due_ms: u64,
    },
    /// A question was answered; with a store, the answer is durable.
    Answered {
        /// The question.
        id: QuestionId,
        /// The answer, as MessagePack with names.
        answer: Vec<u8>,
    },
    /// A task failed for good. Where an error exit took the failure on, the task has ended with it:
    /// with a store, its record is durable.
    TaskFailed {
        /// The task.
        task: TaskPath,
        /// How many tries it took.
        attempts: u32,
        /// The tries, in order; empty where no clock was read.
        tries: Vec<Try>,
        /// The last error.
        error: ErrorText,
        /// The error exit that took it on; none where the failure ended the call.
        exit: Option<String>,
    },
    /// A superstep closed; with a store, its commit is durable, or where the run does not wait for
    /// that, accepted.
    Committed {
        /// The superstep.
        step: Step,
        /// When, in milliseconds since 1970.
        at_ms: u64,
        /// The edges taken.
        edges: Vec<TakenEdge>,
        /// What runs next.
        next: Vec<NodeName>,
    },
    /// Every record up to this one is durable. Only where a run does not wait for that
    /// ([`Durability`](crate::Durability)), for else it is so when anything with a seq is told. Live
    /// only.
    Durable {
        /// The last such record.
        up_to: Seq,
    },
    /// The call ends.
    Ended {
        /// How: `finished`, `failed`, `cancelled`, `limited`, …
        status: String,
        /// When, in milliseconds since 1970.
        at_ms: u64,
        /// How many supersteps are closed.
        step: Step,
        /// Why, where it failed.
        error: Option<ErrorText>,
    },
}

impl EventKind {
    /// The task that it is about.
    fn task_mut(&mut self) -> Option<&mut TaskPath> {
        match self {
            EventKind::TaskStarted { task, .. }
            | EventKind::Token { task, .. }
            | EventKind::Custom { task, .. }
            | EventKind::TaskFinished { task, .. }
            | EventKind::StepFinished { task, .. }
            | EventKind::TimerSet { task, .. }
            | EventKind::TaskFailed { task, .. } => Some(task),
            _ => None,
        }
    }
}

/// A change of one field, as bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldUpdate {
    /// The field.
    pub field: String,
    /// The codec of the bytes: 1 MessagePack with names, 2 bincode.
    pub codec: u8,
    /// Whether the field was first set back to its default.
    pub cleared: bool,
    /// The value that the field was first set to.
    pub overwritten: Option<Vec<u8>>,
    /// What the reducer was given, in order.
    pub merged: Vec<Vec<u8>>,
}

/// One try of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Try {
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// How long it took, in microseconds.
    pub micros: u64,
    /// Why it failed; none for one that succeeded.
    pub error: Option<ErrorText>,
    /// Whether nothing was run, because a cache had the outcome.
    pub cached: bool,
}

/// An error as text, with its class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorText {
    /// The class: `transient`, `timeout`, `panicked`, …
    pub class: String,
    /// The message with its causes.
    pub message: String,
}

/// An edge that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenEdge {
    /// From which node; none for the start.
    pub from: Option<NodeName>,
    /// The exit's label; empty for a plain edge.
    pub label: String,
    /// To which node; none for the end.
    pub to: Option<NodeName>,
    /// How many tasks it led to.
    pub tasks: u32,
}
