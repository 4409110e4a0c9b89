//! A store around another one that at a chosen operation stops, and with it everything: the process
//! is dead, and only what is stored is left. And that notes what it has answered.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use milepost::store::{
    CheckpointStore, Claim, Layer, Operation, OutcomeRecord, OutcomeRef, Record, StoreError, Take,
    Write,
};
use milepost::{Epoch, ThreadId};
use tokio::sync::Notify;

use super::diary::{Diary, Effect, Place};
use super::failpoint::Moment;

#[derive(Debug)]
pub(crate) struct Still {
    inner: Arc<dyn CheckpointStore>,
    diary: Diary,
    /// At which operation it dies, and when; none where it lives on.
    dies: Option<(u64, Moment)>,
    operations: AtomicU64,
    /// Which of them were writes.
    writes: Mutex<Vec<u64>>,
    /// Whether it takes its process with it.
    aborts: bool,
    /// Whether whoever held the thread before has died.
    orphan: AtomicBool,
    dead: Notify,
}

impl Still {
    pub(crate) fn new(
        inner: Arc<dyn CheckpointStore>,
        diary: &Diary,
        dies: Option<(u64, Moment)>,
        (orphan, aborts): (bool, bool),
    ) -> Arc<Self> {
        Arc::new(Self {
            inner,
            diary: diary.clone(),
            dies,
            operations: AtomicU64::new(0),
            writes: Mutex::default(),
            aborts,
            orphan: AtomicBool::new(orphan),
            dead: Notify::new(),
        })
    }

    pub(crate) fn operations(&self) -> u64 {
        self.operations.load(Ordering::SeqCst)
    }

    /// The numbers of the operations that changed something.
    pub(crate) fn writes(&self) -> Vec<u64> {
        self.writes.lock().unwrap().clone()
    }

    /// Waits until it is dead.
    pub(crate) async fn died(&self) {
        self.dead.notified().await;
    }

    async fn die<T>(&self) -> T {
        if self.aborts {
            std::process::abort();
        }
        self.dead.notify_one();
        std::future::pending().await
    }

    fn noted(&self, write: &Write) {
        let branch = write.branch.get();
        for (record, seq) in write.records.iter().zip(write.first.get()..) {
            let stored = Effect::Stored(branch, seq, digest(record));
            self.diary.note(&stored);
            self.kept(branch, "", record);
        }
    }

    /// Notes the outcomes and steps of a record, below the path of the graph that they are in.
    fn kept(&self, branch: u32, inside: &str, record: &Record) {
        let kept = |what: String| {
            let what = format!("{inside}{what}");
            self.diary.note(&Effect::Kept(Place { branch, what }));
        };
        let ended = |outcome: &OutcomeRecord| {
            kept(format!(
                "{}:{}[{}]",
                outcome.step, outcome.node, outcome.index
            ));
        };
        match record {
            Record::Outcome(outcome) => ended(outcome),
            Record::Commit(commit) => commit.outcomes.iter().for_each(|outcome| {
                if let OutcomeRef::Inline(outcome) = outcome {
                    ended(outcome);
                }
            }),
            Record::Step(step) => kept(format!("{}.{}", step.task, step.key)),
            Record::Inner(inner) => {
                let (path, stored) = inner.open().unwrap();
                self.kept(branch, &format!("{inside}{path}/"), &stored.record);
            }
            _ => {}
        }
    }
}

/// A record in a few bytes.
pub(crate) fn digest(record: &Record) -> String {
    let text = format!("{record:?}");
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

#[async_trait]
impl Layer for Still {
    fn below(&self) -> Arc<dyn CheckpointStore> {
        self.inner.clone()
    }

    async fn pass<T: Send>(
        &self,
        kind: Operation,
        operation: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let number = self.operations.fetch_add(1, Ordering::SeqCst) + 1;
        if kind == Operation::Upkeep {
            self.writes.lock().unwrap().push(number);
        }
        match self.dies {
            Some((at, moment)) if number > at && !matches!(moment, Moment::During(_)) => {
                self.die().await
            }
            Some((at, Moment::Before)) if number == at => self.die().await,
            Some((at, Moment::During(micros))) if number == at => {
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_micros(micros));
                    std::process::abort()
                });
                operation.await
            }
            Some((at, _)) if number == at => {
                drop(operation.await);
                self.die().await
            }
            _ => operation.await,
        }
    }

    async fn claim(&self, thread: &ThreadId, how: Take) -> Result<Claim, StoreError> {
        let claimed = self
            .pass(Operation::Claim, self.inner.claim(thread, how))
            .await;
        claimed.map(|mut claim| {
            if let Some(head) = &claim.head {
                self.diary.on(head.branch.get());
            }
            claim.given_back &= !self.orphan.swap(false, Ordering::SeqCst);
            claim
        })
    }

    fn release(&self, thread: &ThreadId, epoch: Epoch) {
        // The dead give nothing back.
        let is_dead = self.dies.is_some_and(|(at, _)| self.operations() >= at);
        if !is_dead {
            self.inner.release(thread, epoch);
        }
    }

    async fn append(&self, write: Write) -> Result<(), StoreError> {
        let append = async {
            let number = self.operations();
            self.writes.lock().unwrap().push(number);
            self.inner.append(write.clone()).await
        };
        self.pass(Operation::Append, append).await?;
        self.noted(&write);
        self.diary.on(write.branch.get());
        Ok(())
    }
}
