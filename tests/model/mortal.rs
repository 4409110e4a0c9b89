//! A store that dies at a chosen write: from then on, nothing is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use milepost::store::{CheckpointStore, Layer, Operation, StoreError, Write};

use crate::world::World;

/// When a store dies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Death {
    Never,
    /// At the write with this number, from 1: it is not done.
    Before(u32),
    /// It is done, and nobody hears of it.
    After(u32),
}

#[derive(Debug)]
pub(crate) struct Mortal {
    inner: Arc<dyn CheckpointStore>,
    world: Arc<World>,
    death: Death,
    writes: AtomicU32,
}

impl Mortal {
    pub(crate) fn new(inner: Arc<dyn CheckpointStore>, world: &Arc<World>, death: Death) -> Self {
        Self {
            inner,
            world: Arc::clone(world),
            death,
            writes: AtomicU32::new(0),
        }
    }

    fn dead() -> StoreError {
        StoreError::Io {
            action: "write".to_owned(),
            source: Arc::new(std::io::Error::other("the store is dead")),
        }
    }

    fn lives(&self) -> Result<(), StoreError> {
        match self.death {
            Death::Before(at) | Death::After(at) if self.writes.load(Ordering::SeqCst) >= at => {
                Err(Self::dead())
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Layer for Mortal {
    fn below(&self) -> Arc<dyn CheckpointStore> {
        self.inner.clone()
    }
    async fn pass<T: Send>(
        &self,
        _: Operation,
        operation: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.lives()?;
        operation.await
    }
    async fn append(&self, write: Write) -> Result<(), StoreError> {
        self.lives()?;
        let number = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if self.death == Death::Before(number) {
            return Err(Self::dead());
        }
        self.inner.append(write.clone()).await?;
        if self.death == Death::After(number) {
            return Err(Self::dead());
        }
        self.world.written(&write);
        Ok(())
    }
}
