//! Whatever is missing of a thread, what is salvaged of it holds together, loads as it was, and goes
//! on. C53 (7), C67.

use std::collections::BTreeSet;
use std::sync::Arc;

use milepost::store::{
    CheckpointStore, Head, MemoryStore, Owner, Record, Remains, Salvage, Severity, SledOptions,
    SledStore, Spot, Status, ThreadArchive, check, salvage,
};
use milepost::{
    Add, Append, Ask, Command, Context, End, Ended, Exits, Graph, NodeError, Output, RunError,
    RunOptions, Runner, Seq, Snapshot, State, ThreadId, events, history,
};
use serde::{Deserialize, Serialize};

pub(crate) fn thread(name: &str) -> ThreadId {
    ThreadId::new(name).unwrap()
}

#[derive(Clone, Debug, Default, PartialEq, State)]
pub(crate) struct Book {
    /// Long enough for segments.
    #[reduce(Append)]
    pub(crate) pages: Vec<String>,
    #[reduce(Add)]
    pub(crate) sum: u64,
    pub(crate) n: u64,
}

#[derive(Clone, Copy, Exits)]
enum Next {
    Again,
    Ask,
    Enough,
}

#[derive(Serialize, Deserialize)]
struct May;

impl Ask for May {
    type Answer = bool;
}

async fn plan(book: Snapshot<Book>, _: Context) -> Result<BookUpdate, NodeError> {
    Ok(Book::update().n(book.n + 1))
}

async fn work(item: u64, book: Snapshot<Book>, _: Context) -> Result<BookUpdate, NodeError> {
    let page = format!("{}.{item} ", book.n).repeat(1_500);
    Ok(Book::update().pages(vec![page]).sum(item))
}

async fn gather(book: Snapshot<Book>, _: Context) -> Result<(BookUpdate, Next), NodeError> {
    let next = match book.n % 6 {
        0 => Next::Ask,
        n if n % 2 == 1 => Next::Again,
        _ => Next::Enough,
    };
    Ok((Book::update().sum(100), next))
}

async fn ask(_: Snapshot<Book>, cx: Context) -> Result<Output<BookUpdate, (), May>, NodeError> {
    Ok(match cx.answer::<May>("may")? {
        Some(_) => Output::Done(Book::update().sum(1_000), ()),
        None => Output::ask("may", May),
    })
}

/// The same once more, inside of a node.
#[derive(Clone, Debug, Default, PartialEq, State)]
struct Inner {
    #[reduce(Append)]
    notes: Vec<String>,
}

fn inner() -> Graph<Inner> {
    let mut g = Graph::builder("inner");
    let one = g.node("one", async |_: Snapshot<Inner>, _: Context| {
        Ok::<_, NodeError>(Inner::update().notes(vec!["one".to_owned()]))
    });
    let two = g.node("two", async |_: Snapshot<Inner>, cx: Context| {
        Ok::<_, NodeError>(match cx.answer::<May>("may")? {
            Some(_) => Output::Done(Inner::update(), ()),
            None => Output::ask("may", May),
        })
    });
    g.start(one);
    g.edge(one, two);
    g.edge(two, End);
    g.build().unwrap()
}

/// `plan`, three of `work`, `gather`; twice a run; in each third run a question besides.
pub(crate) fn book() -> Graph<Book> {
    let mut g = Graph::builder("book");
    let plan = g.node("plan", plan);
    let work = g.worker("work", work);
    let gather = g.node("gather", gather);
    let ask = g.node("ask", ask);
    let aside = g.subgraph(
        "aside",
        inner(),
        |_: &Book| Inner::update(),
        |_: &Inner| Book::update().sum(10_000),
    );
    g.start(plan);
    g.edge(plan, work.each(|_: &Book| vec![1, 2, 3]));
    g.edge(work, gather);
    g.wire(gather, |next| match next {
        Next::Again => plan.into(),
        Next::Ask => ask.and(aside),
        Next::Enough => End.into(),
    });
    g.edge(ask, End);
    g.edge(aside, End);
    g.build().unwrap()
}

pub(crate) fn options() -> RunOptions {
    RunOptions::new().base_every(4)
}

fn runner(store: &Arc<MemoryStore>) -> Runner<Book> {
    Runner::new(book())
        .options(options())
        .shared_store(Arc::clone(store) as _)
}

