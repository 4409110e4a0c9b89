//! The calls that make a write durable, behind a seam.
//!
//! A test puts something else here, to see in which order they are called and what becomes of a
//! store whose disk says no.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use sled::{Batch, Db};

use super::super::contract::StoreError;
use super::marker::Marker;
use super::refusal::refusal;

/// What the writer does to the disk, in this order.
pub(super) trait Disk: Send {
    /// Puts a batch into the tree: visible to readers, not yet durable.
    fn write(&mut self, batch: Batch) -> Result<(), StoreError>;

    /// Hands the log to the operating system.
    fn flush(&mut self) -> Result<(), StoreError>;

    /// Waits until the disk has it.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// Notes outside of the tree that this batch is durable.
    fn note(&mut self, batch: u64);
}

/// The real one.
#[derive(Debug)]
pub(super) struct SledDisk {
    pub(super) db: Db,
    /// Our own handle of the file that sled writes: a flush of sled does not sync it.
    pub(super) file: Arc<File>,
    pub(super) path: PathBuf,
    pub(super) marker: Marker,
}

impl Disk for SledDisk {
    fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        self.db
            .apply_batch(batch)
            .map_err(|error| refusal(&self.path, "writing", error))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.db
            .flush()
            .map(|_| ())
            .map_err(|error| refusal(&self.path, "flushing", error))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|error| StoreError::Io {
            action: format!("syncing the store {}", self.path.display()),
            source: Arc::new(error),
        })
    }

    fn note(&mut self, batch: u64) {
        self.marker.set(batch);
    }
}
