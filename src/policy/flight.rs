//! One at a time: what is computed for a key of a cache is computed once in a process.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

use super::{CacheKey, NodeCache};

/// A key of a cache; the cache by where it lies.
type Place = (usize, CacheKey);

/// Who wants to compute stands in line.
type Line = tokio::sync::Mutex<()>;

/// The keys for which somebody computes or waits: of all runners, for they may share a cache.
static FLIGHTS: LazyLock<Mutex<HashMap<Place, Weak<Line>>>> = LazyLock::new(Mutex::default);

/// The right to compute what belongs under a key; whoever wants it too waits until it is dropped.
#[derive(Debug)]
pub(crate) struct Flight {
    place: Place,
    /// None while it is dropped.
    turn: Option<OwnedMutexGuard<()>>,
}

impl Flight {
    /// Waits for the turn to compute what belongs under a key of a cache.
    pub(crate) async fn begin(cache: &Arc<dyn NodeCache>, key: CacheKey) -> Self {
        let place = (Arc::as_ptr(cache).cast::<()>() as usize, key);
        let mut waits = Queued { place, line: None };
        let line = {
            let mut all = FLIGHTS.lock().unwrap_or_else(PoisonError::into_inner);
            let known = all.get(&place).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let line = Arc::default();
                all.insert(place, Arc::downgrade(&line));
                line
            })
        };
        waits.line = Some(Arc::clone(&line));
        let turn = line.lock_owned().await;
        Self {
            place,
            turn: Some(turn),
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.turn = None;
        forget(self.place);
    }
}

/// Who waits, also where the wait is given up.
struct Queued {
    place: Place,
    line: Option<Arc<Line>>,
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.line = None;
        forget(self.place);
    }
}

/// Drops the entry of a key that nobody computes or waits for any more.
fn forget(place: Place) {
    let mut all = FLIGHTS.lock().unwrap_or_else(PoisonError::into_inner);
    if all.get(&place).is_some_and(|line| line.strong_count() == 0) {
        all.remove(&place);
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemoryCache;
    use super::*;

    fn waiting(place: Place) -> bool {
        let all = FLIGHTS.lock().unwrap_or_else(PoisonError::into_inner);
        all.contains_key(&place)
    }

    #[tokio::test]
    async fn one_flies_and_the_others_wait_their_turn() {
        let cache: Arc<dyn NodeCache> = Arc::new(MemoryCache::new());
        let key = CacheKey::new([0; 16], 1);
        let first = Flight::begin(&cache, key).await;
        let place = first.place;
        let second = Flight::begin(&cache, key);
        let mut second = Box::pin(second);
        assert!(futures::poll!(&mut second).is_pending());
        // Another key, and the same of another cache, wait for nobody.
        let other = CacheKey::new([0; 16], 2);
        drop(Flight::begin(&cache, other).await);
        let elsewhere: Arc<dyn NodeCache> = Arc::new(MemoryCache::new());
        drop(Flight::begin(&elsewhere, key).await);
        // One that gives up is no obstacle to the next.
        let mut third = Box::pin(Flight::begin(&cache, key));
        assert!(futures::poll!(&mut third).is_pending());
        drop(second);
        drop(first);
        let third = third.await;
        assert!(waiting(place));
        drop(third);
        assert!(!waiting(place));
    }
}
