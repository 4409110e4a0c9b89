//! The doors: run, stream, step; and looking back.

use std::fmt;
use std::sync::Arc;

use tokio::runtime::Handle;

use super::ask::{Questions, answered, questions_inside};
use super::close::reduce_error;
use super::command::{Taking, What};
use super::execute::{Layers, Shared, layers};
use super::handle::{Run, Stage};
use super::inner::{Host, Inners};
use super::load::{self, Loaded};
use super::log::{Log, Written};
use super::port::{Listener, RunPort, channel};
use super::retain::Retaining;
use super::settle::{LeftOpen, Settled};
use super::stop::{Stop, after, has_timer};
use super::stream::RunStream;
use super::wish::Ear;
use super::{
    Busy, Cancel, Command, Report, RunError, RunOptions, Siblings, join, queue, recall, record,
    schema,
};
use crate::engine::{Position, Routed, reduce_states, start};
use crate::event::EventKind;
use crate::graph::{Graph, GraphView};
use crate::ids::{Branch, Epoch, RunId, Seq, Step, ThreadId};
use crate::node::{NodeError, RunContext};
use crate::policy::{Layer, Limit, now_ms};
use crate::state::{Snapshot, State};
use crate::store::{CheckpointStore, Few, InputRecord, Status, StoreError};

/// Runs the threads of one graph, in one store or in none.
///
/// ```
/// use milepost::{Command, Context, End, Graph, NodeError, Runner, Snapshot, State, ThreadId};
/// use milepost::store::MemoryStore;
///
/// #[derive(Clone, Debug, Default, State)]
/// struct Count {
///     n: u64,
/// }
///
/// async fn increase(count: Snapshot<Count>, _: Context) -> Result<CountUpdate, NodeError> {
///     Ok(Count::update().n(count.n + 1))
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut g = Graph::builder("count");
/// let increase = g.node("increase", increase);
/// g.start(increase);
/// g.edge(increase, End);
///
/// let runner = Runner::new(g.build()?).store(MemoryStore::new());
/// let thread = ThreadId::new("first")?;
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// for _ in 0..2 {
///     runner.run(&thread, Command::start(Count::update())).await?;
/// }
/// let report = runner.run(&thread, Command::go_on()).await?;
/// assert_eq!(report.state.n, 2);
/// # Ok::<(), milepost::RunError>(()) })?;
/// # Ok(()) }
/// ```
pub struct Runner<S: State> {
    pub(super) graph: Graph<S>,
    pub(super) store: Option<Arc<dyn CheckpointStore>>,
    pub(super) options: Arc<RunOptions>,
    layers: Layers,
    /// What is given for its calls.
    given: RunContext,
    /// Where it runs, if its graph is inside of a node.
    host: Option<Arc<Host>>,
}

impl<S: State> Clone for Runner<S> {
    fn clone(&self) -> Self {
        Self {
            graph: self.graph.clone(),
            store: self.store.clone(),
            options: Arc::clone(&self.options),
            layers: Arc::clone(&self.layers),
            given: self.given.clone(),
            host: self.host.clone(),
        }
    }
}

