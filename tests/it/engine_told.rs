//! What a run tells: events as text, logs that are the same twice, spans and warnings.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use milepost::store::MemoryStore;
use milepost::{
    Branch, Command, Context, End, Epoch, ErrorText, Event, EventKind, Exits, FieldUpdate, Graph,
    NodeError, NodeName, Policy, QuestionId, Retry, RunId, RunOptions, Runner, Seq, Snapshot, Step,
    TakenEdge, TaskPath, Try, events,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use crate::support::{Calls, DOORS, Doc, Place, drive, fed, line, listen, thread, wander, with};

fn one_of_each() -> Vec<EventKind> {
    let node = |name| NodeName::new(name).unwrap();
    let task = || TaskPath::new(Step::new(3), node("a/b[1]"), 2);
    let error = || ErrorText {
        class: "transient".to_owned(),
        message: "\"busy\"\n\u{0}".to_owned(),
    };
    let update = || {
        vec![FieldUpdate {
            field: "log".to_owned(),
            codec: 2,
            cleared: true,
            overwritten: Some(vec![0, 255]),
            merged: vec![vec![], vec![0xc1]],
        }]
    };
    vec![
        EventKind::Started {
            thread: thread("a|b:c/%\0"),
            run: RunId::new("r").unwrap(),
            at_ms: 5,
            update: update(),
            edges: vec![TakenEdge {
                from: None,
                label: String::new(),
                to: Some(node("__start__")),
                tasks: 1,
            }],
            next: vec![node("__start__"), node("?")],
        },
        EventKind::Resumed {
            thread: thread("t"),
            run: RunId::new("r").unwrap(),
            at_ms: u64::MAX,
            step: Step::new(u64::MAX),
            takeover: 1,
        },
        EventKind::SuperstepStarted {
            step: Step::new(1),
            tasks: vec![task(), task()],
        },
        EventKind::Branched {
            branch: Branch::new(2),
            parent: Branch::new(0),
            at: Seq::new(4),
        },
        EventKind::Discarded {
            at_ms: 3,
            tasks: vec![task()],
        },
        EventKind::TaskStarted {
            task: task(),
            attempt: 1,
        },
        EventKind::Begun {
            task: task(),
            at_ms: 4,
        },
        EventKind::Token {
            task: task(),
            text: "\u{202e}é".to_owned(),
        },
        EventKind::Custom {
            task: task(),
            name: String::new(),
            value: vec![1, 2, 3],
        },
        EventKind::TaskFinished {
            task: task(),
            attempts: 2,
            micros: 1,
            tries: vec![Try {
                started_ms: 1,
                micros: 2,
                error: Some(error()),
                cached: false,
            }],
            exit: Some("on".to_owned()),
            tolerated: Some(error()),
            update: update(),
        },
        EventKind::Asked {
            id: QuestionId::new(task(), "a.b]"),
            type_name: "Approve".to_owned(),
            question: vec![1],
            expires_ms: Some(4),
        },
        EventKind::StepFinished {
            task: task(),
            key: String::new(),
        },
        EventKind::TimerSet {
            task: task(),
            key: "nap".to_owned(),
            due_ms: 5,
        },
        EventKind::Answered {
            id: QuestionId::new(task(), "é"),
            answer: vec![],
        },
        EventKind::TaskFailed {
            task: task(),
            attempts: 3,
            tries: vec![Try {
                started_ms: 1,
                micros: 2,
                error: None,
                cached: true,
            }],
            error: error(),
            exit: Some("on error".to_owned()),
        },
        EventKind::Committed {
            step: Step::new(1),
            at_ms: 0,
            edges: vec![TakenEdge {
                from: None,
                label: String::new(),
                to: Some(node("a")),
                tasks: 0,
            }],
            next: vec![],
        },
        EventKind::Durable { up_to: Seq::new(5) },
        EventKind::Ended {
            status: "failed".to_owned(),
            at_ms: 6,
            step: Step::new(0),
            error: Some(error()),
        },
    ]
}

/// S039: an event is the same after it was text.
#[test]
fn every_kind_of_event_becomes_json_and_back() {
    let mut names = Vec::new();
    for kind in one_of_each() {
        for seq in [None, Some(Seq::new(9))] {
            let event = Event {
                within: None,
                epoch: Epoch::new(4),
                seq,
                kind: kind.clone(),
            };
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(
                serde_json::from_str::<Event>(&text).unwrap(),
                event,
                "{text}"
            );
            let packed = rmp_serde::to_vec_named(&event).unwrap();
            assert_eq!(rmp_serde::from_slice::<Event>(&packed).unwrap(), event);
        }
        let value = serde_json::to_value(&kind).unwrap();
        names.extend(value.as_object().unwrap().keys().cloned());
    }
    // A kind that is added must be added here, too: these are all that there are.
    let expected = [
        "started",
        "resumed",
        "superstep_started",
        "branched",
        "discarded",
        "task_started",
        "begun",
        "token",
        "custom",
        "task_finished",
        "asked",
        "step_finished",
        "timer_set",
        "answered",
        "task_failed",
        "committed",
        "durable",
        "ended",
    ];
    assert_eq!(names, expected);
    let source = include_str!("../../src/event.rs");
    let kinds = source.split("pub enum EventKind {").nth(1).unwrap();
    let kinds = kinds.split("\n}\n").next().unwrap();
    let variants = kinds.lines().filter(|line| {
        line.starts_with("    ") && line.ends_with(" {") && !line.starts_with("     ")
    });
    assert_eq!(variants.count(), expected.len());
}

#[derive(Clone, Copy, Exits)]
enum Way {
    On,
    Out,
}

/// A graph that tells one event of every kind that a run can tell, over two calls.
fn all_kinds(calls: &Calls) -> Graph<Doc> {
    let mut g = Graph::builder("all kinds");
    let first = g.node("first", async |_: Snapshot<Doc>, cx: Context| {
        cx.token("to").await;
        cx.emit("note", &7).await?;
        Ok((line("first"), Way::On))
    });
    let w = fed(calls.clone(), async |calls: Calls, item: u64, _, _| {
        wander(4, item).await;
        match (calls.hit(&format!("w{item}")), item) {
            (1, 1) => Err(NodeError::transient("busy")),
            (_, 2) => Err(NodeError::permanent("never")),
            _ => Ok(Doc::update().seen(vec![item])),
        }
    });
    let w = g.worker("w", w);
    let retry = Retry {
        max_attempts: 2,
        jitter: 0.0,
        ..Retry::default()
    };
    g.policy(w, Policy::default().retry(retry));
    g.worker_error(w, |item, error| line(format!("{item}: {error}")));
    let last = with(calls.clone(), async |calls: Calls, _, _| {
        match calls.hit("last") {
            1 => Err(NodeError::permanent("not today")),
            _ => Ok(Doc::update().overwrite(Doc::N, 7).clear(Doc::SUM)),
        }
    });
    let last = g.node("last", last);
    g.start(first);
    g.wire(first, |way| match way {
        Way::On => w.each(|_| (0..4).collect()),
        Way::Out => End.into(),
    });
    g.edge(w, last);
    g.edge(last, End);
    g.build().unwrap()
}

/// Sets every time to 0.
fn without_clocks(kind: &mut EventKind) {
    let mut nothing = 0;
    let (micros, at_ms, tries) = match kind {
        EventKind::TaskFinished { micros, tries, .. } => (micros, None, Some(tries)),
        EventKind::TaskFailed { tries, .. } => (&mut nothing, None, Some(tries)),
        EventKind::Started { at_ms, .. }
        | EventKind::Resumed { at_ms, .. }
        | EventKind::Discarded { at_ms, .. }
        | EventKind::Committed { at_ms, .. }
        | EventKind::Ended { at_ms, .. } => (&mut nothing, Some(at_ms), None),
        _ => return,
    };
    *micros = 0;
    if let Some(at_ms) = at_ms {
        assert!(*at_ms > 0);
        *at_ms = 0;
    }
    for one in tries.into_iter().flatten() {
        assert!(one.started_ms > 0);
        (one.started_ms, one.micros) = (0, 0);
    }
}

/// Both calls of that graph, as JSON, a line an event, without clocks.
async fn lines(place: &Place, name: &str, run: &str, seed: u64) -> String {
    let calls = Calls::default();
    let mut text = String::new();
    let input = Doc::update().log(vec!["in".to_owned()]);
    let mut command = Command::start(input).run_id(RunId::new(run).unwrap());
    for _ in 0..2 {
        let runner = place.runner(all_kinds(&calls), RunOptions::new().shuffle(seed));
        let (heard, _) = listen(&runner, &thread(name), command).await;
        for mut event in heard {
            without_clocks(&mut event.kind);
            writeln!(text, "{}", serde_json::to_string(&event).unwrap()).unwrap();
        }
        command = Command::go_on();
    }
    text
}

/// S037: two runs tell the same to the byte, ids and clocks apart.
#[tokio::test(start_paused = true)]
async fn two_runs_tell_the_same_to_the_byte() {
    for seed in 0..10 {
        let one = lines(&Place::memory(), "one", "a", seed).await;
        assert_eq!(one, lines(&Place::memory(), "one", "a", seed).await);
        let other = lines(&Place::memory(), "two", "b", seed).await;
        let renamed = other
            .replace("\"thread\":\"two\"", "\"thread\":\"one\"")
            .replace("\"run\":\"b\"", "\"run\":\"a\"")
            .replace("(thread two,", "(thread one,");
        assert_eq!(one, renamed);
    }
}

/// The text of events is a contract: whoever parses it must not be surprised. Written anew where
/// `MILEPOST_BLESS` is set.
#[tokio::test(start_paused = true)]
async fn the_events_of_a_run_are_stable_text() {
    let told = lines(&Place::memory(), "t", "r", 0).await;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/events.jsonl");
    if std::env::var_os("MILEPOST_BLESS").is_some() {
        std::fs::write(path, &told).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap();
    for (told, expected) in told.lines().zip(expected.lines()) {
        assert_eq!(told, expected);
    }
    assert_eq!(told.lines().count(), expected.lines().count(), "{told}");
    for line in expected.lines() {
        let event: Event = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&event).unwrap(), line);
    }
}

