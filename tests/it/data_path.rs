//! The run that `docs/data-path.md` follows: what stands there is what stands in the log.

use std::fmt::Write as _;
use std::sync::Arc;

use milepost::store::{
    BaseValue, CheckpointStore, MemoryStore, OutcomeRecord, OutcomeRef, Record, StoredBase,
    StoredChange, StoredEdge, StoredTask,
};
use milepost::{
    Add, Append, Command, Context, End, Ended, Exits, Graph, NodeError, Runner, Seq, Snapshot,
    State, ThreadId,
};

#[derive(Clone, Default, State)]
struct Report {
    #[reduce(Append)]
    topics: Vec<String>,
    #[reduce(Append)]
    notes: Vec<String>,
    #[reduce(Add)]
    words: u64,
    text: Option<String>,
}

#[derive(Clone, Copy, Exits)]
enum Planned {
    Study,
    Nothing,
}

async fn plan(report: Snapshot<Report>, _: Context) -> Result<(ReportUpdate, Planned), NodeError> {
    match report.topics.is_empty() {
        true => Ok((Report::update(), Planned::Nothing)),
        false => Ok((Report::update().words(1), Planned::Study)),
    }
}

async fn study(topic: String, _: Snapshot<Report>, _: Context) -> Result<ReportUpdate, NodeError> {
    let note = format!("about {topic}");
    Ok(Report::update().notes(vec![note]).words(2))
}

async fn write(report: Snapshot<Report>, _: Context) -> Result<ReportUpdate, NodeError> {
    Ok(Report::update().text(Some(report.notes.join(", "))))
}

fn graph() -> Graph<Report> {
    let mut g = Graph::builder("report");
    let plan = g.node("plan", plan);
    let study = g.worker("study", study);
    let write = g.node("write", write);
    g.start(plan);
    g.wire(plan, |exit| match exit {
        Planned::Study => study.each(|report: &Report| report.topics.clone()),
        Planned::Nothing => End.into(),
    });
    g.edge(study, write);
    g.edge(write, End);
    g.build().unwrap()
}

#[tokio::test]
async fn the_data_path_is_told_with_the_records_as_they_are() {
    let store = Arc::new(MemoryStore::new());
    let thread = ThreadId::new("monday").unwrap();
    let runner = Runner::new(graph()).shared_store(Arc::clone(&store) as _);
    let topics = vec!["tides".to_owned(), "moon".to_owned()];
    let input = Report::update().topics(topics);
    let report = runner
        .run(
            &thread,
            Command::start(input).run_id("run-1".parse().unwrap()),
        )
        .await
        .unwrap();
    assert_eq!(report.ended, Ended::Finished);
    assert_eq!(
        report.state.text.as_deref(),
        Some("about tides, about moon")
    );
    assert_eq!(report.state.words, 5);

    let mut log = Vec::new();
    let mut ended = Vec::new();
    for stored in store.records(&thread, Seq::new(1), 100).await.unwrap() {
        let text = shown(&stored.record);
        // The order in which members of a fan-out end is open; their places are not.
        match &*stored.record {
            Record::Outcome(_) => ended.push(text),
            _ => {
                ended.sort();
                log.append(&mut ended);
                log.push(format!("{} {text}", stored.seq));
            }
        }
    }
    let told = include_str!("../../docs/data-path.md");
    for record in &log {
        assert!(
            told.contains(record.as_str()),
            "docs/data-path.md does not tell\n{record}\nof\n{}",
            log.join("\n")
        );
    }
}

/// A record without times, a part a line, values read from their MessagePack.
fn shown(record: &Record) -> String {
    let mut parts = Vec::new();
    let name = match record {
        Record::Schema(schema) => {
            parts.push(("graph", schema.graph.clone()));
            for field in &schema.fields {
                let kept = format!("{} {}, {}", field.name, field.shape, field.reducer);
                parts.push(("field", kept));
            }
            "Schema"
        }
        Record::Input(input) => {
            parts.push(("run", input.run.clone()));
            parts.push(("update", changes(&input.update)));
            parts.push(("edges", edges(&input.edges)));
            parts.push(("frontier", frontier(&input.frontier)));
            parts.push(("status", input.status.to_string()));
            "Input"
        }
        Record::Outcome(one) => {
            parts.push(("task", outcome(one)));
            "Outcome"
        }
        Record::Commit(commit) => {
            parts.push(("step", commit.step.to_string()));
            let outcomes = commit.outcomes.iter().map(|each| match each {
                OutcomeRef::Inline(one) => outcome(one),
                OutcomeRef::At(seq) => format!("record {seq}"),
            });
            let mut outcomes: Vec<_> = outcomes.collect();
            outcomes.sort();
            parts.push(("outcomes", outcomes.join("; ")));
            parts.push(("edges", edges(&commit.edges)));
            parts.push(("frontier", frontier(&commit.frontier)));
            parts.push(("status", commit.status.to_string()));
            "Commit"
        }
        Record::Base(base) => {
            parts.push(("at", base.at.to_string()));
            for field in &base.fields {
                let kept = match &field.value {
                    BaseValue::Whole(bytes) => value(bytes),
                    BaseValue::Items {
                        sealed, tail_items, ..
                    } => format!("{} segments, then {tail_items} items", sealed.len()),
                };
                parts.push(("field", format!("{} = {kept}", field.field)));
            }
            "Base"
        }
        other => panic!("a record that the run does not write: {other:?}"),
    };
    let mut text = name.to_owned();
    for (part, value) in parts {
        write!(text, "\n    {part:<9} {value}").unwrap();
    }
    text
}

fn outcome(outcome: &OutcomeRecord) -> String {
    let exit = outcome.exit.as_ref();
    let exit = exit.map_or(String::new(), |exit| format!(" by {exit}"));
    format!(
        "{}:{}[{}]{} after {} try: {}",
        outcome.step,
        outcome.node,
        outcome.index,
        exit,
        outcome.attempts.len(),
        changes(&outcome.changes),
    )
}

fn changes(changes: &[StoredChange]) -> String {
    let one = |change: &StoredChange| {
        assert_eq!(change.base, StoredBase::Keep);
        let merges: Vec<_> = change.merges.iter().map(|bytes| value(bytes)).collect();
        format!("{} gets {}", change.field, merges.join(", "))
    };
    changes.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn edges(edges: &[StoredEdge]) -> String {
    let or = |name: &str, none: &str| if name.is_empty() { none } else { name }.to_owned();
    let one = |edge: &StoredEdge| {
        let label = if edge.label.is_empty() {
            String::new()
        } else {
            format!("({}) ", edge.label)
        };
        let (from, to) = (or(&edge.from, "start"), or(&edge.to, "end"));
        format!("{from} {label}→ {to} × {}", edge.tasks)
    };
    edges.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn frontier(tasks: &[StoredTask]) -> String {
    let one = |task: &StoredTask| {
        let payload = task.payload.as_ref().map(|bytes| value(bytes));
        let payload = payload.map_or(String::new(), |payload| format!(" of {payload}"));
        format!("{}[{}]{payload}", task.node, task.index)
    };
    if tasks.is_empty() {
        return "nothing".to_owned();
    }
    tasks.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn value(bytes: &[u8]) -> String {
    let value: serde_json::Value = rmp_serde::from_slice(bytes).unwrap();
    value.to_string()
}
