//! A run laid over a graph: what its events say of each node and each edge.

use std::fmt;

use super::inside::Inside;
use crate::event::{Event, EventKind, TakenEdge};
use crate::graph::{GraphView, NodeView, Point};
use crate::ids::NodeName;

/// What a run did with a graph, node by node and edge by edge, to be drawn over it by
/// [`Dot::run`](super::Dot::run) and [`Mermaid::run`](super::Mermaid::run).
///
/// It is made of [`events`](crate::events) alone: those that a listener has kept or those that the
/// records tell give the same overlay. With fewer of them (up to a checkpoint's seq) it shows the
/// run as it was then. What happened in a graph that a node runs is counted there, all its instances
/// and entries together ([`inner`](Self::inner)).
///
/// ```
/// use milepost::dot::{Dot, Overlay};
/// use milepost::store::MemoryStore;
/// use milepost::{Command, Context, End, Graph, Runner, Snapshot, State, ThreadId, events};
///
/// #[derive(Clone, Debug, Default, State)]
/// struct Counter {
///     n: u64,
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut g = Graph::builder("count");
/// let count = g.node("count", async |counter: Snapshot<Counter>, _: Context| {
///     Ok(Counter::update().n(counter.n + 1))
/// });
/// g.start(count);
/// g.edge(count, End);
/// let graph = g.build()?;
///
/// let store = MemoryStore::new();
/// let thread = ThreadId::new("t")?;
/// let runner = Runner::new(graph.clone()).store(store.clone());
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// runtime.block_on(runner.run(&thread, Command::start(Counter::update())))?;
///
/// let events = runtime.block_on(events(&store, &thread))?;
/// let overlay = Overlay::new(graph.view(), &events);
/// assert_eq!(overlay.node(0).visits, 1);
/// let picture = Dot::new(graph.view()).run(&overlay).to_string();
/// assert!(picture.contains(r#"label="count\n×1""#));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlay {
    nodes: Vec<NodeRun>,
    edges: Vec<EdgeRun>,
    /// What it did with the graphs that nodes run.
    inner: Vec<Option<Overlay>>,
    closed: u64,
    standing: Standing,
    partial: bool,
    unknown: Vec<String>,
}

/// What a run did with one node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeRun {
    /// How many of its tasks ended, those whose failure was tolerated or handled included.
    pub visits: u32,
    /// How many tries were made again after a failure.
    pub retries: u32,
    /// How many of its tasks failed where the graph tolerates it.
    pub tolerated: u32,
    /// How many of its tasks failed where an error exit took that on.
    pub handled: u32,
    /// How often one of its tasks failed for good, which ended the call.
    pub failures: u32,
    /// How many of its tasks are left to run.
    pub open: u32,
    /// Whether one of those left has failed, and was not taken up again since.
    pub failed: bool,
    /// How long its last try took, in microseconds; 0 where that is not known.
    pub last_micros: u64,
}

/// What a run did with one edge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EdgeRun {
    /// How often it was taken.
    pub taken: u32,
    /// How many tasks it led to, all times together; more than `taken` only for a fan-out.
    pub tasks: u32,
}

/// Where the run stands after the events.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    /// Nothing has begun.
    Nowhere,
    /// A call works on it, or died while it did.
    Running,
    /// The last call has ended, in this way.
    Ended(String),
}

/// What stands out about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Unvisited,
    Visited,
    Open,
    Failed,
}

impl NodeRun {
    pub(super) fn mark(&self) -> Mark {
        match self {
            NodeRun { failed: true, .. } => Mark::Failed,
            NodeRun { open: 1.., .. } => Mark::Open,
            NodeRun { visits: 1.., .. } => Mark::Visited,
            _ => Mark::Unvisited,
        }
    }
}

