//! The layers and what lies in them: nodes, labels, and the places that wires pass.

use super::rank::Ranks;
use super::{Node, Wire};

/// One thing in a layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) what: What,
    pub(super) layer: usize,
    /// How far it reaches to the left of its line.
    pub(super) left: f64,
    /// How far it reaches to the right.
    pub(super) right: f64,
    pub(super) height: f64,
}

/// What lies in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Node,
    /// A wire passes.
    Bend,
    /// A wire passes with its label to the right.
    Label,
    /// A wire turns around between two layers of nodes; only its order counts.
    Turn,
}

/// How far a label is from its line.
pub(super) const BESIDE: f64 = 6.0;

/// How far a loop of a node with itself reaches out.
pub(super) const LOOP: f64 = 26.0;

/// All layers. The first and the last, and each between two layers of nodes, have no nodes.
pub(super) struct Layers {
    pub(super) items: Vec<Item>,
    /// The items of each layer, from left to right.
    pub(super) rows: Vec<Vec<usize>>,
    /// The places of the items in their rows.
    pub(super) spot: Vec<usize>,
    /// What each item is linked with one layer above.
    pub(super) up: Vec<Vec<usize>>,
    /// What each item is linked with one layer below.
    pub(super) down: Vec<Vec<usize>>,
    /// For each wire the items that it passes, its ends included; none for a loop of a node.
    pub(super) chains: Vec<Vec<usize>>,
}

impl Layers {
    pub(super) fn new(nodes: &[Node], wires: &[Wire], ranks: &Ranks) -> Self {
        let last = ranks.of.iter().copied().max().unwrap_or(0);
        let mut layers = Self {
            items: Vec::new(),
            rows: vec![Vec::new(); 2 * last + 3],
            spot: Vec::new(),
            up: Vec::new(),
            down: Vec::new(),
            chains: Vec::new(),
        };
        let layer = |node: usize| 2 * ranks.of[node] + 1;
        for (place, node) in nodes.iter().enumerate() {
            let half = node.width / 2.0;
            let right = half + loops(wires, place);
            layers.add(What::Node, layer(place), (half, right, node.height));
        }
        for (wire, back) in wires.iter().zip(&ranks.back) {
            let (from, to) = (layer(wire.from), layer(wire.to));
            if wire.from == wire.to {
                layers.chains.push(Vec::new());
                continue;
            }
            let mut chain = vec![wire.from];
            if *back {
                chain.push(layers.add(What::Turn, from + 1, (0.0, 0.0, 0.0)));
                for between in (to..=from).rev() {
                    chain.push(layers.pass(wire, between, between + 1 == from));
                }
                chain.push(layers.add(What::Turn, to - 1, (0.0, 0.0, 0.0)));
            } else {
                for between in from + 1..to {
                    chain.push(layers.pass(wire, between, between == from + 1));
                }
            }
            chain.push(wire.to);
            for pair in chain.windows(2) {
                let (upper, lower) = if layers.items[pair[0]].layer < layers.items[pair[1]].layer {
                    (pair[0], pair[1])
                } else {
                    (pair[1], pair[0])
                };
                layers.down[upper].push(lower);
                layers.up[lower].push(upper);
            }
            layers.chains.push(chain);
        }
        layers
    }

    /// An item where a wire passes a layer, with its label where it is to stand there.
    fn pass(&mut self, wire: &Wire, layer: usize, labelled: bool) -> usize {
        match wire.label.filter(|_| labelled) {
            Some((width, height)) => self.add(What::Label, layer, (BESIDE, BESIDE + width, height)),
            None => self.add(What::Bend, layer, (1.0, 1.0, 0.0)),
        }
    }

    fn add(&mut self, what: What, layer: usize, (left, right, height): (f64, f64, f64)) -> usize {
        let item = self.items.len();
        self.items.push(Item {
            what,
            layer,
            left,
            right,
            height,
        });
        self.spot.push(self.rows[layer].len());
        self.rows[layer].push(item);
        self.up.push(Vec::new());
        self.down.push(Vec::new());
        item
    }

    /// How far apart the lines of two neighbours must be.
    pub(super) fn apart(&self, left: usize, right: usize) -> f64 {
        let (left, right) = (&self.items[left], &self.items[right]);
        let space = match (left.what, right.what) {
            (What::Node, What::Node) => 28.0,
            (What::Turn, _) | (_, What::Turn) => 4.0,
            (What::Node, _) | (_, What::Node) => 18.0,
            _ => 14.0,
        };
        left.right + space + right.left
    }

    /// Takes over an order of a row.
    pub(super) fn set_row(&mut self, layer: usize, row: Vec<usize>) {
        for (spot, &item) in row.iter().enumerate() {
            self.spot[item] = spot;
        }
        self.rows[layer] = row;
    }
}

/// How far the loops of a node with itself, and their labels, reach to its right.
fn loops(wires: &[Wire], node: usize) -> f64 {
    let own = wires
        .iter()
        .filter(|wire| wire.from == node && wire.to == node);
    let reach = |wire: &Wire| LOOP + wire.label.map_or(0.0, |(width, _)| BESIDE + width);
    own.map(reach).fold(0.0, f64::max)
}
