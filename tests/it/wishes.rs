//! A run is asked to stop by whoever has its store: durably, at the next boundary at the latest, and
//! no other run is hit. Draining, where nothing is cut.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use milepost::store::{Asked, CheckpointStore, MemoryStore, Record, Status, WishKind};
use milepost::{
    Answers, Ask, Cancel, Command, Context, End, Ended, Exits, Graph, Output, Progress, RunError,
    RunOptions, Runner, Snapshot, WhyDue, agenda, cancel, drain,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::support::{Calls, DOORS, Doc, DocUpdate, Place, Probe, When, drive, line, says};
use crate::support::{thread, with};

fn start() -> Command<Doc> {
    Command::start(Doc::update())
}

/// `a`, then `b` that waits until it is let go or told to end, then `c`.
fn gated(calls: &Calls, gate: &Arc<Semaphore>) -> Graph<Doc> {
    let mut g = Graph::builder("gated");
    let a = g.node("a", says(calls, "a"));
    let b = with(
        (calls.clone(), Arc::clone(gate)),
        async |(calls, gate): (Calls, Arc<Semaphore>), _, cx: Context| {
            calls.hit("b");
            tokio::select! {
                permit = gate.acquire() => permit?.forget(),
                () = cx.cancelled() => {
                    calls.hit("told");
                    std::future::pending::<()>().await;
                }
            }
            Ok(line("b"))
        },
    );
    let b = g.node("b", b);
    let c = g.node("c", says(calls, "c"));
    g.start(a);
    g.edge(a, b);
    g.edge(b, c);
    g.edge(c, End);
    g.build().unwrap()
}

/// Waits until a node was called.
async fn called(calls: &Calls, node: &str) {
    while calls.of(node) == 0 {
        tokio::task::yield_now().await;
    }
}

async fn status(store: &dyn CheckpointStore, name: &str) -> Status {
    store.head(&thread(name)).await.unwrap().unwrap().status
}

/// The reasons that a thread was stopped for.
async fn reasons(store: &dyn CheckpointStore, name: &str) -> Vec<String> {
    let all = store
        .records(&thread(name), milepost::Seq::new(1), 999)
        .await
        .unwrap();
    let reason = |record: &Record| match record {
        Record::Stopped(stopped) => stopped.error.clone().map(|why| why.message),
        _ => None,
    };
    all.iter()
        .filter_map(|stored| reason(&stored.record))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_run_is_cancelled_by_whoever_shares_its_store() {
    for door in DOORS {
        for place in [Place::memory(), Place::sled()] {
            let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
            let store = place.open().unwrap();
            let runner = Runner::new(gated(&calls, &gate)).shared_store(Arc::clone(&store));
            let t = thread("t");
            let stopper = async {
                called(&calls, "b").await;
                let asked = cancel(&*store, &t, "the customer left").await.unwrap();
                assert_eq!(asked, Asked::Pending);
            };
            let (ended, ()) = tokio::join!(drive(door, &runner, &t, start()), stopper);
            assert_eq!(ended.unwrap().0, Ended::Cancelled, "{door:?}");
            assert_eq!((calls.of("told"), calls.of("c")), (1, 0));
            assert_eq!(status(&*store, "t").await, Status::Cancelled);
            assert_eq!(store.wished(&t).await.unwrap(), None);
            assert_eq!(reasons(&*store, "t").await, ["the customer left"]);
            // Heeded once: the run can be gone on with.
            gate.add_permits(1);
            let (ended, state) = drive(door, &runner, &t, Command::go_on()).await.unwrap();
            assert_eq!((ended, &state.log.join("")[..]), (Ended::Finished, "abc"));
            assert_eq!((calls.of("a"), calls.of("b")), (1, 2));
        }
    }
}

#[tokio::test]
async fn a_thread_that_nobody_works_on_is_cancelled_at_once() {
    for place in [Place::memory(), Place::sled()] {
        let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(1)));
        let store = place.open().unwrap();
        let runner = Runner::new(gated(&calls, &gate)).shared_store(Arc::clone(&store));
        let t = thread("t");
        let unknown = runner.cancel(&t, "").await;
        assert!(matches!(unknown, Err(RunError::NotFound { .. })));
        let limited = runner.clone().options(RunOptions::new().step_limit(1));
        limited.run(&t, start()).await.unwrap();
        assert_eq!(status(&*store, "t").await, Status::Limited);
        let drained = runner.drain(&t, "").await.unwrap();
        assert_eq!(drained, Asked::AtRest(Status::Limited));
        assert_eq!(runner.cancel(&t, "no use").await.unwrap(), Asked::Stopped);
        assert_eq!(status(&*store, "t").await, Status::Cancelled);
        let again = runner.cancel(&t, "").await.unwrap();
        assert_eq!(again, Asked::AtRest(Status::Cancelled));
        assert_eq!(reasons(&*store, "t").await, ["no use"]);
        // A cancelled thread takes an input.
        let report = runner.run(&t, start()).await.unwrap();
        assert_eq!(report.state.log, ["a", "a", "b", "c"]);
        let over = runner.cancel(&t, "").await.unwrap();
        assert_eq!(over, Asked::AtRest(Status::Finished));
        let long = runner.cancel(&t, "x".repeat(1025)).await;
        assert!(long.is_err());
    }
}

