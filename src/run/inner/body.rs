//! What runs when a node runs a graph.

use std::sync::{Arc, Mutex, PoisonError};

use super::held::{Held, Resting};
use super::store::InnerStore;
use crate::graph::Graph;
use crate::ids::TaskPath;
use crate::node::{Body, Call, Context, ErrorClass, NodeError, Payload, Pulse, Returned};
use crate::run::execute::{Layers, layers};
use crate::run::handle::Run;
use crate::run::log::Log;
use crate::run::port::RunPort;
use crate::run::recall::{Key, key};
use crate::run::{Busy, Durability, Ended, RunError, RunOptions, Runner};
use crate::state::{Snapshot, State};
use crate::store::{CheckpointStore, Retention};

/// What a graph inside begins with: its state before, and its input.
pub(super) type Enter<S, I> =
    Box<dyn Fn(Option<&Payload>, &S) -> Result<(I, <I as State>::Update), NodeError> + Send + Sync>;

/// What comes of its last state.
pub(super) type Leave<S, I> = Box<
    dyn Fn(Option<&Payload>, &I) -> Result<Returned<<S as State>::Update>, NodeError> + Send + Sync,
>;

/// A graph as the body of a node.
pub(super) struct Nested<S: State, I: State>(Arc<Inner<S, I>>);

struct Inner<S: State, I: State> {
    graph: Graph<I>,
    enter: Enter<S, I>,
    leave: Leave<S, I>,
    /// The layers of its nodes, for the options of the run that it was last a part of: limits of
    /// nodes hold over all instances.
    layers: Mutex<Option<(Arc<RunOptions>, Layers)>>,
}

/// Where a graph inside runs.
pub(crate) struct Host {
    /// What the task that runs it was lent.
    pub(crate) port: Arc<RunPort>,
    /// That task, in its own graph.
    pub(crate) task: Key,
    /// The same, from the outermost graph in.
    pub(crate) path: TaskPath,
    /// Its signs of life, if anybody looks: what lives inside of it is one.
    pub(crate) pulse: Option<Arc<Pulse>>,
}

impl<S: State, I: State> Nested<S, I> {
    pub(super) fn new(graph: Graph<I>, enter: Enter<S, I>, leave: Leave<S, I>) -> Self {
        Self(Arc::new(Inner {
            graph,
            enter,
            leave,
            layers: Mutex::new(None),
        }))
    }
}

impl<S: State, I: State> Body<S> for Nested<S, I> {
    fn call(&self, payload: Option<&Payload>, state: Snapshot<S>, cx: Context) -> Call<S::Update> {
        let (inner, payload) = (Arc::clone(&self.0), payload.cloned());
        Box::pin(async move { inner.run(payload.as_ref(), state, &cx).await })
    }
}

impl<S: State, I: State> Inner<S, I> {
    async fn run(
        &self,
        payload: Option<&Payload>,
        state: Snapshot<S>,
        cx: &Context,
    ) -> Result<Returned<S::Update>, NodeError> {
        let Ok(port) = cx.port().downcast::<RunPort>() else {
            return Err(NodeError::invalid("a subgraph runs only inside of a run"));
        };
        let host = Arc::new(Host {
            port,
            task: key(&cx.standing()),
            path: cx.task(),
            pulse: cx.pulse(),
        });
        let limit = cx.remaining_steps();
        let entered = self.entered(&host, limit, || (self.enter)(payload, &state));
        let mut run = Kept {
            run: Some(entered.await?),
            host: &host,
        };
        // Held, it would make the merge of the outer graph copy the state.
        drop(state);
        let report = run.get().finish().await.map_err(failed)?;
        let held = match report.ended {
            Ended::Finished => {
                run.run = None;
                return (self.leave)(payload, &report.state);
            }
            Ended::Paused { .. } | Ended::Parked { .. } => Held::Resting(resting(run.get(), &host)),
            Ended::StepLimit { limit } => {
                Held::Limited(limit, report.limited.unwrap_or(host.path.clone()))
            }
            _ => Held::Stopped,
        };
        Ok(Returned::Held(Box::new(held)))
    }

