//! Joins: who waits for whom, for how long, and what a run says that comes to its end before.

use std::sync::Arc;
use std::time::Duration;

use milepost::store::{CheckpointStore, MemoryStore, Record, Status};
use milepost::{
    Answers, AsNode, Ask, Builder, Command, Context, End, Ended, Exits, Graph, NodeError, NodeRef,
    Output, Problem, RunError, RunOptions, Runner, Seq, Snapshot, ThreadId, events, history,
};
use serde::{Deserialize, Serialize};

use crate::support::{
    Calls, DOORS, Doc, DocUpdate, Place, Probe, When, drive, fed, lasting, line, listen, on_both,
    says, thread, wander, with,
};

type Node = NodeRef<Doc, ()>;

fn start() -> Command<Doc> {
    Command::start(Doc::update())
}

#[derive(Clone, Copy, Exits, PartialEq)]
enum Pick {
    A,
    B,
    Both,
}

/// A node that says its name and takes an exit.
fn picks(
    calls: &Calls,
    name: &'static str,
    pick: impl Fn(&Doc) -> Pick + Clone + Send + Sync + 'static,
) -> impl Fn(
    Snapshot<Doc>,
    Context,
) -> futures::future::BoxFuture<'static, Result<(DocUpdate, Pick), NodeError>>
+ Send
+ Sync
+ 'static {
    let calls = calls.clone();
    move |doc, _| {
        calls.hit(name);
        let pick = pick(&doc);
        Box::pin(async move { Ok((line(name), pick)) })
    }
}

/// A row of so many nodes, each leading to the next; gives the first and the last.
fn row(g: &mut Builder<Doc>, calls: &Calls, names: &[&'static str]) -> (Node, Node) {
    let nodes: Vec<_> = names
        .iter()
        .map(|name| g.node(name, says(calls, name)))
        .collect();
    for pair in nodes.windows(2) {
        g.edge(pair[0], pair[1]);
    }
    (nodes[0], nodes[names.len() - 1])
}

/// Runs the graph through every door and with every store, with shuffled starts; twice, for what one
/// run has left does not reach the next.
fn always(graph: impl Fn(&Calls) -> Graph<Doc>, log: &[&str]) {
    runs(2, graph, log);
}

/// The same for a graph whose way depends on what is in the state.
fn once(graph: impl Fn(&Calls) -> Graph<Doc>, log: &[&str]) {
    runs(1, graph, log);
}

fn runs(times: u32, graph: impl Fn(&Calls) -> Graph<Doc>, log: &[&str]) {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory(), Place::sled()] {
            for door in DOORS {
                for seed in 0..3 {
                    let calls = Calls::default();
                    let runner = place.runner(graph(&calls), RunOptions::new().shuffle(seed));
                    let t = thread(&format!("{door:?}{seed}"));
                    for _ in 0..times {
                        let (ended, state) = drive(door, &runner, &t, start()).await.unwrap();
                        assert_eq!(ended, Ended::Finished);
                        assert!(
                            state.log.ends_with(
                                &log.iter().map(ToString::to_string).collect::<Vec<_>>()
                            ),
                            "{door:?} {seed} {:?}",
                            state.log
                        );
                    }
                }
            }
        }
    });
    // One superstep a process: every commit is loaded again.
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let calls = Calls::default();
            let t = thread("t");
            let options = RunOptions::new().step_limit(1);
            let mut report = place
                .runner(graph(&calls), options.clone())
                .run(&t, start())
                .await
                .unwrap();
            while report.ended != Ended::Finished {
                let runner = place.runner(graph(&calls), options.clone());
                report = runner.run(&t, Command::go_on()).await.unwrap();
            }
            assert_eq!(report.state.log, log);
            assert!(calls.all().values().all(|count| *count < 4), "{calls:?}");
        }
    });
}

/// Runs the graph through every door; the error is the same for each, and for each that goes on.
fn never(graph: impl Fn(&Calls) -> Graph<Doc>, check: impl Fn(&RunError)) {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory(), Place::sled()] {
            for door in DOORS {
                let calls = Calls::default();
                let t = thread(&format!("{door:?}"));
                let error = drive(
                    door,
                    &place.runner(graph(&calls), RunOptions::new()),
                    &t,
                    start(),
                )
                .await
                .unwrap_err();
                check(&error);
                let ran = calls.all();
                if let Some(store) = place.open() {
                    assert_eq!(
                        store.head(&t).await.unwrap().unwrap().status,
                        Status::Failed
                    );
                    drop(store);
                    let runner = place.runner(graph(&calls), RunOptions::new());
                    let again = drive(door, &runner, &t, Command::go_on())
                        .await
                        .unwrap_err();
                    assert_eq!(again.to_string(), error.to_string());
                    assert_eq!(calls.all(), ran, "nothing runs again");
                    // The thread is not lost: it can be given up for a new input.
                    let given_up = Command::start(Doc::update()).abandon();
                    drive(door, &runner, &t, given_up).await.unwrap_err();
                }
            }
        }
    });
}

