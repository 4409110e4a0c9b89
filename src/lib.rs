//! Milepost: an explicit state-graph execution engine.

pub mod agent;
mod ids;
pub mod store;

pub use ids::{
    Branch, Epoch, IdError, MAX_ID_BYTES, NodeName, RunId, Seq, Step, TaskLevel, TaskPath, ThreadId,
};
