//! Opening and closing: one handle of a folder at a time, and no damage goes unsaid.
//!
//! It never moves, replaces or repairs what it finds.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sled::Db;

use super::super::contract::StoreError;
use super::SledOptions;
use super::marker::{self, Marker};
use super::refusal::{guarded, refusal};

/// How long to wait until sled's background work lets go of its file.
const LET_GO: Duration = Duration::from_secs(5);

/// An open folder.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) db: Db,
    pub(super) file: Arc<File>,
    pub(super) holder: Holder,
    pub(super) marker: Marker,
    /// The number of the last batch in the tree.
    pub(super) batch: u64,
}

/// Our own lock of the folder. sled has one too, but its lock does not say who holds it.
#[derive(Debug)]
pub(super) struct Holder(File);

/// Opens a folder, or makes it.
pub(super) fn open(path: &Path, options: &SledOptions) -> Result<Opened, StoreError> {
    let began = Instant::now();
    folder(path).map_err(|source| failed("opening the store", path, source))?;
    let holder = Holder::lock(path)?;
    let data = path.join("db");
    let (marker, noted) =
        Marker::open(path).map_err(|source| failed("opening the store", path, source))?;
    marker::check_file(path, &data, noted)?;
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
    let db = guarded(path, || {
        sled::Config::new()
            .path(path)
            .cache_capacity(options.cache_bytes)
            .open()
            .map_err(|error| refusal(path, "opening", error))
    })?;
    let file = File::open(&data).map_err(|source| failed("opening the store", &data, source))?;
    let batch = match guarded(path, || marker::check_tree(path, &db, noted)) {
        Ok(batch) => batch,
        Err(error) => {
            close(db, &file, holder, path);
            return Err(error);
        }
    };
    // The names of new files are entries of their folders, which have to be synced as well.
    sync_folder(path).map_err(|source| failed("syncing the folder", path, source))?;
    tracing::debug!(
        path = %path.display(),
        micros = began.elapsed().as_micros() as u64,
        "opened a store"
    );
    Ok(Opened {
        db,
        file: Arc::new(file),
        holder,
        marker,
        batch,
    })
}

/// Closes a folder. When it returns, it can be opened again.
pub(super) fn close(db: Db, file: &File, holder: Holder, path: &Path) {
    let closed = guarded(path, || {
        drop(db);
        Ok(())
    });
    if let Err(error) = closed {
        tracing::warn!(%error, "a store did not close cleanly");
    }
    // Threads of sled that end a little later keep its file, and with it the lock.
    if !free(file, LET_GO) {
        tracing::warn!(path = %path.display(), "sled keeps the lock of a closed store");
    }
    holder.unlock();
}

impl Holder {
    fn lock(path: &Path) -> Result<Self, StoreError> {
        let name = path.join("holder");
        let fail = |source| failed("locking the store", &name, source);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&name)
            .map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Locked {
                    path: path.to_owned(),
                    holder: pid(&mut file),
                });
            }
            Err(TryLockError::Error(source)) => return Err(fail(source)),
        }
        // Emptied first: what a killed holder left must not be read as ours.
        file.set_len(0).map_err(fail)?;
        file.rewind().map_err(fail)?;
        writeln!(file, "{}", std::process::id()).map_err(fail)?;
        Ok(Self(file))
    }

    fn unlock(self) {
        // The lock goes with the handle; an empty file only spares a reader a look.
        let _ = self.0.set_len(0);
    }
}

/// Who holds the folder, as the holder wrote it, if such a process is there.
fn pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let pid = text.trim().parse().ok()?;
    let gone = cfg!(target_os = "linux") && !Path::new("/proc").join(text.trim()).exists();
    (!gone).then_some(pid)
}

/// Whether nobody locks this file; waits a while for it.
fn free(file: &File, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => {
                let _ = file.unlock();
                return true;
            }
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(TryLockError::WouldBlock) => return false,
            // No locks here: then nobody holds one.
            Err(TryLockError::Error(_)) => return true,
        }
    }
}

fn folder(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            "a store is a folder, this is a file",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir(path),
        Err(error) => Err(error),
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(path)?.sync_all()?;
        // A parent that cannot be read was not made by us.
        if let Some(parent) = path.canonicalize()?.parent().map(PathBuf::from)
            && let Ok(parent) = File::open(parent)
        {
            parent.sync_all()?;
        }
    }
    Ok(())
}

fn failed(action: &str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io {
        action: format!("{action} {}", path.display()),
        source: Arc::new(source),
    }
}
