//! Running tasks again by hand: what they had brought is discarded, the superstep stays open.

use std::sync::Arc;

use super::handle::{Run, Stage};
use super::{Command, Report, RunError, Runner, record};
use crate::engine::Task;
use crate::event::EventKind;
use crate::ids::{Seq, TaskPath, ThreadId};
use crate::policy::now_ms;
use crate::state::State;
use crate::store::{DiscardedRecord, Record};

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
        for place in &places {
            let task = &all[*place];
            self.doubt(*place, (step, task.node, task.index), at_ms);
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
        // A graph that such a task runs begins anew.
        for task in &tasks {
            self.shared.port.inners.restart(task);
        }
        self.shared
            .port
            .report(seq, || EventKind::Discarded { at_ms, tasks });
        Ok(())
    }
}

/// Leaves out what is void of an open superstep: outcomes, and the logs of the graphs that their
/// tasks ran.
pub(super) fn forget(
    open: &mut Vec<(u64, Arc<Record>)>,
    inner: &mut Vec<(Seq, Arc<Record>)>,
    discarded: &DiscardedRecord,
) {
    let is_void = |seq: &u64| discarded.outcomes.contains(seq);
    let mut tasks = Vec::with_capacity(discarded.outcomes.len());
    for (_, record) in open.iter().filter(|(seq, _)| is_void(seq)) {
        if let Record::Outcome(outcome) = &**record {
            tasks.extend(record::task(outcome));
        }
    }
    open.retain(|(seq, _)| !is_void(seq));
    let is_within = |record: &Record| match record {
        Record::Inner(inner) => inner.path.parse().is_ok_and(|path: TaskPath| {
            let outer = path.levels().first();
            tasks.iter().any(|task| task.levels().first() == outer)
        }),
        _ => false,
    };
    inner.retain(|(_, record)| !is_within(record));
}
