//! Events as lines for people, and as JSON for machines.
//!
//! The lines of a run that is watched and of one that is looked back at are the same, less what is
//! live only.

use serde_json::{Value, json};

use super::json;
use super::out::one_line;
use crate::{
    ErrorText, Event, EventKind, NodeName, RunId, TakenEdge, TaskLevel, TaskPath, ThreadId, Try,
};

/// The version of what `--json` says of runs, in each line of it: docs/events.schema.json.
pub(super) const SCHEMA: u32 = 1;

/// Makes lines of events, in their order.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The last task waits for the commit, to share its line.
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    step: u64,
    line: String,
    exit: Option<String>,
}

impl Waiting {
    fn line(self) -> String {
        match self.exit {
            Some(exit) => format!("{}  {exit}", self.line),
            None => self.line,
        }
    }
}

impl Lines {
    /// The lines that an event completes.
    pub(super) fn of(&mut self, event: &Event) -> Vec<String> {
        let line = match &event.kind {
            // What a subgraph decides is told by its tasks.
            EventKind::Started { .. } | EventKind::Resumed { .. } | EventKind::Committed { .. }
                if event.within.is_some() =>
            {
                return Vec::new();
            }
            EventKind::Started {
                thread, run, next, ..
            } => format!("{}\n   0  start  → {}", whose(thread, run), names(next)),
            EventKind::Resumed {
                thread,
                run,
                step,
                takeover,
                ..
            } => {
                let after = match takeover {
                    0 => String::new(),
                    n => format!(", taken over after a crash (time {n})"),
                };
                format!("{}\n{step:>4}  resumed{after}", whose(thread, run))
            }
            EventKind::Branched { branch, at, .. } => {
                format!("      back to checkpoint {at}, on branch {branch}")
            }
            EventKind::Discarded { tasks, .. } => {
                let tasks = tasks
                    .iter()
                    .map(|task| format!("{}  is to run again", at(task)));
                tasks.collect::<Vec<_>>().join("\n")
            }
            EventKind::TaskStarted { task, attempt } if *attempt > 1 => {
                format!("{}  try {attempt}", at(task))
            }
            EventKind::Begun { task, .. } => format!("{}  begins, irreversible", at(task)),
            EventKind::Custom { task, name, value } => {
                let value = json::value(1, value);
                format!("{}  {name}: {value}", at(task))
            }
            EventKind::TaskFinished {
                task,
                attempts,
                micros,
                tries,
                exit,
                tolerated,
                ..
            } => {
                let mut line = format!("{:<28} {:>9}", at(task), time(*micros));
                if *attempts > 1 {
                    line.push_str(&format!("  {attempts} tries"));
                }
                if tries.last().is_some_and(|last| last.cached) {
                    line.push_str("  from the cache");
                }
                if let Some(ErrorText { class, message }) = tolerated {
                    line.push_str(&format!("  failed, tolerated ({class}): {message}"));
                }
                if event.within.is_some() {
                    let exit = exit.as_ref().map(|exit| format!("  {exit}"));
                    line.push_str(&exit.unwrap_or_default());
                    return self.rest().chain([line]).collect();
                }
                let before = self.waiting.replace(Waiting {
                    step: task.levels()[0].step.get(),
                    line,
                    exit: exit.clone(),
                });
                return before.map(Waiting::line).into_iter().collect();
            }
            EventKind::TaskFailed {
                task,
                attempts,
                error,
                exit,
                ..
            } => {
                let handled = if exit.is_some() { ", handled" } else { "" };
                let tries = match attempts {
                    1 => String::new(),
                    n => format!(" after {n} tries"),
                };
                let ErrorText { class, message } = error;
                format!("{}  failed{tries}{handled} ({class}): {message}", at(task))
            }
            EventKind::Committed {
                step, edges, next, ..
            } => {
                let leads = leads(edges, next);
                return match self.waiting.take() {
                    // What it leads to has the exit's name already.
                    Some(waiting) if waiting.step == step.get() => {
                        vec![format!("{}  {leads}", waiting.line)]
                    }
                    other => {
                        let line = format!("{step:>4}  {leads}");
                        other.map(Waiting::line).into_iter().chain([line]).collect()
                    }
                };
            }
            EventKind::Asked { id, question, .. } => {
                let question = json::value(1, question);
                format!("{}  asks {}: {question}", at(id.task()), id.key())
            }
            EventKind::StepFinished { task, key } => format!("{}  step {key}", at(task)),
            EventKind::TimerSet { task, key, .. } => format!("{}  waits: {key}", at(task)),
            EventKind::Answered { id, answer } => {
                let answer = json::value(1, answer);
                format!("{}  {} is answered: {answer}", at(id.task()), id.key())
            }
            // How a call ends is said with what to do next.
            _ => return Vec::new(),
        };
        let mut lines: Vec<_> = self.rest().collect();
        lines.push(line);
        lines
    }

