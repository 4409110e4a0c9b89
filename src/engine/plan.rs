//! Station 2, plan: takes a position, gives the next superstep, or says that nothing is left.

use super::position::{Position, Superstep};
use crate::state::State;

/// What is to be done next.
pub(crate) enum Planned<S: State> {
    /// These tasks.
    Run(Superstep<S>),
    /// Nothing.
    Done(Position<S>),
}

/// Plans the next superstep.
#[inline]
pub(crate) fn plan<S: State>(position: Position<S>) -> Planned<S> {
    if position.frontier.is_empty() {
        return Planned::Done(position);
    }
    let Position {
        step,
        state,
        frontier,
        joins,
        recorded,
        spare,
    } = position;
    Planned::Run(Superstep {
        step: step + 1,
        before: state,
        tasks: frontier,
        joins,
        recorded,
        spare,
    })
}
