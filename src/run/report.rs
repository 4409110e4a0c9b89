//! How a call ended.

use std::fmt;
use std::time::Duration;

use super::OpenQuestion;
use crate::ids::{RunId, Seq, Step, TaskPath, ThreadId};
use crate::state::Snapshot;

/// How a call ended, and where the thread stands then.
#[derive(Clone)]
#[non_exhaustive]
pub struct Report<S> {
    /// The thread.
    pub thread: ThreadId,
    /// The run.
    pub run: RunId,
    /// How the call ended.
    pub ended: Ended,
    /// The state: of the last closed superstep.
    pub state: Snapshot<S>,
    /// How many supersteps the thread has closed in its life.
    pub step: Step,
    /// The checkpoint; none without a store.
    pub seq: Option<Seq>,
    /// What waits for an answer.
    pub questions: Vec<OpenQuestion>,
    /// The task whose graph has used up its supersteps, where the call ended with
    /// [`Ended::StepLimit`] for that; none where the call's own limit is used up.
    pub limited: Option<TaskPath>,
}

impl<S: fmt::Debug> fmt::Debug for Report<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report")
            .field("thread", &self.thread)
            .field("run", &self.run)
            .field("ended", &self.ended)
            .field("step", &self.step)
            .field("seq", &self.seq)
            .field("questions", &self.questions)
            .field("limited", &self.limited)
            .field("state", &self.state)
            .finish()
    }
}

/// How a call ended that did not fail. Only [`Finished`](Ended::Finished) leaves nothing to do;
/// after the others, `Command::go_on` goes on, or `Command::answer` where questions are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// Nothing is left to run.
    Finished,
    /// It waits for answers, or was to pause here.
    Paused {
        /// How many questions are open; 0 for a pause that a caller has asked for.
        questions: usize,
    },
    /// It waits for a time to come.
    Parked {
        /// When the first of its tasks is to go on, in milliseconds since 1970.
        due_ms: u64,
    },
    /// A caller asked it to stop, or dropped the stream.
    Cancelled,
    /// It was asked to start no other superstep.
    Drained,
    /// It has used up its supersteps.
    StepLimit {
        /// The limit.
        limit: u64,
    },
    /// It has used up its time.
    Deadline {
        /// The time.
        after: Duration,
    },
}

impl Ended {
    /// Whether nothing is left to run.
    pub fn is_finished(self) -> bool {
        self == Ended::Finished
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Finished => f.write_str("finished"),
            Ended::Paused { questions: 0 } => f.write_str("paused, as was asked for"),
            Ended::Paused { questions: 1 } => f.write_str("waits for an answer"),
            Ended::Paused { questions } => write!(f, "waits for {questions} answers"),
            Ended::Parked { .. } => f.write_str("waits for a time to come"),
            Ended::Cancelled => f.write_str("cancelled"),
            Ended::Drained => f.write_str("drained, as was asked for"),
            Ended::StepLimit { limit: 1 } => f.write_str("stopped at its limit of 1 superstep"),
            Ended::StepLimit { limit } => write!(f, "stopped at its limit of {limit} supersteps"),
            Ended::Deadline { after } => write!(f, "stopped at its deadline of {after:?}"),
        }
    }
}
