//! Values that look like marks of the engine's own are values.

use std::collections::{BTreeMap, BTreeSet};

use milepost::{
    Append, ByKey, Command, Context, End, EventKind, FieldUpdate, Graph, KeepFirst, Keyed, Merge,
    NodeError, RunOptions, Runner, Snapshot, State, ThreadId, Union, events, history,
};
use serde::{Deserialize, Serialize};

use crate::support::{Calls, DOORS, Place, drive, fed, thread, with};

/// What the engine, its store or its drawings use as names, tags, marks and separators.
const MARKS: [&str; 44] = [
    "",
    "?",
    "0",
    "1",
    "when empty",
    "__start__",
    "__end__",
    "__interrupt__",
    "start",
    "end",
    "START",
    "END",
    "plan",
    "w",
    "w[0]",
    "2:w[0]",
    "1:plan[0]",
    "on",
    "log",
    "Schema",
    "Input",
    "Started",
    "Outcome",
    "Commit",
    "Base",
    "Stopped",
    "committed",
    "ended",
    "finished",
    "panicked",
    "keep",
    "clear",
    "overwrite",
    "Inline",
    "MPST",
    "{\"goto\":\"end\",\"update\":{}}",
    "{\"Overwrite\":[]}",
    "$type",
    "\u{0}",
    "\u{c0}\u{c1}\u{df}",
    "\u{85}\u{a5}text",
    "a|b:/c%00[1]",
    "%2F",
    "\u{202e}txt",
];

/// First bytes of MessagePack, of bincode, and of a frame.
fn bytes() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    all.push(b"MPST\x05\x01\x01\0".to_vec());
    all.push(vec![0xc1; 40]);
    all.push(vec![0xdf, 0xff, 0xff, 0xff, 0xff]);
    all.push(u64::MAX.to_le_bytes().to_vec());
    all.push(Vec::new());
    all
}

/// A payload that looks like a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Goto {
    goto: String,
    node: Option<String>,
    bytes: Vec<u8>,
}

impl Keyed for Goto {
    type Key = String;
    fn key(&self) -> String {
        self.goto.clone()
    }
}

#[derive(Clone, Debug, Default, PartialEq, State)]
struct Marks {
    #[reduce(Append)]
    log: Vec<String>,
    #[reduce(Append)]
    bytes: Vec<Vec<u8>>,
    #[reduce(Merge)]
    map: BTreeMap<String, String>,
    #[reduce(Union)]
    set: BTreeSet<String>,
    #[reduce(ByKey<KeepFirst>)]
    gotos: BTreeMap<String, Goto>,
    plain: Option<String>,
    nested: Option<Option<String>>,
}

fn gotos() -> Vec<Goto> {
    let goto = |mark: &&str| Goto {
        goto: (*mark).to_owned(),
        node: Some((*mark).to_owned()),
        bytes: mark.as_bytes().to_vec(),
    };
    MARKS.iter().map(goto).collect()
}

fn words() -> Vec<String> {
    MARKS.iter().map(|mark| (*mark).to_owned()).collect()
}

/// One task a mark; each gives its payload back, and the fifth fails once.
fn graph(calls: &Calls) -> Graph<Marks> {
    let mut g = Graph::builder("marks");
    let plan = g.node("plan", async |_: Snapshot<Marks>, _: Context| {
        Ok(Marks::update().plain(Some("__end__".to_owned())))
    });
    let w = fed(calls.clone(), async |calls: Calls, goto: Goto, _, _| {
        if goto.goto == MARKS[5] && calls.hit("fifth") == 1 {
            return Err(NodeError::permanent(goto.goto));
        }
        Ok(Marks::update()
            .log(vec![goto.goto.clone()])
            .set(BTreeSet::from([goto.goto.clone()]))
            .map(BTreeMap::from([(goto.goto.clone(), goto.goto.clone())]))
            .bytes(vec![goto.bytes.clone()])
            .gotos(vec![goto]))
    });
    let w = g.worker("w", w);
    let last = with((), async |(), _: Snapshot<Marks>, _: Context| {
        Ok(Marks::update()
            .bytes(bytes())
            .nested(Some(Some(String::new()))))
    });
    let last = g.node("__end__", last);
    g.start(plan);
    g.edge(plan, w.each(|_| gotos()));
    g.edge(w, last);
    g.edge(last, End);
    g.build().unwrap()
}

fn expected() -> Marks {
    let mut all = bytes();
    all.splice(0..0, MARKS.iter().map(|mark| mark.as_bytes().to_vec()));
    Marks {
        log: [words(), words()].concat(),
        bytes: all,
        map: words()
            .into_iter()
            .map(|mark| (mark.clone(), mark))
            .collect(),
        set: words().into_iter().collect(),
        gotos: gotos()
            .into_iter()
            .map(|goto| (goto.goto.clone(), goto))
            .collect(),
        plain: Some("__end__".to_owned()),
        nested: Some(Some(String::new())),
    }
}

