//! sled, with what it does not promise added: a synced file, a lock that is gone after a close, one
//! honest error for damage.

mod refusal;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use sled::Db;

use self::refusal::refusal;
use super::super::contract::StoreError;
#[cfg(feature = "encryption")]
use super::Keyring;
use super::engine::{Batch, Disk, Keys, Opened, Place, Tree};
use super::folder::{Holder, failed, free};
use super::marker::Marker;
use super::opening::{LET_GO, Opening};
use super::vault::Vault;
use super::which::StoreEngine;
use super::{BLOB_BYTES, DiskStore};

/// The engine of a [`SledStore`].
#[derive(Debug)]
pub enum Sled {}

/// Keeps threads in a folder, so that they outlive their process. The default store.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path();
/// use milepost::store::SledStore;
///
/// let store = SledStore::open(path).unwrap();
/// assert_eq!(store.path(), path);
/// ```
pub type SledStore = DiskStore<Sled>;

/// Settings of a [`SledStore`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SledOptions {
    /// How many bytes of pages sled keeps in memory. Not a limit of the memory it uses.
    /// Default: 64 MiB.
    pub cache_bytes: u64,
    /// Values of more bytes than this (of a field, a payload, a step, an answer) are kept apart from
    /// their records, each once for all records and threads that have it. Counts for what is written
    /// from now on. Default: 64 KiB.
    pub blob_bytes: usize,
    /// What values are encrypted with; what is there already stays as it is. Default: nothing.
    #[cfg(feature = "encryption")]
    pub keys: Option<Keyring>,
}

impl Default for SledOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 64 << 20,
            blob_bytes: BLOB_BYTES,
            #[cfg(feature = "encryption")]
            keys: None,
        }
    }
}

impl DiskStore<Sled> {
    /// Opens a folder with the default settings, or makes it. Its parent must be there.
    ///
    /// Blocks while sled reads its log, so open a store before the work begins.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if it is open already, here or in another process;
    /// [`StoreError::OtherEngine`] if it is no store of sled; [`StoreError::Corrupt`] if sled
    /// cannot make sense of the files; [`StoreError::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path, SledOptions::default())
    }

    /// The same with settings.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: SledOptions) -> Result<Self, StoreError> {
        Self::start(open(path.as_ref(), &options)?)
    }
}

/// Opens a folder, or makes it. Never moves, replaces or repairs what it finds.
pub(super) fn open(path: &Path, options: &SledOptions) -> Result<Opened, StoreError> {
    let place = Place {
        path: path.to_owned(),
        engine: "sled",
    };
    let began = Instant::now();
    let holder = Holder::lock(path)?;
    StoreEngine::Sled.alone(path)?;
    let data = path.join(StoreEngine::Sled.data());
    let (marker, noted) = Marker::open(&place)?;
    check_file(&place, &data, noted)?;
    if let Ok(file) = File::open(&data) {
        // We hold the folder, so nobody else of ours does; but another program may have it open,
        // or what a failed opening left behind may still be ending.
        if !free(&file, LET_GO / 10) {
            return Err(StoreError::Locked {
                path: path.to_owned(),
                holder: None,
            });
        }
    }
    let db = place.guarded(|| {
        sled::Config::new()
            .path(path)
            .cache_capacity(options.cache_bytes)
            .open()
            .map_err(|error| refusal(&place, "opening", error))
    })?;
    let file = File::open(&data).map_err(|source| failed("opening the store", &data, source))?;
    let file = Arc::new(file);
    let tree = SledTree {
        db,
        place: place.clone(),
    };
    let disk = SledDisk {
        db: tree.db.clone(),
        file: Arc::clone(&file),
        place: place.clone(),
        marker,
    };
    let opening = Opening {
        place,
        began,
        tree,
        lock: file,
        holder,
        noted,
    };
    let vault = Vault {
        #[cfg(feature = "encryption")]
        keys: options.keys.clone(),
    };
    opening.finish(disk, options.blob_bytes, vault)
}

/// Refuses a folder whose data file is gone, before sled makes a new one.
fn check_file(place: &Place, data: &Path, noted: Option<u64>) -> Result<(), StoreError> {
    let found = match std::fs::metadata(data) {
        Ok(found) if found.len() > 0 => return Ok(()),
        Ok(_) => "its data file db is empty",
        Err(_) => "its data file db is missing",
    };
    match noted {
        None | Some(0) => Ok(()),
        Some(noted) => Err(place.damaged(format!("{found}, but {noted} writes were acknowledged"))),
    }
}

#[derive(Debug, Clone)]
struct SledTree {
    db: Db,
    place: Place,
}

impl Tree for SledTree {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let row = self.db.get(key);
        row.map(|row| row.map(|row| row.to_vec()))
            .map_err(|error| refusal(&self.place, "reading", error))
    }

    fn keys(&self, from: &[u8], to: Option<&[u8]>) -> Keys<'_> {
        let range = match to {
            Some(to) => self.db.range(from..to),
            None => self.db.range(from..),
        };
        Box::new(range.map(|entry| {
            entry
                .map(|(key, _)| key.to_vec())
                .map_err(|error| refusal(&self.place, "reading", error))
        }))
    }
}

#[derive(Debug)]
struct SledDisk {
    db: Db,
    /// Our own handle of the file that sled writes: a flush of sled does not sync it.
    file: Arc<File>,
    place: Place,
    marker: Marker,
}

impl Disk for SledDisk {
    fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        let mut all = sled::Batch::default();
        for (key, row) in batch.0 {
            match row {
                Some(row) => all.insert(key, row),
                None => all.remove(key),
            }
        }
        self.db
            .apply_batch(all)
            .map_err(|error| refusal(&self.place, "writing", error))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.db
            .flush()
            .map(|_| ())
            .map_err(|error| refusal(&self.place, "flushing", error))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.file
            .sync_data()
            .map_err(|error| self.place.failed("syncing", error))
    }

    fn note(&mut self, batch: u64) {
        self.marker.set(batch);
    }
}
