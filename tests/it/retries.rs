//! Siblings of a failed task, and tasks that somebody runs again.

use std::time::Duration;

use milepost::store::{MemoryStore, Record, ThreadArchive, check};
use milepost::{
    Command, Context, End, ErrorClass, EventKind, Graph, NodeError, RunError, RunOptions, Runner,
    Siblings, TaskPath, events, history,
};

use crate::support::{
    Calls, DOORS, Doc, Place, Probe, When, drive, lasting, line, listen, on_both, says, thread,
    wander, with,
};

fn start() -> Command<Doc> {
    Command::start(Doc::update())
}

fn path(text: &str) -> TaskPath {
    text.parse().unwrap()
}

/// `a`, `b` and `c` beside each other, then `j`; `b` and `c` fail the first time.
fn three(calls: &Calls, seed: u64) -> Graph<Doc> {
    let mut g = Graph::builder("three");
    let node = |name: &'static str, salt: u64| {
        let held = (calls.clone(), seed, name, salt);
        with(held, async |(calls, seed, name, salt), _, _| {
            wander(seed, salt).await;
            match calls.hit(name) {
                1 if name != "a" => Err(NodeError::permanent(format!("{name} not today"))),
                _ => Ok(line(name)),
            }
        })
    };
    let [a, b, c] =
        [("a", 1), ("b", 2), ("c", 3)].map(|(name, salt)| g.node(name, node(name, salt)));
    let j = g.node("j", says(calls, "j"));
    g.start(a.and(b).and(c));
    for node in [a, b, c] {
        g.edge(node, j);
    }
    g.edge(j, End);
    g.build().unwrap()
}

/// C22 (1): with one task at a time, nothing more starts behind the one that fails, or all others
/// start and end before the call fails with every error in path order.
/// On one thread: who of two waiting tasks gets the next permit is open on several.
#[tokio::test(start_paused = true)]
async fn siblings_of_a_failed_task_are_let_start_or_not_as_the_options_say() {
    for (siblings, failed, called) in [
        (Siblings::FailFast, 1, (1, 1, 0)),
        (Siblings::Collect, 2, (1, 1, 1)),
    ] {
        for place in [Place::Nowhere, Place::memory(), Place::sled()] {
            for door in DOORS {
                let (calls, t) = (Calls::default(), thread(&format!("{door:?}")));
                let options = RunOptions::new().siblings(siblings).concurrency(1);
                let runner = place.runner(three(&calls, 0), options);
                let failure = drive(door, &runner, &t, start()).await.unwrap_err();
                let RunError::Node { task, others, .. } = &failure else {
                    panic!("{failure}")
                };
                assert_eq!(task.to_string(), "1:b[0]");
                assert_eq!(1 + others.len(), failed);
                assert!(others.iter().all(|(task, _)| task.to_string() == "1:c[0]"));
                assert_eq!((calls.of("a"), calls.of("b"), calls.of("c")), called);
                if matches!(place, Place::Nowhere) {
                    continue;
                }
                let mut ended = drive(door, &runner, &t, Command::go_on()).await;
                if siblings == Siblings::FailFast {
                    ended.unwrap_err();
                    ended = drive(door, &runner, &t, Command::go_on()).await;
                }
                assert_eq!(ended.unwrap().1.log, ["a", "b", "c", "j"]);
                assert_eq!((calls.of("a"), calls.of("b"), calls.of("c")), (1, 2, 2));
            }
        }
    }
}

/// Whatever the order in which they end, those that fail are told in path order.
#[test]
fn all_errors_are_collected_in_path_order() {
    on_both(async || {
        for seed in 0..16 {
            let calls = Calls::default();
            let options = RunOptions::new().siblings(Siblings::Collect).shuffle(seed);
            let runner = Place::memory().runner(three(&calls, seed), options);
            let failure = runner.run(&thread("t"), start()).await.unwrap_err();
            let RunError::Node { task, others, .. } = &failure else {
                panic!("{failure}")
            };
            assert_eq!(task.to_string(), "1:b[0]");
            assert_eq!(others[0].0.to_string(), "1:c[0]");
            assert_eq!(failure.class(), ErrorClass::Permanent.name());
        }
    });
}

