//! Between the engine's values and the store's records.

use super::RunError;
use crate::engine::{Ended, Outcome, Taken, Task};
use crate::event::{ErrorText, EventKind, FieldUpdate, TakenEdge, Try};
use crate::graph::Compiled;
use crate::ids::{NodeName, RunId, Step, TaskPath, ThreadId};
use crate::policy::Attempt;
use crate::state::{AnyField, CodecError, EncodedBase, EncodedChange, Merges, State, field_called};
use crate::store::{
    Few, OutcomeRecord, StoredAttempt, StoredBase, StoredChange, StoredEdge, StoredError,
    StoredTask, StoredValue, Text,
};

/// A value that cannot be stored: the field or worker, and why.
pub(crate) type Unstorable = (String, CodecError);

/// Turns an update into bytes, after a check where one is asked for.
pub(crate) fn changes<S: State>(
    update: &S::Update,
    check: bool,
) -> Result<Few<StoredChange>, Unstorable> {
    let mut changes = Few::new();
    for field in S::fields() {
        let fault = |why| (field.name().to_owned(), why);
        if check {
            field.check_change(update).map_err(fault)?;
        }
        if let Some(EncodedChange { base, merges }) = field.encode_change(update).map_err(fault)? {
            let base = match base {
                EncodedBase::Keep => StoredBase::Keep,
                EncodedBase::Clear => StoredBase::Clear,
                EncodedBase::Overwrite(value) => StoredBase::Overwrite(value),
            };
            let merges = match merges {
                Merges::None => Few::new(),
                Merges::One(bytes) => Few::one(bytes),
                Merges::Many(all) => all.into(),
            };
            let codec = field.codec().number();
            changes.push(StoredChange {
                field: Text::fixed(field.name()),
                codec,
                base,
                merges,
            });
        }
    }
    Ok(changes)
}

/// Turns stored changes into an update. Changes of fields that the state no longer has are
/// dropped. With `replay`, so are those of reducers whose results are stored by value.
pub(crate) fn update<S: State>(
    changes: &[StoredChange],
    replay: bool,
) -> Result<S::Update, Unstorable> {
    let mut update = S::update();
    for change in changes {
        let Some(field) = field_called::<S>(&change.field) else {
            continue;
        };
        if replay && field.reducer().version.is_none() {
            continue;
        }
        let base = match &change.base {
            StoredBase::Keep => EncodedBase::Keep,
            StoredBase::Clear => EncodedBase::Clear,
            StoredBase::Overwrite(value) => EncodedBase::Overwrite(value.clone()),
        };
        let encoded = EncodedChange {
            base,
            merges: match change.merges.as_slice() {
                [] => Merges::None,
                [one] => Merges::One(one.clone()),
                all => Merges::Many(all.to_vec()),
            },
        };
        field
            .decode_change(&mut update, &encoded)
            .map_err(|why| (change.field.as_str().to_owned(), why))?;
    }
    Ok(update)
}

/// The values, after a merge, of fields whose reducers cannot be replayed.
pub(crate) fn values<S: State>(
    state: &S,
    fields: &[&'static dyn AnyField<S>],
) -> Result<Vec<StoredValue>, Unstorable> {
    let value = |field: &&'static dyn AnyField<S>| {
        let bytes = field
            .encode_value(state)
            .map_err(|why| (field.name().to_owned(), why))?;
        Ok(StoredValue {
            field: field.name().to_owned(),
            codec: field.codec().number(),
            bytes,
        })
    };
    fields.iter().map(value).collect()
}

/// Those fields that the updates write and whose reducers cannot be replayed.
pub(crate) fn by_value<'u, S: State>(
    updates: impl Iterator<Item = &'u S::Update> + Clone,
) -> Vec<&'static dyn AnyField<S>> {
    let unreplayable = |field: &&&'static dyn AnyField<S>| {
        field.reducer().version.is_none() && updates.clone().any(|update| field.written(update))
    };
    S::fields().iter().filter(unreplayable).copied().collect()
}

/// Turns a frontier into records.
pub(crate) fn frontier<S: State>(
    graph: &Compiled<S>,
    tasks: &[Task],
    check: bool,
) -> Result<Few<StoredTask>, Unstorable> {
    let encode = |task: &Task| {
        let entry = graph.node(task.node);
        let payload = match (&task.payload, &entry.payload) {
            (Some(payload), Some(codec)) => {
                let fault = |why| (codec.type_name.to_owned(), why);
                if check {
                    codec.check(payload).map_err(fault)?;
                }
                Some(codec.encode(payload).map_err(fault)?)
            }
            _ => None,
        };
        Ok(StoredTask {
            node: Text::from(&entry.name),
            index: task.index,
            from: name(graph, task.via.from),
            by: Text::fixed(task.via.label),
            payload,
        })
    };
    match tasks {
        [task] => encode(task).map(Few::one),
        tasks => tasks.iter().map(encode).collect(),
    }
}

/// Turns taken edges into records.
pub(crate) fn edges<S: State>(graph: &Compiled<S>, taken: &[Taken]) -> Few<StoredEdge> {
    let edge = |taken: &Taken| StoredEdge {
        from: name(graph, taken.from),
        label: Text::fixed(taken.label),
        to: name(graph, taken.to),
        tasks: taken.tasks,
    };
    match taken {
        [taken] => Few::one(edge(taken)),
        taken => taken.iter().map(edge).collect(),
    }
}

