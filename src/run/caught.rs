//! Failures that error exits take on, of tasks that no body brought to their end; and outcomes of
//! failed tasks as they are read again.

use super::RunError;
use super::close::Failed;
use super::handle::{Progress, Run, Stage};
use super::replay::Reader;
use crate::engine::{Caught, Ended, Task};
use crate::graph::Entry;
use crate::ids::{NodeName, Seq, Step, TaskPath};
use crate::node::{ErrorClass, Failure};
use crate::state::State;
use crate::store::{OutcomeRecord, StoredError};

impl<S: State> Run<S> {
    /// Has error exits take on what they catch of these failed tasks of the open superstep, and
    /// records that. Returns the others.
    pub(super) async fn catch(&mut self, failed: Vec<Failed>) -> Result<Vec<Failed>, RunError> {
        if failed.is_empty() || self.shared.port.stop.is_cancelled() {
            return Ok(failed);
        }
        let Stage::Open(superstep) = &self.stage else {
            unreachable!("the superstep is open")
        };
        let step = superstep.step;
        let (mut done, mut left) = (Vec::new(), Vec::new());
        for (path, error, attempts) in failed {
            let is_it = |task: &Task| self.shared.path(step, task.node, task.index) == path;
            let place = superstep.tasks.iter().position(is_it);
            let caught = place.and_then(|place| {
                let task = &superstep.tasks[place];
                let task = (step, task.node, task.index);
                let caught = self.shared.caught(task, &error, attempts.len())?;
                Some((place, caught))
            });
            match caught {
                Some((place, outcome)) => done.push((place, outcome, attempts)),
                None => left.push((path, error, attempts)),
            }
        }
        self.take_outcomes(done).await?;
        Ok(left)
    }

    /// Whether all tasks of the open superstep have ended.
    pub(super) fn has_ended(&self) -> bool {
        matches!(&self.stage, Stage::Open(superstep)
            if superstep.recorded.len() == superstep.tasks.len())
    }

    /// Whether all tasks of the open superstep have ended or wait.
    pub(super) fn is_complete(&self) -> bool {
        let Stage::Open(superstep) = &self.stage else {
            return false;
        };
        superstep.recorded.len() + self.waiting() == superstep.tasks.len()
    }

    /// Closes the open superstep, all of whose tasks have ended.
    pub(super) async fn close_complete(&mut self) -> Result<Progress, RunError> {
        let Stage::Open(superstep) = std::mem::replace(&mut self.stage, Stage::Between) else {
            unreachable!("the superstep is open")
        };
        self.close_many(superstep).await
    }
}

impl<S: State> Reader<'_, S> {
    /// How a task ended whose failure an error exit took on.
    pub(super) fn caught(
        &self,
        stored: &OutcomeRecord,
        error: &StoredError,
        entry: Option<&Entry<S>>,
        seq: Seq,
    ) -> Result<Ended, RunError> {
        let catches = entry
            .map(|entry| entry.catches.as_slice())
            .unwrap_or_default();
        let label = stored.exit.as_deref().unwrap_or_default();
        let exit = catches.iter().position(|catch| catch.label == label);
        let found = NodeName::new(&stored.node).ok();
        let found = found.zip(ErrorClass::named(&error.class)).zip(exit);
        let Some(((node, class), exit)) = found else {
            let exits: Vec<_> = catches.iter().map(|catch| catch.label).collect();
            let left = format!(
                "failed ({}), left by error exit {label:?} (record {seq})",
                error.class
            );
            return Err(self.mismatch(
                &stored.node,
                left,
                format!("its error exits are {exits:?}"),
            ));
        };
        let failure = Failure {
            task: TaskPath::new(Step::new(stored.step), node.clone(), stored.index),
            node,
            class,
            message: error.message.clone(),
            attempts: u32::try_from(stored.attempts.len())
                .unwrap_or(u32::MAX)
                .max(1),
        };
        Ok(Ended::Failed(Box::new(Caught {
            exit: exit as u32,
            failure,
        })))
    }
}
