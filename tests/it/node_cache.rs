//! Nodes that keep their outcomes under a key, for a time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use milepost::store::{OutcomeRef, Record};
use milepost::{
    Append, Ask, CacheKey, Command, Context, Effect, End, Ended, Event, EventKind, Exits, Graph,
    MemoryCache, NodeCache, NodeError, NodeKind, Output, Policy, Problem, RunError, RunOptions,
    Runner, Snapshot, State, events,
};
use serde::{Deserialize, Serialize};

use crate::support::{Calls, DOORS, Doc, Place, drive, fed, line, listen, on_both, thread, with};

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, Exits)]
enum Way {
    Again,
    Enough,
}

/// Looks up `n % 2` and goes round until `n` is four; the body is counted.
fn rounds(calls: &Calls) -> Graph<Doc> {
    let mut g = Graph::builder("rounds");
    let next = g.node("next", async |doc: Snapshot<Doc>, _: Context| {
        Ok(Doc::update().n(doc.n + 1))
    });
    let look = with(
        calls.clone(),
        async |calls: Calls, doc: Snapshot<Doc>, _: Context| {
            let times = calls.hit("look");
            let way = if doc.n.is_multiple_of(2) {
                Way::Enough
            } else {
                Way::Again
            };
            Ok((line(format!("{} found {times}", doc.n % 2)), way))
        },
    );
    let look = g.node("look", look);
    g.cache(look, |doc: &Doc| doc.n % 2, HOUR);
    let judge = g.node("judge", async |_: Snapshot<Doc>, _: Context| {
        Ok(Doc::update())
    });
    g.start(next);
    g.edge(next, look);
    g.wire(look, |way| match way {
        Way::Again => next.into(),
        Way::Enough => judge.into(),
    });
    g.branch(
        judge,
        |doc| {
            Ok(match doc.n {
                4.. => Way::Enough,
                _ => Way::Again,
            })
        },
        |way| match way {
            Way::Again => next.into(),
            Way::Enough => End.into(),
        },
    );
    g.build().unwrap()
}

/// Whether each end of a task of a node came from the cache.
fn cached(events: &[Event], node: &str) -> Vec<bool> {
    let ended = |event: &Event| match &event.kind {
        EventKind::TaskFinished { task, tries, .. } if task.task().node.as_str() == node => {
            assert_eq!(tries.len(), 1);
            Some(tries[0].cached)
        }
        _ => None,
    };
    events.iter().filter_map(ended).collect()
}

/// A task whose key was seen takes the update and the exit from then, through every door and with
/// every store; its record says so, and a replay finds nothing else.
#[tokio::test(start_paused = true)]
async fn a_key_that_was_seen_is_not_computed_again() {
    for place in [Place::Nowhere, Place::memory(), Place::sled()] {
        for door in DOORS {
            let calls = Calls::default();
            let runner = place.runner(rounds(&calls), RunOptions::new());
            let t = thread(&format!("{door:?}"));
            let (ended, doc) = drive(door, &runner, &t, Command::start(Doc::update()))
                .await
                .unwrap();
            assert_eq!((ended, calls.of("look")), (Ended::Finished, 2));
            assert_eq!(
                doc.log,
                ["1 found 1", "0 found 2", "1 found 1", "0 found 2"]
            );
            let Some(store) = runner_store(&place, &runner) else {
                continue;
            };
            let told = events(&*store, &t).await.unwrap();
            assert_eq!(cached(&told, "look"), [false, false, true, true]);
            assert_eq!(cached(&told, "next"), [false; 4]);
            let records = store.records(&t, milepost::Seq::new(1), 100).await.unwrap();
            let kept = records.iter().filter(|stored| {
                match &*stored.record {
                Record::Commit(commit) => commit.outcomes.iter().any(|outcome| {
                    matches!(outcome, OutcomeRef::Inline(outcome) if outcome.attempts[0].cached)
                }),
                _ => false,
            }
            });
            assert_eq!(kept.count(), 2);
            assert_eq!(runner.replay(&t).await.unwrap().differences, []);
        }
    }
}

fn runner_store(
    place: &Place,
    _: &Runner<Doc>,
) -> Option<Arc<dyn milepost::store::CheckpointStore>> {
    match place {
        Place::Memory(_) => place.open(),
        _ => None,
    }
}

