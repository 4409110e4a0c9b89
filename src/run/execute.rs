//! Station 3, execute: the tasks of a superstep, through their policies.
//!
//! In comes a task, out comes its end: an outcome, or an error after the last try. Panics of bodies,
//! layers and rules become errors here. It never looks at other tasks, and never records.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use futures::FutureExt;
use futures::future::BoxFuture;
use tracing::Instrument;

use super::cached::Found;
use super::inner::Held;
use super::port::RunPort;
use super::{RunOptions, recall};
use crate::engine::{Caught, Ended, Outcome};
use crate::event::EventKind;
use crate::graph::Graph;
use crate::ids::{Step, TaskPath};
use crate::node::{
    Asked, Call, Context, ErrorClass, Failure, NodeError, Payload, Policy, Port, Pulse, Returned,
    Standing,
};
use crate::policy::{
    Attempt, Call as LayerCall, Layer, Limit, Next, NodeCache, Timeout, alive, tried,
};
use crate::state::{Snapshot, State, panic_message};

/// The layers of each node: none for one that has no policy, where nothing else is set either.
pub(crate) type Layers = Arc<[Option<Arc<[Arc<dyn Layer>]>>]>;

/// Puts together the layers of each node. A limit of a node holds for all runs that share this.
pub(crate) fn layers<S: State>(graph: &Graph<S>, options: &RunOptions) -> Layers {
    let one = |policy: &Policy, goes_round: bool| {
        let mut layers: Vec<Arc<dyn Layer>> = options.layers.clone();
        if let Some(tasks) = policy.concurrency {
            layers.push(Arc::new(Limit::new(tasks)));
        }
        if let Some(time) = policy.timeout {
            layers.push(Arc::new(Timeout(time)));
        }
        let plain = layers.is_empty()
            && policy.retry.is_none()
            && policy.idle_timeout.is_none()
            && !policy.blocking
            && !policy.is_irreversible();
        (!plain || goes_round).then(|| layers.into())
    };
    graph
        .tables()
        .nodes
        .iter()
        .map(|node| {
            let goes_round = node.inner.is_some() || node.cache.is_some();
            one(&node.policy, goes_round)
        })
        .collect()
}

/// What all tasks of a run share.
pub(crate) struct Shared<S: State> {
    pub(crate) graph: Graph<S>,
    pub(crate) layers: Layers,
    pub(crate) port: Arc<RunPort>,
    pub(crate) limit: Option<Arc<dyn Layer>>,
    /// Where nodes that keep their outcomes keep them.
    pub(crate) cache: Arc<dyn NodeCache>,
    /// Whether a failed task lets the others of its superstep start.
    pub(crate) collects: bool,
    /// Whether tries are timed: where somebody will read it.
    pub(crate) timed: bool,
}

/// One superstep, as its tasks see it.
pub(crate) struct Scene<S> {
    pub(crate) step: u64,
    pub(crate) before: Arc<S>,
    pub(crate) remaining: u64,
    /// What the spans of its tasks lie in, whichever runner draws them.
    pub(crate) span: tracing::Span,
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
            span: self.span.clone(),
            ..*self
        }
    }
}

/// What a task gives that has not failed.
pub(crate) enum Gave<U> {
    /// Its outcome.
    Outcome(Outcome<U>),
    /// What it asks.
    Asked(Vec<Asked>),
    /// Until when it waits, in milliseconds since 1970.
    Parked(u64),
    /// Why the graph that it runs did not come to its end.
    Held(Held),
}

/// A body that was polled once.
pub(crate) enum Begun<U> {
    /// It is done.
    Ended(Gave<U>),
    /// It waits for something.
    Waits(Call<U>),
}

impl<U> From<Returned<U>> for Gave<U> {
    #[inline]
    fn from(returned: Returned<U>) -> Self {
        match returned {
            Returned::Done { update, exit } => Gave::Outcome(Outcome {
                update,
                ended: Ended::Exit(exit),
            }),
            Returned::Asked(asked) => Gave::Asked(asked),
            Returned::Parked(due_ms) => Gave::Parked(due_ms),
            Returned::Held(held) => Gave::Held(held.downcast().map_or(Held::Stopped, |held| *held)),
        }
    }
}

/// How a task ended.
pub(crate) struct TaskEnd<U> {
    pub(crate) result: Result<Gave<U>, NodeError>,
    pub(crate) attempts: Vec<Attempt>,
}

impl<S: State> Shared<S> {
    /// The same, with a port that has told nobody to end.
    pub(crate) fn renewed(&self) -> Self {
        self.watched(self.port.pulse.clone())
    }

