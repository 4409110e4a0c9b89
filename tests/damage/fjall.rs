//! The journal of a fjall store whose first entry is broken, once older entries are in sorted files:
//! the store is refused before fjall cuts off what was acknowledged. C53 (7).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use milepost::store::{CheckpointStore, FjallStore, StoreEngine, StoreError, Wreck};
use milepost::{Command, Runner, Seq};

use crate::places::copy;
use crate::salvage::{Book, book, options, thread};

/// The younger journal.
const JOURNAL: &str = "fjall/1.jnl";

/// Runs once on a thread, and closes the store.
async fn run(store: FjallStore, name: &str) {
    let runner = Runner::new(book()).options(options()).store(store);
    let start = Command::start(Book::update());
    runner.run(&thread(name), start).await.unwrap();
}

/// A store of threads `a` and `b`, of which the first is in sorted files and the second in the journal;
/// and how it was without the second. fjall begins a new journal after 64 MB: here it is begun by hand.
async fn rotated(folder: &Path) -> (PathBuf, PathBuf) {
    let [live, before, after] = ["live", "before", "after"].map(|name| folder.join(name));
    let store = FjallStore::open(&live).unwrap();
    run(store, "a").await;
    let database = fjall::Database::builder(live.join("fjall")).open().unwrap();
    let rows = database.keyspace("rows", Default::default).unwrap();
    rows.rotate_memtable_and_wait().unwrap();
    drop((rows, database));
    fs::remove_file(live.join("fjall/0.jnl")).unwrap();
    fs::write(live.join(JOURNAL), "").unwrap();
    copy(&live, &before);
    run(FjallStore::open(&live).unwrap(), "b").await;
    // Less the room that fjall makes ahead.
    let mut journal = fs::read(live.join(JOURNAL)).unwrap();
    let end = journal.iter().rposition(|byte| *byte != 0).unwrap();
    journal.truncate(end + 1);
    fs::write(live.join(JOURNAL), journal).unwrap();
    copy(&live, &after);
    (before, after)
}

fn harm(store: &Path, change: impl Fn(&mut Vec<u8>)) {
    let journal = store.join(JOURNAL);
    let mut bytes = fs::read(&journal).unwrap();
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
    let mut saved = 0;
    for (what, change) in changes {
        copy(&after, &path);
        harm(&path, change);
        let before = files(&path);
        for _ in 0..2 {
            let told = FjallStore::open(&path).unwrap_err();
            assert!(matches!(told, StoreError::Corrupt { .. }), "{what}: {told}");
            let said = told.to_string();
            assert!(said.contains("were acknowledged"), "{what}: {said}");
            assert!(said.contains("Copy the store's folder"), "{what}: {said}");
            assert!(
                less_holder(files(&path)) == less_holder(before.clone()),
                "{what}"
            );
        }
        // What was in the sorted files is saved, unless fjall itself refuses the journal.
        let copied = folder.path().join("copy");
        match Wreck::open(&path, &copied, |copy| StoreEngine::Fjall.open(copy)) {
            Ok(wreck) => {
                assert!(wreck.refused.is_some() && wreck.left_out == ["acknowledged"]);
                let names = wreck.store.thread_names().await.unwrap();
                let names: Vec<_> = names.into_iter().flatten().collect();
                assert_eq!(names, [thread("a")], "{what}");
                saved += 1;
            }
            Err(error) => assert!(
                matches!(error, StoreError::Corrupt { .. }),
                "{what}: {error}"
            ),
        }
        fs::remove_dir_all(&copied).unwrap();
        fs::remove_dir_all(&path).unwrap();
    }
    assert!(saved > 0, "a copy opens");
}

/// A power cut may tear the first entry, too; nobody was told that it is written.
#[tokio::test]
async fn a_torn_first_entry_that_was_not_acknowledged_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = rotated(folder.path()).await;
    let torn = folder.path().join("torn");
    copy(&after, &torn);
    fs::copy(before.join("acknowledged"), torn.join("acknowledged")).unwrap();
    harm(&torn, |bytes| bytes.truncate(200));
    let mut all = Vec::new();
    for path in [&torn, &before] {
        let store = FjallStore::open(path).unwrap();
        assert!(store.head(&thread("b")).await.unwrap().is_none());
        let a = thread("a");
        let records = store.records(&a, Seq::new(0), usize::MAX).await;
        all.push(records.unwrap());
    }
    assert!(all[0] == all[1] && !all[0].is_empty());
    // It is an ordinary store again.
    run(FjallStore::open(&torn).unwrap(), "b").await;
    let store = FjallStore::open(&torn).unwrap();
    assert!(store.head(&thread("b")).await.unwrap().is_some());
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
