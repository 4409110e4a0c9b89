//! Looking back: events, history, states of old checkpoints; what is heard and what is stored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use milepost::store::{CheckpointStore, MemoryStore};
use milepost::{
    Append, ByKey, Command, Context, End, Ended, Ephemeral, EventKind, Exits, Graph, KeepFirst,
    Keyed, Merge, NodeError, Policy, Progress, ReduceFault, Reducer, Retry, RunError, RunOptions,
    Runner, Snapshot, State, Union, Updates, events, history,
};
use serde::{Deserialize, Serialize};

use crate::support::{
    Calls, DOORS, Doc, Place, drive, fed, lasting, line, listen, on_both, says, thread, told, with,
};

fn start() -> Command<Doc> {
    Command::start(Doc::update())
}

#[derive(Clone, Copy, Exits)]
enum Way {
    On,
    Out,
}

/// A graph that takes every kind of edge, fails where it is told to, and tolerates.
fn all_kinds(calls: &Calls, trouble: &'static str) -> Graph<Doc> {
    let mut g = Graph::builder("all kinds");
    let held = (calls.clone(), trouble);
    let first = with(
        held.clone(),
        async |(calls, trouble): (Calls, &str), _, cx: Context| {
            cx.token("to").await;
            cx.emit("note", &7).await?;
            match (calls.hit("first"), trouble) {
                (1, "node") => Err(NodeError::permanent("not today")),
                _ => Ok((line("first"), Way::On)),
            }
        },
    );
    let first = g.node("first", first);
    let w = fed(
        held.clone(),
        async |(calls, trouble): (Calls, &str), item: u64, _, _| match (
            calls.hit(&format!("w{item}")),
            trouble,
            item,
        ) {
            (1, "member", 2) => Err(NodeError::permanent("not today")),
            (1, "panic", 3) => panic!("out of paper"),
            (_, "tolerated", 1) => Err(NodeError::permanent("never")),
            _ => Ok(Doc::update().seen(vec![item])),
        },
    );
    let w = g.worker("w", w);
    if trouble == "tolerated" {
        g.worker_error(w, |item, error| line(format!("{item}: {error}")));
    }
    let one = g.node("one", says(calls, "one"));
    let two = g.node("two", says(calls, "two"));
    let last = with(
        held.clone(),
        async |(calls, trouble): (Calls, &str), _, _| {
            calls.hit("last");
            Ok(match trouble {
                "conflict" => Doc::update().n(1),
                _ => line("last"),
            })
        },
    );
    let last = g.node("last", last);
    g.start(first);
    g.wire(first, |way| match way {
        Way::On => w.each(|_| (0..4).collect()),
        Way::Out => End.into(),
    });
    g.edge(w, one.and(two));
    let (asked, held) = (calls.clone(), trouble);
    g.branch(
        one,
        move |_| match (asked.hit("asked"), held) {
            (1, "branch") => Err(NodeError::transient("no answer")),
            _ => Ok(Way::On),
        },
        |way| match way {
            Way::On => last.into(),
            Way::Out => End.into(),
        },
    );
    g.edge(two, last);
    g.edge(last, End);
    g.build().unwrap()
}

/// S039: what is heard, less what is live only, is what is stored, call by call.
#[test]
fn what_is_heard_is_what_is_stored() {
    on_both(async || {
        for trouble in ["none", "node", "member", "panic", "tolerated", "branch"] {
            for seed in 0..5 {
                let (calls, place, t) = (Calls::default(), Place::memory(), thread("t"));
                let store = place.open().unwrap();
                let mut heard = Vec::new();
                let mut command = start();
                for limit in [1, 1, 9, 9] {
                    let options = RunOptions::new().step_limit(limit).shuffle(seed);
                    let runner = place.runner(all_kinds(&calls, trouble), options);
                    let (more, _) = listen(&runner, &t, command).await;
                    heard.extend(lasting(&more));
                    command = Command::go_on();
                }
                let stored = events(&*store, &t).await.unwrap();
                assert_eq!(told(&heard), told(&stored), "{trouble}");
                assert_eq!(heard, stored, "{trouble}");
                assert_eq!(stored.last().map(|event| &event.kind).map(|kind| matches!(kind, EventKind::Ended { status, .. } if status == "finished")), Some(true), "{trouble} {:?}", told(&stored));
            }
        }
    });
}

