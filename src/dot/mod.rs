//! Pictures: a graph, or a graph with a run laid over it, as DOT for Graphviz, as a Mermaid
//! flowchart, and as SVG; and the time of a run, as a timeline and as folded stacks.
//!
//! In comes a [`GraphView`](crate::GraphView), which has no types and no closures left, and for a
//! run its events; out goes text, the same bytes each time. Names and labels may be any text: each
//! node is written under an id that only its place makes, and its name stands in a label that
//! decodes to exactly that name. This room starts no program, reads no font, and asks nothing of a
//! store.

mod chart;
mod folded;
mod graphviz;
mod inside;
mod layout;
mod line;
mod look;
mod measure;
mod mermaid;
mod outline;
mod overlay;
mod page;
mod scene;
mod svg;
mod text;
mod timeline;

pub use folded::Folded;
pub use graphviz::Dot;
pub use mermaid::Mermaid;
pub use overlay::{EdgeRun, NodeRun, Overlay};
pub use svg::Svg;
pub use text::short_type;
pub use timeline::Timeline;
