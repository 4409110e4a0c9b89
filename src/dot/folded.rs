//! Where the time of a run went, as folded stacks: what programs that draw flame graphs read.

use std::collections::BTreeMap;
use std::fmt;

use crate::event::{Event, EventKind, Try};
use crate::graph::GraphView;

/// The time of a run as folded stacks; its [`Display`](fmt::Display) is the text: a line a stack, of
/// graph, node and try, with its microseconds.
///
/// Tasks of a fan-out run side by side, so the sum may be more than the time that has passed.
/// Waiting counts as nothing.
///
/// ```text
/// research;analyse;try 1: done 23841
/// research;analyse;try 1: failed (transient) 1030
/// research;analyse;try 2: done 20015
/// research;report;try 1: done 9120
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded {
    stacks: BTreeMap<(String, String), u64>,
    graph: String,
}

impl Folded {
    /// The stacks of these events.
    pub fn new<'e>(view: &GraphView, events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut stacks = BTreeMap::new();
        for event in events.into_iter().filter(|event| event.within.is_none()) {
            let (EventKind::TaskFinished { task, tries, .. }
            | EventKind::TaskFailed { task, tries, .. }) = &event.kind
            else {
                continue;
            };
            let node = frame(task.task().node.as_str());
            // A frame must not end in a number: some readers take two for a comparison.
            for (number, Try { micros, error, .. }) in tries.iter().enumerate() {
                let name = match error {
                    Some(error) => format!("try {}: failed ({})", number + 1, error.class),
                    None => format!("try {}: done", number + 1),
                };
                let sum: &mut u64 = stacks.entry((node.clone(), frame(&name))).or_default();
                *sum = sum.saturating_add(*micros);
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
        for ((node, name), micros) in &self.stacks {
            writeln!(f, "{};{node};{name} {micros}", self.graph)?;
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