    /// The line that still waits.
    pub(super) fn rest(&mut self) -> impl Iterator<Item = String> + use<> {
        self.waiting.take().map(Waiting::line).into_iter()
    }
}

fn whose(thread: &ThreadId, run: &RunId) -> String {
    let (thread, run) = (one_line(thread.as_str()), one_line(run.as_str()));
    format!("thread {thread}, run {run}")
}

fn at(task: &TaskPath) -> String {
    format!("{:>4}  {}", task.levels()[0].step, inwards(task))
}

/// A task by its nodes from the outermost graph in, without supersteps: `check[1] › spell`.
pub(super) fn inwards(task: &TaskPath) -> String {
    let name = |level: &TaskLevel| match level.index {
        0 => level.node.to_string(),
        index => format!("{}[{index}]", level.node),
    };
    let names: Vec<_> = task.levels().iter().map(name).collect();
    names.join(" › ")
}

/// What a commit leads to, with the exits that led there.
fn leads(edges: &[TakenEdge], next: &[NodeName]) -> String {
    let labels: Vec<_> = edges
        .iter()
        .filter(|edge| !edge.label.is_empty())
        .map(|edge| edge.label.as_str())
        .collect();
    let mut tasks: Vec<String> = Vec::new();
    for edge in edges {
        let to = edge.to.as_ref().map_or("end", NodeName::as_str);
        let to = match edge.tasks {
            0 | 1 => to.to_owned(),
            n => format!("{to} ×{n}"),
        };
        if !tasks.contains(&to) {
            tasks.push(to);
        }
    }
    let to = if tasks.is_empty() {
        names(next)
    } else {
        tasks.join(", ")
    };
    match labels.as_slice() {
        [] => format!("→ {to}"),
        labels => format!("{} → {to}", labels.join(", ")),
    }
}

