//! Why and when a run has to stop.

use std::time::Duration;

use tokio::time::Instant;

use super::Cancel;
use super::port::Listener;

/// What may ask a run to stop.
pub(crate) struct Stop {
    pub(crate) cancel: Option<Cancel>,
    pub(crate) listener: Option<Listener>,
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

/// Why a run stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Cancelled,
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
        match self.call {
            Some((end, after)) if Instant::now() >= end => Some(Why::Deadline(after)),
            _ => None,
        }
    }

    /// Whether to start nothing more inside a superstep.
    pub(crate) fn inside(&self) -> bool {
        self.now().is_some() || matches!(self.superstep, Some((end, _)) if Instant::now() >= end)
    }

    /// Waits until it has to stop.
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
            after = late => Why::Deadline(after),
        }
    }
}
