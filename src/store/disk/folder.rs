//! The folder of a store: one process at a time, and names that outlive a power cut.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::contract::StoreError;

/// Our own lock of the folder. An engine may have one too, but its lock does not say who holds it.
#[derive(Debug)]
pub(super) struct Holder(File);

impl Holder {
    /// Makes the folder if it is not there, and locks it.
    pub(super) fn lock(path: &Path) -> Result<Self, StoreError> {
        make(path).map_err(|source| failed("opening the store", path, source))?;
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

    pub(super) fn unlock(self) {
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
pub(super) fn free(file: &File, patience: Duration) -> bool {
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

fn make(path: &Path) -> io::Result<()> {
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

/// Syncs the names of new files: they are entries of their folder, and it is one of its parent.
pub(super) fn sync(path: &Path) -> Result<(), StoreError> {
    let sync = || {
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
    };
    sync().map_err(|source| failed("syncing the folder", path, source))
}

/// The operating system said no to something with this path.
pub(super) fn failed(action: &str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io {
        action: format!("{action} {}", path.display()),
        source: Arc::new(source),
    }
}
