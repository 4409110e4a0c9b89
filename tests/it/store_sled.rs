//! The folder of a sled store: what is found when bytes were altered by hand, and how it grows.

use std::path::Path;

use milepost::store::{CheckpointStore, SledStore, StoreError, ThreadKey};
use milepost::{Seq, ThreadId};

use super::store_logs::{History, thread};

#[test]
fn a_pid_that_a_killed_holder_left_is_not_reported() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("holder"), "4194999\n").unwrap();
    let store = SledStore::open(folder.path()).unwrap();
    let told = SledStore::open(folder.path()).unwrap_err();
    assert!(
        matches!(told, StoreError::Locked { holder: Some(pid), .. } if pid == std::process::id())
    );
    drop(store);
    // Another program that uses sled itself is a holder without a name.
    std::fs::write(folder.path().join("holder"), "4194999\n").unwrap();
    let foreign = sled::open(folder.path()).unwrap();
    let told = SledStore::open(folder.path()).unwrap_err();
    assert!(
        matches!(told, StoreError::Locked { holder: None, .. }),
        "{told:?}"
    );
    drop(foreign);
}

#[tokio::test]
async fn threads_and_claims_of_a_closed_call_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(folder.path()).unwrap();
    let mut history = History::new(&thread("gone"));
    history.grow(&store, 20, 9_000).await;
    store.prune(&thread("gone")).await.unwrap();
    store.delete_thread(&thread("gone")).await.unwrap();
    drop(store);
    let db = sled::open(folder.path()).unwrap();
    // Only the number of the last batch, which belongs to no thread.
    let keys: Vec<_> = db.iter().keys().map(|key| key.unwrap().to_vec()).collect();
    assert_eq!(keys, [vec![0]]);
}

/// The key of a row, by the words of `docs/format.md`.
fn row_key(thread: &ThreadId, class: u8, rest: &[u8], row: u16) -> Vec<u8> {
    let mut key = ThreadKey::of(thread).as_bytes().to_vec();
    key.push(class);
    key.extend_from_slice(rest);
    key.extend_from_slice(&row.to_be_bytes());
    key
}

fn record_key(thread: &ThreadId, seq: u64, row: u16) -> Vec<u8> {
    row_key(thread, 3, &seq.to_be_bytes(), row)
}

/// Writes three threads, lets `alter` at the closed folder, and expects that thread `a` says so
/// while the others are as they were.
async fn altered(what: &str, seq: Option<u64>, alter: impl FnOnce(&sled::Db)) {
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(folder.path()).unwrap();
    let mut histories: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|name| History::new(&thread(name)))
        .collect();
    for history in &mut histories {
        history.grow(&store, 8, 9_000).await;
    }
    drop(store);
    let db = sled::open(folder.path()).unwrap();
    alter(&db);
    db.flush().unwrap();
    drop(db);
    let store = SledStore::open(folder.path()).unwrap();
    let a = thread("a");
    let told = store.records(&a, Seq::new(0), usize::MAX).await;
    let Err(error @ StoreError::Corrupt { .. }) = &told else {
        panic!("{what}: {told:?}");
    };
    let said = error.to_string();
    assert!(said.contains("thread a"), "{what}: {said}");
    if let Some(seq) = seq {
        assert!(said.contains(&format!("record {seq} of")), "{what}: {said}");
        // What comes before is still there to read.
        let sound = store.records(&a, Seq::new(0), seq as usize - 1).await;
        assert_eq!(
            sound.unwrap(),
            histories[0].log[..seq as usize - 1],
            "{what}"
        );
    }
    for history in &mut histories[1..] {
        history.check(&store).await;
        history.grow(&store, 1, 100).await;
        history.check(&store).await;
    }
    // The way out that the error names.
    store.delete_thread(&a).await.unwrap();
    assert!(store.head(&a).await.unwrap().is_none(), "{what}");
    History::new(&a).grow(&store, 2, 10).await;
}

fn flip(db: &sled::Db, key: &[u8], place: usize) {
    let mut row = db.get(key).unwrap().unwrap().to_vec();
    let place = place.min(row.len() - 1);
    row[place] ^= 4;
    db.insert(key, row).unwrap();
}

#[tokio::test]
async fn an_altered_record_is_corrupt_and_named() {
    let a = thread("a");
    for place in [0, 4, 6, 9, 28, 30, 33, 50, 4_000] {
        altered(&format!("byte {place}"), Some(5), |db| {
            flip(db, &record_key(&a, 5, 0), place);
        })
        .await;
    }
    altered("second row", Some(5), |db| {
        flip(db, &record_key(&a, 5, 1), 7)
    })
    .await;
}

