//! What the engine says of a thread whose bytes were altered on disk.

use std::path::Path;

use milepost::store::{CheckpointStore, Record, SledStore, StoreError, ThreadKey};
use milepost::{
    Append, Command, Context, End, Event, Graph, NodeError, RunError, RunOptions, Runner, Seq,
    Snapshot, State, ThreadId, events, history,
};

use crate::support::thread;

#[derive(Clone, Debug, Default, PartialEq, State)]
struct Book {
    #[reduce(Append)]
    pages: Vec<String>,
    cover: String,
    n: u64,
}

async fn write(book: Snapshot<Book>, _: Context) -> Result<BookUpdate, NodeError> {
    let n = book.n + 1;
    // More than a row of the store, so that records have several.
    let page = format!("page {n} ").repeat(700);
    Ok(Book::update()
        .n(n)
        .pages(vec![page])
        .cover("c".repeat(9_000)))
}

fn book() -> Graph<Book> {
    let mut g = Graph::builder("book");
    let write = g.node("write", write);
    g.start(write);
    g.edge(write, End);
    g.build().unwrap()
}

fn runner(store: &SledStore) -> Runner<Book> {
    Runner::new(book())
        .options(RunOptions::new().base_every(5))
        .store(store.clone())
}

/// What a sound thread says.
#[derive(Debug)]
struct Sound {
    state: Book,
    old: Book,
    line: Vec<milepost::Checkpoint>,
    events: Vec<Event>,
}

/// Everything that is read of a thread: the checkpoint `at`, its head, its line, its events.
async fn sound(store: &SledStore, t: &ThreadId, at: Seq) -> Sound {
    let runner = runner(store);
    Sound {
        state: (*runner.state(t).await.unwrap()).clone(),
        old: (*runner.state_at(t, at).await.unwrap()).clone(),
        line: history(store, t).await.unwrap(),
        events: events(store, t).await.unwrap(),
    }
}

/// The key of a row, by the words of `docs/format.md`.
fn key(thread: &ThreadId, class: u8, rest: &[u8], row: u16) -> Vec<u8> {
    let mut key = ThreadKey::of(thread).as_bytes().to_vec();
    key.push(class);
    key.extend_from_slice(rest);
    key.extend_from_slice(&row.to_be_bytes());
    key
}

/// How a row is altered.
#[derive(Clone, Copy, Debug)]
enum How {
    Flip(usize),
    Cut(usize),
    Gone,
}

fn alter(db: &sled::Db, key: &[u8], how: How) {
    let mut row = db.get(key).unwrap().unwrap().to_vec();
    let last = row.len() - 1;
    match how {
        How::Flip(place) => row[place.min(last)] ^= 0x10,
        How::Cut(bytes) => row.truncate(bytes.min(last)),
        How::Gone => {
            db.remove(key).unwrap();
            return;
        }
    }
    db.insert(key, row).unwrap();
}

