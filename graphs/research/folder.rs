//! Walks a folder and reads its files.
//!
//! In comes a folder, out go its document files in the order of their paths, and what was passed
//! over with the reason. Hidden files are no documents and are passed over without a word. It
//! never follows a link and never reads more than the limits say.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use super::canonical::id_of;
use super::document::{Document, Format};
use super::library::{LibraryError, Limits, SkipReason, Skipped};

/// A document file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) path: PathBuf,
    pub(super) format: Format,
}

/// The document files of a folder.
pub(super) fn list(
    root: &Path,
    limits: &Limits,
) -> Result<(Vec<Entry>, Vec<Skipped>), LibraryError> {
    let mut walk = Walk {
        root,
        limits,
        entries: Vec::new(),
        skipped: Vec::new(),
        bytes: 0,
    };
    let names = names(root).map_err(|source| LibraryError::Folder {
        path: root.to_owned(),
        source,
    })?;
    walk.folder(names, 1);
    Ok((walk.entries, walk.skipped))
}

struct Walk<'a> {
    root: &'a Path,
    limits: &'a Limits,
    entries: Vec<Entry>,
    skipped: Vec<Skipped>,
    bytes: u64,
}

impl Walk<'_> {
    fn folder(&mut self, paths: Vec<PathBuf>, depth: usize) {
        for path in paths {
            if let Err(reason) = self.visit(&path, depth) {
                let relative = path.strip_prefix(self.root).unwrap_or(&path);
                let path = id_of(relative).unwrap_or_else(|| relative.display().to_string());
                self.skipped.push(Skipped { path, reason });
            }
        }
    }

    fn visit(&mut self, path: &Path, depth: usize) -> Result<(), SkipReason> {
        let relative = path.strip_prefix(self.root).unwrap_or(path);
        let id = id_of(relative).ok_or(SkipReason::Name)?;
        let name = id.rsplit('/').next().unwrap_or_default();
        if name.starts_with('.') {
            return Ok(());
        }
        let metadata = fs::symlink_metadata(path).map_err(unreadable)?;
        if metadata.is_symlink() {
            return Err(SkipReason::Link);
        }
        if metadata.is_dir() {
            if depth >= self.limits.depth {
                return Err(beyond(format!("{} levels", self.limits.depth)));
            }
            self.folder(names(path).map_err(unreadable)?, depth + 1);
            return Ok(());
        }
        let format = Format::of_name(name).ok_or(SkipReason::NoDocument)?;
        if !metadata.is_file() {
            return Err(SkipReason::Special);
        }
        if metadata.len() > self.limits.file_bytes {
            return Err(too_large(metadata.len(), self.limits));
        }
        if self.entries.len() >= self.limits.files {
            return Err(beyond(format!("{} files", self.limits.files)));
        }
        if self.bytes + metadata.len() > self.limits.total_bytes {
            return Err(beyond(format!("{} bytes", self.limits.total_bytes)));
        }
        self.bytes += metadata.len();
        self.entries.push(Entry {
            id,
            path: path.to_owned(),
            format,
        });
        Ok(())
    }
}

/// The paths in a folder, sorted.
fn names(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Reads all files, on all processors; the result has their order.
pub(super) fn read_all(entries: &[Entry], limits: &Limits) -> Vec<Result<Arc<Document>, Skipped>> {
    let threads = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(8);
    let share = entries.len().div_ceil(threads).max(1);
    let read = |entry: &Entry| match read_one(entry, limits) {
        Ok(document) => Ok(Arc::new(document)),
        Err(reason) => Err(Skipped {
            path: entry.id.clone(),
            reason,
        }),
    };
    thread::scope(|scope| {
        let parts: Vec<_> = entries
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(read).collect::<Vec<_>>()))
            .collect();
        parts
            .into_iter()
            .flat_map(|part| {
                part.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    })
}

/// Reads one file.
pub(super) fn read_one(entry: &Entry, limits: &Limits) -> Result<Document, SkipReason> {
    let file = fs::File::open(&entry.path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(SkipReason::Special);
    }
    let mut bytes = Vec::new();
    // The file may have grown since it was listed.
    let most = limits.file_bytes.saturating_add(1);
    file.take(most)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > limits.file_bytes {
        return Err(too_large(metadata.len(), limits));
    }
    Document::parse(&entry.id, entry.format, &bytes)
}

/// The reason for what the system refused.
pub(super) fn unreadable(error: io::Error) -> SkipReason {
    SkipReason::Unreadable {
        cause: error.to_string(),
    }
}

fn too_large(bytes: u64, limits: &Limits) -> SkipReason {
    SkipReason::TooLarge {
        bytes,
        limit: limits.file_bytes,
    }
}

fn beyond(limits: String) -> SkipReason {
    SkipReason::BeyondLimits { limits }
}