#[tokio::test]
async fn a_missing_or_moved_row_is_corrupt_and_named() {
    let (a, b) = (thread("a"), thread("b"));
    altered("a missing second row", Some(5), |db| {
        db.remove(record_key(&a, 5, 1)).unwrap();
    })
    .await;
    altered("a missing first row", Some(5), |db| {
        db.remove(record_key(&a, 5, 0)).unwrap();
    })
    .await;
    altered("a missing last record", Some(10), |db| {
        for row in 0..3 {
            db.remove(record_key(&a, 10, row)).unwrap();
        }
    })
    .await;
    altered("a shorter row", Some(5), |db| {
        let key = record_key(&a, 5, 1);
        let row = db.get(&key).unwrap().unwrap();
        db.insert(key, &row[..100]).unwrap();
    })
    .await;
    altered("an empty row", Some(5), |db| {
        db.insert(record_key(&a, 5, 0), &[]).unwrap();
    })
    .await;
    altered("rows of two records swapped", Some(5), |db| {
        let (five, six) = (record_key(&a, 5, 1), record_key(&a, 6, 1));
        let row = db.get(&five).unwrap().unwrap();
        db.insert(five, db.get(&six).unwrap().unwrap()).unwrap();
        db.insert(six, row).unwrap();
    })
    .await;
    altered("another thread's record", Some(5), |db| {
        for row in 0..3 {
            let theirs = db.get(record_key(&b, 5, row)).unwrap().unwrap();
            db.insert(record_key(&a, 5, row), theirs).unwrap();
        }
    })
    .await;
    altered("another place's record", Some(5), |db| {
        for row in 0..3 {
            let later = db.get(record_key(&a, 6, row)).unwrap().unwrap();
            db.insert(record_key(&a, 5, row), later).unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn an_altered_head_or_name_is_corrupt_and_never_an_empty_thread() {
    let (a, b) = (thread("a"), thread("b"));
    for (what, class) in [("name", 0), ("head", 1)] {
        altered(&format!("{what} flipped"), None, |db| {
            flip(db, &row_key(&a, class, &[], 0), 60);
        })
        .await;
        altered(&format!("{what} missing"), None, |db| {
            db.remove(row_key(&a, class, &[], 0)).unwrap();
        })
        .await;
        altered(&format!("{what} of another thread"), None, |db| {
            let theirs = db.get(row_key(&b, class, &[], 0)).unwrap().unwrap();
            db.insert(row_key(&a, class, &[], 0), theirs).unwrap();
        })
        .await;
    }
    altered("head and name missing", None, |db| {
        db.remove(row_key(&a, 0, &[], 0)).unwrap();
        db.remove(row_key(&a, 1, &[], 0)).unwrap();
    })
    .await;
    altered("a record behind the end", None, |db| {
        let row = db.get(record_key(&a, 10, 0)).unwrap().unwrap();
        db.insert(record_key(&a, 11, 0), row).unwrap();
    })
    .await;
}

/// The bytes of all rows, and the size of the folder.
fn weigh(path: &Path) -> (u64, u64) {
    let db = sled::open(path).unwrap();
    let rows = db
        .iter()
        .map(|row| row.unwrap())
        .map(|(key, value)| (key.len() + value.len()) as u64)
        .sum();
    assert!(db.iter().all(|row| row.unwrap().1.len() <= 4096));
    (rows, db.size_on_disk().unwrap())
}

#[tokio::test]
async fn history_grows_with_the_work_and_not_with_its_square() {
    let folder = tempfile::tempdir().unwrap();
    let mut history = History::new(&thread("long"));
    let mut weights = Vec::new();
    for _ in 0..2 {
        let store = SledStore::open(folder.path()).unwrap();
        history.grow(&store, 200, 1_024).await;
        history.check(&store).await;
        drop(store);
        weights.push(weigh(folder.path()));
    }
    let [(rows_200, _), (rows_400, disk_400)] = weights[..] else {
        unreachable!("two rounds");
    };
    assert!(rows_400 * 10 <= rows_200 * 23, "{weights:?}");
    // Some hundred bytes a record beside its own.
    assert!(rows_400 <= 400 * (1_024 + 600), "{weights:?}");
    assert!(disk_400 <= 16 << 20, "{weights:?}");
}

#[tokio::test]
async fn a_batch_larger_than_a_segment_of_sled_is_whole_after_a_reopen() {
    let folder = tempfile::tempdir().unwrap();
    let mut history = History::new(&thread("large"));
    let store = SledStore::open(folder.path()).unwrap();
    history.grow(&store, 2, 1 << 20).await;
    drop(store);
    let store = SledStore::open(folder.path()).unwrap();
    history.check(&store).await;
    store
        .copy_thread(&thread("large"), &thread("copy"))
        .await
        .unwrap();
    let copied = store
        .records(&thread("copy"), Seq::new(0), 9)
        .await
        .unwrap();
    assert_eq!(copied, history.log);
    let blobs = std::fs::read_dir(folder.path().join("blobs")).unwrap();
    assert_eq!(blobs.count(), 0, "sled never syncs those files");
}
