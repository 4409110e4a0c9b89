//! Trying again.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant, SystemTime};

use futures::future::BoxFuture;

use crate::node::{NodeError, Port, Retry};

/// One try, as it is recorded.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    /// When it began, in milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// How long it took, in microseconds.
    pub(crate) micros: u64,
    /// Why it failed.
    pub(crate) error: Option<NodeError>,
    /// Whether nothing was run, because a cache had the outcome.
    pub(crate) cached: bool,
}

/// Milliseconds since 1970. For people: nothing is decided by it.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

/// The time of day, read once and counted on from there: that takes one clock instead of two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch {
    read: Instant,
    micros: u64,
}

impl Watch {
    /// How long a reading is trusted. Whoever sets the system's clock finds it in records after this.
    const TRUSTED: Duration = Duration::from_millis(100);

    /// Microseconds since 1970 at a moment that is hardly past. For people, as [`now_ms`].
    #[inline]
    pub(crate) fn micros(this: &mut Option<Self>, moment: Instant) -> u64 {
        if let Some(watch) = this
            && let Some(since) = moment.checked_duration_since(watch.read)
            && since < Self::TRUSTED
        {
            return watch.micros + u64::from(since.subsec_micros());
        }
        this.insert(Self::read()).micros
    }

    #[cold]
    fn read() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            read: Instant::now(),
            micros: since.map_or(0, |since| {
                u64::try_from(since.as_micros()).unwrap_or(u64::MAX / 2)
            }),
        }
    }
}

/// Runs `once` until it succeeds, the retry gives up, or the run is to stop, and keeps what each
/// try did.
pub(crate) async fn tried<'t, T>(
    retry: Option<&Retry>,
    port: &dyn Port,
    mut once: impl FnMut(u32) -> BoxFuture<'t, Result<T, NodeError>>,
) -> (Result<T, NodeError>, Vec<Attempt>) {
    let mut attempts = Vec::new();
    for number in 1.. {
        let (started_ms, started) = (now_ms(), Instant::now());
        let ended = once(number).await;
        let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let error = ended.as_ref().err().cloned();
        attempts.push(Attempt {
            started_ms,
            micros,
            error,
            cached: false,
        });
        let wait = match (&ended, retry) {
            (Err(error), Some(retry)) => retry.wait(number, error, chance()),
            _ => None,
        };
        match wait {
            // Nothing new starts once the run is to stop: not the next try either.
            Some(wait) => tokio::select! {
                biased;
                () = port.cancelled() => return (ended, attempts),
                () = tokio::time::sleep(wait) => {}
            },
            None => return (ended, attempts),
        }
    }
    unreachable!("a task is tried at most u32::MAX times")
}

/// A number from 0 to 1, from the randomness that the standard library seeds its maps with.
fn chance() -> f64 {
    let bits = RandomState::new().hash_one(0u8) >> 11;
    bits as f64 / (1u64 << 53) as f64
}
