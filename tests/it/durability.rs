//! When a run waits for its store: what is written, what is safe, and what others see (design §6).

use std::sync::Arc;

use futures::StreamExt;
use milepost::store::{Asked, CheckpointStore, MemoryStore, Record, Status, StoreError, Stored};
use milepost::{
    Ask, Busy, Command, Context, Durability, Effect, End, Ended, EventKind, Exits, Graph,
    NodeError, Output, Policy, Progress, RunError, RunOptions, Runner, Seq, Snapshot, cancel,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::support::{
    Calls, DOORS, Doc, DocUpdate, Door, Place, Probe, When, drive, line, on_both, says, thread,
    with,
};

const MODES: [Durability; 3] = [Durability::Each, Durability::Background, Durability::AtEnd];

#[derive(Clone, Copy, Exits)]
enum Round {
    Again,
    Enough,
}

/// A loop of so many rounds, each of which notes so many bytes; then two nodes at once, and a last one.
fn rounds(calls: &Calls, rounds: u64, bytes: usize) -> Graph<Doc> {
    let mut g = Graph::builder("rounds");
    let turn = with(
        (calls.clone(), rounds, bytes),
        async |(calls, rounds, bytes): (Calls, u64, usize), doc: Snapshot<Doc>, _: Context| {
            calls.hit("turn");
            let exit = match doc.n + 1 < rounds {
                true => Round::Again,
                false => Round::Enough,
            };
            Ok((line("x".repeat(bytes)).n(doc.n + 1), exit))
        },
    );
    let turn = g.node("turn", turn);
    let side = |name: &'static str| {
        with(
            (calls.clone(), name),
            async |(calls, name): (Calls, &str), _: Snapshot<Doc>, _: Context| {
                calls.hit(name);
                tokio::task::yield_now().await;
                Ok(Doc::update().sum(2))
            },
        )
    };
    let (left, right) = (g.node("left", side("left")), g.node("right", side("right")));
    let last = g.node("last", side("last"));
    g.start(turn);
    g.wire(turn, |exit| match exit {
        Round::Again => turn.into(),
        Round::Enough => left.and(right),
    });
    g.join([left, right], last);
    g.edge(last, End);
    g.build().unwrap()
}

fn start() -> Command<Doc> {
    Command::start(Doc::update())
}

fn options(mode: Durability) -> RunOptions {
    RunOptions::new().durability(mode)
}

async fn log(store: &dyn CheckpointStore) -> Vec<Stored> {
    let log = store.records(&thread("t"), Seq::new(1), usize::MAX).await;
    log.unwrap()
}

/// What kinds of records there are, and of which superstep.
fn kinds(log: &[Stored]) -> Vec<String> {
    let kind = |stored: &Stored| match &*stored.record {
        Record::Input(_) => "input".to_owned(),
        Record::Outcome(outcome) => format!("outcome {}", outcome.step),
        Record::Commit(commit) => format!("commit {} {}", commit.step, commit.status),
        Record::Base(base) => format!("base {}", base.at),
        other => format!("{other:?}").split('(').next().unwrap().to_owned(),
    };
    log.iter().map(kind).collect()
}

async fn seen(store: MemoryStore) -> Vec<String> {
    kinds(&log(&store).await)
}

/// Lets everything run that can.
async fn others_run() {
    for _ in 0..2_000 {
        tokio::task::yield_now().await;
    }
}

/// C61: each mode writes the same log, through every door; only in how many writes differs.
#[test]
fn every_mode_writes_the_same_log() {
    on_both(async || {
        for door in DOORS {
            let mut logs = Vec::new();
            for mode in MODES {
                let (store, calls) = (Probe::new(MemoryStore::new()), Calls::default());
                let runner = Runner::new(rounds(&calls, 70, 10))
                    .options(options(mode))
                    .store(store.clone());
                let (ended, state) = drive(door, &runner, &thread("t"), start()).await.unwrap();
                assert_eq!(
                    (ended, state.sum),
                    (Ended::Finished, 6),
                    "{door:?} {mode:?}"
                );
                logs.push((kinds(&log(&store).await), state.log.len()));
                let writes = store.writes().len();
                match (mode, door) {
                    // Two ends at once may share a write.
                    (Durability::Each, _) => assert!((74..=75).contains(&writes), "{writes}"),
                    // The input, and all the rest at once.
                    (Durability::AtEnd, Door::Run | Door::Stream) => assert_eq!(writes, 2),
                    // Each step that returns is a moment at which all is durable.
                    (_, Door::Step) => assert!((73..=75).contains(&writes), "{writes}"),
                    _ => assert!(writes <= 75, "{writes}"),
                }
                let state = runner.state(&thread("t")).await.unwrap();
                assert_eq!(state.n, 70);
            }
            assert_eq!(logs[0], logs[1], "{door:?}");
            assert_eq!(logs[0], logs[2], "{door:?}");
        }
    });
}

