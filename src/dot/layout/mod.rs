//! Where the nodes and wires of a picture lie: a layered layout.
//!
//! In come sizes and wires, out go places and curves; what is drawn there is not known here. Every
//! wire leaves its node at the bottom and enters the next at the top, one that leads back turns
//! around and climbs in a column of its own. Layers of nodes alternate with layers of labels, each
//! a band from left to right. Inside of a band a wire is a vertical line in a column that nothing
//! else has; it moves sideways only in the gaps between bands. So no wire crosses a node that is
//! not its end, and no label lies on anything: by how it is made, not by luck.

mod layers;
mod order;
mod place;
mod rank;
mod route;

/// How far before its end a wire goes straight, for the head of an arrow.
pub(super) const ARROW: f64 = 9.0;

/// A node before it has a place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) width: f64,
    pub(super) height: f64,
    /// How far from the middle wires may end.
    pub(super) ports: f64,
    pub(super) rim: Rim,
}

/// The outline of a node, where wires end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rim {
    /// A box.
    Level,
    /// A circle.
    Round,
    /// The upper side is a roof of this height.
    Roof(f64),
    /// The left and right sides come to a point, so far out.
    Point(f64),
}

impl Node {
    /// How far the right side is behind the right end, so far from the middle.
    fn notch(&self, y: f64) -> f64 {
        let half = self.height / 2.0;
        match self.rim {
            Rim::Round => half - (half * half - y * y).max(0.0).sqrt(),
            Rim::Point(width) => width * (y.abs() / half).min(1.0),
            Rim::Level | Rim::Roof(_) => 0.0,
        }
    }
}

/// A wire before it has a way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wire {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The size of its label, where it has one.
    pub(super) label: Option<(f64, f64)>,
}

impl Wire {
    /// How much of the side of a node a loop of this wire takes.
    pub(super) fn slot(&self) -> f64 {
        self.label.map_or(16.0, |(_, height)| height + 6.0)
    }
}

/// A point of the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct At {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// A part of a wire's way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Part {
    Line(At),
    /// A cubic curve: two points that draw it, and its end.
    Curve(At, At, At),
}

/// The way of a wire.
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) from: At,
    pub(super) parts: Vec<Part>,
    /// The upper left corner of its label, where it has one.
    pub(super) label: Option<At>,
}

/// A picture with everything in its place.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) width: f64,
    pub(super) height: f64,
    /// The middle of each node.
    pub(super) nodes: Vec<At>,
    pub(super) routes: Vec<Route>,
}

/// Finds a place for every node and a way for every wire. The same input gives the same layout.
pub(super) fn layout(nodes: &[Node], wires: &[Wire]) -> Layout {
    let ranks = rank::rank(nodes.len(), wires);
    let mut layers = layers::Layers::new(nodes, wires, &ranks);
    order::order(&mut layers);
    let xs = place::place(&layers);
    route::route(nodes, wires, &layers, xs)
}
