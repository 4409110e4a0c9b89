//! Stores that break a promise on purpose, so that the checker is seen to catch it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use milepost::store::{
    CheckpointStore, CommitRecord, Layer, Operation, OutcomeRecord, OutcomeRef, Record, StoreError,
    Stored, Write,
};
use milepost::{Seq, ThreadId};
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
impl Layer for Faulty {
    fn below(&self) -> Arc<dyn CheckpointStore> {
        self.inner.clone()
    }

    async fn pass<T: Send>(
        &self,
        _: Operation,
        operation: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.catch_up().await;
        operation.await
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
