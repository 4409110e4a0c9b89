//! What the tests of the engine share: doors, counters outside the state, stores that watch and
//! fail, and a state with one field of each common kind.

mod store;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use milepost::store::{CheckpointStore, MemoryStore, SledStore};
use milepost::{
    Add, Append, Command, Context, Ended, Event, EventKind, Graph, NodeError, Progress, RunError,
    RunOptions, Runner, Snapshot, State, ThreadId,
};

pub(crate) use store::{Probe, When};

/// A state with one field of each common kind.
#[derive(Clone, Debug, Default, PartialEq, State)]
pub(crate) struct Doc {
    #[reduce(Append)]
    pub(crate) log: Vec<String>,
    #[reduce(Add)]
    pub(crate) sum: u64,
    #[reduce(Append)]
    pub(crate) seen: Vec<u64>,
    pub(crate) n: u64,
}

/// An update that appends one line.
pub(crate) fn line(text: impl Into<String>) -> DocUpdate {
    Doc::update().log(vec![text.into()])
}

/// A node that appends its own name, which is counted.
pub(crate) fn says(
    calls: &Calls,
    name: &'static str,
) -> impl Fn(Snapshot<Doc>, Context) -> futures::future::BoxFuture<'static, Result<DocUpdate, NodeError>>
+ Send
+ Sync
+ 'static {
    let calls = calls.clone();
    move |_, _| {
        calls.hit(name);
        Box::pin(async move { Ok(line(name)) })
    }
}

pub(crate) fn thread(name: &str) -> ThreadId {
    ThreadId::new(name).unwrap()
}

/// Counts of calls, outside of any state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<Mutex<BTreeMap<String, u32>>>);

impl Calls {
    pub(crate) fn hit(&self, name: &str) -> u32 {
        let mut calls = self.0.lock().unwrap();
        let count = calls.entry(name.to_owned()).or_default();
        *count += 1;
        *count
    }

    pub(crate) fn of(&self, name: &str) -> u32 {
        self.0.lock().unwrap().get(name).copied().unwrap_or(0)
    }

    pub(crate) fn forget(&self, name: &str) {
        self.0.lock().unwrap().remove(name);
    }

    pub(crate) fn all(&self) -> BTreeMap<String, u32> {
        self.0.lock().unwrap().clone()
    }
}

/// The public ways of driving a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Run,
    Stream,
    Step,
}

pub(crate) const DOORS: [Door; 3] = [Door::Run, Door::Stream, Door::Step];

/// Drives a command through a door to its end.
pub(crate) async fn drive<S: State>(
    door: Door,
    runner: &Runner<S>,
    thread: &ThreadId,
    command: Command<S>,
) -> Result<(Ended, Snapshot<S>), RunError> {
    match door {
        Door::Run => {
            let report = runner.run(thread, command).await?;
            Ok((report.ended, report.state))
        }
        Door::Stream => {
            let report = runner.stream(thread, command).report().await?;
            Ok((report.ended, report.state))
        }
        Door::Step => {
            let mut run = runner.open(thread, command).await?;
            loop {
                if let Progress::Ended(ended) = run.step().await? {
                    return Ok((ended, run.state()));
                }
            }
        }
    }
}

/// Drives a command through the stream, and keeps what was heard.
pub(crate) async fn listen<S: State>(
    runner: &Runner<S>,
    thread: &ThreadId,
    command: Command<S>,
) -> (Vec<Event>, Result<(Ended, Snapshot<S>), RunError>) {
    let mut stream = runner.stream(thread, command);
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    let ended = stream.report().await;
    (events, ended.map(|report| (report.ended, report.state)))
}

/// What a reader of the log sees too.
pub(crate) fn lasting(events: &[Event]) -> Vec<Event> {
    let live = |event: &&Event| {
        !matches!(
            event.kind,
            EventKind::SuperstepStarted { .. }
                | EventKind::TaskStarted { .. }
                | EventKind::Token { .. }
                | EventKind::Custom { .. }
        )
    };
    events.iter().filter(live).cloned().collect()
}

/// The events as one line each, without clocks: to be compared as text.
pub(crate) fn told(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .map(|event| match &event.kind {
            EventKind::Started { next, .. } => format!("started, next {next:?}"),
            EventKind::Resumed { step, takeover, .. } => format!("resumed {step} ({takeover})"),
            EventKind::SuperstepStarted { step, tasks } => format!("superstep {step} {tasks:?}"),
            EventKind::TaskStarted { task, attempt } => format!("try {attempt} of {task}"),
            EventKind::TaskFinished { task, attempts, .. } => format!("done {task} ({attempts})"),
            EventKind::TaskFailed { task, error, .. } => {
                format!("failed {task}: {}: {}", error.class, error.message)
            }
            EventKind::Committed { step, next, .. } => format!("committed {step}, next {next:?}"),
            EventKind::Ended { status, step, .. } => format!("ended {status} after {step}"),
            EventKind::Token { text, .. } => format!("token {text}"),
            EventKind::Custom { name, .. } => format!("custom {name}"),
            other => format!("{other:?}"),
        })
        .collect()
}

/// Where threads are kept.
#[derive(Debug)]
pub(crate) enum Place {
    Nowhere,
    Memory(MemoryStore),
    Sled(tempfile::TempDir),
}

impl Place {
    pub(crate) fn memory() -> Self {
        Place::Memory(MemoryStore::new())
    }

    pub(crate) fn sled() -> Self {
        Place::Sled(tempfile::tempdir().unwrap())
    }

    /// The store, opened anew where there is something to open.
    pub(crate) fn open(&self) -> Option<Arc<dyn CheckpointStore>> {
        match self {
            Place::Nowhere => None,
            Place::Memory(store) => Some(Arc::new(store.clone())),
            Place::Sled(dir) => Some(Arc::new(SledStore::open(dir.path().join("s")).unwrap())),
        }
    }

    /// A new runner over it, as a new process would have.
    pub(crate) fn runner<S: State>(&self, graph: Graph<S>, options: RunOptions) -> Runner<S> {
        let runner = Runner::new(graph).options(options);
        match self.open() {
            Some(store) => runner.shared_store(store),
            None => runner,
        }
    }
}

/// Waits for a number of turns of the scheduler that depends on a seed: a delay without a clock.
pub(crate) async fn wander(seed: u64, salt: u64) {
    let mixed =
        (seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    for _ in 0..(mixed >> 59) % 7 {
        tokio::task::yield_now().await;
    }
}

/// Runs on one thread with a paused clock, and on two threads.
pub(crate) fn on_both<F: Future<Output = ()>>(test: impl Fn() -> F) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(test());
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test());
}

/// A node that holds something: an async closure that captures is none, because its future would
/// borrow from it.
pub(crate) fn with<S, C: Clone, Fut>(
    held: C,
    node: impl Fn(C, Snapshot<S>, Context) -> Fut,
) -> impl Fn(Snapshot<S>, Context) -> Fut {
    move |state, cx| node(held.clone(), state, cx)
}

/// A worker that holds something.
pub(crate) fn fed<S, P, C: Clone, Fut>(
    held: C,
    worker: impl Fn(C, P, Snapshot<S>, Context) -> Fut,
) -> impl Fn(P, Snapshot<S>, Context) -> Fut {
    move |payload, state, cx| worker(held.clone(), payload, state, cx)
}
