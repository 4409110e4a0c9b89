//! DOT, as Graphviz reads it.

use std::fmt;

use super::line::{Drawn, Stroke, label, stroke, text};
use super::look::{END, INK, LINE, Look, START, TAKEN, look, marked};
use super::overlay::{EdgeRun, Overlay};
use super::text::DotText;
use crate::graph::{EdgeView, GraphView, NodeView, Point};

/// A graph as DOT; its [`Display`](fmt::Display) is the text.
///
/// - A node's shape and colour say its kind; a double border says that it is a worker.
/// - A plain edge is a solid line, an exit or a branch a dashed one with its label, a fan-out a
///   thick one with `each` and the type of its payloads, and what is taken in place of a fan-out
///   over nothing is dotted.
///
/// The same graph gives the same bytes each time. Ids are places (`n0`, `n1`, …), labels decode to
/// the exact names.
///
/// ```
/// use milepost::dot::Dot;
/// use milepost::{Context, End, Graph, Snapshot, State};
///
/// #[derive(Clone, Default, State)]
/// struct Counter {
///     n: u64,
/// }
///
/// let mut g = Graph::builder("count");
/// let count = g.node("count", async |counter: Snapshot<Counter>, _: Context| {
///     Ok(Counter::update().n(counter.n + 1))
/// });
/// g.start(count);
/// g.edge(count, End);
/// let picture = Dot::new(g.build()?.view()).to_string();
/// assert!(picture.starts_with("digraph \"count\" {"));
/// assert!(picture.contains("n0 -> stop"));
/// # Ok::<(), milepost::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Dot<'g> {
    view: &'g GraphView,
    run: Option<Drawn<'g>>,
}

impl<'g> Dot<'g> {
    /// Draws this graph.
    pub fn new(view: &'g GraphView) -> Self {
        Self { view, run: None }
    }

    /// Lays a run over the graph: each node says below its name how often it ended, retries,
    /// failures, and what is left to run; each edge how often it was taken. What failed is
    /// vermilion, what is left to run blue, and what was never visited pale. Times are left out, so
    /// the same records give the same bytes.
    #[must_use]
    pub fn run(mut self, overlay: &'g Overlay) -> Self {
        let times = false;
        self.run = Some(Drawn { overlay, times });
        self
    }

    /// Says of each node of the run how long its last try took.
    #[must_use]
    pub fn times(mut self) -> Self {
        if let Some(run) = &mut self.run {
            run.times = true;
        }
        self
    }
}

impl fmt::Display for Dot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GraphView {
            name, nodes, edges, ..
        } = self.view;
        writeln!(f, "digraph \"{}\" {{", DotText(name))?;
        f.write_str("  graph [bgcolor=\"transparent\", nodesep=\"0.4\", ranksep=\"0.45\"]\n")?;
        writeln!(
            f,
            "  node [fontname=\"{FONT}\", fontsize=\"12\", fontcolor=\"{INK}\", style=\"filled\", \
             penwidth=\"1.4\", height=\"0.45\", margin=\"0.16,0.07\"]"
        )?;
        writeln!(
            f,
            "  edge [fontname=\"{FONT}\", fontsize=\"10\", fontcolor=\"{LINE}\", color=\"{LINE}\", \
             penwidth=\"1.2\", arrowsize=\"0.8\"]\n"
        )?;
        if let Some(run) = self.run {
            writeln!(
                f,
                "  label=\"{}\"\n  fontname=\"{FONT}\"\n  fontsize=\"11\"\n  fontcolor=\"{LINE}\"\n",
                DotText(&run.overlay.to_string())
            )?;
        }
        end_of_graph(f, "start", START)?;
        for (place, node) in nodes.iter().enumerate() {
            write_node(f, place, node, self.run)?;
        }
        end_of_graph(f, "stop", END)?;
        f.write_str("\n")?;
        for (place, edge) in edges.iter().enumerate() {
            let run = self.run.map(|run| run.overlay.edge(place));
            write_edge(f, edge, run.unwrap_or_default())?;
        }
        f.write_str("}\n")
    }
}

/// Graphviz measures with the first font it finds; a browser shows with the first it has.
const FONT: &str = "Helvetica,Arial,sans-serif";

fn end_of_graph(f: &mut fmt::Formatter<'_>, id: &str, look: Look) -> fmt::Result {
    let text = if id == "start" { "start" } else { "end" };
    writeln!(
        f,
        "  {id} [label=\"{text}\", class=\"{}\", shape=\"{}\", fillcolor=\"{}\", color=\"{}\", \
         fontsize=\"10\", margin=\"0\", width=\"0.5\", fixedsize=\"true\"]",
        look.class, look.shape, look.fill, look.border
    )
}

fn write_node(
    f: &mut fmt::Formatter<'_>,
    place: usize,
    node: &NodeView,
    run: Option<Drawn<'_>>,
) -> fmt::Result {
    let look = match run {
        Some(run) => marked(look(node.kind), run.overlay.node(place).mark()),
        None => look(node.kind),
    };
    write!(
        f,
        "  n{place} [label=\"{}\", class=\"{}\", tooltip=\"{}\", shape=\"{}\"",
        DotText(&text(node.name.as_str(), place, run)),
        look.class,
        look.class,
        look.shape,
    )?;
    if look.rounded {
        f.write_str(", style=\"filled,rounded\"")?;
    }
    if node.payload.is_some() {
        f.write_str(", peripheries=\"2\"")?;
    }
    write!(
        f,
        ", fillcolor=\"{}\", color=\"{}\"",
        look.fill, look.border
    )?;
    if let Some(mark) = look.mark {
        let (ink, width) = (mark.ink, mark.width);
        write!(f, ", fontcolor=\"{ink}\", penwidth=\"{width}\"")?;
    }
    f.write_str("]\n")
}

fn write_edge(f: &mut fmt::Formatter<'_>, edge: &EdgeView, run: EdgeRun) -> fmt::Result {
    write!(f, "  {} -> {}", Id(edge.from), Id(edge.to))?;
    let mut open = Some(" [");
    let mut attribute = |f: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>| {
        f.write_str(open.take().unwrap_or(", "))?;
        f.write_fmt(text)
    };
    let label = label(edge, run);
    if !label.is_empty() {
        attribute(f, format_args!("label=\"{}\"", DotText(&label)))?;
    }
    let stroke = match stroke(edge) {
        Stroke::Solid => None,
        Stroke::Dashed => Some("dashed"),
        Stroke::Dotted => Some("dotted"),
    };
    if let Some(stroke) = stroke {
        attribute(f, format_args!("style=\"{stroke}\""))?;
    }
    if edge.payload.is_some() {
        attribute(
            f,
            format_args!("penwidth=\"2.4\", arrowhead=\"normalnormal\""),
        )?;
    }
    if run.taken > 0 {
        attribute(f, format_args!("color=\"{TAKEN}\", fontcolor=\"{TAKEN}\""))?;
        if edge.payload.is_none() {
            attribute(f, format_args!("penwidth=\"2\""))?;
        }
    }
    let close = if open.is_none() { "]\n" } else { "\n" };
    f.write_str(close)
}

/// The id of a point: made of its place alone, so no two names can share one and no name can be a
/// word of the language.
struct Id(Point);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Point::Start => f.write_str("start"),
            Point::Node(place) => write!(f, "n{place}"),
            Point::End => f.write_str("stop"),
        }
    }
}
