//! Long values: kept once, for as long as anybody has them, and never taken for another's.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::blobs::Long;
use super::engine::Batch;
use super::keys::Class;
use super::vault::Vault;
use super::*;
use crate::ids::Branch;
use crate::store::check;
use crate::store::conformance::{one_of_each, sample_head};
use crate::store::record::Record;
use crate::store::remains::Owner;
use crate::store::retention::Retention;
use crate::store::split::{Blob, BlobId};

/// What counts as long in these tests.
const OVER: usize = 1024;

fn open(path: &Path, over: usize) -> SledStore {
    let options = SledOptions {
        blob_bytes: over,
        ..SledOptions::default()
    };
    SledStore::open_with(path, options).unwrap()
}

fn thread(name: &str) -> ThreadId {
    ThreadId::new(name).unwrap()
}

fn value(of: u8, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at / 251) as u8 ^ at as u8 ^ of)
        .collect()
}

fn id_of(bytes: &[u8]) -> BlobId {
    *blake3::hash(bytes).as_bytes()
}

/// An answer that holds a value: the shortest record that can.
fn answer(value: Vec<u8>) -> Record {
    let mut record = one_of_each().swap_remove(9);
    let Record::Answer(answer) = &mut record else {
        panic!("the tenth sample is an answer");
    };
    answer.value = value;
    record
}

/// Adds records to a thread; a new one gets a schema and an input first.
async fn add(store: &SledStore, thread: &ThreadId, mut records: Vec<Record>) {
    let claim = store.claim(thread, Take::IfFree).await.unwrap();
    let mut head = claim.head.clone().unwrap_or_else(|| Head {
        seq: Seq::new(2),
        base: Seq::new(0),
        ..sample_head()
    });
    if claim.head.is_none() {
        let mut first = one_of_each();
        first.truncate(2);
        first.append(&mut records);
        records = first;
    }
    for (record, seq) in records.iter().zip(claim.next.get()..) {
        match record {
            Record::Commit(_) => head.seq = Seq::new(seq),
            Record::Base(_) => head.base = Seq::new(seq),
            _ => {}
        }
    }
    let write = Write {
        fulfils: None,
        thread: thread.clone(),
        epoch: claim.epoch,
        branch: Branch::new(0),
        expected: claim.head.map(|head| head.seq).unwrap_or_default(),
        first: claim.next,
        records,
        segments: Vec::new(),
        head,
        run: None,
    };
    store.append(write).await.unwrap();
    store.release(thread, claim.epoch);
}

async fn records(store: &SledStore, thread: &ThreadId) -> Result<Vec<Stored>, StoreError> {
    store.records(thread, Seq::new(0), usize::MAX).await
}

/// The rows of the tree: all bytes, and the long values that are there.
fn tree(store: &SledStore) -> (usize, BTreeSet<BlobId>) {
    let view = store.inner.open().unwrap().shared.view();
    let (mut bytes, mut ids) = (0, BTreeSet::new());
    for key in view.tree.beginning(&[]) {
        let key = key.unwrap();
        bytes += key.len() + view.tree.get(&key).unwrap().unwrap().len();
        if let Some((_, Class::Blob(id), _)) = Slot::parse(&key) {
            ids.insert(id);
        }
    }
    (bytes, ids)
}

/// Changes rows behind the store's back.
fn tamper(path: &Path, change: impl FnOnce(&mut Batch)) {
    let mut opened = super::sled::open(path, &SledOptions::default()).unwrap();
    let mut batch = Batch::default();
    change(&mut batch);
    opened.disk.write(batch).unwrap();
    opened.disk.flush().unwrap();
    opened.disk.sync().unwrap();
    drop((opened.disk, opened.tree));
    (opened.close)();
}