/// Asked in the last superstep, the run finishes or is cancelled, and what comes after it is not hit.
#[tokio::test]
async fn a_wish_for_a_run_that_finishes_never_hits_the_next_one() {
    for place in [Place::memory(), Place::sled()] {
        let store = place.open().unwrap();
        let mut g = Graph::builder("last");
        let a = with(
            Arc::clone(&store),
            async |store: Arc<dyn CheckpointStore>, doc: Snapshot<Doc>, _| {
                if doc.n == 1 {
                    // In its body, so that it ends in time.
                    assert_eq!(cancel(&*store, &thread("t"), "").await?, Asked::Pending);
                }
                Ok(line("a"))
            },
        );
        let a = g.node("a", a);
        g.start(a);
        g.edge(a, End);
        let runner = Runner::new(g.build().unwrap()).shared_store(Arc::clone(&store));
        let t = thread("t");
        let input = |n| Command::start(Doc::update().n(n));
        let first = runner.run(&t, input(1)).await.unwrap();
        assert_eq!(first.ended, Ended::Finished, "it had nothing left to stop");
        assert_eq!(store.wished(&t).await.unwrap(), None);
        let second = runner.run(&t, input(2)).await.unwrap();
        assert_eq!(second.ended, Ended::Finished);
        assert_eq!(second.state.log, ["a", "a"]);
    }
}

/// The process that held the thread died before it saw the wish: whoever takes it up heeds it.
#[tokio::test(start_paused = true)]
async fn a_wish_waits_for_whoever_takes_the_thread_up() {
    for next in ["go on", "start"] {
        for place in [Place::memory(), Place::sled()] {
            let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(9)));
            let graph = gated(&calls, &gate);
            let runner = place.runner(graph.clone(), RunOptions::new());
            let t = thread("t");
            let mut run = runner.open(&t, start()).await.unwrap();
            run.step().await.unwrap();
            assert_eq!(runner.cancel(&t, "late").await.unwrap(), Asked::Pending);
            let again = runner.cancel(&t, "again").await.unwrap();
            assert_eq!(again, Asked::Pending);
            drop((run, runner));
            let store = place.open().unwrap();
            let waits = store.wished(&t).await.unwrap().unwrap();
            assert_eq!((waits.kind, &waits.reason[..]), (WishKind::Cancel, "late"));
            let runner = Runner::new(graph).shared_store(Arc::clone(&store));
            if next == "go on" {
                let report = runner.run(&t, Command::go_on()).await.unwrap();
                assert_eq!(report.ended, Ended::Cancelled);
                assert_eq!(calls.of("b"), 0);
                assert_eq!(reasons(&*store, "t").await, ["late"]);
            } else {
                // Without abandon: a run that is to be cancelled counts as cancelled.
                let report = runner.run(&t, start()).await.unwrap();
                assert_eq!(report.state.log, ["a", "a", "b", "c"]);
            }
            assert_eq!(store.wished(&t).await.unwrap(), None);
        }
    }
}

