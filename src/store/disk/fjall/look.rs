//! What fjall's sorted files have without the journal, looked up in a copy.
//!
//! In comes a folder that fjall has not opened, out goes the number of the last batch that the sorted
//! files have. fjall cuts its journal when it opens, and there is no other way to read these files, so a
//! copy is opened that has no journal. Sorted files are never changed once they are written: the copy
//! shares them, and needs next to no room. The store itself is not written to.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

use super::super::super::contract::StoreError;
use super::super::engine::Place;
use super::super::folder::{self, failed};
use super::super::marker;
use super::super::opening::LET_GO;
use super::{FjallOptions, Rows};

/// Where the copy is, in the folder of a store.
const COPY: &str = "fjall.look";

/// Where the files are that are shared.
const TABLES: &str = "tables";

/// The number of the last batch in the sorted files; 0 if there is none.
pub(super) fn last_sorted(
    place: &Place,
    data: &Path,
    options: &FjallOptions,
) -> Result<u64, StoreError> {
    let copy = place.path.join(COPY);
    let unmade = |source| failed("copying the store to", &copy, source);
    // One that a kill has left.
    remove(&copy).map_err(unmade)?;
    let found = share(data, &copy).map_err(unmade).and_then(|()| {
        place.guarded(|| {
            let rows = Rows::open(place, &copy, options)?;
            marker::check_tree(place, &rows, None)
        })
    });
    if let Ok(lock) = File::open(copy.join("lock")) {
        folder::free(&lock, LET_GO);
    }
    remove(&copy).map_err(unmade)?;
    found
}

fn remove(copy: &Path) -> io::Result<()> {
    match fs::remove_dir_all(copy) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Copies a folder without its journals; of sorted files the copy has another name only.
fn share(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    let is_sorted = from.file_name().is_some_and(|name| name == TABLES);
    for entry in from.read_dir()? {
        let entry = entry?;
        let (path, into) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            share(&path, &into)?;
            continue;
        }
        let is_journal = path.extension().is_some_and(|kind| kind == "jnl");
        let is_shared = is_sorted && fs::hard_link(&path, &into).is_ok();
        if !is_journal && !is_shared {
            fs::copy(&path, &into)?;
        }
    }
    Ok(())
}
