//! What becomes of a state whatever the schedule, the retries, the limits and the process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use milepost::store::{CheckpointStore, MemoryStore, Record};
use milepost::{
    ByKey, Cancel, Command, Context, End, Ended, EventKind, Exits, Graph, KeepBest, KeepFirst,
    Keyed, NodeError, Policy, Ranked, Retry, RunError, RunId, RunOptions, Runner, Snapshot, State,
    history,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, watch};

use crate::support::{
    Calls, DOORS, Doc, DocUpdate, Place, drive, fed, line, on_both, thread, wander, with,
};

fn start() -> Command<Doc> {
    Command::start(Doc::update())
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    url: String,
    worth: u8,
    by: String,
}

impl Keyed for Note {
    type Key = String;
    fn key(&self) -> String {
        let url = self.url.to_lowercase();
        let url = url.split('#').next().unwrap_or_default();
        url.trim_end_matches('/').to_owned()
    }
}

impl Ranked for Note {
    fn better_than(&self, other: &Self) -> bool {
        self.worth > other.worth
    }
}

#[derive(Clone, Debug, Default, PartialEq, State)]
struct Notes {
    #[reduce(ByKey<KeepFirst>)]
    first: BTreeMap<String, Note>,
    #[reduce(ByKey<KeepBest>)]
    best: BTreeMap<String, Note>,
}

const URLS: [&str; 3] = ["http://x/a", "HTTP://X/a/#f", "http://x/b"];

/// S007: three branches, two sources: the same two notes for all six orders in which they arrive,
/// whatever the seed of the schedule. Each waits until it is its turn to end.
#[test]
fn notes_of_one_source_are_one_note_whatever_the_order_of_arrival() {
    on_both(async || {
        let mut found = BTreeSet::new();
        for turns in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            for seed in 0..4 {
                for place in [Place::Nowhere, Place::memory()] {
                    let turn = Arc::new(watch::Sender::new(0usize));
                    let mut g = Graph::<Notes>::builder("notes");
                    let w = fed(
                        Arc::clone(&turn),
                        async |turn: Arc<watch::Sender<usize>>,
                               item: (usize, usize),
                               _,
                               cx: Context| {
                            let (own, url) = item;
                            turn.subscribe().wait_for(|now| *now == own).await?;
                            turn.send_replace(own + 1);
                            let note = Note {
                                url: URLS[url].to_owned(),
                                worth: [1, 5, 1][url],
                                by: cx.task().to_string(),
                            };
                            Ok(Notes::update().first(vec![note.clone()]).best(vec![note]))
                        },
                    );
                    let w = g.worker("w", w);
                    g.start(w.each(move |_| turns.into_iter().zip(0..).collect()));
                    g.edge(w, End);
                    let runner = place.runner(g.build().unwrap(), RunOptions::new().shuffle(seed));
                    let report = runner
                        .run(&thread("t"), Command::start(Notes::update()))
                        .await;
                    let state = report.unwrap().state;
                    assert_eq!((state.first.len(), state.best.len()), (2, 2));
                    assert_eq!(state.first["http://x/a"].by, "1:w[0]");
                    assert_eq!(state.best["http://x/a"].by, "1:w[1]");
                    found.insert(format!("{:?}", *state));
                }
            }
        }
        assert_eq!(found.len(), 1);
    });
}

