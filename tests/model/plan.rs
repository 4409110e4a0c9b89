//! A graph as plain data, and a case: a graph with the way in which it is driven.

use serde::{Deserialize, Serialize};

/// A graph, what its nodes do, and the inputs that one thread gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// In the order in which they are declared.
    pub(crate) nodes: Vec<Node>,
    pub(crate) joins: Vec<Join>,
    pub(crate) start: Vec<To>,
    pub(crate) inputs: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) worker: bool,
    pub(crate) out: Out,
    pub(crate) does: Does,
    /// The graph that it runs; then it does nothing else.
    #[serde(default)]
    pub(crate) inner: Option<Box<Plan>>,
}

/// The way out of a node. A way that leads nowhere leads to the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Out {
    Edge(Vec<To>),
    /// Each task says how it leaves, by what it has seen.
    Exits {
        a: Vec<To>,
        b: Vec<To>,
        by: Rule,
        /// Of a worker: where it leads when none of its tasks has taken an exit.
        empty: Vec<To>,
    },
    /// Decided on the merged state.
    Branch {
        a: Vec<To>,
        b: Vec<To>,
        by: Rule,
    },
}

impl Out {
    /// Every way, whoever takes it.
    pub(crate) fn ways(&self) -> Vec<&[To]> {
        match self {
            Out::Edge(way) => vec![way],
            Out::Exits { a, b, empty, .. } => vec![a, b, empty],
            Out::Branch { a, b, .. } => vec![a, b],
        }
    }

    pub(crate) fn rule(&self) -> Option<&Rule> {
        match self {
            Out::Edge(_) => None,
            Out::Exits { by, .. } | Out::Branch { by, .. } => Some(by),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum To {
    Node(usize),
    Each(usize, Count),
    Join(usize),
}

/// How many payloads there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Count {
    pub(crate) base: u64,
    /// Whether the sum of the state is added.
    pub(crate) sum: bool,
}

/// Which of two ways is taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Rule {
    A,
    B,
    /// The second one where a sum is odd.
    Odd(u64),
    /// The second one, which leads back, for so many laps of each run.
    Laps(u64),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Does {
    /// Questions, in rounds: those of one are asked together, once the round before is answered.
    pub(crate) asks: Vec<Vec<Wait>>,
    /// Whether it asks only where the sum of the state is odd.
    pub(crate) asks_if_odd: bool,
    /// How many durable steps it does.
    pub(crate) steps: u32,
    pub(crate) sleeps: bool,
    pub(crate) fails: Fails,
    /// Of a worker: whether every third payload fails for good, which the graph tolerates.
    pub(crate) tolerated: bool,
    /// Whether it writes the fields that take one writer.
    pub(crate) sole: bool,
}

/// How long a question waits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Wait {
    /// For ever.
    Ever,
    /// Long enough to be answered, although it has a default.
    Long,
    /// No time: its default is taken.
    None,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) enum Fails {
    #[default]
    Never,
    /// So many tries of each call, which is retried.
    Tries(u32),
    /// So many calls for good, after which the run is taken up again.
    Calls(u32),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Join {
    pub(crate) gathers: bool,
    pub(crate) members: Vec<usize>,
    pub(crate) to: Vec<To>,
    pub(crate) at_least: Option<usize>,
    pub(crate) must: Option<usize>,
    pub(crate) timeout: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Time {
    /// Over as soon as somebody has arrived.
    None,
    /// Never over.
    Long,
}

/// A plan, and the numbers by which it is driven: where they end, each further one is 0, which
/// always is the simplest choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Case {
    pub(crate) plan: Plan,
    pub(crate) ride: Vec<u32>,
}
