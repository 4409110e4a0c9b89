//! Stores that break a promise on purpose, so that the checker is seen to catch it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use milepost::store::{
    CheckpointStore, Claim, CommitRecord, Extent, Head, OutcomeRecord, OutcomeRef, Record, Retain,
    Retained, RunRow, StoreError, Stored, Take, ThreadArchive, Wish, Wished, Write,
};
use milepost::{Epoch, RunId, Seq, ThreadId};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fault {
    /// Says of every fifth write that it is done, and does not do it.
    Forgets,
    /// Says that a write is done, and does it before the next operation.
    AnswersEarly,
    /// Writes every fifth time without what the tasks have changed.
    LosesUpdates,
    /// Does not show the ends of tasks of an open superstep.
    HidesOutcomes,
}

#[derive(Debug)]
pub(crate) struct Faulty {
    inner: Arc<dyn CheckpointStore>,
    fault: Fault,
    appends: AtomicU64,
    held: Mutex<Option<Write>>,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<dyn CheckpointStore>, fault: Fault) -> Self {
        Self {
            inner,
            fault,
            appends: AtomicU64::new(0),
            held: Mutex::new(None),
        }
    }

    /// Does now what was said to be done.
    async fn catch_up(&self) {
        if let Some(write) = self.held.lock().await.take() {
            self.inner.append(write).await.unwrap();
        }
    }
}

#[async_trait]
impl CheckpointStore for Faulty {
    fn identity(&self) -> usize {
        self.inner.identity()
    }

    async fn claim(&self, thread: &ThreadId, how: Take) -> Result<Claim, StoreError> {
        self.catch_up().await;
        self.inner.claim(thread, how).await
    }

    fn release(&self, thread: &ThreadId, epoch: Epoch) {
        self.inner.release(thread, epoch);
    }

    async fn append(&self, mut write: Write) -> Result<(), StoreError> {
        let fifth = (self.appends.fetch_add(1, Ordering::SeqCst) + 1).is_multiple_of(5);
        match self.fault {
            Fault::Forgets if fifth => return Ok(()),
            Fault::AnswersEarly => {
                self.catch_up().await;
                *self.held.lock().await = Some(write);
                return Ok(());
            }
            Fault::LosesUpdates if fifth => write.records.iter_mut().for_each(blank),
            _ => {}
        }
        self.inner.append(write).await
    }

    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError> {
        self.catch_up().await;
        self.inner.head(thread).await
    }

    async fn records(
        &self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        let mut records = self.inner.records(thread, from, limit).await?;
        if self.fault == Fault::HidesOutcomes
            && let Some(head) = self.inner.head(thread).await?
        {
            records.retain(|stored| {
                stored.seq <= head.seq || !matches!(*stored.record, Record::Outcome(_))
            });
        }
        Ok(records)
    }

    async fn segments(
        &self,
        thread: &ThreadId,
        ids: &[[u8; 16]],
    ) -> Result<Vec<Arc<[u8]>>, StoreError> {
        self.inner.segments(thread, ids).await
    }

    async fn run(&self, thread: &ThreadId, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.inner.run(thread, run).await
    }

    async fn threads(
        &self,
        after: Option<&ThreadId>,
        limit: usize,
    ) -> Result<Vec<(ThreadId, Head)>, StoreError> {
        self.inner.threads(after, limit).await
    }

    async fn extent(&self, thread: &ThreadId) -> Result<Option<Extent>, StoreError> {
        self.catch_up().await;
        self.inner.extent(thread).await
    }

    async fn wish(&self, thread: &ThreadId, wish: Wish) -> Result<Wished, StoreError> {
        self.inner.wish(thread, wish).await
    }

    async fn wished(&self, thread: &ThreadId) -> Result<Option<Wish>, StoreError> {
        self.inner.wished(thread).await
    }

    async fn restore(&self, archive: ThreadArchive) -> Result<(), StoreError> {
        self.inner.restore(archive).await
    }

    async fn delete_thread(&self, thread: &ThreadId) -> Result<(), StoreError> {
        self.inner.delete_thread(thread).await
    }

    async fn copy_thread(&self, from: &ThreadId, to: &ThreadId) -> Result<(), StoreError> {
        self.inner.copy_thread(from, to).await
    }

    async fn retain(&self, what: Retain) -> Result<Retained, StoreError> {
        self.inner.retain(what).await
    }
}

fn blank(record: &mut Record) {
    match record {
        Record::Outcome(OutcomeRecord { changes, .. }) => changes.clear(),
        Record::Commit(CommitRecord { outcomes, .. }) => {
            for outcome in outcomes {
                if let OutcomeRef::Inline(outcome) = outcome {
                    outcome.changes.clear();
                }
            }
        }
        _ => {}
    }
}
