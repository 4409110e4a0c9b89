//! Deleting, copying, pruning and restoring: what has to change, as one batch.

use super::super::contract::StoreError;
use super::super::frame::{FrameHeader, ThreadKey, encode_row, reframe};
use super::super::kind::FrameKind;
use super::super::retain::Survey;
use super::super::retention::{Retain, Retained};
use super::super::rows::{NameRow, StartRow};
use super::engine::Batch;
use super::keys::{Class, Slot};
use super::read::{THREAD_HINT, View, corrupt};
use crate::ids::{Seq, ThreadId};

/// A change to whole threads.
#[derive(Debug)]
pub(super) enum Upkeep {
    Delete(ThreadId),
    Copy {
        from: ThreadId,
        to: ThreadId,
    },
    Prune(Retain),
    /// The rows of a whole thread.
    Restore {
        thread: ThreadId,
        rows: Batch,
    },
}

impl Upkeep {
    /// The threads that no call may hold meanwhile.
    pub(super) fn threads(&self) -> Vec<&ThreadId> {
        match self {
            Self::Delete(thread) | Self::Restore { thread, .. } => vec![thread],
            // Its own holder does it.
            Self::Prune(what) if what.holder.is_some() => Vec::new(),
            Self::Prune(what) => vec![&what.thread],
            Self::Copy { from, to } if from == to => vec![from],
            Self::Copy { from, to } => vec![from, to],
        }
    }
}

/// What to write, none if nothing has to change; and what becomes of the records of a thread that is
/// pruned.
pub(super) fn plan(view: View<'_>, what: &Upkeep) -> Result<(Option<Batch>, Retained), StoreError> {
    let batch = match what {
        Upkeep::Delete(thread) => delete(view, thread),
        Upkeep::Copy { from, to } => copy(view, from, to),
        Upkeep::Prune(what) => return prune(view, what),
        Upkeep::Restore { thread, rows } => match view.head_row(thread)? {
            Some(_) => Err(StoreError::Exists {
                thread: thread.clone(),
            }),
            None => Ok(Some(rows.clone())),
        },
    };
    Ok((batch?, Retained::default()))
}

/// Removes by key alone, so that a damaged thread can be removed too.
fn delete(view: View<'_>, thread: &ThreadId) -> Result<Option<Batch>, StoreError> {
    let mut batch = Batch::default();
    let mut any = false;
    for key in view.tree.beginning(ThreadKey::of(thread).as_bytes()) {
        batch.remove(key?);
        any = true;
    }
    Ok(any.then_some(batch))
}

fn copy(view: View<'_>, from: &ThreadId, to: &ThreadId) -> Result<Option<Batch>, StoreError> {
    let Some(row) = view.standing(from)? else {
        return Ok(None);
    };
    if view.head_row(to)?.is_some() {
        return Err(StoreError::Exists { thread: to.clone() });
    }
    let (old, new) = (ThreadKey::of(from), ThreadKey::of(to));
    let start = view.start_row(from)?;
    let mut expected = start.seqs(Seq::new(0), row.next);
    let mut batch = Batch::default();
    for (slot, class) in view.slots(old.as_bytes(), from)? {
        // It was for the run of the other one.
        if class == Class::Wish {
            continue;
        }
        if let Class::Record(seq) = class
            && expected.next() != Some(seq)
        {
            return Err(corrupt(
                format!("record {seq} of thread {from}"),
                "a record before it is missing, so the thread was not copied",
            ));
        }
        let place = || format!("thread {from}, while it was copied");
        let frame = view
            .frame(&slot, &place)?
            .ok_or_else(|| corrupt(place(), "a row has gone"))?;
        let rows = match class {
            Class::Name => encode_row(
                new,
                FrameHeader::row(FrameKind::Name),
                &NameRow { thread: to.clone() },
            ),
            _ => reframe(old, new, &frame),
        }
        .and_then(|frame| view.vault.cut(&slot.moved(new), frame))
        .map_err(|error| error.at(place(), THREAD_HINT))?;
        for (key, row) in rows {
            batch.insert(key, row);
        }
    }
    Ok(Some(batch))
}

fn prune(view: View<'_>, what: &Retain) -> Result<(Option<Batch>, Retained), StoreError> {
    let thread = &what.thread;
    let Some(row) = view.standing(thread)? else {
        return Ok((None, Retained::default()));
    };
    let mut survey = Survey::new(&row.head);
    let mut records = 0;
    view.walk(thread, Seq::new(0), usize::MAX, |stored| {
        survey.see(&stored);
        records += 1;
    })?;
    let Some(kept) = survey.finish(&what.retention, what.now_ms) else {
        let kept = Retained {
            dropped: 0,
            kept: records,
        };
        return Ok((None, kept));
    };
    let mut batch = Batch::default();
    for key in view.tree.beginning(ThreadKey::of(thread).as_bytes()) {
        let key = key?;
        let stays = match Slot::parse(&key) {
            Some((_, Class::Record(seq), _)) => kept.has(seq.get()),
            Some((_, Class::Segment(id), _)) => kept.segments.contains(&id),
            _ => true,
        };
        if !stays {
            batch.remove(key);
        }
    }
    if batch.0.is_empty() {
        return Ok((None, kept.records));
    }
    let key = ThreadKey::of(thread);
    let start = StartRow {
        floor: kept.floor,
        older: kept.older.into_iter().collect(),
    };
    let place = || format!("the start of thread {thread}");
    let rows = encode_row(key, FrameHeader::row(FrameKind::Start), &start)
        .and_then(|frame| view.vault.cut(&Slot::start(key), frame))
        .map_err(|error| error.at(place(), THREAD_HINT))?;
    for (key, row) in rows {
        batch.insert(key, row);
    }
    Ok((Some(batch), kept.records))
}
