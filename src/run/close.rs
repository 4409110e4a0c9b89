//! Stations 4 to 6 from the driver's side: merge, decide, write, report; and what is written when
//! one of them fails.

use super::RunError;
use super::ask::Questions;
use super::handle::{Progress, Run, Stage};
use super::join;
use super::log::Written;
use super::record::{self, Unstorable};
use crate::engine::{
    Outcome, Outcomes, Position, Reduced, RouteFault, Routed, Superstep, Taken, Unreduced, reduce,
    route,
};
use crate::event::EventKind;
use crate::ids::{Seq, Step, TaskPath};
use crate::node::NodeError;
use crate::policy::{Attempt, now_ms};
use crate::state::{AnyField, MergeFault, ReduceFault, State};
use crate::store::{
    CommitRecord, FailedTask, Few, OutcomeRecord, OutcomeRef, Record, Status, StoppedRecord,
    StoreError, StoredEdge, StoredError,
};

/// A task that ended well: its place, its outcome, its tries.
pub(super) type Done<U> = (usize, Outcome<U>, Vec<Attempt>);

/// A task that failed for good: its path, its last error, its tries.
pub(super) type Failed = (TaskPath, NodeError, Vec<Attempt>);

/// Why a commit was not written.
pub(super) enum Uncommitted {
    /// The store has refused it.
    Store(StoreError),
    /// A value of this origin cannot be stored; with the outcome that is not written yet.
    Unstorable(Unstorable, &'static str, Option<Box<OutcomeRecord>>),
}

impl Uncommitted {
    fn of(fault: Unstorable, origin: &'static str, outcomes: Few<OutcomeRef>) -> Self {
        Self::Unstorable(fault, origin, inline(outcomes).map(Box::new))
    }
}

impl From<Written> for Uncommitted {
    fn from(fault: Written) -> Self {
        match fault {
            Written::Store(error) => Self::Store(error),
            Written::Unstorable(fault, record) => {
                let outcomes = match record.map(|record| *record) {
                    Some(Record::Commit(commit)) => commit.outcomes,
                    _ => Few::new(),
                };
                Self::of(fault, "the state", outcomes)
            }
        }
    }
}

/// What a commit says of the tasks, besides what the engine knows.
pub(super) struct Kept<S: State> {
    step: u64,
    outcomes: Few<OutcomeRef>,
    /// Fields that were written and have to be stored by value.
    by_value: Vec<&'static dyn AnyField<S>>,
    /// The nodes that ran, where a pause may follow one.
    ran: Vec<u32>,
}

impl<S: State> Kept<S> {
    /// What it says of one task whose outcome is not recorded yet.
    pub(super) fn one(
        step: u64,
        outcome: OutcomeRecord,
        by_value: Vec<&'static dyn AnyField<S>>,
    ) -> Self {
        Self {
            step,
            outcomes: Few::one(OutcomeRef::Inline(outcome)),
            by_value,
            ran: Vec::new(),
        }
    }
}

impl<S: State> Run<S> {
    /// Closes a superstep of one task, whose outcome is not recorded yet.
    pub(super) async fn close_one(
        &mut self,
        superstep: Superstep<S>,
        outcome: Outcome<S::Update>,
        attempts: &[Attempt],
    ) -> Result<Progress, RunError> {
        let step = superstep.step;
        let mut kept = Kept {
            step,
            outcomes: Few::new(),
            by_value: Vec::new(),
            ran: Vec::new(),
        };
        if self.shared.timed {
            let tables = self.shared.graph.tables();
            let task = &superstep.tasks[0];
            let check = self.log.is_some() && self.options.check_round_trip;
            match record::outcome(tables, step, task, &outcome, attempts, check) {
                Ok(record) => kept.outcomes.push(OutcomeRef::Inline(record)),
                Err(fault) if self.log.is_some() => {
                    let path = self.shared.path(step, task.node, task.index);
                    let error = self.unstorable(step, format!("task {path}"), fault);
                    self.stage = Stage::Open(superstep);
                    return Err(self.broke(None, step, error).await);
                }
                // Without a store nothing has to be storable: the event goes without the update.
                Err(_) => {}
            }
            kept.by_value = record::by_value::<S>(std::iter::once(&outcome.update));
        }
        self.close(superstep, Outcomes::One(outcome), kept).await
    }

