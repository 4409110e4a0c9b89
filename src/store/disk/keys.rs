//! Where a frame stands in the tree, and how it is cut into rows.
//!
//! A key is the thread's 16 bytes, a class, what the class needs, and the number of the row, all
//! big-endian, so that a thread is one range and its log lies in order.

use super::super::frame::ThreadKey;
use super::super::guard::short_hash;
use super::super::split::{BlobId, NO_THREAD};
use crate::ids::{RunId, Seq};

/// The most bytes that one row of the tree holds.
///
/// sled rewrites a leaf of up to sixteen entries as a whole and moves what is larger than an
/// eighth of a megabyte into files that it never syncs. Sixteen of these stay well below.
pub(super) const ROW_BYTES: usize = 4096;

const NAME: u8 = 0;
const HEAD: u8 = 1;
const START: u8 = 2;
const RECORD: u8 = 3;
const SEGMENT: u8 = 4;
const RUN: u8 = 5;
const WISH: u8 = 6;
const LONG: u8 = 7;
/// These two are of no thread: they stand below a key of zeros.
const BLOB: u8 = 8;
const HOLDER: u8 = 9;

/// Bytes of the thread and the class.
const PREFIX: usize = 17;

/// The place of a frame: a key without the number of the row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Slot(Vec<u8>);

/// What a slot holds, as far as upkeep has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Name,
    Record(Seq),
    Segment([u8; 16]),
    Wish,
    /// The thread has this long value.
    Long(BlobId),
    /// A long value.
    Blob(BlobId),
    Other,
}

impl Slot {
    pub(super) fn name(thread: ThreadKey) -> Self {
        Self::new(thread, NAME, &[])
    }

    pub(super) fn head(thread: ThreadKey) -> Self {
        Self::new(thread, HEAD, &[])
    }

    pub(super) fn start(thread: ThreadKey) -> Self {
        Self::new(thread, START, &[])
    }

    pub(super) fn record(thread: ThreadKey, seq: Seq) -> Self {
        Self::new(thread, RECORD, &seq.get().to_be_bytes())
    }

    pub(super) fn segment(thread: ThreadKey, id: &[u8; 16]) -> Self {
        Self::new(thread, SEGMENT, id)
    }

    pub(super) fn run(thread: ThreadKey, run: &RunId) -> Self {
        Self::new(thread, RUN, &short_hash(run.as_str().as_bytes()))
    }

    pub(super) fn wish(thread: ThreadKey) -> Self {
        Self::new(thread, WISH, &[])
    }

    /// The thread.
    pub(super) fn thread(&self) -> ThreadKey {
        let mut thread = [0; 16];
        thread.copy_from_slice(&self.0[..16]);
        ThreadKey::from_bytes(thread)
    }

    /// Whether what stands here holds more than what tells threads and runs apart.
    #[cfg(feature = "encryption")]
    pub(super) fn holds_values(&self) -> bool {
        matches!(self.0[PREFIX - 1], RECORD | SEGMENT | WISH | BLOB)
    }

    /// Says below a thread that it has a long value.
    pub(super) fn long(thread: ThreadKey, id: &BlobId) -> Self {
        Self::new(thread, LONG, id)
    }

    /// A long value.
    pub(super) fn blob(id: &BlobId) -> Self {
        Self::new(NO_THREAD, BLOB, id)
    }

    /// Says below a long value that a thread has it.
    pub(super) fn holder(id: &BlobId, thread: ThreadKey) -> Self {
        let mut slot = Self::new(NO_THREAD, HOLDER, id);
        slot.0.extend_from_slice(thread.as_bytes());
        slot
    }

    /// What the keys of all long values begin with.
    pub(super) fn blobs() -> Vec<u8> {
        Self::new(NO_THREAD, BLOB, &[]).0
    }

    /// What the keys of all that have a long value begin with.
    pub(super) fn holders(id: &BlobId) -> Vec<u8> {
        Self::new(NO_THREAD, HOLDER, id).0
    }

    /// What the keys of its rows begin with.
    pub(super) fn prefix(&self) -> &[u8] {
        &self.0
    }

    /// What the keys of all segments of a thread begin with.
    pub(super) fn segments(thread: ThreadKey) -> Vec<u8> {
        Self::new(thread, SEGMENT, &[]).0
    }

    /// What the keys of all runs of a thread begin with.
    pub(super) fn runs(thread: ThreadKey) -> Vec<u8> {
        Self::new(thread, RUN, &[]).0
    }

    fn new(thread: ThreadKey, class: u8, rest: &[u8]) -> Self {
        let mut key = Vec::with_capacity(PREFIX + rest.len() + 2);
        key.extend_from_slice(thread.as_bytes());
        key.push(class);
        key.extend_from_slice(rest);
        Self(key)
    }

    /// Whether a run's row stands here.
    pub(super) fn is_run(&self) -> bool {
        self.0.get(PREFIX - 1) == Some(&RUN)
    }

    /// The same slot with another thread's key.
    pub(super) fn moved(&self, to: ThreadKey) -> Self {
        let mut key = self.0.clone();
        key[..16].copy_from_slice(to.as_bytes());
        Self(key)
    }

    /// The key of one row.
    pub(super) fn row(&self, number: u16) -> Vec<u8> {
        let mut key = self.0.clone();
        key.extend_from_slice(&number.to_be_bytes());
        key
    }

    /// Cuts a frame into rows with their keys.
    pub(super) fn cut(&self, frame: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        frame
            .chunks(ROW_BYTES)
            .enumerate()
            .map(|(number, row)| (self.row(number as u16), row.to_vec()))
            .collect()
    }

    /// Reads a key; none if it is no key of ours.
    pub(super) fn parse(key: &[u8]) -> Option<(Self, Class, u16)> {
        if key.len() < PREFIX + 2 {
            return None;
        }
        let (slot, row) = key.split_at(key.len() - 2);
        let rest = &slot[PREFIX..];
        let class = match (slot[PREFIX - 1], rest.len()) {
            (NAME, 0) => Class::Name,
            (WISH, 0) => Class::Wish,
            (HEAD | START, 0) | (RUN, 16) => Class::Other,
            (RECORD, 8) => Class::Record(Seq::new(u64::from_be_bytes(rest.try_into().ok()?))),
            (SEGMENT, 16) => Class::Segment(rest.try_into().ok()?),
            (LONG, 32) => Class::Long(rest.try_into().ok()?),
            (BLOB, 32) => Class::Blob(rest.try_into().ok()?),
            (HOLDER, 48) => Class::Other,
            _ => return None,
        };
        Some((
            Self(slot.to_vec()),
            class,
            u16::from_be_bytes(row.try_into().ok()?),
        ))
    }
}

/// The thread of a key, if it has one.
pub(super) fn thread_of(key: &[u8]) -> Option<ThreadKey> {
    Some(ThreadKey::from_bytes(key.get(..16)?.try_into().ok()?))
}

/// The first key that may be a thread's: those before are of no thread.
pub(super) fn first_thread() -> [u8; 16] {
    1_u128.to_be_bytes()
}

/// The first key after all of a thread's; none if the thread is the last possible one.
pub(super) fn end_of(thread: ThreadKey) -> Option<[u8; 16]> {
    u128::from_be_bytes(*thread.as_bytes())
        .checked_add(1)
        .map(u128::to_be_bytes)
}