/// A store that does not answer holds up a run only where its window ends.
#[tokio::test(start_paused = true)]
async fn a_run_goes_on_while_its_store_writes_and_not_further_than_its_window() {
    let cases = [
        (Durability::Each, 1_000, 5, 1),
        (Durability::Background, 1_000, 5, 5),
        (Durability::Background, 300 << 10, 20, 4),
        // With 15 bases.
        (Durability::Background, 1, 3_000, 1_009),
        (Durability::AtEnd, 300 << 10, 60, 28),
    ];
    for (mode, bytes, all, gone) in cases {
        let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(1)));
        let store = Probe::new(MemoryStore::new()).behind(&gate);
        let runner = Runner::new(rounds(&calls, all, bytes))
            .options(options(mode).step_limit(10_000).check_round_trip(false))
            .store(store.clone());
        let runs = {
            let runner = runner.clone();
            tokio::spawn(async move { runner.run(&thread("t"), start()).await })
        };
        others_run().await;
        let turns = u64::from(calls.of("turn"));
        let around = gone..=gone + gone / 100 + u64::from(gone < all);
        assert!(
            around.contains(&turns),
            "{mode:?} {bytes}: {turns}, not {gone}"
        );
        let head = store.head(&thread("t")).await.unwrap().unwrap();
        assert_eq!((head.step, head.status), (0, Status::Running), "{mode:?}");
        gate.add_permits(100_000);
        let report = runs.await.unwrap().unwrap();
        assert_eq!((report.ended, report.state.n), (Ended::Finished, all));
        // Nothing was cut: each write ends with a boundary or with ends of tasks.
        let mut next = 1;
        for write in store.writes() {
            assert_eq!(write.first.get(), next);
            next += write.records.len() as u64;
        }
        assert_eq!(Seq::new(next - 1), log(&store).await.last().unwrap().seq);
    }
}

/// C35: a store that fails at any of its operations ends the run with a typed error, and what was
/// stored by then goes on to the same state.
#[test]
fn a_store_that_fails_anywhere_ends_the_run_and_the_thread_goes_on() {
    on_both(async || {
        for mode in [Durability::Background, Durability::AtEnd] {
            for when in [When::Before, When::After] {
                for door in DOORS {
                    let mut failed = 0;
                    for at in 1..40 {
                        let (inner, calls) = (MemoryStore::new(), Calls::default());
                        let store = Probe::new(inner.clone()).failing(at, when);
                        let runner = Runner::new(rounds(&calls, 4, 10)).options(options(mode));
                        let broken = runner.clone().store(store.clone());
                        match drive(door, &broken, &thread("t"), start()).await {
                            Err(RunError::Store(StoreError::Io { .. })) => failed += 1,
                            Ok((Ended::Finished, _)) => assert!(store.operations() < at),
                            other => panic!("{mode:?} {when:?} {door:?} {at}: {other:?}"),
                        }
                        let again = runner.store(inner.clone());
                        let command = match inner.head(&thread("t")).await.unwrap() {
                            Some(_) => Command::go_on(),
                            None => start(),
                        };
                        let (ended, state) =
                            drive(door, &again, &thread("t"), command).await.unwrap();
                        assert_eq!((ended, state.n), (Ended::Finished, 4));
                        assert_eq!((state.sum, state.log.len()), (6, 4));
                    }
                    assert!(failed >= 2, "{mode:?} {when:?} {door:?}: {failed}");
                }
            }
        }
    });
}

/// What is said to be durable is in the store by then, it never comes before what it is about, and in
/// the end everything is.
#[test]
fn durable_is_said_once_it_is_true_and_after_what_it_is_about() {
    on_both(async || {
        for mode in MODES {
            let (store, calls) = (MemoryStore::new(), Calls::default());
            let runner = Runner::new(rounds(&calls, 50, 10))
                .options(options(mode))
                .store(store.clone());
            let mut stream = runner.stream(&thread("t"), start());
            let (mut told, mut durable, mut times) = (0, 0, 0);
            while let Some(event) = stream.next().await {
                let seq = event.seq.map_or(0, Seq::get);
                assert!(seq == 0 || seq > durable, "{event:?} after {durable}");
                told = told.max(seq);
                let EventKind::Durable { up_to } = event.kind else {
                    continue;
                };
                assert!(up_to.get() > durable, "{up_to} after {durable}");
                (durable, times) = (up_to.get(), times + 1);
                assert!(store.records(&thread("t"), up_to, 1).await.unwrap().len() == 1);
            }
            let report = stream.report().await.unwrap();
            match mode {
                Durability::Each => assert_eq!(times, 0),
                _ => assert!(durable >= told && times >= 2, "{told} {durable} {times}"),
            }
            assert_eq!(report.seq.unwrap().get(), told);
        }
    });
}