/// S001: branches of unequal length meet, in whatever superstep each arrives; the join runs once.
#[test]
fn a_join_waits_for_branches_of_unequal_length() {
    always(
        |calls| {
            let mut g = Graph::builder("unequal");
            let (a, a3) = row(&mut g, calls, &["a1", "a2", "a3"]);
            let (b, _) = row(&mut g, calls, &["b1"]);
            let (j, k) = row(&mut g, calls, &["j", "k"]);
            g.start(a.and(b));
            g.join([a3, b], j);
            g.edge(k, End);
            g.build().unwrap()
        },
        &["a1", "b1", "a2", "a3", "j", "k"],
    );
}

fn c11(calls: &Calls, pick: Pick, gathers: bool) -> Graph<Doc> {
    let mut g = Graph::builder("c11");
    let a = g.node("a", says(calls, "a"));
    let b = g.node("b", says(calls, "b"));
    let (j, k) = row(&mut g, calls, &["j", "k"]);
    let r = g.node("r", picks(calls, "r", move |_| pick));
    g.start(r);
    g.wire(r, |pick| match pick {
        Pick::A => a.into(),
        Pick::B => b.into(),
        Pick::Both => a.and(b),
    });
    match gathers {
        true => g.gather([a, b], j),
        false => g.join([a, b], j),
    };
    g.edge(k, End);
    g.build().unwrap()
}

/// C11: the join whose parent was routed around says so, and never ends well; a gather goes on.
#[test]
fn c11_a_join_whose_parent_was_routed_around_is_an_error() {
    never(
        |calls| c11(calls, Pick::A, false),
        |error| match error {
            RunError::UnsatisfiedJoin {
                join,
                missing,
                arrived,
                enough: 2,
                others,
                ..
            } => {
                assert_eq!(join.as_str(), "join j");
                assert_eq!(missing[0].as_str(), "b");
                assert_eq!(arrived[0].as_str(), "a");
                assert_eq!((missing.len(), arrived.len(), others.len()), (1, 1, 0));
                assert_eq!(error.class(), "unsatisfied_join");
                assert!(
                    error.to_string().contains("\"join j\" waits in vain"),
                    "{error}"
                );
            }
            other => panic!("{other}"),
        },
    );
    always(|calls| c11(calls, Pick::A, true), &["r", "a", "j", "k"]);
    always(|calls| c11(calls, Pick::B, true), &["r", "b", "j", "k"]);
    for gathers in [true, false] {
        always(
            |calls| c11(calls, Pick::Both, gathers),
            &["r", "a", "b", "j", "k"],
        );
    }
}

/// May it go on?
#[derive(Serialize, Deserialize)]
struct Allow;

impl Ask for Allow {
    type Answer = bool;
}

/// C11, the variant with a question: a asks, the thread is stored and taken up by others.
fn asks(calls: &Calls, both: bool, gathers: bool) -> Graph<Doc> {
    let mut g = Graph::builder("asks");
    let a = with(
        calls.clone(),
        async |calls: Calls, _: Snapshot<Doc>, cx: Context| {
            calls.hit("a");
            match cx.answer::<Allow>("allow")? {
                None => Ok(Output::ask("allow", Allow)),
                Some(_) => {
                    Ok::<Output<DocUpdate, (), Allow>, NodeError>(Output::Done(line("a"), ()))
                }
            }
        },
    );
    let a = g.node("a", a);
    let (b, b2) = row(&mut g, calls, &["b", "b2"]);
    let j = g.node("j", says(calls, "j"));
    let r = g.node(
        "r",
        picks(calls, "r", move |_| if both { Pick::Both } else { Pick::A }),
    );
    g.start(r);
    g.wire(r, |pick| match pick {
        Pick::A => a.into(),
        Pick::B => b.into(),
        Pick::Both => a.and(b),
    });
    match gathers {
        true => g.gather((a, b2), j),
        false => g.join((a, b2), j),
    };
    g.edge(j, End);
    g.build().unwrap()
}

