//! A Mermaid flowchart.

use std::fmt;

use super::line::{Drawn, Stroke, label, stroke, text};
use super::look::{END, INK, KINDS, Look, START, TAKEN, look, marked};
use super::overlay::Overlay;
use super::text::MermaidText;
use crate::graph::{GraphView, Point};

/// A graph as a Mermaid flowchart; its [`Display`](fmt::Display) is the text.
///
/// Drawn like [`Dot`](super::Dot), as far as Mermaid can: shapes and colours say the kind, dashed
/// lines are conditional, thick ones are fan-outs, dotted ones stand in for a fan-out over nothing.
/// The same graph gives the same bytes each time.
#[derive(Debug, Clone, Copy)]
pub struct Mermaid<'g> {
    view: &'g GraphView,
    run: Option<Drawn<'g>>,
}

impl<'g> Mermaid<'g> {
    /// Draws this graph.
    pub fn new(view: &'g GraphView) -> Self {
        Self { view, run: None }
    }

    /// Lays a run over the graph, as [`Dot::run`](super::Dot::run) does.
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

impl fmt::Display for Mermaid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("flowchart TB\n")?;
        write_node(f, Point::Start, "start", START)?;
        for (place, node) in self.view.nodes.iter().enumerate() {
            let text = text(node.name.as_str(), place, self.run);
            write_node(f, Point::Node(place), &text, look(node.kind))?;
        }
        write_node(f, Point::End, "end", END)?;
        self.write_edges(f)?;
        self.write_styles(f)
    }
}

impl Mermaid<'_> {
    fn write_edges(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, edge) in self.view.edges.iter().enumerate() {
            let run = self.run.map(|run| run.overlay.edge(place));
            let arrow = match (edge.payload, stroke(edge)) {
                (Some(_), _) => "==>",
                (None, Stroke::Solid) => "-->",
                (None, Stroke::Dashed | Stroke::Dotted) => "-.->",
            };
            write!(f, "  {} {arrow}", Id(edge.from))?;
            let label = label(edge, run.unwrap_or_default());
            if !label.is_empty() {
                write!(f, "|\"{}\"|", MermaidText(&label))?;
            }
            writeln!(f, " {}", Id(edge.to))?;
        }
        Ok(())
    }

    fn write_styles(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, edge) in self.view.edges.iter().enumerate() {
            // An arrow is thick or dashed, not both; the stroke has to be set by the edge's place.
            let mut styles = Vec::new();
            match (edge.payload, stroke(edge)) {
                (Some(_), Stroke::Dashed) => styles.push("stroke-dasharray:7 5".to_owned()),
                (_, Stroke::Dotted) => styles.push("stroke-dasharray:2 4".to_owned()),
                _ => {}
            }
            if self
                .run
                .is_some_and(|run| run.overlay.edge(place).taken > 0)
            {
                styles.push(format!("stroke:{TAKEN},stroke-width:3px"));
            }
            if !styles.is_empty() {
                writeln!(f, "  linkStyle {place} {}", styles.join(","))?;
            }
        }
        for (place, node) in self.view.nodes.iter().enumerate() {
            let mut styles = Vec::new();
            let marked = self
                .run
                .map(|run| marked(look(node.kind), run.overlay.node(place).mark()));
            if let Some(Look {
                fill,
                border,
                mark: Some(mark),
                ..
            }) = marked
            {
                styles.push(format!("fill:{fill},stroke:{border},color:{}", mark.ink));
            }
            match (node.payload, marked.and_then(|look| look.mark)) {
                (Some(_), _) => styles.push("stroke-width:4px".to_owned()),
                (None, Some(mark)) => styles.push(format!("stroke-width:{}px", mark.width)),
                (None, None) => {}
            }
            if !styles.is_empty() {
                writeln!(f, "  style n{place} {}", styles.join(","))?;
            }
        }
        let used = |kind: &_| self.view.nodes.iter().any(|node| node.kind == *kind);
        let kinds = KINDS.into_iter().filter(used).map(look);
        for look in [START].into_iter().chain(kinds).chain([END]) {
            writeln!(
                f,
                "  classDef {} fill:{},stroke:{},color:{INK}",
                Class(look),
                look.fill,
                look.border
            )?;
        }
        Ok(())
    }
}

fn write_node(f: &mut fmt::Formatter<'_>, at: Point, text: &str, look: Look) -> fmt::Result {
    let (open, close) = look.brackets;
    writeln!(
        f,
        "  {}{open}\"{}\"{close}:::{}",
        Id(at),
        MermaidText(text),
        Class(look)
    )
}

/// The name of a class: with a letter before it, for `subgraph` is a word of the language.
struct Class(Look);

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k_{}", self.0.class)
    }
}

/// The id of a point, made of its place alone.
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