    /// The same, with the signs of life of its tasks noted elsewhere.
    pub(crate) fn watched(&self, pulse: Option<Arc<Pulse>>) -> Self {
        Self {
            graph: self.graph.clone(),
            layers: Arc::clone(&self.layers),
            port: Arc::new(RunPort {
                pulse,
                ..self.port.renewed()
            }),
            limit: self.limit.clone(),
            cache: Arc::clone(&self.cache),
            collects: self.collects,
            timed: self.timed,
        }
    }

    fn context(&self, at: Standing) -> Context {
        let cx = Context::new(Arc::clone(&self.port) as Arc<dyn Port>, at);
        cx.watched(self.port.pulse.clone())
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

    /// Whether a task can be called directly, where its try is recorded: no policy, no layer, and
    /// nobody who listens.
    #[inline]
    pub(crate) fn plainly_recorded(&self, node: u32) -> bool {
        self.limit.is_none()
            && self.port.listener.is_none()
            && self.layers[node as usize].is_none()
            && self.graph.tables().node(node).policy.step_limit.is_none()
    }

    /// Calls a body once. A panic on the way to its future is its error.
    pub(crate) fn call(
        &self,
        before: &Arc<S>,
        at: Standing,
        payload: Option<&Payload>,
    ) -> BoxFuture<'static, Result<Returned<S::Update>, NodeError>> {
        self.call_with(before, at.node, payload, self.context(at))
    }

