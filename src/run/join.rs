//! Joins from the driver's side: as they are stored and read again, their timers, and the error of
//! one that waits in vain.

use super::handle::Run;
use super::replay::Reader;
use super::{RunError, recall};
use crate::engine::{OpenJoin, RouteFault, Task, Unsatisfied, joins_at_start};
use crate::event::EventKind;
use crate::graph::Compiled;
use crate::ids::{NodeName, Seq, Step, TaskPath, ThreadId};
use crate::policy::now_ms;
use crate::state::State;
use crate::store::{InputRecord, Record, StoredJoin, TimerRecord};

/// What the timer of a join is called.
const TIMEOUT: &str = "timeout";

/// The time, where the graph wants to know it.
#[inline]
pub(super) fn clock<S: State>(graph: &Compiled<S>) -> u64 {
    match graph.is_timed() {
        true => now_ms(),
        false => 0,
    }
}

/// The error of a superstep, or of a start, that cannot be routed.
pub(super) fn route_error<S: State>(
    graph: &Compiled<S>,
    thread: &ThreadId,
    step: Step,
    fault: RouteFault,
) -> RunError {
    let thread = thread.clone();
    let waits = match fault {
        RouteFault::Undecided(place, error) => {
            let node = place.map(|place| graph.place_name(place).clone());
            return RunError::Route {
                thread,
                step,
                node,
                error,
            };
        }
        RouteFault::Unsatisfied(waits) => waits,
    };
    let Some((Unsatisfied { join, arrived }, others)) = waits.split_first() else {
        unreachable!("a join that waits in vain is one of them")
    };
    let table = &graph.joins[*join as usize];
    let name = |node: &u32| graph.node(*node).name.clone();
    let missing = table.members.iter().filter(|node| !arrived.contains(node));
    RunError::UnsatisfiedJoin {
        thread,
        step,
        join: table.name.clone(),
        missing: missing.map(name).collect(),
        arrived: arrived.iter().map(name).collect(),
        enough: table.enough,
        others: others
            .iter()
            .map(|other| graph.joins[other.join as usize].name.clone())
            .collect(),
    }
}

/// Joins as a commit keeps them, and the records of their timers. One that has gone on and may still
/// be reached late is kept as two: who has arrived, and from where late ones may come.
pub(super) fn stored<S: State>(
    graph: &Compiled<S>,
    open: &[OpenJoin],
) -> (Vec<StoredJoin>, Vec<u64>) {
    let mut joins = Vec::with_capacity(open.len());
    let mut timers = Vec::new();
    let names = |places: &[u32]| {
        let names = places.iter().map(|place| graph.place_name(*place));
        names.map(|name| name.as_str().to_owned()).collect()
    };
    for open in open {
        let join = |arrived: &[u32]| StoredJoin {
            node: graph.joins[open.join as usize].name.as_str().to_owned(),
            arrived: names(arrived),
            entry: open.entry,
        };
        joins.push(join(&open.arrived));
        match &open.late {
            Some(late) => joins.push(join(late)),
            None => timers.extend(open.timer),
        }
    }
    (joins, timers)
}

/// The timers of joins that began to wait in a superstep, with the places of those joins.
pub(super) fn timers<S: State>(
    graph: &Compiled<S>,
    step: u64,
    joins: &[OpenJoin],
) -> Vec<(usize, TimerRecord)> {
    let fresh = joins
        .iter()
        .enumerate()
        .filter(|(_, open)| open.entry == step && open.late.is_none());
    let timer = |(place, open): (usize, &OpenJoin)| {
        let name = graph.joins[open.join as usize].name.clone();
        let task = TaskPath::new(Step::new(step), name, 0);
        let timer = recall::timer_record(task.to_string(), TIMEOUT, open.due_ms?);
        Some((place, timer))
    };
    fresh.filter_map(timer).collect()
}

impl<S: State> Run<S> {
    /// Records the timers of joins that have just begun to wait.
    pub(super) async fn set_timers(
        &mut self,
        step: u64,
        joins: &mut [OpenJoin],
    ) -> Result<(), RunError> {
        let fresh = |open: &&mut OpenJoin| open.entry == step && open.late.is_none();
        for open in joins.iter_mut().filter(fresh) {
            let Some(due_ms) = open.due_ms else { continue };
            let name = self.shared.graph.tables().joins[open.join as usize]
                .name
                .clone();
            let task = TaskPath::new(Step::new(step), name, 0);
            let mut seq = None;
            if let Some(log) = &mut self.log {
                let timer = recall::timer_record(task.to_string(), TIMEOUT, due_ms);
                self.over = true;
                seq = Some(log.noted(vec![Record::Timer(timer)]).await?);
                self.over = false;
                open.timer = seq.map(Seq::get);
            }
            self.shared.port.report(seq, || EventKind::TimerSet {
                task,
                key: TIMEOUT.to_owned(),
                due_ms,
            });
        }
        Ok(())
    }
}