#[derive(Serialize, Deserialize)]
struct Proceed;

impl Ask for Proceed {
    type Answer = u64;
}

/// Before an effect, an irreversible body, a question or a wait, everything before it is durable;
/// afterwards, so is what came of it.
#[test]
fn an_effect_never_runs_ahead_of_its_record() {
    on_both(async || {
        for mode in MODES {
            let store = MemoryStore::new();
            let mut g = Graph::builder("effects");
            let first = g.node("first", async |_: Snapshot<Doc>, _: Context| {
                Ok(line("first"))
            });
            let pays = with(
                store.clone(),
                async |store: MemoryStore, _: Snapshot<Doc>, cx: Context| {
                    // The first superstep may be on its way still, until the step is recorded.
                    cx.step("pay", async { Ok(1u64) }).await?;
                    Ok(line(seen(store).await.join(",")))
                },
            );
            let pays = g.node("pays", pays);
            let sends = with(
                store.clone(),
                async |store: MemoryStore, _: Snapshot<Doc>, _: Context| {
                    Ok(line(seen(store).await.join(",")))
                },
            );
            let sends = g.node("sends", sends);
            g.policy(sends, Policy::default().effect(Effect::Irreversible));
            let checks = with(
                store.clone(),
                async |store: MemoryStore, _: Snapshot<Doc>, cx: Context| {
                    let known = line(seen(store).await.join(","));
                    Ok::<Output<DocUpdate, (), Proceed>, NodeError>(
                        match cx.answer::<Proceed>("proceed")? {
                            None => Output::ask("proceed", Proceed),
                            Some(_) => Output::Done(known, ()),
                        },
                    )
                },
            );
            let checks = g.node("checks", checks);
            g.start(first);
            g.edge(first, pays);
            g.edge(pays, sends);
            g.edge(sends, checks);
            g.edge(checks, End);
            let runner = Runner::new(g.build().unwrap())
                .options(options(mode))
                .store(store.clone());
            let report = runner.run(&thread("t"), start()).await.unwrap();
            assert_eq!(report.ended, Ended::Paused { questions: 1 });
            // Nothing is on its way when a call returns.
            let now = kinds(&log(&store).await);
            assert_eq!(now[now.len() - 2..], ["Question", "Stopped"], "{mode:?}");
            let state = report.state;
            let upto = |line: &str, last: &str| assert!(line.ends_with(last), "{mode:?}: {line}");
            upto(&state.log[1], "commit 1 running,Step");
            upto(&state.log[2], "commit 2 running,Begun");
            let answer = Command::answer(milepost::Answers::only(&7u64));
            let report = runner.run(&thread("t"), answer).await.unwrap();
            // The end of the irreversible task was waited for, too.
            upto(
                &report.state.log[3],
                "commit 3 running,Question,Stopped,Answer,Started",
            );
            assert_eq!(report.ended, Ended::Finished);
        }
    });
}

/// The end of an irreversible task is waited for, because nobody else knows that it ran.
#[tokio::test(start_paused = true)]
async fn the_end_of_an_irreversible_task_is_durable_before_the_next_begins() {
    for mode in [Durability::Background, Durability::AtEnd] {
        let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(2)));
        let store = Probe::new(MemoryStore::new()).behind(&gate);
        let mut g = Graph::builder("sends");
        let node = |name| says(&calls, name);
        let (sends, after) = (
            g.node("sends", node("sends")),
            g.node("after", node("after")),
        );
        let then = g.node("then", node("then"));
        g.policy(sends, Policy::default().effect(Effect::Irreversible));
        g.start(sends);
        g.edge(sends, after);
        g.edge(after, then);
        g.edge(then, End);
        let runner = Runner::new(g.build().unwrap())
            .options(options(mode))
            .store(store.clone());
        let runs = tokio::spawn(async move { runner.run(&thread("t"), start()).await });
        others_run().await;
        // The input and the beginning are written; the end is not.
        assert_eq!((calls.of("sends"), calls.of("after")), (1, 0), "{mode:?}");
        gate.add_permits(1);
        others_run().await;
        assert_eq!((calls.of("after"), calls.of("then")), (1, 1), "{mode:?}");
        gate.add_permits(10);
        runs.await.unwrap().unwrap();
    }
}

