//! Deleting, copying, pruning and restoring: what has to change, as one batch.

use std::collections::HashSet;

use super::super::contract::StoreError;
use super::super::frame::{FrameHeader, ThreadKey, encode_row, reframe};
use super::super::kind::FrameKind;
use super::super::retain::Survey;
use super::super::retention::{Retain, Retained};
use super::super::rows::{NameRow, StartRow};
use super::super::split::BlobId;
use super::blobs::{self, Long};
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
    /// The rows of a whole thread, and its long values.
    Restore {
        thread: ThreadId,
        rows: Batch,
        long: Vec<Long>,
    },
    /// Removes long values that no thread has.
    Sweep,
}

impl Upkeep {
    /// The threads that no call may hold meanwhile.
    pub(super) fn threads(&self) -> Vec<&ThreadId> {
        match self {
            Self::Delete(thread) | Self::Restore { thread, .. } => vec![thread],
            // Its own holder does it.
            Self::Prune(what) if what.holder.is_some() => Vec::new(),
            Self::Prune(what) => vec![&what.thread],
            Self::Sweep => Vec::new(),
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
        Upkeep::Restore { thread, rows, long } => restore(view, thread, rows, long),
        Upkeep::Sweep => blobs::waste(view).map(|(batch, _)| batch.or_none()),
    };
    Ok((batch?, Retained::default()))
}

fn restore(
    view: View<'_>,
    thread: &ThreadId,
    rows: &Batch,
    long: &[Long],
) -> Result<Option<Batch>, StoreError> {
    if view.head_row(thread)?.is_some() {
        return Err(StoreError::Exists {
            thread: thread.clone(),
        });
    }
    let mut batch = rows.clone();
    for long in long {
        if !blobs::is_sound(view, &long.id) {
            for (key, row) in long.rows.clone() {
                batch.insert(key, row);
            }
        }
        blobs::refer(&mut batch, &long.id, ThreadKey::of(thread));
    }
    Ok(Some(batch))
}

/// Removes by key alone, so that a damaged thread can be removed too.
fn delete(view: View<'_>, thread: &ThreadId) -> Result<Option<Batch>, StoreError> {
    let mut batch = Batch::default();
    let own = ThreadKey::of(thread);
    for key in view.tree.beginning(own.as_bytes()) {
        let key = key?;
        if let Some((_, Class::Long(id), _)) = Slot::parse(&key) {
            blobs::forget(view, &mut batch, &id, own)?;
        }
        batch.remove(key);
    }
    Ok(batch.or_none())
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
        match class {
            // It was for the run of the other one.
            Class::Wish => continue,
            Class::Long(id) => {
                blobs::refer(&mut batch, &id, new);
                continue;
            }
            _ => {}
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
    let mut values = Vec::new();
    view.outlines(thread, |stored, cuts| {
        survey.see(&stored);
        records += 1;
        values.extend(cuts.iter().map(|cut| (stored.seq.get(), cut.id)));
    })?;
    let Some(kept) = survey.finish(&what.retention, what.now_ms) else {
        let kept = Retained {
            dropped: 0,
            kept: records,
        };
        return Ok((None, kept));
    };
    values.retain(|(seq, _)| kept.has(*seq));
    let values: HashSet<BlobId> = values.into_iter().map(|(_, id)| id).collect();
    let own = ThreadKey::of(thread);
    let mut batch = Batch::default();
    for key in view.tree.beginning(own.as_bytes()) {
        let key = key?;
        let stays = match Slot::parse(&key) {
            Some((_, Class::Record(seq), _)) => kept.has(seq.get()),
            Some((_, Class::Segment(id), _)) => kept.segments.contains(&id),
            Some((_, Class::Long(id), _)) => {
                if !values.contains(&id) {
                    blobs::forget(view, &mut batch, &id, own)?;
                }
                true
            }
            _ => true,
        };
        if !stays {
            batch.remove(key);
        }
    }
    if batch.0.is_empty() {
        return Ok((None, kept.records));
    }
    let start = StartRow {
        floor: kept.floor,
        older: kept.older.into_iter().collect(),
    };
    let place = || format!("the start of thread {thread}");
    let rows = encode_row(own, FrameHeader::row(FrameKind::Start), &start)
        .and_then(|frame| view.vault.cut(&Slot::start(own), frame))
        .map_err(|error| error.at(place(), THREAD_HINT))?;
    for (key, row) in rows {
        batch.insert(key, row);
    }
    Ok((Some(batch), kept.records))
}
