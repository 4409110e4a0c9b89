//! Joins at station 5: who has arrived where, what goes on, and what can never go on.
//!
//! In come the joins that wait at a position and the edges that are taken; out come those that wait
//! at the next one. A *source* is the place that an edge leaves: a node whose tasks have ended, a
//! worker that was fanned out to over nothing, or a join that goes on.

use super::position::{OpenJoin, Task};
use crate::graph::Compiled;
use crate::state::State;

/// An edge that was taken to a node.
struct Hop {
    to: u32,
    /// For which joins its source is late, by place among the open ones.
    late: Vec<usize>,
}

/// The joins of a superstep that is being routed.
pub(super) struct Joins<'g, S: State> {
    graph: &'g Compiled<S>,
    step: u64,
    now_ms: u64,
    open: Vec<OpenJoin>,
    /// Of each that has gone on: the late ones among the nodes that are left now.
    leaving: Vec<Vec<u32>>,
    hops: Vec<Hop>,
    /// For which joins the current source is late.
    source: Vec<usize>,
}

impl<'g, S: State> Joins<'g, S> {
    pub(super) fn new(
        graph: &'g Compiled<S>,
        step: u64,
        now_ms: u64,
        mut open: Vec<OpenJoin>,
    ) -> Self {
        let nodes = graph.nodes.len() as u32;
        let mut leaving = Vec::with_capacity(open.len());
        for join in &mut open {
            let late = join.late.as_mut().map(|late| {
                let (left, joins) = late.iter().partition(|place| **place < nodes);
                *late = joins;
                left
            });
            leaving.push(late.unwrap_or_default());
        }
        Self {
            graph,
            step,
            now_ms,
            open,
            leaving,
            hops: Vec::new(),
            source: Vec::new(),
        }
    }

    /// Whether the graph has none: then nothing here is asked.
    pub(super) fn is_none(&self) -> bool {
        self.graph.joins.is_empty()
    }

    /// What follows leaves a node, after its tasks or, if it is a worker, without any.
    pub(super) fn leave(&mut self, node: u32, has_tasks: bool) {
        if self.is_none() {
            return;
        }
        let is_late = |join: &usize| match has_tasks {
            true => self.leaving[*join].contains(&node),
            false => self.came_late(*join, node),
        };
        self.source = (0..self.open.len()).filter(is_late).collect();
    }

    /// Whether all edges to a node that were taken so far came from late sources.
    fn came_late(&self, join: usize, node: u32) -> bool {
        let mut hops = self.hops.iter().filter(|hop| hop.to == node).peekable();
        hops.peek().is_some() && hops.all(|hop| hop.late.contains(&join))
    }

    /// An edge to a node is taken.
    pub(super) fn lead(&mut self, to: u32) {
        if !self.is_none() {
            let late = self.source.clone();
            self.hops.push(Hop { to, late });
        }
    }

    /// A node arrives at a join.
    pub(super) fn arrive(&mut self, join: u32, node: u32) {
        let source = &self.source;
        let late = self.open.iter_mut().enumerate().find(|(place, open)| {
            open.join == join && source.contains(place) && !open.arrived.contains(&node)
        });
        if let Some((_, late)) = late {
            late.arrived.push(node);
            return;
        }
        let at = self.graph.join_place(join);
        let waits = self
            .open
            .iter()
            .position(|open| open.join == join && open.late.is_none());
        for (place, open) in self.open.iter_mut().enumerate() {
            if let Some(late) = &mut open.late {
                match (waits, self.source.contains(&place)) {
                    (None, true) => late.push(at),
                    (Some(_), false) => late.retain(|known| *known != at),
                    _ => {}
                }
            }
        }
        let open = match waits {
            Some(place) => &mut self.open[place],
            None => {
                let timeout = self.graph.joins[join as usize].timeout;
                let due = timeout.map(|time| {
                    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                    self.now_ms.saturating_add(millis)
                });
                self.open.push(OpenJoin {
                    join,
                    entry: self.step,
                    arrived: Vec::new(),
                    due_ms: due,
                    timer: None,
                    late: None,
                });
                self.leaving.push(Vec::new());
                self.open.last_mut().expect("one was just added")
            }
        };
        if !open.arrived.contains(&node) {
            open.arrived.push(node);
        }
    }