    /// Closes a superstep whose outcomes are all recorded.
    pub(super) async fn close_many(
        &mut self,
        mut superstep: Superstep<S>,
    ) -> Result<Progress, RunError> {
        let step = superstep.step;
        let mut recorded = std::mem::take(&mut superstep.recorded);
        recorded.sort_by_key(|(place, _)| *place);
        let mut seqs = std::mem::take(&mut self.recorded);
        seqs.sort_unstable();
        let mut kept = Kept {
            step,
            outcomes: Few::new(),
            by_value: Vec::new(),
            ran: Vec::new(),
        };
        if self.log.is_some() {
            kept.outcomes = seqs
                .into_iter()
                .map(|(_, seq)| OutcomeRef::At(seq))
                .collect();
            kept.by_value = record::by_value::<S>(recorded.iter().map(|(_, end)| &end.update));
        }
        let outcomes = recorded.into_iter();
        let (updates, ended) = outcomes.map(|(_, end)| (end.update, end.ended)).unzip();
        self.close(superstep, Outcomes::Many(updates, ended), kept)
            .await
    }

    /// Decides again on the way out of a superstep that is merged.
    pub(super) async fn route_merged(&mut self, reduced: Reduced<S>) -> Result<Progress, RunError> {
        let kept = Kept {
            step: reduced.step,
            outcomes: Few::new(),
            by_value: Vec::new(),
            ran: Vec::new(),
        };
        self.decide(reduced, kept).await
    }

    async fn close(
        &mut self,
        superstep: Superstep<S>,
        outcomes: Outcomes<S::Update>,
        kept: Kept<S>,
    ) -> Result<Progress, RunError> {
        match reduce(self.shared.graph.tables(), superstep, outcomes) {
            Ok(reduced) => self.decide(reduced, kept).await,
            Err((superstep, fault)) => self.unmerged(superstep, fault, inline(kept.outcomes)).await,
        }
    }

    /// Ends the call after a merge was refused.
    pub(super) async fn unmerged(
        &mut self,
        superstep: Superstep<S>,
        fault: Unreduced,
        outcome: Option<OutcomeRecord>,
    ) -> Result<Progress, RunError> {
        let step = superstep.step;
        let error = self.merge_error(&superstep, fault);
        self.stage = Stage::Open(superstep);
        // The outcomes are used up: with a store they are read again, without one the run is over.
        self.over = true;
        Err(self.broke(outcome, step, error).await)
    }

    async fn decide(
        &mut self,
        reduced: Reduced<S>,
        mut kept: Kept<S>,
    ) -> Result<Progress, RunError> {
        if !self.options.pause_after.is_empty() {
            kept.ran = reduced.tasks.iter().map(|task| task.node).collect();
        }
        let now = join::clock(self.shared.graph.tables());
        match route(self.shared.graph.tables(), reduced, self.shared.timed, now) {
            Ok(Routed { position, taken }) => self.commit(position, &taken, kept).await,
            Err((reduced, fault)) => self.undecided(reduced, fault, inline(kept.outcomes)).await,
        }
    }

    /// Ends the call after a decision could not be made.
    pub(super) async fn undecided(
        &mut self,
        reduced: Reduced<S>,
        fault: RouteFault,
        outcome: Option<OutcomeRecord>,
    ) -> Result<Progress, RunError> {
        let step = reduced.step;
        let tables = self.shared.graph.tables();
        let error = join::route_error(tables, self.thread(), Step::new(step), fault);
        self.stage = Stage::Merged(reduced);
        // With a store, the next call merges the recorded outcomes again, and the state in the log
        // is still the one before.
        self.over = self.log.is_some();
        Err(self.broke(outcome, step, error).await)
    }

