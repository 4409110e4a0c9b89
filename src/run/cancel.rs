//! Asking a run to stop.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Asks runs to stop: at the next boundary, or within the grace time where a node is running.
///
/// Cloned handles are one: any of them stops all runs that were given one of them.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Inner>);

#[derive(Default)]
struct Inner {
    asked: AtomicBool,
    notify: Notify,
}

impl Cancel {
    /// A handle that nothing was asked of yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks. Once asked, it stays so.
    pub fn cancel(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        self.0.notify.notify_waiters();
    }

    /// Whether it was asked.
    pub fn is_cancelled(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Waits until it is asked.
    pub async fn cancelled(&self) {
        loop {
            // The waiter is registered before the flag is read, so no wake-up is missed.
            let notified = self.0.notify.notified();
            if self.is_cancelled() {
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