async fn run(store: &Arc<MemoryStore>, t: &ThreadId) -> Ended {
    let start = Command::start(Book::update());
    runner(store).run(t, start).await.unwrap().ended
}

/// Threads of all kinds: finished, paused with records inside, forked, pruned.
async fn threads() -> (Arc<MemoryStore>, Vec<ThreadId>) {
    let store = Arc::new(MemoryStore::new());
    let names = ["runs", "asked", "forked", "pruned"].map(thread);
    let [runs, asked, forked, pruned] = &names;
    for t in &names {
        for _ in 0..2 {
            assert_eq!(run(&store, t).await, Ended::Finished);
        }
    }
    store.prune(pruned).await.unwrap();
    for t in [asked, pruned] {
        assert!(matches!(run(&store, t).await, Ended::Paused { .. }));
    }
    let at = history(&*store, forked).await.unwrap()[4].seq;
    let runner = runner(&store);
    runner.fork(forked, at).await.unwrap();
    runner.run(forked, Command::go_on()).await.unwrap();
    let at = history(&*store, forked).await.unwrap()[2].seq;
    runner.fork(forked, at).await.unwrap();
    assert!(
        store
            .records(runs, Seq::new(1), usize::MAX)
            .await
            .unwrap()
            .len()
            > 20
    );
    (store, names.to_vec())
}

/// A thread in memory, from which something is taken away.
struct Whole {
    archive: ThreadArchive,
    /// Whether a prune has left holes, and which records there are.
    seqs: BTreeSet<Seq>,
}

impl Whole {
    async fn read(store: &MemoryStore, t: &ThreadId) -> Self {
        let archive = ThreadArchive::read(store, t).await.unwrap().unwrap();
        let seqs = archive.records.iter().map(|stored| stored.seq).collect();
        Self { archive, seqs }
    }

    /// What is left where these records cannot be read.
    fn without(&self, lost: &[Seq]) -> Remains {
        let ThreadArchive {
            thread,
            head,
            runs,
            records,
            segments,
            ..
        } = self.archive.clone();
        let gone = |seq: &Seq| lost.contains(seq);
        Remains {
            head: Some(head),
            runs,
            records: records
                .into_iter()
                .filter(|stored| !gone(&stored.seq))
                .collect(),
            segments,
            faults: lost
                .iter()
                .map(|seq| (Spot::Record(*seq), "gone".to_owned()))
                .collect(),
            missing: Some(
                lost.iter()
                    .copied()
                    .filter(|seq| self.seqs.contains(seq))
                    .collect(),
            ),
            ..Remains::of(Owner::Thread(thread))
        }
    }

    /// The same where the rows beside the log are gone, too.
    fn bare(&self, lost: &[Seq]) -> Remains {
        Remains {
            head: None,
            runs: Vec::new(),
            missing: None,
            ..self.without(lost)
        }
    }

    fn positions(&self) -> impl Iterator<Item = Seq> + '_ {
        let records = self.archive.records.iter();
        records
            .filter(|stored| matches!(*stored.record, Record::Input(_) | Record::Commit(_)))
            .map(|stored| stored.seq)
    }
}

/// Salvages, puts what is saved into a new store, and looks at everything there. Returns the head.
async fn saved(old: &Arc<MemoryStore>, remains: Remains, what: &str) -> Option<Head> {
    let told = Salvage::of(remains);
    let archive = told.archive.clone()?;
    let t = archive.thread.clone();
    let store = Arc::new(MemoryStore::new());
    store.restore(archive.clone()).await.expect(what);
    let found = check(&*store, &t).await;
    let errors = found
        .findings
        .iter()
        .filter(|found| found.severity >= Severity::Warning);
    assert_eq!(errors.count(), 0, "{what}: {:?}", found.findings);
    let new = runner(&store);
    let old = runner(old);
    let at = archive.head.seq;
    let state = new
        .state(&t)
        .await
        .unwrap_or_else(|why| panic!("{what}: {why}"));
    let was = old.state_at(&t, at).await.unwrap();
    assert!(*state == *was, "{what}: another state than was written");
    events(&*store, &t).await.expect(what);
    for checkpoint in history(&*store, &t).await.expect(what) {
        match new.state_at(&t, checkpoint.seq).await {
            Ok(state) => {
                let was = old.state_at(&t, checkpoint.seq).await.unwrap();
                assert!(
                    *state == *was,
                    "{what}, another state at {}",
                    checkpoint.seq
                );
            }
            Err(RunError::NoCheckpoint { .. } | RunError::Pruned { .. }) => {}
            Err(error) => panic!("{what}, at {}: {error}", checkpoint.seq),
        }
    }
    let ended = new.run(&t, Command::go_on()).await;
    let ended = ended.unwrap_or_else(|why| panic!("{what}: {why}")).ended;
    assert!(
        matches!(ended, Ended::Finished | Ended::Paused { .. }),
        "{what}: {ended:?}"
    );
    let found = check(&*store, &t).await;
    assert!(found.is_sound(), "{what}: {:?}", found.findings);
    Some(archive.head)
}

