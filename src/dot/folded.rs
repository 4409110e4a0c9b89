//! Where the time of a run went, as folded stacks: what programs that draw flame graphs read.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::event::{Event, EventKind, Try};
use crate::graph::GraphView;
use crate::ids::TaskPath;

/// The time of a run as folded stacks; its [`Display`](fmt::Display) is the text: a line a stack, of
/// graph, node and try, with its microseconds.
///
/// Nodes of a graph that a node runs stand above that node, which keeps what time is its own. Tasks
/// of a fan-out run side by side, so the sum may be more than the time that has passed. Waiting
/// counts as nothing.
///
/// ```text
/// research;analyse;try 1: done 23841
/// research;analyse;try 1: failed (transient) 1030
/// research;analyse;try 2: done 20015
/// research;check;quotes;try 1: done 17744
/// research;check;try 1: done 1376
/// research;report;try 1: done 9120
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded {
    stacks: BTreeMap<Vec<String>, u64>,
    graph: String,
}

impl Folded {
    /// The stacks of these events.
    pub fn new<'e>(view: &GraphView, events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut stacks = BTreeMap::new();
        // What ran inside of tasks that have not ended yet.
        let mut inside: HashMap<TaskPath, Vec<&Try>> = HashMap::new();
        for event in events {
            let (EventKind::TaskFinished { task, tries, .. }
            | EventKind::TaskFailed { task, tries, .. }) = &event.kind
            else {
                continue;
            };
            let mut own: Vec<u64> = tries.iter().map(|one| one.micros).collect();
            for part in inside.remove(task).unwrap_or_default() {
                let of = tries
                    .iter()
                    .rposition(|one| one.started_ms <= part.started_ms);
                if let Some(of) = of {
                    own[of] = own[of].saturating_sub(part.micros);
                }
            }
            if let Some(outer) = task.outer() {
                inside.entry(outer).or_default().extend(tries);
            }
            let nodes = task.levels().iter().map(|level| frame(level.node.as_str()));
            let nodes: Vec<_> = nodes.collect();
            // A frame must not end in a number: some readers take two for a comparison.
            for (number, (Try { error, .. }, micros)) in tries.iter().zip(own).enumerate() {
                let name = match error {
                    Some(error) => format!("try {}: failed ({})", number + 1, error.class),
                    None => format!("try {}: done", number + 1),
                };
                let mut stack = nodes.clone();
                stack.push(frame(&name));
                let sum: &mut u64 = stacks.entry(stack).or_default();
                *sum = sum.saturating_add(micros);
            }
        }
        let graph = frame(&view.name);
        Self { stacks, graph }
    }

    /// Whether no time is known.
    pub fn is_empty(&self) -> bool {
        self.stacks.values().all(|micros| *micros == 0)
    }
}

impl fmt::Display for Folded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (stack, micros) in &self.stacks {
            writeln!(f, "{};{} {micros}", self.graph, stack.join(";"))?;
        }
        Ok(())
    }
}

/// A name as a frame. The format has no way to write a semicolon or a line break in one: a wide
/// semicolon and a symbol stand for them.
fn frame(name: &str) -> String {
    name.chars()
        .map(|c| match c {
            ';' => '；',
            '\n' | '\r' => '␤',
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        })
        .collect()
}
