//! Settings of a run.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Cancel, Durability, RunError};
use crate::engine::Task;
use crate::graph::{Compiled, GraphView};
use crate::node::RunContext;
use crate::policy::{Layer, MemoryCache, NodeCache};
use crate::state::State;
use crate::store::{Retention, Status};

/// Settings of the runs of a [`Runner`](super::Runner).
///
/// Defaults:
/// - `step_limit`: 1,000 supersteps a call (design §4); a limit of L allows exactly L
/// - `deadline`, `superstep_deadline`: none
/// - `concurrency`: none, all tasks of a superstep at once
/// - `grace`: 5 s for a running node to end after a stop was asked for
/// - `siblings`: fail fast
/// - `busy`: refuse
/// - `poison_limit`: 5 takeovers of one superstep (design §5)
/// - `durability`: each result before what depends on it (design §6)
/// - `base_every`: 64 commits (design §6)
/// - `retention`: all checkpoints stay
/// - `check_round_trip`: yes; a value that is acknowledged can be read again
/// - `backlog`: 256 events that a slow reader may be behind before the run waits at a boundary
/// - `shuffle`: none
/// - `pause_before`, `pause_after`: no node
/// - `park_after`: 1 s
/// - `pin`: no
/// - `cache`: one in memory, shared by all that is run with these options and their clones
/// - `cancel`: none
/// - `layers`: none
/// - `context`: no values
#[derive(Clone)]
#[non_exhaustive]
pub struct RunOptions {
    /// How many supersteps one call may execute.
    pub step_limit: u64,
    /// How long one call may take.
    pub deadline: Option<Duration>,
    /// How long one superstep may take.
    pub superstep_deadline: Option<Duration>,
    /// How many tasks of one run may execute at once.
    pub concurrency: Option<usize>,
    /// How long a running node may go on after a stop was asked for. What ends in time is recorded.
    pub grace: Duration,
    /// What becomes of the other tasks of a superstep when one has failed.
    pub siblings: Siblings,
    /// What to do when another call holds the thread.
    pub busy: Busy,
    /// How often one superstep may be taken over after a crash before the run counts as poisoned.
    pub poison_limit: u32,
    /// When a run waits until what it has written is durable.
    pub durability: Durability,
    /// How many commits lie between two stored bases: the most that loading replays.
    pub base_every: u32,
    /// Which checkpoints of a thread stay.
    pub retention: Retention,
    /// Whether every update is encoded, decoded and compared before it is stored.
    pub check_round_trip: bool,
    /// How many events a reader may be behind before the run waits for it, at a boundary.
    pub backlog: usize,
    /// For tests: shuffles, by this seed, every order that a graph leaves open.
    pub shuffle: Option<u64>,
    /// Nodes before which a run pauses: at the boundary at which one of them is next.
    pub pause_before: Vec<String>,
    /// Nodes after which a run pauses: at the boundary that closes one of them.
    pub pause_after: Vec<String>,
    /// The longest wait of a sleeping node that holds its process; a longer one parks the thread.
    pub park_after: Duration,
    /// Whether a thread that is not finished may only go on with the version of its graph that has
    /// written it.
    pub pin: bool,
    /// Where nodes keep their outcomes that have a cache.
    pub cache: Arc<dyn NodeCache>,
    /// Stops the runs.
    pub cancel: Option<Cancel>,
    /// Layers around each try of each task, outermost first.
    pub layers: Vec<Arc<dyn Layer>>,
    /// What is given for every call; the command of a call may give others.
    pub context: RunContext,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            step_limit: 1000,
            deadline: None,
            superstep_deadline: None,
            concurrency: None,
            grace: Duration::from_secs(5),
            siblings: Siblings::FailFast,
            busy: Busy::Refuse,
            poison_limit: 5,
            durability: Durability::default(),
            base_every: 64,
            retention: Retention::all(),
            check_round_trip: true,
            backlog: 256,
            shuffle: None,
            pause_before: Vec::new(),
            pause_after: Vec::new(),
            park_after: Duration::from_secs(1),
            pin: false,
            cache: Arc::new(MemoryCache::new()),
            cancel: None,
            layers: Vec::new(),
            context: RunContext::new(),
        }
    }
}