/// S039: a run that has nothing to do says that it ended, and so does one whose node is single.
#[test]
fn a_run_that_ends_at_once_says_so() {
    on_both(async || {
        let mut g = Graph::builder("nothing");
        let w = g.worker("w", async |_: u64, _, _| Ok(Doc::update()));
        g.start(w.each(|_| vec![]));
        g.edge(w, End);
        let graph = g.build().unwrap();
        for place in [Place::Nowhere, Place::memory()] {
            let runner = place.runner(graph.clone(), RunOptions::new());
            let (heard, ended) = listen(&runner, &thread("t"), start()).await;
            assert_eq!(ended.unwrap().0, Ended::Finished);
            assert_eq!(told(&heard), ["started, next []", "ended finished after 0"]);
            if let Some(store) = place.open() {
                assert_eq!(heard, events(&*store, &thread("t")).await.unwrap());
            }
        }
    });
}

/// The decision that failed: the node's end is heard before the end of the call.
#[tokio::test(start_paused = true)]
async fn a_node_whose_way_out_failed_is_heard_to_have_finished() {
    for place in [Place::Nowhere, Place::memory()] {
        let calls = Calls::default();
        let mut g = Graph::builder("branch");
        let a = g.node("a", says(&calls, "a"));
        g.start(a);
        g.branch(
            a,
            |_| Err::<(), _>(NodeError::permanent("never")),
            |()| End.into(),
        );
        let runner = place.runner(g.build().unwrap(), RunOptions::new());
        let (heard, _) = listen(&runner, &thread("t"), start()).await;
        assert_eq!(
            told(&lasting(&heard)),
            [
                "started, next [\"a\"]",
                "done 1:a[0] (1)",
                "ended failed after 0"
            ]
        );
        if let Some(store) = place.open() {
            assert_eq!(
                lasting(&heard),
                events(&*store, &thread("t")).await.unwrap()
            );
        }
    }
}

/// S039: events come in the order of the data path.
#[tokio::test(start_paused = true)]
async fn events_come_in_the_order_of_the_data_path() {
    let place = Place::memory();
    let runner = place.runner(all_kinds(&Calls::default(), "none"), RunOptions::new());
    let (heard, _) = listen(&runner, &thread("t"), start()).await;
    assert_eq!(
        told(&heard),
        [
            "started, next [\"first\"]",
            "superstep 1 [1:first[0]]",
            "try 1 of 1:first[0]",
            "token to",
            "custom note",
            "done 1:first[0] (1)",
            "committed 1, next [\"w\"]",
            "superstep 2 [2:w[0], 2:w[1], 2:w[2], 2:w[3]]",
            "try 1 of 2:w[0]",
            "try 1 of 2:w[1]",
            "try 1 of 2:w[2]",
            "try 1 of 2:w[3]",
            "done 2:w[0] (1)",
            "done 2:w[1] (1)",
            "done 2:w[2] (1)",
            "done 2:w[3] (1)",
            "committed 2, next [\"one\", \"two\"]",
            "superstep 3 [3:one[0], 3:two[0]]",
            "try 1 of 3:one[0]",
            "try 1 of 3:two[0]",
            "done 3:one[0] (1)",
            "done 3:two[0] (1)",
            "committed 3, next [\"last\"]",
            "superstep 4 [4:last[0]]",
            "try 1 of 4:last[0]",
            "done 4:last[0] (1)",
            "committed 4, next []",
            "ended finished after 4",
        ]
    );
}

