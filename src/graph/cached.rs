//! Which nodes keep their outcomes, under which keys, and for how long.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::builder::Builder;
use super::compiled::Entry;
use super::error::Problem;
use super::target::{NodeRef, WorkerRef};
use super::view::{GraphView, NodeKind};
use crate::node::{Exits, Payload};
use crate::state::{State, digest_of};

/// Makes a key of a payload and a state; none where its serde code refuses.
type MakeKey<S> = Arc<dyn Fn(Option<&Payload>, &S) -> Option<u128> + Send + Sync>;

/// How the outcomes of a node are kept.
pub(crate) struct Cached<S> {
    pub(crate) key: MakeKey<S>,
    pub(crate) fresh: Duration,
    /// Stands for everything in the graph and the state's type that an outcome depends on.
    pub(crate) space: [u8; 16],
}

impl<S: State> Builder<S> {
    /// Keeps the outcomes of a node for a time under a key: where the key was seen before, the task
    /// takes the update and the exit from then, and the node is not run. The key is any value that
    /// serde can write, and has to have everything that the outcome depends on: what the node reads
    /// of the state, and of the world outside as much as may not be out of date.
    ///
    /// Of tasks with one key, one runs at a time, and the others take what it has found; a failure
    /// is never kept. Where outcomes are kept is said by
    /// [`RunOptions::cache`](crate::RunOptions::cache), in memory by default. [`build`](Self::build)
    /// refuses a cache for a node that asks, that is irreversible, or that runs a graph. A node whose
    /// outcome depends on the run context is not for a cache: the key does not see it.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use milepost::{Context, End, Graph, NodeError, Snapshot, State};
    ///
    /// #[derive(Clone, Default, State)]
    /// struct Trip {
    ///     city: String,
    ///     weather: String,
    /// }
    ///
    /// async fn look_up(trip: Snapshot<Trip>, _: Context) -> Result<TripUpdate, NodeError> {
    ///     Ok(Trip::update().weather(format!("rain in {}", trip.city)))
    /// }
    ///
    /// # fn main() -> Result<(), milepost::BuildError> {
    /// let mut g = Graph::builder("trip");
    /// let look_up = g.node("look up", look_up);
    /// g.cache(look_up, |trip: &Trip| trip.city.clone(), Duration::from_secs(600));
    /// g.start(look_up);
    /// g.edge(look_up, End);
    /// g.build()?;
    /// # Ok(()) }
    /// ```
    pub fn cache<E: Exits, K: Serialize>(
        &mut self,
        node: NodeRef<S, E>,
        key: impl Fn(&S) -> K + Send + Sync + 'static,
        fresh: Duration,
    ) {
        let key: MakeKey<S> = Arc::new(move |_, state| digest_of(&key(state)));
        if let Some(entry) = self.entry(node.at) {
            entry.cache = Some(Cached::new(key, fresh));
        }
    }

    /// Keeps the outcomes of a worker's tasks as [`cache`](Self::cache) does, under a key of the
    /// payload and the state.
    pub fn worker_cache<P: 'static, E: Exits, K: Serialize>(
        &mut self,
        worker: WorkerRef<S, P, E>,
        key: impl Fn(&P, &S) -> K + Send + Sync + 'static,
        fresh: Duration,
    ) {
        let key: MakeKey<S> = Arc::new(move |payload, state| {
            let payload = payload.and_then(Payload::get::<P>)?;
            digest_of(&key(payload, state))
        });
        if let Some(entry) = self.entry(worker.at) {
            entry.cache = Some(Cached::new(key, fresh));
        }
    }
}

impl<S> Cached<S> {
    fn new(key: MakeKey<S>, fresh: Duration) -> Self {
        Self {
            key,
            fresh,
            space: [0; 16],
        }
    }
}

/// Refuses a cache where what a node did before may not stand for what it would do now.
pub(super) fn check<S: State>(node: &Entry<S>, problems: &mut Vec<Problem>) {
    let Some(cached) = &node.cache else { return };
    let reason = if node.asks.is_some() {
        "it asks, and an answer is given to one question"
    } else if node.policy.is_irreversible() {
        "it is irreversible: what it did once was not done for another task"
    } else if node.inner.is_some() || node.kind == NodeKind::Subgraph {
        "it runs a graph: give that graph's own nodes a cache"
    } else if cached.fresh.is_zero() {
        "a time of 0 keeps nothing"
    } else {
        return;
    };
    problems.push(Problem::Cache {
        node: node.name.clone(),
        reason,
    });
}

/// Names the places where the outcomes of each node are kept.
pub(super) fn name_spaces<S: State>(view: &GraphView, nodes: &mut [Entry<S>]) {
    for (shown, node) in view.nodes.iter().zip(nodes) {
        let Some(cached) = &mut node.cache else {
            continue;
        };
        let mut hash = blake3::Hasher::new();
        let mut add = |text: &str| {
            hash.update(&(text.len() as u64).to_le_bytes())
                .update(text.as_bytes());
        };
        add(&view.name);
        add(shown.name.as_str());
        add(&shown.exits.join("\n"));
        add(shown.payload_shape.as_deref().unwrap_or_default());
        add(&S::VERSION.to_string());
        for field in &view.fields {
            add(field.name);
            add(&field.shape);
            add(field.reducer.id);
            add(&format!("{:?} {}", field.reducer.version, field.codec));
        }
        cached
            .space
            .copy_from_slice(&hash.finalize().as_bytes()[..16]);
    }
}
