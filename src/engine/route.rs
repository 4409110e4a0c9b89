//! Station 5, route: takes a reduced superstep, gives the next position and the edges taken.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::join::{Joins, Unsatisfied, unsatisfied};
use super::position::{Caught, Ended, OpenJoin, Position, Task, Via};
use super::reduce::{Ends, Reduced};
use crate::graph::{Compiled, Dest, Out};
use crate::node::{ErrorClass, NodeError, Payload};
use crate::state::{State, panic_message};

/// A routed superstep.
pub(crate) struct Routed<S: State> {
    pub(crate) position: Position<S>,
    /// The edges taken; empty unless they were asked for.
    pub(crate) taken: Edges,
}

/// Edges that were taken, in order. One is the common case, and allocates nothing.
pub(crate) enum Edges {
    One(Taken),
    Many(Vec<Taken>),
}

impl std::ops::Deref for Edges {
    type Target = [Taken];

    #[inline]
    fn deref(&self) -> &[Taken] {
        match self {
            Edges::One(taken) => std::slice::from_ref(taken),
            Edges::Many(all) => all,
        }
    }
}

/// An edge that was taken. Its ends are places: nodes, or joins.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) from: Option<u32>,
    pub(crate) label: &'static str,
    pub(crate) to: Option<u32>,
    pub(crate) tasks: u32,
}

/// Why it cannot be said what runs next.
pub(crate) enum RouteFault {
    /// A decision could not be made: that of a node or join, by place; none for the start.
    Undecided(Option<u32>, NodeError),
    /// Nothing is left to run, and these joins wait.
    Unsatisfied(Vec<Unsatisfied>),
}

/// Finds what runs next, at this time, where joins have an end to their waiting. On a fault the
/// reduced superstep comes back, so that the decision can be asked for again without running a node.
#[expect(
    clippy::result_large_err,
    reason = "the reduced superstep is moved, as on success"
)]
#[inline]
pub(crate) fn route<S: State>(
    graph: &Compiled<S>,
    reduced: Reduced<S>,
    keep_taken: bool,
    now_ms: u64,
) -> Result<Routed<S>, (Reduced<S>, RouteFault)> {
    let Reduced {
        step,
        state,
        mut tasks,
        joins,
        ended,
        mut spare,
    } = reduced;
    // The common case: one task, whose way leads to one node.
    if let [only] = tasks.as_mut_slice()
        && joins.is_empty()
        && let Some((label, target)) = decided(graph, only.node, ended.get(0))
        && let [Dest::Node(next)] = graph.target(target)
    {
        let from = Some(only.node);
        let taken = match keep_taken {
            true => Edges::One(Taken {
                from,
                label,
                to: Some(*next),
                tasks: 1,
            }),
            false => Edges::Many(Vec::new()),
        };
        *only = Task {
            node: *next,
            index: 0,
            via: Via { from, label },
            payload: None,
        };
        let position = Position {
            step,
            state,
            frontier: tasks,
            joins,
            recorded: Vec::new(),
            spare,
        };
        return Ok(Routed { position, taken });
    }
    spare.clear();
    let waiting = Joins::new(graph, step, now_ms, joins.clone());
    let mut ways = Ways::new(graph, &state, spare, keep_taken, waiting);
    let left = ways.leave_all(&tasks, &ended);
    match left.and_then(|()| ways.end()) {
        Ok((frontier, joins, taken)) => {
            tasks.clear();
            let position = Position {
                step,
                state,
                frontier,
                joins,
                recorded: Vec::new(),
                spare: tasks,
            };
            let taken = Edges::Many(taken);
            Ok(Routed { position, taken })
        }
        Err(fault) => Err((
            Reduced {
                step,
                state,
                tasks,
                joins,
                ended,
                spare: Vec::new(),
            },
            fault,
        )),
    }
}

