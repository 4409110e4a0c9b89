//! The short way through stations 2 to 6: supersteps of one task, where nothing is written and
//! nobody listens.
//!
//! In comes a position, out comes the next one, with nothing between but the stages themselves: no
//! span, no select, no record. What does not fit (several tasks, a policy, a body that waits, a
//! failure) is handed to the long way at the point where it stands. It decides nothing of its own:
//! stops, limits, panics and fairness to other tasks are as there.

use std::task::{Context, Poll};

use tokio::task::coop;

use super::execute::{Begun, Gave};
use super::handle::{Progress, Run, Stage};
use super::join::clock;
use super::{Ended, RunError};
use crate::engine::{
    Outcomes, Planned, Reduced, RouteFault, Superstep, Unreduced, plan, reduce, route,
};
use crate::ids::Step;
use crate::node::{Asked, Call, NodeError};
use crate::state::State;

/// Where the short way has ended.
enum Left<S: State> {
    /// Here, with this.
    Done(Progress),
    /// At a position, or in a superstep, that is not for it.
    Long,
    /// In a superstep whose task waits for something.
    Waits(Call<S::Update>),
    /// In a superstep whose task asks.
    Asked(Vec<Asked>),
    /// In a superstep whose task has failed.
    Failed(NodeError),
    /// In a merge that was refused.
    Unmerged(Superstep<S>, Unreduced),
    /// In a decision that could not be made.
    Undecided(Reduced<S>, RouteFault),
}

impl<S: State> Run<S> {
    /// Runs at most so many supersteps, as far as the short way leads; none if it leads nowhere.
    pub(super) async fn short(&mut self, most: u64) -> Option<Result<Progress, RunError>> {
        if self.over
            || self.pauses
            || !self.questions.is_empty()
            || self.options.needs_the_long_way()
        {
            return None;
        }
        let until = self.executed.saturating_add(most);
        let left = std::future::poll_fn(|cx| self.poll_short(until, cx)).await;
        Some(match left {
            Left::Done(progress) => Ok(progress),
            Left::Long => return None,
            Left::Waits(call) => self.one_waits(call).await,
            Left::Asked(asked) => {
                self.one_ended(Ok(Gave::Asked(asked)), Vec::new(), None)
                    .await
            }
            Left::Failed(error) => self.one_ended(Err(error), Vec::new(), None).await,
            Left::Unmerged(superstep, fault) => self.unmerged(superstep, fault, None).await,
            Left::Undecided(reduced, fault) => self.undecided(reduced, fault, None).await,
        })
    }

    fn poll_short(&mut self, until: u64, cx: &mut Context<'_>) -> Poll<Left<S>> {
        // Asked here and not at each step: at the latest after a hundred steps, others have run and
        // this is asked again.
        if tracing::enabled!(tracing::Level::DEBUG) {
            return Poll::Ready(Left::Long);
        }
        let mut position = match std::mem::replace(&mut self.stage, Stage::Between) {
            Stage::At(position) => position,
            stage => {
                self.stage = stage;
                return Poll::Ready(Left::Long);
            }
        };
        loop {
            // A run whose nodes never wait must let others run, too.
            match coop::poll_proceed(cx) {
                Poll::Ready(turn) => turn.made_progress(),
                Poll::Pending => {
                    self.stage = Stage::At(position);
                    return Poll::Pending;
                }
            }
            let fits = matches!(position.frontier.as_slice(), [task] if self.shared.bare(task.node))
                && position.recorded.is_empty()
                && self.executed < self.limit
                && self.stop.now().is_none();
            if !fits {
                self.stage = Stage::At(position);
                return Poll::Ready(Left::Long);
            }
            let superstep = match plan(position) {
                Planned::Run(superstep) => superstep,
                Planned::Done(position) => {
                    self.stage = Stage::At(position);
                    return Poll::Ready(Left::Done(Progress::Ended(Ended::Finished)));
                }
            };
            let outcome = match self.begin_one(&superstep, cx) {
                Ok(Begun::Ended(Gave::Outcome(outcome))) => outcome,
                Ok(Begun::Ended(Gave::Asked(asked))) => {
                    self.stage = Stage::Open(superstep);
                    return Poll::Ready(Left::Asked(asked));
                }
                Ok(Begun::Ended(Gave::Parked(_) | Gave::Held(_))) => {
                    unreachable!("only a run with a store lets go of a task, and no graph is bare")
                }
                Ok(Begun::Waits(call)) => {
                    self.stage = Stage::Open(superstep);
                    return Poll::Ready(Left::Waits(call));
                }
                Err(error) => {
                    self.stage = Stage::Open(superstep);
                    return Poll::Ready(Left::Failed(error));
                }
            };
            let tables = self.shared.graph.tables();
            let reduced = match reduce(tables, superstep, Outcomes::One(outcome)) {
                Ok(reduced) => reduced,
                Err((superstep, fault)) => {
                    return Poll::Ready(Left::Unmerged(superstep, fault));
                }
            };
            position = match route(tables, reduced, false, clock(tables)) {
                Ok(routed) => routed.position,
                Err((reduced, fault)) => return Poll::Ready(Left::Undecided(reduced, fault)),
            };
            self.executed += 1;
            self.shared.port.recall.clear();
            let progress = if position.frontier.is_empty() {
                Progress::Ended(Ended::Finished)
            } else if self.executed >= until {
                Progress::Committed(Step::new(position.step))
            } else {
                continue;
            };
            self.stage = Stage::At(position);
            return Poll::Ready(Left::Done(progress));
        }
    }

    /// Begins the only task of a superstep.
    #[inline]
    fn begin_one(
        &self,
        superstep: &Superstep<S>,
        cx: &mut Context<'_>,
    ) -> Result<Begun<S::Update>, NodeError> {
        let task = &superstep.tasks[0];
        let at = self.standing(superstep.step, task);
        self.shared
            .begin(&superstep.before, at, task.payload.as_ref(), cx)
    }
}