fn rows(db: &sled::Db, thread: &ThreadId) -> Vec<(Vec<u8>, Vec<u8>)> {
    let rows = db.scan_prefix(ThreadKey::of(thread).as_bytes());
    rows.map(|row| row.unwrap())
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

fn is_corrupt<T>(found: Result<T, RunError>, what: &str) {
    match found {
        Err(RunError::Store(StoreError::Corrupt { place, .. })) => {
            assert!(
                place.contains("thread a") || place.contains("a"),
                "{what}: {place}"
            );
        }
        Err(other) => panic!("{what}: {other}"),
        Ok(_) => panic!("{what}: it was read"),
    }
}

/// Corrupt, or what the sound thread says: never anything else.
fn corrupt_or<T: PartialEq>(found: Result<T, RunError>, sound: &T, what: &str) -> bool {
    match found {
        Ok(found) => {
            assert!(found == *sound, "{what}: another value than was written");
            false
        }
        found => {
            is_corrupt(found, what);
            true
        }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let into = to.join(entry.file_name());
        match entry.metadata().unwrap().is_dir() {
            true => copy(&entry.path(), &into),
            false => drop(std::fs::copy(entry.path(), into).unwrap()),
        }
    }
}

/// C53 (7), C67: a byte flipped, a row cut or gone, anywhere in a thread: through every way of
/// reading and running it the answer is `Corrupt` or exactly what was written; nothing is run or
/// changed because of it, and the threads beside it are as they were.
#[tokio::test]
async fn an_altered_thread_is_corrupt_and_its_neighbours_are_sound() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    let (a, b) = (thread("a"), thread("b"));
    let store = SledStore::open(&whole).unwrap();
    for t in [&a, &b] {
        for _ in 0..6 {
            runner(&store)
                .run(t, Command::start(Book::update()))
                .await
                .unwrap();
        }
    }
    let line = history(&store, &a).await.unwrap();
    let at = line[5].seq;
    let (before_a, before_b) = (sound(&store, &a, at).await, sound(&store, &b, at).await);
    let records = store.records(&a, Seq::new(1), usize::MAX).await.unwrap();
    let head = store.head(&a).await.unwrap().unwrap();
    drop(store);

    // Every row of the thread is altered in one way, the interesting ones in all.
    let db = sled::open(&whole).unwrap();
    let all = rows(&db, &a);
    drop(db);
    let ways = [
        How::Flip(0),
        How::Flip(9),
        How::Flip(40),
        How::Flip(2_000),
        How::Cut(20),
        How::Gone,
    ];
    let mut cases: Vec<(String, Vec<u8>, How)> = Vec::new();
    for (number, (row, _)) in all.iter().enumerate() {
        cases.push((
            format!("row {number}"),
            row.clone(),
            ways[number % ways.len()],
        ));
    }
    for how in ways {
        let seq = |seq: u64| key(&a, 3, &seq.to_be_bytes(), 0);
        cases.push(("the base".to_owned(), seq(head.base.get()), how));
        cases.push(("the last commit".to_owned(), seq(head.seq.get()), how));
        cases.push(("the head row".to_owned(), key(&a, 1, &[], 0), how));
    }
    let mut found_by_all = 0;
    for (number, (what, row, how)) in cases.iter().enumerate() {
        let what = &format!("{what}, {how:?}");
        let path = dir.path().join(format!("s{number}"));
        copy(&whole, &path);
        let db = sled::open(&path).unwrap();
        alter(&db, row, *how);
        let altered = rows(&db, &a);
        drop(db);
        let store = SledStore::open(&path).unwrap();
        let now = runner(&store);
        let state = now.state(&a).await.map(|state| (*state).clone());
        let old = now.state_at(&a, at).await.map(|state| (*state).clone());
        let mut found = vec![
            corrupt_or(state, &before_a.state, what),
            corrupt_or(old, &before_a.old, what),
            corrupt_or(
                history(&store, &a).await.map_err(RunError::Store),
                &before_a.line,
                what,
            ),
            corrupt_or(
                events(&store, &a).await.map_err(RunError::Store),
                &before_a.events,
                what,
            ),
        ];
        // The row of a run that is not asked for, and a segment that only old bases need, harm
        // nobody; a record is always found by who reads all of them.
        let class = row[16];
        assert!(
            found[2] && found[3] || class == 4 || class == 5,
            "{what}: {found:?}"
        );
        let in_need = class == 1 || class == 3 && row[17..25] >= head.base.get().to_be_bytes()[..];
        assert!(found[0] || !in_need, "{what}: {found:?}");
        let runs = now.run(&a, Command::go_on()).await;
        found.push(corrupt_or(
            runs.map(|report| (*report.state).clone()),
            &before_a.state,
            what,
        ));
        if found.iter().all(|found| *found) {
            found_by_all += 1;
            is_corrupt(now.run(&a, Command::start(Book::update())).await, what);
            let mut stream = now.stream(&a, Command::start(Book::update()).abandon());
            assert!(
                futures::StreamExt::next(&mut stream).await.is_none(),
                "{what}"
            );
            is_corrupt(stream.report().await, what);
            is_corrupt(now.open(&a, Command::go_on()).await, what);
        }
        let after_b = sound(&store, &b, at).await;
        assert_eq!(format!("{after_b:?}"), format!("{before_b:?}"), "{what}");
        if number % 8 == 0 {
            let report = now.run(&b, Command::start(Book::update())).await.unwrap();
            assert_eq!(report.state.n, 7, "{what}");
        }
        drop((now, store));
        let db = sled::open(&path).unwrap();
        assert_eq!(rows(&db, &a), altered, "{what}: the thread was touched");
        drop(db);
        std::fs::remove_dir_all(&path).unwrap();
    }
    assert!(found_by_all >= 10, "{found_by_all} of {}", cases.len());
    assert!(
        records
            .iter()
            .any(|stored| matches!(&*stored.record, Record::Base(_)))
    );
}
