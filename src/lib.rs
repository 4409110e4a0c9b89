//! Milepost: an explicit state-graph execution engine.

mod ids;
pub mod store;

pub use ids::{Branch, Epoch, IdError, NodeName, RunId, Seq, Step, TaskLevel, TaskPath, ThreadId};
