//! What nodes and edges say, and how an edge is drawn, for both formats.

use super::overlay::{EdgeRun, NodeRun, Overlay};
use super::text::short_type;
use crate::graph::EdgeView;

/// How an edge is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stroke {
    /// Always taken.
    Solid,
    /// Taken by one exit or branch.
    Dashed,
    /// Stands in for a fan-out over nothing.
    Dotted,
}

/// The stroke of an edge.
pub(super) fn stroke(edge: &EdgeView) -> Stroke {
    if edge.when_empty {
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

/// The text of a node: its name, then what a run did with it.
pub(super) fn text(name: &str, place: usize, run: Option<Drawn<'_>>) -> String {
    let mut lines = vec![name.to_owned()];
    if let Some(Drawn { overlay, times }) = run {
        let node = overlay.node(place);
        let mut counts = Vec::new();
        if node.visits > 0 {
            counts.push(format!("×{}", node.visits));
        }
        for (count, one, more) in [
            (node.retries, "retry", "retries"),
            (node.tolerated, "tolerated", "tolerated"),
            (node.failures, "failure", "failures"),
        ] {
            if count > 0 {
                counts.push(counted(count, one, more));
            }
        }
        lines.push(counts.join(", "));
        lines.push(left(node, overlay.ended().is_some()));
        if times {
            lines.push(time(node.last_micros));
        }
    }
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

fn left(node: NodeRun, ended: bool) -> String {
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

fn counted(count: u32, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

fn time(micros: u64) -> String {
    match micros {
        0 => String::new(),
        1..10_000 => format!("last {:.1} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("last {} ms", micros / 1000),
        _ => format!("last {:.1} s", micros as f64 / 1e6),
    }
}
