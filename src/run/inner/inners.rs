//! What all levels of one run share: the logs of its subgraphs, and the way to who writes them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use super::held::Resting;
use super::log::{InnerLog, InnerLogs};
use super::store::{framed, request};
use crate::ids::{QuestionId, Seq, Step, TaskPath, ThreadId};
use crate::policy::Layer;
use crate::run::RunOptions;
use crate::run::recall::Request;
use crate::store::{CheckpointStore, FrameError, InnerRecord, Record, StoreError, Stored};

/// What all levels of one run share.
pub(crate) struct Inners {
    thread: ThreadId,
    store: Option<Arc<dyn CheckpointStore>>,
    /// The way to the outermost driver, which alone writes; none without a store.
    way: Option<mpsc::UnboundedSender<Request>>,
    options: Arc<RunOptions>,
    /// The limit of tasks at once, over all levels.
    limit: Option<Arc<dyn Layer>>,
    /// Whether anything is known: most runs have no subgraph, and pay no lock.
    any: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    logs: InnerLogs,
    /// Without a store: the answers to questions inside.
    answers: HashMap<QuestionId, Arc<[u8]>>,
}

impl Inners {
    pub(crate) fn new(
        thread: ThreadId,
        store: Option<Arc<dyn CheckpointStore>>,
        way: Option<mpsc::UnboundedSender<Request>>,
        options: Arc<RunOptions>,
        limit: Option<Arc<dyn Layer>>,
    ) -> Self {
        Self {
            thread,
            store,
            way,
            options,
            limit,
            any: AtomicBool::new(false),
            known: Mutex::default(),
        }
    }

    pub(crate) fn thread(&self) -> &ThreadId {
        &self.thread
    }

    pub(crate) fn store(&self) -> Option<&Arc<dyn CheckpointStore>> {
        self.store.as_ref()
    }

    pub(crate) fn options(&self) -> &Arc<RunOptions> {
        &self.options
    }

    pub(crate) fn limit(&self) -> Option<&Arc<dyn Layer>> {
        self.limit.as_ref()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) -> MutexGuard<'_, Known> {
        self.any.store(true, Ordering::SeqCst);
        self.known()
    }

    /// Reads how the log of a task's subgraph stands.
    pub(crate) fn with<T>(&self, path: &TaskPath, read: impl FnOnce(Option<&InnerLog>) -> T) -> T {
        read(self.known().logs.get(path))
    }

    /// Where a record of a task's subgraph stands in the thread's log.
    pub(crate) fn place(&self, path: &TaskPath, seq: Seq) -> Option<Seq> {
        let place = usize::try_from(seq.get().checked_sub(1)?).ok()?;
        self.with(path, |log| log?.seqs().get(place).copied())
    }

    /// Takes a record that was read from the thread's log.
    pub(crate) fn read(&self, at: Seq, record: &InnerRecord) -> Result<(), FrameError> {
        let (path, stored) = record.open()?;
        self.changed().logs.push(&path, at, &stored);
        Ok(())
    }

    /// Takes a record that was written to the thread's log.
    pub(crate) fn written(&self, path: &TaskPath, at: Seq, stored: &Stored) {
        self.changed().logs.push(path, at, stored);
    }

    /// Has records written, and waits until they are durable.
    pub(super) async fn write(
        &self,
        path: &TaskPath,
        records: Vec<(Stored, InnerRecord)>,
    ) -> Result<(), StoreError> {
        let (request, written) = request(path.clone(), records);
        let sent = self
            .way
            .as_ref()
            .is_some_and(|way| way.send(request).is_ok());
        if sent && written.await.is_ok() {
            return Ok(());
        }
        // The outermost driver has ended, and says itself why.
        Err(StoreError::Closed)
    }

    /// The record of an answer to a question inside.
    pub(crate) fn answer(
        &self,
        path: &TaskPath,
        epoch: crate::ids::Epoch,
        record: Record,
        before: u64,
    ) -> Result<(Stored, InnerRecord), FrameError> {
        let next = self.with(path, |log| log.map_or(Seq::new(1), InnerLog::next));
        framed(path, Seq::new(next.get() + before), epoch, record)
    }

    /// What a task waits for whose subgraph has come to rest, where nothing inside can go on.
    pub(crate) fn resting(&self, path: &TaskPath, now_ms: u64) -> Option<Resting> {
        if !self.any.load(Ordering::SeqCst) {
            return None;
        }
        Resting::of(&self.known().logs, path, now_ms)
    }

    /// Keeps an answer to a question inside, where there is no store to keep it.
    pub(crate) fn put_answer(&self, id: QuestionId, answer: Arc<[u8]>) {
        self.changed().answers.insert(id, answer);
    }

    pub(crate) fn answered(&self, id: &QuestionId) -> Option<Arc<[u8]>> {
        self.known().answers.get(id).cloned()
    }

    /// Forgets the graph that a task runs: it begins anew.
    pub(crate) fn restart(&self, task: &TaskPath) {
        if self.any.load(Ordering::SeqCst) {
            let mut known = self.known();
            known.logs.restart(task);
            let stays = |path: &TaskPath| path != task && path.below(task).is_none();
            known.answers.retain(|id, _| stays(id.task()));
        }
    }

    /// Forgets a superstep of the graph that a task runs, or of the outermost one: it is closed.
    #[inline]
    pub(crate) fn forget(&self, within: Option<&TaskPath>, step: Step) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let mut known = self.known();
        known.logs.forget(within, step);
        match within {
            None => known.answers.clear(),
            Some(outer) => {
                let stays = |task: &TaskPath| {
                    let below = task.below(outer);
                    below.is_none_or(|task| task.first().step != step)
                };
                known.answers.retain(|id, _| stays(id.task()));
            }
        }
    }
}
