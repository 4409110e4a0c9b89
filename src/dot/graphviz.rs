//! DOT, as Graphviz reads it.

use std::fmt;

use super::line::Stroke;
use super::look::{BROKEN, INK, LINE, Shape, TAKEN};
use super::overlay::Overlay;
use super::scene::{Line, Scene, Spot};
use super::text::DotText;
use crate::graph::GraphView;

/// A graph as DOT; its [`Display`](fmt::Display) is the text.
///
/// - A node's shape and colour say its kind; a double border says that it is a worker.
/// - A join is a funnel that says what it waits for.
/// - A plain edge is a solid line, an exit or a branch a dashed one with its label, a fan-out a
///   thick one with `each` and the type of its payloads, and what is taken in place of a fan-out
///   over nothing is dotted. An error exit is dashed, orange, and has a hollow arrow.
///
/// A node that runs a graph, and shows it ([`NodeView::inner`](crate::NodeView::inner)), is a
/// cluster. The same graph gives the same bytes each time. Ids are places (`n0`, `n1`, …), labels decode to
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
pub struct Dot<'g>(Scene<'g>);

impl<'g> Dot<'g> {
    /// Draws this graph.
    pub fn new(view: &'g GraphView) -> Self {
        Self(Scene::new(view))
    }

    /// Lays a run over the graph: each node says below its name how often it ended, retries,
    /// failures, and what is left to run; each edge how often it was taken. What failed is
    /// vermilion, what is left to run blue, and what was never visited pale. Times are left out, so
    /// the same records give the same bytes.
    #[must_use]
    pub fn run(self, overlay: &'g Overlay) -> Self {
        Self(self.0.run(overlay))
    }

    /// Says of each node of the run how long its last try took.
    #[must_use]
    pub fn times(self) -> Self {
        Self(self.0.times())
    }
}

impl fmt::Display for Dot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scene { view, run } = self.0;
        writeln!(f, "digraph \"{}\" {{", DotText(&view.name))?;
        let compound = match view.nodes.iter().any(|node| node.inner.is_some()) {
            true => ", compound=\"true\"",
            false => "",
        };
        writeln!(
            f,
            "  graph [bgcolor=\"transparent\", nodesep=\"0.4\", ranksep=\"0.45\"{compound}]"
        )?;
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
        if let Some(run) = run {
            writeln!(
                f,
                "  label=\"{}\"\n  fontname=\"{FONT}\"\n  fontsize=\"11\"\n  fontcolor=\"{LINE}\"\n",
                DotText(&run.overlay.to_string())
            )?;
        }
        write_graph(f, &self.0, "", "  ")?;
        f.write_str("}\n")
    }
}

/// Graphviz measures with the first font it finds; a browser shows with the first it has.
const FONT: &str = "Helvetica,Arial,sans-serif";

fn write_graph(
    f: &mut fmt::Formatter<'_>,
    scene: &Scene<'_>,
    prefix: &str,
    indent: &str,
) -> fmt::Result {
    let spots = scene.spots(prefix);
    for spot in &spots {
        match (spot.node, spot.inner()) {
            (None, _) if spot.join.is_none() => write_end_of_graph(f, spot, indent)?,
            (_, None) => write_node(f, spot, indent)?,
            (_, Some((inner, prefix))) => {
                let (id, look) = (&spot.id, &spot.look);
                let width = look.mark.map_or("1.4", |mark| mark.width);
                writeln!(f, "{indent}subgraph \"cluster_{id}\" {{")?;
                writeln!(
                    f,
                    "{indent}  graph [label=\"{}\", class=\"{}\", fontname=\"{FONT}\", \
                     fontsize=\"12\", fontcolor=\"{}\", color=\"{}\", style=\"rounded\", \
                     penwidth=\"{width}\", peripheries=\"{}\"]",
                    DotText(&spot.text()),
                    look.class,
                    look.border,
                    look.border,
                    1 + u8::from(spot.is_worker()),
                )?;
                write_graph(f, &inner, &prefix, &format!("{indent}  "))?;
                writeln!(f, "{indent}}}")?;
            }
        }
    }
    f.write_str("\n")?;
    for line in scene.lines() {
        write_edge(f, &line, &spots, indent)?;
    }
    Ok(())
}

