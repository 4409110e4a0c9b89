//! Where the socket of a window is: `window/socket` in the store's folder.
//!
//! The folder `window` is made first and is its owner's alone, so there is no moment at which others
//! could come to the socket. It is locked as long as a window is open: a socket in a folder without
//! a lock is one that a dead process left.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The most bytes of a socket's path that every system takes; Linux takes 107.
const MOST_PATH: usize = 100;

/// How long a window waits for one that is just closing.
const CLOSING: Duration = Duration::from_secs(1);

/// The folder of a window's socket.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    folder: File,
}

impl Place {
    /// Finds the folder below that of a store.
    pub(super) fn find(store: &Path) -> io::Result<Self> {
        let path = store.join("window");
        let folder = File::open(&path)?;
        if !folder.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { path, folder })
    }

    /// Makes the folder, or finds it, and sees to it that only its owner may enter.
    pub(super) fn make(store: &Path) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(store.join("window")) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let place = Self::find(store)?;
        if place.folder.metadata()?.mode() & 0o077 != 0 {
            place
                .folder
                .set_permissions(Permissions::from_mode(0o700))?;
        }
        Ok(place)
    }

    /// Whether a window is open here.
    pub(super) fn is_taken(&self) -> io::Result<bool> {
        match self.folder.try_lock() {
            Ok(()) => self.folder.unlock().map(|()| false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Takes the place for a window; false if another one is open. The lock goes with the process.
    pub(super) fn take(&self) -> io::Result<bool> {
        let deadline = Instant::now() + CLOSING;
        loop {
            match self.folder.try_lock() {
                Ok(()) => return Ok(true),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock) => return Ok(false),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// Who owns the folder.
    pub(super) fn owner(&self) -> io::Result<u32> {
        Ok(self.folder.metadata()?.uid())
    }

    /// The socket's path, short enough for the system.
    pub(super) fn socket(&self) -> io::Result<PathBuf> {
        let plain = self.path.join("socket");
        if plain.as_os_str().len() <= MOST_PATH {
            return Ok(plain);
        }
        if cfg!(target_os = "linux") {
            // The same place by the number of the open folder, however long its path is.
            let folder = format!("/proc/self/fd/{}/socket", self.folder.as_raw_fd());
            return Ok(PathBuf::from(folder));
        }
        let long = format!(
            "the path {} is longer than the {MOST_PATH} bytes that a socket may have",
            plain.display()
        );
        Err(io::Error::new(io::ErrorKind::InvalidFilename, long))
    }

    /// Removes the socket, if there is one.
    pub(super) fn clear(&self) -> io::Result<()> {
        match fs::remove_file(self.socket()?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
