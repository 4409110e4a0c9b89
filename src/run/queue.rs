//! Station 6 for a run that does not wait: what lies between it and its store.
//!
//! In come the writes of one claimed thread, out go the same, in order, several of them in one, each
//! durable before the next is handed over. It is a store itself, so that what a run reads is never
//! older than what it has written. It gives the thread back only when nothing is left to write, and
//! it decides nothing but when.

#[cfg(all(test, milepost_model, feature = "conformance"))]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod model;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::batch::{Size, Waiting, last};
use super::durability::{Awaited, Durability, Window};
use super::port::Listener;
use super::stop::has_timer;
use crate::ids::{Epoch, RunId, Seq, ThreadId};
use crate::store::{
    CheckpointStore, Claim, Extent, Head, Retain, Retained, RunRow, StoreError, Stored, Take,
    ThreadArchive, Wish, Wished, Write,
};
use crate::sync::{Mutex, MutexGuard, Spawner};

/// How long a caller waits for a run that was dropped and still writes what it had accepted, before it
/// is told that the thread is busy.
const LEAVES: Duration = Duration::from_secs(5);

/// The queues of this process that are not empty for good, by thread: for those who take over, or look.
static QUEUES: Queues = Queues::new(BTreeMap::new());

type Queues = std::sync::Mutex<BTreeMap<ThreadId, Vec<Weak<Shared>>>>;

/// The way of one claimed thread to its store.
pub(super) struct Queue(Arc<Shared>);

struct Shared {
    store: Arc<dyn CheckpointStore>,
    thread: ThreadId,
    window: Window,
    runtime: Spawner,
    state: Mutex<State>,
    /// Told of every change that somebody may wait for.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    awaited: Awaited,
    waiting: Waiting,
    /// How much is not durable: what waits, and what is being written.
    behind: Size,
    /// The last record that was accepted, that somebody waits for, that is durable.
    accepted: Seq,
    wanted: Seq,
    durable: Seq,
    /// Whether somebody writes.
    works: bool,
    failed: Option<StoreError>,
    holder: Holder,
    told: Told,
}

/// Who has the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// A run.
    Run,
    /// Nobody, as soon as all is written; under this epoch.
    Leaves(Epoch),
    /// Nobody.
    Gone,
}

/// What a listener knows.
#[derive(Default)]
struct Told {
    listener: Option<(Listener, Epoch)>,
    /// The last record of which it has heard what it says.
    events: Seq,
    /// The last record of which it has heard that it is durable.
    durable: Seq,
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told")
            .field("events", &self.events)
            .field("durable", &self.durable)
            .finish_non_exhaustive()
    }
}

impl State {
    fn new(last: Seq) -> Self {
        Self {
            awaited: Awaited::default(),
            waiting: Waiting::default(),
            behind: Size::default(),
            accepted: last,
            wanted: last,
            durable: last,
            works: false,
            failed: None,
            holder: Holder::Run,
            told: Told {
                listener: None,
                events: last,
                durable: last,
            },
        }
    }

    /// Whether there is more than may be on its way.
    fn is_full(&self, window: Window) -> bool {
        self.behind.records >= window.records || self.behind.bytes >= window.bytes
    }

    /// Whether something is to be handed to the store now.
    fn is_due(&self, window: Window) -> bool {
        let asked = window.at_once || self.wanted > self.durable || self.is_full(window);
        !self.waiting.is_empty() && (asked || self.holder != Holder::Run)
    }

    /// Whether somebody has to begin to write; then it is who asks.
    fn begins(&mut self, window: Window) -> bool {
        let begins = !self.works && self.is_due(window);
        self.works |= begins;
        begins
    }

    fn fail(&mut self, error: StoreError) {
        self.failed.get_or_insert(error);
        self.waiting.clear();
        self.behind = Size::default();
    }

    /// Says that a record is durable, once it was said what happened there.
    fn tell(&mut self) {
        let Told {
            listener,
            events,
            durable,
        } = &mut self.told;
        let safe = self.durable.min(*events);
        if let Some((listener, epoch)) = listener
            && safe > *durable
        {
            *durable = safe;
            listener.durable(*epoch, safe);
        }
    }

    /// The epoch to give back, if nothing is left to write.
    fn leave(&mut self) -> Option<Epoch> {
        let Holder::Leaves(epoch) = self.holder else {
            return None;
        };
        let is_done = !self.works && self.waiting.is_empty();
        is_done.then(|| {
            self.holder = Holder::Gone;
            epoch
        })
    }
}