#[test]
fn c11_the_same_with_a_question_open_in_between() {
    on_both(async || {
        for (place, both, gathers) in [
            (Place::memory(), true, false),
            (Place::sled(), true, false),
            (Place::sled(), false, true),
            (Place::memory(), false, true),
            (Place::sled(), false, false),
        ] {
            let calls = Calls::default();
            let fresh = || place.runner(asks(&calls, both, gathers), RunOptions::new());
            let t = thread("t");
            let report = fresh().run(&t, start()).await.unwrap();
            assert!(matches!(report.ended, Ended::Paused { .. }));
            let answered = fresh().run(&t, Command::answer(Answers::only(&true))).await;
            assert_eq!(calls.of("r"), 1);
            match answered {
                Ok(report) => {
                    assert!(both || gathers);
                    let log: &[&str] = match both {
                        true => &["r", "a", "b", "b2", "j"],
                        false => &["r", "a", "j"],
                    };
                    assert_eq!(report.state.log, log);
                    assert_eq!(calls.of("j"), 1);
                }
                Err(error) => {
                    assert!(!both && !gathers);
                    assert!(matches!(error, RunError::UnsatisfiedJoin { .. }), "{error}");
                }
            }
        }
    });
}

/// A gather of three of which a branch starts one, or two.
#[test]
fn a_gather_goes_on_with_those_that_were_started() {
    for (pick, log) in [
        (Pick::A, ["r", "a", "a2", "j", "", ""]),
        (Pick::B, ["r", "b", "j", "", "", ""]),
        (Pick::Both, ["r", "b", "c", "c2", "c3", "j"]),
    ] {
        let log: Vec<_> = log.into_iter().filter(|name| !name.is_empty()).collect();
        always(
            move |calls| {
                let mut g = Graph::builder("three");
                let (a, a2) = row(&mut g, calls, &["a", "a2"]);
                let b = g.node("b", says(calls, "b"));
                let (c, c3) = row(&mut g, calls, &["c", "c2", "c3"]);
                let j = g.node("j", says(calls, "j"));
                let r = g.node("r", says(calls, "r"));
                g.start(r);
                g.branch(
                    r,
                    move |_| Ok(pick),
                    |pick| match pick {
                        Pick::A => a.into(),
                        Pick::B => b.into(),
                        Pick::Both => b.and(c),
                    },
                );
                g.gather([a2, b, c3], j);
                g.edge(j, End);
                g.build().unwrap()
            },
            &log,
        );
    }
}

/// A join inside of a loop counts each round anew, and one that is met in one round only says so.
#[test]
fn a_join_in_a_loop_counts_each_round_anew() {
    fn turns(calls: &Calls, last: Pick) -> Graph<Doc> {
        let mut g = Graph::builder("loop");
        let (a, a2) = row(&mut g, calls, &["a", "a2"]);
        let b = g.node("b", says(calls, "b"));
        let r = g.node(
            "r",
            picks(calls, "r", move |doc| {
                match doc.log.iter().filter(|name| *name == "r").count() % 3 {
                    2 => last,
                    _ => Pick::Both,
                }
            }),
        );
        let j = g.node("j", says(calls, "j"));
        g.start(r);
        g.wire(r, |pick| match pick {
            Pick::A => a.into(),
            Pick::B => End.into(),
            Pick::Both => a.and(b),
        });
        g.join([a2, b], j);
        g.edge(j, r);
        g.build().unwrap()
    }
    always(
        |calls| turns(calls, Pick::B),
        &["r", "a", "b", "a2", "j", "r", "a", "b", "a2", "j", "r"],
    );
    never(
        |calls| turns(calls, Pick::A),
        |error| {
            assert!(
                matches!(error, RunError::UnsatisfiedJoin { missing, .. } if missing[0].as_str() == "b"),
                "{error}"
            )
        },
    );
}

fn quorum(g: &mut Builder<Doc>, calls: &Calls, rounds: u64) {
    let a = g.node("a", says(calls, "a"));
    let (b, b2) = row(g, calls, &["b", "b2"]);
    let (c, c4) = row(g, calls, &["c", "c2", "c3", "c4"]);
    let j = g.node(
        "j",
        with(
            rounds,
            async |rounds: u64, doc: Snapshot<Doc>, _: Context| {
                let more = doc.sum + 1 < rounds;
                Ok((line("j").sum(1), if more { Pick::A } else { Pick::B }))
            },
        ),
    );
    let r = g.node("r", says(calls, "r"));
    g.start(r);
    g.edge(r, a.and(b).and(c));
    g.join([a, b2, c4], j).at_least(2);
    g.wire(j, |pick| match pick {
        Pick::A => r.into(),
        Pick::B | Pick::Both => End.into(),
    });
}

/// S023: a quorum goes on with as many as are enough; who comes late changes nothing, also where the
/// next round has begun.
#[test]
fn a_quorum_goes_on_with_enough_and_late_ones_change_nothing() {
    let graph = |rounds| {
        move |calls: &Calls| {
            let mut g = Graph::builder("quorum");
            quorum(&mut g, calls, rounds);
            g.build().unwrap()
        }
    };
    always(graph(1), &["r", "a", "b", "c", "b2", "c2", "c3", "j", "c4"]);
    on_both(async || {
        for place in [Place::Nowhere, Place::memory(), Place::sled()] {
            for rounds in 2..4 {
                let calls = Calls::default();
                let runner = place.runner(graph(rounds)(&calls), RunOptions::new());
                let t = thread(&format!("{rounds}"));
                let report = runner.run(&t, start()).await.unwrap();
                assert_eq!(report.state.sum, rounds, "{:?}", report.state.log);
                assert_eq!(calls.of("r"), rounds as u32);
            }
        }
    });
}

