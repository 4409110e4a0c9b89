//! What is recorded can be merged and decided again: any thread, whatever way it went.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use milepost::store::{CheckpointStore, MemoryStore, Retain, Retention, Severity, Surplus, check};
use milepost::{
    Add, Append, AsNode, Branch, Checkpoint, Command, Context, Difference, End, Exits, Graph,
    NodeError, ReduceFault, Reducer, RunError, RunOptions, Runner, Seq, Snapshot, State, ThreadId,
    Updates, history,
};
use proptest::prelude::*;

use crate::support::{on_both, thread, with};

/// Mixes the updates of a superstep into a number. It keeps its results by value.
struct Fold;

impl Reducer<u64> for Fold {
    type Update = u64;

    fn reduce(value: &mut u64, updates: Updates<u64>) -> Result<(), ReduceFault> {
        *value = updates.into_iter().fold(*value, mixed);
        Ok(())
    }
}

fn mixed(value: u64, update: u64) -> u64 {
    value.wrapping_mul(31).wrapping_add(update)
}

#[derive(Clone, Debug, Default, PartialEq, State)]
struct Book {
    #[reduce(Append)]
    log: Vec<u64>,
    #[reduce(Add)]
    sum: u64,
    #[reduce(Fold)]
    mix: u64,
    last: u64,
}

fn writes(n: u64) -> BookUpdate {
    Book::update().log(vec![n]).sum(n).mix(n).last(n)
}

const INPUT: u64 = 3;
const A: u64 = 10;
const B: u64 = 100;
const HAND: u64 = 1_000;

/// `a` → two of `each` → `b` → end.
fn book() -> Graph<Book> {
    let mut g = Graph::builder("book");
    let node = async |n: u64, _: Snapshot<Book>, _: Context| Ok::<_, NodeError>(writes(n));
    let a = g.node("a", with(A, node));
    let each = g.worker("each", async |n: u64, _: Snapshot<Book>, _: Context| {
        Ok::<_, NodeError>(Book::update().log(vec![n]).sum(n).mix(n))
    });
    let b = g.node("b", with(B, node));
    g.start(a);
    g.edge(a, each.each(|_| vec![1, 2]));
    g.edge(each, b);
    g.edge(b, End);
    g.build().unwrap()
}

/// What a checkpoint does to the state before it, told by its names alone.
fn fold(mut book: Book, at: &Checkpoint) -> Book {
    let mut put = |n: u64, last: bool| {
        book.log.push(n);
        book.sum += n;
        book.mix = mixed(book.mix, n);
        if last {
            book.last = n;
        }
    };
    if at.input.is_some() {
        put(INPUT, true);
    } else if at.patched {
        put(HAND, true);
    } else {
        match at.ran[0].0.as_str() {
            "a" => put(A, true),
            "b" => put(B, true),
            _ => [1, 2].into_iter().for_each(|n| put(n, false)),
        }
    }
    book
}

#[derive(Clone, Debug)]
enum Act {
    Start,
    GoOn(u64),
    Fork(prop::sample::Index),
    Rewind(prop::sample::Index),
    Switch(prop::sample::Index),
    Patch(&'static str),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => Just(Act::Start),
        4 => (1..4_u64).prop_map(Act::GoOn),
        2 => any::<prop::sample::Index>().prop_map(Act::Fork),
        1 => any::<prop::sample::Index>().prop_map(Act::Rewind),
        2 => any::<prop::sample::Index>().prop_map(Act::Switch),
        2 => prop::sample::select(vec!["a", "b"]).prop_map(Act::Patch),
    ]
}

async fn does(runner: &Runner<Book>, store: &MemoryStore, t: &ThreadId, act: Act) {
    let all = history(store, t).await.unwrap();
    let told = match act {
        Act::Start => runner
            .run(t, Command::start(writes(INPUT)).abandon())
            .await
            .map(drop),
        Act::GoOn(steps) => {
            let options = RunOptions::new().step_limit(steps).base_every(3);
            let runner = runner.clone().options(options);
            runner.run(t, Command::go_on()).await.map(drop)
        }
        Act::Fork(index) => runner.fork(t, index.get(&all).seq).await.map(drop),
        Act::Rewind(index) => match runner.rewind(t, index.get(&all).seq).await {
            Err(RunError::OtherLine { .. }) => Ok(()),
            told => told.map(drop),
        },
        Act::Switch(index) => {
            let branch = index.get(&all).branch;
            runner.switch(t, branch).await.map(drop)
        }
        Act::Patch(node) => runner
            .patch(t, writes(HAND), AsNode::new(node))
            .await
            .map(drop),
    };
    told.unwrap();
}

