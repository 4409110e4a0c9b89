//! Stopping: cancellation and its grace time, deadlines, dropped streams and calls, busy threads,
//! repeated starts, takeovers.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use milepost::store::{CheckpointStore, MemoryStore, Status, StoreError};
use milepost::{
    Busy, Cancel, Command, Context, End, Ended, EventKind, Graph, NodeError, Policy, Progress,
    Retry, RunError, RunId, RunOptions, Runner, events, history,
};
use tokio::sync::{Notify, Semaphore};

use crate::support::{Calls, DOORS, Doc, Place, drive, fed, lasting, line, says, thread, with};

const SECOND: Duration = Duration::from_secs(1);

fn start() -> Command<Doc> {
    Command::start(Doc::update())
}

/// `a`, then `b` that waits until it is let go, then `c`.
fn gated(calls: &Calls, gate: &Arc<Semaphore>) -> Graph<Doc> {
    let mut g = Graph::builder("gated");
    let a = g.node("a", says(calls, "a"));
    let b = with(
        (calls.clone(), Arc::clone(gate)),
        async |(calls, gate), _, _| {
            calls.hit("b");
            gate.acquire().await?.forget();
            calls.hit("b ended");
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

async fn status(store: &dyn CheckpointStore, name: &str) -> Status {
    store.head(&thread(name)).await.unwrap().unwrap().status
}

/// A body that ends within the grace time is recorded and counted; nothing new starts.
#[tokio::test(start_paused = true)]
async fn a_node_that_ends_in_its_grace_time_is_recorded() {
    for door in DOORS {
        let (calls, place, cancel) = (Calls::default(), Place::memory(), Cancel::new());
        let mut g = Graph::builder("grace");
        let a = with(
            (calls.clone(), cancel.clone()),
            async |(calls, cancel), _, cx: Context| {
                calls.hit("a");
                assert!(!cx.is_cancelled());
                cancel.cancel();
                cx.cancelled().await;
                assert!(cx.is_cancelled());
                tokio::time::sleep(SECOND).await;
                Ok(line("a"))
            },
        );
        let a = g.node("a", a);
        let b = g.node("b", says(&calls, "b"));
        g.start(a);
        g.edge(a, b);
        g.edge(b, End);
        let graph = g.build().unwrap();
        let runner = place.runner(
            graph.clone(),
            RunOptions::new().cancel(cancel).grace(2 * SECOND),
        );
        let (ended, state) = drive(door, &runner, &thread("t"), start()).await.unwrap();
        assert_eq!(
            (ended, &state.log[..]),
            (Ended::Cancelled, &["a".to_owned()][..])
        );
        assert_eq!(calls.of("b"), 0);
        let store = place.open().unwrap();
        assert_eq!(status(&*store, "t").await, Status::Cancelled);
        let next = place.runner(graph, RunOptions::new());
        let (_, state) = drive(door, &next, &thread("t"), Command::go_on())
            .await
            .unwrap();
        assert_eq!(state.log, ["a", "b"]);
        assert_eq!((calls.of("a"), calls.of("b")), (1, 1));
    }
}

/// A body that does not end in time is cut, and nothing of it is recorded.
#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_end_in_its_grace_time_is_cut() {
    for door in DOORS {
        let (calls, place, cancel) = (Calls::default(), Place::memory(), Cancel::new());
        let gate = Arc::new(Semaphore::new(0));
        let runner = place.runner(
            gated(&calls, &gate),
            RunOptions::new().cancel(cancel.clone()).grace(SECOND),
        );
        let t = thread("t");
        let call = drive(door, &runner, &t, start());
        let stopper = async {
            while calls.of("b") == 0 {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        };
        let (ended, ()) = tokio::join!(call, stopper);
        assert_eq!(ended.unwrap().0, Ended::Cancelled);
        let store = place.open().unwrap();
        let before = events(&*store, &t).await.unwrap();
        gate.add_permits(5);
        tokio::time::sleep(SECOND).await;
        assert_eq!((calls.of("b ended"), calls.of("c")), (0, 0));
        assert_eq!(events(&*store, &t).await.unwrap(), before);
        let next = place.runner(gated(&calls, &gate), RunOptions::new());
        let (ended, state) = drive(door, &next, &t, Command::go_on()).await.unwrap();
        assert_eq!(
            (ended, &state.log[..]),
            (
                Ended::Finished,
                &["a".to_owned(), "b".into(), "c".into()][..]
            )
        );
        assert_eq!((calls.of("a"), calls.of("b"), calls.of("c")), (1, 2, 1));
    }
}

/// A grace time, a deadline, a timeout without end is none, not a panic.
#[tokio::test(start_paused = true)]
async fn a_time_without_end_is_allowed() {
    let cancel = Cancel::new();
    let mut g = Graph::builder("endless");
    let a = with(cancel.clone(), async |cancel: Cancel, _, _| {
        cancel.cancel();
        tokio::time::sleep(SECOND).await;
        Ok(line("a"))
    });
    let a = g.node("a", a);
    g.policy(a, Policy::default().timeout(Duration::MAX));
    g.start(a);
    g.edge(a, End);
    let options = RunOptions::new()
        .grace(Duration::MAX)
        .deadline(Duration::MAX)
        .superstep_deadline(Duration::MAX)
        .busy(Busy::Wait(Duration::MAX))
        .cancel(cancel);
    let runner = Runner::new(g.build().unwrap())
        .options(options)
        .store(MemoryStore::new());
    let held = runner.open(&thread("t"), start()).await.unwrap();
    let t = thread("t");
    let waits = runner.run(&t, start().abandon());
    let release = async {
        tokio::time::sleep(SECOND).await;
        drop(held);
    };
    let (report, ()) = tokio::join!(waits, release);
    assert_eq!(report.unwrap().state.log, ["a"]);
}

/// A node that fails because it was told to end has ended: the run is cancelled, not failed, and
/// takes a new input.
#[tokio::test(start_paused = true)]
async fn a_node_that_fails_after_a_cancel_does_not_make_the_run_fail() {
    for door in DOORS {
        for siblings in [1, 3] {
            let (place, cancel) = (Place::memory(), Cancel::new());
            let mut g = Graph::builder("obedient");
            let w = fed(
                cancel.clone(),
                async |cancel: Cancel, item: u64, _, cx: Context| {
                    if item == 9 {
                        return Ok(Doc::update().seen(vec![item]));
                    }
                    cancel.cancel();
                    cx.cancelled().await;
                    Err(NodeError::transient("told to end"))
                },
            );
            let w = g.worker("w", w);
            g.start(w.each(move |doc| {
                if doc.n == 1 {
                    vec![9]
                } else {
                    (0..siblings).collect()
                }
            }));
            g.edge(w, End);
            let graph = g.build().unwrap();
            let runner = place.runner(graph.clone(), RunOptions::new().cancel(cancel));
            let (ended, _) = drive(door, &runner, &thread("t"), start()).await.unwrap();
            assert_eq!(ended, Ended::Cancelled);
            let store = place.open().unwrap();
            assert_eq!(status(&*store, "t").await, Status::Cancelled);
            let told = events(&*store, &thread("t")).await.unwrap();
            let failed = told
                .iter()
                .filter(|event| matches!(event.kind, EventKind::TaskFailed { .. }));
            assert_eq!(failed.count() as u64, siblings);
            // C16 (1).
            let next = place.runner(graph, RunOptions::new());
            let input = Command::start(Doc::update().n(1));
            let (ended, state) = drive(door, &next, &thread("t"), input).await.unwrap();
            assert_eq!((ended, &state.seen[..]), (Ended::Finished, &[9][..]));
        }
    }
}

/// Neither a task that waits for a permit nor the next try of a retry starts after a cancel.
#[tokio::test(start_paused = true)]
async fn nothing_new_starts_after_a_cancel() {
    let retry = Retry {
        max_attempts: 9,
        first_wait: SECOND,
        jitter: 0.0,
        ..Retry::default()
    };
    let ways = [
        (Policy::default().concurrency(1), RunOptions::new(), 1),
        (Policy::default(), RunOptions::new().concurrency(2), 2),
        (Policy::default().retry(retry), RunOptions::new(), 5),
    ];
    for (policy, options, most) in ways {
        for place in [Place::Nowhere, Place::memory()] {
            let (calls, cancel) = (Calls::default(), Cancel::new());
            let fails = policy.retry.is_some();
            let mut g = Graph::builder("queue");
            let w = fed(
                (calls.clone(), fails),
                async |(calls, fails): (Calls, bool), _: u64, _, _| {
                    calls.hit("w");
                    if fails {
                        return Err(NodeError::transient("busy"));
                    }
                    tokio::time::sleep(SECOND).await;
                    Ok(Doc::update().sum(1))
                },
            );
            let w = g.worker("w", w);
            g.policy(w, policy.clone());
            g.start(w.each(|_| (0..5).collect()));
            g.edge(w, End);
            let runner = place.runner(
                g.build().unwrap(),
                options.clone().cancel(cancel.clone()).grace(60 * SECOND),
            );
            let stopper = async {
                tokio::time::sleep(SECOND / 2).await;
                cancel.cancel();
            };
            let at = tokio::time::Instant::now();
            let t = thread("t");
            let (report, ()) = tokio::join!(runner.run(&t, start()), stopper);
            assert_eq!(report.unwrap().ended, Ended::Cancelled);
            assert_eq!(calls.of("w"), most);
            assert!(
                at.elapsed() < 2 * SECOND,
                "it does not wait for what will not start"
            );
        }
    }
}

/// A task that waits for its permit alone is not waited for either.
#[tokio::test(start_paused = true)]
async fn a_single_task_that_waits_for_its_permit_does_not_start_after_a_cancel() {
    let (calls, cancel, gate) = (Calls::default(), Cancel::new(), Arc::new(Semaphore::new(0)));
    let mut g = Graph::builder("permit");
    let b = with(
        (calls.clone(), Arc::clone(&gate)),
        async |(calls, gate): (Calls, Arc<Semaphore>), _, _| {
            calls.hit("b");
            gate.acquire().await?.forget();
            Ok(line("b"))
        },
    );
    let b = g.node("b", b);
    g.policy(b, Policy::default().concurrency(1));
    g.start(b);
    g.edge(b, End);
    // One node's limit holds for all runs of a runner and its clones; the options are shared.
    let runner = Runner::new(g.build().unwrap())
        .options(RunOptions::new().cancel(cancel.clone()).grace(9 * SECOND));
    let first = tokio::spawn({
        let runner = runner.clone();
        async move { runner.run(&thread("one"), start()).await }
    });
    let second = tokio::spawn(async move { runner.run(&thread("two"), start()).await });
    tokio::time::sleep(SECOND).await;
    cancel.cancel();
    assert_eq!(second.await.unwrap().unwrap().ended, Ended::Cancelled);
    gate.add_permits(2);
    assert_eq!(first.await.unwrap().unwrap().ended, Ended::Finished);
    assert_eq!(calls.of("b"), 1);
}

/// Cancelled inside a fan-out: what finished is kept, and only the rest runs again.
#[tokio::test(start_paused = true)]
async fn a_cancelled_fan_out_keeps_its_finished_members() {
    for door in DOORS {
        let (calls, place, cancel) = (Calls::default(), Place::memory(), Cancel::new());
        let gate = Arc::new(Semaphore::new(0));
        let mut g = Graph::builder("members");
        let w = fed(
            (calls.clone(), Arc::clone(&gate)),
            async |(calls, gate): (Calls, Arc<Semaphore>), item: u64, _, _| {
                calls.hit(&format!("w{item}"));
                if item % 2 == 1 {
                    gate.acquire().await?.forget();
                }
                Ok(Doc::update().seen(vec![item]))
            },
        );
        let w = g.worker("w", w);
        g.start(w.each(|_| (0..6).collect()));
        g.edge(w, End);
        let graph = g.build().unwrap();
        let t = thread("t");
        let runner = place.runner(
            graph.clone(),
            RunOptions::new()
                .cancel(cancel.clone())
                .grace(Duration::ZERO)
                .shuffle(2),
        );
        let stopper = async {
            tokio::time::sleep(SECOND).await;
            cancel.cancel();
        };
        let (ended, ()) = tokio::join!(drive(door, &runner, &t, start()), stopper);
        let (ended, state) = ended.unwrap();
        assert_eq!(
            (ended, state.seen.len()),
            (Ended::Cancelled, 0),
            "the superstep is open"
        );
        gate.add_permits(9);
        let next = place.runner(graph, RunOptions::new());
        let (_, state) = drive(door, &next, &t, Command::go_on()).await.unwrap();
        assert_eq!(state.seen, [0, 1, 2, 3, 4, 5]);
        for item in 0..6 {
            assert_eq!(calls.of(&format!("w{item}")), 1 + item % 2);
        }
    }
}

/// After a cancel a new input is accepted; finished siblings count, once.
#[tokio::test(start_paused = true)]
async fn an_input_after_a_cancel_keeps_what_had_finished() {
    let (calls, place, cancel) = (Calls::default(), Place::memory(), Cancel::new());
    let mut g = Graph::builder("kept");
    let a = g.node("a", says(&calls, "a"));
    let b = with(
        cancel.clone(),
        async |cancel: Cancel, doc: milepost::Snapshot<Doc>, _| {
            if doc.n == 0 {
                tokio::time::sleep(SECOND).await;
                cancel.cancel();
                std::future::pending::<()>().await;
            }
            Ok(line("b"))
        },
    );
    let b = g.node("b", b);
    g.start(a.and(b));
    g.edge(a, End);
    g.edge(b, End);
    let graph = g.build().unwrap();
    let t = thread("t");
    let runner = place.runner(graph.clone(), RunOptions::new().cancel(cancel));
    assert_eq!(
        runner.run(&t, start()).await.unwrap().ended,
        Ended::Cancelled
    );
    let next = place.runner(graph, RunOptions::new());
    let report = next.run(&t, Command::start(line("hi").n(1))).await.unwrap();
    assert_eq!(report.state.log, ["a", "hi", "a", "b"]);
    assert_eq!(*next.state(&t).await.unwrap(), *report.state);
    assert_eq!(calls.of("a"), 2);
}

/// S035, S036: a deadline cuts at once, for the call as for the superstep; what is there stays.
#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_call_and_keeps_what_is_there() {
    for door in DOORS {
        for whole in [true, false] {
            let (calls, place) = (Calls::default(), Place::memory());
            let gate = Arc::new(Semaphore::new(0));
            let options = match whole {
                true => RunOptions::new().deadline(300 * SECOND),
                false => RunOptions::new().superstep_deadline(300 * SECOND),
            };
            let runner = place.runner(gated(&calls, &gate), options);
            let at = tokio::time::Instant::now();
            let (ended, state) = drive(door, &runner, &thread("t"), start()).await.unwrap();
            assert_eq!(
                ended,
                Ended::Deadline {
                    after: 300 * SECOND
                }
            );
            assert_eq!(at.elapsed(), 300 * SECOND);
            assert_eq!(state.log, ["a"]);
            let store = place.open().unwrap();
            assert_eq!(status(&*store, "t").await, Status::Limited);
            gate.add_permits(1);
            let next = place.runner(gated(&calls, &gate), RunOptions::new());
            assert_eq!(next.state(&thread("t")).await.unwrap().log, ["a"]);
            let (_, state) = drive(door, &next, &thread("t"), Command::go_on())
                .await
                .unwrap();
            assert_eq!(state.log, ["a", "b", "c"]);
        }
    }
}

/// A handle whose superstep ran out of time tries it again, and the nodes of the second try are
/// not told to end; a handle whose run is to stop starts nothing.
#[tokio::test(start_paused = true)]
async fn a_handle_tries_an_open_superstep_again_with_a_fresh_sign() {
    for siblings in [1, 2] {
        for place in [Place::Nowhere, Place::memory()] {
            let (calls, cancel) = (Calls::default(), Cancel::new());
            let mut g = Graph::builder("again");
            let w = fed(
                calls.clone(),
                async |calls: Calls, item: u64, _, cx: Context| {
                    assert!(!cx.is_cancelled());
                    match calls.hit(&format!("w{item}")) {
                        1 => std::future::pending().await,
                        2 => Err(NodeError::permanent("no")),
                        _ => Ok(Doc::update().seen(vec![item])),
                    }
                },
            );
            let w = g.worker("w", w);
            g.start(w.each(move |_| (0..siblings).collect()));
            g.edge(w, End);
            let options = RunOptions::new()
                .superstep_deadline(SECOND)
                .cancel(cancel.clone());
            let runner = place.runner(g.build().unwrap(), options);
            let mut run = runner.open(&thread("t"), start()).await.unwrap();
            let ended = run.step().await.unwrap();
            assert_eq!(ended, Progress::Ended(Ended::Deadline { after: SECOND }));
            while let Err(error) = run.step().await {
                assert!(matches!(error, RunError::Node { .. }), "{error}");
                // A smaller limit than what was executed is reached, not a panic.
                run.step_limit(0);
                assert_eq!(
                    run.step().await.unwrap(),
                    Progress::Ended(Ended::StepLimit { limit: 0 })
                );
                run.step_limit(9);
                if calls.of("w0") == 2 {
                    cancel.cancel();
                    assert_eq!(run.step().await.unwrap(), Progress::Ended(Ended::Cancelled));
                    break;
                }
            }
            assert_eq!(calls.of("w0"), 2, "{calls:?}");
        }
    }
}

/// C29: the reader goes away while b runs.
#[tokio::test(start_paused = true)]
async fn a_dropped_stream_finishes_what_runs_and_starts_nothing() {
    for ends_in_time in [true, false] {
        let (calls, place) = (Calls::default(), Place::memory());
        let gate = Arc::new(Semaphore::new(0));
        let t = thread("t");
        let runner = place.runner(gated(&calls, &gate), RunOptions::new().grace(SECOND));
        let mut stream = runner.stream(&t, start());
        stream.next().await.unwrap();
        while calls.of("b") == 0 {
            tokio::task::yield_now().await;
        }
        drop(stream);
        if ends_in_time {
            gate.add_permits(1);
        }
        tokio::time::sleep(3 * SECOND).await;
        assert_eq!(calls.of("c"), 0);
        let store = place.open().unwrap();
        assert_eq!(status(&*store, "t").await, Status::Cancelled);
        let steps = history(&*store, &t)
            .await
            .unwrap()
            .last()
            .unwrap()
            .step
            .get();
        assert_eq!(steps, if ends_in_time { 2 } else { 1 });
        gate.add_permits(1);
        let next = place.runner(gated(&calls, &gate), RunOptions::new());
        let report = next.run(&t, Command::go_on()).await.unwrap();
        assert_eq!(report.state.log, ["a", "b", "c"]);
        assert_eq!(calls.of("b"), if ends_in_time { 1 } else { 2 });
    }
}

/// A cancelled call leaves no half step, wherever it is dropped; the thread is free at once.
#[tokio::test(start_paused = true)]
async fn a_call_may_be_dropped_at_any_point() {
    let calls = Calls::default();
    let mut g = Graph::builder("dropped");
    let w = g.worker("w", async |item: u64, _, _| {
        for _ in 0..item {
            tokio::task::yield_now().await;
        }
        Ok(Doc::update().seen(vec![item]))
    });
    let a = g.node("a", says(&calls, "a"));
    let j = g.node("j", says(&calls, "j"));
    g.start(a);
    g.edge(a, w.each(|_| (0..4).collect()));
    g.edge(w, j);
    g.edge(j, End);
    let graph = g.build().unwrap();
    for polls in 0..60 {
        let place = Place::memory();
        let runner = place.runner(graph.clone(), RunOptions::new());
        let t = thread("t");
        let mut left = polls;
        let out_of_patience = std::future::poll_fn(|cx| match left {
            0 => std::task::Poll::Ready(()),
            _ => {
                left -= 1;
                cx.waker().wake_by_ref();
                std::task::Poll::Pending
            }
        });
        tokio::select! {
            biased;
            () = out_of_patience => {}
            report = runner.run(&t, start()) => { report.unwrap(); }
        }
        let report = match runner.run(&t, Command::go_on()).await {
            Err(RunError::NotFound { .. }) => runner.run(&t, start()).await,
            report => report,
        };
        let report = report.unwrap();
        assert_eq!(
            (&report.state.log[..], &report.state.seen[..]),
            (&["a".to_owned(), "j".into()][..], &[0, 1, 2, 3][..])
        );
        assert_eq!(*runner.state(&t).await.unwrap(), *report.state);
    }
}

/// A step that is dropped can be taken again by the same handle, without a store as with one.
#[tokio::test(start_paused = true)]
async fn a_dropped_step_can_be_taken_again() {
    for place in [Place::Nowhere, Place::memory()] {
        let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
        let runner = place.runner(gated(&calls, &gate), RunOptions::new());
        let mut run = runner.open(&thread("t"), start()).await.unwrap();
        run.step().await.unwrap();
        tokio::time::timeout(SECOND, run.step()).await.unwrap_err();
        gate.add_permits(1);
        assert_eq!(run.finish().await.unwrap().state.log, ["a", "b", "c"]);
        assert_eq!((calls.of("a"), calls.of("b")), (1, 2));
    }
}

/// Refused, waited for, replaced: the replaced run is fenced, and its tasks stop.
#[tokio::test(start_paused = true)]
async fn a_busy_thread_is_refused_waited_for_or_taken_over() {
    let (calls, place, t) = (Calls::default(), Place::memory(), thread("t"));
    let gate = Arc::new(Semaphore::new(0));
    let graph = gated(&calls, &gate);
    let runner = |busy| place.runner(graph.clone(), RunOptions::new().busy(busy));
    let holder = tokio::spawn({
        let (runner, t) = (runner(Busy::Refuse), t.clone());
        async move { runner.run(&t, start()).await }
    });
    while calls.of("b") == 0 {
        tokio::task::yield_now().await;
    }
    for busy in [Busy::Refuse, Busy::Wait(SECOND)] {
        let error = runner(busy).run(&t, Command::go_on()).await.unwrap_err();
        assert!(
            matches!(error, RunError::Store(StoreError::Busy { .. })),
            "{error}"
        );
    }
    let taker = tokio::spawn({
        let (runner, t) = (runner(Busy::Replace), t.clone());
        async move { runner.run(&t, Command::go_on()).await }
    });
    while calls.of("b") == 1 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(1);
    let fenced = holder.await.unwrap().unwrap_err();
    assert!(
        matches!(fenced, RunError::Store(StoreError::Fenced { .. })),
        "{fenced}"
    );
    gate.add_permits(1);
    assert_eq!(taker.await.unwrap().unwrap().state.log, ["a", "b", "c"]);
    assert_eq!((calls.of("a"), calls.of("b"), calls.of("c")), (1, 2, 1));
}

/// The tasks of a replaced fan-out end with the first write that is refused.
#[tokio::test(start_paused = true)]
async fn a_replaced_fan_out_stops_its_tasks() {
    let (calls, place, t) = (Calls::default(), Place::memory(), thread("t"));
    let mut g = Graph::builder("replaced");
    let w = fed(calls.clone(), async |calls: Calls, item: u64, _, _| {
        tokio::time::sleep(SECOND * u32::try_from(item).unwrap()).await;
        calls.hit(&format!("w{item}"));
        Ok(Doc::update().seen(vec![item]))
    });
    let w = g.worker("w", w);
    g.start(w.each(|_| vec![1, 9]));
    g.edge(w, End);
    let graph = g.build().unwrap();
    let holder = tokio::spawn({
        let (runner, t) = (place.runner(graph.clone(), RunOptions::new()), t.clone());
        async move { runner.run(&t, start()).await }
    });
    tokio::time::sleep(SECOND / 2).await;
    let taker = place.runner(graph, RunOptions::new().busy(Busy::Replace));
    let report = taker.run(&t, Command::go_on()).await.unwrap();
    assert_eq!(report.state.seen, [1, 9]);
    holder.await.unwrap().unwrap_err();
    assert_eq!((calls.of("w1"), calls.of("w9")), (2, 1));
}

/// A start that is repeated by its run id gives the same run, wherever it stands.
#[tokio::test(start_paused = true)]
async fn a_repeated_start_gives_the_same_run() {
    for door in DOORS {
        let (calls, place, t) = (Calls::default(), Place::memory(), thread("t"));
        let gate = Arc::new(Semaphore::new(0));
        let graph = gated(&calls, &gate);
        let runner = || place.runner(graph.clone(), RunOptions::new());
        let first = || Command::start(line("in")).run_id(RunId::new("first").unwrap());
        // While it runs.
        let running = tokio::spawn({
            let (runner, t, first) = (runner(), t.clone(), first());
            async move { runner.run(&t, first).await }
        });
        while calls.of("b") == 0 {
            tokio::task::yield_now().await;
        }
        let busy = drive(door, &runner(), &t, first()).await.unwrap_err();
        assert!(
            matches!(busy, RunError::Store(StoreError::Busy { .. })),
            "{busy}"
        );
        // After a crash.
        running.abort();
        let _ = running.await;
        gate.add_permits(1);
        let (_, state) = drive(door, &runner(), &t, first()).await.unwrap();
        assert_eq!(state.log, ["in", "a", "b", "c"]);
        // After its end, also when another run came later.
        let store = place.open().unwrap();
        let before = events(&*store, &t).await.unwrap();
        let (ended, state) = drive(door, &runner(), &t, first()).await.unwrap();
        assert_eq!((ended, state.log.len()), (Ended::Finished, 4));
        assert_eq!(events(&*store, &t).await.unwrap(), before);
        gate.add_permits(1);
        let second = Command::start(line("more")).run_id(RunId::new("second").unwrap());
        let (_, state) = drive(door, &runner(), &t, second).await.unwrap();
        assert_eq!(state.log.len(), 8);
        let (_, state) = drive(door, &runner(), &t, first()).await.unwrap();
        assert_eq!(state.log, ["in", "a", "b", "c"]);
        assert_eq!((calls.of("a"), calls.of("b"), calls.of("c")), (2, 3, 2));
    }
}

/// A run that was given up says so when its start is repeated.
#[tokio::test(start_paused = true)]
async fn a_run_that_was_given_up_does_not_come_back() {
    for door in DOORS {
        let (place, t) = (Place::memory(), thread("t"));
        let mut g = Graph::builder("given up");
        let a = g.node("a", async |_, _| Ok(line("a")));
        let b = g.node("b", async |doc: milepost::Snapshot<Doc>, _| match doc.n {
            0 => Err(NodeError::permanent("no")),
            _ => Ok(line("b")),
        });
        g.start(a.and(b));
        g.edge(a, End);
        g.edge(b, End);
        let runner = place.runner(g.build().unwrap(), RunOptions::new());
        let first = || start().run_id(RunId::new("first").unwrap());
        drive(door, &runner, &t, first()).await.unwrap_err();
        let refused = drive(door, &runner, &t, start()).await.unwrap_err();
        let RunError::Unfinished {
            status: Status::Failed,
            step,
            ..
        } = &refused
        else {
            panic!("{refused}")
        };
        assert_eq!(step.get(), 1);
        // What had finished is reduced once, before the new input.
        let anew = Command::start(line("new").n(1)).abandon();
        let (_, state) = drive(door, &runner, &t, anew).await.unwrap();
        assert_eq!(state.log, ["a", "new", "a", "b"]);
        assert_eq!(*runner.state(&t).await.unwrap(), *state);
        let gone = drive(door, &runner, &t, first()).await.unwrap_err();
        assert!(matches!(gone, RunError::Superseded { .. }), "{gone}");
        assert_eq!(
            gone.to_string(),
            "run first of thread t was given up for a later input"
        );
    }
}

/// Runs a thread until node b has begun, and then drops the call.
async fn drop_in_b(
    calls: &Calls,
    runner: Runner<Doc>,
    t: &milepost::ThreadId,
    command: Command<Doc>,
) {
    let before = calls.of("b");
    let t = t.clone();
    let call = tokio::spawn(async move { runner.run(&t, command).await });
    while calls.of("b") == before {
        tokio::task::yield_now().await;
    }
    call.abort();
    let _ = call.await;
}

/// A superstep that kills whoever takes it up ends as poison, and says so to whoever listens.
#[tokio::test]
async fn a_superstep_that_kills_every_process_ends_as_poison() {
    let (calls, place, t) = (Calls::default(), Place::sled(), thread("t"));
    let gate = Arc::new(Semaphore::new(0));
    // Each runner opens the store anew, as another process does.
    let runner = || place.runner(gated(&calls, &gate), RunOptions::new());
    drop_in_b(&calls, runner(), &t, start()).await;
    for _ in 0..5 {
        drop_in_b(&calls, runner(), &t, Command::go_on()).await;
    }
    let last = runner();
    let (heard, ended) = crate::support::listen(&last, &t, Command::go_on()).await;
    drop(last);
    let error = ended.unwrap_err();
    assert!(
        matches!(&error, RunError::Poison { takeovers: 5, step, .. } if step.get() == 2),
        "{error}"
    );
    {
        let store = place.open().unwrap();
        assert_eq!(status(&*store, "t").await, Status::Failed);
        assert_eq!(lasting(&heard), events(&*store, &t).await.unwrap()[8..]);
    }
    assert_eq!(calls.of("b"), 6);
    // Who goes on by hand has five tries again.
    for _ in 0..2 {
        drop_in_b(&calls, runner(), &t, Command::go_on()).await;
    }
    // Once what killed it is found, the thread goes on.
    gate.add_permits(1);
    assert_eq!(
        runner().run(&t, Command::go_on()).await.unwrap().state.log,
        ["a", "b", "c"]
    );
    assert_eq!(calls.of("a"), 1);
}

/// A caller that gives up waiting has not died: its thread is not poisoned by that.
#[tokio::test]
async fn calls_that_are_dropped_do_not_count_as_crashes() {
    let (calls, place, t) = (Calls::default(), Place::memory(), thread("t"));
    let gate = Arc::new(Semaphore::new(0));
    let runner = place.runner(gated(&calls, &gate), RunOptions::new());
    drop_in_b(&calls, runner.clone(), &t, start()).await;
    for _ in 0..8 {
        drop_in_b(&calls, runner.clone(), &t, Command::go_on()).await;
    }
    gate.add_permits(1);
    let report = runner.run(&t, Command::go_on()).await.unwrap();
    assert_eq!(report.state.log, ["a", "b", "c"]);
}

/// A blocking body holds back nobody, alone or among others, on one thread as on several.
#[test]
fn a_blocking_node_does_not_hold_back_its_siblings() {
    crate::support::on_both(async || {
        for place in [Place::Nowhere, Place::memory()] {
            let (release, blocked) = std::sync::mpsc::channel::<()>();
            let blocked = Arc::new(std::sync::Mutex::new(blocked));
            let mut g = Graph::builder("blocking");
            let waits = with(
                blocked,
                async |blocked: Arc<std::sync::Mutex<std::sync::mpsc::Receiver<()>>>, _, _| {
                    blocked
                        .lock()
                        .unwrap()
                        .recv()
                        .map_err(NodeError::permanent)?;
                    Ok(line("waits"))
                },
            );
            let waits = g.node("waits", waits);
            g.policy(waits, Policy::default().blocking());
            let frees = g.node(
                "frees",
                with(
                    release,
                    async |release: std::sync::mpsc::Sender<()>, _, _| {
                        release.send(()).map_err(|_| NodeError::permanent("gone"))?;
                        Ok(line("frees"))
                    },
                ),
            );
            g.start(waits.and(frees));
            g.edge(waits, End);
            g.edge(frees, End);
            let runner = place.runner(g.build().unwrap(), RunOptions::new());
            let report = runner.run(&thread("t"), start()).await.unwrap();
            assert_eq!(report.state.log, ["waits", "frees"]);
        }
    });
}

/// A reader that never reads does not keep a run from being stopped.
#[tokio::test(start_paused = true)]
async fn a_stuck_reader_does_not_keep_a_run_from_ending() {
    for by_deadline in [true, false] {
        let (place, cancel, t) = (Place::memory(), Cancel::new(), thread("t"));
        let mut g = Graph::builder("talkative");
        let told = Arc::new(Notify::new());
        let a = with(
            Arc::clone(&told),
            async |told: Arc<Notify>, _, cx: Context| {
                for _ in 0..10 {
                    cx.token("word").await;
                }
                told.notify_one();
                Ok(line("a"))
            },
        );
        let a = g.node("a", a);
        let b = g.node("b", async |_, _| Ok(line("b")));
        g.start(a);
        g.edge(a, b);
        g.edge(b, End);
        let mut options = RunOptions::new().backlog(3).cancel(cancel.clone());
        if by_deadline {
            options = options.deadline(SECOND);
        }
        let runner = place.runner(g.build().unwrap(), options);
        let stream = runner.stream(&t, start());
        told.notified().await;
        if !by_deadline {
            cancel.cancel();
        }
        tokio::time::sleep(2 * SECOND).await;
        let store = place.open().unwrap();
        let expected = if by_deadline {
            Status::Limited
        } else {
            Status::Cancelled
        };
        assert_eq!(status(&*store, "t").await, expected);
        let report = stream.report().await.unwrap();
        assert_eq!(report.state.log, ["a"]);
    }
}
