//! Why a graph inside of a node did not come to its end, and what its task waits for then.

use super::log::InnerLogs;
use crate::ids::{QuestionId, Seq, TaskPath};
use crate::run::OpenQuestion;
use crate::run::ask::{Asking, Inside};

/// Why a graph that a node runs did not come to its end. None of it is a failure.
pub(crate) enum Held {
    /// Tasks inside wait.
    Resting(Resting),
    /// It has used up its supersteps: how many, and the task whose graph it is.
    Limited(u64, TaskPath),
    /// It was told to stop, and did.
    Stopped,
}

/// What tasks inside of a subgraph wait for.
#[derive(Debug, Default)]
pub(crate) struct Resting {
    /// Their questions, with whole ids.
    pub(crate) questions: Vec<Asking>,
    /// When the first of them goes on by itself, in milliseconds since 1970.
    pub(crate) due_ms: Option<u64>,
    /// Whether all of them can only wait. If not, the questions can be answered all the same.
    pub(crate) rests: bool,
}

impl Resting {
    /// What a subgraph waits for by its log; none where it has no log.
    pub(super) fn of(logs: &InnerLogs, path: &TaskPath, now_ms: u64) -> Option<Self> {
        let (rests, tasks) = logs.resting(path)?;
        let mut resting = Self {
            rests,
            ..Self::default()
        };
        for (task, open) in tasks {
            let due = open.due_ms();
            resting.rests &= due.is_none_or(|due| due > now_ms);
            resting.due_ms = match (resting.due_ms, due) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            let log = task.outer();
            for asked in open.questions.iter().filter(|asked| !asked.answered) {
                let Some(log) = log.clone() else { continue };
                let id = QuestionId::new(task.clone(), &asked.record.key);
                let inside = Inside {
                    log,
                    seq: asked.seq,
                    rests: true,
                };
                resting.questions.push(Asking {
                    place: 0,
                    open: OpenQuestion::of(id, asked.at.get(), &asked.record),
                    default: None,
                    answer: None,
                    expired: false,
                    inside: Some(inside),
                });
            }
        }
        resting
            .questions
            .sort_by_key(|asking| asking.open.seq.map(Seq::get));
        Some(resting)
    }
}
