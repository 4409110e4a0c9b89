//! The folder of a fjall store: what is refused before fjall would remove it, and what is half made.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use milepost::store::{CheckpointStore, FjallStore, StoreError};

use super::store_damage::copy;
use super::store_logs::{History, thread};

const JOURNAL: &str = "fjall/0.jnl";

/// A closed store with one thread of eight writes, as a kill would leave it.
async fn written(folder: &Path) -> (PathBuf, History) {
    let (live, killed) = (folder.join("live"), folder.join("killed"));
    let store = FjallStore::open(&live).unwrap();
    let mut history = History::new(&thread("a"));
    history.grow(&store, 8, 900).await;
    copy(&live, &killed);
    (killed, history)
}

/// The bytes of all files, less those that name the holder.
fn bytes(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in path.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.append(&mut bytes(&path));
        } else if !path.ends_with("holder") {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn refused_untouched(path: &Path, what: &str) -> String {
    let before = bytes(path);
    let told = FjallStore::open(path).unwrap_err();
    assert!(matches!(told, StoreError::Corrupt { .. }), "{what}: {told}");
    assert!(bytes(path) == before, "{what}: its files were changed");
    told.to_string()
}

#[tokio::test]
async fn a_folder_that_lacks_a_file_is_refused_before_the_rest_of_it_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (killed, history) = written(folder.path()).await;
    for file in [
        "version",
        "lock",
        "keyspaces/0/current",
        "keyspaces/1/current",
    ] {
        let path = folder.path().join("damaged");
        copy(&killed, &path);
        fs::remove_file(path.join("fjall").join(file)).unwrap();
        let said = refused_untouched(&path, file);
        assert!(said.contains(&format!("fjall/{file}")), "{said}");
        fs::remove_dir_all(&path).unwrap();
    }
    fs::remove_dir_all(killed.join("fjall")).unwrap();
    let said = refused_untouched(&killed, "no data");
    assert!(said.contains("8 writes were acknowledged"), "{said}");
    drop(history);
}

#[tokio::test]
async fn a_journal_with_a_broken_entry_in_its_middle_is_refused_before_it_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let (killed, _) = written(folder.path()).await;
    let whole = fs::read(killed.join(JOURNAL)).unwrap();
    for place in (0..whole.len()).step_by(97) {
        let path = folder.path().join("damaged");
        copy(&killed, &path);
        let mut journal = whole.clone();
        journal[place] ^= 0x55;
        fs::write(path.join(JOURNAL), &journal).unwrap();
        refused_untouched(&path, &format!("byte {place}"));
        fs::remove_dir_all(&path).unwrap();
    }
}

#[tokio::test]
async fn the_end_of_a_journal_that_was_not_acknowledged_may_be_torn() {
    let folder = tempfile::tempdir().unwrap();
    let (killed, history) = written(folder.path()).await;
    let whole = fs::read(killed.join(JOURNAL)).unwrap();
    // As after a power cut, which takes this file with the end of the journal.
    fs::remove_file(killed.join("acknowledged")).unwrap();
    let mut seen = Vec::new();
    for len in (0..whole.len()).rev().step_by(613) {
        let path = folder.path().join("torn");
        copy(&killed, &path);
        fs::write(path.join(JOURNAL), &whole[..len]).unwrap();
        let store = FjallStore::open(&path).unwrap();
        seen.push(history.check_prefix(&store).await.unwrap());
        drop(store);
        fs::remove_dir_all(&path).unwrap();
    }
    assert!(seen.is_sorted_by(|a, b| a >= b), "{seen:?}");
    assert_eq!((seen[0], seen.last()), (9, Some(&0)), "{seen:?}");
}

#[tokio::test]
async fn a_store_that_was_killed_while_it_was_made_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (killed, history) = written(folder.path()).await;
    let path = folder.path().join("half");
    fs::create_dir(&path).unwrap();
    copy(&killed.join("fjall"), &path.join("fjall.new"));
    fs::remove_file(path.join("fjall.new/version")).unwrap();
    let store = FjallStore::open(&path).unwrap();
    assert!(store.threads(None, 9).await.unwrap().is_empty());
    drop(store);
    assert!(!path.join("fjall.new").exists());
    FjallStore::open(&path).unwrap();
    drop(history);
}