/// C55: however often and by whomever a long value is written, it is stored once.
#[tokio::test]
async fn a_long_value_is_stored_once_for_all_records_and_threads_that_have_it() {
    const LONG: usize = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(folder.path()).unwrap();
    let (a, b, copy, new) = (thread("a"), thread("b"), thread("copy"), thread("new"));
    let long = || answer(value(1, LONG));
    add(&store, &a, vec![long(), answer(value(2, 64 << 10)), long()]).await;
    let (bytes, ids) = tree(&store);
    assert_eq!(
        ids,
        BTreeSet::from([id_of(&value(1, LONG))]),
        "64 KiB are not long"
    );
    assert!(bytes < LONG + (90 << 10), "{bytes} bytes");
    add(&store, &a, vec![long()]).await;
    add(&store, &b, vec![long()]).await;
    store.copy_thread(&a, &copy).await.unwrap();
    let more = tree(&store).0 - bytes;
    assert!(
        more < 100 << 10,
        "{more} bytes more for a record and two threads"
    );
    let before = records(&store, &a).await.unwrap();
    assert_eq!(*before[2].record, long());
    assert_eq!(records(&store, &copy).await.unwrap(), before);
    drop(store);
    let store = SledStore::open(folder.path()).unwrap();
    assert_eq!(records(&store, &a).await.unwrap(), before);
    // It goes with the last that has it.
    for gone in [&a, &b] {
        store.delete_thread(gone).await.unwrap();
    }
    assert_eq!(records(&store, &copy).await.unwrap(), before);
    store.delete_thread(&copy).await.unwrap();
    assert_eq!(tree(&store).1, BTreeSet::new());
    assert!(tree(&store).0 < 100, "something is left");
    add(&store, &new, vec![long()]).await;
    assert_eq!(*records(&store, &new).await.unwrap()[2].record, long());
    assert_eq!(store.thread_names().await.unwrap().len(), 1);
    assert_eq!(store.threads(None, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_value_that_is_damaged_is_damage_of_the_threads_that_have_it() {
    let shared = value(1, 9000);
    for missing in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), OVER);
        for (name, values) in [("a", [1, 2]), ("b", [1, 3]), ("c", [4, 5])] {
            let values = values.map(|of| answer(value(of, 9000)));
            add(&store, &thread(name), values.to_vec()).await;
        }
        let sound = records(&store, &thread("a")).await.unwrap();
        drop(store);
        let row = Slot::blob(&id_of(&shared)).row(1);
        tamper(folder.path(), |batch| match missing {
            true => batch.remove(row),
            false => batch.insert(row, vec![7; 4096]),
        });
        let store = open(folder.path(), OVER);
        for name in ["a", "b"] {
            let told = records(&store, &thread(name)).await;
            let Err(error @ StoreError::Corrupt { .. }) = told else {
                panic!("{told:?}");
            };
            let said = error.to_string();
            assert!(said.contains("record 3 of thread"), "{said}");
            assert!(said.contains("of 9000 bytes"), "{said}");
            let checked = check(&store, &thread(name)).await;
            assert!(!checked.is_sound());
            assert_eq!(checked.records, 3, "the others can be read");
        }
        records(&store, &thread("c")).await.unwrap();
        // What is left is read piece by piece: only the record that lacks its value is lost.
        let remains = store.remains(&Owner::Thread(thread("a"))).await.unwrap();
        assert_eq!([&sound[..2], &sound[3..]].concat(), remains.records);
        assert_eq!(remains.missing, Some(BTreeSet::from([Seq::new(3)])));
        let remains = store.remains(&Owner::Thread(thread("c"))).await.unwrap();
        assert_eq!((remains.records.len(), remains.faults.len()), (4, 0));
        let owners = store.owners().await.unwrap();
        let owners: BTreeSet<_> = owners
            .into_iter()
            .map(|owner| owner.unwrap().name())
            .collect();
        assert_eq!(owners, ["a", "b", "c"].map(thread).into());
        // A damaged value is not relied on: the next that has it writes it again.
        add(&store, &thread("c"), vec![answer(shared.clone())]).await;
        assert_eq!(records(&store, &thread("a")).await.unwrap(), sound);
        records(&store, &thread("b")).await.unwrap();
    }
}

#[tokio::test]
async fn a_value_that_nobody_has_is_waste_and_is_swept() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), OVER);
    add(&store, &thread("a"), vec![answer(value(1, 5000))]).await;
    assert_eq!(store.waste().await.unwrap(), Waste::default());
    drop(store);
    let bytes = value(2, 10_000);
    let blob = Blob {
        id: id_of(&bytes),
        bytes,
    };
    tamper(folder.path(), |batch| {
        for (key, row) in Long::encode(&blob, &Vault::default()).unwrap().rows {
            batch.insert(key, row);
        }
    });
    let store = open(folder.path(), OVER);
    let waste = store.waste().await.unwrap();
    assert_eq!((waste.values, waste.bytes), (1, 10_000));
    store.sweep().await.unwrap();
    assert_eq!(store.waste().await.unwrap(), Waste::default());
    assert_eq!(tree(&store).1, BTreeSet::from([id_of(&value(1, 5000))]));
    assert_eq!(
        *records(&store, &thread("a")).await.unwrap()[2].record,
        answer(value(1, 5000))
    );
}

/// A store whose limit was changed reads what was written before, and counts right.
#[tokio::test]
async fn another_limit_counts_from_now_on() {
    let folder = tempfile::tempdir().unwrap();
    let t = thread("t");
    let one = answer(value(1, 8000));
    add(&open(folder.path(), 1 << 20), &t, vec![one.clone()]).await;
    let store = open(folder.path(), OVER);
    assert_eq!(tree(&store).1, BTreeSet::new());
    add(&store, &t, vec![one.clone()]).await;
    assert_eq!(tree(&store).1.len(), 1);
    let all = records(&store, &t).await.unwrap();
    assert!(all[2..].iter().all(|stored| *stored.record == one));
}

