//! From a folder that an engine has opened to an open store, and back: the same for all engines.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::contract::StoreError;
use super::engine::{Disk, Opened, Place, Tree};
use super::folder::{self, Holder, free};
use super::marker;
use super::vault::Vault;

/// How long to wait until an engine's background work lets go of its files.
pub(super) const LET_GO: Duration = Duration::from_secs(5);

/// A folder that an engine has opened, of which it is not yet known whether all of it is there.
pub(super) struct Opening<T> {
    pub(super) place: Place,
    pub(super) began: Instant,
    /// The engine's only handle but those of its [`Disk`].
    pub(super) tree: T,
    /// A file that the engine keeps locked as long as anything of it is alive, some threads of its
    /// own longer than the last handle.
    pub(super) lock: Arc<File>,
    pub(super) holder: Holder,
    /// The number of the last batch that was acknowledged, as noted outside of the tree.
    pub(super) noted: Option<u64>,
}

impl<T: Tree + Clone + 'static> Opening<T> {
    /// The open store, unless it lacks what was acknowledged.
    pub(super) fn finish(
        self,
        disk: impl Disk + 'static,
        over: usize,
        vault: Vault,
    ) -> Result<Opened, StoreError> {
        let Self { place, tree, .. } = &self;
        let looked = || {
            let batch = marker::check_tree(place, tree, self.noted)?;
            folder::sync(&place.path)?;
            Ok(batch)
        };
        let batch = match place.guarded(looked) {
            Ok(batch) => batch,
            Err(error) => {
                drop(disk);
                self.close();
                return Err(error);
            }
        };
        tracing::debug!(
            path = %place.path.display(),
            micros = self.began.elapsed().as_micros() as u64,
            "opened a store"
        );
        Ok(Opened {
            place: place.clone(),
            tree: Arc::new(tree.clone()),
            disk: Box::new(disk),
            vault,
            over,
            batch,
            close: Box::new(|| self.close()),
        })
    }

    /// Closes the folder. When it returns, it can be opened again.
    pub(super) fn close(self) {
        let place = self.place;
        let closed = place.guarded(|| {
            drop(self.tree);
            Ok(())
        });
        if let Err(error) = closed {
            tracing::warn!(%error, "a store did not close cleanly");
        }
        if !free(&self.lock, LET_GO) {
            let Place { path, engine } = &place;
            tracing::warn!(path = %path.display(), "{engine} keeps the lock of a closed store");
        }
        self.holder.unlock();
    }
}