/// S025: a branch that fails after it did its work, is tried again, or is run again by a resume,
/// leaves one note.
#[test]
fn a_branch_that_is_tried_again_leaves_one_note() {
    on_both(async || {
        for retried in [true, false] {
            for place in [Place::memory(), Place::sled()] {
                let calls = Calls::default();
                let mut g = Graph::<Notes>::builder("notes");
                let w = fed(calls.clone(), async |calls: Calls, url: String, _, _| {
                    let tried = calls.hit(&url);
                    let note = Note {
                        url: url.clone(),
                        worth: tried as u8,
                        by: format!("try {tried}"),
                    };
                    let update = Notes::update().first(vec![note.clone()]).best(vec![note]);
                    match tried {
                        1 if url == URLS[1] => Err(NodeError::transient("after the work")),
                        _ => Ok(update),
                    }
                });
                let w = g.worker("w", w);
                if retried {
                    let retry = Retry {
                        max_attempts: 2,
                        first_wait: Duration::from_millis(1),
                        ..Retry::default()
                    };
                    g.policy(w, Policy::default().retry(retry));
                }
                g.start(w.each(|_| URLS[1..].iter().map(|url| (*url).to_owned()).collect()));
                g.edge(w, End);
                let graph = g.build().unwrap();
                let t = thread("t");
                let first = place.runner(graph.clone(), RunOptions::new());
                let ended = first.run(&t, Command::start(Notes::update())).await;
                assert_eq!(ended.is_ok(), retried);
                drop(first);
                let next = place.runner(graph, RunOptions::new());
                let report = next.run(&t, Command::go_on()).await.unwrap();
                for notes in [&report.state.first, &report.state.best] {
                    assert_eq!(notes.len(), 2);
                    assert_eq!(notes["http://x/a"].by, "try 2");
                    assert_eq!(notes["http://x/b"].by, "try 1");
                }
            }
        }
    });
}

/// C02 (3): two that share a field which neither writes do not disturb each other: only what is
/// written counts as written, and writing the value that is there is writing. (4), a field that
/// the state does not have, does not compile: `tests/ui/update_field_misspelt.rs`.
#[test]
fn only_what_is_written_counts_as_written() {
    on_both(async || {
        for door in DOORS {
            for place in [Place::Nowhere, Place::memory(), Place::sled()] {
                for same in [false, true] {
                    let mut g = Graph::builder("shared");
                    let node = |first: bool| {
                        with(
                            (first, same),
                            async |(first, same), doc: Snapshot<Doc>, _| {
                                assert_eq!(doc.n, 7);
                                let update = match first {
                                    true => Doc::update().sum(1),
                                    false => Doc::update().seen(vec![1]),
                                };
                                Ok(if same { update.n(doc.n) } else { update })
                            },
                        )
                    };
                    let (a, b) = (g.node("a", node(true)), g.node("b", node(false)));
                    g.start(a.and(b));
                    g.edge(a, End);
                    g.edge(b, End);
                    let runner = place.runner(g.build().unwrap(), RunOptions::new());
                    let t = thread(&same.to_string());
                    let driven = drive(door, &runner, &t, Command::start(Doc::update().n(7))).await;
                    if same {
                        let error = driven.unwrap_err();
                        assert!(
                            matches!(error, RunError::Conflict { field: "n", .. }),
                            "{error}"
                        );
                        continue;
                    }
                    let (_, state) = driven.unwrap();
                    assert_eq!((state.n, state.sum, &state.seen[..]), (7, 1, &[1][..]));
                    drop(runner);
                    if let Some(store) = place.open() {
                        let line = history(&*store, &t).await.unwrap();
                        assert_eq!(line[0].wrote, ["n"]);
                        assert_eq!(line[1].wrote, ["sum", "seen"]);
                    }
                }
            }
        }
    });
    let refused = include_str!("../ui/update_field_misspelt.stderr");
    assert!(refused.contains("no method named `mesages`"), "{refused}");
}

