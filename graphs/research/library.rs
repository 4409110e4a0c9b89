//! A folder of documents, read and indexed.
//!
//! In comes a folder, out goes a [`Library`]: its documents in the order of their ids, a search
//! index over them, and what could not be read with the reason. Work is bounded by [`Limits`].
//! Links are never followed, so nothing outside the folder is read and no loop is walked.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::canonical::path_of;
use super::document::{Document, Format};
use super::folder::{self, Entry};
use super::index::Index;

/// How much of a folder is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most files; default 20,000.
    pub files: usize,
    /// The most bytes of one file; default 8 MiB.
    pub file_bytes: u64,
    /// The most bytes of all files together; default 512 MiB.
    pub total_bytes: u64,
    /// The most folders within folders; default 32.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            files: 20_000,
            file_bytes: 8 << 20,
            total_bytes: 512 << 20,
            depth: 32,
        }
    }
}

/// A file or folder that was not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Its path below the folder, as far as it can be written.
    pub path: String,
    /// Why.
    pub reason: SkipReason,
}

/// Why a file or folder was not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum SkipReason {
    /// Its name belongs to no document format.
    #[error("not a kind of document that is read")]
    NoDocument,
    /// The file has zero bytes in it.
    #[error("binary data")]
    Binary,
    /// Too much of the file is broken as UTF-8.
    #[error("not UTF-8 ({broken} bytes are broken)")]
    NotUtf8 {
        /// How many bytes are.
        broken: usize,
    },
    /// There is no text in it.
    #[error("no text in it")]
    Empty,
    /// The file is larger than the limit.
    #[error("{bytes} bytes, and {limit} are the limit")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The folder has more files, bytes or levels than the limits allow.
    #[error("beyond the limits of a folder ({limits})")]
    BeyondLimits {
        /// The limit that was met, in words.
        limits: String,
    },
    /// It is a symbolic link.
    #[error("a symbolic link")]
    Link,
    /// It is neither a file nor a folder.
    #[error("neither a file nor a folder")]
    Special,
    /// Its name is not UTF-8.
    #[error("its name is not UTF-8")]
    Name,
    /// The system would not let it be read.
    #[error("cannot be read: {cause}")]
    Unreadable {
        /// What the system says.
        cause: String,
    },
}

/// Why a folder could not be opened at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// The folder cannot be listed.
    #[error("the documents folder {} cannot be read", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There is nothing to search.
    #[error("no document could be read in {}: {skipped} files were skipped", .path.display())]
    NoDocuments {
        /// The folder.
        path: PathBuf,
        /// How many files are there that could not be read.
        skipped: usize,
    },
}

/// A folder of documents, ready to be searched.
#[derive(Debug)]
pub struct Library {
    documents: Vec<Arc<Document>>,
    by_id: BTreeMap<String, usize>,
    skipped: Vec<Skipped>,
    index: Index,
}

impl Library {
    /// Reads and indexes a folder.
    ///
    /// # Errors
    ///
    /// When the folder cannot be listed, or when nothing in it can be read.
    pub fn open(folder: &Path, limits: &Limits) -> Result<Self, LibraryError> {
        let (entries, skipped) = folder::list(folder, limits)?;
        let read = folder::read_all(&entries, limits);
        Self::of(folder, read, skipped)
    }

    /// A library of what was read already.
    pub(super) fn of(
        folder: &Path,
        read: Vec<Result<Arc<Document>, Skipped>>,
        mut skipped: Vec<Skipped>,
    ) -> Result<Self, LibraryError> {
        let mut documents = Vec::with_capacity(read.len());
        for one in read {
            match one {
                Ok(document) => documents.push(document),
                Err(skip) => skipped.push(skip),
            }
        }
        if documents.is_empty() {
            return Err(LibraryError::NoDocuments {
                path: folder.to_owned(),
                skipped: skipped.len(),
            });
        }
        documents.sort_by(|left, right| left.id.cmp(&right.id));
        skipped.sort_by(|left, right| left.path.cmp(&right.path));
        let by_id = documents
            .iter()
            .enumerate()
            .map(|(at, d)| (d.id.clone(), at))
            .collect();
        Ok(Self {
            index: Index::of(&documents),
            by_id,
            documents,
            skipped,
        })
    }

    /// The documents, ordered by id.
    pub fn documents(&self) -> &[Arc<Document>] {
        &self.documents
    }

    /// The document with this id.
    pub fn document(&self, id: &str) -> Option<&Document> {
        self.by_id.get(id).map(|at| &*self.documents[*at])
    }

    /// Where a document stands in [`documents`](Library::documents).
    pub fn place(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    /// What was not read, ordered by path.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// The search index.
    pub fn index(&self) -> &Index {
        &self.index
    }
}

/// Reads one document of a folder from the disk, by its id.
///
/// # Errors
///
/// The reason why it cannot be read, as for the documents of a library.
pub fn read_document(folder: &Path, id: &str, limits: &Limits) -> Result<Document, SkipReason> {
    let relative = path_of(id).ok_or(SkipReason::NoDocument)?;
    let mut path = folder.to_owned();
    for part in &relative {
        path.push(part);
        let metadata = std::fs::symlink_metadata(&path).map_err(folder::unreadable)?;
        if metadata.is_symlink() {
            return Err(SkipReason::Link);
        }
    }
    let name = id.rsplit('/').next().unwrap_or_default();
    let format = Format::of_name(name).ok_or(SkipReason::NoDocument)?;
    let entry = Entry {
        id: id.to_owned(),
        path,
        format,
    };
    folder::read_one(&entry, limits)
}