    /// The next join that goes on, if one does: what runs next so far is given.
    pub(super) fn ripe(&self, next: &[Task]) -> Option<usize> {
        let waiting = || {
            let open = self.open.iter().enumerate();
            let mut waiting: Vec<_> = open.filter(|(_, open)| open.late.is_none()).collect();
            waiting.sort_by_key(|(_, open)| open.join);
            waiting
        };
        if self.open.is_empty() {
            return None;
        }
        let waiting = waiting();
        let of = |open: &OpenJoin| &self.graph.joins[open.join as usize];
        let has_must =
            |open: &OpenJoin| of(open).must.iter().all(|node| open.arrived.contains(node));
        let enough = |open: &OpenJoin| open.arrived.len() >= of(open).enough && has_must(open);
        let now = waiting.iter().find(|(_, open)| {
            let is_over = open.due_ms.is_some_and(|due| due <= self.now_ms);
            (!of(open).gathers && enough(open)) || (is_over && has_must(open))
        });
        if let Some((place, _)) = now {
            return Some(*place);
        }
        let mut live: Vec<u32> = next.iter().map(|task| task.node).collect();
        live.dedup();
        // What is left: those that go on when nothing else can arrive.
        let rest: Vec<_> = waiting
            .into_iter()
            .filter(|(_, open)| {
                let goes_on = (of(open).gathers && enough(open))
                    || (of(open).timeout.is_some() && has_must(open));
                goes_on && !live.iter().any(|node| of(open).from.has(*node))
            })
            .collect();
        // One that another may still lead to waits for it; of those that lead to each other, the
        // first one goes on.
        let leads = |one: &OpenJoin, other: &OpenJoin| {
            one.join != other.join && of(other).from.has(self.graph.join_place(one.join))
        };
        let first = rest.iter().find(|(_, open)| {
            let mut others = rest.iter().filter(|(_, other)| leads(other, open));
            others.all(|(_, other)| leads(open, other))
        });
        first.map(|(place, _)| *place)
    }

    /// A join goes on. Returns which one; what follows leaves it.
    pub(super) fn go_on(&mut self, place: usize) -> u32 {
        let OpenJoin { join, .. } = self.open[place];
        let at = self.graph.join_place(join);
        self.source.clear();
        for (other, open) in self.open.iter_mut().enumerate() {
            if let Some(late) = &mut open.late
                && late.contains(&at)
            {
                late.retain(|known| *known != at);
                self.source.push(other);
            }
        }
        let table = &self.graph.joins[join as usize];
        let waiting = self
            .open
            .iter()
            .filter(|open| open.late.is_none() && open.join != join);
        let places = waiting.map(|open| self.graph.join_place(open.join));
        // A gather whose time is not over goes on when nothing is on its way.
        let is_over = self.open[place]
            .due_ms
            .is_some_and(|due| due <= self.now_ms);
        let late = match table.gathers && !is_over {
            true => Vec::new(),
            false => places.filter(|place| table.from.has(*place)).collect(),
        };
        self.open[place].late = Some(late);
        // Whoever is on the way now, and may still come, belongs to the round that is over.
        for hop in self.hops.iter_mut().filter(|hop| table.from.has(hop.to)) {
            hop.late.push(place);
        }
        join
    }

    /// The joins that wait at the next position.
    pub(super) fn close(mut self, next: &[Task]) -> Vec<OpenJoin> {
        for place in 0..self.open.len() {
            if self.open[place].late.is_none() {
                continue;
            }
            let mut nodes: Vec<u32> = next.iter().map(|task| task.node).collect();
            nodes.dedup();
            nodes.retain(|node| self.came_late(place, *node));
            if let Some(late) = &mut self.open[place].late {
                late.splice(0..0, nodes);
            }
        }
        let graph = self.graph;
        self.open.retain(|open| match &open.late {
            Some(late) => {
                !late.is_empty()
                    && open.arrived.len() < graph.joins[open.join as usize].members.len()
            }
            None => true,
        });
        self.open
    }
}

/// A join at which a run has come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unsatisfied {
    pub(crate) join: u32,
    pub(crate) arrived: Vec<u32>,
}

/// Which of these joins wait in vain, where nothing is left to run.
pub(super) fn unsatisfied(open: &[OpenJoin]) -> Vec<Unsatisfied> {
    let mut waits: Vec<_> = open
        .iter()
        .filter(|open| open.late.is_none())
        .map(|open| Unsatisfied {
            join: open.join,
            arrived: open.arrived.clone(),
        })
        .collect();
    waits.sort_by_key(|open| open.join);
    waits
}

/// The joins that wait after a start, as its edges tell: from a place, or from the start, to a
/// place, or to the end, in the order in which they were taken.
pub(crate) fn joins_at_start<S: State>(
    graph: &Compiled<S>,
    (step, now_ms): (u64, u64),
    edges: &[(Option<u32>, Option<u32>)],
    next: &[Task],
) -> Vec<OpenJoin> {
    let nodes = graph.nodes.len() as u32;
    let mut joins = Joins::new(graph, step, now_ms, Vec::new());
    let mut before = None;
    for (from, to) in edges {
        match from {
            Some(node) if *node < nodes => joins.leave(*node, false),
            Some(join) if before != Some(*join) => {
                let waits =
                    |open: &OpenJoin| open.late.is_none() && graph.join_place(open.join) == *join;
                if let Some(place) = joins.open.iter().position(waits) {
                    joins.go_on(place);
                }
            }
            _ => {}
        }
        before = *from;
        match (from, to) {
            (_, Some(node)) if *node < nodes => joins.lead(*node),
            (Some(from), Some(join)) => joins.arrive(join - nodes, *from),
            _ => {}
        }
    }
    joins.close(next)
}