/// S012, as far as there is a run context: neither the ids of a run nor its options are in its
/// state, and nothing of them is in what is stored as state.
#[tokio::test(start_paused = true)]
async fn nothing_of_a_run_is_in_its_state() {
    let mut states = Vec::new();
    let mut bases = Vec::new();
    let many = RunOptions::new()
        .concurrency(1)
        .step_limit(77)
        .backlog(3)
        .shuffle(9);
    let runs = [
        ("u-7", "run-9", RunOptions::new()),
        ("other", "another", many),
    ];
    for (name, run, options) in runs {
        let memory = MemoryStore::new();
        let mut g = Graph::builder("context");
        let w = g.worker("w", async |item: u64, _: Snapshot<Doc>, cx: Context| {
            assert!(!cx.thread().as_str().is_empty() && !cx.run().as_str().is_empty());
            assert!(!cx.idempotency_key("charge").is_empty());
            Ok(line(cx.task().to_string()).seen(vec![item]))
        });
        g.start(w.each(|_| vec![1, 2]));
        g.edge(w, End);
        let runner = Runner::new(g.build().unwrap())
            .options(options.base_every(1))
            .store(memory.clone());
        let start = start().run_id(RunId::new(run).unwrap());
        let report = runner.run(&thread(name), start).await.unwrap();
        states.push((*report.state).clone());
        let mut stored = Vec::new();
        for record in memory
            .records(&thread(name), milepost::Seq::new(1), 99)
            .await
            .unwrap()
        {
            match &*record.record {
                Record::Base(base) => stored.push(format!("{:?}", base.fields)),
                Record::Outcome(outcome) => stored.push(format!("{:?}", outcome.changes)),
                Record::Commit(commit) => stored.push(format!("{:?}", commit.frontier)),
                _ => {}
            }
        }
        assert!(stored.len() >= 4);
        bases.push(stored);
    }
    assert_eq!(states[0], states[1]);
    assert_eq!(bases[0].len(), bases[1].len());
    assert!(
        bases[0].iter().all(|stored| bases[1].contains(stored)),
        "{bases:?}"
    );
}

#[derive(Clone, Copy, Exits)]
enum Way {
    On,
    Out,
}

/// S013: steps count 1, 2, 3, and go on at 4 after a resume by another process.
#[test]
fn steps_count_on_over_a_resume() {
    on_both(async || {
        for door in DOORS {
            for place in [Place::memory(), Place::sled()] {
                let mut g = Graph::builder("steps");
                let a = g.node("a", async |doc: Snapshot<Doc>, cx: Context| {
                    assert_eq!(cx.thread().as_str(), "t");
                    let way = if doc.seen.len() < 5 {
                        Way::On
                    } else {
                        Way::Out
                    };
                    Ok((Doc::update().seen(vec![cx.superstep().get()]), way))
                });
                g.start(a);
                g.wire(a, |way| match way {
                    Way::On => a.into(),
                    Way::Out => End.into(),
                });
                let graph = g.build().unwrap();
                let t = thread("t");
                let mut command = start();
                for (expected, ended) in [
                    (&[1, 2, 3][..], Ended::StepLimit { limit: 3 }),
                    (&[1, 2, 3, 4, 5, 6][..], Ended::Finished),
                ] {
                    let runner = place.runner(graph.clone(), RunOptions::new().step_limit(3));
                    let (found, state) = drive(door, &runner, &t, command).await.unwrap();
                    assert_eq!((found, &state.seen[..]), (ended, expected));
                    command = Command::go_on();
                }
            }
        }
    });
}

/// S022: each task sees its own item, and is called the same before and after a resume.
#[test]
fn a_task_is_called_the_same_after_a_resume() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let (calls, t) = (Calls::default(), thread("t"));
            let mut g = Graph::builder("candidates");
            let w = fed(
                calls.clone(),
                async |calls: Calls, item: String, _, cx: Context| {
                    let tried = calls.hit(&format!(
                        "{item} is {} with {}",
                        cx.task(),
                        cx.idempotency_key("k")
                    ));
                    calls.hit(&item);
                    if item == "c2" && tried == 1 {
                        return Err(NodeError::permanent("once"));
                    }
                    assert_eq!(item, format!("c{}", cx.index()));
                    Ok(line(format!("{item} by {}", cx.task())))
                },
            );
            let w = g.worker("w", w);
            g.start(w.each(|_| (0..5).map(|item| format!("c{item}")).collect()));
            g.edge(w, End);
            let graph = g.build().unwrap();
            for seed in [1, 2] {
                let runner = place.runner(graph.clone(), RunOptions::new().shuffle(seed));
                let command = if seed == 1 { start() } else { Command::go_on() };
                let ended = runner.run(&t, command).await;
                assert_eq!(ended.is_ok(), seed == 2);
                let Ok(report) = ended else { continue };
                let expected: Vec<_> = (0..5)
                    .map(|item| format!("c{item} by 1:w[{item}]"))
                    .collect();
                assert_eq!(report.state.log, expected);
            }
            // Five items, five names: whoever ran twice had the same name and key twice.
            assert_eq!(calls.all().len(), 10, "{:?}", calls.all());
            assert_eq!(calls.of("c2"), 2);
        }
    });
}

