//! Milepost: an explicit state-graph execution engine.

// The derives name the crate by its public name, also in the crate's own tests.
#[allow(
    unused_extern_crates,
    reason = "used only where the crate itself derives"
)]
extern crate self as milepost;

pub mod agent;
#[cfg(feature = "cli")]
pub mod cli;
pub mod dot;
mod engine;
mod event;
mod graph;
mod ids;
mod node;
mod policy;
mod run;
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
pub use milepost_derive::{Exits, State};
pub use node::{Context, ErrorClass, Exits, IntoOutput, Node, NodeError, Output, Policy, Retry};
pub use policy::{Call, Layer, Next};
pub use run::{
    Busy, Cancel, Checkpoint, Command, Ended, Progress, Report, Run, RunError, RunOptions,
    RunStream, Runner, events, history,
};
pub use state::{
    Add, Append, ByKey, Change, Codec, CodecError, Ephemeral, Field, Keep, KeepBest, KeepFirst,
    Keyed, Layout, Max, Merge, MergeFault, Min, Or, Ranked, ReduceFault, Reducer, Replace,
    Snapshot, State, Union, Updates,
};

/// What the derives call. Not part of the public contract.
#[doc(hidden)]
pub mod plumbing {
    pub use crate::state::{
        Accessors, AnyField, Asked, EncodedBase, EncodedChange, Fitting, ItemReader, ItemWriter,
        MergeFault, ReducerInfo, Slot, Staged, fits, settle, settle_field, show_update, stage,
        stage_field,
    };
}
