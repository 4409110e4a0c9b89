//! The durable store: one folder, one process at a time.
//!
//! In come writes of all threads, out goes "done" when the disk has them. An engine keeps the rows
//! (a folder each beside this file); everything else is here, once for all of them. Nothing here waits
//! for the disk on a worker of the runtime, except a close.

#[cfg(all(test, feature = "sled", feature = "conformance"))]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod blob_tests;
mod blobs;
mod claims;
mod engine;
#[cfg(feature = "fjall")]
mod fjall;
mod folder;
#[cfg(feature = "encryption")]
mod keyring;
mod keys;
mod marker;
#[cfg(all(test, milepost_model, feature = "conformance"))]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod model;
mod opening;
mod read;
mod remains;
mod restore;
#[cfg(feature = "sled")]
mod sled;
#[cfg(all(test, feature = "conformance"))]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
#[cfg(feature = "conformance")]
mod unsynced;
mod upkeep;
mod vault;
mod which;
mod writer;

use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;

use self::blobs::Long;
use self::engine::Opened;
#[cfg(feature = "fjall")]
pub use self::fjall::{Fjall, FjallOptions, FjallStore};
#[cfg(feature = "encryption")]
pub use self::keyring::{KeyError, Keyring};
use self::keys::Slot;
use self::read::View;
#[cfg(feature = "sled")]
pub use self::sled::{Sled, SledOptions, SledStore};
#[cfg(feature = "conformance")]
pub use self::unsynced::without_sync;
use self::upkeep::Upkeep;
pub use self::which::StoreEngine;
use self::writer::{Append, Job, Shared};
use super::archive::{Extent, ThreadArchive};
use super::contract::{CheckpointStore, Claim, Head, RunRow, StoreError, Stored, Take, Write};
use super::finding::Waste;
use super::frame::{FrameError, FrameHeader, ThreadKey, encode_row, encode_segment};
use super::guard::{Asks, after, sound};
use super::kind::FrameKind;
use super::record::Status;
use super::remains::{Owner, Remains};
use super::retention::{Retain, Retained};
use super::rows::{HeadRow, NameRow, NamedRun};
use super::split::split_record;
use super::wish::{Heeds, Wish, Wished, Wishes};
use crate::ids::{Epoch, RunId, Seq, ThreadId};
use crate::sync::mpsc::{self, Receiver, Sender};
use crate::sync::{Mutex, thread};

/// From how many bytes on a value is kept apart, where nothing else is said.
const BLOB_BYTES: usize = 64 << 10;

/// How long a close waits for the engine to end; after that its threads are left to themselves.
const CLOSE: Duration = Duration::from_secs(30);

/// Keeps threads in a folder, so that they outlive their process, on one engine or another:
/// `SledStore`, `FjallStore`.
///
/// Clones share the open folder. Dropping the last one closes it and returns when it can be opened
/// again.
pub struct DiskStore<E> {
    inner: Arc<Inner>,
    engine: PhantomData<fn() -> E>,
}

impl<E> Clone for DiskStore<E> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            engine: PhantomData,
        }
    }
}

struct Inner {
    path: PathBuf,
    /// There until the store is dropped.
    open: Option<Open>,
}

struct Open {
    shared: Arc<Shared>,
    jobs: Sender<Job>,
    /// Behind a lock only because a receiver cannot be shared.
    closed: Mutex<Receiver<()>>,
}

impl<E> DiskStore<E> {
    fn start(opened: Opened) -> Result<Self, StoreError> {
        Ok(Self {
            inner: Arc::new(Inner::start(opened)?),
            engine: PhantomData,
        })
    }

    async fn keep(&self, what: Upkeep) -> Result<Retained, StoreError> {
        self.inner.hand(|reply| Job::Upkeep(what, reply)).await
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }
}

impl Inner {
    fn start(opened: Opened) -> Result<Self, StoreError> {
        let Opened {
            place,
            tree,
            mut disk,
            vault,
            over,
            batch,
            close,
        } = opened;
        let path = place.path.clone();
        let shared = Arc::new(Shared::new(tree, place, vault, batch, over));
        let (jobs, queue) = mpsc::channel();
        let (done, closed) = mpsc::channel();
        let theirs = Arc::clone(&shared);
        let writer = thread::Builder::new().name("milepost-writer".to_owned());
        writer
            .spawn(move || {
                writer::work(&theirs, &mut *disk, &queue);
                drop((disk, theirs));
                close();
                // Whoever waits may have given up.
                let _ = done.send(());
            })
            .map_err(|source| shared.place.failed("starting the writer of", source))?;
        Ok(Self {
            path,
            open: Some(Open {
                shared,
                jobs,
                closed: Mutex::new(closed),
            }),
        })
    }