#[tokio::test]
async fn a_sound_thread_is_saved_as_it_is() {
    let (store, threads) = threads().await;
    let new = MemoryStore::new();
    for t in &threads {
        let owner = Owner::Thread(t.clone());
        let told = salvage(&*store, &new, &owner).await.unwrap();
        assert!(told.is_whole(), "{told:?}");
        let (old, new) = (
            ThreadArchive::read(&*store, t).await.unwrap(),
            ThreadArchive::read(&new, t).await.unwrap(),
        );
        assert_eq!(old, new);
    }
    let nobody = Owner::Thread(thread("nobody"));
    let told = salvage(&*store, &new, &nobody).await.unwrap();
    assert!(told.archive.is_none() && told.faults.is_empty());
}

/// On a disk, long values lie beside the records that have them: they belong to those, and to nobody else.
#[tokio::test]
async fn a_sound_thread_on_a_disk_is_saved_with_its_long_values() {
    let (store, threads) = threads().await;
    let folder = tempfile::tempdir().unwrap();
    let mut options = SledOptions::default();
    options.blob_bytes = 500;
    let disk = SledStore::open_with(folder.path(), options).unwrap();
    for t in &threads {
        let archive = ThreadArchive::read(&*store, t).await.unwrap().unwrap();
        disk.restore(archive).await.unwrap();
    }
    let owners = disk.owners().await.unwrap();
    assert_eq!(owners.len(), threads.len(), "{owners:?}");
    let new = MemoryStore::new();
    for owner in owners {
        let told = salvage(&disk, &new, &owner.unwrap()).await.unwrap();
        assert!(told.is_whole(), "{told:?}");
    }
    for t in &threads {
        let old = ThreadArchive::read(&*store, t).await.unwrap();
        assert_eq!(ThreadArchive::read(&new, t).await.unwrap(), old);
    }
}

/// Each record of each thread: what was before it is kept, or what is after it, or both.
#[tokio::test]
async fn a_thread_without_one_of_its_records_is_saved_up_to_it_or_from_it_on() {
    let (store, threads) = threads().await;
    let (mut kept_head, mut all) = (0, 0);
    for t in &threads {
        let whole = Whole::read(&store, t).await;
        for seq in whole.seqs.iter().copied() {
            all += 1;
            let what = format!("{t} without {seq}");
            let head = saved(&store, whole.without(&[seq]), &what).await;
            let bare = saved(&store, whole.bare(&[seq]), &format!("{what}, bare")).await;
            // Without a hole before it, the newest position before the hole can be read. (A pruned
            // thread has holes, of which only its rows know that nothing is missing there.)
            let before = whole.positions().filter(|at| *at < seq).last();
            let based = whole
                .archive
                .records
                .iter()
                .any(|stored| matches!(*stored.record, Record::Base(_)) && stored.seq < seq);
            if let Some(before) = before.filter(|_| based && t.as_str() != "pruned") {
                let is_kept = |head: &Option<Head>| {
                    let head = head.as_ref();
                    head.is_some_and(|head| head.seq >= before || t.as_str() == "forked")
                };
                assert!(is_kept(&head), "{what}: {head:?}, not {before}");
                assert!(is_kept(&bare), "{what}: {bare:?}, not {before}");
            }
            kept_head += usize::from(head.is_some_and(|head| head == whole.archive.head));
        }
    }
    // What lies before the newest base costs older checkpoints, and not where the thread stands.
    assert!(kept_head * 2 > all, "{kept_head} of {all}");
}