    /// The inner run, at its beginning or where it was left.
    async fn entered(
        &self,
        host: &Arc<Host>,
        limit: u64,
        enter: impl FnOnce() -> Result<(I, I::Update), NodeError>,
    ) -> Result<Run<I>, NodeError> {
        let (inners, stop) = (&host.port.inners, host.port.stop.clone());
        if let Some(left) = host.port.recall.take_left(host.task)
            && let Ok(mut run) = left.downcast::<Run<I>>()
        {
            run.taken_up(host, stop, limit);
            return Ok(*run);
        }
        let options = inners.options();
        let runner = Runner::inner(
            self.graph.clone(),
            Arc::clone(host),
            RunOptions {
                step_limit: limit,
                deadline: None,
                superstep_deadline: None,
                concurrency: None,
                busy: Busy::Refuse,
                pause_before: Vec::new(),
                pause_after: Vec::new(),
                cancel: Some(stop),
                // It lives no longer than the superstep that it is in.
                base_every: u32::MAX,
                retention: Retention::all(),
                ..(**options).clone()
            },
            self.layers(options),
        );
        let mut log = None;
        if inners.store().is_some() {
            let store = InnerStore::new(host.path.clone(), host.port.epoch, Arc::clone(inners));
            let store: Arc<dyn CheckpointStore> = Arc::new(store);
            let thread = host.port.thread.clone();
            // Its driver is the outermost one, which waits or does not.
            let claimed = Log::claim(
                store,
                self.graph.clone(),
                thread,
                Busy::Refuse,
                u32::MAX,
                Durability::Each,
            );
            log = Some(claimed.await?.whole());
        }
        let run = match log {
            Some(log) if log.head().is_some() => runner.go_on_inner(log).await,
            log => {
                let (from, input) = enter()?;
                runner.start_inner(from, input, log).await
            }
        };
        run.map_err(failed)
    }

    fn layers(&self, options: &Arc<RunOptions>) -> Layers {
        let mut known = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((of, layers)) if Arc::ptr_eq(of, options) => Arc::clone(layers),
            _ => {
                let fresh = layers(&self.graph, options);
                *known = Some((Arc::clone(options), Arc::clone(&fresh)));
                fresh
            }
        }
    }
}

/// An inner run at work. Where there is no store to go on from, it is kept for the next call, also
/// if this one is dropped half way: what has finished inside is not run again.
struct Kept<'h, I: State> {
    run: Option<Run<I>>,
    host: &'h Host,
}

impl<I: State> Kept<'_, I> {
    fn get(&mut self) -> &mut Run<I> {
        self.run
            .as_mut()
            .expect("it is taken out when it has ended")
    }
}

impl<I: State> Drop for Kept<'_, I> {
    fn drop(&mut self) {
        if let Some(run) = self.run.take()
            && run.log.is_none()
            && !run.over
        {
            self.host.port.recall.leave(self.host.task, Box::new(run));
        }
    }
}

/// What the tasks of an inner run wait for, with whole ids.
fn resting<I: State>(run: &Run<I>, host: &Host) -> Resting {
    let mut questions = run.questions.waiting();
    for asking in &mut questions {
        asking.enclose(&host.path, |seq| host.port.inners.place(&host.path, seq));
    }
    let expires = questions.iter().filter_map(|asking| asking.open.expires_ms);
    Resting {
        rests: true,
        due_ms: run.parked.iter().map(|(_, due)| *due).chain(expires).min(),
        questions,
    }
}

/// The error of an inner run as that of the task that runs it: of the class of what failed inside.
fn failed(error: RunError) -> NodeError {
    let class = match &error {
        RunError::Node { error, .. } => error.class(),
        RunError::Store(_) => ErrorClass::Transient,
        _ => ErrorClass::Invalid,
    };
    NodeError::new(class, error)
}