impl Queue {
    /// A queue before a store, for a thread that was just claimed; none where a run waits for each of
    /// its writes.
    pub(super) fn before(
        store: &Arc<dyn CheckpointStore>,
        thread: &ThreadId,
        next: Seq,
        durability: Durability,
    ) -> Option<Arc<Self>> {
        let window = durability.window()?;
        let shared = Arc::new(Shared {
            store: Arc::clone(store),
            thread: thread.clone(),
            window,
            runtime: Spawner::current(),
            state: Mutex::new(State::new(Seq::new(next.get() - 1))),
            changed: Notify::new(),
        });
        let of_thread = Arc::downgrade(&shared);
        queues().entry(thread.clone()).or_default().push(of_thread);
        Some(Arc::new(Self(shared)))
    }

    /// Tells this listener from now on what is durable.
    pub(super) fn listen(&self, listener: Listener, epoch: Epoch) {
        self.0.state().told.listener = Some((listener, epoch));
    }

    /// Says that whoever listens has heard of all that was accepted.
    pub(super) fn told(&self) {
        let mut state = self.0.state();
        state.told.events = state.accepted;
        state.tell();
    }

    /// Waits until all that was accepted is durable.
    pub(super) async fn settled(&self) -> Result<(), StoreError> {
        Shared::settled(&self.0).await
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something, and has somebody write what is due then.
    fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let changed = change(&mut state);
        let begins = state.begins(self.window);
        // A runtime that has ended drops at once what it is given.
        drop(state);
        if begins {
            let writer = Writer {
                shared: Arc::clone(self),
                ended: false,
            };
            self.runtime.spawn(writer.work());
        }
        changed
    }

    /// Accepts a write. Says whether the run waits for it.
    fn accept(self: &Arc<Self>, write: Write) -> Result<bool, StoreError> {
        let size = Size::of(&write);
        self.change(|state| {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            let waits = state.awaited.next(&write);
            state.accepted = last(&write);
            if waits {
                state.wanted = state.accepted;
            }
            state.behind.add(size);
            state.waiting.push(write, size);
            Ok(waits)
        })
    }

    async fn settled(self: &Arc<Self>) -> Result<(), StoreError> {
        let all = self.change(|state| {
            state.wanted = state.accepted;
            state.accepted
        });
        self.until(|state| state.durable >= all).await
    }

    /// Waits until something holds, or cannot hold any more.
    async fn until(&self, holds: impl Fn(&State) -> bool) -> Result<(), StoreError> {
        let now = |state: &State| match &state.failed {
            _ if holds(state) => Some(Ok(())),
            failed => failed.clone().map(Err),
        };
        loop {
            let changed = self.changed.notified();
            if let Some(told) = now(&self.state()) {
                return told;
            }
            changed.await;
        }
    }

    /// Says that the run has gone: the thread is given back when nothing is left to write.
    fn leaves(self: &Arc<Self>, epoch: Epoch) {
        self.change(|state| state.holder = Holder::Leaves(epoch));
        self.give_back();
    }

    fn give_back(&self) {
        let leaves = self.state().leave();
        if let Some(epoch) = leaves {
            self.store.release(&self.thread, epoch);
            self.changed.notify_waiters();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut queues = queues();
        if let Some(of_thread) = queues.get_mut(&self.thread) {
            of_thread.retain(|queue| queue.strong_count() > 0);
            if of_thread.is_empty() {
                queues.remove(&self.thread);
            }
        }
    }
}

/// Who hands writes to the store, until nothing is due.
struct Writer {
    shared: Arc<Shared>,
    /// Whether it has come to its end, and was not cut.
    ended: bool,
}

impl Writer {
    async fn work(mut self) {
        while let Some((write, size)) = self.next() {
            let last = last(&write);
            let written = self.shared.store.append(write).await;
            self.has_written(last, size, written);
        }
    }

    fn has_written(&self, last: Seq, size: Size, written: Result<(), StoreError>) {
        let mut state = self.shared.state();
        match written {
            Ok(()) => {
                state.durable = last;
                state.behind.take(size);
                state.tell();
            }
            Err(error) => state.fail(error),
        }
        drop(state);
        self.shared.changed.notify_waiters();
    }

