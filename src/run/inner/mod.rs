//! A graph as a node of another: the same driver once more, below a task.
//!
//! In comes a task whose node runs a graph; out comes what `leave` makes of that graph's last state,
//! or why it did not come to its end. The inner run keeps a log of its own, whose records lie in the
//! open superstep of the outermost thread. It has no thread, no claim and no head of its own.

mod body;
mod held;
mod holding;
mod inners;
mod log;
mod store;
mod subgraph;

pub(crate) use body::Host;
pub(crate) use held::Held;
pub(crate) use inners::Inners;
pub(crate) use log::InnerLogs;
pub(crate) use store::InnerWrite;
