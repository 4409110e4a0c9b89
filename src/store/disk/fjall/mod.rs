//! fjall, with what it does not promise added: a folder that is whole or not there, a look at its
//! journal before it cuts it, a lock that is gone after a close.
//!
//! A batch is one entry of fjall's journal, which is what is synced; fjall's own thread moves it into
//! sorted files later, and syncs those before it lets go of the journal.

mod journal;
mod look;
mod refusal;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use self::refusal::refusal;
use super::super::contract::StoreError;
#[cfg(feature = "encryption")]
use super::Keyring;
use super::engine::{Batch, Disk, Keys, Opened, Place, Tree};
use super::folder::{self, Holder, failed};
use super::marker::Marker;
use super::opening::Opening;
use super::vault::Vault;
use super::which::StoreEngine;
use super::{BLOB_BYTES, DiskStore};

/// Where fjall's own files are, in the folder of a store.
const DATA: &str = StoreEngine::Fjall.data();

/// Where they are while they are made.
const UNFINISHED: &str = "fjall.new";

/// The only keyspace.
const KEYSPACE: &str = "rows";

/// What a folder of fjall has from the first day on. Without one of the last two fjall would take a
/// keyspace for one that was never finished, and remove it.
const ALWAYS: [&str; 4] = [
    "version",
    "lock",
    "keyspaces/0/current",
    "keyspaces/1/current",
];

/// The engine of a [`FjallStore`].
#[derive(Debug)]
pub enum Fjall {}

/// Keeps threads in a folder, as `SledStore` does and with the same promises, on a log-structured
/// tree: faster to write, more crates.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path();
/// use milepost::store::FjallStore;
///
/// let store = FjallStore::open(path).unwrap();
/// assert_eq!(store.path(), path);
/// ```
pub type FjallStore = DiskStore<Fjall>;

/// Settings of a [`FjallStore`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FjallOptions {
    /// How many bytes of what was read fjall keeps in memory. Default: 32 MiB.
    pub cache_bytes: u64,
    /// How many bytes of what was written fjall collects in memory before it writes a sorted file.
    /// Up to four times as many are in memory where writing is faster than the disk. A store keeps
    /// the number that it was made with. Default: 16 MiB.
    pub write_buffer_bytes: u64,
    /// Values of more bytes than this (of a field, a payload, a step, an answer) are kept apart from
    /// their records, each once for all records and threads that have it. Counts for what is written
    /// from now on. Default: 64 KiB.
    pub blob_bytes: usize,
    /// What values are encrypted with; what is there already stays as it is. Default: nothing.
    #[cfg(feature = "encryption")]
    pub keys: Option<Keyring>,
}

impl Default for FjallOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 32 << 20,
            write_buffer_bytes: 16 << 20,
            blob_bytes: BLOB_BYTES,
            #[cfg(feature = "encryption")]
            keys: None,
        }
    }
}

impl DiskStore<Fjall> {
    /// Opens a folder with the default settings, or makes it. Its parent must be there.
    ///
    /// Blocks while fjall reads its journal, so open a store before the work begins.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if it is open already, here or in another process;
    /// [`StoreError::OtherEngine`] if it is no store of fjall; [`StoreError::Corrupt`] if fjall
    /// cannot make sense of the files; [`StoreError::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path, FjallOptions::default())
    }

    /// The same with settings.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: FjallOptions) -> Result<Self, StoreError> {
        Self::start(open(path.as_ref(), &options)?)
    }
}

/// Opens a folder, or makes it. Never moves, replaces or repairs what it finds.
pub(super) fn open(path: &Path, options: &FjallOptions) -> Result<Opened, StoreError> {
    let place = Place {
        path: path.to_owned(),
        engine: "fjall",
    };
    let began = Instant::now();
    let holder = Holder::lock(path)?;
    StoreEngine::Fjall.alone(path)?;
    let (marker, noted) = Marker::open(&place)?;
    let data = path.join(DATA);
    if data.exists() {
        check_files(&place, &data)?;
        journal::check(&place, &data, noted, || {
            look::last_sorted(&place, &data, options)
        })?;
    } else if let Some(noted @ 1..) = noted {
        return Err(place.damaged(format!(
            "its folder {DATA} is missing, but {noted} writes were acknowledged"
        )));
    } else {
        make(&place, &data, options)?;
    }
    let rows = place.guarded(|| Rows::open(&place, &data, options))?;
    let lock = data.join("lock");
    let lock = File::open(&lock).map_err(|source| failed("opening the store", &lock, source))?;
    let disk = FjallDisk {
        rows: rows.clone(),
        marker,
    };
    let opening = Opening {
        place,
        began,
        tree: rows,
        lock: Arc::new(lock),
        holder,
        noted,
    };
    let vault = Vault {
        #[cfg(feature = "encryption")]
        keys: options.keys.clone(),
    };
    opening.finish(disk, options.blob_bytes, vault)
}

