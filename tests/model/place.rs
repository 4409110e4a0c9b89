//! Where threads are kept, and small things of their drive.

use std::sync::Arc;

use milepost::store::{CheckpointStore, MemoryStore, SledStore};
use milepost::{Event, EventKind};

#[derive(Debug)]
pub(crate) enum Place {
    Nowhere,
    Memory(MemoryStore),
    Sled(tempfile::TempDir),
}

impl Place {
    /// The store, opened anew where there is something to open.
    pub(crate) fn open(&self) -> Option<Arc<dyn CheckpointStore>> {
        match self {
            Place::Nowhere => None,
            Place::Memory(store) => Some(Arc::new(store.clone())),
            Place::Sled(dir) => Some(Arc::new(SledStore::open(dir.path().join("s")).unwrap())),
        }
    }
}

/// What a reader of the log sees too.
pub(crate) fn lasting(events: &[Event]) -> Vec<Event> {
    let live = |event: &&Event| {
        !matches!(
            event.kind,
            EventKind::SuperstepStarted { .. }
                | EventKind::TaskStarted { .. }
                | EventKind::Token { .. }
                | EventKind::Custom { .. }
                | EventKind::Durable { .. }
        )
    };
    events.iter().filter(live).cloned().collect()
}

/// Waits for a number of turns of the scheduler that depends on numbers: a delay without a clock.
pub(crate) async fn wander(seed: u64, salt: u64) {
    for _ in 0..crate::book::mixed(&[seed, salt]) % 7 {
        tokio::task::yield_now().await;
    }
}
