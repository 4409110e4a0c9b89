//! A store that dies at a chosen write: from then on, nothing is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use milepost::store::{
    CheckpointStore, Claim, Extent, Head, Retain, Retained, RunRow, StoreError, Stored, Take,
    ThreadArchive, Wish, Wished, Write,
};
use milepost::{Epoch, RunId, Seq, ThreadId};

use crate::world::World;

/// When a store dies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Death {
    Never,
    /// At the write with this number, from 1: it is not done.
    Before(u32),
    /// It is done, and nobody hears of it.
    After(u32),
}

#[derive(Debug)]
pub(crate) struct Mortal {
    inner: Arc<dyn CheckpointStore>,
    world: Arc<World>,
    death: Death,
    writes: AtomicU32,
}

impl Mortal {
    pub(crate) fn new(inner: Arc<dyn CheckpointStore>, world: &Arc<World>, death: Death) -> Self {
        Self {
            inner,
            world: Arc::clone(world),
            death,
            writes: AtomicU32::new(0),
        }
    }

    fn dead() -> StoreError {
        StoreError::Io {
            action: "write".to_owned(),
            source: Arc::new(std::io::Error::other("the store is dead")),
        }
    }

    fn lives(&self) -> Result<(), StoreError> {
        match self.death {
            Death::Before(at) | Death::After(at) if self.writes.load(Ordering::SeqCst) >= at => {
                Err(Self::dead())
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl CheckpointStore for Mortal {
    fn identity(&self) -> usize {
        self.inner.identity()
    }

    async fn claim(&self, thread: &ThreadId, how: Take) -> Result<Claim, StoreError> {
        self.lives()?;
        self.inner.claim(thread, how).await
    }
    fn release(&self, thread: &ThreadId, epoch: Epoch) {
        self.inner.release(thread, epoch);
    }
    async fn append(&self, write: Write) -> Result<(), StoreError> {
        self.lives()?;
        let number = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if self.death == Death::Before(number) {
            return Err(Self::dead());
        }
        self.inner.append(write.clone()).await?;
        if self.death == Death::After(number) {
            return Err(Self::dead());
        }
        self.world.written(&write);
        Ok(())
    }
    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError> {
        self.lives()?;
        self.inner.head(thread).await
    }
    async fn records(
        &self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        self.lives()?;
        self.inner.records(thread, from, limit).await
    }
    async fn segments(
        &self,
        thread: &ThreadId,
        ids: &[[u8; 16]],
    ) -> Result<Vec<Arc<[u8]>>, StoreError> {
        self.lives()?;
        self.inner.segments(thread, ids).await
    }
    async fn run(&self, thread: &ThreadId, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.lives()?;
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
    async fn wish(&self, thread: &ThreadId, wish: Wish) -> Result<Wished, StoreError> {
        self.lives()?;
        self.inner.wish(thread, wish).await
    }
    async fn wished(&self, thread: &ThreadId) -> Result<Option<Wish>, StoreError> {
        self.lives()?;
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
