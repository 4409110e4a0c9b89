//! Panics, policies, layers and failing stores: typed errors, and threads that can go on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use milepost::store::{MemoryStore, StoreError};
use milepost::{
    Add, Call, Command, Context, End, Ended, ErrorClass, Graph, Layer, Next, NodeError, Policy,
    ReduceFault, Reducer, Retry, RunError, RunOptions, Runner, Snapshot, State, Updates, events,
};

use crate::support::{
    Calls, DOORS, Doc, Place, Probe, When, drive, fed, lasting, line, listen, on_both, says,
    thread, told, with,
};

fn start() -> Command<Doc> {
    Command::start(Doc::update())
}

/// Panics with a text, or with something that is none.
fn boom(text: bool) {
    if text {
        panic!("out of {}", "paper");
    }
    std::panic::panic_any(42u8);
}

/// Panics when it is dropped.
struct Mine;

impl Drop for Mine {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

/// Refuses 13, panics at 14, else adds.
struct Careful;

impl Reducer<u64> for Careful {
    type Update = u64;
    fn reduce(value: &mut u64, updates: Updates<u64>) -> Result<(), ReduceFault> {
        for update in updates {
            *value += update;
            match update {
                13 => return Err(ReduceFault::new("13 is not accepted")),
                14 => panic!("14"),
                15 => std::panic::panic_any(15u8),
                _ => {}
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Default, PartialEq, State)]
struct Sum {
    #[reduce(Add)]
    plain: u64,
    #[reduce(Careful)]
    careful: u64,
}

/// Where it panics in a graph of `a`, then three `w`, then `z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spot {
    BeforeAwait,
    AfterAwait,
    Blocking,
    Member,
    MemberAfterAwait,
    Splitter,
    Branch,
    Tolerate,
}

fn panics_once(spot: Spot, text: bool, calls: &Calls) -> Graph<Doc> {
    let mut g = Graph::builder("panics");
    let a = with(
        (calls.clone(), spot, text),
        async |(calls, spot, text): (Calls, Spot, bool), _, _| {
            let first = calls.hit("a") == 1;
            if first && matches!(spot, Spot::BeforeAwait | Spot::Blocking) {
                boom(text);
            }
            tokio::task::yield_now().await;
            if first && spot == Spot::AfterAwait {
                boom(text);
            }
            Ok(line("a"))
        },
    );
    let a = g.node("a", a);
    if spot == Spot::Blocking {
        g.policy(a, Policy::default().blocking());
    }
    let w = fed(
        (calls.clone(), spot, text),
        async |(calls, spot, text): (Calls, Spot, bool), item: u64, _, _| {
            let first = calls.hit(&format!("w{item}")) == 1;
            if first && item == 1 {
                match spot {
                    Spot::Member => boom(text),
                    Spot::MemberAfterAwait => {
                        tokio::task::yield_now().await;
                        boom(text);
                    }
                    Spot::Tolerate => return Err(NodeError::permanent("its own")),
                    _ => {}
                }
            }
            Ok(Doc::update().seen(vec![item]))
        },
    );
    let w = g.worker("w", w);
    if spot == Spot::Tolerate {
        g.worker_error(w, move |_, _| {
            boom(text);
            Doc::update()
        });
    }
    let z = g.node("z", says(calls, "z"));
    g.start(a);
    let asked = calls.clone();
    g.edge(
        a,
        w.each(move |_| {
            if asked.hit("split") == 1 && spot == Spot::Splitter {
                boom(text);
            }
            vec![0, 1, 2]
        }),
    );
    let asked = calls.clone();
    g.branch(
        w,
        move |_| {
            if asked.hit("branch") == 1 && spot == Spot::Branch {
                boom(text);
            }
            Ok(())
        },
        |()| z.into(),
    );
    g.edge(z, End);
    g.build().unwrap()
}

/// C62 (1, 2, 4): typed, the thread can go on, another thread is fine, nothing finished is lost.
#[test]
fn a_panic_is_the_error_of_whoever_panicked() {
    let spots = [
        Spot::BeforeAwait,
        Spot::AfterAwait,
        Spot::Blocking,
        Spot::Member,
        Spot::MemberAfterAwait,
        Spot::Splitter,
        Spot::Branch,
        Spot::Tolerate,
    ];
    on_both(async || {
        for spot in spots {
            for text in [true, false] {
                for door in DOORS {
                    let (calls, place, t) = (Calls::default(), Place::memory(), thread("t"));
                    let graph = panics_once(spot, text, &calls);
                    let runner = place.runner(graph.clone(), RunOptions::new().concurrency(2));
                    let error = drive(door, &runner, &t, start()).await.unwrap_err();
                    assert_eq!(error.class(), "panicked", "{spot:?} {error}");
                    let said = error.to_string();
                    assert!(!text || said.contains("out of paper"), "{said}");
                    match (&error, spot) {
                        (
                            RunError::Route {
                                node: Some(node), ..
                            },
                            Spot::Splitter,
                        ) => assert_eq!(node.as_str(), "a"),
                        (
                            RunError::Route {
                                node: Some(node), ..
                            },
                            Spot::Branch,
                        ) => assert_eq!(node.as_str(), "w"),
                        (RunError::Node { task, .. }, _) => {
                            let place = match spot {
                                Spot::BeforeAwait | Spot::AfterAwait | Spot::Blocking => "1:a[0]",
                                _ => "2:w[1]",
                            };
                            assert_eq!(task.to_string(), place);
                            assert!(spot != Spot::Tolerate || said.contains("its own"), "{said}");
                        }
                        _ => panic!("{spot:?}: {error}"),
                    }
                    let other = drive(door, &runner, &thread("other"), start())
                        .await
                        .unwrap();
                    assert_eq!(other.0, Ended::Finished);
                    let before = calls.of("w0") + calls.of("w2");
                    let (_, state) = drive(door, &runner, &t, Command::go_on()).await.unwrap();
                    assert_eq!(
                        (&state.log[..], &state.seen[..]),
                        (&["a".to_owned(), "z".into()][..], &[0, 1, 2][..])
                    );
                    if matches!(spot, Spot::Branch | Spot::Tolerate) {
                        assert!(calls.of("w0") + calls.of("w2") <= before + 1);
                    }
                }
            }
        }
    });
}

/// C62, S039: also a panic of the rule for failures is recorded as it was heard.
#[tokio::test(start_paused = true)]
async fn a_panic_of_the_rule_for_failures_is_heard_and_stored_alike() {
    let (calls, place, t) = (Calls::default(), Place::memory(), thread("t"));
    let runner = place.runner(panics_once(Spot::Tolerate, true, &calls), RunOptions::new());
    let (heard, _) = listen(&runner, &t, start()).await;
    let store = place.open().unwrap();
    assert_eq!(lasting(&heard), events(&*store, &t).await.unwrap());
    let said = told(&heard)
        .into_iter()
        .find(|told| told.starts_with("failed"))
        .unwrap();
    assert_eq!(
        said,
        "failed 2:w[1]: panicked: the rule for its failures panicked: out of paper; it had failed with: its own"
    );
}

/// C62 (3), C02: a reducer that refuses or panics changes no field, and the thread goes on.
#[test]
fn a_reducer_that_refuses_or_panics_changes_nothing() {
    on_both(async || {
        for (value, panicked) in [(13, false), (14, true), (15, true)] {
            for siblings in [1, 3] {
                for place in [Place::Nowhere, Place::memory()] {
                    for door in DOORS {
                        let graph = move |value: u64| {
                            let mut g = Graph::<Sum>::builder("careful");
                            let w = g.worker("w", async |item: u64, _, _| {
                                Ok(Sum::update().plain(1).careful(item))
                            });
                            g.start(w.each(move |_| vec![value; siblings]));
                            g.edge(w, End);
                            g.build().unwrap()
                        };
                        let t = thread(&format!("{door:?}"));
                        let runner = place.runner(graph(value), RunOptions::new());
                        let input = || Command::start(Sum::update().careful(1));
                        let error = drive(door, &runner, &t, input()).await.unwrap_err();
                        let RunError::Reduce {
                            field: "careful",
                            panicked: found,
                            ..
                        } = &error
                        else {
                            panic!("{error}")
                        };
                        assert_eq!(*found, panicked);
                        if place.open().is_some() {
                            assert_eq!(
                                *runner.state(&t).await.unwrap(),
                                Sum {
                                    plain: 0,
                                    careful: 1
                                }
                            );
                            // What cannot be merged is given up, and the thread starts anew.
                            let mended = place.runner(graph(2), RunOptions::new());
                            let (_, state) =
                                drive(door, &mended, &t, input().abandon()).await.unwrap();
                            assert_eq!(
                                *state,
                                Sum {
                                    plain: siblings as u64,
                                    careful: 2 + 2 * siblings as u64
                                }
                            );
                            assert_eq!(*mended.state(&t).await.unwrap(), *state);
                        }
                        // An input that is refused leaves no trace.
                        let fresh = thread(&format!("fresh {door:?}"));
                        let refused = Command::start(Sum::update().careful(value));
                        let error = drive(door, &runner, &fresh, refused).await.unwrap_err();
                        assert!(matches!(error, RunError::Reduce { .. }), "{error}");
                        if place.open().is_some() {
                            assert!(matches!(
                                runner.state(&fresh).await,
                                Err(RunError::NotFound { .. })
                            ));
                        }
                    }
                }
            }
        }
    });
}

/// C62: what a body holds may panic when it is dropped; the call ends with an error, and does not
/// hang or say that it was cancelled.
#[test]
fn a_panic_on_drop_is_an_error_too() {
    struct Holds {
        _mine: Option<Mine>,
    }
    impl Future for Holds {
        type Output = Result<DocUpdate, NodeError>;
        fn poll(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Self::Output> {
            std::task::Poll::Ready(Ok(Doc::update()))
        }
    }
    use crate::support::DocUpdate;
    on_both(async || {
        for place in [Place::Nowhere, Place::memory()] {
            for siblings in [2, 5] {
                let mut g = Graph::<Doc>::builder("mines");
                let w = g.worker("w", |item: u64, _, _| Holds {
                    _mine: (item == 1).then_some(Mine),
                });
                g.start(w.each(move |_| (0..siblings).collect()));
                g.edge(w, End);
                let runner = place.runner(g.build().unwrap(), RunOptions::new());
                let t = thread(&siblings.to_string());
                let error = runner.run(&t, start()).await.unwrap_err();
                assert_eq!(error.class(), "panicked", "{error}");
            }
        }
    });
}

struct Noted {
    name: &'static str,
    notes: Arc<Mutex<Vec<String>>>,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Pass,
    Panic,
    PanicAfter,
    Lie,
    Swallow,
    Refuse,
}

#[async_trait]
impl Layer for Noted {
    async fn call(&self, call: &Call, next: Next<'_>) -> Result<(), NodeError> {
        let note = |what| {
            self.notes.lock().unwrap().push(format!(
                "{} {what} {} {}",
                self.name, call.task, call.attempt
            ))
        };
        note("in");
        let ended = match self.what {
            What::Panic => panic!("a layer"),
            What::Lie => Ok(()),
            What::Refuse => Err(NodeError::permanent("no entry")),
            What::Swallow => {
                let _ = next.run(call).await;
                Ok(())
            }
            What::Pass | What::PanicAfter => next.run(call).await,
        };
        if matches!(self.what, What::PanicAfter) {
            panic!("a layer");
        }
        note("out");
        ended
    }
}

/// Layers: order, panic inside, `Ok` without `next`, a swallowed error; around each try.
#[test]
fn layers_stand_around_each_try_in_order() {
    on_both(async || {
        let cases = [
            (What::Pass, false, None),
            (What::Panic, false, Some("it panicked: a layer")),
            (What::PanicAfter, false, Some("it panicked: a layer")),
            (
                What::Lie,
                false,
                Some("a layer said that the call went well, but the node was not run"),
            ),
            (What::Refuse, false, Some("no entry")),
            (What::Swallow, false, None),
            (What::Swallow, true, Some("its own")),
        ];
        for (what, fails, expected) in cases {
            for siblings in [1, 2] {
                let notes = Arc::default();
                let layer = |name, what| Noted {
                    name,
                    notes: Arc::clone(&notes),
                    what,
                };
                let mut g = Graph::builder("layers");
                let w = fed(fails, async |fails: bool, item: u64, _, _| {
                    if fails {
                        return Err(NodeError::permanent("its own"));
                    }
                    Ok(Doc::update().seen(vec![item]))
                });
                let w = g.worker("w", w);
                g.start(w.each(move |_| (0..siblings).collect()));
                g.edge(w, End);
                let options = RunOptions::new()
                    .layer(layer("outer", What::Pass))
                    .layer(layer("inner", what));
                let runner = Runner::new(g.build().unwrap())
                    .options(options)
                    .store(MemoryStore::new());
                let ended = runner.run(&thread("t"), start()).await;
                match expected {
                    None => assert_eq!(ended.unwrap().ended, Ended::Finished),
                    Some(expected) => {
                        let RunError::Node { error, .. } = ended.unwrap_err() else {
                            panic!()
                        };
                        assert_eq!(error.to_string(), expected);
                    }
                }
                let notes: Vec<String> = std::mem::take(&mut *notes.lock().unwrap());
                if siblings == 1 {
                    let last = [
                        "outer in 1:w[0] 1",
                        "inner in 1:w[0] 1",
                        "inner out 1:w[0] 1",
                        "outer out 1:w[0] 1",
                    ];
                    match what {
                        What::Panic | What::PanicAfter => assert_eq!(notes, last[..2]),
                        _ => assert_eq!(notes, last),
                    }
                }
            }
        }
    });
}

/// S029: classes that are tried again, and those that are not.
#[tokio::test(start_paused = true)]
async fn only_the_classes_of_a_retry_are_tried_again() {
    let classes = [
        (ErrorClass::Other, 3),
        (ErrorClass::Transient, 3),
        (ErrorClass::Permanent, 1),
        (ErrorClass::Invalid, 1),
        (ErrorClass::Panicked, 1),
    ];
    for (class, tries) in classes {
        let calls = Calls::default();
        let mut g = Graph::builder("classes");
        let a = with(
            (calls.clone(), class),
            async |(calls, class): (Calls, ErrorClass), _, _| {
                calls.hit("a");
                if class == ErrorClass::Panicked {
                    boom(true);
                }
                Err::<crate::support::DocUpdate, _>(NodeError::new(class, "no"))
            },
        );
        let a = g.node("a", a);
        g.policy(a, Policy::default().retry(Retry::default()));
        g.start(a);
        g.edge(a, End);
        let runner = Runner::new(g.build().unwrap());
        let error = runner.run(&thread("t"), start()).await.unwrap_err();
        assert!(
            matches!(error, RunError::Node { attempts, .. } if attempts == tries),
            "{class}: {error}"
        );
        assert_eq!(calls.of("a"), tries);
    }
}

/// S029: each wait lies between its jitter bounds, and never beyond the longest.
#[test]
fn each_wait_lies_in_its_bounds() {
    let retry = Retry {
        max_attempts: 80,
        ..Retry::default()
    };
    let error = NodeError::transient("busy");
    for attempt in 0..80 {
        let whole = (0.5 * 2f64.powi((attempt as i32 - 1).max(0))).min(30.0);
        for chance in [0.0, 0.3, 1.0, 7.0, -1.0] {
            let wait = retry.wait(attempt, &error, chance).unwrap().as_secs_f64();
            assert!(
                wait <= whole + 1e-9 && wait >= whole / 2.0 - 1e-9,
                "{attempt} {chance} {wait}"
            );
        }
    }
    assert_eq!(retry.wait(80, &error, 0.0), None);
    assert_eq!(retry.wait(1, &NodeError::permanent("no"), 0.0), None);
}

/// S029, C35: the time limit is for each try; the body is dropped where it waits.
#[tokio::test(start_paused = true)]
async fn a_timeout_ends_each_try_alone() {
    for siblings in [1, 3] {
        let calls = Calls::default();
        let mut g = Graph::builder("slow");
        let w = fed(calls.clone(), async |calls: Calls, item: u64, _, _| {
            let tried = calls.hit(&format!("w{item}"));
            tokio::time::sleep(Duration::from_millis(if tried < 3 { 300 } else { 50 })).await;
            calls.hit("effect");
            Ok(Doc::update().seen(vec![item]))
        });
        let w = g.worker("w", w);
        let policy = Policy::default()
            .timeout(Duration::from_millis(100))
            .retry(Retry::default())
            .concurrency(2);
        g.policy(w, policy);
        g.start(w.each(move |_| (0..siblings).collect()));
        g.edge(w, End);
        let (runner, t) = (
            Runner::new(g.build().unwrap()).store(MemoryStore::new()),
            thread("t"),
        );
        let report = runner.run(&t, start()).await.unwrap();
        assert_eq!(report.state.seen.len() as u64, siblings);
        assert_eq!(u64::from(calls.of("effect")), siblings);
        for item in 0..siblings {
            assert_eq!(calls.of(&format!("w{item}")), 3);
        }
    }
}

/// S023: a member that failed for good is tolerated; a worker whose tasks all failed leads on by
/// its own edge, or by its `when_empty`.
#[test]
fn failures_that_are_tolerated_become_updates() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory()] {
            let mut g = Graph::builder("tolerant");
            let w = g.worker("w", async |item: u64, _, _| match item % 2 {
                0 => Err(NodeError::permanent(format!("no {item}"))),
                _ => Ok(Doc::update().seen(vec![item])),
            });
            g.worker_error(w, |item, error| line(format!("{item}: {error}")));
            let j = g.node("j", async |_, _| Ok(line("j")));
            g.start(w.each(|doc| doc.seen.clone()));
            g.edge(w, j);
            g.edge(j, End);
            let runner = place.runner(g.build().unwrap(), RunOptions::new());
            for (input, log, len) in [
                (vec![1, 2, 3], vec!["2: no 2", "j"], 5),
                (vec![2, 4], vec!["2: no 2", "4: no 4", "j"], 2),
            ] {
                let t = thread(&format!("{input:?}"));
                let report = runner
                    .run(&t, Command::start(Doc::update().seen(input)))
                    .await
                    .unwrap();
                assert_eq!(
                    (&report.state.log[..], report.state.seen.len()),
                    (
                        &log.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..],
                        len
                    )
                );
            }
        }
    });
}

