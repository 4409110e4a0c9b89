//! A store in memory that counts the bytes it is given.
//!
//! The bytes are those of the frames that a store on a disk would write for the records, the segments
//! and the head: what the engine asks for, before any store adds keys, pages or a log of its own.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use milepost::store::{
    CheckpointStore, Claim, Extent, FrameError, FrameHeader, FrameKind, Head, MemoryStore, RunRow,
    StoreError, Stored, Take, ThreadArchive, ThreadKey, Wish, Wished, Write, encode_record,
    encode_row, encode_segment,
};
use milepost::{Epoch, RunId, Seq, ThreadId};

/// The bytes of one write.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Handed {
    pub(crate) records: usize,
    pub(crate) segments: usize,
    /// The row that every write replaces.
    pub(crate) head: usize,
}

impl Handed {
    pub(crate) fn total(&self) -> usize {
        self.records + self.segments + self.head
    }

    fn of(write: &Write) -> Result<Self, FrameError> {
        let key = ThreadKey::of(&write.thread);
        let mut handed = Self::default();
        let mut seq = write.first;
        for record in &write.records {
            let frame = encode_record(key, seq, write.branch, write.epoch, record)?;
            handed.records += frame.len();
            seq = seq.next();
        }
        for (_, bytes) in &write.segments {
            handed.segments += encode_segment(key, bytes)?.len();
        }
        let head = (seq, write.epoch, &write.head);
        handed.head = encode_row(key, FrameHeader::row(FrameKind::Head), &head)?.len();
        Ok(handed)
    }
}

/// The store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    inner: MemoryStore,
    handed: Arc<Mutex<Vec<Handed>>>,
}

impl Counted {
    /// The bytes of each write so far.
    pub(crate) fn handed(&self) -> Vec<Handed> {
        let handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
        handed.clone()
    }
}

#[async_trait]
impl CheckpointStore for Counted {
    async fn claim(&self, thread: &ThreadId, how: Take) -> Result<Claim, StoreError> {
        self.inner.claim(thread, how).await
    }

    fn release(&self, thread: &ThreadId, epoch: Epoch) {
        self.inner.release(thread, epoch);
    }

    async fn append(&self, write: Write) -> Result<(), StoreError> {
        let handed = Handed::of(&write).map_err(|error| error.at("a write", "Count less"))?;
        self.handed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(handed);
        self.inner.append(write).await
    }

    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError> {
        self.inner.head(thread).await
    }

    async fn records(
        &self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        self.inner.records(thread, from, limit).await
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
        self.inner.extent(thread).await
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

    async fn prune(&self, thread: &ThreadId) -> Result<(), StoreError> {
        self.inner.prune(thread).await
    }

    async fn wish(&self, thread: &ThreadId, wish: Wish) -> Result<Wished, StoreError> {
        self.inner.wish(thread, wish).await
    }

    async fn wished(&self, thread: &ThreadId) -> Result<Option<Wish>, StoreError> {
        self.inner.wished(thread).await
    }
}
