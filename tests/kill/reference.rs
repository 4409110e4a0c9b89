//! What threads look like, for the comparison with an undisturbed run.

use std::path::Path;
use std::sync::Arc;

use milepost::store::{CheckpointStore, Stored};
use milepost::{Seq, history};

use super::child::{Plan, runner};
use super::diary::{Diary, Effect};
use super::disk;
use super::state::Work;

/// A folder whose children are all dead.
pub(crate) struct Remains {
    pub(crate) store: Arc<dyn CheckpointStore>,
    pub(crate) diary: Diary,
}

impl Remains {
    pub(crate) fn open(folder: &Path) -> Result<Self, String> {
        Ok(Self {
            store: disk::open(folder).map_err(|error| error.to_string())?,
            diary: Diary::open(folder),
        })
    }

    /// All records of a thread.
    pub(crate) async fn records(&self, plan: &Plan) -> Result<Vec<Stored>, String> {
        let thread = plan.id();
        let all = self.store.records(&thread, Seq::new(0), usize::MAX);
        all.await.map_err(|error| error.to_string())
    }

    /// The newest state of a thread.
    pub(crate) async fn state(&self, plan: &Plan) -> Result<Vec<u8>, String> {
        let runner = runner(
            plan.shape,
            &self.diary,
            Arc::clone(&self.store),
            None,
            plan.mode,
        );
        let state = runner.state(&plan.id()).await;
        state
            .map(|state| state.bytes())
            .map_err(|error| error.to_string())
    }
}

/// A thread's past, less times and seqs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Past {
    pub(crate) checkpoints: Vec<Was>,
}

/// A checkpoint: what it says, and the bytes of its state.
#[derive(PartialEq, Eq)]
pub(crate) struct Was {
    pub(crate) says: String,
    pub(crate) state: Vec<u8>,
}

impl std::fmt::Debug for Was {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state: Work = rmp_serde::from_slice(&self.state).unwrap();
        write!(f, "{} {state:?}", self.says)
    }
}

impl Past {
    pub(crate) async fn of(remains: &Remains, plan: &Plan) -> Result<Self, String> {
        let store: Arc<dyn CheckpointStore> = Arc::clone(&remains.store);
        let runner = runner(
            plan.shape,
            &remains.diary,
            Arc::clone(&store),
            None,
            plan.mode,
        );
        let thread = plan.id();
        let found = history(&*store, &thread).await;
        let mut checkpoints = Vec::new();
        for checkpoint in found.map_err(|error| error.to_string())? {
            let state = runner.state_at(&thread, checkpoint.seq).await;
            let state = state.map_err(|error| error.to_string())?.bytes();
            let says = format!(
                "{} {:?} ran {:?} wrote {:?} next {:?} {}",
                checkpoint.step,
                checkpoint.input,
                checkpoint.ran,
                checkpoint.wrote,
                checkpoint.next,
                checkpoint.status
            );
            checkpoints.push(Was { says, state });
        }
        Ok(Self { checkpoints })
    }

    /// Where two pasts differ.
    pub(crate) fn compare(&self, other: &Self) -> Result<(), String> {
        let (ours, theirs) = (&self.checkpoints, &other.checkpoints);
        if ours.len() != theirs.len() {
            return Err(format!(
                "{} checkpoints, undisturbed {}",
                ours.len(),
                theirs.len()
            ));
        }
        match ours.iter().zip(theirs).find(|(our, their)| our != their) {
            Some((our, their)) => Err(format!("{our:?}\nundisturbed: {their:?}")),
            None => Ok(()),
        }
    }
}

/// An undisturbed run of some plans.
pub(crate) struct Reference {
    pub(crate) pasts: Vec<Past>,
    /// How many operations of the store it took.
    pub(crate) operations: u64,
    /// How many lines it wrote into the diary.
    pub(crate) lines: usize,
}

impl Reference {
    /// Reads it from the folder of a child that was left alone.
    pub(crate) async fn read(folder: &Path, plans: &[Plan]) -> Self {
        let remains = Remains::open(folder).unwrap();
        let mut pasts = Vec::new();
        for plan in plans {
            pasts.push(Past::of(&remains, plan).await.unwrap());
        }
        let effects = remains.diary.read();
        let operations = effects.iter().find_map(|effect| match effect {
            Effect::Operations(count) => Some(*count),
            _ => None,
        });
        Self {
            pasts,
            operations: operations.unwrap(),
            lines: effects.len(),
        }
    }
}