#[derive(Clone, Debug)]
enum Act {
    /// Records with these values; then a commit with a base, or none.
    Add(usize, Vec<u8>, bool),
    Delete(usize),
    Copy(usize, usize),
    /// Through an archive, under another name.
    Move(usize, usize),
    Prune(usize),
    Reopen,
}

fn act() -> impl Strategy<Value = Act> {
    let one = 0..4_usize;
    prop_oneof![
        6 => (one.clone(), prop::collection::vec(0..6_u8, 1..4), any::<bool>())
            .prop_map(|(thread, values, based)| Act::Add(thread, values, based)),
        1 => one.clone().prop_map(Act::Delete),
        1 => (one.clone(), one.clone()).prop_map(|(from, to)| Act::Copy(from, to)),
        1 => (one.clone(), one.clone()).prop_map(|(from, to)| Act::Move(from, to)),
        2 => one.prop_map(Act::Prune),
        1 => Just(Act::Reopen),
    ]
}

/// A commit and its base, in the simplest form that a prune can begin at.
fn based(seq: u64) -> Vec<Record> {
    let (mut commit, mut base) = (one_of_each().swap_remove(4), one_of_each().swap_remove(5));
    if let (Record::Commit(commit), Record::Base(base)) = (&mut commit, &mut base) {
        commit.outcomes.clear();
        commit.timers.clear();
        base.at = seq;
        base.fields.clear();
    }
    vec![commit, base]
}

/// The long values of records.
fn long_of(records: &[Stored]) -> BTreeSet<BlobId> {
    let values = records.iter().filter_map(|stored| match &*stored.record {
        Record::Answer(answer) if answer.value.len() > OVER => Some(id_of(&answer.value)),
        _ => None,
    });
    values.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever is done with threads, exactly the values that some record has are there.
    #[test]
    fn a_value_is_there_as_long_as_a_record_has_it(acts in prop::collection::vec(act(), 1..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let mut store = open(folder.path(), OVER);
            let mut known: BTreeMap<usize, Vec<Stored>> = BTreeMap::new();
            let name = |number: usize| thread(&format!("t{number}"));
            for act in acts {
                match act.clone() {
                    Act::Add(to, values, with_base) => {
                        // Half of them are long.
                        let values = values.iter().map(|of| value(*of, 500 + usize::from(*of) * 300));
                        let mut all: Vec<_> = values.map(answer).collect();
                        if with_base {
                            let there = known.get(&to).and_then(|log| log.last());
                            let first = there.map_or(3, |last| last.seq.get() + 1);
                            all.extend(based(first + all.len() as u64));
                        }
                        add(&store, &name(to), all).await;
                    }
                    Act::Delete(one) => store.delete_thread(&name(one)).await.unwrap(),
                    Act::Copy(from, to) => {
                        let told = store.copy_thread(&name(from), &name(to)).await;
                        assert!(matches!(told, Ok(()) | Err(StoreError::Exists { .. })));
                    }
                    Act::Move(from, to) => {
                        if let Some(archive) =
                            ThreadArchive::read(&store, &name(from)).await.unwrap()
                        {
                            let archive = ThreadArchive { thread: name(to), ..archive };
                            // These logs are not whole enough for every rule.
                            let _ = store.restore(archive).await;
                        }
                    }
                    Act::Prune(one) => {
                        let what = Retain {
                            thread: name(one),
                            retention: Retention::last(1),
                            now_ms: 0,
                            holder: None,
                        };
                        store.retain(what).await.unwrap();
                    }
                    Act::Reopen => {
                        drop(store);
                        store = open(folder.path(), OVER);
                    }
                }
                let before = std::mem::take(&mut known);
                let mut long = BTreeSet::new();
                for number in 0..4 {
                    let log = records(&store, &name(number)).await.unwrap();
                    if let Some(before) = before.get(&number)
                        && !matches!(act, Act::Delete(one) if one == number)
                    {
                        let same = before.iter().filter(|stored| log.contains(stored)).count();
                        let pruned = matches!(act, Act::Prune(one) if one == number);
                        assert!(pruned || same == before.len(), "{act:?} changed t{number}");
                        assert!(log.iter().all(|stored| before.contains(stored)) || !pruned);
                    }
                    long.extend(long_of(&log));
                    if !log.is_empty() {
                        known.insert(number, log);
                    }
                }
                assert_eq!(tree(&store).1, long, "after {act:?}");
                assert_eq!(store.waste().await.unwrap(), Waste::default());
            }
            for number in 0..4 {
                store.delete_thread(&name(number)).await.unwrap();
            }
            assert!(tree(&store).0 < 100, "something is left");
        });
    }
}
