//! Stores in front of others.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::archive::{Extent, ThreadArchive};
use super::contract::{CheckpointStore, Claim, Head, RunRow, StoreError, Stored, Take, Write};
use super::finding::Waste;
use super::remains::{Owner, Remains};
use super::retention::{Retain, Retained};
use super::wish::{Wish, Wished};
use crate::ids::{Epoch, RunId, Seq, ThreadId};

/// A store in front of another: it looks at what passes, delays it, refuses it, and is a
/// [`CheckpointStore`] itself.
///
/// Everything goes to the store [`below`](Self::below) but what an implementation changes, so that
/// nothing is forgotten, also of what a later version adds. Each operation passes through
/// [`pass`](Self::pass); those with a method of their own can be changed one by one.
/// [`prune`](CheckpointStore::prune) and [`ask_to_stop`](CheckpointStore::ask_to_stop) are made of the
/// others, and so pass, too.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use milepost::ThreadId;
/// use milepost::store::{CheckpointStore, Layer, MemoryStore, Operation, StoreError};
///
/// #[derive(Debug)]
/// struct Counting(Arc<dyn CheckpointStore>, AtomicU64);
///
/// #[async_trait::async_trait]
/// impl Layer for Counting {
///     fn below(&self) -> Arc<dyn CheckpointStore> {
///         self.0.clone()
///     }
///     async fn pass<T: Send>(
///         &self,
///         _: Operation,
///         operation: impl Future<Output = Result<T, StoreError>> + Send,
///     ) -> Result<T, StoreError> {
///         self.1.fetch_add(1, Ordering::Relaxed);
///         operation.await
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = Counting(Arc::new(MemoryStore::new()), AtomicU64::new(0));
/// assert_eq!(store.head(&ThreadId::new("t").unwrap()).await.unwrap(), None);
/// assert_eq!(store.1.load(Ordering::Relaxed), 1);
/// # });
/// ```
#[async_trait]
pub trait Layer: Send + Sync + fmt::Debug + 'static {
    /// The store behind this one.
    fn below(&self) -> Arc<dyn CheckpointStore>;

    /// Carries an operation out, or refuses it. Default: carries it out.
    ///
    /// # Errors
    /// As the operation's.
    async fn pass<T: Send>(
        &self,
        operation: Operation,
        carried_out: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let _ = operation;
        carried_out.await
    }

    /// As [`CheckpointStore::claim`].
    ///
    /// # Errors
    /// As there.
    async fn claim(&self, thread: &ThreadId, how: Take) -> Result<Claim, StoreError> {
        self.pass(Operation::Claim, self.below().claim(thread, how))
            .await
    }

    /// As [`CheckpointStore::release`].
    fn release(&self, thread: &ThreadId, epoch: Epoch) {
        self.below().release(thread, epoch);
    }

    /// As [`CheckpointStore::append`].
    ///
    /// # Errors
    /// As there.
    async fn append(&self, write: Write) -> Result<(), StoreError> {
        self.pass(Operation::Append, self.below().append(write))
            .await
    }

    /// As [`CheckpointStore::records`].
    ///
    /// # Errors
    /// As there.
    async fn records(
        &self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        self.pass(Operation::Read, self.below().records(thread, from, limit))
            .await
    }

    /// As [`CheckpointStore::segments`].
    ///
    /// # Errors
    /// As there.
    async fn segments(
        &self,
        thread: &ThreadId,
        ids: &[[u8; 16]],
    ) -> Result<Vec<Arc<[u8]>>, StoreError> {
        self.pass(Operation::Read, self.below().segments(thread, ids))
            .await
    }
}

/// What kind of operation passes through a [`Layer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// A thread is taken.
    Claim,
    /// Records are added.
    Append,
    /// Something is read.
    Read,
    /// A wish is kept for a holder.
    Wish,
    /// A thread is restored, deleted, copied or pruned, or waste is swept.
    Upkeep,
    /// Somebody waits until what was read is durable.
    Durable,
}

#[async_trait]
impl<L: Layer> CheckpointStore for L {
    fn identity(&self) -> usize {
        self.below().identity()
    }

    async fn claim(&self, thread: &ThreadId, how: Take) -> Result<Claim, StoreError> {
        Layer::claim(self, thread, how).await
    }

    fn release(&self, thread: &ThreadId, epoch: Epoch) {
        Layer::release(self, thread, epoch);
    }

    async fn append(&self, write: Write) -> Result<(), StoreError> {
        Layer::append(self, write).await
    }

    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError> {
        self.pass(Operation::Read, self.below().head(thread)).await
    }

    async fn records(
        &self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        Layer::records(self, thread, from, limit).await
    }

    async fn segments(
        &self,
        thread: &ThreadId,
        ids: &[[u8; 16]],
    ) -> Result<Vec<Arc<[u8]>>, StoreError> {
        Layer::segments(self, thread, ids).await
    }

    async fn run(&self, thread: &ThreadId, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.pass(Operation::Read, self.below().run(thread, run))
            .await
    }

    async fn threads(
        &self,
        after: Option<&ThreadId>,
        limit: usize,
    ) -> Result<Vec<(ThreadId, Head)>, StoreError> {
        self.pass(Operation::Read, self.below().threads(after, limit))
            .await
    }

    async fn thread_names(&self) -> Result<Vec<Result<ThreadId, StoreError>>, StoreError> {
        self.pass(Operation::Read, self.below().thread_names())
            .await
    }

    async fn extent(&self, thread: &ThreadId) -> Result<Option<Extent>, StoreError> {
        self.pass(Operation::Read, self.below().extent(thread))
            .await
    }

    async fn waste(&self) -> Result<Waste, StoreError> {
        self.pass(Operation::Read, self.below().waste()).await
    }

    async fn owners(&self) -> Result<Vec<Result<Owner, StoreError>>, StoreError> {
        self.pass(Operation::Read, self.below().owners()).await
    }

    async fn remains(&self, owner: &Owner) -> Result<Remains, StoreError> {
        self.pass(Operation::Read, self.below().remains(owner))
            .await
    }

    async fn wish(&self, thread: &ThreadId, wish: Wish) -> Result<Wished, StoreError> {
        self.pass(Operation::Wish, self.below().wish(thread, wish))
            .await
    }

    async fn wished(&self, thread: &ThreadId) -> Result<Option<Wish>, StoreError> {
        self.pass(Operation::Read, self.below().wished(thread))
            .await
    }

    async fn restore(&self, archive: ThreadArchive) -> Result<(), StoreError> {
        self.pass(Operation::Upkeep, self.below().restore(archive))
            .await
    }

    async fn delete_thread(&self, thread: &ThreadId) -> Result<(), StoreError> {
        self.pass(Operation::Upkeep, self.below().delete_thread(thread))
            .await
    }

    async fn copy_thread(&self, from: &ThreadId, to: &ThreadId) -> Result<(), StoreError> {
        self.pass(Operation::Upkeep, self.below().copy_thread(from, to))
            .await
    }

    async fn retain(&self, what: Retain) -> Result<Retained, StoreError> {
        self.pass(Operation::Upkeep, self.below().retain(what))
            .await
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        self.pass(Operation::Upkeep, self.below().sweep()).await
    }

    async fn durable(&self) -> Result<(), StoreError> {
        self.pass(Operation::Durable, self.below().durable()).await
    }
}