/// What is kept is the runner's: it serves all its threads, until it is no longer fresh. A task
/// that is answered from it is not said to be tried.
#[tokio::test(start_paused = true)]
async fn an_outcome_is_kept_for_its_time_and_no_longer() {
    let calls = Calls::default();
    let runner = Place::memory().runner(rounds(&calls), RunOptions::new());
    runner
        .run(&thread("a"), Command::start(Doc::update()))
        .await
        .unwrap();
    let (told, _) = listen(&runner, &thread("b"), Command::start(Doc::update())).await;
    assert_eq!(calls.of("look"), 2);
    assert_eq!(cached(&told, "look"), [true; 4]);
    let tried = told.iter().filter(|event| {
        matches!(&event.kind, EventKind::TaskStarted { task, .. } if task.task().node.as_str() == "look")
    });
    assert_eq!(tried.count(), 0);
    tokio::time::advance(HOUR).await;
    let (told, _) = listen(&runner, &thread("c"), Command::start(Doc::update())).await;
    assert_eq!(calls.of("look"), 4);
    assert_eq!(cached(&told, "look"), [false, false, true, true]);
}

/// A worker that fails as often as it is told for each payload, and waits before it ends.
fn workers(calls: &Calls, failures: u32, payloads: &'static [u64]) -> Graph<Doc> {
    let mut g = Graph::builder("workers");
    let work = fed(
        calls.clone(),
        move |calls: Calls, item: u64, _: Snapshot<Doc>, _: Context| async move {
            let times = calls.hit(&format!("work {item}"));
            calls.hit("now");
            assert_eq!(calls.of("now"), 1, "two at once");
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            calls.forget("now");
            match times <= failures {
                true => Err(NodeError::permanent("not yet")),
                false => Ok(line(format!("{item} at {times}"))),
            }
        },
    );
    let work = g.worker("work", work);
    g.worker_cache(work, |item: &u64, _: &Doc| item % 10, HOUR);
    g.start(work.each(move |_: &Doc| payloads.to_vec()));
    g.edge(work, End);
    g.build().unwrap()
}

/// Of tasks with one key, one runs, at a time; the others take what it has found.
#[test]
fn one_task_computes_what_several_want() {
    on_both(|| async {
        for place in [Place::Nowhere, Place::memory()] {
            let calls = Calls::default();
            let graph = workers(&calls, 0, &[1, 11, 21, 31, 1, 1, 1, 1]);
            let runner = place.runner(graph, RunOptions::new());
            let report = runner
                .run(&thread("t"), Command::start(Doc::update()))
                .await
                .unwrap();
            let all = calls.all();
            assert_eq!(all.values().sum::<u32>(), 1, "{all:?}");
            assert_eq!(report.state.log.len(), 8);
            assert!(
                report
                    .state
                    .log
                    .iter()
                    .all(|line| line == &report.state.log[0])
            );
        }
    });
}

/// Two runs that share a cache wait for one another, too.
#[test]
fn two_runners_compute_once() {
    on_both(|| async {
        let calls = Calls::default();
        let cache: Arc<dyn NodeCache> = Arc::new(MemoryCache::new());
        let runner = || {
            let options = RunOptions::new().shared_cache(Arc::clone(&cache));
            Runner::new(workers(&calls, 0, &[1])).options(options)
        };
        let (one, two) = (runner(), runner());
        let (a, b) = (thread("a"), thread("b"));
        let (one, two) = tokio::join!(
            one.run(&a, Command::start(Doc::update())),
            two.run(&b, Command::start(Doc::update()))
        );
        assert_eq!(one.unwrap().state.log, two.unwrap().state.log);
        assert_eq!(calls.of("work 1"), 1);
    });
}

/// A failure is never kept: whoever waits for it tries, as does the next run.
#[tokio::test(start_paused = true)]
async fn a_failure_is_never_kept() {
    let calls = Calls::default();
    let place = Place::memory();
    let runner = place.runner(workers(&calls, 1, &[1]), RunOptions::new());
    let t = thread("t");
    let error = runner.run(&t, Command::start(Doc::update())).await;
    assert!(matches!(error, Err(RunError::Node { .. })));
    let report = runner.run(&t, Command::go_on()).await.unwrap();
    assert_eq!(
        (calls.of("work 1"), &report.state.log[..]),
        (2, &["1 at 2".to_owned()][..])
    );

    // Nor is one that the graph tolerates.
    let calls = Calls::default();
    let mut g = Graph::<Doc>::builder("tolerant");
    let work = fed(
        calls.clone(),
        async |calls: Calls, _: u64, _: Snapshot<Doc>, _: Context| match calls.hit("work") {
            1 => Err(NodeError::permanent("no")),
            _ => Ok(line("done")),
        },
    );
    let work = g.worker("work", work);
    g.worker_cache(work, |item: &u64, _: &Doc| *item, HOUR);
    g.worker_error(work, |_, _| line("tolerated"));
    g.start(work.each(|_: &Doc| vec![1, 1, 1]));
    g.edge(work, End);
    let runner = Runner::new(g.build().unwrap());
    let report = runner.run(&t, Command::start(Doc::update())).await.unwrap();
    let mut log = report.state.log.clone();
    log.sort();
    assert_eq!(
        (log, calls.of("work")),
        (["done", "done", "tolerated"].map(str::to_owned).to_vec(), 2)
    );
}

