//! The short way through station 3 where everything is written: supersteps of one task that has no
//! policy, in a run that nobody listens to.
//!
//! In comes a position, out comes the next one, with its record. Between the stages there is nothing
//! but one call of the body and one write: no span, no select, no future of its own around each try.
//! What does not fit (several tasks, a policy, a body that waits, a failure) is handed to the long way
//! at the point where it stands. It decides nothing of its own: stops, limits, panics, tries and what is
//! recorded of them are as there.

use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use super::close::{Kept, Uncommitted};
use super::execute::{Begun, Gave, guarded};
use super::handle::{Progress, Run, Stage};
use super::log::Sheet;
use super::stop::Why;
use super::superstep::Raced;
use super::{RunError, join, record};
use crate::engine::{
    Outcome, Outcomes, Planned, Reduced, RouteFault, Routed, Superstep, Unreduced, plan, reduce,
    route,
};
use crate::node::{Call, NodeError, Returned, Standing};
use crate::policy::{Attempt, Watch};
use crate::state::State;
use crate::store::{OutcomeRecord, Status};

/// When a try began, by both clocks.
#[derive(Clone, Copy)]
struct Began {
    at: Instant,
    /// Microseconds since 1970.
    micros: u64,
}

/// How far the end of a superstep has come.
enum Closing<S: State> {
    /// It is to be written: its number, and how the thread stands after it.
    Write(u64, Status, Sheet),
    /// It cannot be written.
    Unwritten(u64, Uncommitted),
    /// What the task has returned cannot be stored.
    Unstorable(Superstep<S>, Outcome<S::Update>, Attempt),
    /// The merge was refused.
    Unmerged(Superstep<S>, Unreduced, OutcomeRecord),
    /// The way out could not be decided.
    Undecided(Reduced<S>, RouteFault, OutcomeRecord),
}

impl<S: State> Run<S> {
    /// Runs at most so many supersteps, as far as this way leads; none if it leads nowhere.
    pub(super) async fn recorded(&mut self, most: u64) -> Option<Result<Progress, RunError>> {
        if !self.is_for_recorded() {
            return None;
        }
        let until = self.executed.saturating_add(most);
        let mut last = None;
        loop {
            // A run whose nodes never wait must let others run, too.
            tokio::task::coop::consume_budget().await;
            if !self.next_fits() {
                return last;
            }
            match self.one_recorded().await {
                Ok(progress @ Progress::Committed(_)) if self.executed < until => {
                    last = Some(Ok(progress));
                    if !self.is_for_recorded() {
                        return last;
                    }
                }
                ended => return Some(ended),
            }
        }
    }

    fn is_for_recorded(&self) -> bool {
        // Spans are for the long way. A hundred steps later at the latest, this is asked again.
        self.log.is_some()
            && !self.over
            && !self.pauses
            && self.questions.is_empty()
            && self.parked.is_empty()
            && !self.options.needs_the_long_way()
            && !tracing::enabled!(tracing::Level::DEBUG)
    }

    fn next_fits(&self) -> bool {
        let Stage::At(position) = &self.stage else {
            return false;
        };
        matches!(position.frontier.as_slice(), [task] if self.shared.plainly_recorded(task.node))
            && position.recorded.is_empty()
            && !self.shared.graph.tables().is_timed()
            && self.executed < self.limit
            && self.stop.now().is_none()
            && !self.shared.port.stop.is_cancelled()
    }

    /// A superstep of one task that fits.
    async fn one_recorded(&mut self) -> Result<Progress, RunError> {
        self.stop.superstep = None;
        self.limited = None;
        let Stage::At(position) = std::mem::replace(&mut self.stage, Stage::Between) else {
            unreachable!("the run stands between two supersteps")
        };
        let superstep = match plan(position) {
            Planned::Run(superstep) => superstep,
            Planned::Done(_) => unreachable!("a task is left to run"),
        };
        let task = &superstep.tasks[0];
        let at = self.standing(superstep.step, task);
        let began = self.began();
        let payload = task.payload.as_ref();
        let begun = std::future::poll_fn(|cx| {
            Poll::Ready(self.shared.poll_once(&superstep.before, at, payload, cx))
        });
        let begun = begun.await;
        match begun {
            Ok(Begun::Ended(Gave::Outcome(outcome))) => {
                let (attempt, at_ms) = self.tried(began, None);
                match self.close_recorded(superstep, outcome, attempt, at_ms) {
                    Closing::Write(step, status, Sheet { write, after }) => {
                        let Some(log) = &mut self.log else {
                            unreachable!("the thread is claimed")
                        };
                        self.over = true;
                        log.send(write).await?;
                        log.sent(after);
                        self.over = false;
                        Ok(self.progress(step, status))
                    }
                    closing => self.not_closed(closing).await,
                }
            }
            Ok(Begun::Ended(gave)) => {
                self.stage = Stage::Open(superstep);
                let (attempt, _) = self.tried(began, None);
                self.one_ended(Ok(gave), vec![attempt], None).await
            }
            Ok(Begun::Waits(call)) => {
                self.stage = Stage::Open(superstep);
                self.one_recorded_waits(call, at, began).await
            }
            Err(error) => {
                self.stage = Stage::Open(superstep);
                self.one_recorded_ended(Err(error), at, began, None).await
            }
        }
    }