/// To drain was asked of the call that held the thread, not of a later one.
#[tokio::test]
async fn a_wish_to_drain_is_for_the_call_that_held_the_thread() {
    for place in [Place::memory(), Place::sled()] {
        let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(9)));
        let runner = place.runner(gated(&calls, &gate), RunOptions::new());
        let t = thread("t");
        let mut run = runner.open(&t, start()).await.unwrap();
        run.step().await.unwrap();
        assert_eq!(runner.drain(&t, "").await.unwrap(), Asked::Pending);
        drop((run, runner));
        let runner = place.runner(gated(&calls, &gate), RunOptions::new());
        let report = runner.run(&t, Command::go_on()).await.unwrap();
        assert_eq!(report.ended, Ended::Finished);
        drop(runner);
        let store = place.open().unwrap();
        assert_eq!(store.wished(&t).await.unwrap(), None);
    }
}

/// A drain tells no node to end: the superstep closes, and the thread goes on where it stands.
#[tokio::test(start_paused = true)]
async fn a_drained_run_stops_when_its_superstep_is_closed() {
    for door in DOORS {
        for own in [false, true] {
            let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
            let (place, handle) = (Place::memory(), Cancel::new());
            let runner = place.runner(
                gated(&calls, &gate),
                RunOptions::new().cancel(handle.clone()),
            );
            let store = place.open().unwrap();
            let t = thread("t");
            let stopper = async {
                called(&calls, "b").await;
                match own {
                    true => handle.drain(),
                    false => {
                        let asked = drain(&*store, &t, "a new version").await.unwrap();
                        assert_eq!(asked, Asked::Pending);
                    }
                }
                tokio::time::sleep(Duration::from_secs(60)).await;
                gate.add_permits(9);
            };
            let (ended, ()) = tokio::join!(drive(door, &runner, &t, start()), stopper);
            let (ended, state) = ended.unwrap();
            assert_eq!((ended, &state.log.join("")[..]), (Ended::Drained, "ab"));
            assert_eq!((calls.of("told"), calls.of("c")), (0, 0));
            assert_eq!(store.wished(&t).await.unwrap(), None);
            // What a process gave back is for the next worker, what was paused is for its caller.
            let due = agenda(&*store, SystemTime::now()).await.unwrap().due;
            let due: Vec<_> = due.iter().map(|due| due.why).collect();
            match own {
                true => {
                    assert_eq!(status(&*store, "t").await, Status::Drained);
                    assert_eq!(due, [WhyDue::Drained]);
                    assert!(handle.is_draining() && !handle.is_cancelled());
                }
                false => {
                    assert_eq!(status(&*store, "t").await, Status::Paused);
                    assert_eq!(due, []);
                }
            }
            let next = place.runner(gated(&calls, &gate), RunOptions::new());
            let (ended, state) = drive(door, &next, &t, Command::go_on()).await.unwrap();
            assert_eq!((ended, &state.log.join("")[..]), (Ended::Finished, "abc"));
            assert_eq!((calls.of("a"), calls.of("b"), calls.of("c")), (1, 1, 1));
        }
    }
}

#[derive(Clone, Copy, Exits)]
enum Way {
    On,
    Out,
}

/// A node that follows itself, as far as anybody lets it.
fn endless(g: &mut milepost::Builder<Doc>, node: milepost::NodeRef<Doc, ()>) {
    g.start(node);
    g.branch(
        node,
        |doc: &Doc| {
            Ok(match doc.n {
                u64::MAX => Way::Out,
                _ => Way::On,
            })
        },
        move |way| match way {
            Way::On => node.into(),
            Way::Out => End.into(),
        },
    );
}

/// Also without a store, and in the short way through many small supersteps.
#[tokio::test]
async fn a_handle_drains_a_run_without_a_store() {
    let handle = Cancel::new();
    let mut g = Graph::builder("loop");
    let a = with(
        handle.clone(),
        async |handle: Cancel, doc: Snapshot<Doc>, _| {
            if doc.n == 99 {
                handle.drain();
            }
            Ok(Doc::update().n(doc.n + 1))
        },
    );
    let a = g.node("a", a);
    endless(&mut g, a);
    let runner = Runner::new(g.build().unwrap()).options(RunOptions::new().cancel(handle.clone()));
    let report = runner.run(&thread("t"), start()).await.unwrap();
    assert_eq!((report.ended, report.state.n), (Ended::Drained, 100));
    handle.cancel();
    assert!(handle.is_cancelled() && handle.is_draining());
}

