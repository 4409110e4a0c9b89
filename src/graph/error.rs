//! Why a description is no graph.

use std::fmt;

use crate::ids::{IdError, NodeName};
use crate::state::CodecError;

/// Everything that is wrong with a description.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildError {
    /// The graph.
    pub graph: String,
    /// What is wrong; at least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "graph \"{}\" cannot be built", self.graph)?;
        for problem in &self.problems {
            write!(f, "\n- {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for BuildError {}

/// One thing that is wrong with a description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The graph has no name.
    #[error("the graph has no name: give one to `Graph::builder`")]
    NoName,
    /// A node's name is no name.
    #[error("a node of \"{graph}\" has no proper name: {why}")]
    Name {
        /// The graph.
        graph: String,
        /// Why.
        why: IdError,
    },
    /// Two nodes have one name.
    #[error("two nodes are called \"{node}\": names tell them apart in records and pictures")]
    Duplicate {
        /// The name.
        node: NodeName,
    },
    /// Nothing runs first.
    #[error("nothing runs first: say so with `start`")]
    NoStart,
    /// `start` was called twice.
    #[error("`start` was called twice: name several nodes at once with `a.and(b)`")]
    TwoStarts,
    /// A node leads nowhere.
    #[error("node \"{node}\" leads nowhere: give it an edge, or lead it to `End`")]
    LeadsNowhere {
        /// The node.
        node: NodeName,
    },
    /// A node was given two ways out.
    #[error(
        "node \"{node}\" was given its way out twice: name several targets at once with `a.and(b)`"
    )]
    WiredTwice {
        /// The node.
        node: NodeName,
    },
    /// Nothing leads to a node.
    #[error("node \"{node}\" cannot be reached from the start")]
    Unreachable {
        /// The node.
        node: NodeName,
    },
    /// A cycle has no way out.
    #[error(
        "the cycle {} cannot be left: lead one of its nodes out of it, by an exit or a branch",
        cycle(nodes)
    )]
    EndlessCycle {
        /// Its nodes.
        nodes: Vec<NodeName>,
    },
    /// A place of another builder was used.
    #[error("a node of another graph was used: a node belongs to the builder that made it")]
    Foreign,
    /// A worker with exits does not say where it leads without tasks.
    #[error(
        "worker \"{worker}\" has exits, but a fan-out over nothing takes none: say where it leads then, with `.when_empty(..)` after `wire`"
    )]
    NothingWhenEmpty {
        /// The worker.
        worker: NodeName,
    },
    /// `when_empty` on a node that is no worker.
    #[error("node \"{node}\" is no worker: `when_empty` makes no sense there")]
    EmptyWithoutWorker {
        /// The node.
        node: NodeName,
    },
    /// A policy makes no sense.
    #[error("the policy of node \"{node}\" makes no sense: {reason}")]
    Policy {
        /// The node.
        node: NodeName,
        /// Why.
        reason: &'static str,
    },
    /// An implementation of [`Exits`](crate::Exits) makes no sense.
    #[error("the exits of node \"{node}\" make no sense: {reason}. Derive them")]
    Exits {
        /// The node.
        node: NodeName,
        /// Why.
        reason: &'static str,
    },
    /// A field's default does not survive being stored.
    #[error("field \"{field}\" of the state cannot be stored: {why}")]
    Field {
        /// The field.
        field: &'static str,
        /// Why.
        why: CodecError,
    },
}

fn cycle(nodes: &[NodeName]) -> String {
    let names: Vec<_> = nodes.iter().map(|node| format!("\"{node}\"")).collect();
    names.join(" → ")
}
