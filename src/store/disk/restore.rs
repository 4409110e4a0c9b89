//! A whole thread as the rows of one batch.
//!
//! One batch, so that a kill at any moment leaves all of it or nothing. It is made on the caller's
//! time and held in memory: what is restored has to fit there anyway.

use super::super::archive::{ThreadArchive, start};
use super::super::contract::StoreError;
use super::super::frame::{
    FrameError, FrameHeader, ThreadKey, encode_record, encode_row, encode_segment,
};
use super::super::kind::FrameKind;
use super::super::rows::{HeadRow, NameRow, NamedRun, StartRow};
use super::engine::Batch;
use super::keys::Slot;
use super::vault::Vault;
use crate::ids::Seq;

/// The rows of a thread that holds together.
pub(super) fn encode(archive: &ThreadArchive, vault: &Vault) -> Result<Batch, StoreError> {
    rows(archive, vault).map_err(|_| StoreError::Refused {
        thread: archive.thread.clone(),
        reason: "a record or a segment in it is larger than the format allows",
    })
}

fn rows(archive: &ThreadArchive, vault: &Vault) -> Result<Batch, FrameError> {
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
        let frame = encode_record(key, stored.seq, stored.branch, stored.epoch, &stored.record)?;
        put(Slot::record(key, stored.seq), frame)?;
    }
    for (id, bytes) in &archive.segments {
        put(Slot::segment(key, id), encode_segment(key, bytes)?)?;
    }
    Ok(batch)
}