/// A span or an event of `tracing`: its name or message, its fields, and the span it lies in.
#[derive(Clone, Debug, Default)]
struct Traced {
    name: String,
    level: String,
    fields: BTreeMap<String, String>,
    parent: Option<u64>,
}

impl Visit for Traced {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.fields
            .insert(field.name().to_owned(), format!("{value:?}"));
    }
}

/// Keeps all spans and events of this crate's library.
#[derive(Clone, Default)]
struct Keeps {
    spans: Arc<Mutex<Vec<Traced>>>,
    events: Arc<Mutex<Vec<Traced>>>,
    /// The spans that are entered, innermost last: all on one thread.
    entered: Arc<Mutex<Vec<u64>>>,
}

impl Keeps {
    fn around(&self, explicit: Option<&Id>, is_root: bool) -> Option<u64> {
        match explicit {
            Some(parent) => Some(parent.into_u64()),
            None if is_root => None,
            None => self.entered.lock().unwrap().last().copied(),
        }
    }

    /// A span with what it lies in, outermost first.
    fn path(&self, span: &Traced) -> Vec<Traced> {
        let spans = self.spans.lock().unwrap();
        let mut path = vec![span.clone()];
        while let Some(parent) = path[0].parent {
            path.insert(0, spans[parent as usize - 1].clone());
        }
        path
    }

