//! The store of a family, on the engine that it was begun with.

use std::path::Path;
use std::sync::Arc;

use milepost::store::{CheckpointStore, SledOptions, SledStore, StoreEngine, StoreError};
#[cfg(feature = "fjall")]
use milepost::store::{FjallOptions, FjallStore};

/// In a family's folder: the engine of its store.
const ENGINE: &str = "engine";

/// In a family's folder, where its store keeps values of more than [`LONG`] bytes apart.
const APART: &str = "apart";

/// Few enough that most lists, texts and updates here are long values.
const LONG: usize = 700;

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

/// From now on long values are kept apart from their records.
pub(crate) fn keep_apart(folder: &Path) {
    std::fs::write(folder.join(APART), "").unwrap();
}

pub(crate) fn open(folder: &Path) -> Result<Arc<dyn CheckpointStore>, StoreError> {
    let name = std::fs::read_to_string(folder.join(ENGINE)).unwrap();
    let path = folder.join("store");
    let engine = named(&name);
    if !folder.join(APART).exists() {
        return engine.open(path);
    }
    match engine {
        StoreEngine::Sled => {
            let mut options = SledOptions::default();
            options.blob_bytes = LONG;
            Ok(Arc::new(SledStore::open_with(path, options)?))
        }
        #[cfg(feature = "fjall")]
        StoreEngine::Fjall => {
            let mut options = FjallOptions::default();
            options.blob_bytes = LONG;
            Ok(Arc::new(FjallStore::open_with(path, options)?))
        }
        other => panic!("{other} is not built"),
    }
}

fn named(name: &str) -> StoreEngine {
    let engine = StoreEngine::ALL.into_iter().find(|it| it.name() == name);
    engine.unwrap()
}
