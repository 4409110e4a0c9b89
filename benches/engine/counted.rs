//! A store that counts the bytes it is given, and writes them once more without an engine.
//!
//! The second writes are the measure of the first: made in turn with them, so that a disk which is slow
//! for a while is slow for both.
//!
//! The bytes are those of the frames that a store on a disk would write for the records, the segments
//! and the head: what the engine asks for, before any store adds keys, pages or a log of its own.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use milepost::store::{
    CheckpointStore, FrameError, FrameHeader, FrameKind, Layer, StoreError, ThreadKey, Write,
    encode_record, encode_row, encode_segment,
};

use crate::bare::Bare;

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

/// The store around another one.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    inner: Arc<dyn CheckpointStore>,
    seen: Arc<Mutex<Seen>>,
}

/// What has been seen so far.
#[derive(Debug, Default)]
struct Seen {
    handed: Vec<Handed>,
    /// Writes each time the same bytes, right after the store has.
    bare: Option<Box<dyn Bare>>,
    /// How long that took, and counting before it.
    aside: Duration,
    /// How long the bare writes alone took.
    bare_spent: Duration,
}

impl Counted {
    pub(crate) fn new(inner: Arc<dyn CheckpointStore>, bare: Option<Box<dyn Bare>>) -> Self {
        Self {
            inner,
            seen: Arc::new(Mutex::new(Seen {
                bare,
                ..Seen::default()
            })),
        }
    }

    /// The bytes of each write so far.
    pub(crate) fn handed(&self) -> Vec<Handed> {
        self.seen().handed.clone()
    }

    /// How long the run was held up by what is done beside it, and how long the bare writes took;
    /// none if there are none.
    pub(crate) fn beside(&self) -> Option<(Duration, Duration)> {
        let seen = self.seen();
        seen.bare.as_ref()?;
        Some((seen.aside, seen.bare_spent))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, handed: Handed, counting: Duration) -> io::Result<()> {
        let mut seen = self.seen();
        seen.handed.push(handed);
        if let Some(bare) = &mut seen.bare {
            let writing = Instant::now();
            bare.write(handed)?;
            let spent = writing.elapsed();
            seen.bare_spent += spent;
            seen.aside += spent + counting;
        }
        Ok(())
    }
}

#[async_trait]
impl Layer for Counted {
    fn below(&self) -> Arc<dyn CheckpointStore> {
        self.inner.clone()
    }

    async fn append(&self, write: Write) -> Result<(), StoreError> {
        let begun = Instant::now();
        let handed = Handed::of(&write).map_err(|error| error.at("a write", "Count less"))?;
        let counting = begun.elapsed();
        self.inner.append(write).await?;
        self.note(handed, counting)
            .map_err(|source| StoreError::Io {
                action: "writing the same bytes bare".to_owned(),
                source: Arc::new(source),
            })
    }
}
