//! The driver's loop: one run, superstep by superstep.
//!
//! In comes a claimed thread at a position, out come commits, events and a report. All three doors
//! (run, stream, step) are this one core. It decides nothing that the engine can decide.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tokio::time::Instant;
use tracing::Instrument;

use super::close::{Failed, failed_tasks};
use super::execute::{Crowd, Drawn, Job, Scene, Shared, TaskEnd, guarded};
use super::log::Log;
use super::stop::{Stop, Why, after};
use super::{Ended, Report, RunError, RunOptions};
use crate::engine::{Outcome, Planned, Position, Reduced, Superstep, Task, plan};
use crate::event::EventKind;
use crate::ids::{RunId, Step, ThreadId};
use crate::node::{Call, ErrorClass, NodeError, Standing};
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

/// How a task and a reason to stop have met.
enum Raced<T> {
    /// The task ended first.
    Ended(T),
    /// The task ended within its grace time.
    Late(T, Why),
    /// The task was cut.
    Cut(Why),
}

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

    /// The state after the last closed superstep; after a decision that failed, with what its
    /// superstep has merged.
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
        self.stop.superstep = None;
        if let Some(listener) = &self.shared.port.listener {
            // A reader that does not read holds up the run, but not the end of it.
            tokio::select! {
                biased;
                () = listener.caught_up() => {}
                _ = self.stop.wait() => {}
            }
        }
        // A run whose nodes never wait must let others run, too.
        tokio::task::coop::consume_budget().await;
        if self.has_tasks() {
            if let Some(why) = self.stop.now() {
                return self.stopped(why, Vec::new()).await;
            }
            if self.executed >= self.limit {
                let ended = Ended::StepLimit { limit: self.limit };
                return self.ended(ended, Vec::new()).await;
            }
            self.renew();
        }
        match std::mem::replace(&mut self.stage, Stage::Between) {
            Stage::At(position) => match plan(position) {
                Planned::Done(position) => {
                    self.stage = Stage::At(position);
                    return Ok(Progress::Ended(Ended::Finished));
                }
                Planned::Run(superstep) => self.stage = Stage::Open(superstep),
            },
            Stage::Merged(reduced) => return self.route_merged(reduced).await,
            stage @ Stage::Open(_) => self.stage = stage,
            Stage::Between => unreachable!("a stage is put back before anything is awaited"),
        }
        let Stage::Open(superstep) = &self.stage else {
            unreachable!("it was just planned")
        };
        let span = tracing::debug_span!("superstep", step = superstep.step);
        if let Some(time) = self.options.superstep_deadline {
            self.stop.superstep = Some((after(time), time));
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

    /// Whether tasks are left to run here and now.
    fn has_tasks(&self) -> bool {
        match &self.stage {
            Stage::At(position) => !position.frontier.is_empty(),
            Stage::Open(_) => true,
            Stage::Merged(_) | Stage::Between => false,
        }
    }

    /// After a superstep that was told to end, the next tasks are not told so. What still runs of
    /// the old ones stays told.
    fn renew(&mut self) {
        if self.shared.port.stop.is_cancelled() {
            self.shared = Arc::new(self.shared.renewed());
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
        let begun = Arc::new(AtomicBool::new(false));
        let run = Arc::clone(&self.shared).run_task(
            scene,
            (task.node, task.index),
            payload,
            Arc::clone(&begun),
        );
        match self.race(Box::pin(run), Some(&begun)).await {
            Raced::Cut(why) => self.stopped(why, Vec::new()).await,
            Raced::Ended(TaskEnd { result, attempts }) => {
                self.one_ended(result, attempts, None).await
            }
            Raced::Late(TaskEnd { result, attempts }, why) => {
                self.one_ended(result, attempts, Some(why)).await
            }
        }
    }

    /// Waits for the only task of the open superstep, which was called without policies.
    pub(super) async fn one_waits(&mut self, call: Call<S::Update>) -> Result<Progress, RunError> {
        let (ended, late) = match self.race(guarded(call), None).await {
            Raced::Cut(why) => return self.stopped(why, Vec::new()).await,
            Raced::Ended(ended) => (ended, None),
            Raced::Late(ended, why) => (ended, Some(why)),
        };
        let Stage::Open(superstep) = &self.stage else {
            unreachable!("the superstep is open")
        };
        let task = &superstep.tasks[0];
        let result = self
            .shared
            .tolerated(task.node, task.payload.as_ref(), ended);
        self.one_ended(result, Vec::new(), late).await
    }

    /// Closes the open superstep after its only task, or ends the call with the task's error.
    /// `late` says that it ended only after it was told to.
    pub(super) async fn one_ended(
        &mut self,
        result: Result<Outcome<S::Update>, NodeError>,
        attempts: Vec<Attempt>,
        late: Option<Why>,
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
                let failed = vec![(path, error, attempts)];
                match late {
                    // It was told to end, and did.
                    Some(why) => self.stopped(why, failed).await,
                    None => self.failed(failed).await,
                }
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
        let mut failed_first = false;
        while !self.shared.timed && !self.stop.inside() {
            match crowd.draw() {
                Drawn::Ended(place, end) => self.keep(place, end, &mut failed),
                Drawn::Waits => {}
                Drawn::Nothing => break,
            }
            tokio::task::coop::consume_budget().await;
        }
        crowd.drawn();
        failed_first |= !failed.is_empty();
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
                    Some(ends) => {
                        self.record(ends, &mut failed).await?;
                        failed_first |= stopping.is_none() && !failed.is_empty();
                    }
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
        failed.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        let Stage::Open(superstep) = &self.stage else {
            unreachable!("the superstep is open")
        };
        let complete = superstep.recorded.len() == superstep.tasks.len();
        match stopping {
            _ if failed_first => self.failed(failed).await,
            // What fails after it was told to end has ended.
            Some((why, _)) if !complete => self.stopped(why, failed).await,
            None if !complete => {
                let lost = self.lost();
                self.failed(lost).await
            }
            _ => {
                let Stage::Open(superstep) = std::mem::replace(&mut self.stage, Stage::Between)
                else {
                    unreachable!("the superstep is open")
                };
                self.close_many(superstep).await
            }
        }
    }

    /// Tasks that are gone without an end: what they held panicked when it was dropped.
    fn lost(&self) -> Vec<Failed> {
        let Stage::Open(superstep) = &self.stage else {
            return Vec::new();
        };
        let lost = self.todo(superstep).into_iter().map(|place| {
            let task = &superstep.tasks[place];
            let error = NodeError::new(
                ErrorClass::Panicked,
                "it ended without a result: something that it held panicked when it was dropped",
            );
            let path = self.shared.path(superstep.step, task.node, task.index);
            (path, error, Vec::new())
        });
        let mut lost: Vec<_> = lost.collect();
        lost.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        lost
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

    /// Awaits a task, or the reason to stop; what ends within the grace time counts. What has not
    /// begun by then, because a layer holds it, does not begin any more.
    async fn race<T>(&self, task: impl Future<Output = T>, begun: Option<&AtomicBool>) -> Raced<T> {
        let mut task = std::pin::pin!(task);
        // Most bodies are done at the first poll: nothing else is set up for them.
        let first = std::future::poll_fn(|cx| Poll::Ready(task.as_mut().poll(cx))).await;
        if let Poll::Ready(ended) = first {
            return Raced::Ended(ended);
        }
        let why = tokio::select! {
            biased;
            ended = &mut task => return Raced::Ended(ended),
            why = self.stop.wait() => why,
        };
        let end = self.end_of_grace(why);
        if begun.is_some_and(|begun| !begun.load(Ordering::SeqCst)) {
            return Raced::Cut(why);
        }
        match tokio::time::timeout_at(end, task).await {
            Ok(ended) => Raced::Late(ended, why),
            Err(_) => Raced::Cut(why),
        }
    }

    /// Tells the nodes to end, and says until when they may.
    fn end_of_grace(&self, why: Why) -> Instant {
        self.shared.port.stop.cancel();
        match why {
            Why::Cancelled => after(self.options.grace),
            Why::Deadline(_) => Instant::now(),
        }
    }

    /// Ends the call because it has to stop; with the tasks that failed after they were told so.
    async fn stopped(&mut self, why: Why, failed: Vec<Failed>) -> Result<Progress, RunError> {
        let ended = match why {
            Why::Cancelled => Ended::Cancelled,
            Why::Deadline(after) => Ended::Deadline { after },
        };
        self.ended(ended, failed).await
    }

    /// Ends the call inside an open superstep: says so in the log and to whoever listens.
    async fn ended(&mut self, ended: Ended, failed: Vec<Failed>) -> Result<Progress, RunError> {
        let status = match ended {
            Ended::Finished => Status::Finished,
            Ended::Cancelled => Status::Cancelled,
            Ended::StepLimit { .. } | Ended::Deadline { .. } => Status::Limited,
        };
        let closed = self.state_and_step().1;
        let mut seq = None;
        if let Some(log) = &mut self.log {
            seq = Some(
                log.stopped(None, closed + 1, status, None, failed_tasks(&failed))
                    .await?,
            );
        }
        self.report_tasks_failed(seq, &failed);
        self.report_ended(seq, closed, status);
        Ok(Progress::Ended(ended))
    }
}
