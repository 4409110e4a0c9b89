//! Whether a thread fits the graph that this program has.
//!
//! In come what the thread says of the graph it was written with and the graph at hand; out go the
//! differences, and whether the thread's state can be loaded. How bad a difference is depends on
//! whether anything of the thread is still to run.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::doctor::Told;
use super::entry::Known;
use crate::store::{
    CheckpointStore, Few, FieldRecord, Head, Record, SchemaRecord, Severity, Status, StoredTask,
};
use crate::{FieldView, GraphChange, GraphPart, GraphView, RunError, Seq, ThreadId};

/// How many records are read at once.
const PAGE: usize = 256;
/// What to do where the records make no sense to their own graph.
const RESTORE: &str =
    "put back the last good copy of the store, or import an export of this thread";
const OTHER_PROGRAM: &str = "resume it with the program that wrote it, or bring back what it needs";

/// Compares a thread that is sound with its graph, and loads its state.
pub(super) async fn fit(
    known: &dyn Known,
    store: &Arc<dyn CheckpointStore>,
    thread: &ThreadId,
    head: &Head,
) -> Vec<Told> {
    let view = known.view();
    // Nothing of a finished thread will run again, but it cannot be shown either.
    let unusable = match head.status {
        Status::Finished => Severity::Warning,
        _ => Severity::Error,
    };
    let mut told = Vec::new();
    let mut tell = |severity, place: String, what: String, next: &str| {
        told.push(Told {
            severity,
            thread: Some(thread.clone()),
            place,
            what,
            next: next.to_owned(),
            is_damage: false,
        });
    };
    if let Some(Record::Schema(stored)) = one(store, thread, head.schema).await.as_deref() {
        let differences = match older(stored, view) {
            Some(what) => {
                let next = "nothing, if that is meant: it is lifted when it goes on";
                tell(Severity::Warning, "state".to_owned(), what, next);
                if let Some(task) = unmerged(store, thread, head).await {
                    let what = format!(
                        "the result of {task} is recorded and not merged yet, which only version \
                         {} can",
                        stored.version
                    );
                    let next = "finish the superstep with the program that began it, or fork the \
                                thread at its head: then its tasks run again";
                    let place = format!("superstep {}", head.step + 1);
                    tell(unusable, place, what, next);
                }
                Vec::new()
            }
            None => differences(stored, view),
        };
        if stored.fingerprint != known.fingerprint()
            && let Some(what) = other_graph(stored, view, differences.is_empty())
        {
            let next = "nothing, if that is meant: it goes on with the new version";
            tell(Severity::Warning, "graph".to_owned(), what, next);
        }
        for found in differences {
            let (severity, next) = match found.is_fatal {
                true => (unusable, OTHER_PROGRAM),
                false => (Severity::Warning, "nothing, if that is meant"),
            };
            let place = match found.field {
                Some(field) => format!("field {field}"),
                None => "state".to_owned(),
            };
            tell(severity, place, found.what, next);
        }
    }
    let frontier = match one(store, thread, head.seq).await.as_deref() {
        Some(Record::Input(input)) => input.frontier.clone(),
        Some(Record::Commit(commit)) => commit.frontier.clone(),
        _ => Few::new(),
    };
    for node in missing(&frontier, known) {
        let known: Vec<_> = view.nodes.iter().map(|node| node.name.as_str()).collect();
        let what = format!(
            "node \"{node}\" is to run next, and the graph has none of that name; it has {}",
            known.join(", ")
        );
        tell(
            unusable,
            format!("record {}", head.seq),
            what,
            OTHER_PROGRAM,
        );
    }
    if let Err(error) = known.state(Arc::clone(store), thread).await {
        let is_told = told.iter().any(|told| told.next == OTHER_PROGRAM);
        let is_other = matches!(
            error,
            RunError::SchemaMismatch { .. }
                | RunError::UnknownNode { .. }
                | RunError::Migrate { .. }
        );
        if is_other && is_told {
            return told;
        }
        let (severity, next) = match is_other {
            true => (unusable, OTHER_PROGRAM),
            false => (Severity::Error, RESTORE),
        };
        told.push(Told {
            severity,
            thread: Some(thread.clone()),
            place: "state".to_owned(),
            what: format!("it cannot be loaded: {error}"),
            next: next.to_owned(),
            is_damage: !is_other,
        });
    }
    told
}

async fn one(store: &Arc<dyn CheckpointStore>, thread: &ThreadId, at: Seq) -> Option<Arc<Record>> {
    let mut found = store.records(thread, at, 1).await.ok()?;
    found.pop().map(|stored| stored.record)
}