async fn drops(mode: Durability, place: &Place) {
    let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(1)));
    let inner = place.open().unwrap();
    let store = Probe::over(Arc::clone(&inner)).behind(&gate);
    let hangs = Arc::new(Semaphore::new(0));
    let mut g = Graph::builder("hangs");
    let node = |name| says(&calls, name);
    let (one, two) = (g.node("one", node("one")), g.node("two", node("two")));
    let waits = with(
        (calls.clone(), Arc::clone(&hangs)),
        async |(calls, hangs): (Calls, Arc<Semaphore>), _: Snapshot<Doc>, _: Context| {
            if calls.hit("waits") == 1 {
                hangs.add_permits(1);
                std::future::pending::<()>().await;
            }
            Ok(line("waits"))
        },
    );
    let waits = g.node("waits", waits);
    g.start(one);
    g.edge(one, two);
    g.edge(two, waits);
    g.edge(waits, End);
    let runner = Runner::new(g.build().unwrap())
        .options(options(mode))
        .store(store);
    let id = thread("t");
    tokio::select! {
        ended = runner.run(&id, start()) => panic!("{ended:?}"),
        hung = hangs.acquire() => drop(hung.unwrap()),
    }
    // It is gone, and its writes wait at the gate.
    assert_eq!(inner.head(&thread("t")).await.unwrap().unwrap().step, 0);
    gate.add_permits(100);
    let report = runner.run(&thread("t"), Command::go_on()).await.unwrap();
    assert_eq!(
        report.state.log,
        ["one", "two", "waits"],
        "{mode:?} {place:?}"
    );
    let counts = ["one", "two", "waits"].map(|name| calls.of(name));
    assert_eq!(counts, [1, 1, 2], "{mode:?} {place:?}");
}

/// A run that is dropped in its middle writes what it had accepted, and whoever comes next waits for
/// that instead of being refused: nothing that was accepted runs again.
#[test]
fn a_run_that_is_dropped_writes_what_it_had_accepted() {
    on_both(async || {
        for mode in [Durability::Background, Durability::AtEnd] {
            drops(mode, &Place::memory()).await;
        }
    });
}

/// The same on a disk, whose threads know nothing of a paused clock.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_dropped_writes_to_its_disk_what_it_had_accepted() {
    for mode in [Durability::Background, Durability::AtEnd] {
        drops(mode, &Place::sled()).await;
    }
}

/// Whoever replaces a run in the same process finds what it had accepted, and so does whoever looks.
#[tokio::test(start_paused = true)]
async fn whoever_takes_over_or_looks_finds_what_was_accepted() {
    let (calls, hangs) = (Calls::default(), Arc::new(Semaphore::new(0)));
    let mut g = Graph::builder("hangs");
    let node = with(
        calls.clone(),
        async |calls: Calls, _: Snapshot<Doc>, _: Context| {
            calls.hit("one");
            Ok(line("one"))
        },
    );
    let one = g.node("one", node);
    let waits = with(
        (calls.clone(), Arc::clone(&hangs)),
        async |(calls, hangs): (Calls, Arc<Semaphore>), _: Snapshot<Doc>, _: Context| {
            if calls.hit("waits") == 1 {
                hangs.add_permits(1);
                std::future::pending::<()>().await;
            }
            Ok(line("waits"))
        },
    );
    let waits = g.node("waits", waits);
    g.start(one);
    g.edge(one, waits);
    g.edge(waits, End);
    let store = MemoryStore::new();
    let runner = Runner::new(g.build().unwrap())
        .options(options(Durability::AtEnd))
        .store(store.clone());
    let first = {
        let runner = runner.clone();
        tokio::spawn(async move { runner.run(&thread("t"), start()).await })
    };
    hangs.acquire().await.unwrap().forget();
    // A thread of that name in another store is another thread.
    let other = runner.clone().store(MemoryStore::new());
    other.state(&thread("t")).await.unwrap_err();
    assert_eq!(store.head(&thread("t")).await.unwrap().unwrap().step, 0);
    assert_eq!(runner.state(&thread("t")).await.unwrap().log, ["one"]);
    assert_eq!(store.head(&thread("t")).await.unwrap().unwrap().step, 1);
    let replaces = options(Durability::AtEnd).busy(Busy::Replace);
    let second = runner.clone().options(replaces);
    let report = second.run(&thread("t"), Command::go_on()).await.unwrap();
    assert_eq!(report.state.log, ["one", "waits"]);
    assert_eq!((calls.of("one"), calls.of("waits")), (1, 2));
    first.abort();
}

