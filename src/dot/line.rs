//! What an edge says and how it is drawn, for both formats.

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

/// The text on an edge: the exit's label, and what a fan-out carries on a line of its own.
/// Empty where there is nothing to say.
pub(super) fn label(edge: &EdgeView) -> String {
    let mut label = edge.label.to_owned();
    if let Some(payload) = edge.payload {
        if !label.is_empty() {
            label.push('\n');
        }
        label.push_str("each ");
        label.push_str(&short_type(payload));
    }
    label
}