    /// What is to be written next; none when there is nothing, and then it writes no more.
    fn next(&mut self) -> Option<(Write, Size)> {
        let mut state = self.shared.state();
        let next = match state.is_due(self.shared.window) {
            true => state.waiting.take(),
            false => None,
        };
        state.works = next.is_some();
        self.ended = next.is_none();
        next
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.ended {
            // The runtime has ended, or the store has panicked: nobody knows what became of it.
            let mut state = self.shared.state();
            state.works = false;
            state.fail(StoreError::Closed);
            drop(state);
            self.shared.changed.notify_waiters();
        }
        self.shared.give_back();
    }
}

fn queues() -> std::sync::MutexGuard<'static, BTreeMap<ThreadId, Vec<Weak<Shared>>>> {
    QUEUES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn of_thread(store: &dyn CheckpointStore, thread: &ThreadId) -> Vec<Arc<Shared>> {
    let of_thread = queues().get(thread).cloned().unwrap_or_default();
    // Not while the lock is held: the last handle of a queue, dropped here, takes it.
    let of_thread = of_thread.iter().filter_map(Weak::upgrade);
    let same = |queue: &Arc<Shared>| queue.store.identity() == store.identity();
    of_thread.filter(same).collect()
}

/// Waits until all is durable that runs of a thread in this process have accepted by now. What fails
/// is told to those runs.
pub(super) async fn settle(store: &dyn CheckpointStore, thread: &ThreadId) {
    for queue in of_thread(store, thread) {
        let _ = queue.settled().await;
    }
}

/// Waits for runs of a thread that were dropped in this process and still write what they had
/// accepted. Says whether there was one that is done.
pub(super) async fn left(store: &dyn CheckpointStore, thread: &ThreadId) -> bool {
    let leaves = |queue: &Arc<Shared>| queue.state().holder != Holder::Run;
    let all: Vec<_> = of_thread(store, thread)
        .into_iter()
        .filter(leaves)
        .collect();
    if all.is_empty() {
        return false;
    }
    match has_timer() {
        true => tokio::time::timeout(LEAVES, gone(&all)).await.is_ok(),
        false => {
            gone(&all).await;
            true
        }
    }
}

/// Waits until these have given their threads back.
async fn gone(queues: &[Arc<Shared>]) {
    for queue in queues {
        loop {
            let changed = queue.changed.notified();
            if queue.state().holder == Holder::Gone {
                break;
            }
            changed.await;
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("store", &self.0.store)
            .field("thread", &self.0.thread)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl CheckpointStore for Queue {
    async fn append(&self, write: Write) -> Result<(), StoreError> {
        let (shared, all) = (&self.0, last(&write));
        let window = shared.window;
        match shared.accept(write)? {
            true => shared.until(|state| state.durable >= all).await,
            // What is full is handed to the store, and this waits for it.
            false => shared.until(|state| !state.is_full(window)).await,
        }
    }

    fn release(&self, _: &ThreadId, epoch: Epoch) {
        self.0.leaves(epoch);
    }

    async fn claim(&self, thread: &ThreadId, how: Take) -> Result<Claim, StoreError> {
        self.settled().await?;
        self.0.store.claim(thread, how).await
    }

    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError> {
        self.settled().await?;
        self.0.store.head(thread).await
    }

    async fn records(
        &self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        self.settled().await?;
        self.0.store.records(thread, from, limit).await
    }

    async fn segments(
        &self,
        thread: &ThreadId,
        ids: &[[u8; 16]],
    ) -> Result<Vec<Arc<[u8]>>, StoreError> {
        self.settled().await?;
        self.0.store.segments(thread, ids).await
    }

    async fn run(&self, thread: &ThreadId, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.settled().await?;
        self.0.store.run(thread, run).await
    }

    async fn threads(
        &self,
        after: Option<&ThreadId>,
        limit: usize,
    ) -> Result<Vec<(ThreadId, Head)>, StoreError> {
        self.settled().await?;
        self.0.store.threads(after, limit).await
    }

    async fn extent(&self, thread: &ThreadId) -> Result<Option<Extent>, StoreError> {
        self.settled().await?;
        self.0.store.extent(thread).await
    }

    async fn restore(&self, archive: ThreadArchive) -> Result<(), StoreError> {
        self.0.store.restore(archive).await
    }

    async fn delete_thread(&self, thread: &ThreadId) -> Result<(), StoreError> {
        self.settled().await?;
        self.0.store.delete_thread(thread).await
    }

    async fn copy_thread(&self, from: &ThreadId, to: &ThreadId) -> Result<(), StoreError> {
        self.settled().await?;
        self.0.store.copy_thread(from, to).await
    }

    async fn retain(&self, what: Retain) -> Result<Retained, StoreError> {
        self.settled().await?;
        self.0.store.retain(what).await
    }

    async fn wish(&self, thread: &ThreadId, wish: Wish) -> Result<Wished, StoreError> {
        self.settled().await?;
        self.0.store.wish(thread, wish).await
    }

    async fn wished(&self, thread: &ThreadId) -> Result<Option<Wish>, StoreError> {
        self.0.store.wished(thread).await
    }

    async fn durable(&self) -> Result<(), StoreError> {
        self.settled().await?;
        self.0.store.durable().await
    }
}
