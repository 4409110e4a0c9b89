//! Keeps libraries between the nodes of a run.
//!
//! In comes a folder, out goes its [`Library`] as the folder is now: files that changed are read
//! again, the others are not. A node never holds a library longer than its own work takes, so a
//! changed folder is seen by the next node.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::document::Document;
use super::folder::{self, Entry};
use super::library::{Library, LibraryError, Limits, Skipped};

/// A file that changed so shortly before it was read may change again without a new time stamp.
const UNSETTLED: Duration = Duration::from_secs(2);

/// Libraries by folder, each as fresh as its folder.
#[derive(Debug, Default)]
pub struct Shelf {
    limits: Limits,
    kept: Mutex<BTreeMap<PathBuf, Arc<Kept>>>,
}

#[derive(Debug)]
struct Kept {
    library: Arc<Library>,
    files: BTreeMap<String, File>,
    passed_over: Vec<Skipped>,
}

#[derive(Clone, Debug)]
struct File {
    stamp: Option<Stamp>,
    read: Result<Arc<Document>, Skipped>,
}

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: SystemTime,
    changed: (i64, i64),
    inode: u64,
}

impl Shelf {
    /// An empty shelf with these limits.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            kept: Mutex::default(),
        }
    }

    /// The limits by which folders are read.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The library of a folder as the folder is now.
    ///
    /// # Errors
    ///
    /// As for [`Library::open`].
    pub fn open(&self, folder: &Path) -> Result<Arc<Library>, LibraryError> {
        let now = SystemTime::now();
        let (entries, passed_over) = folder::list(folder, &self.limits)?;
        let before = self.lock().get(folder).cloned();
        let stamps: Vec<_> = entries
            .iter()
            .map(|entry| stamp(&entry.path, now))
            .collect();
        let known = |entry: &Entry, stamp: &Option<Stamp>| {
            let file = before.as_ref()?.files.get(&entry.id)?;
            (stamp.is_some() && file.stamp == *stamp).then(|| file.clone())
        };
        let found: Vec<_> = entries
            .iter()
            .zip(&stamps)
            .map(|(e, s)| known(e, s))
            .collect();
        if let Some(before) = &before
            && found.iter().all(Option::is_some)
            && before.files.len() == entries.len()
            && before.passed_over == passed_over
        {
            return Ok(Arc::clone(&before.library));
        }
        let changed: Vec<_> = entries
            .iter()
            .zip(&found)
            .filter(|(_, found)| found.is_none())
            .map(|(entry, _)| entry.clone())
            .collect();
        let mut read = folder::read_all(&changed, &self.limits).into_iter();
        let mut files = BTreeMap::new();
        for ((entry, stamp), found) in entries.iter().zip(stamps).zip(found) {
            let file = found.or_else(|| read.next().map(|read| File { stamp, read }));
            files.extend(file.map(|file| (entry.id.clone(), file)));
        }
        let all = files.values().map(|file| file.read.clone()).collect();
        let library = Arc::new(Library::of(folder, all, passed_over.clone())?);
        let kept = Kept {
            library: Arc::clone(&library),
            files,
            passed_over,
        };
        self.lock().insert(folder.to_owned(), Arc::new(kept));
        Ok(library)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, Arc<Kept>>> {
        // Entries are replaced whole, so a panic elsewhere leaves the map as it was.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stamp of a file; `None` when it says too little to trust it.
fn stamp(path: &Path, now: SystemTime) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok()?;
    let modified = metadata.modified().ok()?;
    if modified + UNSETTLED > now {
        return None;
    }
    #[cfg(unix)]
    let (changed, inode) = {
        use std::os::unix::fs::MetadataExt;
        ((metadata.ctime(), metadata.ctime_nsec()), metadata.ino())
    };
    #[cfg(not(unix))]
    let (changed, inode) = ((0, 0), 0);
    Some(Stamp {
        bytes: metadata.len(),
        modified,
        changed,
        inode,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn age(path: &Path) {
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(60))
            .unwrap();
    }

    #[test]
    fn an_unchanged_folder_is_read_once_and_a_changed_one_again() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a.txt"), folder.path().join("b.txt"));
        fs::write(&a, "alpha").unwrap();
        fs::write(&b, "beta").unwrap();
        age(&a);
        age(&b);
        let shelf = Shelf::default();
        let first = shelf.open(folder.path()).unwrap();
        assert!(Arc::ptr_eq(&first, &shelf.open(folder.path()).unwrap()));

        // As many bytes, and so fresh that its time says nothing.
        fs::write(&b, "zeta").unwrap();
        let second = shelf.open(folder.path()).unwrap();
        assert_eq!(second.document("b.txt").unwrap().passages[0].text, "zeta");
        assert!(Arc::ptr_eq(&first.documents()[0], &second.documents()[0]));
        fs::write(&b, "eta!").unwrap();
        let third = shelf.open(folder.path()).unwrap();
        assert_eq!(third.document("b.txt").unwrap().passages[0].text, "eta!");

        fs::remove_file(&b).unwrap();
        let fourth = shelf.open(folder.path()).unwrap();
        assert!(fourth.document("b.txt").is_none());
        assert_eq!(fourth.documents().len(), 1);
    }
}
