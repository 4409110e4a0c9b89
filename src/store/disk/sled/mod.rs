//! sled, with what it does not promise added: a synced file, a lock that is gone after a close, one
//! honest error for damage.

mod refusal;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sled::Db;

use self::refusal::refusal;
use super::super::contract::StoreError;
use super::DiskStore;
#[cfg(feature = "encryption")]
use super::Keyring;
use super::engine::{Batch, Disk, Keys, Opened, Place, Tree};
use super::folder::{self, Holder, failed, free};
use super::marker::{self, Marker};
use super::vault::Vault;
use super::which::StoreEngine;

/// How long to wait until sled's background work lets go of its file.
const LET_GO: Duration = Duration::from_secs(5);

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
    /// What values are encrypted with; what is there already stays as it is. Default: nothing.
    #[cfg(feature = "encryption")]
    pub keys: Option<Keyring>,
}

impl Default for SledOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 64 << 20,
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
        db: db.clone(),
        place: place.clone(),
    };
    let batch = match place.guarded(|| marker::check_tree(&place, &tree, noted)) {
        Ok(batch) => batch,
        Err(error) => {
            drop(tree);
            close(db, &file, holder, &place);
            return Err(error);
        }
    };
    folder::sync(path)?;
    tracing::debug!(
        path = %path.display(),
        micros = began.elapsed().as_micros() as u64,
        "opened a store"
    );
    let disk = SledDisk {
        db: db.clone(),
        file: Arc::clone(&file),
        place: place.clone(),
        marker,
    };
    Ok(Opened {
        tree: Arc::new(tree),
        disk: Box::new(disk),
        vault: Vault {
            #[cfg(feature = "encryption")]
            keys: options.keys.clone(),
        },
        batch,
        close: Box::new({
            let place = place.clone();
            move || close(db, &file, holder, &place)
        }),
        place,
    })
}

/// Closes a folder. When it returns, it can be opened again.
fn close(db: Db, file: &File, holder: Holder, place: &Place) {
    let closed = place.guarded(|| {
        drop(db);
        Ok(())
    });
    if let Err(error) = closed {
        tracing::warn!(%error, "a store did not close cleanly");
    }
    // Threads of sled that end a little later keep its file, and with it the lock.
    if !free(file, LET_GO) {
        tracing::warn!(path = %place.path.display(), "sled keeps the lock of a closed store");
    }
    holder.unlock();
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

#[derive(Debug)]
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
