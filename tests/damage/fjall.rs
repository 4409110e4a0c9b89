//! The journal of a fjall store whose first entry is broken, once older entries are in sorted files:
//! the store is refused before fjall cuts off what was acknowledged. C53 (7).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use milepost::store::{CheckpointStore, FjallOptions, FjallStore, StoreEngine, StoreError, Wreck};
use milepost::{Command, Runner, Seq, ThreadId};

use crate::places::copy;
use crate::salvage::{Book, book, options, thread};

/// Few enough that a sorted file is written every few runs.
const BUFFER: u64 = 256 << 10;

async fn run(store: &Arc<FjallStore>, thread: &ThreadId) {
    let runner = Runner::new(book()).options(options());
    let runner = runner.shared_store(Arc::clone(store) as _);
    runner
        .run(thread, Command::start(Book::update()))
        .await
        .unwrap();
}

fn open(path: &Path) -> Arc<FjallStore> {
    let mut options = FjallOptions::default();
    options.write_buffer_bytes = BUFFER;
    Arc::new(FjallStore::open_with(path, options).unwrap())
}

fn journals(store: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(store.join("fjall")).unwrap();
    let all = all.map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|kind| kind == "jnl"))
        .collect()
}

/// A store of threads `a0`, `a1` …, whose only journal has the thread `b` alone, and how it was before that.
async fn rotated(folder: &Path) -> (PathBuf, PathBuf) {
    let (live, before, after) = (
        folder.join("live"),
        folder.join("before"),
        folder.join("after"),
    );
    let tables = live.join("fjall/keyspaces/1/tables");
    let alone = |store: &Path| {
        let journals = journals(store);
        let [only] = &journals[..] else { return false };
        let begun = fs::read(only).unwrap();
        fs::read_dir(&tables).unwrap().next().is_some() && begun.iter().all(|byte| *byte == 0)
    };
    for number in 0..60 {
        let store = open(&live);
        run(&store, &thread(&format!("a{number}"))).await;
        drop(store);
        // What is left to do for a full buffer is done when the store is opened next.
        drop(open(&live));
        if alone(&live) {
            copy(&live, &before);
            let store = open(&live);
            run(&store, &thread("b")).await;
            drop(store);
            copy(&live, &after);
            return (before, after);
        }
    }
    panic!("no journal came to its end: {:?}", files(&live).keys());
}

fn harm(store: &Path, change: impl Fn(&mut Vec<u8>)) {
    let journal = &journals(store)[0];
    let mut bytes = fs::read(journal).unwrap();
    change(&mut bytes);
    fs::write(journal, bytes).unwrap();
}

#[tokio::test]
async fn a_broken_first_entry_of_a_journal_is_refused_before_it_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let (_, after) = rotated(folder.path()).await;
    let path = folder.path().join("harmed");
    type Change = fn(&mut Vec<u8>);
    let changes: [(&str, Change); 5] = [
        ("its beginning", |bytes| bytes[0] ^= 0x55),
        ("a count", |bytes| bytes[1] ^= 0x55),
        ("the kind of an item", |bytes| bytes[13] ^= 0x55),
        ("zeros", |bytes| bytes[..64].fill(0)),
        ("an end that is missing", |bytes| bytes.truncate(40)),
    ];
    for (what, change) in changes {
        copy(&after, &path);
        harm(&path, change);
        let before = files(&path);
        for _ in 0..2 {
            let told = FjallStore::open(&path).unwrap_err();
            assert!(matches!(told, StoreError::Corrupt { .. }), "{what}: {told}");
            let said = told.to_string();
            assert!(said.contains("were acknowledged"), "{what}: {said}");
            assert!(said.contains("doctor --repair"), "{what}: {said}");
            assert!(
                less_holder(files(&path)) == less_holder(before.clone()),
                "{what}"
            );
        }
        // What was in the sorted files is saved.
        let copied = folder.path().join("copy");
        let wreck = Wreck::open(&path, &copied, |copy| StoreEngine::Fjall.open(copy)).unwrap();
        assert!(wreck.refused.is_some() && wreck.left_out == ["acknowledged"]);
        let names = wreck.store.thread_names().await.unwrap();
        let names: Vec<_> = names.into_iter().flatten().collect();
        assert!(
            names.contains(&thread("a0")) && !names.contains(&thread("b")),
            "{names:?}"
        );
        drop(wreck);
        fs::remove_dir_all(&copied).unwrap();
        fs::remove_dir_all(&path).unwrap();
    }
}

/// A power cut may tear the first entry, too; nobody was told that it is written.
#[tokio::test]
async fn a_torn_first_entry_that_was_not_acknowledged_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = rotated(folder.path()).await;
    let records = |store: Arc<FjallStore>| async move {
        let (a, b) = (thread("a0"), thread("b"));
        let a = store.records(&a, Seq::new(0), usize::MAX).await.unwrap();
        assert!(store.head(&b).await.unwrap().is_none());
        a
    };
    let torn = folder.path().join("torn");
    copy(&after, &torn);
    fs::copy(before.join("acknowledged"), torn.join("acknowledged")).unwrap();
    harm(&torn, |bytes| bytes.truncate(200));
    let left = records(open(&torn)).await;
    assert!(left == records(open(&before)).await && !left.is_empty());
    // It is an ordinary store again.
    let store = open(&torn);
    run(&store, &thread("b")).await;
    drop(store);
    open(&torn);
}

fn less_holder(mut files: BTreeMap<PathBuf, Vec<u8>>) -> BTreeMap<PathBuf, Vec<u8>> {
    files.retain(|path, _| !path.ends_with("holder"));
    files
}

/// Every file below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => all.append(&mut files(&entry.path())),
            false => drop(all.insert(entry.path(), fs::read(entry.path()).unwrap())),
        }
    }
    all
}