/// Finds what runs first.
pub(crate) fn start<S: State>(
    graph: &Compiled<S>,
    step: u64,
    state: Arc<S>,
    now_ms: u64,
) -> Result<Routed<S>, RouteFault> {
    let joins = Joins::new(graph, step, now_ms, Vec::new());
    let mut ways = Ways::new(graph, &state, Vec::new(), true, joins);
    ways.follow(
        Via {
            from: None,
            label: "",
        },
        graph.start,
    )?;
    ways.go_on()?;
    let (frontier, joins, taken) = ways.end()?;
    let position = Position {
        step,
        state,
        frontier,
        joins,
        recorded: Vec::new(),
        spare: Vec::new(),
    };
    let taken = Edges::Many(taken);
    Ok(Routed { position, taken })
}

/// The way out of a node, where no user code has to be asked.
#[inline]
fn decided<S: State>(graph: &Compiled<S>, node: u32, ended: &Ended) -> Option<(&'static str, u32)> {
    let entry = graph.node(node);
    match (entry.out.as_ref()?, ended) {
        (_, Ended::Failed(_)) => None,
        (Out::Edge(target), _) => Some(("", *target)),
        (Out::Exits(targets), Ended::Exit(exit)) => {
            let label = entry.exits.get(*exit as usize).copied().unwrap_or_default();
            targets.get(*exit as usize).map(|target| (label, *target))
        }
        (Out::Exits(_), Ended::Tolerated) => entry.empty.map(|target| ("when empty", target)),
        (Out::Branch { .. }, _) => None,
    }
}

/// The frontier in its stored order: by node as declared, then as the edges were taken; plain
/// nodes once, worker tasks counted.
fn settled(mut next: Vec<Task>) -> Vec<Task> {
    next.sort_by_key(|task| task.node);
    next.dedup_by(|later, first| {
        later.node == first.node && later.payload.is_none() && first.payload.is_none()
    });
    let mut before = None;
    for task in &mut next {
        task.index = match before {
            Some((node, index)) if node == task.node => index + 1,
            _ => 0,
        };
        before = Some((task.node, task.index));
    }
    next
}

struct Ways<'g, S: State> {
    graph: &'g Compiled<S>,
    state: &'g S,
    next: Vec<Task>,
    taken: Vec<Taken>,
    keep_taken: bool,
    /// Workers that were fanned out to over nothing, each once.
    empty: Vec<u32>,
    /// How many of them are left.
    left: usize,
    joins: Joins<'g, S>,
}

/// The frontier, the joins that wait, and the edges taken.
type Found = (Vec<Task>, Vec<OpenJoin>, Vec<Taken>);

impl<'g, S: State> Ways<'g, S> {
    fn new(
        graph: &'g Compiled<S>,
        state: &'g S,
        next: Vec<Task>,
        keep_taken: bool,
        joins: Joins<'g, S>,
    ) -> Self {
        Self {
            graph,
            state,
            next,
            taken: Vec::new(),
            keep_taken,
            empty: Vec::new(),
            left: 0,
            joins,
        }
    }

    fn leave_all(&mut self, tasks: &[Task], ended: &Ends) -> Result<(), RouteFault> {
        let mut place = 0;
        while place < tasks.len() {
            let node = tasks[place].node;
            // Tasks of one node stand together: a worker is left once, after all of them.
            let group = tasks[place..]
                .iter()
                .take_while(|task| task.node == node)
                .count();
            self.joins.leave(node, true);
            let ends = (place..place + group).map(|task| ended.get(task));
            let failed = self.leave_failed(node, ends.clone())?;
            // A node that has failed has no other way; a worker's is that of all its tasks.
            if !failed || self.graph.node(node).payload.is_some() {
                self.leave(node, ends)?;
            }
            place += group;
        }
        self.go_on()
    }