/// Turns a task's end into a record.
pub(crate) fn outcome<S: State>(
    graph: &Compiled<S>,
    step: u64,
    task: &Task,
    outcome: &Outcome<S::Update>,
    attempts: &[Attempt],
    check: bool,
) -> Result<OutcomeRecord, Unstorable> {
    let entry = graph.node(task.node);
    let (exit, caught) = match &outcome.ended {
        Ended::Exit(exit) => (entry.exits.get(*exit as usize).copied(), None),
        Ended::Tolerated => (None, None),
        Ended::Failed(caught) => {
            let exit = entry.catches.get(caught.exit as usize);
            let error = StoredError {
                class: caught.failure.class.name().to_owned(),
                message: caught.failure.message.clone(),
            };
            (exit.map(|catch| catch.label), Some(error))
        }
    };
    Ok(OutcomeRecord {
        step,
        node: Text::from(&entry.name),
        index: task.index,
        exit: exit.map(Text::fixed),
        tolerated: outcome.ended == Ended::Tolerated,
        changes: changes::<S>(&outcome.update, check)?,
        attempts: match attempts {
            [one] => Few::one(attempt(one)),
            attempts => attempts.iter().map(attempt).collect(),
        },
        caught,
    })
}

/// Turns a try into a record.
pub(crate) fn attempt(attempt: &Attempt) -> StoredAttempt {
    StoredAttempt {
        started_ms: attempt.started_ms,
        micros: attempt.micros,
        error: attempt.error.as_ref().map(|error| StoredError {
            class: error.class().name().to_owned(),
            message: error.full(),
        }),
        cached: attempt.cached,
    }
}

fn name<S: State>(graph: &Compiled<S>, node: Option<u32>) -> Text {
    node.map(|node| Text::from(graph.place_name(node)))
        .unwrap_or_default()
}

/// A stored change as an event tells it.
pub(crate) fn field_update(change: &StoredChange) -> FieldUpdate {
    FieldUpdate {
        field: change.field.as_str().to_owned(),
        codec: change.codec,
        cleared: change.base == StoredBase::Clear,
        overwritten: match &change.base {
            StoredBase::Overwrite(value) => Some(value.clone()),
            StoredBase::Keep | StoredBase::Clear => None,
        },
        merged: change.merges.to_vec(),
    }
}

/// A stored edge as an event tells it.
pub(crate) fn taken_edge(edge: &StoredEdge) -> TakenEdge {
    TakenEdge {
        from: NodeName::new(&edge.from).ok(),
        label: edge.label.as_str().to_owned(),
        to: NodeName::new(&edge.to).ok(),
        tasks: edge.tasks,
    }
}

/// A stored error as an event tells it.
pub(crate) fn error_text(error: &StoredError) -> ErrorText {
    ErrorText {
        class: error.class.clone(),
        message: error.message.clone(),
    }
}

/// A stored try as an event tells it.
pub(crate) fn tried(attempt: &StoredAttempt) -> Try {
    Try {
        started_ms: attempt.started_ms,
        micros: attempt.micros,
        error: attempt.error.as_ref().map(error_text),
        cached: attempt.cached,
    }
}

/// The event of a recorded outcome.
pub(crate) fn task_finished(outcome: &OutcomeRecord) -> EventKind {
    let node = NodeName::new(&outcome.node).unwrap_or_else(|_| unnamed());
    let task = TaskPath::new(Step::new(outcome.step), node, outcome.index);
    let attempts = u32::try_from(outcome.attempts.len())
        .unwrap_or(u32::MAX)
        .max(1);
    let tries = outcome.attempts.iter().map(tried).collect();
    let exit = outcome.exit.as_ref().map(|exit| exit.as_str().to_owned());
    if let Some(error) = &outcome.caught {
        return EventKind::TaskFailed {
            task,
            attempts,
            tries,
            error: error_text(error),
            exit,
        };
    }
    let last = outcome.attempts.last();
    let error = outcome
        .attempts
        .iter()
        .rev()
        .find_map(|attempt| attempt.error.as_ref());
    EventKind::TaskFinished {
        task,
        attempts,
        micros: last.map_or(0, |attempt| attempt.micros),
        tries,
        exit,
        tolerated: error.filter(|_| outcome.tolerated).map(error_text),
        update: outcome.changes.iter().map(field_update).collect(),
    }
}

/// The task that an outcome is of.
pub(crate) fn task(outcome: &OutcomeRecord) -> Option<TaskPath> {
    let node = NodeName::new(&outcome.node).ok()?;
    Some(TaskPath::new(Step::new(outcome.step), node, outcome.index))
}

/// The event of an accepted input.
pub(crate) fn started(
    thread: ThreadId,
    run: RunId,
    at_ms: u64,
    update: &[StoredChange],
    edges: &[StoredEdge],
) -> EventKind {
    let update = update.iter().map(field_update).collect();
    let edges: Vec<_> = edges.iter().map(taken_edge).collect();
    EventKind::Started {
        thread,
        run,
        at_ms,
        update,
        next: next(&edges),
        edges,
    }
}

/// The event of a commit.
pub(crate) fn committed(step: u64, at_ms: u64, edges: &[StoredEdge]) -> EventKind {
    let edges: Vec<_> = edges.iter().map(taken_edge).collect();
    let next = next(&edges);
    EventKind::Committed {
        step: Step::new(step),
        at_ms,
        edges,
        next,
    }
}

/// The nodes that edges lead to, each once.
fn next(edges: &[TakenEdge]) -> Vec<NodeName> {
    let mut next: Vec<NodeName> = Vec::new();
    for edge in edges.iter().filter(|edge| edge.tasks > 0) {
        if let Some(node) = &edge.to
            && !next.contains(node)
        {
            next.push(node.clone());
        }
    }
    next
}

fn unnamed() -> NodeName {
    NodeName::new("?").expect("a question mark is a name")
}

/// A run's error as a record keeps it.
pub(crate) fn stored_error(error: &RunError) -> StoredError {
    StoredError {
        class: error.class().to_owned(),
        message: error.to_string(),
    }
}