/// May it go on?
#[derive(Debug, Serialize, Deserialize)]
struct Fine;

impl Ask for Fine {
    type Answer = bool;
}

/// `a`, then `ask`, which asks.
fn asking(calls: &Calls) -> Graph<Doc> {
    let mut g = Graph::builder("asking");
    let a = g.node("a", says(calls, "a"));
    let ask = with((), async |(), _: Snapshot<Doc>, cx: Context| {
        Ok(match cx.answer::<Fine>("fine")? {
            Some(fine) => Output::<DocUpdate, (), Fine>::Done(line(format!("fine: {fine}")), ()),
            None => Output::ask("fine", Fine),
        })
    });
    let ask = g.node("ask", ask);
    g.start(a);
    g.edge(a, ask);
    g.edge(ask, End);
    g.build().unwrap()
}

/// A question of a cancelled thread is open again when the thread is taken up.
#[tokio::test]
async fn a_thread_that_waits_for_an_answer_is_cancelled_and_asks_again() {
    for place in [Place::memory(), Place::sled()] {
        let calls = Calls::default();
        let store = place.open().unwrap();
        let runner = Runner::new(asking(&calls)).shared_store(Arc::clone(&store));
        let t = thread("t");
        let report = runner.run(&t, start()).await.unwrap();
        assert_eq!(report.ended, Ended::Paused { questions: 1 });
        assert_eq!(runner.cancel(&t, "").await.unwrap(), Asked::Stopped);
        assert_eq!(status(&*store, "t").await, Status::Cancelled);
        let report = runner.run(&t, Command::go_on()).await.unwrap();
        assert_eq!(report.ended, Ended::Paused { questions: 1 });
        let answer = Command::answer(Answers::only(&true));
        let report = runner.run(&t, answer).await.unwrap();
        assert_eq!(report.state.log, ["a", "fine: true"]);
        assert_eq!(calls.of("a"), 1);
    }
}

/// A question or a pause that comes while the run is to be cancelled does not hide the wish.
#[tokio::test]
async fn a_run_that_is_to_be_cancelled_does_not_pause_instead() {
    for pause in [RunOptions::new(), RunOptions::new().pause_after(["a"])] {
        let (calls, place) = (Calls::default(), Place::memory());
        let runner = place.runner(asking(&calls), pause);
        let t = thread("t");
        let mut run = runner.open(&t, start()).await.unwrap();
        assert_eq!(runner.cancel(&t, "").await.unwrap(), Asked::Pending);
        let report = run.finish().await.unwrap();
        assert_eq!(report.ended, Ended::Cancelled);
        assert_eq!(calls.of("a"), 0);
        // Heeded, and not a second time by the same handle.
        let progress = run.step().await.unwrap();
        assert!(matches!(
            progress,
            Progress::Committed(_) | Progress::Ended(Ended::Paused { .. })
        ));
    }
    let (calls, place) = (Calls::default(), Place::memory());
    let store = place.open().unwrap();
    let mut g = Graph::builder("asks");
    let ask = with(
        store,
        async |store: Arc<dyn CheckpointStore>, _: Snapshot<Doc>, _| {
            cancel(&*store, &thread("t"), "").await?;
            Ok(Output::<DocUpdate, (), Fine>::ask("fine", Fine))
        },
    );
    let ask = g.node("ask", ask);
    let a = g.node("a", says(&calls, "a"));
    g.start(ask.and(a));
    g.edge(ask, End);
    g.edge(a, End);
    let runner = place.runner(g.build().unwrap(), RunOptions::new());
    let report = runner.run(&thread("t"), start()).await.unwrap();
    assert_eq!(report.ended, Ended::Cancelled);
    assert_eq!(report.questions.len(), 1);
}

