//! The engine: plan, reduce, route. Pure functions from position to position.
//!
//! In come a graph and a position, with the outcomes that the driver brought; out comes the next
//! position, or what went wrong. It never awaits, never stores, never reads a clock, and what it
//! does costs as much as the frontier, not as much as the graph.

mod join;
mod plan;
mod position;
mod reduce;
mod route;
#[cfg(test)]
mod tests;

pub(crate) use join::{Unsatisfied, joins_at_start};
pub(crate) use plan::{Planned, plan};
pub(crate) use position::{
    Caught, Ended, OpenJoin, Outcome, Outcomes, Position, Superstep, Task, Via,
};
pub(crate) use reduce::{Reduced, Unreduced, reduce, reduce_states};
pub(crate) use route::{RouteFault, Routed, Taken, route, start};
