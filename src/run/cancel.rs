//! Asking runs of this process to stop.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

/// Asks runs to stop: at the next boundary, or within the grace time where a node is running.
///
/// Cloned handles are one: any of them stops all runs that were given one of them.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Inner>);

#[derive(Default)]
struct Inner {
    asked: AtomicU8,
    notify: Notify,
}

const DRAIN: u8 = 1;
const CANCEL: u8 = 2;

impl Cancel {
    /// A handle that nothing was asked of yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks to cancel. Once asked, it stays so.
    pub fn cancel(&self) {
        self.0.asked.store(CANCEL, Ordering::SeqCst);
        self.0.notify.notify_waiters();
    }

    /// Asks for less: to start no other superstep. What is running ends as always, and its superstep
    /// closes; then the call ends with [`Ended::Drained`](super::Ended::Drained).
    pub fn drain(&self) {
        self.0.asked.fetch_max(DRAIN, Ordering::SeqCst);
        self.0.notify.notify_waiters();
    }

    /// Whether it was asked to cancel.
    pub fn is_cancelled(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst) == CANCEL
    }

    /// Whether it was asked for at least a drain.
    pub fn is_draining(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst) >= DRAIN
    }

    /// Waits until it is asked to cancel.
    pub async fn cancelled(&self) {
        self.at_least(CANCEL).await;
    }

    /// Waits until it is asked for at least a drain.
    pub(super) async fn draining(&self) {
        self.at_least(DRAIN).await;
    }

    async fn at_least(&self, level: u8) {
        loop {
            // The waiter is registered before the flag is read, so no wake-up is missed.
            let notified = self.0.notify.notified();
            if self.0.asked.load(Ordering::SeqCst) >= level {
                return;
            }
            notified.await;
        }
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancel").field(&self.is_cancelled()).finish()
    }
}
