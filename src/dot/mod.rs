//! Pictures: a graph, or a graph with a run laid over it, as DOT for Graphviz and as a Mermaid
//! flowchart.
//!
//! In comes a [`GraphView`](crate::GraphView), which has no types and no closures left, and for a
//! run its events; out goes text, the same bytes each time. Names and labels may be any text: each
//! node is written under an id that only its place makes, and its name stands in a label that
//! decodes to exactly that name. This room lays nothing out, starts no program, and asks nothing of
//! a store.

mod graphviz;
mod line;
mod look;
mod mermaid;
mod overlay;
mod text;

pub use graphviz::Dot;
pub use mermaid::Mermaid;
pub use overlay::{EdgeRun, NodeRun, Overlay};
