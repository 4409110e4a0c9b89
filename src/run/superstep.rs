//! Station 3 from the driver's side: the open superstep, of one task or of several.
//!
//! In comes an open superstep, out comes a closed one, or the reason why the call ends inside it.
//! Here a run waits for bodies, and for reasons to stop; what a task does is not seen.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;
use tracing::Span;

use super::close::{Done, Failed, failed_tasks, stopped};
use super::crowd::{Crowd, Drawn, Job};
use super::execute::{Gave, Scene, TaskEnd, guarded};
use super::handle::{Progress, Run, Stage};
use super::pause::{Asks, asked_for};
use super::stop::{Why, after, until};
use super::{Ended, RunError};
use crate::engine::{Superstep, Task};
use crate::event::EventKind;
use crate::ids::Step;
use crate::node::{Call, ErrorClass, NodeError, Standing};
use crate::policy::Attempt;
use crate::state::State;

/// How a task and a reason to stop have met.
pub(super) enum Raced<T> {
    /// The task ended first.
    Ended(T),
    /// The task ended within its grace time.
    Late(T, Why),
    /// The task was cut.
    Cut(Why),
}

impl<S: State> Run<S> {
    /// A superstep of one task.
    pub(super) async fn one(&mut self, span: Span) -> Result<Progress, RunError> {
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
            span,
        };
        let payload = task.payload.clone();
        let begun = Arc::new(AtomicBool::new(false));
        let run = Arc::clone(&self.shared).run_task(
            scene,
            (task.node, task.index),
            payload,
            Arc::clone(&begun),
        );
        match self.race(run, Some(&begun)).await? {
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
        let (ended, late) = match self.race(guarded(call), None).await? {
            Raced::Cut(why) => return self.stopped(why, Vec::new()).await,
            Raced::Ended(ended) => (ended, None),
            Raced::Late(ended, why) => (ended, Some(why)),
        };
        let Stage::Open(superstep) = &self.stage else {
            unreachable!("the superstep is open")
        };
        let task = &superstep.tasks[0];
        let at = self.standing(superstep.step, task);
        let result = self.shared.tolerated(&at, task.payload.as_ref(), ended, 1);
        self.one_ended(result, Vec::new(), late).await
    }