    fn named(&self, name: &str) -> Vec<Traced> {
        let spans = self.spans.lock().unwrap();
        spans
            .iter()
            .filter(|span| span.name == name)
            .cloned()
            .collect()
    }
}

impl Subscriber for Keeps {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("milepost")
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut traced = Traced {
            name: span.metadata().name().to_owned(),
            level: span.metadata().level().to_string(),
            parent: self.around(span.parent(), span.is_root()),
            ..Traced::default()
        };
        span.record(&mut traced);
        let mut spans = self.spans.lock().unwrap();
        spans.push(traced);
        Id::from_u64(spans.len() as u64)
    }
    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut self.spans.lock().unwrap()[span.into_u64() as usize - 1]);
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut traced = Traced {
            level: event.metadata().level().to_string(),
            parent: self.around(event.parent(), event.is_root()),
            ..Traced::default()
        };
        event.record(&mut traced);
        traced.name = traced.fields.remove("message").unwrap_or_default();
        self.events.lock().unwrap().push(traced);
    }
    fn enter(&self, span: &Id) {
        self.entered.lock().unwrap().push(span.into_u64());
    }
    fn exit(&self, span: &Id) {
        let mut entered = self.entered.lock().unwrap();
        let place = entered
            .iter()
            .rposition(|inner| *inner == span.into_u64())
            .unwrap();
        entered.remove(place);
    }
}