/// The texts that an update of the log was given.
fn texts(update: &[FieldUpdate]) -> Vec<String> {
    let of_log = update.iter().filter(|update| update.field == "log");
    let texts = of_log.flat_map(|update| &update.merged);
    texts
        .flat_map(|bytes| rmp_serde::from_slice::<Vec<String>>(bytes).unwrap())
        .collect()
}

/// C67: as input, payload and update, through a failure and a resume, in events and history.
#[tokio::test(start_paused = true)]
async fn what_looks_like_a_mark_comes_back_as_it_was() {
    for door in DOORS {
        for place in [Place::memory(), Place::sled()] {
            for base_every in [1, 64] {
                let (calls, t) = (Calls::default(), thread(&format!("t{base_every}")));
                let options = || RunOptions::new().base_every(base_every).shuffle(3);
                let runner = place.runner(graph(&calls), options());
                let input = Command::start(Marks::update().log(words()));
                drive(door, &runner, &t, input).await.unwrap_err();
                drop(runner);
                let runner = place.runner(graph(&calls), options());
                let (_, state) = drive(door, &runner, &t, Command::go_on()).await.unwrap();
                assert_eq!(*state, expected());
                drop(runner);
                let runner = place.runner(graph(&calls), options());
                assert_eq!(*runner.state(&t).await.unwrap(), expected());
                drop(runner);
                let store = place.open().unwrap();
                let mut told = Vec::new();
                let mut merged = vec![String::new(); MARKS.len()];
                for event in events(&*store, &t).await.unwrap() {
                    match event.kind {
                        EventKind::Started { update, .. } => told.extend(texts(&update)),
                        EventKind::TaskFinished { task, update, .. }
                            if task.task().node.as_str() == "w" =>
                        {
                            let place = task.task().index as usize;
                            merged[place] = texts(&update).concat();
                        }
                        EventKind::TaskFailed { task, error, .. } => {
                            assert_eq!(task.to_string(), "2:w[5]");
                            assert_eq!(error.message, MARKS[5]);
                        }
                        _ => {}
                    }
                }
                assert_eq!(told, words());
                assert_eq!(merged, words());
                let line = history(&*store, &t).await.unwrap();
                let ran: Vec<_> = line.iter().flat_map(|point| point.ran.clone()).collect();
                let count = MARKS.len() as u32;
                let expected = [("plan", 1), ("w", count), ("__end__", 1)];
                assert_eq!(ran, expected.map(|(name, times)| (name.to_owned(), times)));
            }
        }
    }
}

/// C67: thread ids of any text are themselves, and nobody else.
#[tokio::test(start_paused = true)]
async fn a_thread_may_have_any_name() {
    let mut names: Vec<String> = words()
        .into_iter()
        .filter(|mark| !mark.is_empty())
        .collect();
    for name in [
        "a", "a|", "a|b", "a:b", "a/b", "a%b", "a%00b", "a\0b", "a\0", "..", "/", "\n",
    ] {
        names.push(name.to_owned());
    }
    for long in ["x", "y"] {
        names.push("%".repeat(255) + long);
    }
    for place in [Place::memory(), Place::sled()] {
        let mut g = Graph::<Marks>::builder("names");
        let own = g.node("own", async |_: Snapshot<Marks>, cx: Context| {
            Ok(Marks::update().log(vec![cx.thread().as_str().to_owned()]))
        });
        g.start(own);
        g.edge(own, End);
        let graph = g.build().unwrap();
        let store = place.open().unwrap();
        for name in &names {
            let runner = Runner::new(graph.clone()).shared_store(store.clone());
            let t = ThreadId::new(name).unwrap();
            runner
                .run(&t, Command::start(Marks::update()))
                .await
                .unwrap();
        }
        drop(store);
        let store = place.open().unwrap();
        for name in &names {
            let runner = Runner::new(graph.clone()).shared_store(store.clone());
            let t = ThreadId::new(name).unwrap();
            let log = &runner.state(&t).await.unwrap().log;
            assert_eq!((log.len(), &log[0]), (1, name));
        }
        let mut listed = Vec::new();
        loop {
            let page = store.threads(listed.last(), 7).await.unwrap();
            if page.is_empty() {
                break;
            }
            listed.extend(page.into_iter().map(|(thread, _)| thread));
        }
        let listed: BTreeSet<_> = listed
            .iter()
            .map(|thread| thread.as_str().to_owned())
            .collect();
        assert_eq!(listed, names.iter().cloned().collect());
    }
}