    async fn commit(
        &mut self,
        mut position: Position<S>,
        taken: &[Taken],
        kept: Kept<S>,
    ) -> Result<Progress, RunError> {
        let step = kept.step;
        let status = self.closed(&position, &kept);
        if !self.shared.timed {
            self.stage = Stage::At(position);
            return Ok(self.progress(step, status));
        }
        if self.shared.graph.tables().is_timed() {
            let set = self.set_timers(step, &mut position.joins).await;
            if let Err(error) = set {
                self.stage = Stage::At(position);
                return Err(error);
            }
        }
        let edges = record::edges(self.shared.graph.tables(), taken);
        let at_ms = now_ms();
        // What is written is copied only for somebody who is told of it afterwards.
        let listened = self.shared.port.listener.is_some();
        let mut told =
            (listened && self.log.is_some()).then(|| (kept.outcomes.clone(), edges.clone()));
        let mut seq = None;
        if self.log.is_some() {
            let record = self.commit_record(&position, edges, kept, (status, at_ms));
            let state = std::sync::Arc::clone(&position.state);
            self.stage = Stage::At(position);
            self.over = true;
            let span = tracing::debug_span!("commit", step, seq = tracing::field::Empty);
            let written = match (record, &mut self.log) {
                (Ok(commit), Some(log)) => {
                    let written = log.commit(commit, &state);
                    tracing::Instrument::instrument(written, span.clone()).await
                }
                (Ok(_), None) => unreachable!("the thread is claimed"),
                (Err(fault), _) => return Err(self.unwritten(step, fault).await),
            };
            match written {
                Ok(at) => {
                    span.record("seq", at.get());
                    seq = Some(at);
                }
                Err(fault) => {
                    let fault = Uncommitted::from(fault);
                    return Err(self.unwritten(step, fault).await);
                }
            }
            self.over = false;
        } else {
            told = Some((kept.outcomes, edges));
            self.stage = Stage::At(position);
        }
        if let Some((outcomes, edges)) = told {
            if let Some(outcome) = inline(outcomes) {
                self.report_finished(seq, &outcome);
            }
            self.report_committed(seq, step, at_ms, &edges, status);
        }
        Ok(self.progress(step, status))
    }

    /// Counts a superstep that is closed, and forgets what was of it alone. Returns how the thread
    /// stands after it.
    #[inline]
    pub(super) fn closed(&mut self, position: &Position<S>, kept: &Kept<S>) -> Status {
        let tables = self.shared.graph.tables();
        let status = self
            .options
            .status_at(tables, &position.frontier, &kept.ran);
        let status = self.stop.or_cancelled(status);
        self.executed += 1;
        if let Some(pulse) = &self.shared.port.pulse {
            pulse.beat();
        }
        self.questions = Questions::default();
        self.parked.clear();
        self.shared.port.recall.clear();
        let port = &self.shared.port;
        port.inners
            .forget(port.within.as_ref(), Step::new(kept.step));
        status
    }

    /// The record of a superstep that is closed.
    #[inline]
    pub(super) fn commit_record(
        &mut self,
        position: &Position<S>,
        edges: Few<StoredEdge>,
        kept: Kept<S>,
        (status, at_ms): (Status, u64),
    ) -> Result<CommitRecord, Uncommitted> {
        let tables = self.shared.graph.tables();
        let check = self.options.check_round_trip;
        let (frontier, values) = match record::frontier(tables, &position.frontier, check) {
            Err(fault) => return Err(Uncommitted::of(fault, "a fan-out", kept.outcomes)),
            Ok(frontier) => match record::values(&*position.state, &kept.by_value) {
                Err(fault) => return Err(Uncommitted::of(fault, "a reducer", kept.outcomes)),
                Ok(values) => (frontier, values),
            },
        };
        if let Some(log) = &mut self.log {
            for outcome in &kept.outcomes {
                if let OutcomeRef::Inline(outcome) = outcome {
                    outcome.changes.iter().for_each(|change| log.touch(change));
                }
            }
        }
        let (joins, timers) = join::stored(tables, &position.joins);
        Ok(CommitRecord {
            step: kept.step,
            at_ms,
            outcomes: kept.outcomes,
            values,
            edges,
            frontier,
            joins,
            timers,
            status,
        })
    }

    /// Ends the call after a commit could not be written.
    pub(super) async fn unwritten(&mut self, step: u64, fault: Uncommitted) -> RunError {
        self.over = true;
        match fault {
            Uncommitted::Store(error) => error.into(),
            Uncommitted::Unstorable(fault, origin, outcome) => {
                let error = self.unstorable(step, origin.to_owned(), fault);
                self.broke(outcome.map(|outcome| *outcome), step, error)
                    .await
            }
        }
    }

    pub(super) fn progress(&self, step: u64, status: Status) -> Progress {
        match status {
            Status::Finished => Progress::Ended(super::Ended::Finished),
            Status::Paused => Progress::Ended(super::Ended::Paused { questions: 0 }),
            _ => Progress::Committed(Step::new(step)),
        }
    }

