//! Where the graphs inside of a thread's open superstep stand.
//!
//! In come their records, out goes what `show` says of each instance: how far it is, what of its
//! superstep is done and what is left, and what that waits for.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::laid::many;
use super::lines::inwards;
use super::out::one_line;
use super::when::date;
use crate::store::{InnerRecord, OutcomeRecord, Record, StoredTask};
use crate::{NodeName, OpenQuestion, Step, TaskPath};

/// The instances of graphs in an open superstep, by the tasks that run them.
#[derive(Debug, Default)]
pub(super) struct Inside(BTreeMap<TaskPath, Instance>);

/// One instance.
#[derive(Debug, Default)]
struct Instance {
    /// How many of its supersteps are closed.
    step: u64,
    tasks: Vec<Part>,
    /// Why it stopped, where it failed.
    error: Option<(String, String)>,
}

/// A task of its open superstep.
#[derive(Debug)]
struct Part {
    path: TaskPath,
    done: bool,
    /// Until when it waits, in milliseconds since 1970.
    until_ms: Option<u64>,
}

impl Inside {
    /// Takes the next record of an instance. One that cannot be read says nothing: the doctor
    /// finds it.
    pub(super) fn add(&mut self, inner: &InnerRecord) {
        let Ok((outer, stored)) = inner.open() else {
            return;
        };
        match &*stored.record {
            Record::Input(input) => {
                let instance = Instance::at(&outer, input.step, &input.frontier);
                self.0.insert(outer, instance);
            }
            Record::Commit(commit) => {
                let instance = Instance::at(&outer, commit.step, &commit.frontier);
                self.end_below(&outer);
                self.0.insert(outer, instance);
            }
            Record::Outcome(outcome) => {
                let Some(task) = path(outcome.step, &outcome.node, outcome.index, &outer) else {
                    return;
                };
                self.end(&task);
                if let Some(part) = self.part(&outer, &task) {
                    part.done = true;
                }
            }
            Record::Timer(timer) => {
                let Ok(task) = timer.task.parse::<TaskPath>() else {
                    return;
                };
                if let Some(part) = self.part(&outer, &task.within(&outer)) {
                    part.until_ms = part.until_ms.max(Some(timer.due_ms));
                }
            }
            Record::Stopped(stopped) => {
                if let Some(instance) = self.0.get_mut(&outer) {
                    let error = stopped.error.as_ref();
                    instance.error =
                        error.map(|error| (error.class.clone(), error.message.clone()));
                }
            }
            Record::Started(_) => {
                if let Some(instance) = self.0.get_mut(&outer) {
                    instance.error = None;
                }
            }
            _ => {}
        }
    }

    /// A task of the outermost graph has ended: nothing is open inside.
    pub(super) fn ended(&mut self, outcome: &OutcomeRecord) {
        if let Ok(node) = NodeName::new(&outcome.node) {
            self.end(&TaskPath::new(Step::new(outcome.step), node, outcome.index));
        }
    }

    fn end(&mut self, task: &TaskPath) {
        self.0.remove(task);
        self.end_below(task);
    }

    fn end_below(&mut self, task: &TaskPath) {
        let is_below = |path: &TaskPath| path != task && path.levels().starts_with(task.levels());
        self.0.retain(|path, _| !is_below(path));
    }

    fn part(&mut self, outer: &TaskPath, task: &TaskPath) -> Option<&mut Part> {
        let instance = self.0.get_mut(outer)?;
        instance.tasks.iter_mut().find(|part| part.path == *task)
    }

    /// A line for each instance.
    pub(super) fn lines(&self, questions: &[OpenQuestion]) -> Vec<String> {
        let lines = self.0.iter().map(|(outer, instance)| {
            let parts = instance.tasks.iter().map(|part| part.says(questions));
            let mut says: Vec<_> = parts.collect();
            if let Some((class, message)) = &instance.error {
                says.push(format!("failed ({class}): {}", one_line(message)));
            }
            if says.is_empty() {
                says.push("at its end".to_owned());
            }
            let closed = usize::try_from(instance.step).unwrap_or(usize::MAX);
            format!(
                "  inside  {} after {}: {}",
                one_line(&inwards(outer)),
                many(closed, "superstep", "supersteps"),
                says.join(", ")
            )
        });
        lines.collect()
    }

    pub(super) fn json(&self, questions: &[OpenQuestion]) -> Value {
        let instances = self.0.iter().map(|(outer, instance)| {
            let tasks = instance.tasks.iter().map(|part| {
                let asks = part.asks(questions);
                json!({
                    "path": part.path.to_string(),
                    "node": part.path.task().node.as_str(),
                    "index": part.path.task().index,
                    "done": part.done,
                    "until_ms": part.until_ms,
                    "asks": asks.map(|question| question.id.to_string()).collect::<Vec<_>>(),
                })
            });
            let error = instance.error.as_ref();
            json!({
                "task": outer.to_string(),
                "step": instance.step,
                "tasks": tasks.collect::<Vec<_>>(),
                "error": error.map(|(class, message)| json!({"class": class, "message": message})),
            })
        });
        Value::Array(instances.collect())
    }
}

impl Instance {
    fn at(outer: &TaskPath, step: u64, frontier: &[StoredTask]) -> Self {
        let part = |task: &StoredTask| {
            Some(Part {
                path: path(step + 1, &task.node, task.index, outer)?,
                done: false,
                until_ms: None,
            })
        };
        Self {
            step,
            tasks: frontier.iter().filter_map(part).collect(),
            error: None,
        }
    }
}

impl Part {
    /// What it waits for an answer to.
    fn asks<'q>(&self, questions: &'q [OpenQuestion]) -> impl Iterator<Item = &'q OpenQuestion> {
        questions
            .iter()
            .filter(|question| *question.id.task() == self.path)
    }

    fn says(&self, questions: &[OpenQuestion]) -> String {
        let level = self.path.task();
        let name = match level.index {
            0 => one_line(level.node.as_str()),
            index => format!("{}[{index}]", one_line(level.node.as_str())),
        };
        let asks: Vec<_> = self
            .asks(questions)
            .map(|question| question.id.key())
            .collect();
        match (self.done, asks.as_slice(), self.until_ms) {
            (true, ..) => format!("{name} done"),
            (false, [], Some(until)) => format!("{name} waits until {}", date(until)),
            (false, [], None) => format!("{name} to run"),
            (false, keys, _) => format!("{name} asks {}", one_line(&keys.join(", "))),
        }
    }
}

fn path(step: u64, node: &str, index: u32, outer: &TaskPath) -> Option<TaskPath> {
    let node = NodeName::new(node).ok()?;
    Some(TaskPath::new(Step::new(step), node, index).within(outer))
}
