//! Graphs: describing one, checking it, and the compiled tables.
//!
//! In come nodes and what leads where; out comes a graph of dense tables, or the list of what is
//! wrong. Built on petgraph for the checks. A graph runs nothing, and holds nothing of a run.

mod builder;
mod cached;
mod catch;
mod check;
mod compiled;
mod declared;
mod error;
mod join;
mod reach;
mod settle;
mod target;
mod view;

pub use builder::{Builder, Wiring};
pub(crate) use cached::Cached;
pub use catch::IntoHandler;
pub(crate) use check::field_view;
pub use compiled::Graph;
pub(crate) use compiled::{Compiled, Entry, Inside, Out};

pub use declared::Fields;
pub use error::{BuildError, Problem};
pub use join::{JoinRef, Joining, Members};
pub(crate) use settle::Leftover;
pub use settle::Settled;
pub(crate) use target::{At, Dest};
pub use target::{End, IntoTarget, NodeRef, OneWay, Place, Target, WorkerRef};
pub use view::{AskView, EdgeView, FieldView, GraphView, JoinView, NodeKind, NodeView, Point};