    /// Waits for the only task of the open superstep, which was called without policies.
    async fn one_recorded_waits(
        &mut self,
        call: Call<S::Update>,
        at: Standing,
        began: Began,
    ) -> Result<Progress, RunError> {
        let shared = Arc::clone(&self.shared);
        let waits = shared.or_parked(at, guarded(call));
        let (ended, late) = match self.race(waits, None).await? {
            Raced::Cut(why) => return self.stopped(why, Vec::new()).await,
            Raced::Ended(ended) => (ended, None),
            Raced::Late(ended, why) => (ended, Some(why)),
        };
        self.one_recorded_ended(ended, at, began, late).await
    }

    async fn one_recorded_ended(
        &mut self,
        ended: Result<Returned<S::Update>, NodeError>,
        at: Standing,
        began: Began,
        late: Option<Why>,
    ) -> Result<Progress, RunError> {
        let (mut attempt, _) = self.tried(began, ended.as_ref().err().cloned());
        let Stage::Open(superstep) = &self.stage else {
            unreachable!("the superstep is open")
        };
        let payload = superstep.tasks[0].payload.as_ref();
        let result = self.shared.tolerated(&at, payload, ended, 1);
        if let Err(error) = &result {
            // What is recorded is what the caller gets, where the rule for failed tasks panicked.
            attempt.error = Some(error.clone());
        }
        self.one_ended(result, vec![attempt], late).await
    }

    /// Closes a superstep, up to its write.
    #[inline]
    fn close_recorded(
        &mut self,
        superstep: Superstep<S>,
        outcome: Outcome<S::Update>,
        attempt: Attempt,
        at_ms: u64,
    ) -> Closing<S> {
        let tables = self.shared.graph.tables();
        let (step, task) = (superstep.step, &superstep.tasks[0]);
        let check = self.options.check_round_trip;
        let attempts = std::slice::from_ref(&attempt);
        let Ok(record) = record::outcome(tables, step, task, &outcome, attempts, check) else {
            return Closing::Unstorable(superstep, outcome, attempt);
        };
        let by_value = record::by_value::<S>(std::iter::once(&outcome.update));
        let reduced = match reduce(tables, superstep, Outcomes::One(outcome)) {
            Ok(reduced) => reduced,
            Err((superstep, fault)) => return Closing::Unmerged(superstep, fault, record),
        };
        let Routed { position, taken } = match route(tables, reduced, true, join::clock(tables)) {
            Ok(routed) => routed,
            Err((reduced, fault)) => return Closing::Undecided(reduced, fault, record),
        };
        let edges = record::edges(tables, &taken);
        let kept = Kept::one(step, record, by_value);
        let status = self.closed(&position, &kept);
        let commit = self.commit_record(&position, edges, kept, (status, at_ms));
        let sheet = match (commit, &mut self.log) {
            (Ok(commit), Some(log)) => log.sheet(commit, &position.state).map_err(From::from),
            (Err(fault), _) => Err(fault),
            (Ok(_), None) => unreachable!("the thread is claimed"),
        };
        self.stage = Stage::At(position);
        match sheet {
            Ok(sheet) => Closing::Write(step, status, sheet),
            Err(fault) => Closing::Unwritten(step, fault),
        }
    }

    /// Ends the call where a superstep could not be closed.
    async fn not_closed(&mut self, closing: Closing<S>) -> Result<Progress, RunError> {
        match closing {
            Closing::Write(..) => unreachable!("what can be written is"),
            Closing::Unwritten(step, fault) => Err(self.unwritten(step, fault).await),
            // The long way says why.
            Closing::Unstorable(superstep, outcome, attempt) => {
                self.close_one(superstep, outcome, &[attempt]).await
            }
            Closing::Unmerged(superstep, fault, record) => {
                self.unmerged(superstep, fault, Some(record)).await
            }
            Closing::Undecided(reduced, fault, record) => {
                self.undecided(reduced, fault, Some(record)).await
            }
        }
    }

    fn began(&mut self) -> Began {
        let at = Instant::now();
        Began {
            at,
            micros: Watch::micros(&mut self.watch, at),
        }
    }

    /// What is recorded of a try that has just ended, and when that was.
    fn tried(&mut self, began: Began, error: Option<NodeError>) -> (Attempt, u64) {
        let now = Instant::now();
        let took = now.duration_since(began.at);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let attempt = Attempt {
            started_ms: began.micros / 1000,
            micros,
            error,
            cached: false,
        };
        (attempt, began.micros.saturating_add(micros) / 1000)
    }
}
