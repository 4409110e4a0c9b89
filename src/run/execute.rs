//! Station 3, execute: the tasks of a superstep, through their policies.
//!
//! In come tasks, out come their ends as they happen. One task runs where the driver runs. Several
//! are drawn from one queue by about twice as many runners as there are workers; a body that
//! waits is moved to a task of its own, so that it holds back nothing behind it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tracing::Instrument;

use super::port::RunPort;
use super::{Cancel, RunOptions};
use crate::engine::{Ended, Outcome, Task};
use crate::event::EventKind;
use crate::graph::Graph;
use crate::ids::{Step, TaskPath};
use crate::node::{
    Call, Context, ErrorClass, NodeError, Payload, Policy, Port, Returned, Standing,
};
use crate::policy::{Attempt, Call as LayerCall, Layer, Limit, Next, Timeout, tried};
use crate::state::{Snapshot, State, panic_message};

/// The layers of each node: none for one that has no policy, where nothing else is set either.
pub(crate) type Layers = Arc<[Option<Arc<[Arc<dyn Layer>]>>]>;

/// Puts together the layers of each node. A limit of a node holds for all runs that share this.
pub(crate) fn layers<S: State>(graph: &Graph<S>, options: &RunOptions) -> Layers {
    let one = |policy: &Policy| {
        let mut layers: Vec<Arc<dyn Layer>> = options.layers.clone();
        if let Some(tasks) = policy.concurrency {
            layers.push(Arc::new(Limit::new(tasks)));
        }
        if let Some(time) = policy.timeout {
            layers.push(Arc::new(Timeout(time)));
        }
        let plain = layers.is_empty() && policy.retry.is_none() && !policy.blocking;
        (!plain).then(|| layers.into())
    };
    graph
        .tables()
        .nodes
        .iter()
        .map(|node| one(&node.policy))
        .collect()
}

/// What all tasks of a run share.
pub(crate) struct Shared<S: State> {
    pub(crate) graph: Graph<S>,
    pub(crate) layers: Layers,
    pub(crate) port: Arc<RunPort>,
    pub(crate) limit: Option<Arc<dyn Layer>>,
    /// Whether tries are timed: where somebody will read it.
    pub(crate) timed: bool,
}

/// One superstep, as its tasks see it.
pub(crate) struct Scene<S> {
    pub(crate) step: u64,
    pub(crate) before: Arc<S>,
    pub(crate) remaining: u64,
}

impl<S> Scene<S> {
    pub(crate) fn standing(&self, node: u32, index: u32, attempt: u32) -> Standing {
        Standing {
            step: Step::new(self.step),
            node,
            index,
            attempt,
            remaining: self.remaining,
        }
    }
}

impl<S> Clone for Scene<S> {
    fn clone(&self) -> Self {
        Self {
            before: Arc::clone(&self.before),
            ..*self
        }
    }
}

/// A body that was polled once.
pub(crate) enum Begun<U> {
    /// It is done.
    Ended(Outcome<U>),
    /// It waits for something.
    Waits(Call<U>),
}

/// How a task ended.
pub(crate) struct TaskEnd<U> {
    pub(crate) result: Result<Outcome<U>, NodeError>,
    pub(crate) attempts: Vec<Attempt>,
}

impl<S: State> Shared<S> {
    /// The same, with a port that has told nobody to end.
    pub(crate) fn renewed(&self) -> Self {
        Self {
            graph: self.graph.clone(),
            layers: Arc::clone(&self.layers),
            port: Arc::new(self.port.renewed()),
            limit: self.limit.clone(),
            timed: self.timed,
        }
    }

    fn context(&self, at: Standing) -> Context {
        Context::new(Arc::clone(&self.port) as Arc<dyn Port>, at)
    }

    pub(crate) fn path(&self, step: u64, node: u32, index: u32) -> TaskPath {
        TaskPath::new(
            Step::new(step),
            self.port.names[node as usize].clone(),
            index,
        )
    }

