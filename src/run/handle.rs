//! The driver's loop: one run, superstep by superstep.
//!
//! In comes a claimed thread at a position, out come commits, events and a report. All three doors
//! (run, stream, step) are this one core. It decides nothing that the engine can decide.

use std::fmt;
use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::Instrument;

use super::ask::Questions;
use super::execute::Shared;
use super::log::Log;
use super::recall::Request;
use super::retain::Retaining;
use super::stop::{Stop, after};
use super::{Ended, Report, RunError, RunOptions};
use crate::engine::{Planned, Position, Reduced, Superstep, plan};
use crate::ids::{RunId, Step, TaskPath, ThreadId};
use crate::policy::Watch;
use crate::state::{Snapshot, State};

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
    /// The questions of the open superstep.
    pub(super) questions: Questions,
    /// The tasks of the open superstep that wait for a time, by place, and until when.
    pub(super) parked: Vec<(usize, u64)>,
    /// What running tasks ask to be recorded; none without a store.
    pub(super) requests: Option<mpsc::UnboundedReceiver<Request>>,
    /// Whether the next advance only says that the call pauses.
    pub(super) pauses: bool,
    pub(super) executed: u64,
    pub(super) limit: u64,
    /// The limit of a graph inside that has used up its supersteps, and the task that runs it.
    pub(super) limited: Option<(u64, TaskPath)>,
    /// For a run that had ended before: the checkpoint of its end.
    pub(super) ended_at: Option<crate::ids::Seq>,
    /// When older checkpoints are dropped next.
    pub(super) retaining: Retaining,
    /// The time of day, where it is asked for at each step.
    pub(super) watch: Option<Watch>,
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
        let span = self.span();
        let run = async {
            let told = loop {
                match self.advance(self.until_retaining()).await {
                    Ok(Progress::Committed(_)) => self.retain_on_the_way().await,
                    Ok(Progress::Ended(ended)) => break Ok(self.report(ended)),
                    Err(error) => break Err(error),
                }
            };
            self.retain_at_the_end().await;
            told
        };
        let ended = run.instrument(span).await;
        self.settled(ended).await
    }

    /// Runs one superstep. What it has written is durable when this returns.
    ///
    /// # Errors
    /// [`RunError`], with everything kept that had finished.
    pub async fn step(&mut self) -> Result<Progress, RunError> {
        let span = self.span();
        let step = async {
            let told = self.advance(1).await;
            match told {
                Ok(Progress::Committed(_)) => self.retain_on_the_way().await,
                _ => self.retain_at_the_end().await,
            }
            told
        };
        let progress = step.instrument(span).await;
        self.settled(progress).await
    }

    /// Waits until all is durable that was written, before a caller hears how a call has ended.
    async fn settled<T>(&self, ended: Result<T, RunError>) -> Result<T, RunError> {
        let Some(log) = &self.log else { return ended };
        log.told();
        match log.settled().await {
            Err(error) if ended.is_ok() => Err(error.into()),
            _ => ended,
        }
    }

    fn span(&self) -> tracing::Span {
        tracing::info_span!("run", thread = %self.thread(), run = %self.id())
    }

    /// Runs one superstep, or at most so many where the short way leads through them.
    async fn advance(&mut self, most: u64) -> Result<Progress, RunError> {
        let short = match self.log {
            Some(_) => self.recorded(most).await,
            None => self.short(most).await,
        };
        match short {
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
        if std::mem::take(&mut self.pauses) {
            return Ok(Progress::Ended(Ended::Paused { questions: 0 }));
        }
        self.stop.superstep = None;
        self.limited = None;
        if let Some(log) = &self.log {
            log.told();
        }
        if let Some(listener) = &self.shared.port.listener {
            // A reader that does not read holds up the run, but not the end of it.
            tokio::select! {
                biased;
                () = listener.caught_up() => {}
                () = self.stop.at_boundary() => {}
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
            stage @ Stage::Open(_) => {
                self.shared.port.recall.again();
                self.stage = stage;
            }
            Stage::Between => unreachable!("a stage is put back before anything is awaited"),
        }
        self.settle_begun().await?;
        if (!self.questions.is_empty() || !self.parked.is_empty())
            && let Some(ended) = self.waits_or_expired().await
        {
            return ended;
        }
        let Stage::Open(superstep) = &self.stage else {
            unreachable!("the superstep is open")
        };
        let span = tracing::debug_span!("superstep", step = superstep.step);
        if let Some(time) = self.options.superstep_deadline {
            self.stop.superstep = Some((after(time), time));
        }
        let scene = span.clone();
        let superstep = async {
            if self.is_single() {
                self.one(scene).await
            } else {
                self.many(scene).await
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
            questions: self.questions.open(),
            limited: match (ended, &self.limited) {
                (Ended::StepLimit { .. }, Some((_, whose))) => Some(whose.clone()),
                _ => None,
            },
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
}