fn write_end_of_graph(f: &mut fmt::Formatter<'_>, spot: &Spot<'_>, indent: &str) -> fmt::Result {
    let Spot { id, name, look, .. } = spot;
    let shape = look.shape.graphviz();
    writeln!(
        f,
        "{indent}{id} [label=\"{name}\", class=\"{}\", shape=\"{shape}\", fillcolor=\"{}\", color=\"{}\", \
         fontsize=\"10\", margin=\"0\", width=\"0.5\", fixedsize=\"true\"]",
        look.class, look.fill, look.border
    )
}

fn write_node(f: &mut fmt::Formatter<'_>, spot: &Spot<'_>, indent: &str) -> fmt::Result {
    let look = &spot.look;
    write!(
        f,
        "{indent}{} [label=\"{}\", class=\"{}\", tooltip=\"{}\", shape=\"{}\"",
        spot.id,
        DotText(&spot.text()),
        look.class,
        DotText(&spot.tooltip()),
        look.shape.graphviz(),
    )?;
    if look.shape == Shape::Rounded {
        f.write_str(", style=\"filled,rounded\"")?;
    }
    if spot.is_worker() {
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

fn write_edge(
    f: &mut fmt::Formatter<'_>,
    line: &Line<'_>,
    spots: &[Spot<'_>],
    indent: &str,
) -> fmt::Result {
    let (from, to) = (&spots[line.from], &spots[line.to]);
    // An edge of a cluster goes to its start and from its end, and is cut off at the frame.
    let tail = from.inner().map(|(_, prefix)| format!("{prefix}stop"));
    let head = to.inner().map(|(_, prefix)| format!("{prefix}start"));
    let (tail_id, head_id) = (tail.as_ref(), head.as_ref());
    let (tail_id, head_id) = (tail_id.unwrap_or(&from.id), head_id.unwrap_or(&to.id));
    let mut attributes = Vec::new();
    if !line.label.is_empty() {
        attributes.push(format!("label=\"{}\"", DotText(&line.label)));
    }
    match line.stroke {
        Stroke::Solid => {}
        Stroke::Dashed => attributes.push("style=\"dashed\"".to_owned()),
        Stroke::Dotted => attributes.push("style=\"dotted\"".to_owned()),
        Stroke::Broken => {
            attributes.push("style=\"dashed\"".to_owned());
            if line.edge.payload.is_none() {
                attributes.push("arrowhead=\"onormal\"".to_owned());
            }
            if !line.taken {
                attributes.push(format!("color=\"{BROKEN}\", fontcolor=\"{BROKEN}\""));
            }
        }
    }
    let is_fan_out = line.edge.payload.is_some();
    if is_fan_out {
        attributes.push("penwidth=\"2.4\", arrowhead=\"normalnormal\"".to_owned());
    }
    if line.taken {
        attributes.push(format!("color=\"{TAKEN}\", fontcolor=\"{TAKEN}\""));
        if !is_fan_out {
            attributes.push("penwidth=\"2\"".to_owned());
        }
    }
    // From a cluster to itself there is no frame in between.
    if tail.is_some() && line.from != line.to {
        attributes.push(format!("ltail=\"cluster_{}\"", from.id));
    }
    if head.is_some() && line.from != line.to {
        attributes.push(format!("lhead=\"cluster_{}\"", to.id));
    }
    write!(f, "{indent}{tail_id} -> {head_id}")?;
    if !attributes.is_empty() {
        write!(f, " [{}]", attributes.join(", "))?;
    }
    f.write_str("\n")
}
