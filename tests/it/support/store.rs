//! A store that watches what passes, and fails where it is told to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use milepost::store::{CheckpointStore, Claim, Layer, Operation, StoreError, Stored, Take, Write};
use milepost::{Seq, ThreadId};
use tokio::sync::Semaphore;

/// Whether the operation that fails has been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Before,
    After,
}

/// A store around another one.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    inner: Arc<dyn CheckpointStore>,
    count: Arc<AtomicU64>,
    read: Arc<AtomicU64>,
    fail: Option<(u64, When)>,
    writes: Arc<Mutex<Vec<Write>>>,
    gate: Option<Arc<Semaphore>>,
}

impl Probe {
    pub(crate) fn new(inner: impl CheckpointStore) -> Self {
        Self::over(Arc::new(inner))
    }

    pub(crate) fn over(inner: Arc<dyn CheckpointStore>) -> Self {
        Self {
            inner,
            count: Arc::default(),
            read: Arc::default(),
            fail: None,
            writes: Arc::default(),
            gate: None,
        }
    }

    /// Lets a write pass for each permit.
    pub(crate) fn behind(mut self, gate: &Arc<Semaphore>) -> Self {
        self.gate = Some(Arc::clone(gate));
        self
    }

    /// Fails at the operation with this number, from 1, once.
    pub(crate) fn failing(mut self, at: u64, when: When) -> Self {
        self.fail = Some((at, when));
        self
    }

    pub(crate) fn operations(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// How many records and segments were read.
    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::SeqCst)
    }

    pub(crate) fn writes(&self) -> Vec<Write> {
        self.writes.lock().unwrap().clone()
    }
}

#[async_trait]
impl Layer for Probe {
    fn below(&self) -> Arc<dyn CheckpointStore> {
        self.inner.clone()
    }
    async fn pass<T: Send>(
        &self,
        _: Operation,
        operation: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        let error = || StoreError::Io {
            action: format!("operation {number}"),
            source: Arc::new(std::io::Error::other("the disk is full")),
        };
        match self.fail {
            Some((at, When::Before)) if at == number => Err(error()),
            Some((at, When::After)) if at == number => operation.await.and(Err(error())),
            _ => operation.await,
        }
    }
    async fn claim(&self, thread: &ThreadId, how: Take) -> Result<Claim, StoreError> {
        let claim = self
            .pass(Operation::Claim, self.inner.claim(thread, how))
            .await;
        if let (Err(StoreError::Io { .. }), Some((_, When::After))) = (&claim, self.fail) {
            // A claim that was made and not handed over is given back by the store's own lease.
            let taken = self.inner.claim(thread, Take::Replace).await?;
            self.inner.release(thread, taken.epoch);
        }
        claim
    }
    async fn append(&self, write: Write) -> Result<(), StoreError> {
        self.writes.lock().unwrap().push(write.clone());
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
        self.pass(Operation::Append, self.inner.append(write)).await
    }
    async fn records(
        &self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        let records = self.inner.records(thread, from, limit);
        let records = self.pass(Operation::Read, records).await?;
        self.read.fetch_add(records.len() as u64, Ordering::SeqCst);
        Ok(records)
    }
    async fn segments(
        &self,
        thread: &ThreadId,
        ids: &[[u8; 16]],
    ) -> Result<Vec<Arc<[u8]>>, StoreError> {
        self.read.fetch_add(ids.len() as u64, Ordering::SeqCst);
        self.pass(Operation::Read, self.inner.segments(thread, ids))
            .await
    }
}