impl<S: State> fmt::Debug for Runner<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("graph", &self.graph)
            .field("store", &self.store)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<S: State> Runner<S> {
    /// A runner without a store: what it runs lives in the handle, and is gone with it.
    pub fn new(graph: Graph<S>) -> Self {
        let options = RunOptions::default();
        let layers = layers(&graph, &options);
        Self {
            graph,
            store: None,
            options: Arc::new(options),
            layers,
            given: RunContext::new(),
            host: None,
        }
    }

    /// A runner of a graph inside of a node.
    pub(super) fn inner(
        graph: Graph<S>,
        host: Arc<Host>,
        options: RunOptions,
        layers: Layers,
    ) -> Self {
        Self {
            graph,
            store: None,
            options: Arc::new(options),
            layers,
            given: host.port.given.clone(),
            host: Some(host),
        }
    }

    /// Begins a graph inside of a node.
    pub(super) async fn start_inner(
        &self,
        from: S,
        input: S::Update,
        log: Option<Log<S>>,
    ) -> Result<Run<S>, RunError> {
        let (thread, run, listener) = self.hosted();
        self.start(&thread, run, (from, input), false, log, listener)
            .await
    }

    /// Takes up a graph inside of a node where its log stands.
    pub(super) async fn go_on_inner(&self, log: Log<S>) -> Result<Run<S>, RunError> {
        let (thread, _, listener) = self.hosted();
        self.go_on(&thread, Some(log), listener, Taking::Up).await
    }

    fn hosted(&self) -> (ThreadId, RunId, Option<Listener>) {
        let host = self.host.as_ref();
        let port = &host
            .expect("only a graph inside of a node is begun so")
            .port;
        (port.thread.clone(), port.run.clone(), port.listener.clone())
    }

    /// Keeps threads in a store.
    #[must_use]
    pub fn store(self, store: impl CheckpointStore) -> Self {
        self.shared_store(Arc::new(store))
    }

    /// Keeps threads in a store that others use, too.
    #[must_use]
    pub fn shared_store(mut self, store: Arc<dyn CheckpointStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Sets the options of its runs.
    #[must_use]
    pub fn options(mut self, options: RunOptions) -> Self {
        self.layers = layers(&self.graph, &options);
        self.given = options.context.clone();
        self.options = Arc::new(options);
        self
    }

    /// The graph.
    pub fn graph(&self) -> &Graph<S> {
        &self.graph
    }

    /// Runs a thread until it ends, stops or fails.
    ///
    /// # Errors
    /// [`RunError`]; what had finished is kept.
    pub async fn run(&self, thread: &ThreadId, command: Command<S>) -> Result<Report<S>, RunError> {
        self.enter(thread, command, None).await?.finish().await
    }

    /// Runs a thread as [`run`](Self::run) does, and tells what happens as it happens. Dropping the stream stops the run: what is running may
    /// finish within the grace time and is recorded, nothing new starts.
    pub fn stream(&self, thread: &ThreadId, command: Command<S>) -> RunStream<S> {
        let (listener, events) = channel(self.options.backlog);
        let (runner, stopped, thread) = (self.clone(), thread.clone(), thread.clone());
        let Ok(runtime) = Handle::try_current() else {
            return RunStream::refused(
                events,
                stopped.clone(),
                RunError::NoRuntime { thread: stopped },
            );
        };
        let task = runtime.spawn(async move {
            let reader = listener.clone();
            let mut run = tokio::select! {
                biased;
                // Also while it waits for its turn: nothing begins that nobody wants any more.
                () = reader.closed() => {
                    let error = NodeError::transient("its stream was dropped before it began");
                    return Err(RunError::Interrupted { thread, error });
                }
                run = runner.enter(&thread, command, Some(listener)) => run?,
            };
            drop(reader);
            run.finish().await
        });
        RunStream::new(events, task, stopped)
    }

    /// Opens a run, to be driven step by step.
    ///
    /// # Errors
    /// [`RunError`] if the command does not fit where the thread stands.
    pub async fn open(&self, thread: &ThreadId, command: Command<S>) -> Result<Run<S>, RunError> {
        self.enter(thread, command, None).await
    }

    /// The state at a checkpoint of any branch: an input or a commit, by its seq. What runs of the
    /// thread in this process have accepted is made durable first.
    ///
    /// # Errors
    /// [`RunError::NotFound`], [`RunError::NoCheckpoint`], [`RunError::Pruned`], and what reading may
    /// find.
    pub async fn state_at(&self, thread: &ThreadId, seq: Seq) -> Result<Snapshot<S>, RunError> {
        let store = self.store.as_ref().ok_or_else(|| not_found(thread))?;
        queue::settle(&**store, thread).await;
        let head = store.head(thread).await?.ok_or_else(|| not_found(thread))?;
        let loaded = load::load(&**store, self.graph.tables(), thread, &head, seq).await?;
        Ok(Snapshot::shared(loaded.position.state))
    }

    /// The state at the head of a thread.
    ///
    /// # Errors
    /// [`RunError::NotFound`], and what reading may find.
    pub async fn state(&self, thread: &ThreadId) -> Result<Snapshot<S>, RunError> {
        let store = self.store.as_ref().ok_or_else(|| not_found(thread))?;
        queue::settle(&**store, thread).await;
        let mut head = store.head(thread).await?.ok_or_else(|| not_found(thread))?;
        loop {
            let state = self.state_at(thread, head.seq).await;
            if state.is_ok() {
                return state;
            }
            // A run that moves the head on may drop meanwhile what the old one is read from.
            match store.head(thread).await? {
                Some(moved) if moved.base != head.base => head = moved,
                _ => return state,
            }
        }
    }

    /// Claims the thread, loads it, and applies the command.
    async fn enter(
        &self,
        thread: &ThreadId,
        command: Command<S>,
        listener: Option<Listener>,
    ) -> Result<Run<S>, RunError> {
        let Command { what, context } = command;
        if context.is_empty() {
            return self.entered(thread, what, listener).await;
        }
        let mut runner = self.clone();
        runner.given = runner.given.overridden_by(&context);
        runner.entered(thread, what, listener).await
    }

    async fn entered(
        &self,
        thread: &ThreadId,
        what: What<S>,
        listener: Option<Listener>,
    ) -> Result<Run<S>, RunError> {
        // Tasks, time limits and stores need one; without this, the first of them would panic.
        if Handle::try_current().is_err() {
            let thread = thread.clone();
            return Err(RunError::NoRuntime { thread });
        }
        self.options.check_pauses(self.graph.view())?;
        if self.needs_timer(listener.is_some()) && !has_timer() {
            let thread = thread.clone();
            return Err(RunError::NoTimer { thread });
        }
        let claimed = match &self.store {
            Some(store) => {
                let (store, graph) = (Arc::clone(store), self.graph.clone());
                let (busy, every) = (self.options.busy, self.options.base_every);
                let durability = self.options.durability;
                Some(Log::claim(store, graph, thread.clone(), busy, every, durability).await?)
            }
            None => None,
        };
        if self.options.pin
            && let (Some(log), Some(store)) = (&claimed, &self.store)
            && let Some(head) = log.head().filter(|head| head.status != Status::Finished)
        {
            schema::check_pin(&**store, self.graph.tables(), thread, head).await?;
        }
        let (input, id, abandon) = match what {
            What::Start {
                input,
                run,
                abandon,
            } => (input, run, abandon),
            What::GoOn(taking) => return self.go_on(thread, claimed, listener, taking).await,
        };
        if let (Some(log), Some(id)) = (&claimed, &id)
            && let Some(row) = log.run_row(id).await?
        {
            if let Some(end) = row.end {
                return self.ended(thread, id, end).await;
            }
            if log.head().is_none_or(|head| head.run != id.as_str()) {
                return Err(RunError::Superseded {
                    thread: thread.clone(),
                    run: id.clone(),
                });
            }
            return self.go_on(thread, claimed, listener, Taking::Up).await;
        }
        let run = id.unwrap_or_else(RunId::random);
        let begins = (S::default(), input);
        self.start(thread, run, begins, abandon, claimed, listener)
            .await
    }

    /// Whether a run may have to wait for a time: for its end, for the next try, or for the grace
    /// time of a node after the run was stopped, by its handle or by whoever listens no more.
    fn needs_timer(&self, heard: bool) -> bool {
        let options = &self.options;
        heard
            || options.deadline.is_some()
            || options.superstep_deadline.is_some()
            || options.cancel.is_some()
            || matches!(options.busy, Busy::Wait(_))
            || has_timed_nodes(self.graph.view())
    }

    /// A run that has ended before: its end comes back, nothing runs.
    async fn ended(&self, thread: &ThreadId, run: &RunId, end: Seq) -> Result<Run<S>, RunError> {
        let store = self.store.as_ref().ok_or_else(|| not_found(thread))?;
        let head = store.head(thread).await?.ok_or_else(|| not_found(thread))?;
        let loaded = load::load(&**store, self.graph.tables(), thread, &head, end).await?;
        let mut handle = self.handle(thread, run.clone(), loaded.position, None, None);
        handle.ended_at = Some(end);
        Ok(handle)
    }

    /// Accepts an input: merges it, decides what runs first, writes both. A new thread begins with
    /// the state that is given beside the input.
    async fn start(
        &self,
        thread: &ThreadId,
        run: RunId,
        (begins, input): (S, S::Update),
        abandon: bool,
        mut log: Option<Log<S>>,
        listener: Option<Listener>,
    ) -> Result<Run<S>, RunError> {
        let loaded = match &mut log {
            Some(log) => log.load().await?,
            None => None,
        };
        let tables = self.graph.tables();
        if loaded.is_none() {
            let missing = S::fields()
                .iter()
                .find(|field| field.required() && !field.written(&input));
            if let Some(field) = missing {
                return Err(RunError::MissingInput {
                    field: field.name(),
                });
            }
        }
        let status = log.as_ref().and_then(Log::status);
        let (mut step, mut state) = (0, Arc::new(begins));
        let mut closed: Vec<(usize, u64)> = Vec::new();
        let mut given_up = Vec::new();
        let mut settled = Settled::none();
        if let Some(Loaded {
            position,
            recorded_seqs,
            questions,
            memory,
            stopped,
            inner,
            ..
        }) = loaded
        {
            // What is given up counts as a superstep, so that no later task has the path of one of its.
            step = position.step + u64::from(!position.frontier.is_empty());
            state = position.state;
            let mut open = questions.open();
            open.extend(questions_inside(&inner, position.step + 1));
            if !open.is_empty() && status != Some(Status::Cancelled) && !abandon {
                return Err(RunError::PendingInterrupt {
                    thread: thread.clone(),
                    open: open.into_iter().map(|question| question.id).collect(),
                });
            }
            if let Some(status) = status
                && !position.frontier.is_empty()
                && status != Status::Cancelled
                && !abandon
            {
                let (thread, step) = (thread.clone(), Step::new(step));
                return Err(RunError::Unfinished {
                    thread,
                    status,
                    step,
                });
            }
            let left = LeftOpen {
                graph: tables,
                thread,
                step,
                before: &*state,
                tasks: &position.frontier,
                finished: &position.recorded,
                status,
                questions: &questions,
                memory: &memory,
                stopped: stopped.as_deref(),
            };
            settled = left.settle()?;
            let mut recorded: Vec<_> = position.recorded.into_iter().zip(recorded_seqs).collect();
            recorded.sort_by_key(|((place, _), _)| *place);
            for ((place, outcome), seq) in recorded {
                closed.push((place, seq));
                given_up.push(outcome.update);
            }
        }
        let encode = |origin: &str| {
            let (thread, origin) = (thread.clone(), origin.to_owned());
            move |(field, error): record::Unstorable| RunError::Encode {
                thread,
                step: Step::new(step),
                origin,
                field,
                error,
            }
        };
        let reduce = |fault| reduce_error(thread.clone(), Step::new(step), fault);
        let kept = log.is_some() || listener.is_some();
        let check = log.is_some() && self.options.check_round_trip;
        let update = match record::changes::<S>(&input, check) {
            _ if !kept => Few::new(),
            Err(fault) if log.is_some() => return Err(encode("the input")(fault)),
            changes => changes.unwrap_or_default(),
        };
        let changes = settled.changes::<S>(check);
        let changes =
            changes.map_err(|(task, fault)| encode(&format!("the rule for task {task}"))(fault))?;
        let input_alone = std::iter::once(&input);
        let kept_anyway = record::by_value::<S>(settled.updates().chain(input_alone.clone()));
        let updates = given_up.iter().chain(settled.updates()).chain(input_alone);
        let mut by_value = record::by_value::<S>(updates);
        // What was given up because it cannot be merged must not keep the thread from starting
        // anew: then none of it is kept.
        if !given_up.is_empty() && reduce_states(&mut state, &mut given_up).is_err() {
            by_value = kept_anyway;
            closed.clear();
        }
        settled.merge(&mut state, thread, step)?;
        reduce_states(&mut state, &mut [input]).map_err(reduce)?;
        let at_ms = now_ms();
        let Routed { position, taken } = start(tables, step, state, at_ms)
            .map_err(|fault| join::route_error(tables, thread, Step::new(step), fault))?;
        let edges = record::edges(tables, &taken);
        let status = self.options.status_at(tables, &position.frontier, &[]);
        let mut seq = None;
        if let Some(log) = &mut log {
            let record = InputRecord {
                run: run.as_str().to_owned(),
                at_ms,
                step,
                closed: closed.into_iter().map(|(_, seq)| seq).collect(),
                settled: changes,
                update: update.to_vec(),
                values: record::values(&*position.state, &by_value).map_err(encode("a reducer"))?,
                edges: edges.clone(),
                frontier: record::frontier(tables, &position.frontier, check)
                    .map_err(encode("a fan-out"))?,
                status,
            };
            seq = Some(match log.input(&run, record, &position.state).await {
                Ok(seq) => seq,
                Err(Written::Store(error)) => return Err(error.into()),
                Err(Written::Unstorable(fault, _)) => return Err(encode("the input")(fault)),
            });
        }
        let mut handle = self.handle(thread, run, position, log, listener);
        handle.pauses = status == Status::Paused;
        handle.shared.port.report(seq, || {
            record::started(thread.clone(), handle.id().clone(), at_ms, &update, &edges)
        });
        if status != Status::Running {
            handle.report_ended(seq, step, at_ms, status);
        }
        Ok(handle)
    }

    /// Takes a thread up where it stands.
    async fn go_on(
        &self,
        thread: &ThreadId,
        log: Option<Log<S>>,
        listener: Option<Listener>,
        taking: Taking,
    ) -> Result<Run<S>, RunError> {
        let mut log = log.ok_or_else(|| not_found(thread))?;
        let head = log.head().cloned().ok_or_else(|| not_found(thread))?;
        let loaded = log.load().await?.ok_or_else(|| not_found(thread))?;
        let run = RunId::new(&head.run).map_err(|why| {
            RunError::Store(StoreError::Corrupt {
                place: format!("the head row of thread {thread}"),
                found: why.to_string(),
                hint: "Restore the store from a copy",
            })
        })?;
        if let Some(row) = log.run_row(&run).await? {
            log.go_on_with(run.clone(), row);
        }
        let Loaded {
            position,
            recorded_seqs,
            takeovers,
            questions,
            memory,
            inner,
            ..
        } = loaded;
        let step = position.step;
        let recorded = position
            .recorded
            .iter()
            .map(|(place, _)| *place)
            .zip(recorded_seqs)
            .collect();
        let open = !position.frontier.is_empty();
        // A thread that is still running, and was not given back, was left by a process that died.
        let died = head.status == Status::Running && !log.claimed().given_back;
        let mut handle = self.handle(thread, run, position, Some(log), listener);
        handle.recorded = recorded;
        handle.questions = questions;
        handle.remember_inner(&inner)?;
        if let Taking::Back(tasks) = &taking {
            handle.discard(tasks).await?;
        }
        handle.expire().await?;
        if let Taking::In(answers) = taking {
            let store = self.store.as_ref().ok_or_else(|| not_found(thread))?;
            let fresh = answered(&**store, thread, answers, &handle.questions).await?;
            handle.answer(fresh).await?;
        }
        handle.remember(memory);
        let at_rest = matches!(head.status, Status::Paused | Status::Parked);
        let waits = at_rest && handle.only_waits();
        if open && !waits {
            let takeover = if died { takeovers + 1 } else { 0 };
            if takeover > self.options.poison_limit {
                let error = RunError::Poison {
                    thread: thread.clone(),
                    step: Step::new(step + 1),
                    takeovers,
                };
                return Err(handle.broke(None, step + 1, error).await);
            }
            let mut seq = None;
            let at_ms = now_ms();
            if let Some(log) = &mut handle.log {
                seq = Some(log.started(step + 1, takeover, at_ms).await?);
            }
            handle.shared.port.report(seq, || EventKind::Resumed {
                thread: thread.clone(),
                run: handle.id().clone(),
                at_ms,
                step: Step::new(step),
                takeover,
            });
        }
        Ok(handle)
    }

    fn handle(
        &self,
        thread: &ThreadId,
        run: RunId,
        position: Position<S>,
        log: Option<Log<S>>,
        listener: Option<Listener>,
    ) -> Run<S> {
        // Where nothing is recorded, nobody has to be asked to.
        let (way, requests) = match &log {
            Some(_) => {
                let (way, requests) = recall::requests();
                (Some(way), Some(requests))
            }
            None => (None, None),
        };
        let ear = log
            .as_ref()
            .map(|log| Ear::new(log.claimed().wishes.clone(), run.clone()));
        let limit = self
            .options
            .concurrency
            .map(|tasks| Arc::new(Limit::new(tasks)) as Arc<dyn Layer>);
        if let (Some(log), Some(listener)) = (&log, &listener) {
            log.listen(listener);
        }
        let host = self.host.as_ref();
        let inners = match host {
            Some(host) => Arc::clone(&host.port.inners),
            None => Arc::new(Inners::new(
                thread.clone(),
                log.as_ref().map(Log::store),
                way.clone(),
                Arc::clone(&self.options),
                limit.clone(),
            )),
        };
        let limit = match host {
            Some(_) => inners.limit().cloned(),
            None => limit,
        };
        let port = RunPort {
            thread: thread.clone(),
            run,
            branch: match (host, log.as_ref().and_then(Log::head)) {
                (Some(host), _) => host.port.branch,
                (None, Some(head)) => head.branch,
                (None, None) => Branch::new(0),
            },
            epoch: log
                .as_ref()
                .map_or(Epoch::new(0), |log| log.claimed().epoch),
            within: host.map(|host| host.path.clone()),
            inners,
            names: self.graph.tables().names(),
            stop: Cancel::new(),
            recall: Arc::default(),
            requests: way,
            park_after: self.options.park_after,
            listener: listener.clone(),
            given: self.given.clone(),
            pulse: host.and_then(|host| host.pulse.clone()),
        };
        let deadline = self.options.deadline;
        let retaining = match &log {
            Some(log) if !self.options.retention.keeps_all() => Retaining::from(
                log.claimed()
                    .head
                    .as_ref()
                    .map(|head| head.base)
                    .unwrap_or_default(),
            ),
            _ => Retaining::NEVER,
        };
        Run {
            shared: Arc::new(Shared {
                graph: self.graph.clone(),
                layers: Arc::clone(&self.layers),
                port: Arc::new(port),
                limit,
                cache: Arc::clone(&self.options.cache),
                collects: self.options.siblings == Siblings::Collect,
                timed: log.is_some() || listener.is_some(),
            }),
            stop: Stop {
                cancel: self.options.cancel.clone(),
                // Who listens no more stops the outermost run, which stops what is inside.
                listener: listener.filter(|_| host.is_none()),
                ear,
                call: deadline.map(|time| (after(time), time)),
                superstep: None,
            },
            limit: self.options.step_limit,
            options: Arc::clone(&self.options),
            log,
            stage: Stage::At(position),
            recorded: Vec::new(),
            questions: Questions::default(),
            parked: Vec::new(),
            requests,
            pauses: false,
            over: false,
            executed: 0,
            limited: None,
            ended_at: None,
            retaining,
            watch: None,
        }
    }
}

/// Whether a node of a graph, or of one inside of it, has a policy that waits for a time.
fn has_timed_nodes(graph: &GraphView) -> bool {
    graph.nodes.iter().any(|node| {
        node.policy.timeout.is_some()
            || node.policy.idle_timeout.is_some()
            || node.policy.retry.is_some()
            || node.inner.as_deref().is_some_and(has_timed_nodes)
    })
}

pub(super) fn not_found(thread: &ThreadId) -> RunError {
    RunError::NotFound {
        thread: thread.clone(),
    }
}