/// What to keep: how many, which ones, and which one is the oldest by age.
#[derive(Clone, Debug)]
struct Wanted {
    last: u64,
    pinned: Vec<prop::sample::Index>,
    since: Option<prop::sample::Index>,
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let some = any::<prop::sample::Index>;
    let pinned = prop::collection::vec(some(), 0..3);
    let since = prop::option::weighted(0.3, some());
    (1..8_u64, pinned, since).prop_map(|(last, pinned, since)| Wanted {
        last,
        pinned,
        since,
    })
}

/// Drops what is not wanted. Returns the checkpoints that are.
async fn retained(store: &MemoryStore, t: &ThreadId, wanted: Wanted) -> BTreeSet<Seq> {
    let before = history(store, t).await.unwrap();
    let parents: BTreeMap<Seq, Option<Seq>> = before.iter().map(|at| (at.seq, at.parent)).collect();
    let pinned: BTreeSet<Seq> = wanted.pinned.iter().map(|at| at.get(&before).seq).collect();
    let mut retention = Retention::last(wanted.last).or(Retention::pinned(pinned.clone()));
    let mut named = pinned;
    let mut now_ms = 0;
    if let Some(since) = wanted.since {
        now_ms = since.get(&before).at_ms;
        retention = retention.or(Retention::younger_than(Duration::ZERO));
        let young = before.iter().filter(|at| at.at_ms >= now_ms);
        named.extend(young.map(|at| at.seq));
    }
    let tips: BTreeMap<Branch, Seq> = before.iter().map(|at| (at.branch, at.seq)).collect();
    for tip in tips.into_values() {
        let mut at = Some(tip);
        for _ in 0..wanted.last {
            let Some(seq) = at else { break };
            named.insert(seq);
            at = parents.get(&seq).copied().flatten();
        }
    }
    let surplus = Surplus::of(store, t, &retention, now_ms).await.unwrap();
    let what = Retain {
        thread: t.clone(),
        retention,
        now_ms,
        holder: None,
    };
    let done = store.retain(what).await.unwrap();
    assert_eq!(done.dropped, surplus.records.len() as u64);
    let after = store.records(t, Seq::new(0), usize::MAX).await.unwrap();
    assert_eq!(done.kept, after.len() as u64);
    named
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whatever way a thread goes, the state of each checkpoint is that of its own line, a replay
    /// finds nothing, the doctor finds nothing, and a prune keeps every head.
    #[test]
    fn each_checkpoint_has_the_state_of_its_line(
        acts in prop::collection::vec(act(), 1..24),
        wanted in wanted(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (store, t) = (MemoryStore::new(), thread("t"));
            let options = RunOptions::new().base_every(3);
            let runner = Runner::new(book()).store(store.clone()).options(options);
            runner.run(&t, Command::start(writes(INPUT))).await.unwrap();
            for act in acts {
                let before = history(&store, &t).await.unwrap();
                does(&runner, &store, &t, act).await;
                let after = history(&store, &t).await.unwrap();
                assert_eq!(after[..before.len()], before);
            }
            let mut expected: BTreeMap<Seq, Book> = BTreeMap::new();
            for at in history(&store, &t).await.unwrap() {
                let before = at.parent.map(|parent| expected[&parent].clone());
                let book = fold(before.unwrap_or_default(), &at);
                assert_eq!(*runner.state_at(&t, at.seq).await.unwrap(), book, "{at:?}");
                expected.insert(at.seq, book);
            }
            let clean = async || {
                let checked = check(&store, &t).await;
                let worst = checked.findings.iter().map(|found| found.severity).max();
                assert!(worst <= Some(Severity::Note), "{:#?}", checked.findings);
            };
            clean().await;
            let last = store.head(&t).await.unwrap().unwrap().branch.get();
            let heads = Wanted { last: 1, pinned: Vec::new(), since: None };
            for wanted in [None, Some(wanted), Some(heads)] {
                let pruned = wanted.is_some();
                if let Some(wanted) = wanted {
                    for named in retained(&store, &t, wanted).await {
                        let state = runner.state_at(&t, named).await.unwrap();
                        assert_eq!(*state, expected[&named], "checkpoint {named}");
                    }
                    clean().await;
                }
                for branch in 0..=last {
                    let Ok(moved) = runner.switch(&t, Branch::new(branch)).await else {
                        panic!("branch {branch} is gone, pruned {pruned}");
                    };
                    let state = runner.state(&t).await.unwrap();
                    assert_eq!(*state, expected[&moved.seq], "branch {branch}");
                    let report = runner.replay(&t).await.unwrap();
                    assert_eq!(report.differences, []);
                }
            }
            clean().await;
        });
    }
}

/// A reducer that counts how often it is asked: it never gives the same twice.
struct Impure;

static ASKED: AtomicU64 = AtomicU64::new(0);

impl Reducer<u64> for Impure {
    type Update = u64;