    fn open(&self) -> Result<&Open, StoreError> {
        self.open.as_ref().ok_or(StoreError::Closed)
    }

    /// Reads with the gate held, so that no half of a batch is seen.
    fn read<T>(
        &self,
        body: impl FnOnce(View<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let shared = &self.open()?.shared;
        let _gate = shared.gate.read().unwrap_or_else(PoisonError::into_inner);
        shared.place.guarded(|| body(shared.view()))
    }

    /// Hands a job to the writer and waits for its answer.
    async fn hand<T>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Job,
    ) -> Result<T, StoreError> {
        let open = self.open()?;
        let (reply, answer) = oneshot::channel();
        open.jobs.send(job(reply)).map_err(|_| StoreError::Closed)?;
        match answer.await {
            Ok(told) => told,
            Err(_) => Err(open.shared.usable().err().unwrap_or(StoreError::Closed)),
        }
    }
}

impl<E> fmt::Debug for DiskStore<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = self.inner.open().map(|open| open.shared.place.engine);
        f.debug_struct("DiskStore")
            .field("engine", &engine.unwrap_or_default())
            .field("path", &self.inner.path)
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(Open {
            shared,
            jobs,
            closed,
        }) = self.open.take()
        else {
            return;
        };
        // The writer has to be the last one to let go of the engine: it closes it.
        drop(shared);
        drop(jobs);
        let closed = closed.into_inner().unwrap_or_else(PoisonError::into_inner);
        if closed.recv_timeout(CLOSE).is_err() {
            tracing::warn!(path = %self.path.display(), "a store did not close in time");
        }
    }
}

#[async_trait]
impl<E: 'static> CheckpointStore for DiskStore<E> {
    async fn claim(&self, thread: &ThreadId, how: Take) -> Result<Claim, StoreError> {
        let shared = &self.inner.open()?.shared;
        shared.usable()?;
        if how == Take::IfFree {
            shared.claims.free(thread)?;
        }
        self.inner.read(|view| {
            let row = view.standing(thread)?;
            let stored = row.as_ref().map(|row| row.epoch).unwrap_or_default();
            // None is stored while this reads; one that is stored later is told.
            let (sender, wishes) = Wishes::new(view.wish(thread)?);
            let (epoch, given_back) = shared.claims.take(thread, stored, how)?;
            shared.claims.hear(ThreadKey::of(thread), epoch, sender);
            Ok(Claim {
                wishes,
                epoch,
                given_back,
                next: row.as_ref().map_or(Seq::new(1), |row| row.next),
                head: row.map(|row| row.head),
            })
        })
    }

    fn release(&self, thread: &ThreadId, epoch: Epoch) {
        if let Ok(open) = self.inner.open() {
            open.shared.claims.release(thread, epoch);
        }
    }

    async fn append(&self, write: Write) -> Result<(), StoreError> {
        sound(&write)?;
        let append = encode(write, &self.inner.open()?.shared)?;
        self.inner.hand(|reply| Job::Append(append, reply)).await
    }

    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError> {
        self.inner
            .read(|view| Ok(view.head_row(thread)?.map(|row| row.head)))
    }

    async fn records(
        &self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        self.inner.read(|view| view.records(thread, from, limit))
    }

    async fn segments(
        &self,
        thread: &ThreadId,
        ids: &[[u8; 16]],
    ) -> Result<Vec<Arc<[u8]>>, StoreError> {
        self.inner
            .read(|view| ids.iter().map(|id| view.segment(thread, id)).collect())
    }

    async fn run(&self, thread: &ThreadId, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.inner.read(|view| view.run(thread, run))
    }

    async fn threads(
        &self,
        after: Option<&ThreadId>,
        limit: usize,
    ) -> Result<Vec<(ThreadId, Head)>, StoreError> {
        self.inner.read(|view| view.threads(after, limit))
    }

    async fn extent(&self, thread: &ThreadId) -> Result<Option<Extent>, StoreError> {
        self.inner.read(|view| view.extent(thread))
    }

    async fn thread_names(&self) -> Result<Vec<Result<ThreadId, StoreError>>, StoreError> {
        self.inner.read(|view| view.names())
    }

    async fn wish(&self, thread: &ThreadId, wish: Wish) -> Result<Wished, StoreError> {
        wish.check(thread)?;
        let thread = thread.clone();
        self.inner
            .hand(|reply| Job::Wish(thread, wish, reply))
            .await
    }

    async fn wished(&self, thread: &ThreadId) -> Result<Option<Wish>, StoreError> {
        self.inner.read(|view| view.wish(thread))
    }

    async fn restore(&self, archive: ThreadArchive) -> Result<(), StoreError> {
        archive.check()?;
        let (rows, long) = restore::encode(&archive, &self.inner.open()?.shared)?;
        let what = Upkeep::Restore {
            thread: archive.thread,
            rows,
            long,
        };
        self.keep(what).await.map(|_| ())
    }

    async fn delete_thread(&self, thread: &ThreadId) -> Result<(), StoreError> {
        let what = Upkeep::Delete(thread.clone());
        self.keep(what).await.map(|_| ())
    }

    async fn copy_thread(&self, from: &ThreadId, to: &ThreadId) -> Result<(), StoreError> {
        let what = Upkeep::Copy {
            from: from.clone(),
            to: to.clone(),
        };
        self.keep(what).await.map(|_| ())
    }

    async fn retain(&self, what: Retain) -> Result<Retained, StoreError> {
        self.keep(Upkeep::Prune(what)).await
    }

    async fn waste(&self) -> Result<Waste, StoreError> {
        self.inner.read(|view| Ok(blobs::waste(view)?.1))
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        self.keep(Upkeep::Sweep).await.map(|_| ())
    }

    async fn owners(&self) -> Result<Vec<Result<Owner, StoreError>>, StoreError> {
        self.inner.read(|view| Ok(view.owners()))
    }

    async fn remains(&self, owner: &Owner) -> Result<Remains, StoreError> {
        self.inner.read(|view| view.remains(owner))
    }

    fn identity(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }

    async fn durable(&self) -> Result<(), StoreError> {
        self.inner.hand(Job::Wait).await
    }
}

