//! A store that ends its process at a chosen operation.

use std::process::abort;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use milepost::store::{
    CheckpointStore, Claim, Extent, Head, Retain, Retained, RunRow, StoreError, Stored, Take,
    ThreadArchive, Wish, Wished, Write,
};
use milepost::{Epoch, RunId, Seq, ThreadId};
use serde::{Deserialize, Serialize};

use super::diary::Diary;

/// Where a process ends.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Which operation, from 1.
    pub(crate) at: u64,
    pub(crate) moment: Moment,
    pub(crate) among: Among,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Moment {
    /// Before anything of it is done.
    Before,
    /// So many microseconds after it has begun, wherever that is.
    During(u64),
    /// When it is done, before its caller hears of it.
    After,
}

/// Which operations are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Among {
    All,
    Appends,
    /// Deleting, copying and pruning.
    Upkeep,
}

#[derive(Debug)]
pub(crate) struct Failpoint {
    inner: Arc<dyn CheckpointStore>,
    diary: Diary,
    point: Option<Point>,
    counts: [AtomicU64; 3],
}

impl Failpoint {
    pub(crate) fn new(
        inner: Arc<dyn CheckpointStore>,
        diary: Diary,
        point: Option<Point>,
    ) -> Arc<Self> {
        Arc::new(Self {
            inner,
            diary,
            point,
            counts: Default::default(),
        })
    }

    /// How many operations there were.
    pub(crate) fn operations(&self) -> u64 {
        self.counts[Among::All as usize].load(Ordering::SeqCst)
    }

    async fn pass<T>(&self, kind: Among, operation: impl Future<Output = T>) -> T {
        let mut number = 0;
        let counted = self.point.map_or(Among::All, |point| point.among);
        let one = |among: Among| self.counts[among as usize].fetch_add(1, Ordering::SeqCst) + 1;
        let all = one(Among::All);
        if counted == Among::All {
            number = all;
        } else if counted == kind {
            number = one(kind);
        }
        let here = self.point.filter(|point| point.at == number);
        match here.map(|point| point.moment) {
            Some(Moment::Before) => abort(),
            Some(Moment::During(micros)) => {
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_micros(micros));
                    abort()
                });
            }
            _ => {}
        }
        let done = operation.await;
        if let Some(Moment::After) = here.map(|point| point.moment) {
            abort()
        }
        done
    }
}

#[async_trait]
impl CheckpointStore for Failpoint {
    fn identity(&self) -> usize {
        self.inner.identity()
    }

    async fn claim(&self, thread: &ThreadId, how: Take) -> Result<Claim, StoreError> {
        self.pass(Among::All, self.inner.claim(thread, how)).await
    }

    fn release(&self, thread: &ThreadId, epoch: Epoch) {
        self.inner.release(thread, epoch);
    }

    async fn append(&self, write: Write) -> Result<(), StoreError> {
        let append = async {
            let done = self.inner.append(write.clone()).await;
            if done.is_ok() {
                self.diary.written(&write);
            }
            done
        };
        self.pass(Among::Appends, append).await
    }

    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError> {
        self.pass(Among::All, self.inner.head(thread)).await
    }

    async fn records(
        &self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        self.pass(Among::All, self.inner.records(thread, from, limit))
            .await
    }

    async fn segments(
        &self,
        thread: &ThreadId,
        ids: &[[u8; 16]],
    ) -> Result<Vec<Arc<[u8]>>, StoreError> {
        self.pass(Among::All, self.inner.segments(thread, ids))
            .await
    }

    async fn run(&self, thread: &ThreadId, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.pass(Among::All, self.inner.run(thread, run)).await
    }

    async fn threads(
        &self,
        after: Option<&ThreadId>,
        limit: usize,
    ) -> Result<Vec<(ThreadId, Head)>, StoreError> {
        self.pass(Among::All, self.inner.threads(after, limit))
            .await
    }

    async fn extent(&self, thread: &ThreadId) -> Result<Option<Extent>, StoreError> {
        self.pass(Among::All, self.inner.extent(thread)).await
    }

    async fn wish(&self, thread: &ThreadId, wish: Wish) -> Result<Wished, StoreError> {
        self.pass(Among::All, self.inner.wish(thread, wish)).await
    }

    async fn wished(&self, thread: &ThreadId) -> Result<Option<Wish>, StoreError> {
        self.pass(Among::All, self.inner.wished(thread)).await
    }

    async fn restore(&self, archive: ThreadArchive) -> Result<(), StoreError> {
        self.pass(Among::Upkeep, self.inner.restore(archive)).await
    }

    async fn delete_thread(&self, thread: &ThreadId) -> Result<(), StoreError> {
        self.pass(Among::Upkeep, self.inner.delete_thread(thread))
            .await
    }

    async fn copy_thread(&self, from: &ThreadId, to: &ThreadId) -> Result<(), StoreError> {
        self.pass(Among::Upkeep, self.inner.copy_thread(from, to))
            .await
    }

    async fn retain(&self, what: Retain) -> Result<Retained, StoreError> {
        self.pass(Among::Upkeep, self.inner.retain(what)).await
    }
}
