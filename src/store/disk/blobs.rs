//! Long values: each lies in the tree once, whichever records of whichever threads have it.
//!
//! In come the values that were left out of records, out go rows for the batch that writes those, and
//! the rows that go with the last record that had one. Who has a value is said twice: below the thread,
//! for the one who deletes it, and below the value, for the one who asks whether anybody else has it.
//! Only the writer changes them, always in the batch that changes the records.

use std::collections::BTreeSet;

use super::super::contract::StoreError;
use super::super::finding::Waste;
use super::super::frame::{FrameError, ThreadKey, frame_len};
use super::super::split::{Blob, BlobId, decode_blob, encode_blob};
use super::engine::Batch;
use super::keys::{Class, Slot};
use super::read::View;
use super::vault::{Vault, body_len};
use super::writer::Row;

/// A long value as rows.
#[derive(Debug, Clone)]
pub(super) struct Long {
    pub(super) id: BlobId,
    pub(super) rows: Vec<Row>,
}

impl Long {
    /// On the caller's time: the writer's is everybody's.
    pub(super) fn encode(blob: &Blob, vault: &Vault) -> Result<Self, FrameError> {
        let frame = encode_blob(&blob.bytes)?;
        Ok(Self {
            id: blob.id,
            rows: vault.cut(&Slot::blob(&blob.id), frame)?,
        })
    }
}

/// Says that a thread has a value.
pub(super) fn refer(batch: &mut Batch, id: &BlobId, thread: ThreadKey) {
    batch.insert(Slot::long(thread, id).row(0), Vec::new());
    batch.insert(Slot::holder(id, thread).row(0), Vec::new());
}

/// Says that a thread has a value no longer, and drops the value with the last one that had it.
pub(super) fn forget(
    view: View<'_>,
    batch: &mut Batch,
    id: &BlobId,
    thread: ThreadKey,
) -> Result<(), StoreError> {
    let own = Slot::holder(id, thread).row(0);
    batch.remove(Slot::long(thread, id).row(0));
    for holder in view.tree.beginning(&Slot::holders(id)) {
        if holder? != own {
            batch.remove(own);
            return Ok(());
        }
    }
    batch.remove(own);
    remove(view, batch, id)
}

/// Removes by key alone, so that a damaged value goes too.
fn remove(view: View<'_>, batch: &mut Batch, id: &BlobId) -> Result<(), StoreError> {
    for key in view.tree.beginning(Slot::blob(id).prefix()) {
        batch.remove(key?);
    }
    Ok(())
}

/// Whether a value is there and can be read: a record that comes later may rely on it.
pub(super) fn is_sound(view: View<'_>, id: &BlobId) -> bool {
    let frame = view.frame(&Slot::blob(id), &String::new);
    frame.is_ok_and(|frame| frame.is_some_and(|frame| decode_blob(id, &frame).is_ok()))
}

/// The values that no thread has, and what removes them. There are none, unless a store is damaged.
pub(super) fn waste(view: View<'_>) -> Result<(Batch, Waste), StoreError> {
    let mut ids = BTreeSet::new();
    for key in view.tree.beginning(&Slot::blobs()) {
        if let Some((_, Class::Blob(id), 0)) = Slot::parse(&key?) {
            ids.insert(id);
        }
    }
    let (mut batch, mut waste) = (Batch::default(), Waste::default());
    for id in ids {
        if view.tree.beginning(&Slot::holders(&id)).next().is_some() {
            continue;
        }
        let first = view.tree.get(&Slot::blob(&id).row(0))?;
        let bytes = first.and_then(|first| Some(body_len(&first, frame_len(&first).ok()?)));
        waste.values += 1;
        waste.bytes += bytes.unwrap_or(0) as u64;
        remove(view, &mut batch, &id)?;
    }
    Ok((batch, waste))
}
