//! Dropping the checkpoints that a thread's retention does not keep.
//!
//! In comes a run between two supersteps, or at its end; out goes one request to the store, under the
//! run's own claim. Nothing here can end a run or change how it ended.

use super::handle::Run;
use crate::ids::Seq;
use crate::policy::now_ms;
use crate::state::State;
use crate::store::Retain;

/// After how many supersteps of one call its thread is looked at.
const EVERY: u64 = 1024;

/// When a thread is looked at next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retaining {
    /// From so many supersteps of the call on; none where all checkpoints stay.
    at: u64,
    /// The newest base when it was looked at last.
    base: Seq,
}

impl Retaining {
    /// Never.
    pub(super) const NEVER: Self = Self {
        at: u64::MAX,
        base: Seq::new(0),
    };

    /// Once there is a newer base than this.
    pub(super) fn from(base: Seq) -> Self {
        Self { at: EVERY, base }
    }
}

impl<S: State> Run<S> {
    /// After how many more supersteps the thread is looked at.
    pub(super) fn until_retaining(&self) -> u64 {
        self.retaining.at.saturating_sub(self.executed).max(1)
    }

    /// Looks at the thread, if it has grown by enough.
    pub(super) async fn retain_on_the_way(&mut self) {
        if self.executed >= self.retaining.at {
            self.retain().await;
        }
    }

    /// Looks at the thread once more.
    pub(super) async fn retain_at_the_end(&mut self) {
        if self.retaining.at != u64::MAX {
            self.retain().await;
        }
    }

    async fn retain(&mut self) {
        let Some((log, head)) = self.log.as_ref().and_then(|log| Some((log, log.head()?))) else {
            return;
        };
        if head.base == self.retaining.base {
            return;
        }
        let base = head.base;
        let what = Retain {
            thread: self.thread().clone(),
            retention: self.options.retention.clone(),
            now_ms: now_ms(),
            holder: Some(log.claimed().epoch),
        };
        let mut kept = 0;
        match log.store().retain(what).await {
            Ok(records) => {
                kept = records.kept;
                let dropped = records.dropped;
                tracing::debug!(thread = %self.thread(), dropped, kept, "dropped old checkpoints");
            }
            Err(error) => {
                tracing::warn!(thread = %self.thread(), %error, "old checkpoints were not dropped");
            }
        }
        self.retaining = Retaining {
            // All that is kept is read each time: what that costs a superstep must not grow.
            at: self.executed.saturating_add(kept.max(EVERY)),
            base,
        };
    }
}