impl Overlay {
    /// Lays events, in their order, over the graph that they are of.
    pub fn new<'e>(view: &GraphView, events: impl IntoIterator<Item = &'e Event>) -> Self {
        let mut overlay = Self::bare(view);
        let mut inside = Inside::default();
        for event in events {
            match &event.within {
                None => overlay.add(view, &event.kind),
                Some(outer) => inside.add(view, outer, &event.kind, &mut overlay),
            }
            inside.close(view, event, &mut overlay);
        }
        inside.left(view, &mut overlay);
        overlay.inside_stands();
        overlay
    }

    /// Where nothing has happened.
    pub(super) fn bare(view: &GraphView) -> Self {
        let inner = |node: &NodeView| node.inner.as_deref().map(Self::bare);
        Self {
            nodes: vec![NodeRun::default(); view.nodes.len()],
            edges: vec![EdgeRun::default(); view.edges.len()],
            inner: view.nodes.iter().map(inner).collect(),
            closed: 0,
            standing: Standing::Nowhere,
            partial: false,
            unknown: Vec::new(),
        }
    }

    /// What happened to the node at this place of [`GraphView::nodes`].
    pub fn node(&self, place: usize) -> NodeRun {
        self.nodes.get(place).copied().unwrap_or_default()
    }

    /// What happened to the edge at this place of [`GraphView::edges`].
    pub fn edge(&self, place: usize) -> EdgeRun {
        self.edges.get(place).copied().unwrap_or_default()
    }

    /// What happened in the graph that the node at this place runs, over all its instances and
    /// entries; none for a node that runs none. Where it stands is where the whole run does.
    pub fn inner(&self, place: usize) -> Option<&Overlay> {
        self.inner.get(place)?.as_ref()
    }

    pub(super) fn inner_mut(&mut self, place: usize) -> Option<&mut Overlay> {
        self.inner.get_mut(place)?.as_mut()
    }

    /// Adds what one instance did.
    pub(super) fn sum(&mut self, one: &Overlay) {
        for (all, one) in self.nodes.iter_mut().zip(&one.nodes) {
            all.visits += one.visits;
            all.retries += one.retries;
            all.tolerated += one.tolerated;
            all.handled += one.handled;
            all.failures += one.failures;
            all.open += one.open;
            all.failed |= one.failed;
            if one.last_micros > 0 {
                all.last_micros = one.last_micros;
            }
        }
        for (all, one) in self.edges.iter_mut().zip(&one.edges) {
            all.taken += one.taken;
            all.tasks += one.tasks;
        }
    }

    /// Nothing is left to run.
    pub(super) fn end(&mut self) {
        for node in &mut self.nodes {
            (node.open, node.failed) = (0, false);
        }
    }

    /// Graphs inside stand where the outermost does.
    fn inside_stands(&mut self) {
        for inner in self.inner.iter_mut().flatten() {
            inner.standing.clone_from(&self.standing);
            (inner.closed, inner.partial) = (self.closed, self.partial);
            inner.inside_stands();
        }
    }

    /// What an instance inside of a node has missed, this one has.
    pub(super) fn misses(&mut self, one: &Overlay, node: &NodeName) {
        self.partial |= one.partial;
        for what in &one.unknown {
            self.miss(format!("{what}, inside of {node}"));
        }
    }

    /// How the last call ended (`finished`, `failed`, `cancelled`, …); none while one works on the
    /// thread, or if it died.
    pub fn ended(&self) -> Option<&str> {
        match &self.standing {
            Standing::Ended(status) => Some(status),
            Standing::Nowhere | Standing::Running => None,
        }
    }

    /// Whether supersteps are missing among the events, as after a prune: the counts are then of
    /// what is left.
    pub fn is_partial(&self) -> bool {
        self.partial
    }

    /// Nodes and edges of the events that the graph does not have, each once: the thread was run
    /// with another version of the graph.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    pub(super) fn add(&mut self, view: &GraphView, event: &EventKind) {
        match event {
            EventKind::Started { edges, .. } => {
                self.standing = Standing::Running;
                self.follow(view, edges);
            }
            EventKind::Resumed { .. } => {
                self.standing = Standing::Running;
                for node in &mut self.nodes {
                    node.failed = false;
                }
            }
            EventKind::TaskFinished {
                task,
                attempts,
                micros,
                tolerated,
                ..
            } => {
                if let Some(node) = self.named(view, task.task().node.as_str()) {
                    node.visits += 1;
                    node.retries += attempts.saturating_sub(1);
                    node.tolerated += u32::from(tolerated.is_some());
                    node.open = node.open.saturating_sub(1);
                    node.last_micros = *micros;
                }
            }
            EventKind::TaskFailed {
                task,
                attempts,
                tries,
                exit: Some(_),
                ..
            } => {
                if let Some(node) = self.named(view, task.task().node.as_str()) {
                    node.visits += 1;
                    node.retries += attempts.saturating_sub(1);
                    node.handled += 1;
                    node.open = node.open.saturating_sub(1);
                    node.last_micros = tries.last().map_or(0, |last| last.micros);
                }
            }
            EventKind::TaskFailed { task, attempts, .. } => {
                if let Some(node) = self.named(view, task.task().node.as_str()) {
                    node.failures += 1;
                    node.retries += attempts.saturating_sub(1);
                    node.failed = true;
                }
            }
            EventKind::Committed { step, edges, .. } => {
                self.partial |= step.get() > self.closed + 1;
                self.closed = step.get();
                self.standing = Standing::Running;
                self.follow(view, edges);
            }
            EventKind::Ended { status, .. } => self.standing = Standing::Ended(status.clone()),
            _ => {}
        }
    }

    /// A position is left by these edges: what they lead to is what is left to run.
    fn follow(&mut self, view: &GraphView, edges: &[TakenEdge]) {
        self.end();
        for taken in edges {
            let found = view.edges.iter().position(|edge| {
                edge.label == taken.label
                    && name(view, edge.from) == taken.from.as_ref().map(|from| from.as_str())
                    && name(view, edge.to) == taken.to.as_ref().map(|to| to.as_str())
            });
            match found {
                Some(place) => {
                    self.edges[place].taken += 1;
                    self.edges[place].tasks += taken.tasks;
                }
                None => self.miss(edge_text(taken)),
            }
            let Some(to) = &taken.to else { continue };
            if view.joins.iter().any(|join| join.name == *to) {
                continue;
            }
            let is_worker = view
                .nodes
                .iter()
                .any(|node| node.name == *to && node.payload.is_some());
            if let Some(node) = self.named(view, to.as_str()) {
                // A plain node that several edges lead to runs once.
                node.open = if is_worker {
                    node.open + taken.tasks
                } else {
                    taken.tasks.min(1)
                };
            }
        }
    }

    fn named(&mut self, view: &GraphView, name: &str) -> Option<&mut NodeRun> {
        let found = view
            .nodes
            .iter()
            .position(|node| node.name.as_str() == name);
        if found.is_none() {
            self.miss(format!("node {name}"));
        }
        self.nodes.get_mut(found?)
    }

    pub(super) fn miss(&mut self, what: String) {
        if !self.unknown.contains(&what) {
            self.unknown.push(what);
        }
    }
}

/// Where the run stands, as one sentence.
impl fmt::Display for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.standing {
            Standing::Nowhere => f.write_str("not begun")?,
            Standing::Running => write!(f, "running after superstep {}", self.closed)?,
            Standing::Ended(status) => write!(f, "{status} after superstep {}", self.closed)?,
        }
        if self.partial {
            f.write_str("; older supersteps are pruned and not counted")?;
        }
        Ok(())
    }
}

fn name(view: &GraphView, point: Point) -> Option<&str> {
    view.name_of(point).map(|name| name.as_str())
}

fn edge_text(edge: &TakenEdge) -> String {
    let from = edge.from.as_ref().map_or("start", |from| from.as_str());
    let to = edge.to.as_ref().map_or("end", |to| to.as_str());
    match edge.label.as_str() {
        "" => format!("edge {from} → {to}"),
        label => format!("edge {from} → {to} ({label})"),
    }
}