    /// Closes the open superstep after its only task, or ends the call with the task's error.
    /// `late` says that it ended only after it was told to.
    pub(super) async fn one_ended(
        &mut self,
        result: Result<Gave<S::Update>, NodeError>,
        attempts: Vec<Attempt>,
        late: Option<Why>,
    ) -> Result<Progress, RunError> {
        let Stage::Open(superstep) = std::mem::replace(&mut self.stage, Stage::Between) else {
            unreachable!("the superstep is open")
        };
        let mut failed = Vec::new();
        match result {
            Ok(Gave::Outcome(outcome)) => {
                return self.close_one(superstep, outcome, &attempts).await;
            }
            Ok(Gave::Asked(asked)) => {
                self.stage = Stage::Open(superstep);
                self.ask(vec![(0, asked, attempts)], &mut failed).await?;
            }
            Ok(Gave::Parked(due_ms)) => {
                self.stage = Stage::Open(superstep);
                self.parked.push((0, due_ms));
            }
            Ok(Gave::Held(held)) => {
                self.stage = Stage::Open(superstep);
                self.hold(0, held);
            }
            Err(error) => {
                let task = &superstep.tasks[0];
                let path = self.shared.path(superstep.step, task.node, task.index);
                self.stage = Stage::Open(superstep);
                failed.push((path, error, attempts));
            }
        }
        match late {
            // It was told to end, and did.
            Some(why) => self.stopped(why, failed).await,
            None if !failed.is_empty() => self.failed(failed).await,
            None if self.has_ended() => self.close_complete().await,
            None if self.waiting() == 0 => self.unfinished().await,
            None => self.paused().await,
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
    pub(super) async fn many(&mut self, span: Span) -> Result<Progress, RunError> {
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
            span,
        };
        let mut crowd = Crowd::start(Arc::clone(&self.shared), scene, jobs);
        let Stage::Open(superstep) = &mut self.stage else {
            unreachable!("the superstep is open")
        };
        superstep.recorded.reserve(todo.len());
        let mut failed = Vec::new();
        let mut failed_first = false;
        let mut asked = Vec::new();
        while !self.shared.timed && !self.stop.inside() {
            match crowd.draw() {
                Drawn::Ended(place, end) => self.keep(place, end, &mut asked, &mut failed),
                Drawn::Waits => {}
                Drawn::Nothing => break,
            }
            tokio::task::coop::consume_budget().await;
        }
        crowd.drawn();
        self.ask(asked, &mut failed).await?;
        failed_first |= !failed.is_empty();
        let mut stopping: Option<(Why, Instant)> = None;
        loop {
            let grace = async {
                match stopping {
                    Some((_, end)) => until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                // Before the ends: of many short tasks, there is always one more.
                why = self.stop.wait(), if stopping.is_none() => {
                    crowd.close();
                    stopping = Some((why, self.end_of_grace(why)));
                }
                ends = crowd.next() => match ends {
                    Some(ends) => {
                        self.record(ends, &mut failed).await?;
                        failed_first |= stopping.is_none() && !failed.is_empty();
                    }
                    None => break,
                },
                request = asked_for(&mut self.requests) => self.serve(request).await?,
                () = grace => break,
            }
        }
        drop(crowd);
        failed.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        let (waiting, complete) = (self.waiting(), self.is_complete());
        match stopping {
            _ if failed_first => self.failed(failed).await,
            // What fails after it was told to end has ended.
            Some((why, _)) if !complete => self.stopped(why, failed).await,
            None if !complete => self.unfinished().await,
            _ if waiting > 0 => match stopping {
                Some((why, _)) => self.stopped(why, failed).await,
                None => self.paused().await,
            },
            _ => self.close_complete().await,
        }
    }

    /// Ends the call with tasks that neither ended nor wait: a graph inside has used up its
    /// supersteps or was told to stop, or the task is lost.
    async fn unfinished(&mut self) -> Result<Progress, RunError> {
        if let Some((limit, _)) = self.limited {
            return self.ended(Ended::StepLimit { limit }, Vec::new()).await;
        }
        if let Some(why) = self.stop.now() {
            return self.stopped(why, Vec::new()).await;
        }
        let lost = self.catch(self.lost()).await?;
        match self.waiting() {
            _ if !lost.is_empty() => self.failed(lost).await,
            0 => self.close_complete().await,
            _ => self.paused().await,
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
        let mut todo = self.left(superstep);
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

    /// The places of the tasks that have not ended and do not wait.
    pub(super) fn left(&self, superstep: &Superstep<S>) -> Vec<usize> {
        let mut left = vec![true; superstep.tasks.len()];
        for (place, _) in &superstep.recorded {
            left[*place] = false;
        }
        let is_left = |place: &usize| left[*place] && !self.waits(*place);
        (0..left.len()).filter(is_left).collect()
    }

    /// Takes the end of a task that is not written anywhere.
    #[inline]
    fn keep(
        &mut self,
        place: usize,
        end: TaskEnd<S::Update>,
        asked: &mut Vec<Asks>,
        failed: &mut Vec<Failed>,
    ) {
        let Stage::Open(superstep) = &mut self.stage else {
            unreachable!("the superstep is open")
        };
        match end.result {
            Ok(Gave::Outcome(outcome)) => superstep.recorded.push((place, outcome)),
            Ok(Gave::Asked(questions)) => asked.push((place, questions, end.attempts)),
            Ok(Gave::Parked(due_ms)) => self.parked.push((place, due_ms)),
            Ok(Gave::Held(held)) => self.hold(place, held),
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
        let (mut well, mut asked) = (Vec::with_capacity(ends.len()), Vec::new());
        for (place, TaskEnd { result, attempts }) in ends {
            match result {
                Ok(Gave::Outcome(outcome)) => well.push((place, outcome, attempts)),
                result => self.keep(place, TaskEnd { result, attempts }, &mut asked, failed),
            }
        }
        self.take_outcomes(well).await?;
        self.ask(asked, failed).await
    }

    /// Takes outcomes of tasks of the open superstep, which are recorded where anything is.
    pub(super) async fn take_outcomes(
        &mut self,
        done: Vec<Done<S::Update>>,
    ) -> Result<(), RunError> {
        if self.shared.timed && !done.is_empty() {
            let step = self.state_and_step().1 + 1;
            let seqs = self.write_outcomes(step, &done).await?;
            self.recorded.extend(seqs);
        }
        let Stage::Open(superstep) = &mut self.stage else {
            unreachable!("the superstep is open")
        };
        let done = done.into_iter().map(|(place, outcome, _)| (place, outcome));
        superstep.recorded.extend(done);
        Ok(())
    }

    /// Awaits a task, or the reason to stop; what ends within the grace time counts. What has not
    /// begun by then, because a layer holds it, does not begin any more.
    pub(super) async fn race<T>(
        &mut self,
        task: impl Future<Output = T>,
        begun: Option<&AtomicBool>,
    ) -> Result<Raced<T>, RunError> {
        // In a box, so that it can be dropped where a panic of the drop is caught.
        let mut task = Box::pin(task);
        let why = loop {
            tokio::select! {
                biased;
                ended = &mut task => return Ok(Raced::Ended(ended)),
                why = self.stop.wait() => break why,
                request = asked_for(&mut self.requests) => self.serve(request).await?,
            }
        };
        let end = self.end_of_grace(why);
        while begun.is_none_or(|begun| begun.load(Ordering::SeqCst)) {
            tokio::select! {
                biased;
                ended = &mut task => return Ok(Raced::Late(ended, why)),
                request = asked_for(&mut self.requests) => self.serve(request).await?,
                () = until(end) => break,
            }
        }
        if catch_unwind(AssertUnwindSafe(|| drop(task))).is_err() {
            tracing::warn!("a task that was cut panicked when it was dropped");
        }
        Ok(Raced::Cut(why))
    }

    /// Tells the nodes to end, and says until when they may.
    fn end_of_grace(&self, why: Why) -> Instant {
        self.shared.port.stop.cancel();
        match why {
            Why::Cancelled => after(self.options.grace),
            // Nobody is told to end where only a boundary is waited for.
            Why::Drained | Why::Deadline(_) => Instant::now(),
        }
    }

    /// Ends the call because it has to stop; with the tasks that failed after they were told so.
    pub(super) async fn stopped(
        &mut self,
        why: Why,
        failed: Vec<Failed>,
    ) -> Result<Progress, RunError> {
        let ended = match why {
            Why::Cancelled => Ended::Cancelled,
            Why::Drained => Ended::Drained,
            Why::Deadline(after) => Ended::Deadline { after },
        };
        self.ended(ended, failed).await
    }

    /// Ends the call inside an open superstep: says so in the log and to whoever listens.
    pub(super) async fn ended(
        &mut self,
        ended: Ended,
        failed: Vec<Failed>,
    ) -> Result<Progress, RunError> {
        let (ended, status, why) = self.heed(ended);
        let closed = self.state_and_step().1;
        let stopped = stopped(closed + 1, status, why, failed_tasks(&failed));
        let mut seq = None;
        if let Some(log) = &mut self.log {
            seq = Some(log.stopped(None, stopped.clone()).await?);
        }
        self.report_tasks_failed(seq, &failed);
        self.report_stopped(seq, &stopped);
        Ok(Progress::Ended(ended))
    }
}