/// The data path as spans: each task and commit in its superstep, each superstep in its run, with
/// their ids, through every door; also where a runner of its own drew the task.
#[tokio::test(start_paused = true)]
async fn spans_tell_run_superstep_task_and_commit() {
    for door in DOORS {
        for place in [Place::Nowhere, Place::memory()] {
            let keeps = Keeps::default();
            let guard = tracing::subscriber::set_default(keeps.clone());
            let calls = Calls::default();
            calls.hit("last");
            let runner = place.runner(all_kinds(&calls), RunOptions::new());
            let start = Command::start(Doc::update()).run_id(RunId::new("r").unwrap());
            drive(door, &runner, &thread("t"), start).await.unwrap();
            drop(guard);
            let name = format!("{door:?}, {place:?}");
            for run in keeps.named("run") {
                assert_eq!(run.fields["thread"], "t", "{name}");
                assert_eq!(run.fields["run"], "r", "{name}");
            }
            let steps: Vec<_> = keeps
                .named("superstep")
                .iter()
                .map(|span| span.fields["step"].clone())
                .collect();
            assert_eq!(steps, ["1", "2", "3"], "{name}");
            let mut tasks = Vec::new();
            for span in keeps.named("task") {
                let path: Vec<_> = keeps.path(&span);
                let names: Vec<_> = path.iter().map(|span| span.name.as_str()).collect();
                assert_eq!(names, ["run", "superstep", "task"], "{name}");
                let task = &span.fields["task"];
                assert!(
                    task.starts_with(&format!("{}:", path[1].fields["step"])),
                    "{name}"
                );
                tasks.push(format!("{task} {}", span.fields["attempt"]));
            }
            tasks.sort();
            let expected = [
                "1:first[0] 1",
                "2:w[0] 1",
                "2:w[1] 1",
                "2:w[1] 2",
                "2:w[2] 1",
                "2:w[3] 1",
                "3:last[0] 1",
            ];
            assert_eq!(tasks, expected, "{name}");
            let commits = keeps.named("commit");
            if matches!(place, Place::Nowhere) {
                assert!(commits.is_empty(), "{name}");
                continue;
            }
            let mut last = 0;
            for (commit, step) in commits.iter().zip(1..) {
                let path = keeps.path(commit);
                assert_eq!(commit.fields["step"], step.to_string(), "{name}");
                assert_eq!(path[1].fields["step"], step.to_string(), "{name}");
                let seq: u64 = commit.fields["seq"].parse().unwrap();
                assert!(seq > last, "{name}");
                last = seq;
            }
            assert_eq!(commits.len(), 3, "{name}");
        }
    }
}

/// S050: another version of the graph is noticed: a warning that shows both, once a call, until a
/// checkpoint of the new one is written; the same version says nothing.
#[tokio::test(start_paused = true)]
async fn another_version_of_the_graph_is_warned_of() {
    let version = |more: bool| {
        let mut g = Graph::builder("order");
        let first = g.node("first", async |_: Snapshot<Doc>, _: Context| {
            Ok(line("first"))
        });
        g.start(first);
        match more {
            true => {
                let second = g.node("second", async |_: Snapshot<Doc>, _: Context| {
                    Ok(line("second"))
                });
                g.edge(first, second);
                g.edge(second, End);
            }
            false => g.edge(first, End),
        }
        g.build().unwrap()
    };
    let memory = MemoryStore::new();
    let warnings = async |graph: Graph<Doc>, command: Command<Doc>| {
        let keeps = Keeps::default();
        let guard = tracing::subscriber::set_default(keeps.clone());
        let runner = Runner::new(graph).store(memory.clone());
        let report = runner.run(&thread("t"), command).await.unwrap();
        drop(guard);
        let events = keeps.events.lock().unwrap();
        let warnings = events.iter().filter(|event| event.level == "WARN").cloned();
        (warnings.collect::<Vec<_>>(), report.state.log.clone())
    };
    let start = || Command::start(Doc::update());
    let hex = |graph: &Graph<Doc>| {
        graph
            .fingerprint()
            .iter()
            .fold(String::new(), |mut text, byte| {
                write!(text, "{byte:02x}").unwrap();
                text
            })
    };
    assert!(warnings(version(false), start()).await.0.is_empty());
    assert!(warnings(version(false), start()).await.0.is_empty());
    let (told, log) = warnings(version(true), Command::go_on()).await;
    assert_eq!(log, ["first", "first"], "it is finished");
    assert_eq!(told.len(), 1);
    let (told, log) = warnings(version(true), start()).await;
    assert_eq!(log, ["first", "first", "first", "second"]);
    let [warning] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(
        warning.name,
        "the thread was written with another version of its graph"
    );
    assert_eq!(warning.fields["thread"], "t");
    assert_eq!(warning.fields["graph"], "order");
    assert_eq!(warning.fields["stored"], hex(&version(false)));
    assert_eq!(warning.fields["program"], hex(&version(true)));
    assert!(warnings(version(true), start()).await.0.is_empty());
    let run = events(&memory, &thread("t")).await.unwrap();
    assert!(!run.is_empty());
}
