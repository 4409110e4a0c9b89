//! Writes that wait for their store, as few as they can be.
//!
//! In come the writes of one thread in their order, out go writes that each say all of what several
//! said: together they leave the thread as those would have. None is cut, and none passes another.

use std::collections::VecDeque;

use crate::ids::Seq;
use crate::store::{Record, Write, body_len};

/// How much something is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) records: usize,
    /// Of bodies of records and of segments.
    pub(super) bytes: usize,
}

impl Size {
    pub(super) fn of(write: &Write) -> Self {
        let segments = write.segments.iter().map(|(_, bytes)| bytes.len());
        Self {
            records: write.records.len(),
            bytes: write.records.iter().map(body_len).sum::<usize>() + segments.sum::<usize>(),
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
    }

    pub(super) fn take(&mut self, other: Self) {
        self.records = self.records.saturating_sub(other.records);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

/// Writes that wait, with how much each is.
#[derive(Debug, Default)]
pub(super) struct Waiting(VecDeque<(Write, Size)>);

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts a write behind all others.
    pub(super) fn push(&mut self, write: Write, size: Size) {
        if let Some((last, of)) = self.0.back_mut()
            && goes_on(last, &write)
        {
            of.add(size);
            return join(last, write);
        }
        self.0.push_back((write, size));
    }

    /// Takes the first.
    pub(super) fn take(&mut self) -> Option<(Write, Size)> {
        self.0.pop_front()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The seq of the last record of a write.
pub(super) fn last(write: &Write) -> Seq {
    Seq::new(write.first.get() + write.records.len() as u64 - 1)
}

/// Whether two writes can be one: the second goes on where the first ends, and neither says anything
/// that a write can say only once.
fn goes_on(first: &Write, then: &Write) -> bool {
    let runs = match (&first.run, &then.run) {
        (Some((first, _)), Some((then, _))) => first == then,
        _ => true,
    };
    let wishes = match (&first.fulfils, &then.fulfils) {
        (Some(first), Some(then)) => first == then,
        _ => true,
    };
    runs && wishes
        && first.thread == then.thread
        && first.epoch == then.epoch
        && first.branch == then.branch
        && first.head.seq == then.expected
        && last(first).next() == then.first
        && !matches!(then.records.first(), Some(Record::Branch(_)))
}

/// Adds a write to the one that it goes on from.
fn join(first: &mut Write, then: Write) {
    first.records.extend(then.records);
    for (id, bytes) in then.segments {
        if first.segments.iter().all(|(known, _)| *known != id) {
            first.segments.push((id, bytes));
        }
    }
    first.head = then.head;
    first.run = then.run.or(first.run.take());
    first.fulfils = then.fulfils.or(first.fulfils.take());
}