impl RunOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many supersteps one call may execute.
    #[must_use]
    pub fn step_limit(mut self, supersteps: u64) -> Self {
        self.step_limit = supersteps;
        self
    }

    /// Sets how long one call may take.
    #[must_use]
    pub fn deadline(mut self, time: Duration) -> Self {
        self.deadline = Some(time);
        self
    }

    /// Sets how long one superstep may take.
    #[must_use]
    pub fn superstep_deadline(mut self, time: Duration) -> Self {
        self.superstep_deadline = Some(time);
        self
    }

    /// Sets how many tasks of one run may execute at once.
    #[must_use]
    pub fn concurrency(mut self, tasks: usize) -> Self {
        self.concurrency = Some(tasks);
        self
    }

    /// Sets the grace time.
    #[must_use]
    pub fn grace(mut self, time: Duration) -> Self {
        self.grace = time;
        self
    }

    /// Sets what becomes of the other tasks of a superstep when one has failed.
    #[must_use]
    pub fn siblings(mut self, siblings: Siblings) -> Self {
        self.siblings = siblings;
        self
    }

    /// Sets what to do when another call holds the thread.
    #[must_use]
    pub fn busy(mut self, busy: Busy) -> Self {
        self.busy = busy;
        self
    }

    /// Sets how often one superstep may be taken over after a crash.
    #[must_use]
    pub fn poison_limit(mut self, takeovers: u32) -> Self {
        self.poison_limit = takeovers;
        self
    }

    /// Sets when a run waits until what it has written is durable.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets how many commits lie between two stored bases; at least 1.
    #[must_use]
    pub fn base_every(mut self, commits: u32) -> Self {
        self.base_every = commits.max(1);
        self
    }

    /// Sets which checkpoints of a thread stay. The others are dropped when a call has ended, whatever
    /// its end, and every 1,024 supersteps or more of a long one, under the call's own claim. Only
    /// what lies before a stored base can be dropped, so it is looked at where a base was written
    /// since the last time. That it cannot be done is a warning in the log of the program, never the
    /// end of a run.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Sets whether every update is encoded, decoded and compared before it is stored.
    #[must_use]
    pub fn check_round_trip(mut self, check: bool) -> Self {
        self.check_round_trip = check;
        self
    }

    /// Sets how many events a reader may be behind; at least 1.
    #[must_use]
    pub fn backlog(mut self, events: usize) -> Self {
        self.backlog = events.max(1);
        self
    }

    /// Shuffles every order that a graph leaves open.
    #[must_use]
    pub fn shuffle(mut self, seed: u64) -> Self {
        self.shuffle = Some(seed);
        self
    }

    /// Pauses before nodes: where one of them is next, the call ends with
    /// [`Ended::Paused`](super::Ended::Paused), and the next call goes on.
    #[must_use]
    pub fn pause_before(mut self, nodes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.pause_before.extend(nodes.into_iter().map(Into::into));
        self
    }

    /// Pauses after nodes: where one of them has run, the call ends with
    /// [`Ended::Paused`](super::Ended::Paused), and the next call goes on.
    #[must_use]
    pub fn pause_after(mut self, nodes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.pause_after.extend(nodes.into_iter().map(Into::into));
        self
    }

    /// How a thread stands at a boundary: before these tasks, after those nodes.
    pub(crate) fn status_at<S: State>(
        &self,
        graph: &Compiled<S>,
        next: &[Task],
        ran: &[u32],
    ) -> Status {
        let is_one = |names: &[String], node: u32| {
            let name = graph.node(node).name.as_str();
            names.iter().any(|known| known == name)
        };
        if next.is_empty() {
            Status::Finished
        } else if next
            .iter()
            .any(|task| is_one(&self.pause_before, task.node))
            || ran.iter().any(|node| is_one(&self.pause_after, *node))
        {
            Status::Paused
        } else {
            Status::Running
        }
    }

    /// Refuses pauses at nodes that the graph does not have: they would never come.
    pub(crate) fn check_pauses(&self, graph: &GraphView) -> Result<(), RunError> {
        let named = self.pause_before.iter().chain(&self.pause_after);
        let has = |name: &str| graph.nodes.iter().any(|node| node.name.as_str() == name);
        match named.into_iter().find(|name| !has(name)) {
            None => Ok(()),
            Some(node) => Err(RunError::NoPause {
                graph: graph.name.clone(),
                node: node.clone(),
                known: graph.nodes.iter().map(|node| node.name.clone()).collect(),
            }),
        }
    }

    /// Sets the longest wait of a sleeping node that holds its process.
    #[must_use]
    pub fn park_after(mut self, time: Duration) -> Self {
        self.park_after = time;
        self
    }

    /// Whether each boundary has to be looked at.
    pub(crate) fn needs_the_long_way(&self) -> bool {
        self.superstep_deadline.is_some()
            || !self.pause_before.is_empty()
            || !self.pause_after.is_empty()
    }

    /// Has a thread that is not finished go on only with the version of its graph that has written
    /// it: one of another fingerprint is refused with
    /// [`RunError::GraphVersionMismatch`], which lists what differs (S050). Without this, a
    /// difference that stands in the way of nothing is a warning.
    #[must_use]
    pub fn pin(mut self) -> Self {
        self.pin = true;
        self
    }

    /// Sets where nodes keep their outcomes that have a cache
    /// ([`Builder::cache`](crate::Builder::cache)).
    #[must_use]
    pub fn cache(self, cache: impl NodeCache) -> Self {
        self.shared_cache(Arc::new(cache))
    }

    /// Sets the same, where others use it, too.
    #[must_use]
    pub fn shared_cache(mut self, cache: Arc<dyn NodeCache>) -> Self {
        self.cache = cache;
        self
    }

    /// Sets the handle that stops the runs.
    #[must_use]
    pub fn cancel(mut self, cancel: Cancel) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// Adds a layer inside those that are there.
    #[must_use]
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    /// Gives a value for every call, by type: nodes read it by
    /// [`Context::run_context`](crate::Context::run_context). It is never stored or shown.
    #[must_use]
    pub fn context<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.context = self.context.and(value);
        self
    }
}

