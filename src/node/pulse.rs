//! Signs of life of one try of a task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// When a try has last shown that it lives. Only a try with an idle timeout has one.
#[derive(Debug)]
pub(crate) struct Pulse {
    began: Instant,
    /// The last sign, in nanoseconds since it began.
    last: AtomicU64,
    /// How many durable waits it is in: they are no idleness.
    waits: AtomicUsize,
    /// The pulse of the task whose graph this one is in: that lives as long as this does.
    above: Option<Arc<Pulse>>,
}

impl Pulse {
    pub(crate) fn new(above: Option<Arc<Pulse>>) -> Self {
        Self {
            began: Instant::now(),
            last: AtomicU64::new(0),
            waits: AtomicUsize::new(0),
            above,
        }
    }

    /// Takes note of a sign of life.
    pub(crate) fn beat(&self) {
        let since = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last.fetch_max(since, Ordering::SeqCst);
        if let Some(above) = &self.above {
            above.beat();
        }
    }

    /// Counts as alive until the guard is dropped.
    pub(crate) fn wait(&self) -> Waits<'_> {
        self.waits.fetch_add(1, Ordering::SeqCst);
        Waits {
            pulse: self,
            _above: self.above.as_ref().map(|above| Box::new(above.wait())),
        }
    }

    /// The last sign of life; now, while it waits.
    pub(crate) fn last(&self) -> Instant {
        if self.waits.load(Ordering::SeqCst) > 0 {
            return Instant::now();
        }
        self.began + Duration::from_nanos(self.last.load(Ordering::SeqCst))
    }
}

/// A durable wait.
pub(crate) struct Waits<'p> {
    pulse: &'p Pulse,
    _above: Option<Box<Waits<'p>>>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.pulse.beat();
        self.pulse.waits.fetch_sub(1, Ordering::SeqCst);
    }
}