/// The nodes of a frontier that the graph does not have, each once.
fn missing(frontier: &[StoredTask], known: &dyn Known) -> BTreeSet<String> {
    let nodes = &known.view().nodes;
    let is_missing = |task: &&StoredTask| !nodes.iter().any(|node| node.name.as_str() == task.node);
    let missing = frontier.iter().filter(is_missing);
    missing.map(|task| task.node.to_string()).collect()
}

/// What is to be said of a thread whose state is lifted.
fn older(stored: &SchemaRecord, view: &GraphView) -> Option<String> {
    let [own, _, ..] = view.versions[..] else {
        return None;
    };
    let version = stored.version;
    (version < own).then(|| {
        format!("it was written with version {version} of the state, the graph has version {own}")
    })
}

/// A task of the open superstep whose result is recorded.
async fn unmerged(
    store: &Arc<dyn CheckpointStore>,
    thread: &ThreadId,
    head: &Head,
) -> Option<String> {
    let mut from = head.seq.next();
    loop {
        let page = store.records(thread, from, PAGE).await.ok()?;
        from = page.last()?.seq.next();
        for stored in page.iter().filter(|stored| stored.branch == head.branch) {
            if let Record::Outcome(outcome) = &*stored.record {
                return Some(format!("node \"{}\"", outcome.node));
            }
        }
    }
}

/// What is to be said of a thread of another version of its graph; nothing where its fields say it.
fn other_graph(stored: &SchemaRecord, view: &GraphView, same_fields: bool) -> Option<String> {
    let changes = GraphChange::between(stored, view);
    let is_of_fields = |change: &&GraphChange| match change {
        GraphChange::Added { part, .. }
        | GraphChange::Dropped { part, .. }
        | GraphChange::Changed { part, .. } => *part == GraphPart::Field,
        GraphChange::Wiring => false,
    };
    let changes = changes.iter().filter(|change| !is_of_fields(change));
    let changes: Vec<_> = changes.map(GraphChange::to_string).collect();
    let what = format!(
        "it was written with another version of graph \"{}\"",
        view.name
    );
    match changes.is_empty() {
        true => same_fields.then_some(what),
        false => Some(format!("{what}: {}", changes.join("; "))),
    }
}

struct Difference {
    /// The field; none for the state as a whole.
    field: Option<String>,
    what: String,
    /// Whether the state cannot be loaded.
    is_fatal: bool,
}

fn differences(stored: &SchemaRecord, view: &GraphView) -> Vec<Difference> {
    let fields = &view.fields;
    let mut all = Vec::new();
    let mut add = |field: &str, what: String, is_fatal| {
        all.push(Difference {
            field: Some(field.to_owned()),
            what,
            is_fatal,
        });
    };
    for field in fields {
        let Some(old) = stored.fields.iter().find(|old| is_called(field, old)) else {
            let what = match field.required {
                true => "the graph requires it, and the thread has none",
                false => "it is new in the graph: it has its default",
            };
            add(field.name, what.to_owned(), field.required);
            continue;
        };
        if old.name != field.name {
            let what = format!("it was stored as \"{}\", and is found so", old.name);
            add(field.name, what, false);
        }
        if (&old.shape, old.codec) != (&field.shape, field.codec) {
            let what = format!(
                "it was stored as {} (codec {}), the graph has {} (codec {})",
                old.shape, old.codec, field.shape, field.codec
            );
            add(field.name, what, true);
        }
        let version = field.reducer.version.unwrap_or(0);
        if (old.reducer.as_str(), old.reducer_version) != (field.reducer.id, version) {
            let what = format!(
                "it was merged by {} version {}, the graph has {} version {version}",
                old.reducer, old.reducer_version, field.reducer.id
            );
            add(field.name, what, false);
        }
    }
    let is_dropped = |old: &&FieldRecord| !fields.iter().any(|field| is_called(field, old));
    for old in stored.fields.iter().filter(is_dropped) {
        let what = "the graph has it no more: its value is left out".to_owned();
        add(&old.name, what, false);
    }
    if let [own, ..] = view.versions[..]
        && stored.version > own
    {
        let version = stored.version;
        let what = format!("it was written with version {version}, the graph has version {own}");
        all.push(Difference {
            field: None,
            what,
            is_fatal: true,
        });
    }
    all
}

fn is_called(field: &FieldView, old: &FieldRecord) -> bool {
    field.name == old.name || field.aliases.contains(&old.name.as_str())
}