/// S036, S046, C62: whichever operation of the store fails, before or after it was carried out,
/// the error is typed, and going on ends in the undisturbed state.
#[test]
fn a_store_that_fails_once_costs_nothing_that_had_finished() {
    on_both(async || {
        for door in DOORS {
            for when in [When::Before, When::After] {
                let mut at = 1;
                loop {
                    let (memory, t, calls) = (MemoryStore::new(), thread("t"), Calls::default());
                    let probe = Probe::new(memory.clone()).failing(at, when);
                    let graph = panics_once(Spot::Branch, true, &calls);
                    let options = RunOptions::new().base_every(2).shuffle(at);
                    let failing = Runner::new(graph.clone())
                        .options(options)
                        .store(probe.clone());
                    let ends = async |runner: &Runner<Doc>| {
                        let mut command = start();
                        for _ in 0..4 {
                            match drive(door, runner, &t, command).await {
                                Ok((ended, state)) => return (ended, state),
                                Err(RunError::NotFound { .. }) => command = start(),
                                Err(
                                    RunError::Store(StoreError::Io { .. }) | RunError::Route { .. },
                                ) => command = Command::go_on(),
                                Err(other) => panic!("{other}"),
                            }
                        }
                        panic!("operation {at} {when:?}: it does not end");
                    };
                    let (ended, state) = ends(&failing).await;
                    assert_eq!(ended, Ended::Finished);
                    assert_eq!(
                        (&state.log[..], &state.seen[..]),
                        (&["a".to_owned(), "z".into()][..], &[0, 1, 2][..]),
                        "operation {at} {when:?}"
                    );
                    let reader = Runner::new(graph).store(memory);
                    assert_eq!(*reader.state(&t).await.unwrap(), *state);
                    at += 1;
                    if at > probe.operations() {
                        break;
                    }
                }
                assert!(at > 10);
            }
        }
    });
}

