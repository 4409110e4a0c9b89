//! Nodes: what a node may see, and what it may hand back.
//!
//! In come a snapshot of the state, a context and, for a worker, a payload; out comes an update,
//! with an exit where the node has several. A node never changes the state itself, never names
//! another node, and never knows the graph it is in.

mod ask;
mod body;
mod context;
mod effect;
mod error;
mod exits;
mod failure;
mod output;
mod policy;
mod pulse;
mod run_context;
mod settle;

pub use ask::{Ask, NoQuestion, Question};
pub(crate) use ask::{AskCodec, Asked};
pub use body::Node;
pub(crate) use body::{Body, Call, FnBody, NodeBody, Payload, PayloadCodec, Returned, WorkerBody};
pub use context::Context;
pub(crate) use context::{KeptStep, Port, Standing, Wake};
pub(crate) use effect::AFTER_CRASH;
pub use effect::{AfterCrash, Effect, MayHaveRun};
pub use error::{ErrorClass, NodeError};
pub use exits::Exits;
pub use failure::Failure;
pub use output::{IntoOutput, Output};
pub use policy::{Policy, Retry};
pub(crate) use pulse::Pulse;
pub use run_context::RunContext;
pub use settle::{Unfinished, WhyUnfinished};