/// S024: an eight-way fan-out, 200 times with delays that depend on a seed: one result.
#[test]
fn two_hundred_runs_give_one_state() {
    on_both(async || {
        let mut found = BTreeSet::new();
        let store: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
        for seed in 0..200u64 {
            let mut g = Graph::builder("eight");
            let w = fed(seed, async |seed: u64, item: u64, _, _| {
                wander(seed, item).await;
                Ok(line(item.to_string()).sum(item).seen(vec![item]))
            });
            let w = g.worker("w", w);
            g.start(w.each(|_| (0..8).collect()));
            g.edge(w, End);
            let runner = Runner::new(g.build().unwrap()).options(RunOptions::new().shuffle(seed));
            let runner = match seed % 2 {
                0 => runner,
                _ => runner.shared_store(Arc::clone(&store)),
            };
            let t = thread(&seed.to_string());
            let report = runner.run(&t, start()).await.unwrap();
            found.insert(format!("{:?}", *report.state));
            if seed % 2 == 1 {
                found.insert(format!("{:?}", *runner.state(&t).await.unwrap()));
            }
        }
        assert_eq!(found.len(), 1, "{found:?}");
    });
}

/// S026: a loop whose condition never comes true ends at its limit, with what it has.
#[test]
fn a_loop_that_never_ends_is_bounded() {
    on_both(async || {
        for door in DOORS {
            for place in [Place::Nowhere, Place::memory()] {
                let calls = Calls::default();
                let mut g = Graph::builder("coverage");
                let search = with(calls.clone(), async |calls: Calls, _, _| {
                    calls.hit("search");
                    Ok(Doc::update().n(50).seen(vec![1]))
                });
                let search = g.node("search", search);
                let judge = g.node("judge", async |doc: Snapshot<Doc>, _: Context| {
                    let way = if doc.n < 80 { Way::On } else { Way::Out };
                    Ok((line("short"), way))
                });
                g.start(search);
                g.edge(search, judge);
                g.wire(judge, |way| match way {
                    Way::On => search.into(),
                    Way::Out => End.into(),
                });
                let runner = place.runner(g.build().unwrap(), RunOptions::new().step_limit(25));
                let (ended, state) = drive(door, &runner, &thread("t"), start()).await.unwrap();
                assert_eq!(ended, Ended::StepLimit { limit: 25 });
                assert_eq!((state.seen.len(), state.log.len(), state.n), (13, 12, 50));
                assert_eq!(calls.of("search"), 13);
            }
        }
    });
}