/// What a sibling of a failed task has brought is kept, until somebody discards it.
#[test]
fn a_finished_task_runs_again_when_somebody_says_so() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            for door in DOORS {
                let (calls, t) = (Calls::default(), thread(&format!("{door:?}")));
                let collect = || RunOptions::new().siblings(Siblings::Collect);
                let runner = place.runner(three(&calls, 0), collect());
                drive(door, &runner, &t, start()).await.unwrap_err();
                drop(runner);
                let runner = place.runner(three(&calls, 0), collect());
                let again = Command::retry([path("1:a[0]"), path("1:b[0]"), path("1:a[0]")]);
                let (_, state) = drive(door, &runner, &t, again).await.unwrap();
                assert_eq!(state.log, ["a", "b", "c", "j"]);
                let all = ["a", "b", "c", "j"].map(|name| calls.of(name));
                assert_eq!(all, [2, 2, 2, 1]);
                drop(runner);
                let store = place.open().unwrap();
                let findings = check(&*store, &t).await.findings;
                assert!(
                    findings.iter().all(|finding| !finding.is_error()),
                    "{findings:?}"
                );
                let told = events(&*store, &t).await.unwrap();
                let ended = told.iter().filter(|event| {
                    matches!(&event.kind, EventKind::TaskFinished { task, .. } if *task == path("1:a[0]"))
                });
                assert_eq!(ended.count(), 2);
                let gone = told.iter().find_map(|event| match &event.kind {
                    EventKind::Discarded { tasks, .. } => Some(tasks.clone()),
                    _ => None,
                });
                assert_eq!(gone, Some(vec![path("1:a[0]")]));
                assert_eq!(history(&*store, &t).await.unwrap().len(), 3);
            }
        }
    });
}

/// A listener hears of it what a reader of the log sees, in the same order.
#[test]
fn a_retry_is_told() {
    on_both(async || {
        let (calls, store, t) = (Calls::default(), MemoryStore::new(), thread("t"));
        let options = RunOptions::new().siblings(Siblings::Collect);
        let runner = Runner::new(three(&calls, 0))
            .store(store.clone())
            .options(options);
        runner.run(&t, start()).await.unwrap_err();
        let before = events(&store, &t).await.unwrap().len();
        let (heard, ended) = listen(&runner, &t, Command::retry([path("1:a[0]")])).await;
        ended.unwrap();
        let told = events(&store, &t).await.unwrap();
        assert_eq!(lasting(&heard), told[before..]);
    });
}

/// Tasks that are not open are refused, and what is open is shown; then nothing is discarded.
#[test]
fn only_tasks_of_the_open_superstep_run_again() {
    on_both(async || {
        let (calls, place, t) = (Calls::default(), Place::memory(), thread("t"));
        let options = RunOptions::new().siblings(Siblings::Collect);
        let runner = place.runner(three(&calls, 0), options);
        let nothing = runner.retry(&t, [path("1:a[0]")]).await.unwrap_err();
        assert!(matches!(nothing, RunError::NotFound { .. }));
        runner.run(&t, start()).await.unwrap_err();
        for unknown in ["1:j[0]", "2:a[0]", "1:a[1]", "1:nosuch[0]", "1:a[0]/1:a[0]"] {
            let named = [path("1:a[0]"), path(unknown)];
            let refused = runner.retry(&t, named).await.unwrap_err();
            let RunError::NoTask { task, open, .. } = &refused else {
                panic!("{refused}")
            };
            assert_eq!(*task, path(unknown));
            let expected = [("1:a[0]", true), ("1:b[0]", false), ("1:c[0]", false)];
            assert_eq!(*open, expected.map(|(task, ended)| (path(task), ended)));
            let text = refused.to_string();
            assert!(
                text.ends_with("1:a[0] (ended), 1:b[0] (left to run), 1:c[0] (left to run)"),
                "{text}"
            );
        }
        assert_eq!(calls.of("a"), 1);
        let report = runner.retry(&t, []).await.unwrap();
        assert_eq!((report.state.log.len(), calls.of("a")), (4, 1));
        let closed = runner.retry(&t, [path("1:a[0]")]).await.unwrap_err();
        assert!(
            closed.to_string().ends_with("no superstep is open"),
            "{closed}"
        );
    });
}

/// A run that is held runs tasks again without a store, too.
#[test]
fn a_held_run_discards_what_its_tasks_have_brought() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory()] {
            let (calls, t) = (Calls::default(), thread("t"));
            let options = RunOptions::new().siblings(Siblings::Collect);
            let runner = place.runner(three(&calls, 0), options);
            let mut run = runner.open(&t, start()).await.unwrap();
            run.step().await.unwrap_err();
            run.retry([path("1:a[0]")]).await.unwrap();
            assert!(matches!(
                run.retry([path("3:a[0]")]).await,
                Err(RunError::NoTask { .. })
            ));
            let report = run.finish().await.unwrap();
            assert_eq!(report.state.log, ["a", "b", "c", "j"]);
            assert_eq!((calls.of("a"), calls.of("b")), (2, 2));
        }
    });
}