    /// Records outcomes of a superstep of several tasks, and reports them. Returns their seqs.
    pub(super) async fn write_outcomes(
        &mut self,
        step: u64,
        ends: &[Done<S::Update>],
    ) -> Result<Vec<(usize, u64)>, RunError> {
        let mut unstorable = None;
        let mut places = Vec::with_capacity(ends.len());
        let Stage::Open(superstep) = &self.stage else {
            unreachable!("the superstep is open")
        };
        let tables = self.shared.graph.tables();
        let check = self.log.is_some() && self.options.check_round_trip;
        let mut records = Vec::with_capacity(ends.len());
        for (place, outcome, attempts) in ends {
            let task = &superstep.tasks[*place];
            match record::outcome(tables, step, task, outcome, attempts, check) {
                Ok(record) => {
                    records.push(record);
                    places.push(*place);
                }
                Err(fault) if self.log.is_some() => {
                    let path = self.shared.path(step, task.node, task.index);
                    unstorable.get_or_insert((format!("task {path}"), fault));
                }
                Err(_) => {}
            }
        }
        let mut seqs = Vec::new();
        let mut first = None;
        if let Some(log) = &mut self.log
            && !records.is_empty()
        {
            self.over = true;
            let told = match &self.shared.port.listener {
                Some(_) => records.clone(),
                None => Vec::new(),
            };
            let at = log.outcomes(std::mem::replace(&mut records, told)).await?;
            self.over = false;
            seqs = places.into_iter().zip(at.get()..).collect();
            first = Some(at.get());
        }
        for (number, outcome) in records.iter().enumerate() {
            let seq = first.map(|first| Seq::new(first + number as u64));
            self.report_finished(seq, outcome);
        }
        if let Some(log) = &self.log {
            log.told();
        }
        // What can be stored is: one task's value must not cost its siblings their results.
        if let Some((origin, fault)) = unstorable {
            let error = self.unstorable(step, origin, fault);
            self.over = true;
            return Err(self.broke(None, step, error).await);
        }
        Ok(seqs)
    }

    /// Ends the call after tasks have failed; what their siblings finished is recorded.
    pub(super) async fn failed(&mut self, failed: Vec<Failed>) -> Result<Progress, RunError> {
        let step = self.state_and_step().1 + 1;
        let tasks = failed_tasks(&failed);
        let mut failures = failed.iter().map(|(path, error, attempts)| {
            (path.clone(), error.clone(), attempts.len().max(1) as u32)
        });
        let Some((task, error, attempts)) = failures.next() else {
            unreachable!("a failure has at least one failed task")
        };
        let others = failures.map(|(path, error, _)| (path, error)).collect();
        let thread = self.thread().clone();
        let error = RunError::Node {
            thread,
            task,
            attempts,
            error,
            others,
        };
        let stopped = stopped(
            step,
            Status::Failed,
            Some(record::stored_error(&error)),
            tasks,
        );
        let mut seq = None;
        if let Some(log) = &mut self.log {
            seq = Some(log.stopped(None, stopped.clone()).await?);
        }
        self.report_tasks_failed(seq, &failed);
        self.report_stopped(seq, &stopped);
        Err(error)
    }

    /// Ends the call after a merge, a decision or an encoding has failed: an outcome that was not
    /// recorded yet is written alone. Gives the error back, or the store's own.
    pub(super) async fn broke(
        &mut self,
        outcome: Option<OutcomeRecord>,
        step: u64,
        error: RunError,
    ) -> RunError {
        let stored = record::stored_error(&error);
        let stopped = stopped(step, Status::Failed, Some(stored), Vec::new());
        let mut seq = None;
        if let Some(log) = &mut self.log {
            match log.stopped(outcome.clone(), stopped.clone()).await {
                Ok(at) => seq = Some(at),
                Err(error) => return error.into(),
            }
        }
        if let Some(outcome) = &outcome {
            // Its record is the one before.
            let at = seq.map(|seq| Seq::new(seq.get() - 1));
            self.report_finished(at, outcome);
        }
        self.report_stopped(seq, &stopped);
        error
    }

    fn unstorable(&self, step: u64, origin: String, (field, error): Unstorable) -> RunError {
        let (thread, step) = (self.thread().clone(), Step::new(step));
        RunError::Encode {
            thread,
            step,
            origin,
            field,
            error,
        }
    }

