//! A task that never finished, as a rule that settles it sees it.

use std::fmt;

use serde::de::DeserializeOwned;

use super::{KeptStep, NodeError};
use crate::event::ErrorText;
use crate::ids::{QuestionId, TaskPath};
use crate::state::{Codec, shape_of};

/// A task that never finished: its superstep is closed without it, because a new input came. What
/// [`Builder::settle`](crate::Builder::settle) gives its rule.
pub struct Unfinished<'a, P = ()> {
    task: &'a TaskPath,
    payload: &'a P,
    why: &'a WhyUnfinished,
    steps: &'a [KeptStep],
}

/// Why a task never finished.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyUnfinished {
    /// It waits for answers that will not come any more.
    Asked(Vec<QuestionId>),
    /// It failed in the last call, and was given up.
    Failed(ErrorText),
    /// Its run was cancelled. It may or may not have begun.
    Cancelled,
    /// Its call ended before it: at a limit, by a crash, or because a sibling had failed. It may or
    /// may not have begun.
    Left,
}

impl<P: fmt::Debug> fmt::Debug for Unfinished<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfinished")
            .field("task", self.task)
            .field("payload", self.payload)
            .field("why", self.why)
            .finish_non_exhaustive()
    }
}

impl<'a, P> Unfinished<'a, P> {
    pub(crate) fn new(
        task: &'a TaskPath,
        payload: &'a P,
        why: &'a WhyUnfinished,
        steps: &'a [KeptStep],
    ) -> Self {
        Self {
            task,
            payload,
            why,
            steps,
        }
    }

    /// The task.
    pub fn task(&self) -> &'a TaskPath {
        self.task
    }

    /// A worker's payload; `()` of a plain node.
    pub fn payload(&self) -> &'a P {
        self.payload
    }

    /// Why it never finished.
    pub fn why(&self) -> &'a WhyUnfinished {
        self.why
    }

    /// The recorded result of one of its durable steps ([`Context::step`](super::Context::step));
    /// none where the step has not succeeded.
    ///
    /// # Errors
    /// [`NodeError`] of the class `invalid` if the result has another type.
    pub fn step<T: DeserializeOwned + 'static>(&self, key: &str) -> Result<Option<T>, NodeError> {
        let Some(kept) = self.steps.iter().find(|step| step.key == key) else {
            return Ok(None);
        };
        let shape = shape_of::<T>();
        let decoded = match kept.shape == shape {
            true => Codec::MessagePack.decode(&kept.value).map(Some),
            false => {
                return Err(NodeError::invalid(format!(
                    "step \"{key}\" was recorded as {} ({}), and is now asked for as {} ({shape})",
                    kept.type_name,
                    kept.shape,
                    std::any::type_name::<T>()
                )));
            }
        };
        decoded.map_err(NodeError::invalid)
    }
}
