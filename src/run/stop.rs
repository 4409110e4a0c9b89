//! Why and when a run has to stop.

use std::panic::catch_unwind;
use std::time::Duration;

use tokio::time::Instant;

use super::Cancel;
use super::port::Listener;
use super::wish::Ear;

/// What may ask a run to stop.
pub(crate) struct Stop {
    pub(crate) cancel: Option<Cancel>,
    pub(crate) listener: Option<Listener>,
    /// What others wish, who do not hold the thread; none without a store.
    pub(crate) ear: Option<Ear>,
    /// The end of the call, and how long it was to take.
    pub(crate) call: Option<(Instant, Duration)>,
    /// The end of the superstep.
    pub(crate) superstep: Option<(Instant, Duration)>,
}

/// The moment after a time. A time that no clock can count to is never over.
pub(crate) fn after(time: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + NEVER)
}

/// Waits until a moment. A runtime without a timer, in which nobody but another holder of the store
/// can stop a run, waits for the nodes instead.
pub(crate) async fn until(end: Instant) {
    match has_timer() {
        true => tokio::time::sleep_until(end).await,
        false => std::future::pending().await,
    }
}

/// Whether the runtime has a timer. It does not say so, but panics where it is asked for one.
pub(crate) fn has_timer() -> bool {
    catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok()
}

/// Why a run stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Cancelled,
    /// At a boundary only.
    Drained,
    Deadline(Duration),
}

impl Stop {
    /// Whether to stop here, at a boundary.
    #[inline]
    pub(crate) fn now(&self) -> Option<Why> {
        if self.cancel.as_ref().is_some_and(Cancel::is_cancelled)
            || self.listener.as_ref().is_some_and(Listener::gone)
        {
            return Some(Why::Cancelled);
        }
        if let Some(ear) = &self.ear
            && let Some(why) = ear.now()
        {
            return Some(why);
        }
        match self.call {
            Some((end, after)) if Instant::now() >= end => Some(Why::Deadline(after)),
            _ if self.cancel.as_ref().is_some_and(Cancel::is_draining) => Some(Why::Drained),
            _ => None,
        }
    }

    /// Whether to start nothing more inside a superstep.
    pub(crate) fn inside(&self) -> bool {
        matches!(self.now(), Some(Why::Cancelled | Why::Deadline(_)))
            || matches!(self.superstep, Some((end, _)) if Instant::now() >= end)
    }

    /// Waits until it has to stop at a boundary.
    pub(crate) async fn at_boundary(&self) {
        let draining = async {
            match &self.cancel {
                Some(cancel) => cancel.draining().await,
                None => std::future::pending().await,
            }
        };
        let wished = async {
            match &self.ear {
                Some(ear) => ear.asked().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.wait() => {}
            () = draining => {}
            () = wished => {}
        }
    }

    /// Waits until it has to stop, also inside a superstep.
    pub(crate) async fn wait(&self) -> Why {
        let cancelled = async {
            match &self.cancel {
                Some(cancel) => cancel.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let unheard = async {
            match &self.listener {
                Some(listener) => listener.closed().await,
                None => std::future::pending().await,
            }
        };
        let wished = async {
            match &self.ear {
                Some(ear) => ear.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let nearest = match (self.call, self.superstep) {
            (Some(call), Some(superstep)) => Some(call.min(superstep)),
            (call, superstep) => call.or(superstep),
        };
        let late = async {
            match nearest {
                Some((end, after)) => {
                    tokio::time::sleep_until(end).await;
                    after
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = cancelled => Why::Cancelled,
            () = unheard => Why::Cancelled,
            () = wished => Why::Cancelled,
            after = late => Why::Deadline(after),
        }
    }
}
