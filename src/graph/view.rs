//! A graph without its types: what pictures and tables are made of.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::NodeName;
use crate::node::Policy;
use crate::state::{ReducerInfo, Shape};

/// What a node is for. Gives it its shape in pictures, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NodeKind {
    /// Makes a plan.
    Planner,
    /// Asks a model.
    Model,
    /// Calls tools.
    Tools,
    /// Judges what was done.
    Reflect,
    /// Sums up.
    Summary,
    /// Plain code: the default.
    #[default]
    Function,
    /// Asks a person.
    Human,
    /// Runs a graph.
    Subgraph,
}

impl NodeKind {
    /// The kind's name.
    pub const fn name(self) -> &'static str {
        match self {
            NodeKind::Planner => "planner",
            NodeKind::Model => "model",
            NodeKind::Tools => "tools",
            NodeKind::Reflect => "reflect",
            NodeKind::Summary => "summary",
            NodeKind::Function => "function",
            NodeKind::Human => "human",
            NodeKind::Subgraph => "subgraph",
        }
    }
}

/// A graph as a picture needs it: nodes and edges in declaration order.
#[derive(Debug, Clone)]
pub struct GraphView {
    /// The graph's name.
    pub name: String,
    /// The state's name.
    pub state: &'static str,
    /// The state's doc comment; empty if it has none.
    pub doc: &'static str,
    /// The versions of the state that can be read: its own, then those that it lifts.
    pub versions: Vec<u32>,
    /// The nodes, in declaration order.
    pub nodes: Vec<NodeView>,
    /// The joins, in declaration order.
    pub joins: Vec<JoinView>,
    /// The edges: out of the start, then node by node.
    pub edges: Vec<EdgeView>,
    /// The state's fields.
    pub fields: Vec<FieldView>,
}

impl GraphView {
    /// The name of a node or join; none for the start and the end.
    pub fn name_of(&self, point: Point) -> Option<&NodeName> {
        match point {
            Point::Node(place) => self.nodes.get(place).map(|node| &node.name),
            Point::Join(place) => self.joins.get(place).map(|join| &join.name),
            Point::Start | Point::End => None,
        }
    }
}

/// One node of a [`GraphView`].
#[derive(Debug, Clone)]
pub struct NodeView {
    /// Its name.
    pub name: NodeName,
    /// What it is for.
    pub kind: NodeKind,
    /// The labels of its exits; none for a node with one way out.
    pub exits: Vec<&'static str>,
    /// The type of its payloads, for a worker.
    pub payload: Option<&'static str>,
    /// The serde shape of its payloads, for a worker.
    pub payload_shape: Option<String>,
    /// What it may ask.
    pub asks: Option<AskView>,
    /// Its policy.
    pub policy: Policy,
    /// How long its outcomes are kept under their keys; none for a node that always runs.
    pub cache: Option<Duration>,
    /// The fields that it says it reads; none where it does not say.
    pub reads: Option<Vec<&'static str>>,
    /// The fields that it says it writes; none where it does not say.
    pub writes: Option<Vec<&'static str>>,
    /// The graph that it runs, where a picture is to show it.
    pub inner: Option<Box<GraphView>>,
}

/// One join of a [`GraphView`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JoinView {
    /// Its name.
    pub name: NodeName,
    /// Who it waits for, by place in [`GraphView::nodes`].
    pub members: Vec<usize>,
    /// What it waits for, in a few words.
    pub rule: String,
}

/// What a node may ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskView {
    /// The question's Rust type.
    pub question: &'static str,
    /// The answer's Rust type.
    pub answer: &'static str,
    /// The answer's serde shape.
    pub shape: String,
    /// The same, for those who type an answer.
    pub answer_is: Shape,
}

/// One edge of a [`GraphView`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeView {
    /// Where it begins.
    pub from: Point,
    /// Where it leads.
    pub to: Point,
    /// The exit's label; empty for a plain edge.
    pub label: &'static str,
    /// Whether it is taken only sometimes.
    pub conditional: bool,
    /// The type of the payloads that it carries, for a fan-out.
    pub payload: Option<&'static str>,
    /// Whether it stands in for a fan-out over nothing.
    pub when_empty: bool,
    /// Whether it is taken where the node has failed: an error exit, whose label says for which
    /// classes.
    pub on_error: bool,
}

/// An end of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Point {
    /// The start of the graph.
    Start,
    /// A node, by its place in [`GraphView::nodes`].
    Node(usize),
    /// A join, by its place in [`GraphView::joins`].
    Join(usize),
    /// The end of a branch.
    End,
}

/// One field of the state.
#[derive(Debug, Clone)]
pub struct FieldView {
    /// Its name.
    pub name: &'static str,
    /// Its Rust type.
    pub type_name: &'static str,
    /// Its serde shape.
    pub shape: String,
    /// Its reducer.
    pub reducer: ReducerInfo,
    /// The number of its codec.
    pub codec: u8,
    /// Whether stored bytes and the first input must have it.
    pub required: bool,
    /// The names under which older programs have stored it.
    pub aliases: &'static [&'static str],
    /// Its doc comment; empty if it has none.
    pub doc: &'static str,
}