/// What nobody heeds, a worker does.
#[tokio::test]
async fn a_worker_finds_threads_that_are_to_be_cancelled() {
    let (calls, place) = (Calls::default(), Place::memory());
    let runner = place.runner(asking(&calls), RunOptions::new());
    let t = thread("t");
    let mut run = runner.open(&t, start()).await.unwrap();
    run.finish().await.unwrap();
    // The call is over, and its handle is still held.
    assert_eq!(runner.cancel(&t, "").await.unwrap(), Asked::Pending);
    drop(run);
    let store = place.open().unwrap();
    let due = agenda(&*store, SystemTime::now()).await.unwrap().due;
    assert_eq!(due.len(), 1);
    assert_eq!(due[0].why, WhyDue::Asked);
    let report = runner.run(&t, Command::go_on()).await.unwrap();
    assert_eq!(report.ended, Ended::Cancelled);
    let due = agenda(&*store, SystemTime::now()).await.unwrap().due;
    assert_eq!(due, []);
}

/// A reader that does not read holds up a run at a boundary: there it can be asked to stop.
#[tokio::test(start_paused = true)]
async fn a_run_whose_reader_does_not_read_is_drained_and_cancelled() {
    for to in ["cancel", "drain"] {
        let place = Place::memory();
        let mut g = Graph::builder("loop");
        let a = g.node("a", async |doc: Snapshot<Doc>, _: Context| {
            Ok::<_, milepost::NodeError>(Doc::update().n(doc.n + 1))
        });
        endless(&mut g, a);
        let options = RunOptions::new().backlog(2).step_limit(u64::MAX);
        let runner = place.runner(g.build().unwrap(), options);
        let t = thread("t");
        let stream = runner.stream(&t, start());
        let store = place.open().unwrap();
        while store
            .head(&t)
            .await
            .unwrap()
            .is_none_or(|head| head.step == 0)
        {
            tokio::task::yield_now().await;
        }
        match to {
            "cancel" => cancel(&*store, &t, "").await.unwrap(),
            _ => drain(&*store, &t, "").await.unwrap(),
        };
        while status(&*store, "t").await == Status::Running {
            tokio::task::yield_now().await;
        }
        let report = stream.report().await.unwrap();
        let expected = match to {
            "cancel" => Ended::Cancelled,
            _ => Ended::Drained,
        };
        assert_eq!(report.ended, expected);
    }
}

/// The store fails once at any operation while a run is cancelled: asked again, the thread is
/// cancelled, nothing that had finished is lost, and it goes on to the same end.
#[tokio::test(start_paused = true)]
async fn a_cancel_survives_a_failure_of_the_store_at_any_operation() {
    for when in [When::Before, When::After] {
        for at in 1.. {
            let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
            let memory = MemoryStore::new();
            let probe = Probe::new(memory.clone()).failing(at, when);
            let runner = Runner::new(gated(&calls, &gate)).store(probe.clone());
            let t = thread("t");
            let stopper = async {
                for _ in 0..99 {
                    tokio::task::yield_now().await;
                }
                match cancel(&probe, &t, "").await {
                    // Asked again, it is the same wish.
                    Err(RunError::Store(_)) => cancel(&probe, &t, "").await,
                    asked => asked,
                }
            };
            let (_, asked) = tokio::join!(runner.run(&t, start()), stopper);
            let there = memory.head(&t).await.unwrap().is_some();
            let through = Runner::new(gated(&calls, &gate)).store(memory.clone());
            if there {
                match cancel(&memory, &t, "").await.unwrap() {
                    Asked::Stopped | Asked::AtRest(Status::Cancelled) => {}
                    other => panic!("{when:?} {at}: {other:?}, at first {asked:?}"),
                }
                assert_eq!(status(&memory, "t").await, Status::Cancelled);
                assert_eq!(memory.wished(&t).await.unwrap(), None);
                gate.add_permits(9);
                let report = through.run(&t, Command::go_on()).await.unwrap();
                assert_eq!(report.state.log, ["a", "b", "c"], "{when:?} {at}");
            }
            if probe.operations() < at {
                assert!(at > 6);
                break;
            }
        }
    }
}
