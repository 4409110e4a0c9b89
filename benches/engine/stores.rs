//! Where the steps of a measured run are kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;

use milepost::store::{CheckpointStore, MemoryStore, SledStore};
use milepost::{RunOptions, Runner, State};

use crate::counted::{Counted, Handed};
use crate::job::Outcome;

/// An open store, and the settings that belong to it.
pub(crate) struct Kept {
    store: Option<Arc<dyn CheckpointStore>>,
    options: RunOptions,
    counted: Option<Counted>,
}

impl Kept {
    /// Opens a store by its name, for runs of so many steps.
    pub(crate) fn open(name: &str, folder: &Path, steps: usize) -> Outcome<Self> {
        // What is written is not read back and compared here: others do not do that either.
        let options = RunOptions::new()
            .step_limit(steps as u64 + 2)
            .check_round_trip(false);
        let counted = Counted::default();
        let (store, options): (Option<Arc<dyn CheckpointStore>>, _) = match name {
            "none" => (None, options),
            "mem" => (Some(Arc::new(MemoryStore::new())), options),
            "counted" => (Some(Arc::new(counted.clone())), options),
            "sled" => (Some(Arc::new(SledStore::open(folder)?)), options),
            other => {
                let known = "none, mem, sled, counted, bare-append, bare-sled";
                return Err(format!("no store {other}: {known}").into());
            }
        };
        Ok(Self {
            store,
            options,
            counted: (name == "counted").then_some(counted),
        })
    }

    pub(crate) fn runner<S: State>(&self, runner: Runner<S>) -> Runner<S> {
        let runner = runner.options(self.options.clone());
        match &self.store {
            None => runner,
            Some(store) => runner.shared_store(Arc::clone(store)),
        }
    }

    /// The bytes of each write so far, where they are counted.
    pub(crate) fn handed(&self) -> Vec<Handed> {
        self.counted.as_ref().map(Counted::handed).unwrap_or_default()
    }
}

/// The folder for stores, which goes with it.
pub(crate) struct Data(PathBuf);

impl Data {
    pub(crate) fn new(workload: &str, store: &str) -> Outcome<Self> {
        let root = std::env::var("BENCH_DATA").unwrap_or_else(|_| "target/bench-data".to_owned());
        let folder = Path::new(&root).join(format!("{workload}-{store}-{}", process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// An empty folder for one store; the one before is gone.
    pub(crate) fn fresh(&self) -> Outcome<PathBuf> {
        fs::remove_dir_all(&self.0)?;
        fs::create_dir_all(&self.0)?;
        Ok(self.0.join("store"))
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        // A folder that is left over harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}
