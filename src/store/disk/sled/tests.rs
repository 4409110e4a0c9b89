//! Batches that are larger than sled takes in one piece.

use std::fs;
use std::path::Path;

use super::super::marker::KEY;
use super::pending::FILE;
use super::*;

/// A batch with this number, of so many KiB, and what it removes.
fn batch(number: u64, kib: usize, removes: &[u64]) -> Batch {
    let mut batch = Batch::default();
    for row in 0..kib as u64 {
        batch.insert(key(number, row), vec![row as u8; 1024]);
    }
    for gone in removes {
        batch.remove(key(*gone, 0));
    }
    batch.insert(KEY.to_vec(), marker::bytes(number));
    batch
}

fn key(number: u64, row: u64) -> Vec<u8> {
    [[9; 8], number.to_be_bytes(), row.to_be_bytes()].concat()
}

fn opened(path: &Path) -> Result<Opened, StoreError> {
    open(path, &SledOptions::default())
}

/// Writes batches of a small size and closes the folder. Returns what the file was while the last,
/// which has this size, was written.
fn written(path: &Path, last: u64, kib: usize) -> Vec<u8> {
    let mut store = opened(path).unwrap();
    for number in 1..=last {
        let kib = if number == last { kib } else { 1 };
        store.disk.write(batch(number, kib, &[])).unwrap();
        store.disk.flush().unwrap();
        store.disk.sync().unwrap();
        if number < last {
            store.disk.note(number);
        }
    }
    let file = fs::read(path.join(FILE)).unwrap_or_default();
    store.disk.note(last);
    close(store);
    file
}

fn close(store: Opened) {
    drop((store.tree, store.disk));
    (store.close)();
}

/// The number of the last batch, and whether this many rows of it are there.
fn found(path: &Path, number: u64, rows: u64) -> (u64, bool) {
    let store = opened(path).unwrap();
    let all = (0..rows).all(|row| store.tree.get(&key(number, row)).unwrap().is_some());
    let found = (store.batch, all);
    close(store);
    found
}

#[test]
fn a_large_batch_goes_to_sled_in_pieces_and_is_written_down_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), 3, 300);
    assert!(file.len() > 300 << 10);
    assert_eq!(fs::read(folder.path().join(FILE)).unwrap(), b"");
    assert_eq!(found(folder.path(), 3, 300), (3, true));
    // A small one is not.
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(written(folder.path(), 3, 20), b"");
    assert!(!folder.path().join(FILE).exists());
}

#[test]
fn pieces_are_small_keep_their_order_and_leave_nothing_out() {
    let whole = batch(7, 200, &[1, 2, 3]);
    let pieces = pending::pieces(whole.clone());
    assert!(pieces.len() > 5);
    assert!(pieces.iter().all(pending::is_small));
    let all: Vec<_> = pieces.into_iter().flat_map(|piece| piece.0).collect();
    assert_eq!(all, whole.0);
    // A row is never cut, however long it is.
    let mut long = Batch::default();
    long.insert(vec![1], vec![0; 3 * WINDOW]);
    long.insert(vec![2], vec![0; 1]);
    assert_eq!(pending::pieces(long).len(), 2);
}

/// Wherever a crash came between the pieces.
#[test]
fn a_large_batch_that_was_written_down_is_finished_by_who_opens_the_store() {
    for pieces in [0, 1, 4] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let file = {
            let other = tempfile::tempdir().unwrap();
            written(other.path(), 3, 300)
        };
        written(path, 2, 1);
        let mut store = opened(path).unwrap();
        for piece in pending::pieces(batch(3, 300, &[])).into_iter().take(pieces) {
            store.disk.write(piece).unwrap();
            store.disk.flush().unwrap();
        }
        close(store);
        fs::write(path.join(FILE), &file).unwrap();
        assert_eq!(found(path, 3, 300), (3, true), "after {pieces} pieces");
        // And once is enough.
        assert_eq!(found(path, 3, 300), (3, true));
    }
}

#[test]
fn a_batch_that_was_not_written_down_to_its_end_was_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let file = written(path, 3, 300);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    written(path, 2, 1);
    for broken in [&file[..0], &file[..10], &file[..file.len() / 2]] {
        fs::write(path.join(FILE), broken).unwrap();
        assert_eq!(found(path, 3, 300), (2, false));
    }
    let mut bent = file;
    *bent.last_mut().unwrap() ^= 1;
    fs::write(path.join(FILE), bent).unwrap();
    assert_eq!(found(path, 3, 300), (2, false));
}

/// An old one that a power cut has brought back changes nothing; a newer one says that others are lost.
#[test]
fn a_batch_that_does_not_follow_is_old_or_tells_of_a_loss() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), 3, 300);
    let path = folder.path();
    let mut store = opened(path).unwrap();
    let mut later = batch(4, 1, &[3]);
    later.remove(key(3, 1));
    store.disk.write(later).unwrap();
    store.disk.flush().unwrap();
    close(store);
    fs::write(path.join(FILE), &file).unwrap();
    assert_eq!(found(path, 3, 300), (4, false));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    written(path, 1, 1);
    fs::write(path.join(FILE), &file).unwrap();
    let refused = opened(path).err().unwrap();
    let told = refused.to_string();
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{told}");
    assert!(told.contains("ends with write 1, but 2"), "{told}");
    // Nothing was changed by the try.
    fs::remove_file(path.join(FILE)).unwrap();
    assert_eq!(found(path, 1, 1), (1, true));
}