/// C29, S039: a slow reader loses nothing, the order stays, and no other run waits for it.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_loses_nothing_and_holds_up_only_its_run() {
    let place = Place::memory();
    let graph = all_kinds(&Calls::default(), "none");
    let slow = place.runner(graph.clone(), RunOptions::new().backlog(1));
    let mut stream = slow.stream(&thread("slow"), start());
    let mut heard = vec![stream.next().await.unwrap()];
    let quick = place.runner(graph, RunOptions::new());
    let report = quick.run(&thread("quick"), start()).await.unwrap();
    assert_eq!(report.ended, Ended::Finished);
    let store = place.open().unwrap();
    assert!(
        history(&*store, &thread("slow")).await.unwrap().len() < 5,
        "it waits"
    );
    while let Some(event) = stream.next().await {
        tokio::time::sleep(Duration::from_millis(50)).await;
        heard.push(event);
    }
    assert_eq!(stream.report().await.unwrap().ended, Ended::Finished);
    assert_eq!(
        lasting(&heard),
        events(&*store, &thread("slow")).await.unwrap()
    );
}

/// S029, S038: what each try did is kept: the tries, their errors, and the class.
#[tokio::test(start_paused = true)]
async fn every_try_is_recorded() {
    for siblings in [1, 2] {
        let (calls, place, t) = (Calls::default(), Place::memory(), thread("t"));
        let mut g = Graph::builder("tries");
        let w = fed(
            calls.clone(),
            async |calls: Calls, item: u64, _, _| match calls.hit(&format!("w{item}")) {
                tried if tried < 3 => Err(NodeError::transient(format!("busy {tried}"))),
                _ => Ok(Doc::update().seen(vec![item])),
            },
        );
        let w = g.worker("w", w);
        g.policy(w, Policy::default().retry(Retry::default()));
        g.start(w.each(move |_| (0..siblings).collect()));
        g.edge(w, End);
        let runner = place.runner(g.build().unwrap(), RunOptions::new());
        let (heard, _) = listen(&runner, &t, start()).await;
        let tries = told(&heard)
            .iter()
            .filter(|told| told.starts_with("try"))
            .count() as u64;
        assert_eq!(tries, 3 * siblings);
        let store = place.open().unwrap();
        assert_eq!(lasting(&heard), events(&*store, &t).await.unwrap());
        let done = told(&heard)
            .iter()
            .filter(|told| told.starts_with("done") && told.ends_with("(3)"))
            .count() as u64;
        assert_eq!(done, siblings);
    }
}

/// Longest wins; its results are stored by value.
struct Longest;

impl Reducer<String> for Longest {
    type Update = String;
    fn reduce(value: &mut String, updates: Updates<String>) -> Result<(), ReduceFault> {
        for update in updates {
            if update.len() > value.len() {
                *value = update;
            }
        }
        Ok(())
    }
}

/// The same with a promise: it is replayed.
struct LongestFrozen;

