//! A batch that is too large to be synced in one go, written down before sled gets it in pieces.
//!
//! sled finds the end of its log by what the headers of its segments say of each other, and believes
//! that what it has handed to the system is on the disk. If a power cut takes the header of one segment
//! and leaves that of a later one, it opens with less than it had, or empty. So between two syncs sled
//! may begin one segment at the most, and no batch of more than [`WINDOW`] bytes goes to it in one piece.
//!
//! All of a larger batch is there or nothing nevertheless: the whole of it is in a file first, synced.
//! A store that is opened and lacks that batch gets it from there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use super::super::super::contract::StoreError;
use super::super::super::guard::short_hash;
use super::super::engine::{Batch, Change, Place};
use super::super::{folder, marker};

/// How many bytes of rows sled gets between two syncs. Its log grows by some four times as much, at
/// times by ten times; a segment has 512 KiB. Measured: of 7,000 windows of this size one began two
/// segments, of 64 KiB one in a hundred.
pub(super) const WINDOW: usize = 32 << 10;

/// The file's name.
pub(super) const FILE: &str = "pending";

/// Bytes of the checksum in front.
const SUM: usize = 16;

/// How much of a window a change takes.
fn size((key, row): &Change) -> usize {
    key.len() + row.as_ref().map_or(0, Vec::len)
}

/// Whether a batch goes to sled in one piece.
pub(super) fn is_small(batch: &Batch) -> bool {
    batch.0.iter().map(size).sum::<usize>() <= WINDOW
}

/// The pieces of a batch, in order; a row is never cut.
pub(super) fn pieces(batch: Batch) -> Vec<Batch> {
    let mut pieces = vec![Batch::default()];
    let mut room = WINDOW;
    for change in batch.0 {
        let size = size(&change);
        if size > room && room < WINDOW {
            pieces.push(Batch::default());
            room = WINDOW;
        }
        room = room.saturating_sub(size);
        if let Some(last) = pieces.last_mut() {
            last.0.push(change);
        }
    }
    pieces
}

/// The file of the batch that is being written.
#[derive(Debug)]
pub(super) struct Pending {
    place: Place,
    /// None until there was a large batch.
    file: Option<File>,
}

impl Pending {
    pub(super) fn new(place: Place) -> Self {
        Self { place, file: None }
    }

    fn path(&self) -> PathBuf {
        self.place.path.join(FILE)
    }

    /// Writes a batch down, and returns when it is durable.
    pub(super) fn put(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let is_new = !self.path().exists();
        let write = || {
            let mut file = File::create(self.path())?;
            file.write_all(&bytes(batch))?;
            file.sync_data()?;
            Ok(file)
        };
        let written = write().map_err(|source| self.place.failed("writing", source))?;
        self.file = Some(written);
        match is_new {
            true => folder::sync(&self.place.path),
            false => Ok(()),
        }
    }

    /// Empties the file: the tree has the batch. It may come back in a power cut, and is then seen to
    /// be old.
    pub(super) fn done(&mut self) {
        let Some(file) = self.file.take() else {
            return;
        };
        if let Err(error) = file.set_len(0) {
            tracing::warn!(%error, "a file that is not needed any more could not be emptied");
        }
    }

    /// The batch that follows one of this number, if it was written down. A file that was torn is one
    /// whose batch was not begun.
    pub(super) fn after(&self, stored: u64) -> Result<Option<Batch>, StoreError> {
        let bytes = match fs::read(self.path()) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.place.failed("reading", error)),
        };
        let Some((number, batch)) = parse(&bytes) else {
            return Ok(None);
        };
        match number.checked_sub(stored) {
            None | Some(0) => Ok(None),
            Some(1) => Ok(Some(batch)),
            // All before it were durable when it was written down.
            Some(_) => Err(marker::short(&self.place, stored, number - 1)),
        }
    }
}

/// A checksum, and the changes: lengths in little-endian, a row one longer than it is, 0 for none.
fn bytes(batch: &Batch) -> Vec<u8> {
    let mut bytes = vec![0; SUM];
    for (key, row) in &batch.0 {
        let row = row.as_ref();
        bytes.extend((key.len() as u64).to_le_bytes());
        bytes.extend(row.map_or(0, |row| row.len() as u64 + 1).to_le_bytes());
        bytes.extend(key);
        bytes.extend(row.into_iter().flatten());
    }
    let sum = short_hash(&bytes[SUM..]);
    bytes[..SUM].copy_from_slice(&sum);
    bytes
}

/// The batch with its number.
fn parse(bytes: &[u8]) -> Option<(u64, Batch)> {
    let (sum, mut rest) = bytes.split_first_chunk::<SUM>()?;
    if *sum != short_hash(rest) {
        return None;
    }
    let mut batch = Batch::default();
    while !rest.is_empty() {
        let key = length(&mut rest)?;
        let row = length(&mut rest)?;
        let key = take(&mut rest, key)?.to_vec();
        let row = match row.checked_sub(1) {
            None => None,
            Some(row) => Some(take(&mut rest, row)?.to_vec()),
        };
        batch.0.push((key, row));
    }
    let mut changes = batch.0.iter().rev();
    let (_, number) = changes.find(|(key, _)| *key == marker::KEY)?;
    let number = marker::parse(number.as_ref()?)?;
    Some((number, batch))
}

fn length(rest: &mut &[u8]) -> Option<usize> {
    let (length, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    usize::try_from(u64::from_le_bytes(*length)).ok()
}

fn take<'b>(rest: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}
