//! The time of a run: who ran when, and what it waited for. From events to tracks of bars.

use std::collections::HashMap;

use super::overlay::Overlay;
use crate::event::{ErrorText, Event, EventKind, Try};
use crate::graph::GraphView;
use crate::ids::TaskPath;

/// A run over time, as SVG; its [`Display`](std::fmt::Display) is the text.
///
/// Every node has a track, every task that ran at the same time a lane of it; nodes of a graph that a
/// node runs have theirs below it, with a lane an instance. A bar is a try, dark
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
    /// When its superstep began, and when that closed.
    pub(super) from: f64,
    pub(super) closed: Option<f64>,
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
        let mut inside = HashMap::new();
        for event in events {
            match &event.within {
                None => add(&mut calls, &mut open, &event.kind),
                Some(outer) => add_inside(&mut open, &mut inside, outer, &event.kind),
            }
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
        _ => {
            if let Some((task, tries, end)) = ended(event) {
                put(open, 0.0, task, tries, end);
            }
        }
    }
}

/// What is known of the open superstep of a graph that a task runs.
#[derive(Debug, Default)]
struct Level {
    /// When it began.
    from: f64,
    /// The places of its tasks in the open stage.
    tasks: Vec<usize>,
}

/// What happened in the graph that a task runs: its supersteps lie within one of the outermost
/// graph.
fn add_inside(
    open: &mut Option<Call>,
    inside: &mut HashMap<TaskPath, Level>,
    outer: &TaskPath,
    event: &EventKind,
) {
    let level = inside.entry(outer.clone()).or_default();
    match event {
        EventKind::Started { at_ms, .. } | EventKind::Resumed { at_ms, .. } => {
            (level.from, level.tasks) = (*at_ms as f64, Vec::new());
        }
        EventKind::Committed { at_ms, .. } => {
            level.from = *at_ms as f64;
            let stage = open.as_mut().and_then(|call| call.stages.last_mut());
            let Some(stage) = stage else { return };
            for place in level.tasks.drain(..) {
                if let Some(task) = stage.tasks.get_mut(place) {
                    task.closed = Some(*at_ms as f64);
                }
            }
        }
        _ => {
            if let Some((task, tries, end)) = ended(event) {
                let place = put(open, level.from, task, tries, end);
                level.tasks.push(place);
            }
        }
    }
}

/// How a task ended, if the event says so.
fn ended(event: &EventKind) -> Option<(&TaskPath, &[Try], End)> {
    match event {
        EventKind::TaskFinished {
            task,
            tries,
            tolerated,
            ..
        } => {
            let end = tolerated.clone().map_or(End::Finished, End::Tolerated);
            Some((task, tries, end))
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
            Some((task, tries, end))
        }
        _ => None,
    }
}

fn begin(calls: &mut Vec<Call>, open: &mut Option<Call>, at_ms: u64) {
    calls.extend(open.replace(Call::at(at_ms as f64)));
}

/// Adds a task, whose superstep began then, to its stage, and gives its place there.
fn put(open: &mut Option<Call>, from: f64, path: &TaskPath, tries: &[Try], end: End) -> usize {
    let first = tries.first().map_or(0.0, |first| first.started_ms as f64);
    let call = open.get_or_insert_with(|| Call::at(first));
    let step = path.levels()[0].step.get();
    let tasks = &mut call.stage(step).tasks;
    tasks.push(Task {
        path: path.clone(),
        tries: tries.to_vec(),
        end,
        from,
        closed: None,
    });
    tasks.len() - 1
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
            for task in &mut stage.tasks {
                if task.path.outer().is_none() {
                    task.closed = stage.closed.then_some(stage.to);
                }
                task.from = task.from.max(stage.from);
                task.closed = task.closed.map(|closed| closed.min(stage.to));
            }
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
    /// Its place among what runs at the same time as it: the indices on all levels.
    pub(super) fn lane(&self) -> Vec<u32> {
        self.path.levels().iter().map(|level| level.index).collect()
    }

    /// Whether both belong to one superstep of one graph.
    pub(super) fn is_beside(&self, other: &Task) -> bool {
        let (one, other) = (self.path.levels(), other.path.levels());
        match (one, other) {
            ([around @ .., one], [others @ .., other]) => {
                around == others && one.step == other.step
            }
            _ => false,
        }
    }

    /// The nodes that lead to it, from the outermost in.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &str> + '_ {
        self.path.levels().iter().map(|level| level.node.as_str())
    }

    /// When its last try ended.
    fn end(&self) -> Option<f64> {
        self.tries.last().map(end)
    }
}

/// When a try ended.
pub(super) fn end(one: &Try) -> f64 {
    one.started_ms as f64 + one.micros as f64 / 1000.0
}