/// A run that does not wait can be cancelled by whoever has the store, from its first moment on.
#[tokio::test(start_paused = true)]
async fn a_run_that_stores_at_the_end_can_be_cancelled_from_outside() {
    let (calls, hangs) = (Calls::default(), Arc::new(Semaphore::new(0)));
    let mut g = Graph::builder("hangs");
    let node = g.node("one", async |_: Snapshot<Doc>, _: Context| Ok(line("one")));
    let waits = with(
        (calls.clone(), Arc::clone(&hangs)),
        async |(calls, hangs): (Calls, Arc<Semaphore>), _: Snapshot<Doc>, cx: Context| {
            calls.hit("waits");
            hangs.add_permits(1);
            cx.cancelled().await;
            Err::<DocUpdate, _>(NodeError::transient("told to end"))
        },
    );
    let waits = g.node("waits", waits);
    g.start(node);
    g.edge(node, waits);
    g.edge(waits, End);
    let store = MemoryStore::new();
    let runner = Runner::new(g.build().unwrap())
        .options(options(Durability::AtEnd))
        .store(store.clone());
    let runs = tokio::spawn(async move { runner.run(&thread("t"), start()).await });
    hangs.acquire().await.unwrap().forget();
    let asked = cancel(&store, &thread("t"), "enough").await.unwrap();
    assert_eq!(asked, Asked::Pending);
    let report = runs.await.unwrap().unwrap();
    assert_eq!(report.ended, Ended::Cancelled);
    let head = store.head(&thread("t")).await.unwrap().unwrap();
    assert_eq!((head.step, head.status), (1, Status::Cancelled));
    assert!(store.wished(&thread("t")).await.unwrap().is_none());
}

/// A graph inside writes as the run around it does; what it does outside is waited for all the same.
#[test]
fn a_graph_inside_follows_the_run_around_it() {
    on_both(async || {
        let mut logs = Vec::new();
        for mode in MODES {
            let store = Probe::new(MemoryStore::new());
            let calls = Calls::default();
            let mut g = Graph::builder("outer");
            let enter = |doc: &Doc| Doc::update().sum(doc.sum);
            let leave = |doc: &Doc| Doc::update().n(doc.n).log(vec![doc.log.len().to_string()]);
            let inner = g.subgraph("inner", rounds(&calls, 20, 10), enter, leave);
            let pays = async |_: Snapshot<Doc>, cx: Context| {
                cx.step("pay", async { Ok(1u64) }).await?;
                Ok(line("paid"))
            };
            let pays = g.node("pays", pays);
            g.start(inner);
            g.edge(inner, pays);
            g.edge(pays, End);
            let runner = Runner::new(g.build().unwrap())
                .options(options(mode))
                .store(store.clone());
            let report = runner.run(&thread("t"), start()).await.unwrap();
            assert_eq!((report.state.n, report.state.log.len()), (20, 2));
            if mode == Durability::AtEnd {
                // The input, the step with all before it, the end.
                assert_eq!(store.writes().len(), 3);
            }
            logs.push(kinds(&log(&store).await));
        }
        assert_eq!(logs[0], logs[1]);
        assert_eq!(logs[0], logs[2]);
    });
}

/// What a step of a handle returns is durable, and nothing is lost with the handle.
#[test]
fn a_step_returns_when_it_is_durable() {
    on_both(async || {
        for mode in MODES {
            let (store, calls) = (MemoryStore::new(), Calls::default());
            let runner = Runner::new(rounds(&calls, 5, 10))
                .options(options(mode))
                .store(store.clone());
            let mut run = runner.open(&thread("t"), start()).await.unwrap();
            for number in 1..=3 {
                let progress = run.step().await.unwrap();
                assert_eq!(progress, Progress::Committed(milepost::Step::new(number)));
                let head = store.head(&thread("t")).await.unwrap().unwrap();
                assert_eq!(head.step, number);
            }
            drop(run);
            let report = runner.run(&thread("t"), Command::go_on()).await.unwrap();
            assert_eq!((report.state.n, calls.of("turn")), (5, 5), "{mode:?}");
        }
    });
}
