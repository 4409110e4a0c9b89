//! What each kind of node looks like.
//!
//! The shape alone tells the kinds apart; the colour helps. The fills are light tints of a palette
//! that colour-blind readers can tell apart, under dark text, so that a node reads the same on
//! white and on black; the borders have contrast to both.

use crate::graph::NodeKind;

/// Lines and their labels: about the same contrast to white as to black.
pub(super) const LINE: &str = "#787878";

/// Text inside of nodes.
pub(super) const INK: &str = "#1a1a1a";

/// How the nodes of one kind are drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// The class that carries the colours in Mermaid and in SVG.
    pub(super) class: &'static str,
    /// The shape for Graphviz.
    pub(super) shape: &'static str,
    /// Whether Graphviz rounds the corners.
    pub(super) rounded: bool,
    /// The brackets around the label in Mermaid, which are its shape.
    pub(super) brackets: (&'static str, &'static str),
    /// The colour inside.
    pub(super) fill: &'static str,
    /// The colour of the border.
    pub(super) border: &'static str,
}

/// Where a graph begins.
pub(super) const START: Look = Look {
    class: "start",
    shape: "circle",
    rounded: false,
    brackets: ("((", "))"),
    fill: "#d9d9d9",
    border: LINE,
};

/// Where a branch ends.
pub(super) const END: Look = Look {
    class: "stop",
    shape: "doublecircle",
    rounded: false,
    brackets: ("(((", ")))"),
    fill: "#d9d9d9",
    border: LINE,
};

/// Every kind, in the order of its declaration.
pub(super) const KINDS: [NodeKind; 8] = [
    NodeKind::Planner,
    NodeKind::Model,
    NodeKind::Tools,
    NodeKind::Reflect,
    NodeKind::Summary,
    NodeKind::Function,
    NodeKind::Human,
    NodeKind::Subgraph,
];

/// The look of a kind.
pub(super) const fn look(kind: NodeKind) -> Look {
    let (shape, rounded, brackets, fill, border) = match kind {
        NodeKind::Planner => ("hexagon", false, ("{{", "}}"), "#f7efa3", "#8f8300"),
        NodeKind::Model => ("box", true, ("([", "])"), "#cfe8f9", "#2a7fb8"),
        NodeKind::Tools => ("component", false, ("[/", "/]"), "#fbe1b0", "#ac7400"),
        NodeKind::Reflect => ("octagon", false, ("[/", "\\]"), "#f2d7e6", "#b0568a"),
        NodeKind::Summary => ("note", false, ("[\\", "/]"), "#c3e8dc", "#00835f"),
        NodeKind::Function => ("box", false, ("[", "]"), "#ececec", LINE),
        NodeKind::Human => ("house", false, (">", "]"), "#f9cfb7", "#c55a11"),
        NodeKind::Subgraph => ("box3d", false, ("[[", "]]"), "#dadcf2", "#6470b8"),
    };
    Look {
        class: kind.name(),
        shape,
        rounded,
        brackets,
        fill,
        border,
    }
}
