//! Running tasks again by hand: what they had brought is discarded, the superstep stays open.

use super::handle::{Run, Stage};
use super::{Command, Report, RunError, Runner};
use crate::engine::Task;
use crate::event::EventKind;
use crate::ids::{TaskPath, ThreadId};
use crate::policy::now_ms;
use crate::state::State;
use crate::store::DiscardedRecord;

impl<S: State> Runner<S> {
    /// Discards what tasks of the open superstep have brought, and runs the thread on: they run
    /// again. The same as [`run`](Self::run) with [`Command::retry`].
    ///
    /// # Errors
    /// [`RunError::NoTask`], which shows what is open; and those of a run.
    pub async fn retry(
        &self,
        thread: &ThreadId,
        tasks: impl IntoIterator<Item = TaskPath>,
    ) -> Result<Report<S>, RunError> {
        self.run(thread, Command::retry(tasks)).await
    }
}

impl<S: State> Run<S> {
    /// Discards what tasks of the open superstep have brought: the next step, or the next call, runs
    /// them again.
    ///
    /// A run without a store whose superstep is merged already, and could only not be decided, has
    /// none to discard any more: it decides again by itself.
    ///
    /// # Errors
    /// [`RunError::NoTask`], [`RunError::Over`]; then nothing is discarded.
    pub async fn retry(
        &mut self,
        tasks: impl IntoIterator<Item = TaskPath>,
    ) -> Result<(), RunError> {
        if self.over {
            let thread = self.thread().clone();
            return Err(RunError::Over { thread });
        }
        let tasks: Vec<_> = tasks.into_iter().collect();
        self.discard(&tasks).await
    }

    pub(super) async fn discard(&mut self, tasks: &[TaskPath]) -> Result<(), RunError> {
        let (step, all, recorded) = match &self.stage {
            Stage::At(position) => (
                position.step + 1,
                position.frontier.as_slice(),
                &position.recorded,
            ),
            Stage::Open(superstep) => (
                superstep.step,
                superstep.tasks.as_slice(),
                &superstep.recorded,
            ),
            Stage::Merged(_) | Stage::Between => (0, &[][..], &Vec::new()),
        };
        let path = |task: &Task| self.shared.path(step, task.node, task.index);
        let ended = |place: usize| recorded.iter().any(|(known, _)| *known == place);
        let mut places = Vec::with_capacity(tasks.len());
        for task in tasks {
            let Some(place) = all.iter().position(|known| path(known) == *task) else {
                let open = all.iter().enumerate();
                let open = open.map(|(place, task)| (path(task), ended(place)));
                return Err(RunError::NoTask {
                    thread: self.thread().clone(),
                    task: task.clone(),
                    open: open.collect(),
                });
            };
            if ended(place) && !places.contains(&place) {
                places.push(place);
            }
        }
        places.sort_unstable();
        if places.is_empty() {
            return Ok(());
        }
        let tasks: Vec<_> = places.iter().map(|place| path(&all[*place])).collect();
        let at_ms = now_ms();
        let gone = |place: &usize| places.contains(place);
        let mut seq = None;
        if let Some(log) = &mut self.log {
            let outcomes = self.recorded.iter().filter(|(place, _)| gone(place));
            let discarded = DiscardedRecord {
                step,
                outcomes: outcomes.map(|(_, seq)| *seq).collect(),
                at_ms,
            };
            self.over = true;
            seq = Some(log.discarded(discarded).await?);
            self.over = false;
        }
        self.recorded.retain(|(place, _)| !gone(place));
        // A task that runs again asks anew what nobody has answered.
        self.questions
            .0
            .retain(|asking| asking.answer.is_some() || !gone(&asking.place));
        match &mut self.stage {
            Stage::At(position) => position.recorded.retain(|(place, _)| !gone(place)),
            Stage::Open(superstep) => superstep.recorded.retain(|(place, _)| !gone(place)),
            Stage::Merged(_) | Stage::Between => {}
        }
        self.shared
            .port
            .report(seq, || EventKind::Discarded { at_ms, tasks });
        Ok(())
    }
}
