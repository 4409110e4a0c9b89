//! What each kind of node looks like.
//!
//! The shape alone tells the kinds apart; the colour helps. The fills are light tints of a palette
//! that colour-blind readers can tell apart, under dark text, so that a node reads the same on
//! white and on black; the borders have contrast to both.

use super::overlay::Mark;
use crate::graph::NodeKind;

/// Lines and their labels: about the same contrast to white as to black.
pub(super) const LINE: &str = "#787878";

/// Text inside of nodes.
pub(super) const INK: &str = "#1a1a1a";

/// How the nodes of one kind are drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// The class: the kind's name.
    pub(super) class: &'static str,
    /// The shape.
    pub(super) shape: Shape,
    /// The colour inside.
    pub(super) fill: &'static str,
    /// The colour of the border.
    pub(super) border: &'static str,
    /// What a run adds; none in a picture of the graph alone.
    pub(super) mark: Option<Marked>,
}

/// The outline of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Circle,
    DoubleCircle,
    Hexagon,
    /// A box with round corners.
    Rounded,
    /// A box with two tabs at its side.
    Tabs,
    Octagon,
    /// A sheet with a folded corner.
    Note,
    Box,
    House,
    /// A block with an upper and a right side.
    Block,
    /// Wide above and narrow below.
    Funnel,
}

impl Shape {
    /// What Graphviz calls it; one that is rounded is so by its style.
    pub(super) const fn graphviz(self) -> &'static str {
        match self {
            Shape::Circle => "circle",
            Shape::DoubleCircle => "doublecircle",
            Shape::Hexagon => "hexagon",
            Shape::Rounded | Shape::Box => "box",
            Shape::Tabs => "component",
            Shape::Octagon => "octagon",
            Shape::Note => "note",
            Shape::House => "house",
            Shape::Block => "box3d",
            Shape::Funnel => "invtrapezium",
        }
    }

    /// The brackets that make it in Mermaid, or the nearest that Mermaid has.
    pub(super) const fn mermaid(self) -> (&'static str, &'static str) {
        match self {
            Shape::Circle => ("((", "))"),
            Shape::DoubleCircle => ("(((", ")))"),
            Shape::Hexagon => ("{{", "}}"),
            Shape::Rounded => ("([", "])"),
            Shape::Tabs => ("[/", "/]"),
            Shape::Octagon => ("[/", "\\]"),
            Shape::Note => ("[\\", "/]"),
            Shape::Box => ("[", "]"),
            Shape::House => (">", "]"),
            Shape::Block => ("[[", "]]"),
            Shape::Funnel => ("{", "}"),
        }
    }
}

/// What a run changes in the look of a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marked {
    /// The colour of the text.
    pub(super) ink: &'static str,
    /// The width of the border.
    pub(super) width: &'static str,
}

/// Where a graph begins.
pub(super) const START: Look = Look {
    class: "start",
    shape: Shape::Circle,
    fill: "#d9d9d9",
    border: LINE,
    mark: None,
};

/// Where branches wait for each other.
pub(super) const JOIN: Look = Look {
    class: "join",
    shape: Shape::Funnel,
    fill: "#f6f6f6",
    border: LINE,
    mark: None,
};

/// Where a branch ends.
pub(super) const END: Look = Look {
    class: "stop",
    shape: Shape::DoubleCircle,
    fill: "#d9d9d9",
    border: LINE,
    mark: None,
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
    let (shape, fill, border) = match kind {
        NodeKind::Planner => (Shape::Hexagon, "#f7efa3", "#8f8300"),
        NodeKind::Model => (Shape::Rounded, "#cfe8f9", "#2a7fb8"),
        NodeKind::Tools => (Shape::Tabs, "#fbe1b0", "#ac7400"),
        NodeKind::Reflect => (Shape::Octagon, "#f2d7e6", "#b0568a"),
        NodeKind::Summary => (Shape::Note, "#c3e8dc", "#00835f"),
        NodeKind::Function => (Shape::Box, "#ececec", LINE),
        NodeKind::Human => (Shape::House, "#f9cfb7", "#c55a11"),
        NodeKind::Subgraph => (Shape::Block, "#dadcf2", "#6470b8"),
    };
    Look {
        class: kind.name(),
        shape,
        fill,
        border,
        mark: None,
    }
}

/// A line that a run has taken.
pub(super) const TAKEN: &str = "#2a7fb8";

/// An error exit that no run has taken: told from the others by its dashes and its arrow, too.
pub(super) const BROKEN: &str = "#c55a11";

/// The look of a node in a run. What is left to run and what failed are dark with light text, the
/// one blue and the other vermilion: apart from each other and from every kind also without
/// colours, for the label says it too. What was never visited is pale.
pub(super) const fn marked(look: Look, mark: Mark) -> Look {
    let (fill, border, ink, width) = match mark {
        Mark::Unvisited => ("#f6f6f6", LINE, "#666666", "0.8"),
        Mark::Visited => (look.fill, look.border, INK, "2"),
        Mark::Open => ("#005a8f", "#56b4e9", "#ffffff", "3"),
        Mark::Failed => ("#9c3f00", "#e8813a", "#ffffff", "3"),
    };
    let mark = Some(Marked { ink, width });
    Look {
        fill,
        border,
        mark,
        ..look
    }
}
