//! The time of a run: who ran when, and what it waited for. From events to tracks of bars.

use super::overlay::Overlay;
use crate::event::{ErrorText, Event, EventKind, Try};
use crate::graph::GraphView;
use crate::ids::TaskPath;

/// A run over time, as SVG; its [`Display`](std::fmt::Display) is the text.
///
/// Every node has a track, every task that ran at the same time a lane of it. A bar is a try, dark
/// where it failed; a thin line before the first says that the task waited to begin, one between
/// two tries that it waited to be tried again, and one behind the last that it waited for the
/// others of its superstep. Supersteps are numbered stripes. Where the run was left and taken up
/// again, the time in between is cut out.
///
/// It is made of [`events`](crate::events) alone, as an [`Overlay`] is.
///
/// ```
/// use milepost::dot::Timeline;
/// # use milepost::store::MemoryStore;
/// use milepost::{Command, Context, End, Graph, Runner, Snapshot, State, ThreadId, events};
///
/// #[derive(Clone, Debug, Default, State)]
/// struct Counter {
///     n: u64,
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut g = Graph::builder("count");
/// let count = g.node("count", async |counter: Snapshot<Counter>, _: Context| {
///     Ok(Counter::update().n(counter.n + 1))
/// });
/// g.start(count);
/// g.edge(count, End);
/// let graph = g.build()?;
///
/// let store = MemoryStore::new();
/// let thread = ThreadId::new("t")?;
/// let runner = Runner::new(graph.clone()).store(store.clone());
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// runtime.block_on(runner.run(&thread, Command::start(Counter::update())))?;
///
/// let events = runtime.block_on(events(&store, &thread))?;
/// let picture = Timeline::new(graph.view(), &events).to_string();
/// assert!(picture.contains("<title>1:count[0]</title>"));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Timeline<'g> {
    pub(super) view: &'g GraphView,
    pub(super) overlay: Overlay,
    pub(super) calls: Vec<Call>,
}

/// From where a run was begun or taken up to where it was left. Times are milliseconds since 1970.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) from: f64,
    pub(super) to: f64,
    /// How it ended; none for one that goes on, or whose process died.
    pub(super) status: Option<String>,
    pub(super) stages: Vec<Stage>,
}

/// A superstep, as far as a call has come with it.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) step: u64,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) closed: bool,
    pub(super) tasks: Vec<Task>,
}

/// A task with its tries.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) path: TaskPath,
    pub(super) tries: Vec<Try>,
    pub(super) end: End,
}

/// How a task ended.
#[derive(Debug, Clone)]
pub(super) enum End {
    Finished,
    Tolerated(ErrorText),
    Handled(ErrorText),
    Failed(ErrorText),
}

impl<'g> Timeline<'g> {
    /// The timeline of these events, in their order.
    pub fn new<'e>(view: &'g GraphView, events: impl IntoIterator<Item = &'e Event>) -> Self {
        let events: Vec<&Event> = events.into_iter().collect();
        let overlay = Overlay::new(view, events.iter().copied());
        let mut calls = Vec::new();
        let mut open = None;
        for event in events.iter().filter(|event| event.within.is_none()) {
            add(&mut calls, &mut open, &event.kind);
        }
        calls.extend(open);
        for call in &mut calls {
            call.settle();
        }
        Self {
            view,
            overlay,
            calls,
        }
    }
}

fn add(calls: &mut Vec<Call>, open: &mut Option<Call>, event: &EventKind) {
    match event {
        EventKind::Started { at_ms, .. } => begin(calls, open, *at_ms),
        EventKind::Resumed { at_ms, .. } => begin(calls, open, *at_ms),
        EventKind::TaskFinished {
            task,
            tries,
            tolerated,
            ..
        } => {
            let end = tolerated.clone().map_or(End::Finished, End::Tolerated);
            put(open, task, tries, end);
        }
        EventKind::TaskFailed {
            task,
            tries,
            error,
            exit,
            ..
        } => {
            let end = match exit {
                Some(_) => End::Handled(error.clone()),
                None => End::Failed(error.clone()),
            };
            put(open, task, tries, end);
        }
        EventKind::Committed { step, at_ms, .. } => {
            let call = open.get_or_insert_with(|| Call::at(*at_ms as f64));
            let stage = call.stage(step.get());
            (stage.to, stage.closed) = (*at_ms as f64, true);
            call.to = *at_ms as f64;
        }
        EventKind::Ended { status, at_ms, .. } => {
            let mut call = open.take().unwrap_or_else(|| Call::at(*at_ms as f64));
            call.to = *at_ms as f64;
            call.status = Some(status.clone());
            calls.push(call);
        }
        _ => {}
    }
}

fn begin(calls: &mut Vec<Call>, open: &mut Option<Call>, at_ms: u64) {
    calls.extend(open.replace(Call::at(at_ms as f64)));
}

fn put(open: &mut Option<Call>, path: &TaskPath, tries: &[Try], end: End) {
    let first = tries.first().map_or(0.0, |first| first.started_ms as f64);
    let call = open.get_or_insert_with(|| Call::at(first));
    let step = path.levels()[0].step.get();
    call.stage(step).tasks.push(Task {
        path: path.clone(),
        tries: tries.to_vec(),
        end,
    });
}

impl Call {
    fn at(from: f64) -> Self {
        Self {
            from,
            to: from,
            status: None,
            stages: Vec::new(),
        }
    }

    /// The stage of this superstep, begun where the one before has ended.
    fn stage(&mut self, step: u64) -> &mut Stage {
        if self.stages.last().is_none_or(|last| last.step != step) {
            let from = self.stages.last().map_or(self.from, |last| last.to);
            self.stages.push(Stage {
                step,
                from,
                to: from,
                closed: false,
                tasks: Vec::new(),
            });
        }
        let last = self.stages.len() - 1;
        &mut self.stages[last]
    }

    /// Makes times fit: a clock that is read in milliseconds, or was set back, puts things outside
    /// of what they belong to. Tasks come in the order of their paths.
    fn settle(&mut self) {
        let mut from = self.from;
        for stage in &mut self.stages {
            stage.tasks.sort_by(|one, other| one.path.cmp(&other.path));
            stage.from = from;
            let ends = stage.tasks.iter().filter_map(Task::end);
            stage.to = ends.fold(stage.to.max(from), f64::max);
            from = stage.to;
        }
        self.to = self.to.max(from);
        if let Some(last) = self.stages.last_mut()
            && !last.closed
        {
            last.to = self.to;
        }
    }
}

impl Task {
    /// When its last try ended.
    fn end(&self) -> Option<f64> {
        self.tries.last().map(end)
    }
}

/// When a try ended.
pub(super) fn end(one: &Try) -> f64 {
    one.started_ms as f64 + one.micros as f64 / 1000.0
}