/// Turns a write into rows, on the caller's time: the writer's is everybody's.
fn encode(write: Write, shared: &Shared) -> Result<Append, StoreError> {
    let vault = &shared.vault;
    let asks = Asks::of(&write);
    let heeds = Heeds::of(&write);
    let refused = |_: FrameError| StoreError::Refused {
        thread: asks.thread.clone(),
        reason: "a record or a segment in it is larger than the format allows",
    };
    let key = ThreadKey::of(&write.thread);
    let next = after(&write);
    let running = write.head.status == Status::Running;
    let mut rows = Vec::new();
    let mut seq = write.first;
    let mut long: Vec<Long> = Vec::new();
    for record in &write.records {
        let place = (seq, write.branch, write.epoch);
        let (frame, blobs) = split_record(key, place, record, shared.over).map_err(refused)?;
        rows.extend(vault.cut(&Slot::record(key, seq), frame).map_err(refused)?);
        for blob in blobs {
            if !long.iter().any(|known| known.id == blob.id) {
                long.push(Long::encode(&blob, vault).map_err(refused)?);
            }
        }
        seq = seq.next();
    }
    let head = HeadRow {
        next,
        epoch: write.epoch,
        head: write.head,
    };
    let frame = encode_row(key, FrameHeader::row(FrameKind::Head), &head).map_err(refused)?;
    rows.extend(vault.cut(&Slot::head(key), frame).map_err(refused)?);
    if let Some((run, row)) = write.run {
        let slot = Slot::run(key, &run);
        let frame = encode_row(
            key,
            FrameHeader::row(FrameKind::Run),
            &NamedRun { run, row },
        )
        .map_err(refused)?;
        rows.extend(vault.cut(&slot, frame).map_err(refused)?);
    }
    let name = NameRow {
        thread: write.thread,
    };
    let frame = encode_row(key, FrameHeader::row(FrameKind::Name), &name).map_err(refused)?;
    let name = vault.cut(&Slot::name(key), frame).map_err(refused)?;
    let mut segments = Vec::new();
    for (id, bytes) in &write.segments {
        let slot = Slot::segment(key, id);
        let frame = encode_segment(key, bytes).map_err(refused)?;
        let rows = vault.cut(&slot, frame).map_err(refused)?;
        segments.push((slot, rows));
    }
    Ok(Append {
        key,
        head: head.head.seq,
        next,
        running,
        rows,
        name,
        segments,
        long,
        asks,
        heeds,
    })
}