/// Refuses a folder of which something is gone, before fjall makes it anew or removes the rest.
fn check_files(place: &Place, data: &Path) -> Result<(), StoreError> {
    for name in ALWAYS {
        let found = fs::metadata(data.join(name));
        if !found.is_ok_and(|found| found.is_file() && (found.len() > 0 || name == "lock")) {
            return Err(place.damaged(format!("its file {DATA}/{name} is missing or empty")));
        }
    }
    Ok(())
}

/// Makes fjall's folder under another name first: what is cut off in its middle is no store yet.
fn make(place: &Place, data: &Path, options: &FjallOptions) -> Result<(), StoreError> {
    let unfinished = place.path.join(UNFINISHED);
    let failed = |source| place.failed("making", source);
    match fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    place.guarded(|| Rows::open(place, &unfinished, options).map(drop))?;
    sync_all(&unfinished).map_err(failed)?;
    fs::rename(&unfinished, data).map_err(failed)?;
    folder::sync(&place.path)
}

/// Syncs a folder with all that is in it.
fn sync_all(path: &Path) -> io::Result<()> {
    for entry in path.read_dir()? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => sync_all(&entry.path())?,
            false => File::options().write(true).open(entry.path())?.sync_all()?,
        }
    }
    match cfg!(unix) {
        true => File::open(path)?.sync_all(),
        false => Ok(()),
    }
}

/// The rows of an open folder.
#[derive(Clone)]
struct Rows {
    keyspace: Keyspace,
    database: Database,
    place: Place,
}

impl Rows {
    fn open(place: &Place, data: &Path, options: &FjallOptions) -> Result<Self, StoreError> {
        let opened = || {
            let database = Database::builder(data)
                .cache_size(options.cache_bytes)
                // One is enough for one writer, and two would wait for each other busily.
                .worker_threads(1)
                // A batch is handed to the system by a call of its own.
                .manual_journal_persist(true)
                .open()?;
            let keyspace = database.keyspace(KEYSPACE, || {
                KeyspaceCreateOptions::default().max_memtable_size(options.write_buffer_bytes)
            })?;
            Ok((database, keyspace))
        };
        let (database, keyspace) = opened().map_err(|error| refusal(place, "opening", error))?;
        Ok(Self {
            keyspace,
            database,
            place: place.clone(),
        })
    }

    fn refused(&self, doing: &str) -> impl Fn(fjall::Error) -> StoreError {
        move |error| refusal(&self.place, doing, error)
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl Tree for Rows {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let row = self.keyspace.get(key).map_err(self.refused("reading"))?;
        Ok(row.map(|row| row.to_vec()))
    }

    fn keys(&self, from: &[u8], to: Option<&[u8]>) -> Keys<'_> {
        let range = match to {
            Some(to) => self.keyspace.range(from..to),
            None => self.keyspace.range(from..),
        };
        Box::new(range.map(|entry| {
            let key = entry.key().map_err(self.refused("reading"))?;
            Ok(key.to_vec())
        }))
    }
}

struct FjallDisk {
    rows: Rows,
    marker: Marker,
}

impl Disk for FjallDisk {
    fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        let mut all = self.rows.database.batch();
        for (key, row) in batch.0 {
            match row {
                Some(row) => all.insert(&self.rows.keyspace, key, row),
                None => all.remove(&self.rows.keyspace, key),
            }
        }
        all.commit().map_err(self.rows.refused("writing"))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let flushed = self.rows.database.persist(PersistMode::Buffer);
        flushed.map_err(self.rows.refused("flushing"))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let synced = self.rows.database.persist(PersistMode::SyncData);
        synced.map_err(self.rows.refused("syncing"))
    }

    fn note(&mut self, batch: u64) {
        self.marker.set(batch);
    }
}