/// Writes itself as it is told.
struct Odd(u64);

impl Serialize for Odd {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            1 => Err(serde::ser::Error::custom("no")),
            n => to.serialize_u64(n),
        }
    }
}

/// A key that panics or cannot be written is the task's error: it never stands for another key.
#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_made_fails_the_task() {
    let runner = || {
        let mut g = Graph::<Doc>::builder("odd");
        let a = g.node("a", async |_: Snapshot<Doc>, _: Context| Ok(line("a")));
        let key = |doc: &Doc| match doc.n {
            2 => panic!("no key"),
            n => Odd(n),
        };
        g.cache(a, key, HOUR);
        g.start(a);
        g.edge(a, End);
        Runner::new(g.build().unwrap())
    };
    for (n, class) in [(1, "invalid"), (2, "panicked")] {
        let start = Command::start(Doc::update().n(n));
        let error = runner().run(&thread("t"), start).await.unwrap_err();
        assert_eq!(error.class(), class, "{error}");
    }
    let start = Command::start(Doc::update().n(3));
    runner().run(&thread("t"), start).await.unwrap();
}

#[derive(Serialize, Deserialize)]
struct Sure {}

impl Ask for Sure {
    type Answer = bool;
}

/// What may not stand for another run of its node is refused when the graph is built.
#[test]
fn a_node_that_may_not_be_kept_is_refused() {
    let mut g = Graph::<Doc>::builder("refused");
    let asks = g.node("asks", async |_: Snapshot<Doc>, _: Context| {
        Ok::<Output<_, (), Sure>, NodeError>(Output::Done(Doc::update(), ()))
    });
    let sends = g.node("sends", async |_: Snapshot<Doc>, _: Context| {
        Ok(Doc::update())
    });
    g.policy(sends, Policy::default().effect(Effect::Irreversible));
    let never = g.node("never", async |_: Snapshot<Doc>, _: Context| {
        Ok(Doc::update())
    });
    let graph = g.node("graph", async |_: Snapshot<Doc>, _: Context| {
        Ok(Doc::update())
    });
    g.kind(graph, NodeKind::Subgraph);
    g.cache(asks, |_: &Doc| (), HOUR);
    g.cache(sends, |_: &Doc| (), HOUR);
    g.cache(never, |_: &Doc| (), Duration::ZERO);
    g.cache(graph, |_: &Doc| (), HOUR);
    g.start(asks);
    g.edge(asks, sends);
    g.edge(sends, never);
    g.edge(never, graph);
    g.edge(graph, End);
    let error = g.build().unwrap_err();
    let refused: Vec<_> = error
        .problems
        .iter()
        .map(|problem| match problem {
            Problem::Cache { node, .. } => node.as_str(),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(refused, ["asks", "sends", "never", "graph"]);
}

/// A cache of another kind, which notes what is asked of it and fails where it is told to.
#[derive(Debug, Default)]
struct Noted {
    inner: MemoryCache,
    fails: bool,
    calls: Calls,
}

#[async_trait]
impl NodeCache for Noted {
    async fn get(&self, key: &CacheKey) -> Result<Option<Vec<u8>>, NodeError> {
        self.calls.hit(&key.to_string()[..32]);
        match self.fails {
            true => Err(NodeError::transient("the cache is away")),
            false => self.inner.get(key).await,
        }
    }

    async fn put(
        &self,
        key: &CacheKey,
        outcome: Vec<u8>,
        fresh: Duration,
    ) -> Result<(), NodeError> {
        match self.fails {
            true => Err(NodeError::transient("the cache is away")),
            false => self.inner.put(key, outcome, fresh).await,
        }
    }
}

/// A cache that fails costs time, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_cache_that_fails_costs_time_and_nothing_else() {
    let calls = Calls::default();
    let options = RunOptions::new().cache(Noted {
        fails: true,
        ..Noted::default()
    });
    let runner = Runner::new(rounds(&calls)).options(options);
    let report = runner
        .run(&thread("t"), Command::start(Doc::update()))
        .await
        .unwrap();
    assert_eq!((report.ended, calls.of("look")), (Ended::Finished, 4));
}

/// One node, and another one before it where it is asked for.
macro_rules! one {
    ($state:ty, $name:literal, $more:literal, $calls:expr) => {{
        let mut g = Graph::<$state>::builder($name);
        let calls: Calls = $calls.clone();
        let a = g.node(
            "a",
            with(
                calls,
                async |calls: Calls, _: Snapshot<$state>, _: Context| {
                    calls.hit("a");
                    Ok(<$state>::update().n(1))
                },
            ),
        );
        g.cache(a, |_: &$state| "key", HOUR);
        if $more {
            let b = g.node("b", async |_: Snapshot<$state>, _: Context| {
                Ok(<$state>::update())
            });
            g.start(b);
            g.edge(b, a);
        } else {
            g.start(a);
        }
        g.edge(a, End);
        g.build().unwrap()
    }};
}

/// What is kept belongs to one node of one graph over one type of state: a change of any of them
/// begins anew, a change elsewhere in the graph does not.
#[tokio::test(start_paused = true)]
async fn what_is_kept_belongs_to_its_node() {
    #[derive(Clone, Debug, Default, State)]
    struct Small {
        n: u64,
    }
    #[derive(Clone, Debug, Default, State)]
    struct Large {
        n: u64,
        #[reduce(Append)]
        more: Vec<u64>,
    }
    let noted = Arc::new(Noted::default());
    let calls = Calls::default();
    let cache: Arc<dyn NodeCache> = Arc::clone(&noted) as Arc<dyn NodeCache>;
    let options = || RunOptions::new().shared_cache(Arc::clone(&cache));
    macro_rules! run {
        ($state:ty, $name:literal, $more:literal) => {{
            let graph = one!($state, $name, $more, calls);
            let runner = Runner::new(graph).options(options());
            let start = Command::start(<$state>::update());
            let report = runner.run(&thread("t"), start).await.unwrap();
            assert_eq!(report.state.n, 1);
            calls.of("a")
        }};
    }
    assert_eq!(run!(Small, "one", false), 1);
    assert_eq!(run!(Small, "one", false), 1);
    assert_eq!(run!(Small, "one", true), 1);
    assert_eq!(run!(Small, "two", false), 2);
    assert_eq!(run!(Large, "one", false), 3);
    assert_eq!(noted.calls.all().len(), 3);
}

/// What is kept serves the instances of a graph inside, too: all of them, and the next entries.
#[tokio::test(start_paused = true)]
async fn instances_of_a_graph_inside_share_what_is_kept() {
    for place in [Place::Nowhere, Place::memory()] {
        let calls = Calls::default();
        let inner = || {
            let mut g = Graph::<Doc>::builder("inner");
            let look = with(
                calls.clone(),
                async |calls: Calls, doc: Snapshot<Doc>, _: Context| {
                    tokio::task::yield_now().await;
                    let times = calls.hit(&format!("look {}", doc.n));
                    Ok(line(format!("{} at {times}", doc.n)))
                },
            );
            let look = g.node("look", look);
            g.cache(look, |doc: &Doc| doc.n, HOUR);
            g.start(look);
            g.edge(look, End);
            g.build().unwrap()
        };
        let mut g = Graph::<Doc>::builder("outer");
        let each = g.subgraph_worker(
            "each",
            inner(),
            |item: &u64, _: &Doc| Doc::update().n(*item),
            |_, inner| Doc::update().log(inner.log.clone()),
        );
        g.start(each.each(|_: &Doc| vec![1, 2, 1, 2]));
        g.edge(each, End);
        let runner = place.runner(g.build().unwrap(), RunOptions::new());
        for _ in 0..2 {
            let t = thread("t");
            let report = runner.run(&t, Command::start(Doc::update())).await.unwrap();
            assert_eq!(
                report.state.log[..4],
                ["1 at 1", "2 at 1", "1 at 1", "2 at 1"]
            );
        }
        assert_eq!(calls.all().values().sum::<u32>(), 2);
    }
}
