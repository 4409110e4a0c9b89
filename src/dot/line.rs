//! What nodes and edges say, and how an edge is drawn, for all formats.

use super::overlay::{EdgeRun, NodeRun, Overlay};
use super::text::short_type;
use crate::graph::{EdgeView, NodeView};

/// How an edge is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stroke {
    /// Always taken.
    Solid,
    /// Taken by one exit or branch.
    Dashed,
    /// Stands in for a fan-out over nothing.
    Dotted,
    /// Taken where the node has failed.
    Broken,
}

/// The stroke of an edge.
pub(super) fn stroke(edge: &EdgeView) -> Stroke {
    if edge.on_error {
        Stroke::Broken
    } else if edge.when_empty {
        Stroke::Dotted
    } else if edge.conditional {
        Stroke::Dashed
    } else {
        Stroke::Solid
    }
}

/// The text on an edge: the exit's label, what a fan-out carries, and how often a run has taken it,
/// each on a line of its own. Empty where there is nothing to say.
pub(super) fn label(edge: &EdgeView, run: EdgeRun) -> String {
    let mut lines = vec![edge.label.to_owned()];
    if let Some(payload) = edge.payload {
        lines.push(format!("each {}", short_type(payload)));
    }
    if run.taken > 0 {
        lines.push(match edge.payload {
            Some(_) => format!("×{}, {}", run.taken, counted(run.tasks, "task", "tasks")),
            None => format!("×{}", run.taken),
        });
    }
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

/// A run as the writers draw it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drawn<'r> {
    pub(super) overlay: &'r Overlay,
    /// Whether to say how long nodes took.
    pub(super) times: bool,
}

impl Drawn<'_> {
    /// What it did with the graph that the node at this place runs.
    pub(super) fn inside(self, place: usize) -> Option<Self> {
        let overlay = self.overlay.inner(place)?;
        Some(Self { overlay, ..self })
    }
}

/// What a run did with a node, a line each.
pub(super) fn facts(place: usize, Drawn { overlay, times }: Drawn<'_>) -> Vec<String> {
    let node = overlay.node(place);
    let mut counts = Vec::new();
    if node.visits > 0 {
        counts.push(format!("×{}", node.visits));
    }
    for (count, one, more) in [
        (node.retries, "retry", "retries"),
        (node.tolerated, "tolerated", "tolerated"),
        (node.handled, "handled", "handled"),
        (node.failures, "failure", "failures"),
    ] {
        if count > 0 {
            counts.push(counted(count, one, more));
        }
    }
    let last = match node.last_micros {
        0 => String::new(),
        micros => format!("last {}", time(micros)),
    };
    let mut lines = vec![
        counts.join(", "),
        left(node, overlay.ended().is_some()),
        if times { last } else { String::new() },
    ];
    lines.retain(|line| !line.is_empty());
    lines
}

/// What is left of a node to run.
pub(super) fn left(node: NodeRun, ended: bool) -> String {
    let left = match (node.open, ended) {
        (0, _) => String::new(),
        (n, true) => counted(n, "waits", "wait"),
        (n, false) => format!("{n} to run"),
    };
    match (node.failed, left.as_str()) {
        (true, "") => "failed".to_owned(),
        (true, left) => format!("failed: {left}"),
        (false, _) => left,
    }
}

pub(super) fn counted(count: u32, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

/// A duration for people.
pub(super) fn time(micros: u64) -> String {
    match micros {
        ..10_000 => format!("{:.1} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", micros / 1000),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}

/// What a node says of itself: its effect outside, what it reads and writes.
pub(super) fn declared(node: &NodeView) -> Vec<String> {
    let fields = |verb, fields: &Option<Vec<&'static str>>| {
        fields.as_ref().map(|fields| match fields.as_slice() {
            [] => format!("{verb} nothing"),
            fields => format!("{verb} {}", fields.join(", ")),
        })
    };
    let effect = node.policy.effect.map(|effect| effect.name().to_owned());
    let said = [
        effect,
        fields("reads", &node.reads),
        fields("writes", &node.writes),
    ];
    said.into_iter().flatten().collect()
}
