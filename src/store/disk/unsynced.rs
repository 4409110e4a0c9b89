//! The control of a power cut: a store that does everything but wait for the disk.

use std::path::Path;
use std::sync::Arc;

use super::super::contract::{CheckpointStore, StoreError};
use super::engine::{Batch, Disk};
use super::{DiskStore, StoreEngine};

/// Opens a store that acknowledges what no disk has. **It loses data**: a test of power cuts that
/// finds nothing missing in it has tested nothing.
///
/// # Errors
/// As [`StoreEngine::open`].
pub fn without_sync(
    engine: StoreEngine,
    path: impl AsRef<Path>,
) -> Result<Arc<dyn CheckpointStore>, StoreError> {
    let mut opened = engine.opened(path.as_ref())?;
    opened.disk = Box::new(Unsynced(opened.disk));
    Ok(Arc::new(DiskStore::<StoreEngine>::start(opened)?))
}

struct Unsynced(Box<dyn Disk>);

impl Disk for Unsynced {
    fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        self.0.write(batch)
    }

    fn together(&self) -> usize {
        self.0.together()
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.0.flush()
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn note(&mut self, batch: u64) {
        self.0.note(batch);
    }
}
