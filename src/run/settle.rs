//! Closing a superstep without the outcomes of all its tasks.
//!
//! In comes what a thread has left open, out come the updates that settle its unfinished tasks, by
//! the rules of their nodes. Nothing is written here, and nothing is changed where a rule fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::RunError;
use super::ask::Questions;
use super::close::reduce_error;
use super::load::Memory;
use super::record::{self, Unstorable};
use crate::engine::{Outcome, Task, reduce_states};
use crate::graph::{Compiled, Leftover};
use crate::ids::{Step, TaskPath, ThreadId};
use crate::node::{ErrorClass, KeptStep, NodeError, WhyUnfinished};
use crate::state::{MergeFault, State, panic_message};
use crate::store::{Record, Status, StoredChange};

/// What a thread has left open.
pub(super) struct LeftOpen<'a, S: State> {
    pub(super) graph: &'a Compiled<S>,
    pub(super) thread: &'a ThreadId,
    /// The open superstep.
    pub(super) step: u64,
    /// The state before it.
    pub(super) before: &'a S,
    pub(super) tasks: &'a [Task],
    /// The finished tasks, by place.
    pub(super) finished: &'a [(usize, Outcome<S::Update>)],
    pub(super) status: Option<Status>,
    pub(super) questions: &'a Questions,
    pub(super) memory: &'a Memory,
    /// The last word of the call that left it.
    pub(super) stopped: Option<&'a Record>,
}

/// What settles tasks: of each its path and its update, in path order.
pub(super) struct Settled<U>(Vec<(TaskPath, U)>);

impl<S: State> LeftOpen<'_, S> {
    /// Asks the rules of the unfinished tasks.
    ///
    /// # Errors
    /// [`RunError::Settle`], [`RunError::UndeclaredWrite`].
    pub(super) fn settle(&self) -> Result<Settled<S::Update>, RunError> {
        let mut all = Vec::new();
        for (place, task) in self.tasks.iter().enumerate() {
            let entry = self.graph.node(task.node);
            let Some(rule) = &entry.settle else { continue };
            if self.finished.iter().any(|(ended, _)| *ended == place) {
                continue;
            }
            let path = TaskPath::new(Step::new(self.step), entry.name.clone(), task.index);
            let steps: Vec<KeptStep> = self
                .memory
                .steps
                .iter()
                .filter(|(at, _)| *at == place)
                .map(|(_, step)| step.clone())
                .collect();
            let left = Leftover {
                task: &path,
                payload: task.payload.as_ref(),
                why: &self.why(place, &path),
                steps: &steps,
            };
            let update = match catch_unwind(AssertUnwindSafe(|| rule(self.before, &left))) {
                Ok(Some(settled)) => settled,
                Ok(None) => Err(NodeError::invalid("its payload is of another type")),
                Err(panic) => {
                    let why = format!("it panicked: {}", panic_message(&*panic));
                    Err(NodeError::new(ErrorClass::Panicked, why))
                }
            };
            let update = update.map_err(|error| RunError::Settle {
                thread: self.thread.clone(),
                task: path.clone(),
                error,
            })?;
            if let Some(declared) = &entry.writes
                && let Some(field) = S::fields()
                    .iter()
                    .find(|field| field.written(&update) && !declared.contains(&field.name()))
            {
                return Err(RunError::UndeclaredWrite {
                    thread: self.thread.clone(),
                    task: path,
                    field: field.name(),
                    declared: declared.clone().into(),
                });
            }
            all.push((path, update));
        }
        Ok(Settled(all))
    }

    fn why(&self, place: usize, path: &TaskPath) -> WhyUnfinished {
        let asked: Vec<_> = self
            .questions
            .open()
            .into_iter()
            .map(|question| question.id)
            .filter(|id| id.task() == path)
            .collect();
        if !asked.is_empty() {
            return WhyUnfinished::Asked(asked);
        }
        let task = &self.tasks[place];
        let name = self.graph.node(task.node).name.as_str();
        let failed = self.stopped.and_then(|stopped| {
            let Record::Stopped(stopped) = stopped else {
                return None;
            };
            let mut failed = stopped.failed.iter();
            let failed = failed.find(|failed| failed.node == name && failed.index == task.index)?;
            let last = failed.attempts.last();
            let error = last.and_then(|attempt| attempt.error.as_ref());
            error.or(stopped.error.as_ref()).map(record::error_text)
        });
        match failed {
            // What fails after it was told to end has been cancelled.
            _ if self.status == Some(Status::Cancelled) => WhyUnfinished::Cancelled,
            Some(error) => WhyUnfinished::Failed(error),
            None => WhyUnfinished::Left,
        }
    }
}

impl<U> Settled<U> {
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    pub(super) fn updates(&self) -> impl Iterator<Item = &U> + Clone {
        self.0.iter().map(|(_, update)| update)
    }

    /// The changes as the input's record keeps them: those of one task after those of another.
    ///
    /// # Errors
    /// The task whose update cannot be stored, and why.
    pub(super) fn changes<S: State<Update = U>>(
        &self,
        check: bool,
    ) -> Result<Vec<StoredChange>, (TaskPath, Unstorable)> {
        let mut all = Vec::new();
        for (path, update) in &self.0 {
            let changes = record::changes::<S>(update, check);
            all.extend(changes.map_err(|fault| (path.clone(), fault))?);
        }
        Ok(all)
    }

    /// Merges them into the state.
    ///
    /// # Errors
    /// [`RunError::Conflict`], [`RunError::Reduce`]; then the state is as it was.
    pub(super) fn merge<S: State<Update = U>>(
        self,
        state: &mut Arc<S>,
        thread: &ThreadId,
        step: u64,
    ) -> Result<(), RunError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let (paths, mut updates): (Vec<_>, Vec<_>) = self.0.into_iter().unzip();
        reduce_states(state, &mut updates).map_err(|fault| match fault {
            MergeFault::Conflict {
                field,
                first,
                second,
            } => RunError::Conflict {
                thread: thread.clone(),
                field,
                first: paths[first].clone(),
                second: paths[second].clone(),
            },
            fault => reduce_error(thread.clone(), Step::new(step), fault),
        })
    }
}

/// What settled tasks, as one update a task: a task writes a field once, so where one comes again
/// the next task begins. Tasks that share no field may be taken together, which merges alike.
pub(super) fn by_task(changes: &[StoredChange]) -> Vec<&[StoredChange]> {
    let mut all = Vec::new();
    let mut begin = 0;
    for (end, change) in changes.iter().enumerate() {
        let again = changes[begin..end]
            .iter()
            .any(|known| known.field == change.field);
        if again {
            all.push(&changes[begin..end]);
            begin = end;
        }
    }
    if begin < changes.len() {
        all.push(&changes[begin..]);
    }
    all
}
