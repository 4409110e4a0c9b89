//! A compiled graph: dense tables, shared and never changed.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::builder::Builder;
use super::cached::Cached;
use super::catch::Catch;
use super::join::Join;
use super::settle::Settle;
use super::target::Dest;
use super::view::{GraphView, NodeKind};
use crate::ids::{NodeName, TaskLevel};
use crate::node::{AskCodec, Body, NodeError, Payload, PayloadCodec, Policy};
use crate::state::State;

/// A checked graph over a state. Cheap to clone, and safe to run from many tasks at once.
pub struct Graph<S: State>(Arc<Compiled<S>>);

impl<S: State> Clone for Graph<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: State> fmt::Debug for Graph<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("name", &self.0.view.name)
            .field("state", &S::NAME)
            .field("nodes", &self.0.view.nodes.len())
            .finish()
    }
}

impl<S: State> Graph<S> {
    /// Begins a description.
    pub fn builder(name: impl Into<String>) -> Builder<S> {
        Builder::new(name.into())
    }

    /// The graph's name.
    pub fn name(&self) -> &str {
        &self.0.view.name
    }

    /// The graph as pictures and tables need it.
    pub fn view(&self) -> &GraphView {
        &self.0.view
    }

    /// A hash of everything that stored positions depend on: names, kinds, exits and wiring of the
    /// nodes, payload types, fields with shapes and reducers. No closures, no policies.
    pub fn fingerprint(&self) -> [u8; 16] {
        self.0.fingerprint
    }

    pub(super) fn of(compiled: Compiled<S>) -> Self {
        Self(Arc::new(compiled))
    }

    pub(crate) fn tables(&self) -> &Compiled<S> {
        &self.0
    }
}

/// Decides on the merged state which exit is taken.
pub(crate) type Choose<S> = Arc<dyn Fn(&S) -> Result<usize, NodeError> + Send + Sync>;

/// Makes an update of a payload and an error; none if the payload is of another type.
pub(crate) type Tolerate<S> =
    Arc<dyn Fn(&Payload, &NodeError) -> Option<<S as State>::Update> + Send + Sync>;

/// Finds what the node at a path may ask.
type AsksAt = dyn Fn(&[TaskLevel]) -> Option<AskCodec> + Send + Sync;

/// A graph inside of a node, without its state type.
pub(crate) struct Inside {
    pub(crate) view: GraphView,
    pub(crate) fingerprint: [u8; 16],
    /// What a node may ask, by its name; of a node inside of a node inside, by both names, and so on.
    asks: Box<AsksAt>,
}

impl Inside {
    pub(crate) fn of<I: State>(graph: Graph<I>) -> Self {
        Self {
            view: graph.view().clone(),
            fingerprint: graph.fingerprint(),
            asks: Box::new(move |path| graph.tables().asks(path)),
        }
    }
}

/// How a node is left; targets are places in [`Compiled::targets`].
pub(crate) enum Out<S> {
    Edge(u32),
    Exits(Vec<u32>),
    Branch {
        choose: Choose<S>,
        labels: Vec<&'static str>,
        targets: Vec<u32>,
    },
}

/// One node.
pub(crate) struct Entry<S: State> {
    pub(crate) name: NodeName,
    pub(crate) kind: NodeKind,
    pub(crate) body: Arc<dyn Body<S>>,
    pub(crate) payload: Option<PayloadCodec>,
    /// What it may ask.
    pub(crate) asks: Option<AskCodec>,
    /// The graph that it runs.
    pub(crate) inner: Option<Inside>,
    pub(crate) exits: Vec<&'static str>,
    pub(crate) policy: Policy,
    pub(crate) tolerate: Option<Tolerate<S>>,
    /// How its outcomes are kept.
    pub(crate) cache: Option<Cached<S>>,
    /// What is left of a task that never finishes.
    pub(crate) settle: Option<Settle<S>>,
    /// Its error exits, in the order in which they are asked.
    pub(crate) catches: Vec<Catch>,
    pub(crate) out: Option<Out<S>>,
    pub(crate) empty: Option<u32>,
    /// The fields that it says it reads.
    pub(crate) reads: Option<Vec<&'static str>>,
    /// The fields that it says it writes: no others may it.
    pub(crate) writes: Option<Vec<&'static str>>,
}

impl<S: State> Entry<S> {
    /// The targets that it may be left for, one of them at a time.
    pub(super) fn ways(&self) -> Vec<u32> {
        let out: &[u32] = match &self.out {
            Some(Out::Edge(target)) => std::slice::from_ref(target),
            Some(Out::Exits(targets) | Out::Branch { targets, .. }) => targets,
            None => &[],
        };
        let caught = self.catches.iter().map(|catch| catch.target);
        let out = out.iter().copied().chain(self.empty);
        out.chain(caught).collect()
    }
}

impl<S: State> Compiled<S> {
    /// What the node at the end of a path may ask.
    pub(crate) fn asks(&self, path: &[TaskLevel]) -> Option<AskCodec> {
        let (first, rest) = path.split_first()?;
        let entry = self.node(*self.by_name.get(&first.node)?);
        match &entry.inner {
            Some(inner) if !rest.is_empty() => (inner.asks)(rest),
            _ => entry.asks,
        }
    }
}

/// The dense tables of a checked graph. Nodes and targets are addressed by place; only the checks
/// make places, so they are always valid.
pub(crate) struct Compiled<S: State> {
    pub(crate) nodes: Vec<Entry<S>>,
    pub(crate) targets: Vec<Vec<Dest<S>>>,
    pub(crate) start: u32,
    pub(crate) joins: Vec<Join>,
    /// Whether a node says what it writes.
    pub(crate) declares: bool,
    pub(crate) by_name: HashMap<NodeName, u32>,
    /// The names in declaration order, shared with the contexts of every run.
    pub(crate) names: Arc<[NodeName]>,
    pub(crate) view: GraphView,
    pub(crate) fingerprint: [u8; 16],
}

impl<S: State> Compiled<S> {
    pub(crate) fn names(&self) -> Arc<[NodeName]> {
        Arc::clone(&self.names)
    }

    #[inline]
    pub(crate) fn node(&self, node: u32) -> &Entry<S> {
        &self.nodes[node as usize]
    }

    /// The name of a place: of a node or, after all nodes, of a join.
    pub(crate) fn place_name(&self, place: u32) -> &NodeName {
        match self.nodes.get(place as usize) {
            Some(node) => &node.name,
            None => &self.joins[place as usize - self.nodes.len()].name,
        }
    }

    /// The place of a join.
    pub(crate) fn join_place(&self, join: u32) -> u32 {
        self.nodes.len() as u32 + join
    }

    /// Whether a join waits only for so long.
    pub(crate) fn is_timed(&self) -> bool {
        self.joins.iter().any(|join| join.timeout.is_some())
    }

    #[inline]
    pub(crate) fn target(&self, target: u32) -> &[Dest<S>] {
        &self.targets[target as usize]
    }
}
