//! Station 3 for a node that keeps its outcomes: what a cache says of a task before it is run, and
//! what is kept of it afterwards.
//!
//! In comes a task, out comes its end, if the cache has it, or the right to run it. What the cache
//! has is bytes as in a recorded outcome; what cannot be read of it counts as nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::execute::{Gave, Shared, TaskEnd, panicked};
use super::record;
use crate::engine::{Ended, Outcome};
use crate::graph::{Cached, Compiled};
use crate::node::{NodeError, Payload};
use crate::policy::{Attempt, CacheKey, Flight, NodeCache, now_ms};
use crate::state::{Codec, State};
use crate::store::{Few, StoredChange};

/// What the cache says of a task.
pub(super) enum Found<U> {
    /// How it ended when its key was seen before.
    Kept(TaskEnd<U>),
    /// It is to be run, and kept here.
    Nothing(Slot),
    /// There is no key for it.
    NoKey(NodeError),
}

/// Where the outcome of a task is to be kept. Until this is dropped, no other task of its key runs.
pub(super) struct Slot {
    cache: Arc<dyn NodeCache>,
    flight: Flight,
    key: CacheKey,
}

/// An outcome as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    exit: Option<String>,
    changes: Few<StoredChange>,
}

impl<S: State> Shared<S> {
    /// Asks the cache for a task of a node that keeps its outcomes.
    pub(super) async fn ask_cache(
        &self,
        node: u32,
        cached: &Cached<S>,
        payload: Option<&Payload>,
        before: &S,
    ) -> Found<S::Update> {
        let (started_ms, started) = (now_ms(), Instant::now());
        let made = catch_unwind(AssertUnwindSafe(|| (cached.key)(payload, before)));
        let key = match made {
            Ok(Some(key)) => CacheKey::new(cached.space, key),
            Ok(None) => {
                let what = "the key under which its outcomes are kept cannot be written by serde";
                return Found::NoKey(NodeError::invalid(what));
            }
            Err(panic) => return Found::NoKey(panicked(&*panic)),
        };
        let cache = Arc::clone(&self.cache);
        let flight = Flight::begin(&cache, key).await;
        match self.read(&*cache, node, &key).await {
            None => Found::Nothing(Slot { cache, flight, key }),
            Some(outcome) => {
                let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
                let attempt = Attempt {
                    started_ms,
                    micros,
                    error: None,
                    cached: true,
                };
                Found::Kept(TaskEnd {
                    result: Ok(Gave::Outcome(outcome)),
                    attempts: vec![attempt],
                })
            }
        }
    }

    async fn read(
        &self,
        cache: &dyn NodeCache,
        node: u32,
        key: &CacheKey,
    ) -> Option<Outcome<S::Update>> {
        match cache.get(key).await {
            Ok(bytes) => decode(self.graph.tables(), node, &bytes?),
            Err(error) => {
                tracing::warn!(%key, error = %error.full(), "a cache could not be asked");
                None
            }
        }
    }

    /// Keeps how a task has ended, unless it failed, asks, or cannot be stored.
    pub(super) async fn keep(
        &self,
        slot: Slot,
        node: u32,
        fresh: std::time::Duration,
        result: &Result<Gave<S::Update>, NodeError>,
    ) {
        let Ok(Gave::Outcome(outcome)) = result else {
            return;
        };
        let Ended::Exit(exit) = outcome.ended else {
            return;
        };
        let exits = &self.graph.tables().node(node).exits;
        let exit = exits.get(exit as usize).map(|label| (*label).to_owned());
        // Another task is to get the very same update.
        let encoded = record::changes::<S>(&outcome.update, true)
            .and_then(|changes| encode(&Kept { exit, changes }));
        let kept = match encoded {
            Ok(bytes) => slot.cache.put(&slot.key, bytes, fresh).await,
            Err((field, why)) => Err(NodeError::invalid(format!("{field}: {why}"))),
        };
        if let Err(error) = kept {
            let key = slot.key;
            tracing::warn!(%key, error = %error.full(), "an outcome could not be kept in a cache");
        }
        drop(slot.flight);
    }
}

fn encode(kept: &Kept) -> Result<Vec<u8>, record::Unstorable> {
    let encoded = Codec::MessagePack.encode(kept);
    encoded.map_err(|why| ("an outcome".to_owned(), why))
}

/// What was kept, if it is an outcome of this node.
fn decode<S: State>(graph: &Compiled<S>, node: u32, bytes: &[u8]) -> Option<Outcome<S::Update>> {
    let Kept { exit, changes } = Codec::MessagePack.decode(bytes).ok()?;
    let exits = &graph.node(node).exits;
    let exit = match exit {
        None if exits.is_empty() => 0,
        None => return None,
        Some(label) => exits.iter().position(|exit| *exit == label)?,
    };
    let update = record::update::<S>(&changes, false).ok()?;
    Some(Outcome {
        update,
        ended: Ended::Exit(exit as u32),
    })
}