/// S023: must-haves: enough is not enough without them, and they are named when they never come.
#[test]
fn a_join_does_not_go_on_without_its_must_haves() {
    let graph = |pick: Pick| {
        move |calls: &Calls| {
            let mut g = Graph::builder("must");
            let a = g.node("a", says(calls, "a"));
            let (b, b3) = row(&mut g, calls, &["b", "b2", "b3"]);
            let c = g.node("c", says(calls, "c"));
            let j = g.node("j", says(calls, "j"));
            let r = g.node("r", picks(calls, "r", move |_| pick));
            g.start(r);
            g.wire(r, |pick| match pick {
                Pick::A => a.and(c),
                Pick::B => b.into(),
                Pick::Both => a.and(b).and(c),
            });
            g.gather([a, b3, c], j).must([b3]).named("the report");
            g.edge(j, End);
            g.build().unwrap()
        }
    };
    always(graph(Pick::Both), &["r", "a", "b", "c", "b2", "b3", "j"]);
    always(graph(Pick::B), &["r", "b", "b2", "b3", "j"]);
    never(graph(Pick::A), |error| {
        assert!(
            matches!(error, RunError::UnsatisfiedJoin { join, missing, .. }
                if join.as_str() == "the report" && missing[0].as_str() == "b3"),
            "{error}"
        );
    });
}

/// Two gathers that can lead to each other: the first one goes on, and nothing waits for ever.
#[test]
fn two_gathers_that_feed_each_other_go_on_in_order() {
    once(
        |calls| {
            let mut g = Graph::builder("feed");
            let (a, b) = (g.node("a", says(calls, "a")), g.node("b", says(calls, "b")));
            let first = |name: &'static str| {
                picks(calls, name, move |doc| {
                    match doc.log.iter().any(|known| known == name) {
                        true => Pick::B,
                        false => Pick::A,
                    }
                })
            };
            let (x, y) = (g.node("x", first("x")), g.node("y", first("y")));
            let to_x = g.gather((a, y), x).place();
            let to_y = g.gather((b, x), y).place();
            g.start(a.and(b));
            g.wire(x, |pick| match pick {
                Pick::A => to_y.into(),
                _ => End.into(),
            });
            g.wire(y, |pick| match pick {
                Pick::A => to_x.into(),
                _ => End.into(),
            });
            g.build().unwrap()
        },
        &["a", "b", "x", "y", "x"],
    );
}

/// A join behind fan-outs: once after all tasks of a worker, and at once where there are none, be it
/// at the start.
#[test]
fn a_join_waits_for_fan_outs_also_over_nothing() {
    for (v_items, w_items) in [(3, 2), (0, 2), (2, 0), (0, 0)] {
        let mut log: Vec<String> = (0..v_items).map(|n| format!("v{n}")).collect();
        log.extend((0..w_items).map(|n| format!("w{n}")));
        let x_is_alone = v_items == 0 && w_items == 0;
        log.insert(if x_is_alone { 0 } else { log.len() }, "x".into());
        log.extend(["j".into(), "k".into()]);
        let log: Vec<_> = log.iter().map(String::as_str).collect();
        always(
            |calls| {
                let mut g = Graph::builder("fans");
                let worker = |name: &'static str| {
                    fed(
                        name,
                        async |name: &'static str, item: u64, _: Snapshot<Doc>, _: Context| {
                            wander(item, 3).await;
                            Ok(line(format!("{name}{item}")))
                        },
                    )
                };
                let v = g.worker("v", worker("v"));
                let w = g.worker("w", worker("w"));
                let x = g.node("x", says(calls, "x"));
                let (j, k) = row(&mut g, calls, &["j", "k"]);
                let all = |n: u64| move |_: &Doc| (0..n).collect::<Vec<u64>>();
                g.start(v.each(all(v_items)).and(w.each(all(w_items))).and(x));
                g.join((v, w, x), j);
                g.edge(k, End);
                g.build().unwrap()
            },
            &log,
        );
    }
}

/// A join can lead to the payloads of a worker, to several places, and to the end.
#[test]
fn a_join_leads_to_whatever_an_edge_can() {
    once(
        |calls| {
            let mut g = Graph::builder("targets");
            let (a, b) = (g.node("a", says(calls, "a")), g.node("b", says(calls, "b")));
            let w = g.worker("w", async |item: String, _: Snapshot<Doc>, _: Context| {
                Ok(line(item))
            });
            let x = g.node("x", says(calls, "x"));
            g.start(a.and(b));
            g.join([a, b], w.each(|doc: &Doc| doc.log.clone()).and(x));
            g.join((w, x), End);
            g.build().unwrap()
        },
        &["a", "b", "a", "b", "x"],
    );
}