impl<S: State> Reader<'_, S> {
    /// The joins that wait at an input or a commit.
    pub(super) async fn joins(
        &self,
        at: Option<&Record>,
        frontier: &[Task],
    ) -> Result<Vec<OpenJoin>, RunError> {
        match at {
            Some(Record::Input(input)) => {
                let mut leads = input.edges.iter().filter(|edge| !edge.to.is_empty());
                if let Some(edge) = leads.find(|edge| self.found(&edge.to).is_none()) {
                    let (stored, program) = ("a join that was reached", "no such join");
                    return Err(self.mismatch(&edge.to, stored.to_owned(), program.to_owned()));
                }
                Ok(self.started(input, frontier))
            }
            Some(Record::Commit(commit)) => self.waiting(&commit.joins, &commit.timers).await,
            _ => Ok(Vec::new()),
        }
    }

    /// What waits after a start is told by its edges.
    fn started(&self, input: &InputRecord, frontier: &[Task]) -> Vec<OpenJoin> {
        if self.graph.joins.is_empty() {
            return Vec::new();
        }
        let edges = input
            .edges
            .iter()
            .map(|edge| (self.found(&edge.from), self.found(&edge.to)));
        let edges: Vec<_> = edges.collect();
        joins_at_start(self.graph, (input.step, input.at_ms), &edges, frontier)
    }

    async fn waiting(
        &self,
        joins: &[StoredJoin],
        timers: &[u64],
    ) -> Result<Vec<OpenJoin>, RunError> {
        let mut open: Vec<OpenJoin> = Vec::with_capacity(joins.len());
        for stored in joins {
            let found = self.found(&stored.node);
            let nodes = self.graph.nodes.len() as u32;
            let join = found
                .filter(|place| *place >= nodes)
                .map(|place| place - nodes);
            let places = stored.arrived.iter().map(|name| self.found(name)).collect();
            let (Some(join), Some(places)) = (join, places) else {
                return Err(self.no_such_join(stored));
            };
            let places: Vec<u32> = places;
            let known = |open: &&mut OpenJoin| open.join == join && open.entry == stored.entry;
            if let Some(gone_on) = open.iter_mut().find(known) {
                gone_on.late = Some(places);
                continue;
            }
            let members = &self.graph.joins[join as usize].members;
            if places.iter().any(|node| !members.contains(node)) {
                return Err(self.no_such_join(stored));
            }
            open.push(OpenJoin {
                join,
                entry: stored.entry,
                arrived: places,
                due_ms: None,
                timer: None,
                late: None,
            });
        }
        for seq in timers {
            let records = self.store.records(self.thread, Seq::new(*seq), 1).await?;
            let Some(Record::Timer(timer)) = records.first().map(|stored| &*stored.record) else {
                return Err(self.corrupt(self.at, &format!("timer {seq} is not there")));
            };
            let Ok(task) = timer.task.parse::<TaskPath>() else {
                continue;
            };
            let (entry, name) = (task.task().step.get(), &task.task().node);
            let set = open.iter_mut().find(|open| {
                open.entry == entry && self.graph.joins[open.join as usize].name == *name
            });
            if let Some(open) = set {
                (open.due_ms, open.timer) = (Some(timer.due_ms), Some(*seq));
            }
        }
        Ok(open)
    }

    /// The place with a name.
    fn found(&self, name: &str) -> Option<u32> {
        let name = NodeName::new(name).ok()?;
        let join = || self.graph.joins.iter().position(|join| join.name == name);
        let node = self.graph.by_name.get(&name).copied();
        node.or_else(|| join().map(|join| self.graph.join_place(join as u32)))
    }

    fn no_such_join(&self, stored: &StoredJoin) -> RunError {
        let is = |join: &&crate::graph::JoinView| join.name.as_str() == stored.node;
        let view = &self.graph.view;
        let name = |place: &usize| view.nodes[*place].name.as_str();
        let program = match view.joins.iter().find(is) {
            Some(join) => {
                let members: Vec<_> = join.members.iter().map(name).collect();
                format!("a join of {}", members.join(", "))
            }
            None => "no such join".to_owned(),
        };
        let arrived = format!("a join at which {} arrived", stored.arrived.join(", "));
        self.mismatch(&stored.node, arrived, program)
    }
}