fn names(names: &[NodeName]) -> String {
    match names {
        [] => "end".to_owned(),
        names => names
            .iter()
            .map(NodeName::as_str)
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn time(micros: u64) -> String {
    match micros {
        0 => String::new(),
        1..10_000 => format!("{:.1} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", micros / 1000),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}

/// An event as one JSON value. `type` says which; the names are stable.
pub(super) fn event_json(event: &Event) -> Value {
    let task = |path: &TaskPath| {
        let task = path.task();
        json!({
            "path": path.to_string(),
            "step": task.step.get(),
            "node": task.node.as_str(),
            "index": task.index,
        })
    };
    let texts =
        |names: &[NodeName]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
    let error = |error: &ErrorText| json!({"class": error.class, "message": error.message});
    let tries = |tries: &[Try]| -> Vec<Value> {
        let one = |one: &Try| {
            json!({
                "started_ms": one.started_ms,
                "micros": one.micros,
                "error": one.error.as_ref().map(error),
                "cached": one.cached,
            })
        };
        tries.iter().map(one).collect()
    };
    let edges = |edges: &[TakenEdge]| -> Vec<Value> {
        let edge = |edge: &TakenEdge| {
            json!({
                "from": edge.from.as_ref().map(NodeName::as_str),
                "label": edge.label,
                "to": edge.to.as_ref().map(NodeName::as_str),
                "tasks": edge.tasks,
            })
        };
        edges.iter().map(edge).collect()
    };
    let (name, mut fields) = match &event.kind {
        EventKind::Started {
            thread,
            run,
            at_ms,
            update,
            edges: taken,
            next,
        } => (
            "started",
            json!({
                "thread": thread.as_str(),
                "run": run.as_str(),
                "at_ms": at_ms,
                "update": json::update(update),
                "edges": edges(taken),
                "next": texts(next),
            }),
        ),
        EventKind::Resumed {
            thread,
            run,
            at_ms,
            step,
            takeover,
        } => (
            "resumed",
            json!({
                "thread": thread.as_str(),
                "run": run.as_str(),
                "at_ms": at_ms,
                "step": step.get(),
                "takeover": takeover,
            }),
        ),
        EventKind::Branched { branch, parent, at } => (
            "branched",
            json!({"branch": branch.get(), "parent": parent.get(), "at": at.get()}),
        ),
        EventKind::SuperstepStarted { step, tasks } => (
            "superstep_started",
            json!({"step": step.get(), "tasks": tasks.iter().map(task).collect::<Vec<_>>()}),
        ),
        EventKind::TaskStarted {
            task: path,
            attempt,
        } => (
            "task_started",
            json!({"task": task(path), "attempt": attempt}),
        ),
        EventKind::Begun { task: path, at_ms } => {
            ("begun", json!({"task": task(path), "at_ms": at_ms}))
        }
        EventKind::Token { task: path, text } => {
            ("token", json!({"task": task(path), "text": text}))
        }
        EventKind::Custom {
            task: path,
            name,
            value,
        } => (
            "custom",
            json!({"task": task(path), "name": name, "value": json::value(1, value)}),
        ),
        EventKind::TaskFinished {
            task: path,
            attempts,
            micros,
            tries: all,
            exit,
            tolerated,
            update,
        } => (
            "task_finished",
            json!({
                "task": task(path),
                "attempts": attempts,
                "micros": micros,
                "tries": tries(all),
                "exit": exit,
                "tolerated": tolerated.as_ref().map(error),
                "update": json::update(update),
            }),
        ),
        EventKind::Asked {
            id,
            type_name,
            question,
            expires_ms,
        } => (
            "asked",
            json!({
                "id": id.to_string(),
                "task": task(id.task()),
                "key": id.key(),
                "type_name": type_name,
                "question": json::value(1, question),
                "expires_ms": expires_ms,
            }),
        ),
        EventKind::StepFinished { task: path, key } => {
            ("step_finished", json!({"task": task(path), "key": key}))
        }
        EventKind::TimerSet {
            task: path,
            key,
            due_ms,
        } => (
            "timer_set",
            json!({"task": task(path), "key": key, "due_ms": due_ms}),
        ),
        EventKind::Answered { id, answer } => (
            "answered",
            json!({"id": id.to_string(), "answer": json::value(1, answer)}),
        ),
        EventKind::TaskFailed {
            task: path,
            attempts,
            tries: all,
            error: why,
            exit,
        } => (
            "task_failed",
            json!({
                "task": task(path),
                "attempts": attempts,
                "tries": tries(all),
                "error": error(why),
                "exit": exit,
            }),
        ),
        EventKind::Discarded { at_ms, tasks } => (
            "discarded",
            json!({"at_ms": at_ms, "tasks": tasks.iter().map(task).collect::<Vec<_>>()}),
        ),
        EventKind::Committed {
            step,
            at_ms,
            edges: taken,
            next,
        } => (
            "committed",
            json!({"step": step.get(), "at_ms": at_ms, "edges": edges(taken), "next": texts(next)}),
        ),
        EventKind::Durable { up_to } => ("durable", json!({"up_to": up_to.get()})),
        EventKind::Ended {
            status,
            at_ms,
            step,
            error: why,
        } => (
            "ended",
            json!({"status": status, "at_ms": at_ms, "step": step.get(), "error": why.as_ref().map(error)}),
        ),
    };
    fields["schema"] = json!(SCHEMA);
    fields["type"] = json!(name);
    fields["epoch"] = json!(event.epoch.get());
    fields["seq"] = json!(event.seq.map(crate::Seq::get));
    if let Some(outer) = &event.within {
        fields["within"] = json!(outer.to_string());
    }
    fields
}

#[cfg(test)]
mod tests {
    use boon::{Compiler, Schemas};

    use super::*;
    use crate::{Branch, Epoch, FieldUpdate, QuestionId, Seq, Step, Try};

    /// A sample of the kind behind this one. A new kind does not compile until it stands here.
    fn after(kind: &EventKind) -> Option<EventKind> {
        let node = NodeName::new("node").expect("a name");
        let step = Step::new(3);
        let task = TaskPath::new(step, node.clone(), 2);
        let error = ErrorText {
            class: "transient".to_owned(),
            message: "no answer".to_owned(),
        };
        let tries = vec![Try {
            started_ms: 5,
            micros: 7,
            error: Some(error.clone()),
            cached: true,
        }];
        let update = vec![FieldUpdate {
            field: "n".to_owned(),
            codec: 1,
            cleared: true,
            overwritten: Some(vec![0x01]),
            merged: vec![vec![0x02]],
        }];
        let edges = vec![TakenEdge {
            from: None,
            label: "Again".to_owned(),
            to: Some(node.clone()),
            tasks: 1,
        }];
        Some(match kind {
            EventKind::Started { thread, run, .. } => EventKind::Resumed {
                thread: thread.clone(),
                run: run.clone(),
                step,
                takeover: 1,
                at_ms: 5,
            },
            EventKind::Resumed { .. } => EventKind::Branched {
                branch: Branch::new(2),
                parent: Branch::new(0),
                at: Seq::new(7),
            },
            EventKind::Branched { .. } => EventKind::Discarded {
                at_ms: 5,
                tasks: vec![task],
            },
            EventKind::Discarded { .. } => EventKind::SuperstepStarted {
                step,
                tasks: vec![task],
            },
            EventKind::SuperstepStarted { .. } => EventKind::TaskStarted { task, attempt: 2 },
            EventKind::TaskStarted { .. } => EventKind::Begun { task, at_ms: 5 },
            EventKind::Begun { .. } => EventKind::Token {
                task,
                text: "to".to_owned(),
            },
            EventKind::Token { .. } => EventKind::Custom {
                task,
                name: "found".to_owned(),
                value: vec![0x93, 0x01, 0x02, 0x03],
            },
            EventKind::Custom { .. } => EventKind::TaskFinished {
                task,
                attempts: 2,
                micros: 7,
                tries: tries.clone(),
                exit: Some("Again".to_owned()),
                tolerated: Some(error),
                update,
            },
            EventKind::TaskFinished { .. } => EventKind::Asked {
                id: QuestionId::new(task, "approve"),
                type_name: "shop::Approve".to_owned(),
                question: vec![0x01],
                expires_ms: Some(9),
            },
            EventKind::Asked { id, .. } => EventKind::StepFinished {
                task: id.task().clone(),
                key: "charge".to_owned(),
            },
            EventKind::StepFinished { task, .. } => EventKind::TimerSet {
                task: task.clone(),
                key: "remind".to_owned(),
                due_ms: 9,
            },
            EventKind::TimerSet { task, .. } => EventKind::Answered {
                id: QuestionId::new(task.clone(), "approve"),
                answer: vec![0xc3],
            },
            EventKind::Answered { .. } => EventKind::TaskFailed {
                task,
                attempts: 1,
                tries,
                error,
                exit: Some("on error".to_owned()),
            },
            EventKind::TaskFailed { .. } => EventKind::Committed {
                step,
                edges,
                next: vec![node],
                at_ms: 5,
            },
            EventKind::Committed { .. } => EventKind::Durable { up_to: Seq::new(6) },
            EventKind::Durable { .. } => EventKind::Ended {
                status: "failed".to_owned(),
                step,
                error: Some(error),
                at_ms: 5,
            },
            EventKind::Ended { .. } => return None,
        })
    }

    #[test]
    fn the_schema_knows_every_kind_of_event_and_no_other() {
        let text = include_str!("../../docs/events.schema.json");
        let schema: Value = serde_json::from_str(text).expect("JSON");
        let known = schema["oneOf"].as_array().expect("a list");
        let known: Vec<_> = known.iter().map(|one| one["$ref"].clone()).collect();
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler
            .add_resource("events", schema)
            .expect("a JSON value");
        let index = compiler.compile("events", &mut schemas).expect("a schema");
        let mut kind = Some(EventKind::Started {
            thread: ThreadId::new("thread").expect("a name"),
            run: RunId::new("run").expect("a name"),
            update: Vec::new(),
            edges: Vec::new(),
            next: Vec::new(),
            at_ms: 5,
        });
        let mut told = Vec::new();
        while let Some(this) = kind {
            kind = after(&this);
            let value = event_json(&Event {
                within: None,
                epoch: Epoch::new(1),
                seq: Some(Seq::new(4)),
                kind: this,
            });
            let checked = schemas.validate(&value, index);
            checked.unwrap_or_else(|why| panic!("{value}\n{why:#}"));
            let name = value["type"].as_str().expect("a name");
            told.push(json!(format!("#/$defs/{name}")));
        }
        // These are no events of a run, but lines about one.
        told.extend(["report", "error"].map(|name| json!(format!("#/$defs/{name}"))));
        assert_eq!(told, known);
    }
}