    /// Whether a task can be called directly: no policy, no layer, nothing to time or to trace.
    pub(crate) fn plain(&self, node: u32) -> bool {
        self.bare(node) && !tracing::enabled!(tracing::Level::DEBUG)
    }

    /// The same, whatever is traced.
    #[inline]
    pub(crate) fn bare(&self, node: u32) -> bool {
        !self.timed && self.limit.is_none() && self.layers[node as usize].is_none()
    }

    /// Calls a body once. A panic on the way to its future is its error.
    pub(crate) fn call(
        &self,
        before: &Arc<S>,
        at: Standing,
        payload: Option<&Payload>,
    ) -> BoxFuture<'static, Result<Returned<S::Update>, NodeError>> {
        let cx = self.context(at);
        let state = Snapshot::shared(Arc::clone(before));
        let body = &self.graph.tables().node(at.node).body;
        catch_unwind(AssertUnwindSafe(|| body.call(payload, state, cx)))
            .unwrap_or_else(|panic| Box::pin(std::future::ready(Err(panicked(&*panic)))))
    }

    /// Calls a body and polls it once: most are done then.
    ///
    /// # Errors
    /// The task's, if it was not tolerated; a panic on the way is one too.
    #[inline]
    pub(crate) fn begin(
        &self,
        before: &Arc<S>,
        at: Standing,
        payload: Option<&Payload>,
        cx: &mut std::task::Context<'_>,
    ) -> Result<Begun<S::Update>, NodeError> {
        let state = Snapshot::shared(Arc::clone(before));
        let context = self.context(at);
        let body = &self.graph.tables().node(at.node).body;
        let begun = catch_unwind(AssertUnwindSafe(|| {
            let mut call = body.call(payload, state, context);
            match call.as_mut().poll(cx) {
                // The body is dropped here, and its snapshot with it: then the merge need not
                // clone the state.
                Poll::Ready(ended) => ended.map(|Returned { update, exit }| {
                    let ended = Ended::Exit(exit);
                    Begun::Ended(Outcome { update, ended })
                }),
                Poll::Pending => Ok(Begun::Waits(call)),
            }
        }));
        match begun {
            Ok(Ok(begun)) => Ok(begun),
            Ok(Err(error)) => self
                .tolerated(at.node, payload, Err(error))
                .map(Begun::Ended),
            Err(panic) => {
                let error = Err(panicked(&*panic));
                self.tolerated(at.node, payload, error).map(Begun::Ended)
            }
        }
    }

    /// Runs a task through its policies, to its end. `begun` is set when its body is first called.
    pub(crate) async fn run_task(
        self: Arc<Self>,
        scene: Scene<S>,
        (node, index): (u32, u32),
        payload: Option<Payload>,
        begun: Arc<AtomicBool>,
    ) -> TaskEnd<S::Update> {
        let entry = self.graph.tables().node(node);
        let layers = self.layers[node as usize].clone().unwrap_or_default();
        let layers: Arc<[Arc<dyn Layer>]> = match &self.limit {
            Some(limit) => std::iter::once(Arc::clone(limit))
                .chain(layers.iter().cloned())
                .collect(),
            None => layers,
        };
        let job = (node, index, payload.as_ref());
        let once = |attempt| {
            let tried = self.try_once(&scene, job, &layers, attempt, &begun);
            tried.boxed()
        };
        let (ended, mut attempts) = tried(entry.policy.retry.as_ref(), &*self.port, once).await;
        let result = self.tolerated(node, payload.as_ref(), ended);
        if let (Err(error), Some(last)) = (&result, attempts.last_mut()) {
            // What is recorded is what the caller gets, where the rule for failed tasks panicked.
            last.error = Some(error.clone());
        }
        TaskEnd { result, attempts }
    }

    async fn try_once(
        &self,
        scene: &Scene<S>,
        (node, index, payload): (u32, u32, Option<&Payload>),
        layers: &[Arc<dyn Layer>],
        attempt: u32,
        begun: &AtomicBool,
    ) -> Result<Returned<S::Update>, NodeError> {
        let path = self.path(scene.step, node, index);
        let at = scene.standing(node, index, attempt);
        let span = tracing::debug_span!("task", task = %path, attempt);
        let slot = Mutex::new(None);
        let started = path.clone();
        let body = Box::pin(async {
            begun.store(true, Ordering::SeqCst);
            self.port.report(None, || EventKind::TaskStarted {
                task: started,
                attempt,
            });
            let returned = if self.graph.tables().node(node).policy.blocking {
                self.call_blocking(&scene.before, at, payload).await
            } else {
                guarded(self.call(&scene.before, at, payload)).await
            };
            let passed = returned.as_ref().map(|_| ()).map_err(NodeError::clone);
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(returned);
            passed
        });
        let call = LayerCall {
            task: path,
            attempt,
        };
        let next = Next::new(layers, body);
        // A layer may panic too: that is the task's error, like a body's.
        let called = AssertUnwindSafe(next.run(&call).instrument(span))
            .catch_unwind()
            .await;
        match called {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(error),
            Err(panic) => return Err(panicked(&*panic)),
        }
        slot.into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .unwrap_or_else(|| {
                Err(NodeError::invalid(
                    "a layer said that the call went well, but the node was not run",
                ))
            })
    }

    async fn call_blocking(
        &self,
        before: &Arc<S>,
        at: Standing,
        payload: Option<&Payload>,
    ) -> Result<Returned<S::Update>, NodeError> {
        // The body is called on the other thread: it may block before its first await.
        let cx = self.context(at);
        let state = Snapshot::shared(Arc::clone(before));
        let body = Arc::clone(&self.graph.tables().node(at.node).body);
        let payload = payload.cloned();
        let handle = tokio::runtime::Handle::current();
        let joined = tokio::task::spawn_blocking(move || {
            let call = || handle.block_on(body.call(payload.as_ref(), state, cx));
            catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(&*panic)))
        });
        joined
            .await
            .unwrap_or_else(|error| Err(NodeError::transient(error)))
    }

    /// Applies the worker's own rule for failed tasks.
    pub(crate) fn tolerated(
        &self,
        node: u32,
        payload: Option<&Payload>,
        ended: Result<Returned<S::Update>, NodeError>,
    ) -> Result<Outcome<S::Update>, NodeError> {
        let error = match ended {
            Ok(Returned { update, exit }) => {
                return Ok(Outcome {
                    update,
                    ended: Ended::Exit(exit),
                });
            }
            Err(error) => error,
        };
        let (Some(tolerate), Some(payload)) = (&self.graph.tables().node(node).tolerate, payload)
        else {
            return Err(error);
        };
        match catch_unwind(AssertUnwindSafe(|| tolerate(payload, &error))) {
            Ok(Some(update)) => Ok(Outcome {
                update,
                ended: Ended::Tolerated,
            }),
            Ok(None) => Err(error),
            Err(panic) => Err(NodeError::new(
                ErrorClass::Panicked,
                format!(
                    "the rule for its failures panicked: {}; it had failed with: {}",
                    panic_message(&*panic),
                    error.full()
                ),
            )),
        }
    }
}