    fn reduce(value: &mut u64, updates: Updates<u64>) -> Result<(), ReduceFault> {
        let asked = ASKED.fetch_add(1, Ordering::SeqCst);
        *value = updates.into_iter().sum::<u64>() + asked;
        Ok(())
    }
}

#[derive(Clone, Debug, Default, PartialEq, State)]
struct Odd {
    #[reduce(Impure)]
    odd: u64,
    #[reduce(Add)]
    even: u64,
}

#[test]
fn a_reducer_that_is_not_pure_is_found() {
    on_both(async || {
        let (store, t) = (MemoryStore::new(), thread("t"));
        let mut g = Graph::builder("odd");
        let one = g.node("one", async |_: Snapshot<Odd>, _: Context| {
            Ok::<_, NodeError>(Odd::update().odd(1).even(2))
        });
        let two = g.node("two", async |_: Snapshot<Odd>, _: Context| {
            Ok::<_, NodeError>(Odd::update().even(2))
        });
        g.start(one);
        g.edge(one, two);
        g.edge(two, End);
        let runner = Runner::new(g.build().unwrap()).store(store.clone());
        let report = runner.run(&t, Command::start(Odd::update())).await.unwrap();
        let before = check(&store, &t).await.records;
        let replay = runner.replay(&t).await.unwrap();
        assert_eq!(replay.checkpoints, 3);
        let [
            Difference::Field {
                seq,
                field,
                recorded,
                now,
                ..
            },
        ] = replay.differences.as_slice()
        else {
            panic!("{:?}", replay.differences);
        };
        // It is told where it happened, and nowhere else.
        assert_eq!(
            (field.as_str(), seq.get()),
            ("odd", report.seq.unwrap().get() - 1)
        );
        assert_ne!(recorded, now);
        assert_eq!(
            check(&store, &t).await.records,
            before,
            "nothing is written"
        );
    });
}

#[derive(Clone, Copy, Exits)]
enum Size {
    Small,
    Large,
}

/// `a`, then `each` of some, or the end, as a closure over the state decides.
fn sized(large: u64, split: fn(&Book) -> Vec<u64>, fails: bool) -> Graph<Book> {
    let mut g = Graph::builder("sized");
    let a = g.node("a", async |_: Snapshot<Book>, _: Context| {
        Ok::<_, NodeError>(writes(A))
    });
    let each = g.worker("each", async |n: u64, _: Snapshot<Book>, _: Context| {
        Ok::<_, NodeError>(Book::update().log(vec![n]))
    });
    g.start(a);
    g.branch(
        a,
        move |book: &Book| match fails {
            true => Err(NodeError::permanent("it does not know")),
            false => Ok(if book.sum < large {
                Size::Small
            } else {
                Size::Large
            }),
        },
        |size| match size {
            Size::Small => End.into(),
            Size::Large => each.each(split),
        },
    );
    g.edge(each, End);
    g.build().unwrap()
}

#[test]
fn a_branch_and_a_split_that_were_changed_are_found() {
    on_both(async || {
        let (store, t) = (MemoryStore::new(), thread("t"));
        let shared: Arc<dyn CheckpointStore> = Arc::new(store);
        let over = |graph| Runner::new(graph).shared_store(Arc::clone(&shared));
        let two: fn(&Book) -> Vec<u64> = |_| vec![1, 2];
        let runner = over(sized(5, two, false));
        runner.run(&t, Command::start(writes(INPUT))).await.unwrap();
        assert_eq!(runner.replay(&t).await.unwrap().differences, []);
        let found = async |graph| over(graph).replay(&t).await.unwrap().differences;

        let changed = found(sized(500, two, false)).await;
        let [
            Difference::Edges { recorded, now, .. },
            Difference::Next { now: next, .. },
        ] = changed.as_slice()
        else {
            panic!("{changed:?}");
        };
        assert_eq!(
            (recorded[0].label.as_str(), now[0].label.as_str()),
            ("Large", "Small")
        );
        assert_eq!(next.len(), 0);

        // As many payloads, and others.
        let changed = found(sized(5, |_| vec![1, 3], false)).await;
        assert!(
            matches!(changed.as_slice(), [Difference::Next { .. }]),
            "{changed:?}"
        );
        let changed = found(sized(5, |book| book.log.clone(), true)).await;
        let [Difference::Refused { why, .. }] = changed.as_slice() else {
            panic!("{changed:?}");
        };
        assert!(why.contains("it does not know"), "{why}");
        let unknown = runner.replay(&thread("unknown")).await;
        assert!(matches!(unknown, Err(RunError::NotFound { .. })));
        let other = Runner::new(book()).shared_store(Arc::clone(&shared));
        let refused = other.replay(&t).await;
        assert!(matches!(refused, Err(RunError::OtherGraph { .. })));
    });
}
