//! The built-in reducers.
//!
//! In come the updates of one superstep in task-path order, out comes the field's next value.
//! Their meaning is frozen, so that a stored update can be replayed by every later program; a
//! change of meaning is a new reducer. None works on a copy of a collection: what a step costs
//! follows what it writes, not what the field holds.

mod add;
mod append;
mod by_key;
mod extreme;
mod map;
mod set;
mod single;

pub use add::Add;
pub use append::Append;
pub use by_key::{ByKey, Keep, KeepBest, KeepFirst, Keyed, Ranked};
pub use extreme::{Max, Min};
pub use map::Merge;
pub use set::Union;
pub use single::{Ephemeral, Or, Replace};

/// The version of all reducers here: their first meaning, and their last.
const FROZEN: Option<u32> = Some(1);
