//! How far the store was acknowledged, kept outside of the engine.
//!
//! An engine takes a damaged end of its log for the end of its log: a store whose file was cut off,
//! zeroed or removed comes up shorter, or empty, and says nothing. So each batch carries a number
//! in the tree, and the number of the last acknowledged one stands in a file of its own. A tree
//! with a lower number than the file has lost acknowledged writes.
//!
//! The file is synced now and then: after a power cut it may be older than the tree, never newer, and
//! never so old that an empty tree would pass.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};

use super::super::contract::StoreError;
use super::super::guard::short_hash;
use super::engine::{Place, Tree};

/// The key of the batch's number. It sorts before those of all threads.
pub(super) const KEY: [u8; 1] = [0];

/// Bytes of the number with its checksum.
#[cfg(feature = "fjall")]
pub(super) const BYTES: usize = 24;

/// The file's name.
const FILE: &str = "acknowledged";

/// Of how many batches one syncs the file, once there are as many.
const EVERY: u64 = 1024;

/// The file that says how far the store was acknowledged.
#[derive(Debug)]
pub(super) struct Marker(File);

impl Marker {
    /// Opens the file or makes it, and says which number it holds. A file that was torn by a power
    /// cut holds none.
    pub(super) fn open(place: &Place) -> Result<(Self, Option<u64>), StoreError> {
        let read = || {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(place.path.join(FILE))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok((Self(file), parse(&bytes)))
        };
        read().map_err(|source| place.failed("opening", source))
    }

    /// Writes the number of a batch that is durable.
    pub(super) fn set(&mut self, batch: u64) {
        let mut write = || {
            self.0.seek(SeekFrom::Start(0))?;
            self.0.write_all(&bytes(batch))?;
            match batch.is_power_of_two() || batch.is_multiple_of(EVERY) {
                true => self.0.sync_data(),
                false => Ok(()),
            }
        };
        if let Err(error) = write() {
            // The batch itself is safe; what is lost is one way to notice later damage.
            tracing::warn!(%error, "how far the store was acknowledged could not be noted");
        }
    }
}

/// The number as it stands in the tree and in the file: with a checksum.
pub(super) fn bytes(batch: u64) -> Vec<u8> {
    let mut bytes = batch.to_le_bytes().to_vec();
    let sum = short_hash(&bytes);
    bytes.extend_from_slice(&sum);
    bytes
}

pub(super) fn parse(bytes: &[u8]) -> Option<u64> {
    let (number, sum) = bytes.split_first_chunk::<8>()?;
    (sum == short_hash(number)).then(|| u64::from_le_bytes(*number))
}

/// Compares the tree with the file. Returns the number of the tree's last batch.
pub(super) fn check_tree(
    place: &Place,
    tree: &dyn Tree,
    noted: Option<u64>,
) -> Result<u64, StoreError> {
    let stored = tree
        .get(&KEY)?
        .map_or(Some(0), |bytes| parse(&bytes))
        .ok_or_else(|| place.damaged("the number of its last write does not verify".to_owned()))?;
    match noted {
        Some(noted) if stored < noted => Err(short(place, stored, noted)),
        _ => Ok(stored),
    }
}

/// Acknowledged writes are missing at the end.
pub(super) fn short(place: &Place, stored: u64, noted: u64) -> StoreError {
    place.damaged(format!(
        "its log ends with write {stored}, but {noted} were acknowledged"
    ))
}
