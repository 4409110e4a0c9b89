//! A Mermaid flowchart.

use std::fmt::{self, Write};

use super::line::Stroke;
use super::look::{BROKEN, INK, KINDS, Look, START, TAKEN, look};
use super::overlay::Overlay;
use super::scene::{Line, Scene, Spot};
use super::text::{MermaidText, YamlText};
use crate::graph::GraphView;

/// A graph as a Mermaid flowchart; its [`Display`](fmt::Display) is the text.
///
/// Drawn like [`Dot`](super::Dot), as far as Mermaid can: shapes and colours say the kind, dashed
/// lines are conditional, thick ones are fan-outs, dotted ones stand in for a fan-out over nothing.
/// The same graph gives the same bytes each time.
#[derive(Debug, Clone, Copy)]
pub struct Mermaid<'g>(Scene<'g>);

impl<'g> Mermaid<'g> {
    /// Draws this graph.
    pub fn new(view: &'g GraphView) -> Self {
        Self(Scene::new(view))
    }

    /// Lays a run over the graph, as [`Dot::run`](super::Dot::run) does, under a title that says
    /// where it stands.
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

impl fmt::Display for Mermaid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(run) = self.0.run {
            let title = run.overlay.to_string();
            writeln!(f, "---\ntitle: \"{}\"\n---", YamlText(&title))?;
        }
        f.write_str("flowchart TB\n")?;
        let mut styles = Styles::default();
        write_graph(f, &self.0, "", "  ", &mut styles)?;
        f.write_str(&styles.edges)?;
        f.write_str(&styles.nodes)?;
        for look in styles.looks {
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

/// What Mermaid wants to be told of colours and lines after all nodes and edges.
#[derive(Default)]
struct Styles {
    edges: String,
    nodes: String,
    /// The looks that are used: the start's, those of kinds, the end's.
    looks: Vec<Look>,
    /// How many edges are written: a style names an edge by its number.
    count: usize,
}

fn write_graph(
    f: &mut fmt::Formatter<'_>,
    scene: &Scene<'_>,
    prefix: &str,
    indent: &str,
    styles: &mut Styles,
) -> fmt::Result {
    let spots = scene.spots(prefix);
    for spot in &spots {
        let text = spot.text();
        match spot.inner() {
            Some((inner, prefix)) => {
                writeln!(
                    f,
                    "{indent}subgraph {}[\"{}\"]",
                    spot.id,
                    MermaidText(&text)
                )?;
                write_graph(f, &inner, &prefix, &format!("{indent}  "), styles)?;
                writeln!(f, "{indent}end")?;
                // A frame has no text of its own on it, and what is inside is to be seen.
                let Look { border, mark, .. } = spot.look;
                let width = match (spot.is_worker(), mark) {
                    (true, _) => "4",
                    (false, Some(mark)) => mark.width,
                    (false, None) => "1.4",
                };
                let style =
                    format!("fill:none,stroke:{border},color:{border},stroke-width:{width}px");
                writeln!(styles.nodes, "  style {} {style}", spot.id)?;
            }
            None => {
                let (open, close) = spot.look.shape.mermaid();
                let (id, class) = (&spot.id, Class(spot.look));
                writeln!(
                    f,
                    "{indent}{id}{open}\"{}\"{close}:::{class}",
                    MermaidText(&text)
                )?;
                styles.node(spot)?;
            }
        }
    }
    for line in scene.lines() {
        let arrow = match (line.edge.payload, line.stroke) {
            (_, Stroke::Broken) => "-.-x",
            (Some(_), _) => "==>",
            (None, Stroke::Solid) => "-->",
            (None, Stroke::Dashed | Stroke::Dotted) => "-.->",
        };
        write!(f, "{indent}{} {arrow}", spots[line.from].id)?;
        if !line.label.is_empty() {
            write!(f, "|\"{}\"|", MermaidText(&line.label))?;
        }
        writeln!(f, " {}", spots[line.to].id)?;
        styles.edge(&line)?;
    }
    Ok(())
}

impl Styles {
    fn node(&mut self, spot: &Spot<'_>) -> fmt::Result {
        let Look {
            fill, border, mark, ..
        } = spot.look;
        let plain = match spot.node {
            Some(node) => look(node.kind),
            None => spot.look,
        };
        if !self.looks.iter().any(|known| known.class == plain.class) {
            self.looks.push(plain);
            // In one order, whatever the graph begins with.
            self.looks.sort_by_key(|look| {
                let kind = KINDS.iter().position(|kind| kind.name() == look.class);
                kind.map_or(if look.class == START.class { 0 } else { 99 }, |kind| {
                    kind + 1
                })
            });
        }
        let mut styles = Vec::new();
        if let Some(mark) = mark {
            styles.push(format!("fill:{fill},stroke:{border},color:{}", mark.ink));
        }
        match (spot.is_worker(), mark) {
            (true, _) => styles.push("stroke-width:4px".to_owned()),
            (false, Some(mark)) => styles.push(format!("stroke-width:{}px", mark.width)),
            (false, None) => {}
        }
        if !styles.is_empty() {
            writeln!(self.nodes, "  style {} {}", spot.id, styles.join(","))?;
        }
        Ok(())
    }

    fn edge(&mut self, line: &Line<'_>) -> fmt::Result {
        // An arrow is thick or dashed, not both; the stroke has to be set by the edge's number.
        let mut styles = Vec::new();
        match (line.edge.payload, line.stroke) {
            (Some(_), Stroke::Dashed) => styles.push("stroke-dasharray:7 5".to_owned()),
            (_, Stroke::Dotted) => styles.push("stroke-dasharray:2 4".to_owned()),
            _ => {}
        }
        if line.stroke == Stroke::Broken && !line.taken {
            styles.push(format!("stroke:{BROKEN}"));
        }
        if line.taken {
            styles.push(format!("stroke:{TAKEN},stroke-width:3px"));
        }
        if !styles.is_empty() {
            let styles = styles.join(",");
            writeln!(self.edges, "  linkStyle {} {styles}", self.count)?;
        }
        self.count += 1;
        Ok(())
    }
}

/// The name of a class: with a letter before it, for `subgraph` is a word of the language.
struct Class(Look);

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k_{}", self.0.class)
    }
}
