//! The driver's loop: one run, superstep by superstep.
//!
//! In comes a claimed thread at a position, out come commits, events and a report. All three doors
//! (run, stream, step) are this one core. It decides nothing that the engine can decide.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use tokio::time::Instant;
use tracing::Instrument;

use super::execute::{Crowd, Drawn, Job, Scene, Shared, TaskEnd, guarded};
use super::log::Log;
use super::stop::{Stop, Why};
use super::{Ended, Report, RunError, RunOptions};
use crate::engine::{Outcome, Planned, Position, Reduced, Superstep, Task, plan};
use crate::event::EventKind;
use crate::ids::{RunId, Step, TaskPath, ThreadId};
use crate::node::{Call, NodeError, Standing};
use crate::policy::Attempt;
use crate::state::{Snapshot, State};
use crate::store::Status;

/// One run of a thread, held by its caller. It runs only while one of its methods does; dropped,
/// it gives the thread back, and another call can go on from the last record.
///
/// Without a store, the handle is all that holds the run's position.
pub struct Run<S: State> {
    pub(super) shared: Arc<Shared<S>>,
    pub(super) options: Arc<RunOptions>,
    pub(super) log: Option<Log<S>>,
    pub(super) stage: Stage<S>,
    pub(super) stop: Stop,
    /// Set while a boundary is written, and for good after what cannot be tried again here.
    pub(super) over: bool,
    /// The seqs of the outcomes recorded for the open superstep, by place.
    pub(super) recorded: Vec<(usize, u64)>,
    pub(super) executed: u64,
    pub(super) limit: u64,
    /// For a run that had ended before: the checkpoint of its end.
    pub(super) ended_at: Option<crate::ids::Seq>,
}

/// Where a run stands.
pub(super) enum Stage<S: State> {
    /// Between two supersteps.
    At(Position<S>),
    /// Inside one.
    Open(Superstep<S>),
    /// Merged, and its way out could not be decided; only without a store.
    Merged(Reduced<S>),
    /// On its way from one to the next; never while anything is awaited.
    Between,
}

/// A task that failed: its path, its error, its tries.
pub(super) type Failed = (TaskPath, NodeError, Vec<Attempt>);

/// How far one step has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// A superstep closed, and there is more to run.
    Committed(Step),
    /// The call has ended.
    Ended(Ended),
}

impl<S: State> fmt::Debug for Run<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("thread", self.thread())
            .field("run", self.id())
            .field("executed", &self.executed)
            .finish_non_exhaustive()
    }
}

impl<S: State> Run<S> {
    /// The thread.
    pub fn thread(&self) -> &ThreadId {
        &self.shared.port.thread
    }

    /// The run.
    pub fn id(&self) -> &RunId {
        &self.shared.port.run
    }

    /// The state after the last closed superstep.
    pub fn state(&self) -> Snapshot<S> {
        Snapshot::shared(Arc::clone(self.state_and_step().0))
    }