/// A timeout that is over goes on at the next boundary with who has arrived, and late ones change
/// nothing; one that is not over waits.
#[test]
fn a_timeout_goes_on_with_who_has_arrived() {
    let graph = |time: Duration, must: bool| {
        move |calls: &Calls| {
            let mut g = Graph::builder("timeout");
            let a = g.node("a", says(calls, "a"));
            let (b, b4) = row(&mut g, calls, &["b", "b2", "b3", "b4"]);
            let j = g.node("j", says(calls, "j"));
            g.start(a.and(b));
            let join = g.join([a, b4], j).timeout(time);
            if must {
                join.must([b4]);
            }
            g.edge(j, End);
            g.build().unwrap()
        }
    };
    let hour = Duration::from_secs(3600);
    always(graph(hour, false), &["a", "b", "b2", "b3", "b4", "j"]);
    always(
        graph(Duration::ZERO, true),
        &["a", "b", "b2", "b3", "b4", "j"],
    );
    always(
        graph(Duration::ZERO, false),
        &["a", "b", "b2", "j", "b3", "b4"],
    );
    // A boundary after the time is over.
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let calls = Calls::default();
            let time = Duration::from_millis(5);
            let options = RunOptions::new().step_limit(1);
            let t = thread("t");
            let fresh = || place.runner(graph(time, false)(&calls), options.clone());
            fresh().run(&t, start()).await.unwrap();
            let since = std::time::Instant::now();
            while since.elapsed() < time * 2 {
                std::thread::yield_now();
            }
            let mut report = fresh().run(&t, Command::go_on()).await.unwrap();
            while report.ended != Ended::Finished {
                report = fresh().run(&t, Command::go_on()).await.unwrap();
            }
            let at = |name: &str| report.state.log.iter().position(|known| known == name);
            assert!(at("j") < at("b4"), "{:?}", report.state.log);
            assert_eq!(calls.of("j"), 1);
        }
    });
    // Nothing that is left can come: it does not wait for the time.
    always(
        move |calls| {
            let mut g = Graph::builder("alone");
            let (a, b) = (g.node("a", says(calls, "a")), g.node("b", says(calls, "b")));
            let j = g.node("j", says(calls, "j"));
            let r = g.node("r", picks(calls, "r", |_| Pick::A));
            g.start(r);
            g.wire(r, |pick| match pick {
                Pick::A => a.into(),
                Pick::B => b.into(),
                Pick::Both => a.and(b),
            });
            g.join([a, b], j).timeout(hour);
            g.edge(j, End);
            g.build().unwrap()
        },
        &["r", "a", "j"],
    );
}

/// A round that a patch begins has its time, too, in the same write as the patch.
#[tokio::test]
async fn a_join_that_a_patch_begins_has_its_timer() {
    let short = Duration::from_millis(5);
    for time in [Duration::from_secs(3600), short] {
        for place in [Place::memory(), Place::sled()] {
            let calls = Calls::default();
            let mut g = Graph::builder("patched");
            let a = g.node("a", says(&calls, "a"));
            let (x, x2) = row(&mut g, &calls, &["x", "x2"]);
            let j = g.node("j", says(&calls, "j"));
            let join = g.join([a, x2], j).timeout(time).place();
            g.start(a);
            g.edge(a, x.and(join));
            g.edge(j, End);
            let store = place.open().unwrap();
            let runner = Runner::new(g.build().unwrap()).shared_store(Arc::clone(&store));
            let t = thread("t");
            let first = runner.clone().options(RunOptions::new().step_limit(0));
            first.run(&t, start()).await.unwrap();
            let update = Doc::update().log(vec!["by hand".to_owned()]);
            runner.patch(&t, update, AsNode::new("a")).await.unwrap();
            let records = store.records(&t, Seq::new(1), 99).await.unwrap();
            let timer = records.iter().find_map(|stored| match &*stored.record {
                Record::Timer(timer) => Some((stored.seq.get(), timer.clone())),
                _ => None,
            });
            let (seq, timer) = timer.unwrap();
            assert!(timer.task.starts_with("1:"), "{timer:?}");
            let waits = records.iter().find_map(|stored| match &*stored.record {
                Record::Commit(commit) => Some((commit.joins.len(), commit.timers.clone())),
                _ => None,
            });
            assert_eq!(waits.unwrap(), (1, vec![seq]));
            let line = history(&*store, &t).await.unwrap();
            assert!(line.last().unwrap().patched);
            let since = std::time::Instant::now();
            while time == short && since.elapsed() < time * 2 {
                std::thread::yield_now();
            }
            let report = runner.run(&t, Command::go_on()).await.unwrap();
            let order: &[&str] = match time == short {
                true => &["by hand", "x", "j", "x2"],
                false => &["by hand", "x", "x2", "j"],
            };
            let mut log = report.state.log.clone();
            if time == short {
                // Both run in one superstep then.
                log[2..].sort();
            }
            assert_eq!(log, order);
            assert_eq!(runner.replay(&t).await.unwrap().differences, []);
            let found = milepost::store::check(&*store, &t).await;
            assert!(found.is_sound(), "{:?}", found.findings);
            let line = history(&*store, &t).await.unwrap();
            assert_eq!(line.iter().filter(|at| at.patched).count(), 1);
        }
    }
}

