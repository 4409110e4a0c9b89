//! Milepost: an explicit state-graph execution engine.

mod engine;
mod event;
mod graph;
mod ids;
mod node;
mod state;
pub mod store;

pub use event::{ErrorText, Event, EventKind, FieldUpdate, TakenEdge};
pub use graph::{
    BuildError, Builder, EdgeView, End, FieldView, Graph, GraphView, IntoTarget, NodeKind, NodeRef,
    NodeView, Place, Point, Problem, Target, Wiring, WorkerRef,
};
pub use ids::{
    Branch, Epoch, IdError, MAX_ID_BYTES, NodeName, RunId, Seq, Step, TaskLevel, TaskPath, ThreadId,
};
pub use node::{Context, ErrorClass, Exits, IntoOutput, Node, NodeError, Output, Policy, Retry};
pub use state::{
    Change, Codec, CodecError, Field, Layout, MergeFault, ReduceFault, Reducer, Snapshot, State,
    Updates,
};

/// What the derives call. Not part of the public contract.
#[doc(hidden)]
pub mod plumbing {
    pub use crate::state::{
        AnyField, EncodedBase, EncodedChange, ItemReader, ItemWriter, MergeFault, ReducerInfo,
        Staged, settle, stage,
    };
}