impl fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOptions")
            .field("step_limit", &self.step_limit)
            .field("deadline", &self.deadline)
            .field("superstep_deadline", &self.superstep_deadline)
            .field("concurrency", &self.concurrency)
            .field("grace", &self.grace)
            .field("siblings", &self.siblings)
            .field("busy", &self.busy)
            .field("poison_limit", &self.poison_limit)
            .field("durability", &self.durability)
            .field("base_every", &self.base_every)
            .field("retention", &self.retention)
            .field("check_round_trip", &self.check_round_trip)
            .field("backlog", &self.backlog)
            .field("shuffle", &self.shuffle)
            .field("park_after", &self.park_after)
            .field("pin", &self.pin)
            .field("pause_before", &self.pause_before)
            .field("pause_after", &self.pause_after)
            .field("layers", &self.layers.len())
            .finish_non_exhaustive()
    }
}

/// What becomes of the other tasks of a superstep when one of them has failed for good, and nothing
/// takes the failure on. Either way those that end are recorded and are not run again, and the
/// error names all that have failed, in path order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Siblings {
    /// Nothing more starts, not the next try of another task either; what runs may end.
    FailFast,
    /// All others start and end, with all their tries, before the call fails.
    Collect,
}

/// What to do when another call holds the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Busy {
    /// Fail at once.
    Refuse,
    /// Wait this long for it, then fail.
    Wait(Duration),
    /// Take the thread over: the other call's next write is refused, and it stops.
    Replace,
}