impl Reducer<String> for LongestFrozen {
    type Update = String;
    fn reduce(value: &mut String, updates: Updates<String>) -> Result<(), ReduceFault> {
        Longest::reduce(value, updates)
    }
    fn version() -> Option<u32> {
        Some(1)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    key: u64,
    text: String,
}

impl Keyed for Note {
    type Key = u64;
    fn key(&self) -> u64 {
        self.key
    }
}

/// One field of every layout.
#[derive(Clone, Debug, Default, PartialEq, State)]
struct Shelf {
    turn: u64,
    big: String,
    #[reduce(Append)]
    list: Vec<String>,
    #[reduce(Ephemeral)]
    passing: Option<u64>,
    #[reduce(Longest)]
    longest: String,
    #[reduce(LongestFrozen)]
    frozen: String,
    #[reduce(ByKey<KeepFirst>)]
    notes: BTreeMap<u64, Note>,
    #[reduce(Union)]
    tags: std::collections::BTreeSet<String>,
    #[reduce(Merge)]
    map: BTreeMap<String, u64>,
}

/// Text of so many bytes that no other seed gives.
fn text(seed: u64, bytes: usize) -> String {
    format!("{seed:08}-").repeat(bytes / 9 + 1)[..bytes].to_owned()
}

async fn turn(shelf: Snapshot<Shelf>, _: Context) -> Result<(ShelfUpdate, Way), NodeError> {
    let turn = shelf.turn + 1;
    let mut update = Shelf::update()
        .turn(turn)
        .list(vec![text(turn, 9_000)])
        .longest(text(turn, 10 + (turn % 7) as usize))
        .frozen(text(turn, 10 + (turn % 5) as usize))
        .notes(vec![Note {
            key: turn % 40,
            text: text(turn, 3_000),
        }])
        .tags(std::iter::once(format!("tag {}", turn % 13)).collect())
        .map(BTreeMap::from([(format!("key {}", turn % 11), turn)]));
    if turn == 1 {
        update = update.big(text(1, 100 << 10));
    }
    if turn.is_multiple_of(3) {
        update = update.passing(Some(turn));
    }
    // Past the reducer: while sealed segments exist, and right before and after a base.
    match turn {
        21 => update = update.overwrite(Shelf::LIST, (0..30).map(|n| text(n, 8_000)).collect()),
        38 => update = update.clear(Shelf::LIST),
        44 => {
            update = update.overwrite(
                Shelf::NOTES,
                BTreeMap::from([(
                    1,
                    Note {
                        key: 1,
                        text: "one".into(),
                    },
                )]),
            )
        }
        52 => update = update.overwrite(Shelf::LONGEST, "short".into()),
        63..=65 => {
            update = update.overwrite(Shelf::LIST, (0..turn).map(|n| text(n, 5_000)).collect())
        }
        _ => {}
    }
    let way = if turn.is_multiple_of(17) {
        Way::Out
    } else {
        Way::On
    };
    Ok((update, way))
}

fn shelf() -> Graph<Shelf> {
    let mut g = Graph::builder("shelf");
    let turn = g.node("turn", turn);
    g.start(turn);
    g.wire(turn, |way| match way {
        Way::On => turn.into(),
        Way::Out => End.into(),
    });
    g.build().unwrap()
}

/// C55, S036: the state of every checkpoint is what it was when it was made, however many bases,
/// segments and calls lie between.
async fn every_state_is_what_it_was(
    base_every: u32,
    turns_a_call: u64,
    reads: u64,
    until: u64,
    place: &Place,
) {
    let t = thread("t");
    let options = || {
        RunOptions::new()
            .base_every(base_every)
            .step_limit(turns_a_call)
    };
    let mut seen = Vec::new();
    let mut command = Command::start(Shelf::update());
    loop {
        // A new runner for each call loads what the one before has left.
        let runner = place.runner(shelf(), options());
        let mut run = runner.open(&t, command).await.unwrap();
        let mut ended = None;
        if !seen.is_empty() {
            let expected: &Shelf = seen.last().unwrap();
            assert_eq!(run.state().list, expected.list);
        }
        if seen.is_empty() || run.state().passing.is_none() && run.state().turn % 17 == 0 {
            seen.push((*run.state()).clone());
        }
        while ended.is_none() {
            let before = run.state().turn;
            if let Progress::Ended(why) = run.step().await.unwrap() {
                ended = Some(why);
            }
            if run.state().turn > before {
                seen.push((*run.state()).clone());
            }
        }
        if seen.last().unwrap().turn >= until {
            break;
        }
        command = match ended {
            Some(Ended::Finished) => Command::start(Shelf::update()),
            _ => Command::go_on(),
        };
    }
    let runner = place.runner(shelf(), options());
    let store = match place {
        Place::Memory(store) => Some(store.clone()),
        _ => None,
    };
    let Some(store) = store else {
        assert_eq!(*runner.state(&t).await.unwrap(), *seen.last().unwrap());
        return;
    };
    let points = history(&store, &t).await.unwrap();
    assert_eq!(points.len(), seen.len());
    for (point, expected) in points.iter().zip(&seen) {
        if point.step.get() % reads == 0 {
            let found = runner.state_at(&t, point.seq).await.unwrap();
            assert_eq!(found.turn, expected.turn);
            assert!(
                *found == *expected,
                "turn {} of base every {base_every}",
                expected.turn
            );
        }
    }
    assert!(*runner.state(&t).await.unwrap() == *seen.last().unwrap());
}

/// C55.
#[tokio::test(start_paused = true)]
async fn every_state_is_what_it_was_with_a_base_at_each_commit() {
    every_state_is_what_it_was(1, 5, 4, 102, &Place::memory()).await;
}

/// C55.
#[tokio::test(start_paused = true)]
async fn every_state_is_what_it_was_with_many_bases() {
    every_state_is_what_it_was(3, 2, 1, 102, &Place::memory()).await;
    every_state_is_what_it_was(7, 1000, 3, 102, &Place::memory()).await;
}

/// C55.
#[tokio::test(start_paused = true)]
async fn every_state_is_what_it_was_with_few_bases() {
    every_state_is_what_it_was(64, 1, 5, 102, &Place::memory()).await;
    every_state_is_what_it_was(64, 1000, 5, 102, &Place::memory()).await;
}

/// C55.
#[tokio::test(start_paused = true)]
async fn every_state_is_what_it_was_over_sled() {
    every_state_is_what_it_was(5, 7, 1, 34, &Place::sled()).await;
}

/// C55: how many records a state of the past is read from does not grow with the thread.
#[tokio::test(start_paused = true)]
async fn an_old_state_is_read_from_a_bounded_number_of_records() {
    let memory = MemoryStore::new();
    let mut g = Graph::builder("long");
    let a = g.node("a", async |doc: Snapshot<Doc>, _| {
        let way = if doc.n < 2_000 { Way::On } else { Way::Out };
        Ok((Doc::update().n(doc.n + 1), way))
    });
    g.start(a);
    g.wire(a, |way| match way {
        Way::On => a.into(),
        Way::Out => End.into(),
    });
    let graph = g.build().unwrap();
    let t = thread("t");
    let runner = Runner::new(graph.clone())
        .options(RunOptions::new().step_limit(5_000))
        .store(memory.clone());
    runner.run(&t, start()).await.unwrap();
    let points = history(&memory, &t).await.unwrap();
    for at in [17, 1_500, 1_930] {
        let probe = crate::support::Probe::new(memory.clone());
        let reader = Runner::new(graph.clone()).store(probe.clone());
        let state = reader.state_at(&t, points[at].seq).await.unwrap();
        assert_eq!(state.n, at as u64);
        assert!(
            probe.operations() <= 8,
            "{} reads for turn {at}",
            probe.operations()
        );
    }
}

/// C56, S041: one line of checkpoints, in the order of commits, read anew as it was.
#[tokio::test(start_paused = true)]
async fn history_is_one_line_in_the_order_of_commits() {
    let (calls, place, t) = (Calls::default(), Place::sled(), thread("t"));
    let mut points = Vec::new();
    for _ in 0..2 {
        let runner = place.runner(all_kinds(&calls, "none"), RunOptions::new());
        runner.run(&t, start()).await.unwrap();
        drop(runner);
        let store = place.open().unwrap();
        let head = store.head(&t).await.unwrap().unwrap();
        let now = history(&*store, &t).await.unwrap();
        assert_eq!(now.last().unwrap().seq, head.seq);
        assert!(
            now.windows(2)
                .all(|pair| pair[0].seq < pair[1].seq && pair[0].step <= pair[1].step)
        );
        assert_eq!(now[..points.len()], points[..]);
        points = now;
    }
    let ran: Vec<_> = points.iter().flat_map(|point| point.ran.clone()).collect();
    let once = [("first", 1), ("w", 4), ("one", 1), ("two", 1), ("last", 1)];
    let once = once.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(ran, [once.clone(), once].concat());
}

/// A checkpoint that is none, and a thread that is none, are typed.
#[tokio::test(start_paused = true)]
async fn what_is_no_checkpoint_is_said_to_be_none() {
    let place = Place::memory();
    let runner = place.runner(all_kinds(&Calls::default(), "none"), RunOptions::new());
    let t = thread("t");
    assert!(matches!(
        runner.state(&t).await,
        Err(RunError::NotFound { .. })
    ));
    runner.run(&t, start()).await.unwrap();
    let store = place.open().unwrap();
    let points: Vec<_> = history(&*store, &t)
        .await
        .unwrap()
        .iter()
        .map(|point| point.seq.get())
        .collect();
    for seq in 0..points.last().unwrap() + 5 {
        let found = runner.state_at(&t, milepost::Seq::new(seq)).await;
        match found {
            Ok(_) => assert!(points.contains(&seq), "{seq}"),
            Err(RunError::NoCheckpoint { .. }) => assert!(!points.contains(&seq), "{seq}"),
            Err(other) => panic!("{seq}: {other}"),
        }
    }
}

/// Ephemeral fields are gone after one superstep, through every door and after a resume.
#[test]
fn an_ephemeral_field_lives_for_one_superstep() {
    on_both(async || {
        let mut g = Graph::<Shelf>::builder("ephemeral");
        let a = g.node("a", async |_, _| Ok(Shelf::update().passing(Some(1))));
        let b = g.node("b", async |shelf: Snapshot<Shelf>, _| {
            Ok(Shelf::update().turn(shelf.passing.unwrap_or(99)))
        });
        let c = g.node("c", async |shelf: Snapshot<Shelf>, _| {
            Ok(Shelf::update().list(vec![format!("{:?}", shelf.passing)]))
        });
        g.start(a);
        g.edge(a, b);
        g.edge(b, c);
        g.edge(c, End);
        let graph = g.build().unwrap();
        for door in DOORS {
            for base_every in [1, 64] {
                let place = Place::memory();
                let t = thread("t");
                let options = RunOptions::new().step_limit(1).base_every(base_every);
                let runner = place.runner(graph.clone(), options);
                let mut command = Command::start(Shelf::update().passing(Some(5)));
                let mut state = None;
                for _ in 0..4 {
                    state = Some(drive(door, &runner, &t, command).await.unwrap().1);
                    command = Command::go_on();
                }
                let state = state.unwrap();
                assert_eq!(
                    (state.turn, &state.list[..], state.passing),
                    (1, &["None".to_owned()][..], None)
                );
                assert_eq!(*runner.state(&t).await.unwrap(), *state);
            }
        }
    });
}

/// S043: many threads at once over one store do not mix.
#[test]
fn many_threads_at_once_do_not_mix() {
    on_both(async || {
        let store: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
        let calls: Vec<_> = (0..40u64)
            .map(|number| {
                let runner = Runner::new(all_kinds(&Calls::default(), "none"))
                    .options(RunOptions::new().base_every(2).shuffle(number))
                    .shared_store(Arc::clone(&store));
                tokio::spawn(async move {
                    let t = thread(&format!("t{number}"));
                    runner
                        .run(&t, Command::start(line(format!("in {number}"))))
                        .await
                        .unwrap();
                    let state = runner.state(&t).await.unwrap();
                    assert_eq!(
                        state.log,
                        [
                            format!("in {number}").as_str(),
                            "first",
                            "one",
                            "two",
                            "last"
                        ]
                    );
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
    });
}
