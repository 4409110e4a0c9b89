//! The records of a subgraph, taken as records: damage is found where it is, and what a prune, a
//! copy and an archive leave can be gone on with.

use std::sync::Arc;

use milepost::store::{
    CheckpointStore, InnerRecord, MemoryStore, Record, SledStore, StoreError, Stored,
    ThreadArchive, check,
};
use milepost::{
    Answers, Append, Ask, Command, Context, End, Ended, Exits, Graph, NodeError, Output,
    RunOptions, Runner, Snapshot, State,
};
use serde::{Deserialize, Serialize};

use crate::support::thread;

#[derive(Clone, Debug, Default, State)]
struct Book {
    #[reduce(Append)]
    pages: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct More;

impl Ask for More {
    type Answer = bool;
}

#[derive(Clone, Copy, Exits)]
enum Asked {
    More,
    Enough,
}

/// `page` writes a page, `ask` asks for more, inside; the graph around it loops.
fn book() -> Graph<Book> {
    let mut inner = Graph::builder("inner");
    let page = inner.node("page", async |book: Snapshot<Book>, _: Context| {
        Ok::<_, NodeError>(Book::update().pages(vec![format!("page of {}", book.pages[0])]))
    });
    let ask = inner.node("ask", async |_: Snapshot<Book>, cx: Context| {
        Ok::<_, NodeError>(match cx.answer::<More>("more")? {
            None => Output::ask("more", More),
            Some(more) => Output::Done(Book::update().pages(vec![more.to_string()]), ()),
        })
    });
    inner.start(page);
    inner.edge(page, ask);
    inner.edge(ask, End);

    let mut g = Graph::builder("outer");
    let write = g.subgraph(
        "write",
        inner.build().unwrap(),
        |book: &Book| Book::update().pages(vec![book.pages.len().to_string()]),
        |inner| Book::update().pages(inner.pages.clone()),
    );
    g.start(write);
    g.branch(
        write,
        |book: &Book| {
            let more = book.pages.last().is_some_and(|last| last == "true");
            Ok(if more { Asked::More } else { Asked::Enough })
        },
        |asked| match asked {
            Asked::More => write.into(),
            Asked::Enough => End.into(),
        },
    );
    g.build().unwrap()
}

fn runner(store: &Arc<dyn CheckpointStore>) -> Runner<Book> {
    // A base every other superstep: a prune has something to drop.
    let options = RunOptions::new().base_every(2);
    Runner::new(book())
        .options(options)
        .shared_store(Arc::clone(store))
}

fn say(more: bool) -> Command<Book> {
    Command::answer(Answers::only(&more))
}

/// A thread that is open inside of its subgraph, for the fifth time.
async fn open_inside(store: &Arc<dyn CheckpointStore>) {
    let runner = runner(store);
    let t = thread("t");
    runner
        .run(&t, Command::start(Book::update()))
        .await
        .unwrap();
    for _ in 0..4 {
        let report = runner.run(&t, say(true)).await.unwrap();
        assert_eq!(report.ended, Ended::Paused { questions: 1 });
    }
}

fn inner_of(stored: &Stored) -> Option<&InnerRecord> {
    match &*stored.record {
        Record::Inner(inner) => Some(inner),
        _ => None,
    }
}

#[tokio::test]
async fn a_damaged_record_of_a_subgraph_is_found_where_it_is() {
    let store: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
    open_inside(&store).await;
    let whole = ThreadArchive::read(&*store, &thread("t"))
        .await
        .unwrap()
        .unwrap();
    whole.check().unwrap();
    let places: Vec<_> = whole
        .records
        .iter()
        .enumerate()
        .filter_map(|(place, stored)| inner_of(stored).map(|_| place))
        .collect();
    assert!(places.len() > 10);
    for place in places {
        let stored = &whole.records[place];
        let inner = inner_of(stored).unwrap();
        let (path, inside) = inner.open().unwrap();
        let mut flipped = inner.clone();
        *flipped.record.last_mut().unwrap() ^= 1;
        let mut cut = inner.clone();
        cut.record.truncate(20);
        let mut nowhere = inner.clone();
        nowhere.path = "write".to_owned();
        let next = inside.seq.next();
        let later = InnerRecord::of(&path, next, inside.epoch, &inside.record).unwrap();
        for (harmed, why) in [
            (flipped, "cannot be read"),
            (cut, "cannot be read"),
            (nowhere, "expected the path of a task, found \"write\""),
            (later, "is the one before it"),
        ] {
            let mut archive = whole.clone();
            archive.records[place].record = Arc::new(Record::Inner(harmed));
            let Err(StoreError::Unsound { found, .. }) = archive.check() else {
                panic!("{why} is not found at {place}");
            };
            let at = format!("record {}", stored.seq);
            assert!(found.contains(why), "{found}");
            assert!(found.starts_with(&at), "not at {at}: {found}");
        }
    }
}

/// Whatever is done to the thread as a whole, its question inside is answered afterwards.
#[tokio::test]
async fn a_thread_that_is_open_inside_outlives_prune_copy_and_archive() {
    let folder = tempfile::tempdir().unwrap();
    let stores: [Arc<dyn CheckpointStore>; 2] = [
        Arc::new(MemoryStore::new()),
        Arc::new(SledStore::open(folder.path().join("s")).unwrap()),
    ];
    for store in stores {
        open_inside(&store).await;
        let (t, copied) = (thread("t"), thread("copied"));
        let before = milepost::questions(&*store, &t).await.unwrap();
        assert_eq!(before[0].id.to_string(), "5:write[0]/2:ask[0].more");
        store.copy_thread(&t, &copied).await.unwrap();
        let archive = ThreadArchive::read(&*store, &t).await.unwrap().unwrap();
        let elsewhere: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
        elsewhere.restore(archive.clone()).await.unwrap();
        store.prune(&t).await.unwrap();
        let left = ThreadArchive::read(&*store, &t).await.unwrap().unwrap();
        assert!(
            left.records.len() < archive.records.len(),
            "something was dropped"
        );
        let pruned: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
        pruned.restore(left).await.unwrap();
        for (store, t) in [
            (&store, &t),
            (&store, &copied),
            (&elsewhere, &t),
            (&pruned, &t),
        ] {
            assert!(check(&**store, t).await.is_sound());
            let asked = milepost::questions(&**store, t).await.unwrap();
            assert_eq!(asked[0].id, before[0].id);
            let report = runner(store).run(t, say(false)).await.unwrap();
            assert_eq!(report.ended, Ended::Finished);
            assert_eq!(report.state.pages.len(), 15);
            assert_eq!(report.state.pages[12..], ["12", "page of 12", "false"]);
            assert!(check(&**store, t).await.is_sound());
        }
    }
}