    /// Sets how many supersteps this handle may execute in all.
    pub fn step_limit(&mut self, supersteps: u64) {
        self.limit = supersteps;
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// [`RunError`], with everything kept that had finished.
    pub async fn finish(&mut self) -> Result<Report<S>, RunError> {
        let span = tracing::info_span!("run", thread = %self.thread(), run = %self.id());
        let run = async {
            loop {
                if let Progress::Ended(ended) = self.advance(u64::MAX).await? {
                    return Ok(self.report(ended));
                }
            }
        };
        run.instrument(span).await
    }

    /// Runs one superstep.
    ///
    /// # Errors
    /// [`RunError`], with everything kept that had finished.
    pub async fn step(&mut self) -> Result<Progress, RunError> {
        self.advance(1).await
    }

    /// Runs one superstep, or at most so many where the short way leads through them.
    async fn advance(&mut self, most: u64) -> Result<Progress, RunError> {
        match self.short(most).await {
            Some(progress) => progress,
            None => self.long().await,
        }
    }

    /// Runs one superstep, whatever it needs.
    async fn long(&mut self) -> Result<Progress, RunError> {
        if self.over {
            return Err(RunError::Over {
                thread: self.thread().clone(),
            });
        }
        if let Some(listener) = &self.shared.port.listener {
            listener.caught_up().await;
        }
        // A run whose nodes never wait must let others run, too.
        tokio::task::coop::consume_budget().await;
        match std::mem::replace(&mut self.stage, Stage::Between) {
            Stage::At(position) => {
                if !position.frontier.is_empty() {
                    if let Some(why) = self.stop.now() {
                        self.stage = Stage::At(position);
                        return self.stopped(why).await;
                    }
                    if self.executed >= self.limit {
                        self.stage = Stage::At(position);
                        return self.ended(Ended::StepLimit { limit: self.limit }).await;
                    }
                }
                match plan(position) {
                    Planned::Done(position) => {
                        self.stage = Stage::At(position);
                        return Ok(Progress::Ended(Ended::Finished));
                    }
                    Planned::Run(superstep) => self.stage = Stage::Open(superstep),
                }
            }
            Stage::Merged(reduced) => return self.route_merged(reduced).await,
            stage @ Stage::Open(_) => self.stage = stage,
            Stage::Between => unreachable!("a stage is put back before anything is awaited"),
        }
        let Stage::Open(superstep) = &self.stage else {
            unreachable!("it was just planned")
        };
        let span = tracing::debug_span!("superstep", step = superstep.step);
        if let Some(time) = self.options.superstep_deadline {
            self.stop.superstep = Some((Instant::now() + time, time));
        }
        let superstep = async {
            if self.is_single() {
                self.one().await
            } else {
                self.many().await
            }
        };
        superstep.instrument(span).await
    }

    /// How the call ended, as its caller gets it.
    pub(super) fn report(&self, ended: Ended) -> Report<S> {
        let (state, step) = self.state_and_step();
        Report {
            thread: self.thread().clone(),
            run: self.id().clone(),
            ended,
            state: Snapshot::shared(Arc::clone(state)),
            step: Step::new(step),
            seq: self
                .ended_at
                .or_else(|| self.log.as_ref().and_then(Log::seq)),
        }
    }

    pub(super) fn state_and_step(&self) -> (&Arc<S>, u64) {
        match &self.stage {
            Stage::At(position) => (&position.state, position.step),
            Stage::Open(superstep) => (&superstep.before, superstep.step - 1),
            Stage::Merged(reduced) => (&reduced.state, reduced.step - 1),
            Stage::Between => unreachable!("a stage is put back before anything is awaited"),
        }
    }

    /// Whether the open superstep has one task, which has not ended.
    fn is_single(&self) -> bool {
        matches!(&self.stage, Stage::Open(superstep)
            if superstep.tasks.len() == 1 && superstep.recorded.is_empty())
    }

    /// A superstep of one task.
    async fn one(&mut self) -> Result<Progress, RunError> {
        let Stage::Open(superstep) = &self.stage else {
            unreachable!("the superstep is open")
        };
        let (step, task) = (superstep.step, &superstep.tasks[0]);
        self.shared
            .port
            .report(None, || EventKind::SuperstepStarted {
                step: Step::new(step),
                tasks: vec![self.shared.path(step, task.node, task.index)],
            });
        if self.shared.plain(task.node) {
            let at = self.standing(step, task);
            let payload = task.payload.as_ref();
            let call = self.shared.call(&superstep.before, at, payload);
            return self.one_waits(call).await;
        }
        let scene = Scene {
            step,
            before: Arc::clone(&superstep.before),
            remaining: self.limit - self.executed,
        };
        let payload = task.payload.clone();
        let run = Arc::clone(&self.shared).run_task(scene, task.node, task.index, payload);
        match self.race(Box::pin(run)).await {
            Ok(TaskEnd { result, attempts }) => self.one_ended(result, attempts).await,
            Err(why) => self.stopped(why).await,
        }
    }

    /// Waits for the only task of the open superstep, which was called without policies.
    pub(super) async fn one_waits(&mut self, call: Call<S::Update>) -> Result<Progress, RunError> {
        let ended = match self.race(guarded(call)).await {
            Ok(ended) => ended,
            Err(why) => return self.stopped(why).await,
        };
        let Stage::Open(superstep) = &self.stage else {
            unreachable!("the superstep is open")
        };
        let task = &superstep.tasks[0];
        let result = self
            .shared
            .tolerated(task.node, task.payload.as_ref(), ended);
        self.one_ended(result, Vec::new()).await
    }

    /// Closes the open superstep after its only task, or ends the call with the task's error.
    pub(super) async fn one_ended(
        &mut self,
        result: Result<Outcome<S::Update>, NodeError>,
        attempts: Vec<Attempt>,
    ) -> Result<Progress, RunError> {
        let Stage::Open(superstep) = std::mem::replace(&mut self.stage, Stage::Between) else {
            unreachable!("the superstep is open")
        };
        match result {
            Ok(outcome) => self.close_one(superstep, outcome, &attempts).await,
            Err(error) => {
                let task = &superstep.tasks[0];
                let path = self.shared.path(superstep.step, task.node, task.index);
                self.stage = Stage::Open(superstep);
                self.failed(vec![(path, error, attempts)]).await
            }
        }
    }

    /// Where a task stands that is called for the first time.
    #[inline]
    pub(super) fn standing(&self, step: u64, task: &Task) -> Standing {
        Standing {
            step: Step::new(step),
            node: task.node,
            index: task.index,
            attempt: 1,
            remaining: self.limit - self.executed,
        }
    }

    /// A superstep of several tasks, or of some that were recorded before.
    async fn many(&mut self) -> Result<Progress, RunError> {
        let Stage::Open(superstep) = &self.stage else {
            unreachable!("the superstep is open")
        };
        let step = superstep.step;
        let todo = self.todo(superstep);
        self.shared
            .port
            .report(None, || EventKind::SuperstepStarted {
                step: Step::new(step),
                tasks: todo
                    .iter()
                    .map(|place| &superstep.tasks[*place])
                    .map(|task| self.shared.path(step, task.node, task.index))
                    .collect(),
            });
        let jobs: Vec<_> = todo
            .iter()
            .map(|place| Job::new(*place, &superstep.tasks[*place]))
            .collect();
        let before = Arc::clone(&superstep.before);
        let scene = Scene {
            step,
            before,
            remaining: self.limit - self.executed,
        };
        let mut crowd = Crowd::start(Arc::clone(&self.shared), scene, jobs);
        let Stage::Open(superstep) = &mut self.stage else {
            unreachable!("the superstep is open")
        };
        superstep.recorded.reserve(todo.len());
        let mut failed = Vec::new();
        while !self.shared.timed && !self.stop.inside() {
            match crowd.draw() {
                Drawn::Ended(place, end) => self.keep(place, end, &mut failed),
                Drawn::Waits => {}
                Drawn::Nothing => break,
            }
            tokio::task::coop::consume_budget().await;
        }
        crowd.drawn();
        let mut stopping: Option<(Why, Instant)> = None;
        loop {
            let grace = async {
                match stopping {
                    Some((_, until)) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                ends = crowd.next() => match ends {
                    Some(ends) => self.record(ends, &mut failed).await?,
                    None => break,
                },
                why = self.stop.wait(), if stopping.is_none() => {
                    crowd.close();
                    stopping = Some((why, self.end_of_grace(why)));
                }
                () = grace => break,
            }
        }
        drop(crowd);
        if !failed.is_empty() {
            failed.sort_by(|(one, ..), (other, ..)| one.cmp(other));
            return self.failed(failed).await;
        }
        let Stage::Open(superstep) = std::mem::replace(&mut self.stage, Stage::Between) else {
            unreachable!("the superstep is open")
        };
        if superstep.recorded.len() < superstep.tasks.len() {
            self.stage = Stage::Open(superstep);
            let why = stopping.map_or(Why::Cancelled, |(why, _)| why);
            return self.stopped(why).await;
        }
        self.close_many(superstep).await
    }

    /// The places of the tasks that are left to run, shuffled where a test asks for it.
    fn todo(&self, superstep: &Superstep<S>) -> Vec<usize> {
        let mut done = vec![false; superstep.tasks.len()];
        for (place, _) in &superstep.recorded {
            done[*place] = true;
        }
        let mut todo: Vec<usize> = (0..done.len()).filter(|place| !done[*place]).collect();
        if let Some(seed) = self.options.shuffle {
            let mut random = seed ^ superstep.step.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            for last in (1..todo.len()).rev() {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                todo.swap(last, ((random >> 33) % (last as u64 + 1)) as usize);
            }
        }
        todo
    }

    /// Takes the end of a task that is not written anywhere.
    #[inline]
    fn keep(&mut self, place: usize, end: TaskEnd<S::Update>, failed: &mut Vec<Failed>) {
        let Stage::Open(superstep) = &mut self.stage else {
            unreachable!("the superstep is open")
        };
        match end.result {
            Ok(outcome) => superstep.recorded.push((place, outcome)),
            Err(error) => {
                let task = &superstep.tasks[place];
                let path = self.shared.path(superstep.step, task.node, task.index);
                failed.push((path, error, end.attempts));
            }
        }
    }

    /// Takes ends of tasks: records what went well, and keeps what failed.
    async fn record(
        &mut self,
        ends: Vec<(usize, TaskEnd<S::Update>)>,
        failed: &mut Vec<Failed>,
    ) -> Result<(), RunError> {
        if !self.shared.timed {
            for (place, end) in ends {
                self.keep(place, end, failed);
            }
            return Ok(());
        }
        let Stage::Open(superstep) = &self.stage else {
            unreachable!("the superstep is open")
        };
        let step = superstep.step;
        let mut well = Vec::with_capacity(ends.len());
        for (place, TaskEnd { result, attempts }) in ends {
            match result {
                Ok(outcome) => well.push((place, outcome, attempts)),
                Err(error) => {
                    let task = &superstep.tasks[place];
                    let path = self.shared.path(step, task.node, task.index);
                    failed.push((path, error, attempts));
                }
            }
        }
        let seqs = self.write_outcomes(step, &well).await?;
        self.recorded.extend(seqs);
        let Stage::Open(superstep) = &mut self.stage else {
            unreachable!("the superstep is open")
        };
        let well = well.into_iter();
        superstep
            .recorded
            .extend(well.map(|(place, outcome, _)| (place, outcome)));
        Ok(())
    }

    /// Awaits a task, or the reason to stop; what ends within the grace time counts.
    async fn race<T>(&self, task: impl Future<Output = T>) -> Result<T, Why> {
        let mut task = std::pin::pin!(task);
        // Most bodies are done at the first poll: nothing else is set up for them.
        let first = std::future::poll_fn(|cx| Poll::Ready(task.as_mut().poll(cx))).await;
        if let Poll::Ready(ended) = first {
            return Ok(ended);
        }
        let why = tokio::select! {
            biased;
            ended = &mut task => return Ok(ended),
            why = self.stop.wait() => why,
        };
        tokio::time::timeout_at(self.end_of_grace(why), task)
            .await
            .map_err(|_| why)
    }

    /// Tells the nodes to end, and says until when they may.
    fn end_of_grace(&self, why: Why) -> Instant {
        self.shared.port.stop.cancel();
        match why {
            Why::Cancelled => Instant::now() + self.options.grace,
            Why::Deadline(_) => Instant::now(),
        }
    }

    pub(super) async fn stopped(&mut self, why: Why) -> Result<Progress, RunError> {
        let ended = match why {
            Why::Cancelled => Ended::Cancelled,
            Why::Deadline(after) => Ended::Deadline { after },
        };
        self.ended(ended).await
    }

    /// Ends the call inside an open superstep: says so in the log and to whoever listens.
    async fn ended(&mut self, ended: Ended) -> Result<Progress, RunError> {
        let status = match ended {
            Ended::Finished => Status::Finished,
            Ended::Cancelled => Status::Cancelled,
            Ended::StepLimit { .. } | Ended::Deadline { .. } => Status::Limited,
        };
        let closed = self.state_and_step().1;
        let mut seq = None;
        if let Some(log) = &mut self.log {
            seq = Some(
                log.stopped(None, closed + 1, status, None, Vec::new())
                    .await?,
            );
        }
        self.shared.port.report(seq, || EventKind::Ended {
            status: status.to_string(),
            step: Step::new(closed),
            error: None,
        });
        Ok(Progress::Ended(ended))
    }
}
