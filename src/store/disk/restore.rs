//! A whole thread as the rows of one batch.
//!
//! One batch, so that a kill at any moment leaves all of it or nothing. It is made on the caller's
//! time and held in memory: what is restored has to fit there anyway.

use std::collections::HashSet;

use super::super::archive::{ThreadArchive, start};
use super::super::contract::StoreError;
use super::super::frame::{FrameError, FrameHeader, ThreadKey, encode_row, encode_segment};
use super::super::kind::FrameKind;
use super::super::rows::{HeadRow, NameRow, NamedRun, StartRow};
use super::super::split::split_record;
use super::blobs::Long;
use super::engine::Batch;
use super::keys::Slot;
use super::writer::Shared;
use crate::ids::Seq;

/// The rows of a thread that holds together, and its long values.
pub(super) fn encode(
    archive: &ThreadArchive,
    shared: &Shared,
) -> Result<(Batch, Vec<Long>), StoreError> {
    rows(archive, shared).map_err(|_| StoreError::Refused {
        thread: archive.thread.clone(),
        reason: "a record or a segment in it is larger than the format allows",
    })
}

fn rows(archive: &ThreadArchive, shared: &Shared) -> Result<(Batch, Vec<Long>), FrameError> {
    let (mut long, mut known) = (Vec::new(), HashSet::new());
    let vault = &shared.vault;
    let key = ThreadKey::of(&archive.thread);
    let mut batch = Batch::default();
    let mut put = |slot: Slot, frame: Vec<u8>| {
        for (key, row) in vault.cut(&slot, frame)? {
            batch.insert(key, row);
        }
        Ok(())
    };
    let name = NameRow {
        thread: archive.thread.clone(),
    };
    let name = encode_row(key, FrameHeader::row(FrameKind::Name), &name)?;
    put(Slot::name(key), name)?;
    let head = HeadRow {
        next: archive.next,
        epoch: archive.epoch,
        head: archive.head.clone(),
    };
    let head = encode_row(key, FrameHeader::row(FrameKind::Head), &head)?;
    put(Slot::head(key), head)?;
    let (floor, older) = start(&archive.records);
    let start = StartRow {
        floor: floor.get(),
        older: older.into_iter().map(Seq::get).collect(),
    };
    if start != StartRow::whole() {
        let start = encode_row(key, FrameHeader::row(FrameKind::Start), &start)?;
        put(Slot::start(key), start)?;
    }
    for (run, row) in &archive.runs {
        let named = NamedRun {
            run: run.clone(),
            row: row.clone(),
        };
        let named = encode_row(key, FrameHeader::row(FrameKind::Run), &named)?;
        put(Slot::run(key, run), named)?;
    }
    for stored in &archive.records {
        let place = (stored.seq, stored.branch, stored.epoch);
        let (frame, blobs) = split_record(key, place, &stored.record, shared.over)?;
        put(Slot::record(key, stored.seq), frame)?;
        for blob in blobs {
            if known.insert(blob.id) {
                long.push(Long::encode(&blob, vault)?);
            }
        }
    }
    for (id, bytes) in &archive.segments {
        put(Slot::segment(key, id), encode_segment(key, bytes)?)?;
    }
    Ok((batch, long))
}
