//! The log of one subgraph as a store of its own, of one thread.
//!
//! In comes what the inner run writes, out go the same records inside of records of the thread that
//! the outermost run writes: this asks that driver for it and waits until it is durable. Reading goes
//! to the thread's store, at the places that the log is known to have.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::inners::Inners;
use crate::ids::{Branch, Epoch, RunId, Seq, TaskPath, ThreadId};
use crate::run::recall::Request;
use crate::store::{
    CheckpointStore, Claim, Extent, FrameError, Head, InnerRecord, Record, Retain, Retained,
    RunRow, StoreError, Stored, Take, ThreadArchive, Wish, Wished, Wishes, Write,
};

const HINT: &str = "Restore the store from a copy, or fork the thread from an older checkpoint";

/// Records of a subgraph that are to be written.
#[derive(Debug)]
pub(crate) struct InnerWrite {
    pub(crate) path: TaskPath,
    /// As the log of the subgraph has them.
    pub(crate) stored: Vec<Stored>,
    /// The same, as the thread's log has them.
    pub(crate) records: Vec<InnerRecord>,
    pub(crate) done: oneshot::Sender<()>,
}

/// The log of the subgraph that one task runs.
pub(crate) struct InnerStore {
    path: TaskPath,
    epoch: Epoch,
    inners: Arc<Inners>,
}

impl InnerStore {
    pub(crate) fn new(path: TaskPath, epoch: Epoch, inners: Arc<Inners>) -> Self {
        Self {
            path,
            epoch,
            inners,
        }
    }

    fn place(&self, seq: Seq) -> String {
        let thread = self.inners.thread();
        format!("thread {thread}, record {seq}, of subgraph {}", self.path)
    }
}

impl fmt::Debug for InnerStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InnerStore")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// What nobody asks of the log of a subgraph.
fn refused<T>(thread: &ThreadId) -> Result<T, StoreError> {
    Err(StoreError::Refused {
        thread: thread.clone(),
        reason: "the log of a subgraph lives in the log of its thread, and only with it",
    })
}

#[async_trait]
impl CheckpointStore for InnerStore {
    async fn claim(&self, _: &ThreadId, _: Take) -> Result<Claim, StoreError> {
        Ok(self.inners.with(&self.path, |log| Claim {
            epoch: self.epoch,
            head: log.and_then(|log| log.head().cloned()),
            next: log.map_or(Seq::new(1), |log| log.next()),
            // Takeovers are counted where the thread is claimed.
            given_back: true,
            // What is wished of a run is wished of the outermost one.
            wishes: Wishes::new(None).1,
        }))
    }

    fn release(&self, _: &ThreadId, _: Epoch) {}

    async fn append(&self, write: Write) -> Result<(), StoreError> {
        let mut records = Vec::with_capacity(write.records.len());
        let mut seq = write.first;
        for record in write.records {
            let framed = framed(&self.path, seq, self.epoch, record);
            records
                .push(framed.map_err(|fault| fault.at(self.place(seq), "Keep less in one value"))?);
            seq = seq.next();
        }
        self.inners.write(&self.path, records).await
    }

    async fn head(&self, _: &ThreadId) -> Result<Option<Head>, StoreError> {
        Ok(self
            .inners
            .with(&self.path, |log| log.and_then(|log| log.head().cloned())))
    }

    async fn records(
        &self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        let first = usize::try_from(from.get().saturating_sub(1)).unwrap_or(usize::MAX);
        let places: Vec<Seq> = self.inners.with(&self.path, |log| {
            let all = log.map_or(&[][..], |log| log.seqs());
            all.iter().skip(first).take(limit).copied().collect()
        });
        let Some(store) = self.inners.store() else {
            return refused(thread);
        };
        let mut records = Vec::with_capacity(places.len());
        let mut rest = places.as_slice();
        while let Some(start) = rest.first() {
            // What was written together lies together.
            let together = rest.iter().zip(start.get()..);
            let count = together.take_while(|(at, next)| at.get() == *next).count();
            for stored in store.records(self.inners.thread(), *start, count).await? {
                let fault = |found: String| StoreError::Corrupt {
                    place: self.place(stored.seq),
                    found,
                    hint: HINT,
                };
                let Record::Inner(inner) = &*stored.record else {
                    return Err(fault("expected a record of the subgraph".to_owned()));
                };
                let (path, inner) = inner
                    .open()
                    .map_err(|why| why.at(self.place(stored.seq), HINT))?;
                if path != self.path {
                    return Err(fault(format!("found a record of subgraph {path}")));
                }
                records.push(inner);
            }
            rest = &rest[count..];
        }
        Ok(records)
    }

    async fn segments(
        &self,
        thread: &ThreadId,
        _: &[[u8; 16]],
    ) -> Result<Vec<Arc<[u8]>>, StoreError> {
        refused(thread)
    }

    async fn run(&self, _: &ThreadId, _: &RunId) -> Result<Option<RunRow>, StoreError> {
        Ok(None)
    }

    async fn threads(
        &self,
        _: Option<&ThreadId>,
        _: usize,
    ) -> Result<Vec<(ThreadId, Head)>, StoreError> {
        Ok(Vec::new())
    }

    async fn extent(&self, _: &ThreadId) -> Result<Option<Extent>, StoreError> {
        Ok(None)
    }

    async fn wish(&self, _: &ThreadId, _: Wish) -> Result<Wished, StoreError> {
        Ok(Wished::Unknown)
    }

    async fn wished(&self, _: &ThreadId) -> Result<Option<Wish>, StoreError> {
        Ok(None)
    }

    async fn restore(&self, archive: ThreadArchive) -> Result<(), StoreError> {
        refused(&archive.thread)
    }

    async fn delete_thread(&self, thread: &ThreadId) -> Result<(), StoreError> {
        refused(thread)
    }

    async fn copy_thread(&self, from: &ThreadId, _: &ThreadId) -> Result<(), StoreError> {
        refused(from)
    }

    async fn retain(&self, what: Retain) -> Result<Retained, StoreError> {
        refused(&what.thread)
    }
}

/// A record of the log of a subgraph, and the record of its thread that holds it.
pub(super) fn framed(
    path: &TaskPath,
    seq: Seq,
    epoch: Epoch,
    record: Record,
) -> Result<(Stored, InnerRecord), FrameError> {
    let inner = InnerRecord::of(path, seq, epoch, &record)?;
    let stored = Stored {
        seq,
        // Branches are those of the thread.
        branch: Branch::new(0),
        epoch,
        record: record.into(),
    };
    Ok((stored, inner))
}

/// A write as the driver that is asked for it gets it.
pub(super) fn request(
    path: TaskPath,
    records: Vec<(Stored, InnerRecord)>,
) -> (Request, oneshot::Receiver<()>) {
    let (done, written) = oneshot::channel();
    let (stored, records) = records.into_iter().unzip();
    let write = InnerWrite {
        path,
        stored,
        records,
        done,
    };
    (Request::Inner(write), written)
}