/// The graph for kills: a timed quorum, a gather in a loop, fan-outs, a question.
fn hard(calls: &Calls) -> Graph<Doc> {
    let mut g = Graph::builder("hard");
    let ask = with(
        calls.clone(),
        async |calls: Calls, _: Snapshot<Doc>, cx: Context| {
            calls.hit("ask");
            match cx.answer::<Allow>("allow")? {
                None => Ok(Output::ask("allow", Allow)),
                Some(_) => {
                    Ok::<Output<DocUpdate, (), Allow>, NodeError>(Output::Done(line("ask"), ()))
                }
            }
        },
    );
    let ask = g.node("ask", ask);
    let (b, b2) = row(&mut g, calls, &["b", "b2"]);
    let (c, c4) = row(&mut g, calls, &["c", "c2", "c3", "c4"]);
    let w = g.worker("w", async |item: u64, _: Snapshot<Doc>, _: Context| {
        Ok(line(format!("w{item}")))
    });
    let r = g.node("r", says(calls, "r"));
    let j = g.node(
        "j",
        picks(calls, "j", |doc| {
            match doc.log.iter().filter(|name| *name == "j").count() {
                0 => Pick::A,
                _ => Pick::B,
            }
        }),
    );
    let k = g.node("k", says(calls, "k"));
    g.start(r);
    g.edge(
        r,
        ask.and(b)
            .and(c)
            .and(w.each(|doc: &Doc| (0..doc.log.len() as u64 % 3).collect())),
    );
    g.join((ask, b2, c4, w), j)
        .at_least(3)
        .timeout(Duration::from_secs(3600));
    let all = g.gather((j, k), End).named("all").place();
    g.wire(j, |pick| match pick {
        Pick::A => r.into(),
        Pick::B => k.and(all),
        Pick::Both => End.into(),
    });
    g.build().unwrap()
}

/// Goes on, answers and starts anew until the thread is finished; what fails is tried again.
async fn to_the_end(runner: &Runner<Doc>, t: &ThreadId) -> Result<Snapshot<Doc>, RunError> {
    for _ in 0..100 {
        let report = match runner.run(t, Command::go_on()).await {
            Err(RunError::NotFound { .. }) => runner.run(t, start()).await?,
            report => report?,
        };
        match report.ended {
            Ended::Finished => return Ok(report.state),
            Ended::Paused { .. } => {
                let question = report.questions[0].id.clone();
                runner
                    .run(t, Command::answer(Answers::to(question, &true)))
                    .await?;
            }
            _ => {}
        }
    }
    panic!("it does not come to an end");
}

/// S042: the store fails once, at any of its operations; what comes after ends in the same state.
#[test]
fn a_store_that_fails_anywhere_loses_no_arrival() {
    on_both(async || {
        let t = thread("t");
        let undisturbed = Runner::new(hard(&Calls::default())).store(MemoryStore::new());
        let expected = to_the_end(&undisturbed, &t).await.unwrap();
        assert_eq!(
            expected.log.iter().filter(|name| *name == "j").count(),
            2,
            "{:?}",
            expected.log
        );
        for when in [When::Before, When::After] {
            for at in 1.. {
                let memory = MemoryStore::new();
                let probe = Probe::new(memory.clone()).failing(at, when);
                let failing = Runner::new(hard(&Calls::default()))
                    .store(probe.clone())
                    .options(RunOptions::new().step_limit(2));
                let first = to_the_end(&failing, &t).await;
                let next = Runner::new(hard(&Calls::default())).store(memory);
                let state = to_the_end(&next, &t).await.unwrap();
                assert_eq!(*state, *expected, "{when:?} {at}");
                if first.is_ok() {
                    assert!(at > 40 && probe.operations() < at);
                    break;
                }
            }
        }
    });
}

