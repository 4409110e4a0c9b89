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
    /// The error exits of a node make no sense.
    #[error("the error exits of node \"{node}\" make no sense: {reason}")]
    ErrorExit {
        /// The node.
        node: NodeName,
        /// Why.
        reason: String,
    },
    /// A policy makes no sense.
    #[error("the policy of node \"{node}\" makes no sense: {reason}")]
    Policy {
        /// The node.
        node: NodeName,
        /// Why.
        reason: &'static str,
    },
    /// The outcomes of a node may not be kept.
    #[error("the outcomes of node \"{node}\" cannot be kept in a cache: {reason}")]
    Cache {
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
    /// A join's name is no name.
    #[error("a join has no proper name ({name:?}): {why}. Give it one with `.named(..)`")]
    JoinName {
        /// What it would be called.
        name: String,
        /// Why.
        why: IdError,
    },
    /// Two joins, or a join and a node, have one name.
    #[error(
        "\"{join}\" is the name of a join and of another join or node: give the join one of its own, with `.named(..)`"
    )]
    JoinTwice {
        /// The name.
        join: NodeName,
    },
    /// A join makes no sense.
    #[error("\"{join}\" makes no sense: {reason}")]
    Join {
        /// The join.
        join: NodeName,
        /// Why.
        reason: String,
    },
    /// A node leads to a join that does not wait for it.
    #[error(
        "node \"{node}\" leads to \"{join}\", which does not wait for it: name it among the members"
    )]
    NoMember {
        /// The join.
        join: NodeName,
        /// The node.
        node: NodeName,
    },
    /// A join waits for a node that never leads to it.
    #[error(
        "\"{join}\" waits for \"{node}\", which never leads to it: lead one of its ways to the join's place"
    )]
    NeverArrives {
        /// The join.
        join: NodeName,
        /// The node.
        node: NodeName,
    },
    /// A join waits for nodes that never run for one another's sake.
    #[error("\"{join}\" can never be met: {}. Wait for those that were started, with `gather`, or lead to both at once, with `a.and(b)`", never_both(first, second, chooser.as_ref()))]
    NeverMet {
        /// The join.
        join: NodeName,
        /// One of those that it waits for.
        first: NodeName,
        /// Another one.
        second: NodeName,
        /// The node that leads to one or to the other.
        chooser: Option<NodeName>,
    },
    /// Two nodes that may run in one superstep say that they write a field that takes one writer.
    #[error(
        "nodes \"{first}\" and \"{second}\" both write field \"{field}\", which takes one writer, and nothing orders them: by their edges, whatever the exits, they may run in one superstep. Order them, give the field a reducer that takes several, or declare fewer writes"
    )]
    TwoWriters {
        /// The field.
        field: &'static str,
        /// One writer.
        first: NodeName,
        /// The other.
        second: NodeName,
    },
    /// A state lifts a version that does not come before its own.
    #[error(
        "state `{state}` is version {own} and lifts version {older}, which does not come before it: give the older struct a lower `#[state(version = ..)]`"
    )]
    Lift {
        /// The state.
        state: &'static str,
        /// Its version.
        own: u32,
        /// The version of what it lifts.
        older: u32,
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

fn never_both(first: &NodeName, second: &NodeName, chooser: Option<&NodeName>) -> String {
    match chooser {
        Some(node) => {
            format!("node \"{node}\" leads to \"{first}\" or to \"{second}\", never to both")
        }
        None => format!("nothing leads to both \"{first}\" and \"{second}\""),
    }
}
