//! Asking a run to stop from outside, and hearing that one is asked.
//!
//! In comes a thread, out goes whether a call will see the wish, or how the thread stands without one.
//! On the other side, a run hears the wishes that are for it, heeds each once, and says so in the same
//! write that ends the call.

use super::handle::Run;
use super::runner::not_found;
use super::stop::{Stop, Why};
use super::{Ended, RunError, Runner};
use crate::ids::{RunId, ThreadId};
use crate::policy::now_ms;
use crate::state::State;
use crate::store::{Asked, CheckpointStore, Status, StoredError, Wish, WishKind, Wishes};

/// Cancels the run of a thread, whoever works on it: durably, and without a claim.
///
/// A call that works on it, in this process or in another one that shares the store, tells its nodes to
/// end and stops, at the latest at its next boundary. Where none does, the thread is cancelled at once,
/// which needs no graph. The reason is kept with the thread; an empty one is none.
///
/// # Errors
/// [`RunError::NotFound`]; and what the store may refuse, a reason of more than 1,024 bytes included.
pub async fn cancel(
    store: &dyn CheckpointStore,
    thread: &ThreadId,
    reason: impl Into<String>,
) -> Result<Asked, RunError> {
    ask(store, thread, WishKind::Cancel, reason.into()).await
}

/// Asks whoever works on a thread to stop at the next boundary: what is running ends as always, its
/// superstep closes, and the thread is [paused](Status::Paused). The next call goes on.
///
/// Where no call works on it, there is nothing to do.
///
/// # Errors
/// As [`cancel`].
pub async fn drain(
    store: &dyn CheckpointStore,
    thread: &ThreadId,
    reason: impl Into<String>,
) -> Result<Asked, RunError> {
    ask(store, thread, WishKind::Drain, reason.into()).await
}

async fn ask(
    store: &dyn CheckpointStore,
    thread: &ThreadId,
    kind: WishKind,
    reason: String,
) -> Result<Asked, RunError> {
    let head = store.head(thread).await?.ok_or_else(|| not_found(thread))?;
    let wish = Wish {
        run: head.run.into(),
        kind,
        at_ms: now_ms(),
        reason,
    };
    let asked = store.ask_to_stop(thread, wish).await?;
    asked.ok_or_else(|| not_found(thread))
}

impl<S: State> Runner<S> {
    /// Cancels the run of a thread, whichever call works on it; see [`cancel`].
    ///
    /// ```
    /// use milepost::store::{Asked, MemoryStore, Status};
    /// use milepost::{Command, Context, End, Graph, NodeError, Runner, Snapshot, State, ThreadId};
    ///
    /// #[derive(Clone, Debug, Default, State)]
    /// struct Count {
    ///     n: u64,
    /// }
    ///
    /// async fn increase(count: Snapshot<Count>, _: Context) -> Result<CountUpdate, NodeError> {
    ///     Ok(Count::update().n(count.n + 1))
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut g = Graph::builder("count");
    /// let increase = g.node("increase", increase);
    /// g.start(increase);
    /// g.edge(increase, End);
    ///
    /// let runner = Runner::new(g.build()?).store(MemoryStore::new());
    /// let thread = ThreadId::new("first")?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// runner.run(&thread, Command::start(Count::update())).await?;
    /// let asked = runner.cancel(&thread, "nobody needs it any more").await?;
    /// assert_eq!(asked, Asked::AtRest(Status::Finished));
    /// # Ok::<(), milepost::RunError>(()) })?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`cancel`].
    pub async fn cancel(
        &self,
        thread: &ThreadId,
        reason: impl Into<String>,
    ) -> Result<Asked, RunError> {
        let store = self.store.as_ref().ok_or_else(|| not_found(thread))?;
        cancel(&**store, thread, reason).await
    }

    /// Asks whichever call works on a thread to stop at the next boundary; see [`drain`].
    ///
    /// # Errors
    /// As [`drain`].
    pub async fn drain(
        &self,
        thread: &ThreadId,
        reason: impl Into<String>,
    ) -> Result<Asked, RunError> {
        let store = self.store.as_ref().ok_or_else(|| not_found(thread))?;
        drain(&**store, thread, reason).await
    }
}