/// At whichever operation the store fails while tasks are run again, the next call ends as the
/// undisturbed one would.
#[test]
fn a_retry_survives_a_crash() {
    on_both(async || {
        let t = thread("t");
        let mut crashed = 0;
        for when in [When::Before, When::After] {
            for at in 1.. {
                let (calls, store) = (Calls::default(), MemoryStore::new());
                let options = || RunOptions::new().siblings(Siblings::Collect);
                let graph = || three(&calls, 0);
                let first = Runner::new(graph()).store(store.clone()).options(options());
                first.run(&t, start()).await.unwrap_err();
                let probe = Probe::new(store.clone()).failing(at, when);
                let second = Runner::new(graph()).store(probe).options(options());
                let ended = second.retry(&t, [path("1:a[0]")]).await;
                let archive = ThreadArchive::read(&store, &t).await.unwrap().unwrap();
                archive.check().unwrap();
                let records = archive.records.iter();
                let gone = records.filter(|stored| matches!(*stored.record, Record::Discarded(_)));
                let discarded = gone.count() > 0;
                let report = first.run(&t, Command::go_on()).await.unwrap();
                assert_eq!(report.state.log, ["a", "b", "c", "j"], "{at} {when:?}");
                assert!(!discarded || calls.of("a") >= 2);
                assert!(discarded || calls.of("a") == 1);
                crashed += u32::from(ended.is_err());
                if ended.is_ok() {
                    break;
                }
            }
        }
        assert!(crashed > 6, "{crashed}");
    });
}

/// S025: a durable step of a task that runs again is not done again.
#[test]
fn the_steps_of_a_task_that_runs_again_are_kept() {
    on_both(async || {
        let (calls, place, t) = (Calls::default(), Place::memory(), thread("t"));
        let mut g = Graph::builder("steps");
        let a = g.node(
            "a",
            with(calls.clone(), async |calls: Calls, _, cx: Context| {
                calls.hit("a");
                let paid = cx.step("pay", async { Ok(calls.hit("pay")) }).await?;
                Ok(Doc::update().sum(u64::from(paid)))
            }),
        );
        let b = g.node(
            "b",
            with(calls.clone(), async |calls: Calls, _, _| {
                tokio::time::sleep(Duration::from_millis(1)).await;
                match calls.hit("b") {
                    1 => Err(NodeError::permanent("not today")),
                    _ => Ok(Doc::update()),
                }
            }),
        );
        g.start(a.and(b));
        g.edge(a, End);
        g.edge(b, End);
        let options = RunOptions::new().siblings(Siblings::Collect);
        let runner = place.runner(g.build().unwrap(), options);
        runner.run(&t, start()).await.unwrap_err();
        let report = runner.retry(&t, [path("1:a[0]")]).await.unwrap();
        assert_eq!(report.state.sum, 1);
        assert_eq!((calls.of("a"), calls.of("pay")), (2, 1));
    });
}

/// A graph that a discarded task has run begins anew, with all that is inside of it; one beside it
/// goes on.
#[test]
fn the_graph_that_a_task_runs_begins_anew() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let (calls, t) = (Calls::default(), thread("t"));
            let build = || {
                let inner = |name: &'static str| {
                    let mut g = Graph::builder(name);
                    let (x, y) = (
                        g.node("x", says(&calls, name)),
                        g.node("y", says(&calls, "y")),
                    );
                    g.start(x);
                    g.edge(x, y);
                    g.edge(y, End);
                    g.build().unwrap()
                };
                let mut g = Graph::builder("outer");
                let leave = |inner: &Doc| Doc::update().log(inner.log.clone());
                let enter = |_: &Doc| Doc::update();
                let one = g.subgraph("one", inner("one"), enter, leave);
                let other = g.subgraph("other", inner("other"), enter, leave);
                let b = g.node(
                    "b",
                    with(calls.clone(), async |calls: Calls, _, _| {
                        match calls.hit("b") {
                            1 => Err(NodeError::permanent("not today")),
                            _ => Ok(Doc::update()),
                        }
                    }),
                );
                g.start(one.and(other).and(b));
                for node in [one, other, b] {
                    g.edge(node, End);
                }
                g.build().unwrap()
            };
            let options = || RunOptions::new().siblings(Siblings::Collect);
            let runner = place.runner(build(), options());
            runner.run(&t, start()).await.unwrap_err();
            assert_eq!(
                (calls.of("one"), calls.of("other"), calls.of("y")),
                (1, 1, 2)
            );
            drop(runner);
            let runner = place.runner(build(), options());
            let mut run = runner
                .open(&t, Command::retry([path("1:one[0]")]))
                .await
                .unwrap();
            drop(run);
            // What was discarded stays so, whoever goes on.
            run = runner.open(&t, Command::go_on()).await.unwrap();
            let report = run.finish().await.unwrap();
            assert_eq!(report.state.log, ["one", "y", "other", "y"]);
            assert_eq!(
                (calls.of("one"), calls.of("other"), calls.of("y")),
                (2, 1, 3)
            );
            drop((run, report, runner));
            let store = place.open().unwrap();
            let findings = check(&*store, &t).await.findings;
            assert!(
                findings.iter().all(|finding| !finding.is_error()),
                "{findings:?}"
            );
        }
    });
}
