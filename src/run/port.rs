//! What a run lends to the contexts of its tasks, and how its events leave it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use tokio::sync::{Notify, mpsc};

use super::Cancel;
use super::ask::Answers;
use crate::event::{Event, EventKind};
use crate::ids::{Branch, Epoch, NodeName, RunId, Seq, ThreadId};
use crate::node::Port;

/// The identity of a run, and its way to the outside.
pub(crate) struct RunPort {
    pub(crate) thread: ThreadId,
    pub(crate) run: RunId,
    pub(crate) branch: Branch,
    pub(crate) epoch: Epoch,
    pub(crate) names: Arc<[NodeName]>,
    /// Tells the nodes to end; set when the run stops, for whatever reason.
    pub(crate) stop: Cancel,
    /// What the tasks of the open superstep have asked before and was answered.
    pub(crate) answers: Arc<Answers>,
    pub(crate) listener: Option<Listener>,
}

impl RunPort {
    /// The same, with nobody told to end.
    pub(crate) fn renewed(&self) -> Self {
        Self {
            thread: self.thread.clone(),
            run: self.run.clone(),
            branch: self.branch,
            epoch: self.epoch,
            names: Arc::clone(&self.names),
            stop: Cancel::new(),
            answers: Arc::clone(&self.answers),
            listener: self.listener.clone(),
        }
    }

    /// Reports what happened, if anybody listens. The event is made only then.
    pub(crate) fn report(&self, seq: Option<Seq>, kind: impl FnOnce() -> EventKind) {
        if let Some(listener) = &self.listener {
            listener.send(Event {
                epoch: self.epoch,
                seq,
                kind: kind(),
            });
        }
    }
}

impl Port for RunPort {
    fn thread(&self) -> &ThreadId {
        &self.thread
    }
    fn run(&self) -> &RunId {
        &self.run
    }
    fn branch(&self) -> Branch {
        self.branch
    }
    fn epoch(&self) -> Epoch {
        self.epoch
    }
    fn name(&self, node: u32) -> &NodeName {
        &self.names[node as usize]
    }
    fn emit(&self, event: Event) -> BoxFuture<'_, ()> {
        if let Some(listener) = &self.listener {
            listener.send(event);
        }
        Box::pin(std::future::ready(()))
    }
    fn listening(&self) -> bool {
        self.listener.is_some()
    }
    fn answer(&self, task: (u64, u32, u32), key: &str) -> Option<Arc<[u8]>> {
        self.answers.get(task, key)
    }
    fn is_cancelled(&self) -> bool {
        self.stop.is_cancelled()
    }
    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.stop.cancelled())
    }
}

/// The sending side of a stream of events. Sending never waits, so that a slow reader cannot hold
/// up a node; the driver waits at a boundary instead, where nothing is held.
#[derive(Clone)]
pub(crate) struct Listener {
    events: mpsc::UnboundedSender<Event>,
    behind: Arc<Behind>,
    backlog: usize,
}

/// How many events are sent and not yet read.
#[derive(Default)]
struct Behind {
    events: AtomicUsize,
    read: Notify,
}

/// The reading side.
pub(crate) struct Events {
    events: mpsc::UnboundedReceiver<Event>,
    behind: Arc<Behind>,
}

pub(crate) fn channel(backlog: usize) -> (Listener, Events) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let behind = Arc::new(Behind::default());
    let listener = Listener {
        events: sender,
        behind: Arc::clone(&behind),
        backlog,
    };
    (
        listener,
        Events {
            events: receiver,
            behind,
        },
    )
}

impl Listener {
    fn send(&self, event: Event) {
        self.behind.events.fetch_add(1, Ordering::SeqCst);
        // A reader that has gone is noticed by the driver, not here.
        let _ = self.events.send(event);
    }

    /// Waits until the reader has caught up, or is gone.
    pub(crate) async fn caught_up(&self) {
        loop {
            let read = self.behind.read.notified();
            if self.behind.events.load(Ordering::SeqCst) <= self.backlog || self.gone() {
                return;
            }
            tokio::select! {
                () = read => {}
                () = self.events.closed() => return,
            }
        }
    }

    /// Whether the reader is gone.
    pub(crate) fn gone(&self) -> bool {
        self.events.is_closed()
    }

    /// Waits until the reader is gone.
    pub(crate) async fn closed(&self) {
        self.events.closed().await;
    }
}

impl Events {
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Event>> {
        let next = self.events.poll_recv(cx);
        if let std::task::Poll::Ready(Some(_)) = next {
            self.behind.events.fetch_sub(1, Ordering::SeqCst);
            self.behind.read.notify_waiters();
        }
        next
    }
}
