//! A store that ends its process at a chosen operation.

use std::process::abort;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use milepost::store::{CheckpointStore, Layer, Operation, StoreError, Write};
use serde::{Deserialize, Serialize};

use super::diary::Diary;

/// Where a process ends.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Which operation, from 1.
    pub(crate) at: u64,
    pub(crate) moment: Moment,
    pub(crate) among: Among,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Moment {
    /// Before anything of it is done.
    Before,
    /// So many microseconds after it has begun, wherever that is.
    During(u64),
    /// When it is done, before its caller hears of it.
    After,
}

/// Which operations are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Among {
    All,
    Appends,
    /// Deleting, copying, restoring and pruning.
    Upkeep,
}

#[derive(Debug)]
pub(crate) struct Failpoint {
    inner: Arc<dyn CheckpointStore>,
    diary: Diary,
    point: Option<Point>,
    counts: [AtomicU64; 3],
}

impl Failpoint {
    pub(crate) fn new(
        inner: Arc<dyn CheckpointStore>,
        diary: Diary,
        point: Option<Point>,
    ) -> Arc<Self> {
        Arc::new(Self {
            inner,
            diary,
            point,
            counts: Default::default(),
        })
    }

    /// How many operations there were.
    pub(crate) fn operations(&self) -> u64 {
        self.counts[Among::All as usize].load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Layer for Failpoint {
    fn below(&self) -> Arc<dyn CheckpointStore> {
        self.inner.clone()
    }

    async fn pass<T: Send>(
        &self,
        kind: Operation,
        operation: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let kind = match kind {
            Operation::Append => Among::Appends,
            Operation::Upkeep => Among::Upkeep,
            _ => Among::All,
        };
        let mut number = 0;
        let counted = self.point.map_or(Among::All, |point| point.among);
        let one = |among: Among| self.counts[among as usize].fetch_add(1, Ordering::SeqCst) + 1;
        let all = one(Among::All);
        if counted == Among::All {
            number = all;
        } else if counted == kind {
            number = one(kind);
        }
        let here = self.point.filter(|point| point.at == number);
        match here.map(|point| point.moment) {
            Some(Moment::Before) => abort(),
            Some(Moment::During(micros)) => {
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_micros(micros));
                    abort()
                });
            }
            _ => {}
        }
        let done = operation.await;
        if let Some(Moment::After) = here.map(|point| point.moment) {
            abort()
        }
        done
    }

    async fn append(&self, write: Write) -> Result<(), StoreError> {
        let append = async {
            let done = self.inner.append(write.clone()).await;
            if done.is_ok() {
                self.diary.written(&write);
            }
            done
        };
        self.pass(Operation::Append, append).await
    }
}