/// What a listener hears of joins is what the log tells, and what is stored names who has arrived.
#[test]
fn joins_are_stored_and_told() {
    on_both(async || {
        let memory = MemoryStore::new();
        let runner = Runner::new(hard(&Calls::default())).store(memory.clone());
        let t = thread("t");
        let (mut heard, _) = listen(&runner, &t, start()).await;
        let (more, ended) = listen(&runner, &t, Command::answer(Answers::only(&true))).await;
        assert!(matches!(ended.unwrap().0, Ended::Paused { .. }));
        heard.extend(more);
        let told = events(&memory, &t).await.unwrap();
        assert_eq!(lasting(&heard), told);
        assert!(format!("{told:?}").contains("TimerSet"), "{told:?}");
        let records = memory.records(&t, Seq::new(1), 1000).await.unwrap();
        let waiting = records.iter().find_map(|stored| match &*stored.record {
            Record::Commit(commit) if !commit.joins.is_empty() => Some(commit.clone()),
            _ => None,
        });
        let waiting = waiting.unwrap();
        assert_eq!(waiting.joins[0].node, "join j");
        assert_eq!((waiting.joins[0].entry, waiting.timers.len()), (2, 1));
    });
}

/// What a join waits for must fit the program that goes on with it.
#[test]
fn a_join_that_the_program_does_not_have_is_a_typed_error() {
    on_both(async || {
        let place = Place::memory();
        let graph = |members: &str| {
            let calls = Calls::default();
            let mut g = Graph::builder("changed");
            let a = g.node("a", says(&calls, "a"));
            let (b, b3) = row(&mut g, &calls, &["b", "b2", "b3"]);
            let j = g.node("j", says(&calls, "j"));
            g.start(a.and(b));
            match members {
                "both" => {
                    g.join([a, b3], j);
                }
                "named" => {
                    g.join([a, b3], j).named("other");
                }
                _ => {
                    g.edge(a, End);
                    g.join([b3], j);
                }
            }
            g.edge(j, End);
            g.build().unwrap()
        };
        let t = thread("t");
        let runner = place.runner(graph("both"), RunOptions::new().step_limit(1));
        runner.run(&t, start()).await.unwrap();
        for other in ["named", "one"] {
            let error = place
                .runner(graph(other), RunOptions::new())
                .run(&t, Command::go_on())
                .await
                .unwrap_err();
            assert!(
                matches!(&error, RunError::SchemaMismatch { field, .. } if field == "join j"),
                "{error}"
            );
        }
        place
            .runner(graph("both"), RunOptions::new())
            .run(&t, Command::go_on())
            .await
            .unwrap();
    });
}

/// What `build` refuses of joins, with names.
#[test]
fn a_join_that_cannot_be_met_is_refused() {
    let said = |describe: &dyn Fn(&mut Builder<Doc>)| -> Vec<String> {
        let mut g = Graph::builder("g");
        describe(&mut g);
        match g.build() {
            Ok(_) => Vec::new(),
            Err(error) => error.problems.iter().map(Problem::to_string).collect(),
        }
    };
    let calls = Calls::default();
    let exclusive = |both: bool| {
        let calls = calls.clone();
        said(&move |g| {
            let (a, b) = (
                g.node("a", says(&calls, "a")),
                g.node("b", says(&calls, "b")),
            );
            let j = g.node("j", says(&calls, "j"));
            let r = g.node("r", picks(&calls, "r", |_| Pick::A));
            g.start(r);
            g.wire(r, |pick| match pick {
                Pick::A => a.into(),
                Pick::Both if both => a.and(b),
                _ => b.into(),
            });
            g.join([a, b], j);
            g.edge(j, End);
        })
    };
    assert_eq!(exclusive(true), Vec::<String>::new());
    assert_eq!(
        exclusive(false),
        [
            "\"join j\" can never be met: node \"r\" leads to \"a\" or to \"b\", never to both. Wait for those that were started, with `gather`, or lead to both at once, with `a.and(b)`"
        ]
    );
    let two = |describe: &dyn Fn(&mut Builder<Doc>, [Node; 3])| {
        said(&|g| {
            let (a, b) = (
                g.node("a", says(&calls, "a")),
                g.node("b", says(&calls, "b")),
            );
            let j = g.node("j", says(&calls, "j"));
            g.start(a.and(b));
            g.edge(j, End);
            describe(g, [a, b, j]);
        })
    };
    assert_eq!(
        two(&|g, [a, b, j]| {
            g.join([a, b], j);
            g.edge(b, End);
        }),
        [
            "\"join j\" waits for \"b\", which never leads to it: lead one of its ways to the join's place"
        ]
    );
    assert_eq!(
        two(&|g, [a, b, j]| {
            let place = g.join([a], j).place();
            g.edge(b, place);
        }),
        ["node \"b\" leads to \"join j\", which does not wait for it: name it among the members"]
    );
    assert_eq!(
        two(&|g, [a, b, j]| {
            g.join([a, b], j).at_least(3);
        }),
        ["\"join j\" makes no sense: it has 2 members, and cannot wait for 3 of them"]
    );
    assert_eq!(
        two(&|g, [a, b, j]| {
            g.gather([a, b, a], j).must([j]).named("both");
        }),
        [
            "\"both\" makes no sense: it names \"a\" twice",
            "\"both\" makes no sense: it must have \"j\", which is none of its members"
        ]
    );
    assert_eq!(
        two(&|g, [a, b, j]| {
            g.join([a], j);
            g.join([b], j);
        }),
        [
            "\"join j\" is the name of a join and of another join or node: give the join one of its own, with `.named(..)`"
        ]
    );
    assert!(
        two(&|g, [a, b, j]| {
            g.join([a], j);
            g.join([b], j).named("other");
        })
        .is_empty()
    );
    assert_eq!(
        two(&|g, [a, b, j]| {
            g.join([a, b], j).named("");
        }),
        [
            "a join has no proper name (\"\"): a node name must not be empty. Give it one with `.named(..)`"
        ]
    );
    let mut other = Graph::<Doc>::builder("other");
    let foreign = other.node("x", says(&calls, "x"));
    let problem = "a node of another graph was used: a node belongs to the builder that made it";
    assert!(
        two(&|g, [a, b, j]| {
            g.join([a, b, foreign], j);
        })
        .contains(&problem.to_owned())
    );
}

