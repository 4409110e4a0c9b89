//! The store of a family, on the engine that it was begun with.

use std::path::Path;
use std::sync::Arc;

use milepost::store::{CheckpointStore, StoreEngine, StoreError};

/// In a family's folder: the engine of its store.
const ENGINE: &str = "engine";

/// The engine of families that name none: `MILEPOST_TEST_ENGINE`, or sled.
pub(crate) fn usual() -> StoreEngine {
    match std::env::var("MILEPOST_TEST_ENGINE") {
        Ok(name) => named(&name),
        Err(_) => StoreEngine::Sled,
    }
}

pub(crate) fn choose(folder: &Path, engine: StoreEngine) {
    std::fs::write(folder.join(ENGINE), engine.name()).unwrap();
}

pub(crate) fn open(folder: &Path) -> Result<Arc<dyn CheckpointStore>, StoreError> {
    let name = std::fs::read_to_string(folder.join(ENGINE)).unwrap();
    named(&name).open(folder.join("store"))
}

fn named(name: &str) -> StoreEngine {
    let engine = StoreEngine::ALL.into_iter().find(|it| it.name() == name);
    engine.unwrap()
}