#[tokio::test]
async fn a_thread_without_its_end_is_saved_up_to_there() {
    let (store, threads) = threads().await;
    for t in &threads {
        let whole = Whole::read(&store, t).await;
        let seqs: Vec<Seq> = whole.seqs.iter().copied().collect();
        for (number, _) in seqs.iter().enumerate() {
            let (left, lost) = seqs.split_at(number);
            let what = format!("{t} from {} on", lost[0]);
            let told = Salvage::of(whole.without(lost));
            let head = saved(&store, whole.without(lost), &what).await;
            saved(&store, whole.bare(lost), &format!("{what}, bare")).await;
            if let (Some(_), Some(last)) = (&head, left.last()) {
                // To the last sound record, except where that is the first of a write that is gone.
                let until = told.until().unwrap();
                assert!(until.get() + 4 > last.get(), "{what}: {until} of {last}");
            }
            if number == seqs.len() - 1 && t.as_str() == "runs" {
                assert!(head.is_some(), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn a_thread_with_two_holes_is_saved_as_far_as_it_holds_together() {
    let (store, threads) = threads().await;
    for t in &threads {
        let whole = Whole::read(&store, t).await;
        let seqs: Vec<Seq> = whole.seqs.iter().copied().collect();
        for (number, first) in seqs.iter().enumerate().step_by(3) {
            for second in seqs[number + 1..].iter().step_by(7) {
                let lost = [*first, *second];
                let what = format!("{t} without {first} and {second}");
                saved(&store, whole.without(&lost), &what).await;
                saved(&store, whole.bare(&lost), &format!("{what}, bare")).await;
            }
        }
    }
}

#[tokio::test]
async fn a_lost_segment_costs_the_bases_that_refer_to_it() {
    let (store, threads) = threads().await;
    for t in &threads {
        let whole = Whole::read(&store, t).await;
        assert!(!whole.archive.segments.is_empty());
        for (id, _) in &whole.archive.segments {
            let mut remains = whole.without(&[]);
            remains.segments.retain(|(other, _)| other != id);
            remains.faults.push((Spot::Segment(*id), "gone".to_owned()));
            let told = Salvage::of(remains.clone());
            assert!(told.segments.contains(id) || told.archive.is_none());
            saved(&store, remains, &format!("{t} without {id:?}")).await;
        }
    }
}

#[tokio::test]
async fn how_a_thread_stood_is_told_by_its_records_where_its_head_is_lost() {
    let (store, threads) = threads().await;
    for t in &threads {
        let whole = Whole::read(&store, t).await;
        let head = saved(&store, whole.bare(&[]), &format!("{t} without its head")).await;
        let (Some(head), was) = (head, &whole.archive.head) else {
            // What a prune has dropped cannot be told from what is lost.
            assert_eq!(t.as_str(), "pruned");
            continue;
        };
        let same = |head: &Head| {
            (
                head.run.clone(),
                head.branch,
                head.seq,
                head.step,
                head.status,
            )
        };
        assert_eq!(same(&head), same(was), "{t}");
        assert_eq!((head.base, head.schema), (was.base, was.schema), "{t}");
    }
}

/// A thread that is cut in the middle of a run ends as it would have ended.
#[tokio::test]
async fn what_is_gone_on_with_ends_as_it_would_have() {
    let (store, threads) = threads().await;
    let t = &threads[0];
    let whole = Whole::read(&store, t).await;
    let seqs: Vec<Seq> = whole.seqs.iter().copied().collect();
    for number in 4..seqs.len() {
        let told = Salvage::of(whole.without(&seqs[number..]));
        let archive = told.archive.unwrap();
        let is_open = archive.head.status == Status::Running;
        let new = Arc::new(MemoryStore::new());
        new.restore(archive.clone()).await.unwrap();
        let report = runner(&new).run(t, Command::go_on()).await.unwrap();
        let row = &whole
            .archive
            .runs
            .iter()
            .find(|(run, _)| run.as_str() == archive.head.run);
        let end = row.unwrap().1.end.unwrap();
        let state = runner(&store).state_at(t, end).await.unwrap();
        assert!(
            *report.state == *state,
            "cut at {}, {is_open}",
            seqs[number]
        );
    }
}
