//! The values between the stages.

use std::sync::Arc;

use crate::node::{Failure, Payload};
use crate::state::State;

/// Where a thread stands between two supersteps.
pub(crate) struct Position<S: State> {
    /// How many supersteps are closed.
    pub(crate) step: u64,
    /// The state after them.
    pub(crate) state: Arc<S>,
    /// What runs next, in the order in which its updates will be merged.
    pub(crate) frontier: Vec<Task>,
    /// The joins at which somebody has arrived.
    pub(crate) joins: Vec<OpenJoin>,
    /// Outcomes of the open superstep that were recorded before, by place in the frontier.
    pub(crate) recorded: Vec<(usize, Outcome<S::Update>)>,
    /// An emptied frontier, kept for its memory.
    pub(crate) spare: Vec<Task>,
}

/// One entry of a join: a round of it that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenJoin {
    /// The join, by place in the graph.
    pub(crate) join: u32,
    /// The superstep that began it.
    pub(crate) entry: u64,
    /// The nodes that have arrived, in that order.
    pub(crate) arrived: Vec<u32>,
    /// When it goes on with whoever has arrived.
    pub(crate) due_ms: Option<u64>,
    /// The record that says so.
    pub(crate) timer: Option<u64>,
    /// None while it waits. After it has gone on without all: the places that may still bring late
    /// ones, nodes of the frontier and joins. Those that they bring change nothing any more.
    pub(crate) late: Option<Vec<u32>>,
}

/// One task.
pub(crate) struct Task {
    /// The node, by place in the graph.
    pub(crate) node: u32,
    /// The place among the tasks of that node.
    pub(crate) index: u32,
    /// How it was reached.
    pub(crate) via: Via,
    /// A worker's payload.
    pub(crate) payload: Option<Payload>,
}

/// How a task was reached; for people only, nothing is decided by it.
#[derive(Clone, Copy)]
pub(crate) struct Via {
    /// From which node or join, by place; none for the start.
    pub(crate) from: Option<u32>,
    /// The exit's label; empty for a plain edge.
    pub(crate) label: &'static str,
}

/// A planned superstep.
pub(crate) struct Superstep<S: State> {
    /// Its number: one more than are closed.
    pub(crate) step: u64,
    /// The state that all its tasks see.
    pub(crate) before: Arc<S>,
    /// All its tasks, in merge order.
    pub(crate) tasks: Vec<Task>,
    /// The joins at which somebody had arrived before.
    pub(crate) joins: Vec<OpenJoin>,
    /// What was recorded before, by place in `tasks`.
    pub(crate) recorded: Vec<(usize, Outcome<S::Update>)>,
    /// An emptied frontier, kept for its memory.
    pub(crate) spare: Vec<Task>,
}

/// How a task ended.
pub(crate) struct Outcome<U> {
    pub(crate) update: U,
    pub(crate) ended: Ended,
}

/// By which way a task was left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// By this exit.
    Exit(u32),
    /// By none: it failed, and the graph tolerates it.
    Tolerated,
    /// By an error exit: it failed.
    Failed(Box<Caught>),
}

/// A failure that an error exit has caught.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Caught {
    /// The error exit, by place among those of the node.
    pub(crate) exit: u32,
    pub(crate) failure: Failure,
}

/// The outcomes of all tasks of a superstep, in merge order. One task is the common case.
pub(crate) enum Outcomes<U> {
    One(Outcome<U>),
    /// Of each task its update, and by which way it was left.
    Many(Vec<U>, Vec<Ended>),
}
