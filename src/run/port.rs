//! What a run lends to the contexts of its tasks, and how its events leave it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use tokio::sync::{Notify, mpsc, oneshot};

use super::Cancel;
use super::inner::Inners;
use super::recall::{Recall, Request, key};
use crate::event::{Event, EventKind};
use crate::ids::{Branch, Epoch, NodeName, RunId, Seq, TaskPath, ThreadId};
use crate::node::{KeptStep, NodeError, Port, Pulse, RunContext, Standing, Wake};
use crate::policy::now_ms;

/// The identity of a run, and its way to the outside.
pub(crate) struct RunPort {
    pub(crate) thread: ThreadId,
    pub(crate) run: RunId,
    pub(crate) branch: Branch,
    pub(crate) epoch: Epoch,
    pub(crate) names: Arc<[NodeName]>,
    /// Tells the nodes to end; set when the run stops, for whatever reason.
    pub(crate) stop: Cancel,
    /// What the tasks of the open superstep have done before.
    pub(crate) recall: Arc<Recall>,
    /// The way to the driver that records; none without a store, where nothing is.
    pub(crate) requests: Option<mpsc::UnboundedSender<Request>>,
    /// The longest wait of a task that holds its process.
    pub(crate) park_after: Duration,
    pub(crate) listener: Option<Listener>,
    /// What the caller gave; shared with everything inside of the run.
    pub(crate) given: RunContext,
    /// The task that runs this graph; none for the outermost one.
    pub(crate) within: Option<TaskPath>,
    /// The signs of life of that task, if anybody looks.
    pub(crate) pulse: Option<Arc<Pulse>>,
    /// What all levels share.
    pub(crate) inners: Arc<Inners>,
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
            recall: Arc::clone(&self.recall),
            requests: self.requests.clone(),
            park_after: self.park_after,
            listener: self.listener.clone(),
            given: self.given.clone(),
            within: self.within.clone(),
            pulse: self.pulse.clone(),
            inners: Arc::clone(&self.inners),
        }
    }

    /// Has the driver record something, and waits until it is durable.
    pub(super) async fn recorded(
        &self,
        request: impl FnOnce(oneshot::Sender<()>) -> Request,
    ) -> Result<(), NodeError> {
        let (done, recorded) = oneshot::channel();
        let sent = self
            .requests
            .as_ref()
            .is_some_and(|way| way.send(request(done)).is_ok());
        if sent && recorded.await.is_ok() {
            return Ok(());
        }
        // The driver has ended, and says itself why.
        Err(NodeError::transient(
            "the run ended before this was recorded",
        ))
    }

    /// Reports what happened, if anybody listens. The event is made only then.
    pub(crate) fn report(&self, seq: Option<Seq>, kind: impl FnOnce() -> EventKind) {
        if let Some(listener) = &self.listener {
            let event = Event {
                epoch: self.epoch,
                seq,
                within: None,
                kind: kind(),
            };
            listener.send(match &self.within {
                None => event,
                Some(outer) => Event {
                    seq: seq.and_then(|seq| self.inners.place(outer, seq)),
                    ..event.within(outer)
                },
            });
        }
    }
}

impl RunPort {
    /// Reports what happened inside of the graph that a task runs.
    pub(crate) fn report_inside(
        &self,
        outer: &TaskPath,
        seq: Option<Seq>,
        kind: impl FnOnce() -> EventKind,
    ) {
        if let Some(listener) = &self.listener {
            listener.send(Event {
                epoch: self.epoch,
                seq,
                within: Some(outer.clone()),
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
    fn within(&self) -> Option<&TaskPath> {
        self.within.as_ref()
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
    fn answer(&self, at: &Standing, name: &str) -> Option<Arc<[u8]>> {
        self.recall.answer(key(at), name)
    }
    fn recall(&self, at: &Standing, name: &str) -> Result<Option<KeptStep>, NodeError> {
        self.recall.step(at, name)
    }
    fn keep(&self, at: &Standing, step: KeptStep) -> BoxFuture<'_, Result<(), NodeError>> {
        let task = key(at);
        Box::pin(async move {
            if self.requests.is_some() {
                self.recorded(|done| Request::Step(task, step.clone(), done))
                    .await?;
            }
            self.recall.put_step(task, step);
            Ok(())
        })
    }
    fn sleep(
        &self,
        at: &Standing,
        name: &str,
        until: Wake,
    ) -> BoxFuture<'_, Result<(), NodeError>> {
        let (task, name) = (key(at), name.to_owned());
        Box::pin(async move {
            // While it waits, an irreversible task is not in its middle.
            let moves = self.recall.begun(task).is_some();
            let due_ms = match self.recall.timer(task, &name) {
                Some(due_ms) if !moves || due_ms <= now_ms() => due_ms,
                known => {
                    let due_ms = known.unwrap_or_else(|| due(until));
                    if self.requests.is_some() {
                        self.recorded(|done| Request::Timer(task, name.clone(), due_ms, done))
                            .await?;
                    }
                    self.recall.put_timer(task, &name, due_ms);
                    self.recall.rest(task);
                    due_ms
                }
            };
            let left = Duration::from_millis(due_ms.saturating_sub(now_ms()));
            if self.requests.is_some() && left > self.park_after {
                self.recall.park(task, due_ms);
            }
            // What is let go is dropped here. Where nothing can be (a body that blocks its thread,
            // a task that it has spawned), the time passes in this process.
            tokio::time::sleep(left).await;
            match moves && self.recall.begun(task).is_none() {
                true => self.begin(task).await,
                false => Ok(()),
            }
        })
    }
    fn given(&self) -> &RunContext {
        &self.given
    }
    fn is_cancelled(&self) -> bool {
        self.stop.is_cancelled()
    }
    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.stop.cancelled())
    }
}

/// The moment, in milliseconds since 1970.
fn due(until: Wake) -> u64 {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    match until {
        Wake::After(time) => now_ms().saturating_add(millis(time)),
        Wake::At(moment) => moment
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| {
                // Never early: what lies between two milliseconds counts as the later one.
                millis(since).saturating_add(u64::from(since.subsec_nanos() % 1_000_000 > 0))
            }),
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
    /// Says that the log is durable up to a record.
    pub(crate) fn durable(&self, epoch: Epoch, up_to: Seq) {
        self.send(Event {
            epoch,
            seq: None,
            within: None,
            kind: EventKind::Durable { up_to },
        });
    }

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