/// S041, C55: a boundary is one write, and a field is written once.
#[tokio::test(start_paused = true)]
async fn a_boundary_is_one_write_that_grows_with_what_changed() {
    let probe = Probe::new(MemoryStore::new());
    let mut g = Graph::builder("rounds");
    let calls = Calls::default();
    let again = with(calls, async |calls: Calls, _: Snapshot<Doc>, _: Context| {
        let exit = if calls.hit("again") < 150 {
            Way::Again
        } else {
            Way::Enough
        };
        Ok((line("x".repeat(1 << 10)), exit))
    });
    let again = g.node("again", again);
    g.start(again);
    g.wire(again, |way| match way {
        Way::Again => again.into(),
        Way::Enough => End.into(),
    });
    let runner = Runner::new(g.build().unwrap()).store(probe.clone());
    let big = Command::start(line("y".repeat(100 << 10)));
    runner.run(&thread("t"), big).await.unwrap();
    let writes = probe.writes();
    assert_eq!(writes.len(), 151);
    let size = |write: &milepost::store::Write| -> usize {
        write
            .segments
            .iter()
            .map(|(_, bytes)| bytes.len())
            .sum::<usize>()
            + format!("{:?}", write.records).len() / 4
    };
    let total: usize = writes[1..].iter().map(size).sum();
    assert!(total < 3 * 150 * (1 << 10), "{total}");
}

