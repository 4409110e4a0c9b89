//! Which engine keeps a store: its folder tells.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::super::contract::{CheckpointStore, StoreError};
use super::DiskStore;
#[cfg(feature = "encryption")]
use super::Keyring;
use super::engine::Opened;

/// The engines that a store on disk can have. A folder that is a store tells its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreEngine {
    /// sled: the default; needs the feature `sled`.
    Sled,
    /// fjall: faster to write; needs the feature `fjall`.
    Fjall,
}

impl StoreEngine {
    /// All engines, whether this program was built with them or not.
    pub const ALL: [Self; 2] = [Self::Sled, Self::Fjall];

    /// The engine's name, which is that of the feature as well.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sled => "sled",
            Self::Fjall => "fjall",
        }
    }

    /// What the engine alone has in a folder.
    pub(super) const fn data(self) -> &'static str {
        match self {
            Self::Sled => "db",
            Self::Fjall => "fjall",
        }
    }

    /// The engine that keeps the store in this folder; none if none has written there yet.
    pub fn found(path: impl AsRef<Path>) -> Option<Self> {
        let path = path.as_ref();
        Self::ALL
            .into_iter()
            .find(|engine| path.join(engine.data()).exists())
    }

    /// Opens a folder with the engine's default settings, or makes it. Its parent must be there.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("store");
    /// use milepost::store::StoreEngine;
    ///
    /// let engine = StoreEngine::found(&path).unwrap_or(StoreEngine::Sled);
    /// let store = engine.open(&path).unwrap();
    /// assert_eq!(StoreEngine::found(&path), Some(StoreEngine::Sled));
    /// # drop(store);
    /// ```
    ///
    /// # Errors
    /// [`StoreError::OtherEngine`] if another engine keeps the folder; [`StoreError::NoEngine`] if
    /// this program was built without this one; otherwise as `SledStore::open`.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Arc<dyn CheckpointStore>, StoreError> {
        let opened = self.opened(path.as_ref())?;
        Ok(Arc::new(DiskStore::<Self>::start(opened)?))
    }

    /// The same with keys: what is written is encrypted with the current one, and what is read is
    /// decrypted.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[cfg(feature = "encryption")]
    pub fn open_encrypted(
        self,
        path: impl AsRef<Path>,
        keys: Keyring,
    ) -> Result<Arc<dyn CheckpointStore>, StoreError> {
        let mut opened = self.opened(path.as_ref())?;
        opened.vault.keys = Some(keys);
        Ok(Arc::new(DiskStore::<Self>::start(opened)?))
    }

    /// The folder, opened.
    pub(super) fn opened(self, path: &Path) -> Result<Opened, StoreError> {
        match self {
            #[cfg(feature = "sled")]
            Self::Sled => super::sled::open(path, &Default::default()),
            #[cfg(feature = "fjall")]
            Self::Fjall => super::fjall::open(path, &Default::default()),
            #[cfg(not(all(feature = "sled", feature = "fjall")))]
            engine => {
                engine.alone(path)?;
                Err(StoreError::NoEngine {
                    path: path.to_owned(),
                    engine: engine.name(),
                })
            }
        }
    }

    /// Refuses a folder in which another engine has written.
    pub(super) fn alone(self, path: &Path) -> Result<(), StoreError> {
        let other = Self::ALL
            .into_iter()
            .find(|engine| *engine != self && path.join(engine.data()).exists());
        match other {
            None => Ok(()),
            Some(found) => Err(StoreError::OtherEngine {
                path: path.to_owned(),
                found: found.name(),
                expected: self.name(),
            }),
        }
    }
}

impl fmt::Display for StoreEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