/// S042: six members, stopped after four of them are recorded: exactly two run afterwards, whether
/// the call was cancelled or simply gone.
#[test]
fn after_four_of_six_exactly_two_are_left() {
    on_both(async || {
        for cancelled in [true, false] {
            for place in [Place::memory(), Place::sled()] {
                let (calls, t) = (Calls::default(), thread("t"));
                let graph = |permits: usize| {
                    let mut g = Graph::builder("six");
                    let held = (calls.clone(), Arc::new(Semaphore::new(permits)));
                    let w = fed(
                        held,
                        async |(calls, gate): (Calls, Arc<Semaphore>), item: u64, _, _| {
                            if item == 1 || item == 4 {
                                drop(gate.acquire().await?);
                            }
                            calls.hit("ended");
                            Ok(Doc::update().seen(vec![item]))
                        },
                    );
                    let w = g.worker("w", w);
                    g.start(w.each(|_| (0..6).collect()));
                    g.edge(w, End);
                    g.build().unwrap()
                };
                let cancel = Cancel::new();
                let options = RunOptions::new().grace(Duration::ZERO).shuffle(2);
                let store = place.open().unwrap();
                let runner = Runner::new(graph(0))
                    .options(options.cancel(cancel.clone()))
                    .shared_store(Arc::clone(&store));
                let mut stream = runner.stream(&t, start());
                let mut recorded = 0;
                while recorded < 4 {
                    let event = stream.next().await.unwrap();
                    recorded += u32::from(matches!(event.kind, EventKind::TaskFinished { .. }));
                }
                if cancelled {
                    cancel.cancel();
                    assert_eq!(stream.report().await.unwrap().ended, Ended::Cancelled);
                } else {
                    drop(stream);
                }
                assert_eq!(calls.of("ended"), 4);
                let patient = milepost::Busy::Wait(Duration::from_secs(60));
                let next = Runner::new(graph(1))
                    .options(RunOptions::new().busy(patient))
                    .shared_store(store);
                let report = next.run(&t, Command::go_on()).await.unwrap();
                assert_eq!(report.state.seen, [0, 1, 2, 3, 4, 5]);
                assert_eq!(calls.of("ended"), 6, "{cancelled}, {place:?}");
            }
        }
    });
}

async fn adds(doc: Snapshot<Doc>, _: Context) -> Result<DocUpdate, NodeError> {
    if doc.log.last().is_some_and(|last| last == "wait") {
        std::future::pending::<()>().await;
    }
    Ok(Doc::update().sum(1))
}

/// S043, S046, S011: a thread goes on with what it knows: in a new process, after a timeout, after
/// an interruption; another thread sees nothing of it. The same over each store.
#[tokio::test(start_paused = true)]
async fn a_thread_knows_what_it_knew_and_no_other_does() {
    for place in [Place::memory(), Place::sled()] {
        let mut g = Graph::builder("memory");
        let adds = g.node("adds", adds);
        g.start(adds);
        g.edge(adds, End);
        let graph = g.build().unwrap();
        let t = thread("t");
        let say = |text: &str| Command::start(line(text));
        place
            .runner(graph.clone(), RunOptions::new())
            .run(&t, say("hi"))
            .await
            .unwrap();
        // A new process.
        let report = place
            .runner(graph.clone(), RunOptions::new())
            .run(&t, say("again"))
            .await;
        assert_eq!(report.unwrap().state.log, ["hi", "again"]);
        // After a timeout.
        let short = RunOptions::new().deadline(Duration::from_secs(1));
        let report = place
            .runner(graph.clone(), short)
            .run(&t, say("wait"))
            .await
            .unwrap();
        assert!(matches!(report.ended, Ended::Deadline { .. }));
        let runner = place.runner(graph.clone(), RunOptions::new());
        let report = runner.run(&t, say("there").abandon()).await.unwrap();
        assert_eq!(report.state.log, ["hi", "again", "wait", "there"]);
        drop(runner);
        // After an interruption.
        let cancel = Cancel::new();
        let options = RunOptions::new()
            .grace(Duration::ZERO)
            .cancel(cancel.clone());
        let runner = place.runner(graph.clone(), options);
        let mut stream = runner.stream(&t, say("wait"));
        stream.next().await.unwrap();
        cancel.cancel();
        assert_eq!(stream.report().await.unwrap().ended, Ended::Cancelled);
        drop(runner);
        let runner = place.runner(graph.clone(), RunOptions::new());
        let report = runner.run(&t, say("back")).await.unwrap();
        let expected = ["hi", "again", "wait", "there", "wait", "back"];
        assert_eq!(
            (report.state.sum, &report.state.log[..]),
            (4, &expected.map(str::to_owned)[..])
        );
        let other = runner.run(&thread("other"), say("who?")).await.unwrap();
        assert_eq!(
            (other.state.sum, &other.state.log[..]),
            (1, &["who?".to_owned()][..])
        );
    }
}