    /// Leaves what no task has to be run for: workers without tasks, and joins that go on.
    fn go_on(&mut self) -> Result<(), RouteFault> {
        loop {
            self.leave_empty_fans()?;
            let Some(ripe) = self.joins.ripe(&self.next) else {
                return Ok(());
            };
            let join = self.joins.go_on(ripe);
            let via = Via {
                from: Some(self.graph.join_place(join)),
                label: "",
            };
            self.follow(via, self.graph.joins[join as usize].target)?;
        }
    }

    /// What was found, if nobody waits in vain.
    fn end(self) -> Result<Found, RouteFault> {
        let frontier = settled(self.next);
        let joins = self.joins.close(&frontier);
        if frontier.is_empty() && !joins.is_empty() {
            return Err(RouteFault::Unsatisfied(unsatisfied(&joins)));
        }
        Ok((frontier, joins, self.taken))
    }

    /// Leads failed tasks of a node on by its error exits, in their order. Returns whether there
    /// are any.
    fn leave_failed<'e>(
        &mut self,
        node: u32,
        ends: impl Iterator<Item = &'e Ended>,
    ) -> Result<bool, RouteFault> {
        let graph = self.graph;
        let before = self.taken.len();
        let mut exits: Vec<u32> = Vec::new();
        for ended in ends {
            let Ended::Failed(caught) = ended else {
                continue;
            };
            let Caught { exit, failure } = &**caught;
            let Some(catch) = graph.node(node).catches.get(*exit as usize) else {
                continue;
            };
            let via = Via {
                from: Some(node),
                label: catch.label,
            };
            if !exits.contains(exit) {
                exits.push(*exit);
                self.follow(via, catch.target)?;
            }
            for dest in graph.target(catch.target) {
                let Dest::Caught(worker) = dest else { continue };
                self.joins.lead(*worker);
                let payload = Payload::all(vec![failure.clone()]).pop();
                self.next.push(Task {
                    node: *worker,
                    index: 0,
                    via,
                    payload,
                });
                let known = self.taken[before..]
                    .iter()
                    .position(|taken| taken.label == catch.label && taken.to == Some(*worker));
                match known {
                    Some(known) => self.taken[before + known].tasks += 1,
                    None => self.take(via, Some(*worker), 1),
                }
            }
        }
        Ok(!exits.is_empty())
    }

    /// Leaves the workers that were fanned out to over nothing: each once, and only if no other
    /// edge has given it tasks, after which it will be left anyway. Leaving one may add another.
    fn leave_empty_fans(&mut self) -> Result<(), RouteFault> {
        while self.left < self.empty.len() {
            // One that another of them may still give tasks to waits for it.
            let waiting = &self.empty[self.left..];
            let free = waiting.iter().position(|worker| {
                let others = waiting.iter().filter(|other| *other != worker);
                !others.into_iter().any(|other| self.feeds(*other, *worker))
            });
            self.empty.swap(self.left, self.left + free.unwrap_or(0));
            let worker = self.empty[self.left];
            self.left += 1;
            if !self.next.iter().any(|task| task.node == worker) {
                self.joins.leave(worker, false);
                self.leave(worker, std::iter::empty())?;
            }
        }
        Ok(())
    }

    /// Whether leaving a worker can lead to tasks of another, over workers without any.
    fn feeds(&self, from: u32, to: u32) -> bool {
        let mut open = vec![from];
        let mut seen = vec![from];
        while let Some(worker) = open.pop() {
            let entry = self.graph.node(worker);
            let ways: &[u32] = match &entry.out {
                Some(Out::Edge(target)) => std::slice::from_ref(target),
                Some(Out::Branch { targets, .. }) => targets,
                Some(Out::Exits(_)) | None => &[],
            };
            for target in ways.iter().chain(&entry.empty) {
                for dest in self.graph.target(*target) {
                    match dest {
                        Dest::Each(next, _) if *next == to => return true,
                        Dest::Each(next, _) if !seen.contains(next) => {
                            seen.push(*next);
                            open.push(*next);
                        }
                        _ => {}
                    }
                }
            }
        }
        false
    }

    /// Leaves a node after its task, or a worker after all its tasks.
    fn leave<'e>(
        &mut self,
        node: u32,
        ends: impl Iterator<Item = &'e Ended>,
    ) -> Result<(), RouteFault> {
        let graph = self.graph;
        let entry = graph.node(node);
        let via = |label| Via {
            from: Some(node),
            label,
        };
        match &entry.out {
            Some(Out::Edge(target)) => self.follow(via(""), *target),
            Some(Out::Branch {
                choose,
                labels,
                targets,
            }) => {
                let state = self.state;
                let chosen = guarded(Some(node), || choose(state))?;
                let target = exit_of(targets, chosen, node)?;
                let label = labels.get(chosen).copied().unwrap_or_default();
                self.follow(via(label), target)
            }
            Some(Out::Exits(targets)) => {
                let mut exits: Vec<u32> = Vec::new();
                for ended in ends {
                    if let Ended::Exit(exit) = ended
                        && !exits.contains(exit)
                    {
                        exits.push(*exit);
                    }
                }
                for exit in &exits {
                    let label = entry.exits.get(*exit as usize).copied().unwrap_or_default();
                    self.follow(via(label), exit_of(targets, *exit as usize, node)?)?;
                }
                match entry.empty {
                    Some(target) if exits.is_empty() => self.follow(via("when empty"), target),
                    _ => Ok(()),
                }
            }
            None => Ok(()),
        }
    }

    fn follow(&mut self, via: Via, target: u32) -> Result<(), RouteFault> {
        let graph = self.graph;
        for dest in graph.target(target) {
            match dest {
                // Each failure by itself: see `leave_failed`.
                Dest::Caught(_) => {}
                Dest::End => self.take(via, None, 1),
                Dest::Join(join) => {
                    self.take(via, Some(graph.join_place(*join)), 0);
                    if let Some(node) = via.from {
                        self.joins.arrive(*join, node);
                    }
                }
                Dest::Node(node) => {
                    self.take(via, Some(*node), 1);
                    self.joins.lead(*node);
                    self.next.push(Task {
                        node: *node,
                        index: 0,
                        via,
                        payload: None,
                    });
                }
                Dest::Each(worker, split) => {
                    let state = self.state;
                    let payloads = guarded(via.from, || Ok(split(state)))?;
                    self.take(via, Some(*worker), payloads.len() as u32);
                    self.joins.lead(*worker);
                    if payloads.is_empty() && !self.empty.contains(worker) {
                        self.empty.push(*worker);
                    }
                    self.next.extend(payloads.into_iter().map(|payload| Task {
                        node: *worker,
                        index: 0,
                        via,
                        payload: Some(payload),
                    }));
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, via: Via, to: Option<u32>, tasks: u32) {
        if self.keep_taken {
            self.taken.push(Taken {
                from: via.from,
                label: via.label,
                to,
                tasks,
            });
        }
    }
}

/// The target of an exit. One whose place is none of its type's was not made by the derive.
fn exit_of(targets: &[u32], exit: usize, node: u32) -> Result<u32, RouteFault> {
    targets.get(exit).copied().ok_or_else(|| {
        let count = targets.len();
        let why = format!("it was left by exit {exit}, but has {count}: `Exits::index` is wrong");
        let error = NodeError::new(ErrorClass::Invalid, why);
        RouteFault::Undecided(Some(node), error)
    })
}

/// Runs a decision of the user's; a panic is its error.
fn guarded<T>(
    node: Option<u32>,
    decide: impl FnOnce() -> Result<T, NodeError>,
) -> Result<T, RouteFault> {
    match catch_unwind(AssertUnwindSafe(decide)) {
        Ok(decided) => decided.map_err(|error| RouteFault::Undecided(node, error)),
        Err(panic) => {
            let error = NodeError::new(ErrorClass::Panicked, panic_message(&*panic));
            Err(RouteFault::Undecided(node, error))
        }
    }
}
