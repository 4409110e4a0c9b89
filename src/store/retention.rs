//! Which checkpoints of a thread stay, and what a store is asked to drop.
//!
//! In come wishes of people (how many, how old, which ones), out goes one policy. It reads nothing and
//! has no clock: ages are counted from a time that is given.

use std::collections::BTreeSet;
use std::time::Duration;

use super::contract::{CheckpointStore, StoreError};
use super::retain::Survey;
use crate::ids::{Epoch, Seq, ThreadId};

/// How many records are read at once.
const PAGE: usize = 256;

/// Which checkpoints of a thread stay. The default: all.
///
/// Whatever the policy, these stay, with all that they need: the head of each branch, an open superstep
/// with its outcomes, durable steps and inner records, open questions, the rows of all runs. Bases are
/// not moved, so up to 63 checkpoints that are older than the oldest one asked for stay as well.
///
/// ```
/// use std::time::Duration;
/// use milepost::store::Retention;
///
/// let month = Duration::from_secs(30 * 24 * 60 * 60);
/// let policy = Retention::last(100).or(Retention::younger_than(month));
/// assert!(!policy.keeps_all());
/// assert!(policy.or(Retention::all()).keeps_all());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    all: bool,
    last: u64,
    younger_than: Option<Duration>,
    pinned: BTreeSet<Seq>,
}

impl Default for Retention {
    fn default() -> Self {
        Self::all()
    }
}

impl Retention {
    /// Every checkpoint stays.
    pub fn all() -> Self {
        Self {
            all: true,
            ..Self::last(1)
        }
    }

    /// Of each branch the newest `checkpoints` stay that led to where it stands; at least its head.
    pub fn last(checkpoints: u64) -> Self {
        Self {
            all: false,
            last: checkpoints.max(1),
            younger_than: None,
            pinned: BTreeSet::new(),
        }
    }

    /// The checkpoints stay that are at most as old as this, whatever branch they are on, and the heads.
    pub fn younger_than(age: Duration) -> Self {
        Self {
            younger_than: Some(age),
            ..Self::last(1)
        }
    }

    /// These checkpoints stay, and the heads. One that is not there is passed over.
    pub fn pinned(checkpoints: impl IntoIterator<Item = Seq>) -> Self {
        Self {
            pinned: checkpoints.into_iter().collect(),
            ..Self::last(1)
        }
    }

    /// What either of two policies keeps.
    #[must_use]
    pub fn or(mut self, mut other: Self) -> Self {
        self.pinned.append(&mut other.pinned);
        Self {
            all: self.all || other.all,
            last: self.last.max(other.last),
            younger_than: self.younger_than.max(other.younger_than),
            pinned: self.pinned,
        }
    }

    /// Whether every checkpoint stays.
    pub fn keeps_all(&self) -> bool {
        self.all
    }

    /// How many of the newest checkpoints of each branch stay.
    pub(super) fn newest(&self) -> usize {
        usize::try_from(self.last).unwrap_or(usize::MAX)
    }

    /// Whether a checkpoint stays wherever it stands.
    pub(super) fn asks_for(&self, seq: Seq, at_ms: u64, now_ms: u64) -> bool {
        let age = Duration::from_millis(now_ms.saturating_sub(at_ms));
        self.younger_than.is_some_and(|young| age <= young) || self.pinned.contains(&seq)
    }

    /// Whether anything but the newest checkpoints is asked for.
    pub(super) fn is_selective(&self) -> bool {
        self.younger_than.is_some() || !self.pinned.is_empty()
    }
}

/// A thread, and what is to stay of it.
#[derive(Debug, Clone)]
pub struct Retain {
    /// The thread.
    pub thread: ThreadId,
    /// The policy.
    pub retention: Retention,
    /// From when ages are counted, in milliseconds since 1970.
    pub now_ms: u64,
    /// The epoch of the caller's own claim on the thread; none for a caller without one, for whom no
    /// call may hold it.
    pub holder: Option<Epoch>,
}

/// What became of a thread's records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retained {
    /// How many were dropped.
    pub dropped: u64,
    /// How many it has now.
    pub kept: u64,
}

/// What a policy would drop of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surplus {
    /// The records, by seq, in order.
    pub records: Vec<Seq>,
    /// The segments, by id, in order.
    pub segments: Vec<[u8; 16]>,
}

impl Surplus {
    /// Looks at a thread and says what [`retain`](CheckpointStore::retain) would drop of it. Changes
    /// nothing and needs no claim.
    ///
    /// # Errors
    /// As reading the thread gives them.
    pub async fn of(
        store: &dyn CheckpointStore,
        thread: &ThreadId,
        retention: &Retention,
        now_ms: u64,
    ) -> Result<Self, StoreError> {
        let Some(extent) = store.extent(thread).await? else {
            return Ok(Self::default());
        };
        let mut survey = Survey::new(&extent.head);
        let mut seqs = Vec::new();
        let mut from = Seq::new(1);
        while from < extent.next {
            let page = store.records(thread, from, PAGE).await?;
            let Some(last) = page.last() else { break };
            from = last.seq.next();
            for stored in page.iter().filter(|stored| stored.seq < extent.next) {
                seqs.push(stored.seq);
                survey.see(stored);
            }
        }
        let Some(kept) = survey.finish(retention, now_ms) else {
            return Ok(Self::default());
        };
        seqs.retain(|seq| !kept.has(seq.get()));
        let segments = extent.segments.iter().map(|segment| segment.id);
        Ok(Self {
            records: seqs,
            segments: segments.filter(|id| !kept.segments.contains(id)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_policies_together_keep_what_either_keeps() {
        let (long, short) = (Duration::from_millis(90), Duration::from_millis(9));
        let policy = Retention::last(3)
            .or(Retention::younger_than(long))
            .or(Retention::pinned([Seq::new(4)]))
            .or(Retention::last(2))
            .or(Retention::younger_than(short));
        assert_eq!(policy.newest(), 3);
        let asks = |seq, at_ms| policy.asks_for(Seq::new(seq), at_ms, 1000);
        assert!(asks(7, 910) && !asks(7, 909), "90 ms are the limit");
        assert!(asks(4, 0), "it is pinned");
        assert!(asks(7, 2000), "a clock that was set back makes nothing old");
        assert_eq!(Retention::last(0), Retention::last(1), "a head stays");
    }
}