/// S014: a node that says what it writes writes nothing else; the task and the field are named.
#[test]
fn an_undeclared_write_is_a_typed_error() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory(), Place::sled()] {
            for door in DOORS {
                for declared in [false, true] {
                    let calls = Calls::default();
                    let mut g = Graph::builder("declared");
                    let a = g.node("a", says(&calls, "a"));
                    let b = g.node("b", async |_: Snapshot<Doc>, _: Context| Ok(line("b").n(7)));
                    g.reads(b, ());
                    g.writes(b, [Doc::LOG]);
                    if declared {
                        g.writes(b, (Doc::N, Doc::SUM));
                    }
                    g.start(a.and(b));
                    g.edge(a, End);
                    g.edge(b, End);
                    let runner = place.runner(g.build().unwrap(), RunOptions::new());
                    let t = thread(&format!("{door:?}{declared}"));
                    match drive(door, &runner, &t, start()).await {
                        Ok((_, state)) => assert!(declared && state.n == 7),
                        Err(RunError::UndeclaredWrite { task, field, .. }) => {
                            assert!(!declared);
                            assert_eq!((task.task().node.as_str(), field), ("b", "n"));
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
    });
}

/// S014: two writers of one field that takes one are refused where they may run in one superstep,
/// and only there.
#[test]
fn two_unordered_writers_of_one_field_are_refused() {
    let calls = Calls::default();
    let build = |wire: &dyn Fn(&mut Builder<Doc>, [Node; 5])| {
        let mut g = Graph::builder("writers");
        let names = ["a", "b", "c", "d", "e"];
        let nodes = names.map(|name| g.node(name, says(&calls, name)));
        g.writes(nodes[1], (Doc::N, Doc::LOG));
        g.writes(nodes[3], (Doc::LOG, Doc::N));
        wire(&mut g, nodes);
        let problems = g.build().err().map(|error| error.problems);
        let problems = problems.unwrap_or_default();
        assert!(problems.iter().all(|problem| matches!(problem, Problem::TwoWriters { field: "n", first, second } if first.as_str() == "b" && second.as_str() == "d")), "{problems:?}");
        problems.len()
    };
    // Side by side; and after ways of the same length.
    let beside = build(&|g, [a, b, c, d, e]| {
        g.start(a.and(c));
        g.edge(a, b);
        g.edge(c, d);
        g.edge(b, e);
        g.edge(d, e);
        g.edge(e, End);
    });
    assert_eq!(beside, 1);
    // One after the other; and after ways of other lengths.
    let ordered = build(&|g, [a, b, c, d, e]| {
        g.start(b.and(a));
        g.edge(a, c);
        g.edge(c, d);
        g.edge(b, e);
        g.edge(d, End);
        g.edge(e, End);
    });
    assert_eq!(ordered, 0);
    // Behind a join that both of its sides must have come to.
    let joined = build(&|g, [a, b, c, d, e]| {
        g.start(b.and(a));
        g.join([a, b], c);
        g.edge(c, d.and(e));
        g.edge(d, End);
        g.edge(e, End);
    });
    assert_eq!(joined, 0);
    // One that waits at a join, and goes on when it likes: it may meet the other.
    let gathered = build(&|g, [a, b, c, d, e]| {
        g.start(a.and(c));
        g.edge(c, e);
        g.edge(e, d);
        g.gather([a], b);
        g.edge(d, End);
        g.edge(b, End);
    });
    assert_eq!(gathered, 1);
}
