//! Places of a graph under construction, and what an edge can lead to.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::node::{Exits, Payload};
use crate::state::State;

/// A node of a graph under construction; made by [`Builder::node`](super::Builder::node).
pub struct NodeRef<S, E> {
    pub(super) at: At,
    types: PhantomData<fn() -> (S, E)>,
}

/// A worker of a graph under construction; made by [`Builder::worker`](super::Builder::worker).
/// An edge leads to it only with payloads: [`each`](Self::each).
pub struct WorkerRef<S, P, E> {
    pub(super) at: At,
    types: Types<S, P, E>,
}

/// The types of a worker; it holds none of them.
type Types<S, P, E> = PhantomData<fn() -> (S, P, E)>;

/// The end of a branch. A run is finished when nothing is left to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End;

/// Which node of which builder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    pub(super) node: u32,
    pub(super) builder: u64,
}

impl<S, E> NodeRef<S, E> {
    pub(crate) fn new(at: At) -> Self {
        Self {
            at,
            types: PhantomData,
        }
    }
}

impl<S, P, E> WorkerRef<S, P, E> {
    pub(crate) fn new(at: At) -> Self {
        Self {
            at,
            types: PhantomData,
        }
    }
}

impl<S, E> Clone for NodeRef<S, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, E> Copy for NodeRef<S, E> {}

impl<S, P, E> Clone for WorkerRef<S, P, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, P, E> Copy for WorkerRef<S, P, E> {}

impl<S, E> fmt::Debug for NodeRef<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeRef({})", self.at.node)
    }
}

impl<S, P, E> fmt::Debug for WorkerRef<S, P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerRef({})", self.at.node)
    }
}

/// A node or a worker: a place that edges can leave.
pub trait Place<S>: Copy + sealed::Sealed {
    /// The ways in which it can be left.
    type Exits: Exits;

    #[doc(hidden)]
    fn at(&self) -> At;
}

/// A node or a worker with one way out: a place that a plain edge can leave.
#[diagnostic::on_unimplemented(
    message = "an edge cannot leave `{Self}`: it has several exits, or is no place of a `{S}` graph",
    label = "this has several exits, or belongs to another state",
    note = "lead each exit of a node somewhere with `wire(node, |exit| match exit {{ .. }})`"
)]
pub trait OneWay<S>: Place<S, Exits = ()> {}

impl<S> OneWay<S> for NodeRef<S, ()> {}
impl<S, P> OneWay<S> for WorkerRef<S, P, ()> {}

mod sealed {
    pub trait Sealed {}
}

impl<S, E> sealed::Sealed for NodeRef<S, E> {}
impl<S, P, E> sealed::Sealed for WorkerRef<S, P, E> {}

impl<S, E: Exits> Place<S> for NodeRef<S, E> {
    type Exits = E;
    fn at(&self) -> At {
        self.at
    }
}

impl<S, P, E: Exits> Place<S> for WorkerRef<S, P, E> {
    type Exits = E;
    fn at(&self) -> At {
        self.at
    }
}

/// Splits a state into payloads.
pub(crate) type Split<S> = Arc<dyn Fn(&S) -> Vec<Payload> + Send + Sync>;

/// One place that an edge leads to.
pub(crate) enum Dest<S> {
    Node(u32),
    Each(u32, Split<S>),
    /// A worker that is given the failures which are led here.
    Caught(u32),
    Join(u32),
    End,
}

impl<S> Clone for Dest<S> {
    fn clone(&self) -> Self {
        match self {
            Dest::Node(node) => Dest::Node(*node),
            Dest::Each(node, split) => Dest::Each(*node, Arc::clone(split)),
            Dest::Caught(node) => Dest::Caught(*node),
            Dest::Join(join) => Dest::Join(*join),
            Dest::End => Dest::End,
        }
    }
}

/// What an edge leads to: one or several places at once.
pub struct Target<S> {
    pub(super) dests: Vec<(Option<u64>, Dest<S>)>,
}

impl<S> fmt::Debug for Target<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.dests.iter().map(|(_, dest)| match dest {
                Dest::Node(node) => format!("node {node}"),
                Dest::Each(node, _) => format!("each of {node}"),
                Dest::Caught(node) => format!("failures to {node}"),
                Dest::Join(join) => format!("join {join}"),
                Dest::End => "end".to_owned(),
            }))
            .finish()
    }
}

impl<S: State> Target<S> {
    /// Leads to `other` as well, in the same superstep.
    #[must_use]
    pub fn and(mut self, other: impl IntoTarget<S>) -> Self {
        self.dests.extend(other.into_target().dests);
        self
    }
}

impl<S: State, E> NodeRef<S, E> {
    /// Leads to this node and to `other`, in the same superstep.
    pub fn and(self, other: impl IntoTarget<S>) -> Target<S> {
        Target::from(self).and(other)
    }
}

impl<S: State, P: Send + Sync + 'static, E> WorkerRef<S, P, E> {
    /// Leads to one task of this worker for each payload, all in the same superstep. The payloads
    /// are taken from the merged state of the superstep before, once, and are stored with the
    /// frontier; updates are merged in their order. No payload: the worker's own edge is taken at
    /// once, with nothing merged.
    pub fn each(self, split: impl Fn(&S) -> Vec<P> + Send + Sync + 'static) -> Target<S> {
        let split: Split<S> = Arc::new(move |state| Payload::all(split(state)));
        Target {
            dests: vec![(Some(self.at.builder), Dest::Each(self.at.node, split))],
        }
    }
}

impl<S, E> From<NodeRef<S, E>> for Target<S> {
    fn from(node: NodeRef<S, E>) -> Self {
        Target {
            dests: vec![(Some(node.at.builder), Dest::Node(node.at.node))],
        }
    }
}

impl<S> From<End> for Target<S> {
    fn from(_: End) -> Self {
        Target {
            dests: vec![(None, Dest::End)],
        }
    }
}

/// What an edge can lead to: a node, [`End`], the payloads of a worker, the
/// [place](super::Joining::place) of a join, or several of them.
#[diagnostic::on_unimplemented(
    message = "an edge of a `{S}` graph cannot lead to `{Self}`",
    label = "not a target of an edge",
    note = "an edge leads to a node of the same graph, to `End`, to several with `a.and(b)`, or to a worker with payloads: `worker.each(|state| ..)`"
)]
pub trait IntoTarget<S> {
    /// The same as a target.
    fn into_target(self) -> Target<S>;
}

impl<S> IntoTarget<S> for Target<S> {
    fn into_target(self) -> Target<S> {
        self
    }
}

impl<S, E> IntoTarget<S> for NodeRef<S, E> {
    fn into_target(self) -> Target<S> {
        self.into()
    }
}

impl<S> IntoTarget<S> for End {
    fn into_target(self) -> Target<S> {
        self.into()
    }
}
