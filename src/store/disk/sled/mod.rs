//! sled, with what it does not promise added: a synced file, a lock that is gone after a close, one
//! honest error for damage.

mod pending;
mod refusal;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use sled::Db;

use self::pending::{Pending, WINDOW};
use self::refusal::refusal;
use super::super::contract::StoreError;
#[cfg(feature = "encryption")]
use super::Keyring;
use super::engine::{Batch, Disk, Keys, Opened, Place, Tree};
use super::folder::{Holder, failed, free};
use super::marker::{self, Marker};
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

/// Opens a folder, or makes it. Finishes a batch that was written down and not finished, and moves,
/// replaces or repairs nothing else that it finds.
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
    let mut disk = SledDisk {
        db: tree.db.clone(),
        file: Arc::clone(&file),
        pending: Pending::new(place.clone()),
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
    let caught_up = opening.place.guarded(|| disk.catch_up(&opening.tree));
    if let Err(error) = caught_up {
        drop(disk);
        opening.close();
        return Err(error);
    }
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
    pending: Pending,
    place: Place,
    marker: Marker,
}

impl SledDisk {
    /// Does a batch that was written down and not finished.
    fn catch_up(&mut self, tree: &SledTree) -> Result<(), StoreError> {
        let stored = match tree.get(&marker::KEY)? {
            None => 0,
            Some(bytes) => match marker::parse(&bytes) {
                Some(stored) => stored,
                // Whoever looks at the whole tree says so.
                None => return Ok(()),
            },
        };
        if let Some(batch) = self.pending.after(stored)? {
            tracing::info!(path = %self.place.path.display(), "a store finishes its last write");
            self.in_pieces(batch)?;
            self.flush()?;
            self.sync()?;
        }
        Ok(())
    }

    /// Puts a batch into the tree with a sync after each piece but the last.
    fn in_pieces(&mut self, batch: Batch) -> Result<(), StoreError> {
        for (number, piece) in pending::pieces(batch).into_iter().enumerate() {
            if number > 0 {
                self.flush()?;
                self.sync()?;
            }
            self.apply(piece)?;
        }
        Ok(())
    }

    fn apply(&self, batch: Batch) -> Result<(), StoreError> {
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
}

impl Disk for SledDisk {
    fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        if pending::is_small(&batch) {
            return self.apply(batch);
        }
        self.pending.put(&batch)?;
        self.in_pieces(batch)
    }

    fn together(&self) -> usize {
        WINDOW
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
        self.pending.done();
        self.marker.set(batch);
    }
}
