//! A store that may not open any more, opened as a copy.
//!
//! In comes the folder of a store, out goes a store in another folder from which can be read what
//! is left. Files that keep it from opening are left out of the copy, one after the other. The old
//! folder is locked while it is copied, and never written to.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::contract::{CheckpointStore, StoreError};

/// What is left out of the copy, try by try, and what that means for what is read.
const TRIES: &[&[&str]] = &[
    &[],
    // A snapshot of the index that sled writes now and then, and makes anew from its log.
    &["snap."],
    // How far was acknowledged, and what comes next: without them, a log that has lost its end is taken
    // as it is.
    &["acknowledged", "pending"],
    &["snap.", "acknowledged", "pending"],
    &["snap.", "acknowledged", "pending", "conf"],
];

/// What need not be copied: a socket, and the lock of a process.
const PASSING: &[&str] = &["window", "holder"];

/// A copy of a store, open.
#[derive(Debug)]
#[non_exhaustive]
pub struct Wreck {
    /// What can be read.
    pub store: Arc<dyn CheckpointStore>,
    /// Why the store did not open as it is; none if it did.
    pub refused: Option<StoreError>,
    /// The beginnings of the names of the files that were left out for that.
    pub left_out: Vec<&'static str>,
}

impl Wreck {
    /// Copies the store in `old` to `copy`, which is made, and opens that with `open`, as often as it
    /// takes. Takes as much room again as the store has.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let (old, copy) = (folder.path().join("old"), folder.path().join("copy"));
    /// use milepost::store::{StoreEngine, Wreck};
    ///
    /// # drop(StoreEngine::Sled.open(&old).unwrap());
    /// let wreck = Wreck::open(&old, &copy, |copy| StoreEngine::Sled.open(copy)).unwrap();
    /// assert!(wreck.refused.is_none());
    /// # drop(wreck);
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Locked`] while a process has the store open; [`StoreError::Io`] if it cannot be
    /// copied; and if no copy opens, why the store itself does not.
    pub fn open(
        old: &Path,
        copy: &Path,
        open: impl Fn(&Path) -> Result<Arc<dyn CheckpointStore>, StoreError>,
    ) -> Result<Self, StoreError> {
        let lock = hold(old)?;
        let mut refused = None;
        let mut tried = Vec::new();
        for left_out in TRIES {
            let is_there = |name: &&str| {
                let starts = |found: &str| found.starts_with(*name);
                names(old).is_ok_and(|names| names.iter().any(|found| starts(found)))
            };
            // Without files that are not there, the copy is that of a try before.
            let left_out: Vec<_> = left_out.iter().copied().filter(is_there).collect();
            if tried.contains(&left_out) {
                continue;
            }
            tried.push(left_out.clone());
            let failed = |source| failed("copying the store to", copy, source);
            match fs::remove_dir_all(copy) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
            copy_folder(old, copy, &left_out).map_err(failed)?;
            match open(copy) {
                Ok(store) => {
                    drop(lock);
                    return Ok(Self {
                        store,
                        refused,
                        left_out,
                    });
                }
                Err(error @ StoreError::Corrupt { .. }) => refused = refused.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        Err(refused.unwrap_or(StoreError::Closed))
    }
}

/// Locks a store as a process does that opens it, and writes nothing.
fn hold(old: &Path) -> Result<Vec<File>, StoreError> {
    let mut locks = Vec::new();
    for name in ["holder", "db"] {
        let path = old.join(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(failed("reading", &path, source)),
        };
        match file.try_lock() {
            Ok(()) => locks.push(file),
            Err(TryLockError::WouldBlock) => {
                let holder = fs::read_to_string(old.join("holder")).ok();
                return Err(StoreError::Locked {
                    path: old.to_owned(),
                    holder: holder.and_then(|pid| pid.trim().parse().ok()),
                });
            }
            // No locks here: then nobody holds one.
            Err(TryLockError::Error(_)) => {}
        }
    }
    Ok(locks)
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}

/// Copies files and folders whose names do not begin like one of these.
fn copy_folder(from: &Path, to: &Path, left_out: &[&str]) -> io::Result<()> {
    fs::create_dir(to)?;
    for name in names(from)? {
        let passing = PASSING.contains(&name.as_str());
        if passing || left_out.iter().any(|out| name.starts_with(out)) {
            continue;
        }
        let (path, into): (PathBuf, PathBuf) = (from.join(&name), to.join(&name));
        let kind = fs::metadata(&path)?.file_type();
        if kind.is_dir() {
            copy_folder(&path, &into, &[])?;
        } else if kind.is_file() {
            io::copy(&mut File::open(&path)?, &mut File::create(&into)?)?;
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