    fn merge_error(&self, superstep: &Superstep<S>, fault: Unreduced) -> RunError {
        let thread = self.thread().clone();
        let step = Step::new(superstep.step);
        let path = |place: usize| {
            let task = &superstep.tasks[place];
            self.shared.path(superstep.step, task.node, task.index)
        };
        let fault = match fault {
            Unreduced::Merge(fault) => fault,
            Unreduced::Undeclared(place, field) => {
                let node = self.shared.graph.tables().node(superstep.tasks[place].node);
                return RunError::UndeclaredWrite {
                    thread,
                    task: path(place),
                    field,
                    declared: node.writes.clone().unwrap_or_default().into(),
                };
            }
        };
        match fault {
            MergeFault::Conflict {
                field,
                first,
                second,
            } => RunError::Conflict {
                thread,
                field,
                first: path(first),
                second: path(second),
            },
            fault => reduce_error(thread, step, fault),
        }
    }

    fn report_finished(&self, seq: Option<Seq>, outcome: &OutcomeRecord) {
        self.shared
            .port
            .report(seq, || record::task_finished(outcome));
    }

    fn report_committed(
        &self,
        seq: Option<Seq>,
        step: u64,
        at_ms: u64,
        edges: &[StoredEdge],
        status: Status,
    ) {
        self.shared
            .port
            .report(seq, || record::committed(step, at_ms, edges));
        if status != Status::Running {
            self.report_ended(seq, step, at_ms, status);
        }
    }

    /// Reports that the run is finished, after so many closed supersteps.
    pub(super) fn report_ended(&self, seq: Option<Seq>, step: u64, at_ms: u64, status: Status) {
        self.shared.port.report(seq, || EventKind::Ended {
            status: status.to_string(),
            at_ms,
            step: Step::new(step),
            error: None,
        });
    }

    pub(super) fn report_tasks_failed(&self, seq: Option<Seq>, failed: &[Failed]) {
        for (path, error, attempts) in failed {
            self.shared.port.report(seq, || EventKind::TaskFailed {
                task: path.clone(),
                attempts: attempts.len().max(1) as u32,
                tries: attempts
                    .iter()
                    .map(|one| record::tried(&record::attempt(one)))
                    .collect(),
                error: crate::event::ErrorText {
                    class: error.class().name().to_owned(),
                    message: error.full(),
                },
                exit: None,
            });
        }
    }

    /// Reports that the call ends inside a superstep.
    pub(super) fn report_stopped(&self, seq: Option<Seq>, stopped: &StoppedRecord) {
        self.shared.port.report(seq, || EventKind::Ended {
            status: stopped.status.to_string(),
            at_ms: stopped.at_ms,
            step: Step::new(stopped.step - 1),
            error: stopped.error.as_ref().map(record::error_text),
        });
    }
}

/// The record of a call that ends now, inside of a superstep.
pub(super) fn stopped(
    step: u64,
    status: Status,
    error: Option<StoredError>,
    failed: Vec<FailedTask>,
) -> StoppedRecord {
    StoppedRecord {
        step,
        at_ms: now_ms(),
        status,
        error,
        failed,
    }
}

/// Failed tasks as a record keeps them.
pub(super) fn failed_tasks(failed: &[Failed]) -> Vec<FailedTask> {
    let task = |(path, _, attempts): &Failed| FailedTask {
        node: path.task().node.as_str().to_owned(),
        index: path.task().index,
        attempts: attempts.iter().map(record::attempt).collect(),
    };
    failed.iter().map(task).collect()
}

/// The error of a merge that names no second task.
pub(super) fn reduce_error(
    thread: crate::ids::ThreadId,
    step: Step,
    fault: MergeFault,
) -> RunError {
    let (field, panicked, fault) = match fault {
        MergeFault::Refused { field, fault } => (field, false, fault),
        MergeFault::Panicked { field, message } => (field, true, ReduceFault::new(message)),
        MergeFault::Conflict { field, .. } => (
            field,
            false,
            ReduceFault::new("two updates of one boundary write it"),
        ),
    };
    RunError::Reduce {
        thread,
        step,
        field,
        panicked,
        fault,
    }
}

fn inline(outcomes: Few<OutcomeRef>) -> Option<OutcomeRecord> {
    match outcomes.into_iter().next() {
        Some(OutcomeRef::Inline(outcome)) => Some(outcome),
        _ => None,
    }
}