/// How a run hears what is wished of it.
pub(crate) struct Ear {
    wishes: Wishes,
    run: RunId,
    /// The one that waited when the thread was claimed, where it is for this run.
    first: Option<Wish>,
    /// What is heeded already, or was for an earlier call.
    passed: Option<Wish>,
}

impl Ear {
    /// Listens for a run. A wish to cancel it may have waited since before its thread was claimed; one
    /// to drain was for the call that held the thread then.
    pub(crate) fn new(wishes: Wishes, run: RunId) -> Self {
        let waited = match wishes.has_news() {
            true => None,
            false => wishes.newest(),
        };
        let is_first = |wish: &Wish| wish.kind == WishKind::Cancel && wish.run == run.as_str();
        let (first, passed) = match waited.as_ref().is_some_and(is_first) {
            true => (waited, None),
            false => (None, waited),
        };
        Self {
            wishes,
            run,
            first,
            passed,
        }
    }

    fn is_for_us(&self, wish: &Wish) -> bool {
        wish.run == self.run.as_str() && self.passed.as_ref() != Some(wish)
    }

    /// What is wished now.
    #[inline]
    pub(crate) fn wish(&self) -> Option<Wish> {
        if !self.wishes.has_news() {
            return self.first.clone();
        }
        self.wishes.newest().filter(|wish| self.is_for_us(wish))
    }

    /// Why to stop at a boundary, if one is wished.
    #[inline]
    pub(crate) fn now(&self) -> Option<Why> {
        if !self.wishes.has_news() && self.first.is_none() {
            return None;
        }
        self.wish().map(|wish| match wish.kind {
            WishKind::Cancel => Why::Cancelled,
            WishKind::Drain => Why::Drained,
        })
    }

    /// Waits until it is to be cancelled.
    pub(crate) async fn cancelled(&self) {
        let is_one = |wish: &Wish| wish.kind == WishKind::Cancel && self.is_for_us(wish);
        self.wishes.wait(is_one).await;
    }

    /// Waits until anything is wished.
    pub(crate) async fn asked(&self) {
        self.wishes.wait(|wish| self.is_for_us(wish)).await;
    }

    fn pass(&mut self, wish: Wish) {
        self.first = None;
        self.passed = Some(wish);
    }
}

impl Stop {
    /// A pause at a boundary gives way to a wish to cancel, which is heeded at the next look.
    pub(super) fn or_cancelled(&self, status: Status) -> Status {
        let asked = || self.ear.as_ref().and_then(Ear::now);
        match status {
            Status::Paused if asked() == Some(Why::Cancelled) => Status::Running,
            status => status,
        }
    }
}

impl<S: State> Run<S> {
    /// How a call ends that is to end like this, where something is wished of it; with how the thread
    /// stands then, and why. The next write says that the wish is heeded.
    pub(super) fn heed(&mut self, ended: Ended) -> (Ended, Status, Option<StoredError>) {
        let wish = self.stop.ear.as_ref().and_then(Ear::wish);
        let ended = match &wish {
            Some(wish) if wish.kind == WishKind::Cancel => Ended::Cancelled,
            _ => ended,
        };
        let status = match (ended, &wish) {
            // Whoever wished it takes it up again.
            (Ended::Drained, Some(_)) => Status::Paused,
            (Ended::Drained, None) => Status::Drained,
            (Ended::Finished, _) => Status::Finished,
            (Ended::Cancelled, _) => Status::Cancelled,
            (Ended::Paused { .. }, _) => Status::Paused,
            (Ended::Parked { .. }, _) => Status::Parked,
            (Ended::StepLimit { .. } | Ended::Deadline { .. }, _) => Status::Limited,
        };
        let Some(wish) = wish else {
            return (ended, status, None);
        };
        let why = match ended {
            Ended::Cancelled => wish.error(),
            _ => None,
        };
        if let Some(log) = &mut self.log {
            log.fulfils = Some(wish.clone());
        }
        if let Some(ear) = &mut self.stop.ear {
            ear.pass(wish);
        }
        (ended, status, why)
    }
}
