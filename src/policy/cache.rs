//! Outcomes that are kept under a key: the seam of a cache, and one in memory.
//!
//! In come keys and bytes, out come the bytes again as long as they are fresh. What they mean is not
//! known here; whether a node may be answered from them was decided when its graph was built.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::node::NodeError;

/// Under what an outcome is kept: 32 bytes. The first 16 stand for the node with everything that its
/// outcomes depend on in the graph and the state's type, the last 16 for what the graph's author
/// named as the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey([u8; 32]);

impl CacheKey {
    pub(crate) fn new(space: [u8; 16], key: u128) -> Self {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&space);
        bytes[16..].copy_from_slice(&key.to_be_bytes());
        Self(bytes)
    }

    /// The key's bytes: the same in every process.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Keeps outcomes of nodes, which [`Builder::cache`](crate::Builder::cache) names. The default is a
/// [`MemoryCache`]; give another one with [`RunOptions::cache`](crate::RunOptions::cache).
///
/// A cache that fails costs time and nothing else: the node is run, and a warning is logged.
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a cache of outcomes",
    label = "this does not keep outcomes",
    note = "implement `NodeCache` for it, or use `MemoryCache`"
)]
pub trait NodeCache: Send + Sync + 'static {
    /// What is kept under a key, if it is still fresh.
    ///
    /// # Errors
    /// Whatever keeps the cache from saying.
    async fn get(&self, key: &CacheKey) -> Result<Option<Vec<u8>>, NodeError>;

    /// Keeps this under a key for so long, instead of what was there.
    ///
    /// # Errors
    /// Whatever keeps the cache from keeping it.
    async fn put(&self, key: &CacheKey, outcome: Vec<u8>, fresh: Duration)
    -> Result<(), NodeError>;
}

/// A cache in memory. Where it is full, what was not asked for the longest makes room.
///
/// Defaults:
/// - `entries`: 1,024
/// - `bytes`: 64 MiB
#[derive(Debug)]
pub struct MemoryCache {
    entries: usize,
    bytes: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    all: HashMap<CacheKey, Entry>,
    /// The keys by when they were last asked for.
    by_use: BTreeMap<u64, CacheKey>,
    uses: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    outcome: Vec<u8>,
    until: Instant,
    used: u64,
}

impl Default for MemoryCache {
    fn default() -> Self {
        Self {
            entries: 1024,
            bytes: 64 << 20,
            kept: Mutex::default(),
        }
    }
}

impl MemoryCache {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many outcomes it keeps at most.
    #[must_use]
    pub fn entries(mut self, outcomes: usize) -> Self {
        self.entries = outcomes;
        self
    }

    /// Sets how many bytes its outcomes have at most. A larger outcome is not kept.
    #[must_use]
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    fn with<T>(&self, body: impl FnOnce(&mut Kept) -> T) -> T {
        body(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Kept {
    fn remove(&mut self, key: &CacheKey) {
        if let Some(entry) = self.all.remove(key) {
            self.by_use.remove(&entry.used);
            self.bytes -= entry.outcome.len();
        }
    }
}

#[async_trait]
impl NodeCache for MemoryCache {
    async fn get(&self, key: &CacheKey) -> Result<Option<Vec<u8>>, NodeError> {
        let now = Instant::now();
        Ok(self.with(|kept| {
            let Kept {
                all, by_use, uses, ..
            } = kept;
            let entry = all.get_mut(key)?;
            if entry.until <= now {
                kept.remove(key);
                return None;
            }
            by_use.remove(&entry.used);
            *uses += 1;
            entry.used = *uses;
            by_use.insert(entry.used, *key);
            Some(entry.outcome.clone())
        }))
    }

    async fn put(
        &self,
        key: &CacheKey,
        outcome: Vec<u8>,
        fresh: Duration,
    ) -> Result<(), NodeError> {
        // Longer than any clock goes is for ever.
        let until = Instant::now().checked_add(fresh);
        let until = until.unwrap_or_else(|| Instant::now() + Duration::from_secs(1 << 30));
        self.with(|kept| {
            kept.remove(key);
            if outcome.len() > self.bytes || self.entries == 0 {
                return;
            }
            while kept.all.len() >= self.entries || kept.bytes + outcome.len() > self.bytes {
                let Some((_, oldest)) = kept.by_use.first_key_value() else {
                    break;
                };
                let oldest = *oldest;
                kept.remove(&oldest);
            }
            kept.uses += 1;
            kept.bytes += outcome.len();
            let used = kept.uses;
            kept.by_use.insert(used, *key);
            kept.all.insert(
                *key,
                Entry {
                    outcome,
                    until,
                    used,
                },
            );
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn key(number: u128) -> CacheKey {
        CacheKey::new([7; 16], number)
    }

    async fn kept(cache: &MemoryCache) -> Vec<u128> {
        let mut found = Vec::new();
        for number in 0..6 {
            if cache.get(&key(number)).await.expect("memory").is_some() {
                found.push(number);
            }
        }
        found
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_asked_for_the_longest_makes_room() {
        let cache = MemoryCache::new().entries(3).bytes(100);
        for number in 0..3 {
            let put = cache.put(&key(number), vec![0; 10], HOUR).await;
            put.expect("memory");
        }
        cache.get(&key(0)).await.expect("memory");
        cache.put(&key(3), vec![0; 10], HOUR).await.expect("memory");
        assert_eq!(kept(&cache).await, [0, 2, 3]);
        cache.put(&key(4), vec![0; 95], HOUR).await.expect("memory");
        assert_eq!(kept(&cache).await, [4]);
        // What is larger than all there is replaces nothing but itself.
        cache
            .put(&key(5), vec![0; 101], HOUR)
            .await
            .expect("memory");
        assert_eq!(kept(&cache).await, [4]);
        cache
            .put(&key(4), vec![0; 101], HOUR)
            .await
            .expect("memory");
        assert!(kept(&cache).await.is_empty());
        assert_eq!(cache.with(|kept| (kept.bytes, kept.by_use.len())), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_longer_fresh_is_gone() {
        let cache = MemoryCache::new();
        cache.put(&key(1), vec![1], HOUR).await.expect("memory");
        let for_ever = cache.put(&key(2), vec![2], Duration::MAX).await;
        for_ever.expect("memory");
        tokio::time::advance(HOUR - Duration::from_millis(1)).await;
        assert_eq!(kept(&cache).await, [1, 2]);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(kept(&cache).await, [2]);
        assert_eq!(cache.with(|kept| kept.bytes), 1);
    }
}