#[derive(Clone, Copy, milepost::Exits)]
enum Way {
    Again,
    Enough,
}

/// The same key over retries and resumes, another in each round, task and thread.
#[tokio::test(start_paused = true)]
async fn an_idempotency_key_is_that_of_its_task() {
    let (place, calls) = (Place::memory(), Calls::default());
    let mut g = Graph::builder("keys");
    let w = fed(
        calls.clone(),
        async |calls: Calls, item: u64, _, cx: Context| {
            calls.hit(&cx.idempotency_key("charge"));
            calls.hit(&cx.idempotency_key("refund"));
            match calls.hit(&format!("w{item} in {}", cx.superstep())) {
                1 => Err(NodeError::transient("busy")),
                2 => Err(NodeError::permanent("no")),
                _ => Ok((
                    Doc::update().n(cx.superstep().get()),
                    if cx.superstep().get() < 2 {
                        Way::Again
                    } else {
                        Way::Enough
                    },
                )),
            }
        },
    );
    let w = g.worker("w", w);
    g.policy(w, Policy::default().retry(Retry::default()));
    g.start(w.each(|_| vec![7]));
    g.wire(w, |way| match way {
        Way::Again => w.each(|_| vec![7]),
        Way::Enough => End.into(),
    })
    .when_empty(End);
    let runner = place.runner(g.build().unwrap(), RunOptions::new());
    for name in ["one", "two"] {
        let mut command = start();
        while drive(crate::support::Door::Run, &runner, &thread(name), command)
            .await
            .is_err()
        {
            command = Command::go_on();
        }
        if name == "one" {
            calls.forget("w7 in 1");
            calls.forget("w7 in 2");
        }
    }
    let keys: Vec<_> = calls
        .all()
        .into_iter()
        .filter(|(name, _)| name.len() == 32)
        .collect();
    assert_eq!(keys.len(), 8);
    assert!(keys.iter().all(|(_, count)| *count == 3), "{keys:?}");
}