    fn call_with(
        &self,
        before: &Arc<S>,
        node: u32,
        payload: Option<&Payload>,
        cx: Context,
    ) -> BoxFuture<'static, Result<Returned<S::Update>, NodeError>> {
        let state = Snapshot::shared(Arc::clone(before));
        let body = &self.graph.tables().node(node).body;
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
        match self.poll_once(before, at, payload, cx) {
            Err(error) => self
                .tolerated(&at, payload, Err(error), 1)
                .map(Begun::Ended),
            begun => begun,
        }
    }

    /// The same, without any rule for a task that fails.
    ///
    /// # Errors
    /// The body's own; a panic on the way is one too.
    #[inline]
    pub(crate) fn poll_once(
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
                Poll::Ready(ended) => ended.map(|returned| Begun::Ended(Gave::from(returned))),
                Poll::Pending => Ok(Begun::Waits(call)),
            }
        }));
        begun.unwrap_or_else(|panic| Err(panicked(&*panic)))
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
        let mut slot = None;
        if let Some(cached) = &entry.cache {
            let asked = self.ask_cache(node, cached, payload.as_ref(), &scene.before);
            match asked.await {
                Found::Kept(end) => return end,
                Found::Nothing(found) => slot = Some((found, cached.fresh)),
                Found::NoKey(error) => {
                    let at = scene.standing(node, index, 1);
                    let result = self.tolerated(&at, payload.as_ref(), Err(error), 0);
                    let attempts = Vec::new();
                    return TaskEnd { result, attempts };
                }
            }
        }
        let layers = self.layers[node as usize].clone().unwrap_or_default();
        let layers: Arc<[Arc<dyn Layer>]> = match &self.limit {
            // What runs is counted inside; to count it here as well would leave no room for it.
            Some(limit) if entry.inner.is_none() => std::iter::once(Arc::clone(limit))
                .chain(layers.iter().cloned())
                .collect(),
            _ => layers,
        };
        let job = (node, index, payload.as_ref());
        let once = |attempt| {
            let tried = self.try_once(&scene, job, &layers, attempt, &begun);
            tried.boxed()
        };
        let (ended, mut attempts) = tried(entry.policy.retry.as_ref(), &*self.port, once).await;
        let tries = attempts.len();
        let at = scene.standing(node, index, 1);
        let result = self.tolerated(&at, payload.as_ref(), ended, tries);
        if let (Err(error), Some(last)) = (&result, attempts.last_mut()) {
            // What is recorded is what the caller gets, where the rule for failed tasks panicked.
            last.error = Some(error.clone());
        }
        if let Some((slot, fresh)) = slot {
            self.keep(slot, node, fresh, &result).await;
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
        let mut at = scene.standing(node, index, attempt);
        if let Some(supersteps) = self.graph.tables().node(node).policy.step_limit {
            at.remaining = at.remaining.min(supersteps);
        }
        let span = tracing::debug_span!(parent: &scene.span, "task", task = %path, attempt);
        let slot = Mutex::new(None);
        let started = path.clone();
        let body = Box::pin(async {
            begun.store(true, Ordering::SeqCst);
            self.port.report(None, || EventKind::TaskStarted {
                task: started,
                attempt,
            });
            let policy = &self.graph.tables().node(node).policy;
            if policy.is_irreversible() {
                self.port.begin(recall::key(&at)).await?;
            }
            let returned = match policy.idle_timeout {
                None => self.run_body(scene, at, payload, self.context(at)).await,
                Some(idle) => {
                    let pulse = Arc::new(Pulse::new(self.port.pulse.clone()));
                    let cx = self.context(at).watched(Some(Arc::clone(&pulse)));
                    alive(idle, &pulse, self.run_body(scene, at, payload, cx)).await
                }
            };
            let passed = returned.as_ref().map(|_| ()).map_err(NodeError::clone);
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(returned);
            passed
        });
        let call = LayerCall {
            // Whole, as everybody else is told of it.
            task: match &self.port.within {
                Some(outer) => path.within(outer),
                None => path,
            },
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

    async fn run_body(
        &self,
        scene: &Scene<S>,
        at: Standing,
        payload: Option<&Payload>,
        cx: Context,
    ) -> Result<Returned<S::Update>, NodeError> {
        if self.graph.tables().node(at.node).policy.blocking {
            return self
                .call_blocking(&scene.before, at.node, payload, cx)
                .await;
        }
        let call = self.call_with(&scene.before, at.node, payload, cx);
        self.or_parked(at, guarded(call)).await
    }

    /// Awaits a call, and lets go of it where it waits for a time that is too long.
    pub(super) async fn or_parked(
        &self,
        at: Standing,
        call: impl Future<Output = Result<Returned<S::Update>, NodeError>>,
    ) -> Result<Returned<S::Update>, NodeError> {
        let mut call = std::pin::pin!(call);
        std::future::poll_fn(|cx| match call.as_mut().poll(cx) {
            Poll::Ready(ended) => Poll::Ready(ended),
            Poll::Pending => match self.port.recall.take_parked(recall::key(&at)) {
                Some(due_ms) => Poll::Ready(Ok(Returned::Parked(due_ms))),
                None => Poll::Pending,
            },
        })
        .await
    }

    async fn call_blocking(
        &self,
        before: &Arc<S>,
        node: u32,
        payload: Option<&Payload>,
        cx: Context,
    ) -> Result<Returned<S::Update>, NodeError> {
        // The body is called on the other thread: it may block before its first await.
        let state = Snapshot::shared(Arc::clone(before));
        let body = Arc::clone(&self.graph.tables().node(node).body);
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

    /// Applies the worker's own rule for failed tasks, or an error exit of the node. A task that was
    /// told to end and fails has not failed of itself.
    pub(crate) fn tolerated(
        &self,
        at: &Standing,
        payload: Option<&Payload>,
        ended: Result<Returned<S::Update>, NodeError>,
        tries: usize,
    ) -> Result<Gave<S::Update>, NodeError> {
        let error = match ended {
            Ok(returned) => return Ok(returned.into()),
            Err(error) => error,
        };
        if self.port.stop.is_cancelled() {
            return Err(error);
        }
        let node = self.graph.tables().node(at.node);
        let (Some(tolerate), Some(payload)) = (&node.tolerate, payload) else {
            let task = (at.step.get(), at.node, at.index);
            return match self.caught(task, &error, tries) {
                Some(outcome) => Ok(Gave::Outcome(outcome)),
                None => Err(error),
            };
        };
        match catch_unwind(AssertUnwindSafe(|| tolerate(payload, &error))) {
            Ok(Some(update)) => Ok(Gave::Outcome(Outcome {
                update,
                ended: Ended::Tolerated,
            })),
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

impl<S: State> Shared<S> {
    /// The outcome of a failed task whose node has an error exit for it.
    pub(crate) fn caught(
        &self,
        (step, node, index): (u64, u32, u32),
        error: &NodeError,
        tries: usize,
    ) -> Option<Outcome<S::Update>> {
        let class = error.class();
        let exit = self.graph.tables().node(node).caught_by(class)?;
        let task = self.path(step, node, index);
        let failure = Failure {
            node: task.task().node.clone(),
            task,
            class,
            message: error.full(),
            attempts: tries.max(1) as u32,
        };
        Some(Outcome {
            update: S::update(),
            ended: Ended::Failed(Box::new(Caught { exit, failure })),
        })
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

pub(super) fn panicked(panic: &(dyn std::any::Any + Send)) -> NodeError {
    NodeError::new(
        ErrorClass::Panicked,
        format!("it panicked: {}", panic_message(panic)),
    )
}