/// Awaits a call; a panic inside is its error.
pub(crate) async fn guarded<U>(
    call: BoxFuture<'static, Result<Returned<U>, NodeError>>,
) -> Result<Returned<U>, NodeError> {
    match AssertUnwindSafe(call).catch_unwind().await {
        Ok(ended) => ended,
        Err(panic) => Err(panicked(&*panic)),
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> NodeError {
    NodeError::new(
        ErrorClass::Panicked,
        format!("it panicked: {}", panic_message(panic)),
    )
}

/// The tasks of a superstep that several runners draw from.
pub(crate) struct Queue<S: State> {
    shared: Arc<Shared<S>>,
    scene: Scene<S>,
    jobs: Vec<Job>,
    next: AtomicUsize,
    /// How many runners are still to be started; each starts the next one.
    runners: AtomicUsize,
    /// Set when nothing more may start: a task failed, or the run stops.
    closed: Cancel,
    /// Asked when what still runs is to be dropped.
    cut: Cancel,
}

/// A task to run, by its place in the superstep.
pub(crate) struct Job {
    place: usize,
    node: u32,
    index: u32,
    payload: Option<Payload>,
}

impl Job {
    pub(crate) fn new(place: usize, task: &Task) -> Self {
        Self {
            place,
            node: task.node,
            index: task.index,
            payload: task.payload.clone(),
        }
    }
}

/// Ends of tasks, by place.
pub(crate) type Ends<U> = Vec<(usize, TaskEnd<U>)>;

/// What has become of the next task.
pub(crate) enum Drawn<U> {
    /// It has ended.
    Ended(usize, TaskEnd<U>),
    /// It waits for something, in a task of its own.
    Waits,
    /// There is none that may start.
    Nothing,
}

type Sender<S> = mpsc::UnboundedSender<Ends<<S as State>::Update>>;

/// The running tasks of a superstep. Dropping it drops the tasks.
pub(crate) struct Crowd<S: State> {
    queue: Arc<Queue<S>>,
    ends: mpsc::UnboundedReceiver<Ends<S::Update>>,
    /// The driver's own, until it only collects.
    sender: Option<Sender<S>>,
}

impl<S: State> Drop for Crowd<S> {
    fn drop(&mut self) {
        self.close();
        self.queue.cut.cancel();
    }
}

impl<S: State> Crowd<S> {
    /// Starts the tasks.
    pub(crate) fn start(shared: Arc<Shared<S>>, scene: Scene<S>, jobs: Vec<Job>) -> Self {
        let (sender, ends) = mpsc::unbounded_channel();
        let workers = tokio::runtime::Handle::current().metrics().num_workers();
        let runners = jobs.len().min(2 * workers.max(1));
        let queue = Arc::new(Queue {
            shared,
            scene,
            jobs,
            next: AtomicUsize::new(0),
            runners: AtomicUsize::new(runners),
            closed: Cancel::new(),
            cut: Cancel::new(),
        });
        queue.one_more(&sender);
        Self {
            queue,
            ends,
            sender: Some(sender),
        }
    }

    /// Runs the next task, as one of the runners: for a driver that has nothing to write meanwhile.
    /// Tasks that never wait are so done before another thread has woken up.
    #[inline]
    pub(crate) fn draw(&self) -> Drawn<S::Update> {
        match &self.sender {
            Some(sender) => self.queue.draw_one(sender),
            None => Drawn::Nothing,
        }
    }

    /// Says that the driver only collects from now on.
    pub(crate) fn drawn(&mut self) {
        self.sender = None;
    }

    /// Lets nothing more start.
    pub(crate) fn close(&self) {
        self.queue.closed.cancel();
    }

    /// The next ends; none when nothing runs any more.
    pub(crate) async fn next(&mut self) -> Option<Ends<S::Update>> {
        let mut ends = self.ends.recv().await?;
        while let Ok(more) = self.ends.try_recv() {
            ends.extend(more);
        }
        Some(ends)
    }
}

/// A task that waits for something, and whether its body was called where that is not sure.
type Waiting<U> = (BoxFuture<'static, TaskEnd<U>>, Option<Arc<AtomicBool>>);

impl<S: State> Queue<S> {
    /// Starts one more runner, if there is to be one. Each is started by the one before it, so
    /// that a superstep of short tasks wakes no thread that would find nothing to do.
    fn one_more(self: &Arc<Self>, sender: &Sender<S>) {
        let one_less = |left: usize| left.checked_sub(1);
        let order = Ordering::Relaxed;
        if self.runners.fetch_update(order, order, one_less).is_ok() {
            tokio::spawn(Arc::clone(self).draw(sender.clone()));
        }
    }

    async fn draw(self: Arc<Self>, sender: Sender<S>) {
        if self.next.load(Ordering::Relaxed) < self.jobs.len() {
            self.one_more(&sender);
        }
        let mut done = Vec::new();
        loop {
            match self.draw_one(&sender) {
                Drawn::Ended(place, end) => done.push((place, end)),
                Drawn::Waits => {}
                Drawn::Nothing => break,
            }
            // Where ends are recorded, each is reported at once; else all together.
            if self.shared.timed && !done.is_empty() {
                let _ = sender.send(std::mem::take(&mut done));
            }
            tokio::task::coop::consume_budget().await;
        }
        if !done.is_empty() {
            let _ = sender.send(done);
        }
    }

    /// Runs the next task to its end, or to where it waits for something.
    #[inline]
    fn draw_one(self: &Arc<Self>, sender: &Sender<S>) -> Drawn<S::Update> {
        if self.closed.is_cancelled() {
            return Drawn::Nothing;
        }
        let Some(job) = self.jobs.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
            return Drawn::Nothing;
        };
        match self.begin(job) {
            Ok(end) => {
                if end.result.is_err() {
                    self.closed.cancel();
                }
                Drawn::Ended(job.place, end)
            }
            Err((waiting, begun)) => {
                let finish = Arc::clone(self).finish(job.place, waiting, begun, sender.clone());
                tokio::spawn(finish);
                Drawn::Waits
            }
        }
    }

    /// Starts a task; gives its end, or its future where it waits for something.
    #[inline]
    fn begin(self: &Arc<Self>, job: &Job) -> Result<TaskEnd<S::Update>, Waiting<S::Update>> {
        let shared = &self.shared;
        if !shared.plain(job.node) {
            let begun = Arc::new(AtomicBool::new(false));
            let run = Arc::clone(shared).run_task(
                self.scene.clone(),
                (job.node, job.index),
                job.payload.clone(),
                Arc::clone(&begun),
            );
            let mut run: BoxFuture<'static, _> = Box::pin(run);
            return match poll_once(&mut run) {
                Ok(Poll::Ready(end)) => Ok(end),
                Ok(Poll::Pending) => Err((run, Some(begun))),
                Err(panic) => Ok(TaskEnd {
                    result: Err(panic),
                    attempts: Vec::new(),
                }),
            };
        }
        let at = self.scene.standing(job.node, job.index, 1);
        let mut noop = std::task::Context::from_waker(std::task::Waker::noop());
        let begun = shared.begin(&self.scene.before, at, job.payload.as_ref(), &mut noop);
        let result = match begun {
            Ok(Begun::Ended(outcome)) => Ok(outcome),
            Err(error) => Err(error),
            Ok(Begun::Waits(call)) => {
                let (shared, node, payload) = (Arc::clone(shared), job.node, job.payload.clone());
                let end = async move {
                    let ended = guarded(call).await;
                    let result = shared.tolerated(node, payload.as_ref(), ended);
                    TaskEnd {
                        result,
                        attempts: Vec::new(),
                    }
                };
                return Err((Box::pin(end), None));
            }
        };
        Ok(TaskEnd {
            result,
            attempts: Vec::new(),
        })
    }

    async fn finish(
        self: Arc<Self>,
        place: usize,
        waiting: BoxFuture<'static, TaskEnd<S::Update>>,
        begun: Option<Arc<AtomicBool>>,
        sender: Sender<S>,
    ) {
        // A task that waits for a permit when nothing more may start never starts.
        let unbegun = async {
            match &begun {
                Some(begun) => {
                    self.closed.cancelled().await;
                    if begun.load(Ordering::SeqCst) {
                        std::future::pending::<()>().await;
                    }
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = unbegun => {}
            end = waiting => {
                if end.result.is_err() {
                    self.closed.cancel();
                }
                let _ = sender.send(vec![(place, end)]);
            }
            () = self.cut.cancelled() => {}
        }
    }
}

/// Polls a future once, without a way to be woken: whoever gets the pending future polls it again.
fn poll_once<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Result<Poll<T>, NodeError> {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    catch_unwind(AssertUnwindSafe(|| Pin::new(future).poll(&mut cx)))
        .map_err(|panic| panicked(&*panic))
}
