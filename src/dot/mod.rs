//! Pictures: a graph as DOT for Graphviz, and as a Mermaid flowchart.
//!
//! In comes a [`GraphView`](crate::GraphView), which has no types and no closures left; out goes
//! text, the same bytes each time. Names and labels may be any text: each node is written under an
//! id that only its place makes, and its name stands in a label that decodes to exactly that name.
//! This room lays nothing out, starts no program, and asks nothing of a store.

mod graphviz;
mod line;
mod look;
mod mermaid;
mod text;

pub use graphviz::Dot;
pub use mermaid::Mermaid;
