//! What every store asks before it writes, in one place, so that all stores refuse alike.
//!
//! In come a write and how the thread stands, out goes a permission or a typed refusal. Nothing
//! here stores, waits or encodes.

use super::contract::{StoreError, Write};
use super::record::Record;
use crate::ids::{Epoch, Seq, ThreadId};

/// How a thread stands, as far as guards care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The epoch of the newest claim; 0 if there was none.
    pub(crate) epoch: Epoch,
    /// The head; 0 for a thread without a log.
    pub(crate) head: Seq,
    /// The seq that the next record gets.
    pub(crate) next: Seq,
}

/// What a write asks of the thread it goes to.
#[derive(Debug, Clone)]
pub(crate) struct Asks {
    pub(crate) thread: ThreadId,
    pub(crate) epoch: Epoch,
    pub(crate) expected: Seq,
    pub(crate) first: Seq,
}

impl Asks {
    pub(crate) fn of(write: &Write) -> Self {
        Self {
            thread: write.thread.clone(),
            epoch: write.epoch,
            expected: write.expected,
            first: write.first,
        }
    }
}

impl Standing {
    /// A thread that was never heard of.
    pub(crate) fn unknown() -> Self {
        Self {
            epoch: Epoch::new(0),
            head: Seq::new(0),
            next: Seq::new(1),
        }
    }

    /// Whether a write may be applied to a thread that stands like this.
    #[inline]
    pub(crate) fn admits(&self, write: &Write) -> Result<(), StoreError> {
        let fits = write.epoch == self.epoch
            && self.epoch.get() > 0
            && write.expected == self.head
            && write.first == self.next;
        match fits {
            true => Ok(()),
            false => self.admit(&Asks::of(write)),
        }
    }

    /// Whether a write that asks this may be applied to a thread that stands like this.
    pub(crate) fn admit(&self, asks: &Asks) -> Result<(), StoreError> {
        // Epochs begin at 1: a thread that was never claimed admits nobody.
        if asks.epoch != self.epoch || self.epoch.get() == 0 {
            return Err(StoreError::Fenced {
                thread: asks.thread.clone(),
                found: asks.epoch,
                current: self.epoch,
            });
        }
        if asks.expected != self.head || asks.first != self.next {
            return Err(StoreError::Conflict {
                thread: asks.thread.clone(),
                expected_head: asks.expected,
                head: self.head,
                expected_next: asks.first,
                next: self.next,
            });
        }
        Ok(())
    }
}

/// Whether a claim with this epoch is the newest one of a thread.
pub(crate) fn owns(thread: &ThreadId, epoch: Epoch, current: Epoch) -> Result<(), StoreError> {
    match epoch == current {
        true => Ok(()),
        false => Err(StoreError::Fenced {
            thread: thread.clone(),
            found: epoch,
            current,
        }),
    }
}

/// Whether a write makes sense by itself, whatever the thread looks like.
pub(crate) fn sound(write: &Write) -> Result<(), StoreError> {
    let refuse = |reason| {
        Err(StoreError::Refused {
            thread: write.thread.clone(),
            reason,
        })
    };
    if write.records.is_empty() {
        return refuse("it has no record");
    }
    if write.first.get() == 0 {
        return refuse("its first seq is 0, but logs begin at 1");
    }
    let next = after(write);
    let head = &write.head;
    if head.seq.get() == 0 || head.seq >= next {
        return refuse("its head points to no record of the log");
    }
    if head.base >= next || head.schema >= next {
        return refuse("its head names a base or a schema that is not in the log");
    }
    if head.branch != write.branch {
        return refuse("its head is on another branch than its records");
    }
    let (begins, more) = write.records.split_at(1);
    if more
        .iter()
        .any(|record| matches!(record, Record::Branch(_)))
    {
        return refuse("a branch is begun by the first record of a write, and by no other");
    }
    if let [Record::Branch(begun)] = begins
        && (begun.branch != write.branch.get() || begun.at == 0 || begun.at >= write.first.get())
    {
        return refuse("it begins another branch than its own, or where there is no record yet");
    }
    if head.seq >= write.first {
        let place = (head.seq.get() - write.first.get()) as usize;
        if !matches!(write.records[place], Record::Input(_) | Record::Commit(_)) {
            return refuse("its head points to a record that is neither an input nor a commit");
        }
    }
    if let Some((_, row)) = &write.run
        && (row.input.get() == 0 || row.input >= next || row.end.is_some_and(|end| end >= next))
    {
        return refuse("its run row points to no record of the log");
    }
    for (id, bytes) in &write.segments {
        if segment_id(bytes) != *id {
            return refuse("a segment's id is not the hash of its bytes");
        }
    }
    Ok(())
}

/// The seq after the last record of a write.
pub(crate) fn after(write: &Write) -> Seq {
    Seq::new(write.first.get() + write.records.len() as u64)
}

/// The id of a segment: the first 16 bytes of the BLAKE3 hash of its bytes.
pub fn segment_id(bytes: &[u8]) -> [u8; 16] {
    short_hash(bytes)
}

/// The first 16 bytes of a BLAKE3 hash.
pub(crate) fn short_hash(bytes: &[u8]) -> [u8; 16] {
    let mut short = [0; 16];
    short.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
    short
}
