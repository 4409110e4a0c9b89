//! Where the steps of a measured run are kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;

#[cfg(feature = "fjall")]
use milepost::store::FjallStore;
use milepost::store::{CheckpointStore, MemoryStore, SledStore};
use milepost::{Durability, RunOptions, Runner, State};

use crate::bare::{Append, Bare, Sled};
use crate::counted::Counted;
use crate::job::{Outcome, Run};

/// An open store, and the settings that belong to it.
pub(crate) struct Kept {
    store: Option<Arc<dyn CheckpointStore>>,
    options: RunOptions,
    counted: Option<Counted>,
}

impl Kept {
    /// Opens a store by its name, for runs of so many steps.
    ///
    /// `mem+counted` counts the bytes that the store is given; `sled+batch` and `sled+append` write them
    /// once more, bare, after each write of the store.
    pub(crate) fn open(name: &str, folder: &Path, steps: usize) -> Outcome<Self> {
        let (name, counts, bare): (_, _, Option<Box<dyn Bare>>) = match name.split_once('+') {
            None => (name, false, None),
            Some((name, "counted")) => (name, true, None),
            Some((name, "append")) => (
                name,
                true,
                Some(Box::new(Append::open(&folder.join("bare"))?)),
            ),
            Some((name, "batch")) => (
                name,
                true,
                Some(Box::new(Sled::open(&folder.join("bare"))?)),
            ),
            Some((_, other)) => {
                return Err(format!("nothing called {other}: counted, append, batch").into());
            }
        };
        // What is written is not read back and compared here: others do not do that either.
        let options = RunOptions::new()
            .step_limit(steps as u64 + 2)
            .check_round_trip(false);
        let folder = folder.join("store");
        let (store, options): (Option<Arc<dyn CheckpointStore>>, _) = match name {
            "none" => (None, options),
            "mem" => (Some(Arc::new(MemoryStore::new())), options),
            "sled" => (Some(Arc::new(SledStore::open(folder)?)), options),
            "sled-background" => {
                let options = options.durability(Durability::Background);
                (Some(Arc::new(SledStore::open(folder)?)), options)
            }
            #[cfg(feature = "fjall")]
            "fjall" => (Some(Arc::new(FjallStore::open(folder)?)), options),
            other => {
                let known = "none, mem, sled, sled-background, fjall (with that feature)";
                return Err(format!("no store {other}: {known}").into());
            }
        };
        let counted = store
            .clone()
            .filter(|_| counts)
            .map(|store| Counted::new(store, bare));
        Ok(Self {
            store,
            options,
            counted,
        })
    }

    pub(crate) fn runner<S: State>(&self, runner: Runner<S>) -> Runner<S> {
        let runner = runner.options(self.options.clone());
        match (&self.counted, &self.store) {
            (Some(counted), _) => runner.store(counted.clone()),
            (None, Some(store)) => runner.shared_store(Arc::clone(store)),
            (None, None) => runner,
        }
    }

    /// What was counted, and the time of the bare writes, which is taken off that of the run.
    pub(crate) fn told(&self, mut run: Run) -> Run {
        if let Some(counted) = &self.counted {
            run.handed = counted.handed();
            if let Some((aside, bare)) = counted.beside() {
                run.spent.wall = run.spent.wall.saturating_sub(aside);
                run.bare = Some(bare);
            }
        }
        run
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
        Ok(self.0.clone())
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        // A folder that is left over harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}
