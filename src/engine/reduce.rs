//! Station 4, reduce: takes a superstep and its outcomes, gives the state after it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::position::{Ended, OpenJoin, Outcome, Outcomes, Superstep, Task};
use crate::graph::Compiled;
use crate::state::{MergeFault, State, panic_message};

/// A superstep whose updates are merged.
pub(crate) struct Reduced<S: State> {
    pub(crate) step: u64,
    pub(crate) state: Arc<S>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) joins: Vec<OpenJoin>,
    pub(crate) ended: Ends,
    pub(crate) spare: Vec<Task>,
}

/// Why a superstep could not be merged.
#[derive(Debug)]
pub(crate) enum Unreduced {
    /// The task at this place wrote a field that its node does not say it writes.
    Undeclared(usize, &'static str),
    Merge(MergeFault),
}

/// How the tasks were left, in merge order.
pub(crate) enum Ends {
    One(Ended),
    Many(Vec<Ended>),
}

impl Ends {
    pub(crate) fn get(&self, task: usize) -> &Ended {
        match self {
            Ends::One(ended) => ended,
            Ends::Many(all) => &all[task],
        }
    }
}

/// Merges the outcomes of a superstep into its state, in merge order.
///
/// # Errors
/// The superstep comes back with the fault; its state is as it was.
#[expect(
    clippy::result_large_err,
    reason = "the superstep is moved, as on success"
)]
#[inline]
pub(crate) fn reduce<S: State>(
    graph: &Compiled<S>,
    superstep: Superstep<S>,
    outcomes: Outcomes<S::Update>,
) -> Result<Reduced<S>, (Superstep<S>, Unreduced)> {
    if graph.declares
        && let Some(fault) = undeclared(graph, &superstep.tasks, &outcomes)
    {
        return Err((superstep, fault));
    }
    let Superstep {
        step,
        before: mut state,
        tasks,
        joins,
        recorded,
        spare,
    } = superstep;
    let (merged, ended) = match outcomes {
        Outcomes::One(Outcome { mut update, ended }) => (
            reduce_states(&mut state, std::slice::from_mut(&mut update)),
            Ends::One(ended),
        ),
        Outcomes::Many(mut updates, ended) => {
            (reduce_states(&mut state, &mut updates), Ends::Many(ended))
        }
    };
    match merged {
        Ok(()) => Ok(Reduced {
            step,
            state,
            tasks,
            joins,
            ended,
            spare,
        }),
        Err(fault) => Err((
            Superstep {
                step,
                before: state,
                tasks,
                joins,
                recorded,
                spare,
            },
            Unreduced::Merge(fault),
        )),
    }
}

/// The first write that a node does not say it makes.
fn undeclared<S: State>(
    graph: &Compiled<S>,
    tasks: &[Task],
    outcomes: &Outcomes<S::Update>,
) -> Option<Unreduced> {
    let updates = match outcomes {
        Outcomes::One(outcome) => std::slice::from_ref(&outcome.update),
        Outcomes::Many(updates, _) => updates,
    };
    for (place, (task, update)) in tasks.iter().zip(updates).enumerate() {
        let Some(writes) = &graph.node(task.node).writes else {
            continue;
        };
        let mut fields = S::fields().iter();
        let found = fields.find(|field| field.written(update) && !writes.contains(&field.name()));
        if let Some(field) = found {
            return Some(Unreduced::Undeclared(place, field.name()));
        }
    }
    None
}

/// Merges updates into a shared state. It is cloned only if a snapshot of it is still held.
///
/// # Errors
/// [`MergeFault`]; a panic is one too.
#[inline]
pub(crate) fn reduce_states<S: State>(
    state: &mut Arc<S>,
    updates: &mut [S::Update],
) -> Result<(), MergeFault> {
    let state = Arc::make_mut(state);
    catch_unwind(AssertUnwindSafe(|| state.merge(updates))).unwrap_or_else(|panic| {
        // Only code of the user's that a built-in reducer calls (an `Ord`, a `Clone`) gets here.
        Err(MergeFault::Panicked {
            field: "",
            message: panic_message(&*panic),
        })
    })
}
