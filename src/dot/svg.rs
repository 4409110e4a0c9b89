//! SVG, laid out and drawn here: no other program is needed to see it.

use std::fmt;

use super::layout::{ARROW, At, Layout, Node, Part, Route, Wire, layout};
use super::line::{Stroke, counted};
use super::look::{BROKEN, INK, LINE, Shape, TAKEN};
use super::measure;
use super::outline::{DOUBLE, N};
use super::overlay::Overlay;
use super::page::{open, text};
use super::scene::{Line, Scene, Spot};
use super::text::XmlText;
use crate::graph::GraphView;

/// A graph as SVG; its [`Display`](fmt::Display) is the text.
///
/// Drawn like [`Dot`](super::Dot), and laid out without Graphviz. The ground is transparent and the
/// colours read on white as on black. Each node and edge says in its `title` exactly what it is
/// named, for readers that are not shown the picture. The same graph gives the same bytes each time.
///
/// ```
/// use milepost::dot::Svg;
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
/// let picture = Svg::new(g.build()?.view()).to_string();
/// assert!(picture.starts_with("<svg "));
/// assert!(picture.contains("<title>start → count</title>"));
/// # Ok::<(), milepost::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Svg<'g>(Scene<'g>);

impl<'g> Svg<'g> {
    /// Draws this graph.
    pub fn new(view: &'g GraphView) -> Self {
        Self(Scene::new(view))
    }

    /// Lays a run over the graph, as [`Dot::run`](super::Dot::run) does.
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

/// Sizes of text: names, what a run did, labels of edges and captions.
const NAME: f64 = 13.0;
const FACT: f64 = 11.0;
const LABEL: f64 = 11.0;

/// How wide the lines of names and labels may be before they are broken.
const NAME_WIDTH: f64 = 230.0;
const LABEL_WIDTH: f64 = 170.0;

/// The space between a frame and what is inside of it.
const INSIDE: f64 = 10.0;

/// A graph with everything in its place, and the graphs inside of it.
struct Placed<'g> {
    spots: Vec<Spot<'g>>,
    /// The text of each spot: its name, and what a run did with it.
    texts: Vec<(Vec<String>, Vec<String>)>,
    lines: Vec<Line<'g>>,
    labels: Vec<Vec<String>>,
    nodes: Vec<Node>,
    layout: Layout,
    inner: Vec<Option<Placed<'g>>>,
}

impl fmt::Display for Svg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scene { view, run } = self.0;
        let placed = Placed::new(&self.0, "");
        let caption = run.map(|run| run.overlay.to_string());
        let lines = caption.as_deref().map_or_else(Vec::new, |caption| {
            measure::wrap(caption, LABEL, placed.layout.width.max(320.0))
        });
        let (wide, high) = measure::size(&lines, LABEL);
        let width = placed.layout.width.max(wide + 16.0);
        let height = placed.layout.height + if high > 0.0 { high + 10.0 } else { 0.0 };
        open(f, (width, height), &view.name)?;
        let (nodes, edges) = (view.nodes.len(), view.edges.len());
        let (nodes, edges) = (size(nodes, "node", "nodes"), size(edges, "edge", "edges"));
        write!(f, "<desc>graph with {nodes} and {edges}")?;
        if let Some(caption) = &caption {
            write!(f, "; {}", XmlText(caption))?;
        }
        f.write_str("</desc>\n")?;
        let aside = (width - placed.layout.width) / 2.0;
        if aside > 0.0 {
            writeln!(f, "<g transform=\"translate({} 0)\">", N(aside))?;
            placed.write(f)?;
            f.write_str("</g>\n")?;
        } else {
            placed.write(f)?;
        }
        let top = placed.layout.height + 2.0;
        let at = (width / 2.0, top);
        text(f, &lines, at, LABEL, "text-anchor=\"middle\"", LINE)?;
        f.write_str("</svg>\n")
    }
}

fn size(count: usize, one: &str, more: &str) -> String {
    counted(u32::try_from(count).unwrap_or(u32::MAX), one, more)
}

impl<'g> Placed<'g> {
    fn new(scene: &Scene<'g>, prefix: &str) -> Self {
        let spots = scene.spots(prefix);
        let lines = scene.lines();
        let inner: Vec<_> = spots
            .iter()
            .map(|spot| {
                spot.inner()
                    .map(|(scene, prefix)| Placed::new(&scene, &prefix))
            })
            .collect();
        let texts: Vec<_> = spots
            .iter()
            .map(|spot| {
                (
                    measure::wrap(spot.name, NAME, NAME_WIDTH),
                    spot.facts.clone(),
                )
            })
            .collect();
        let mut ends = vec![[0usize; 2]; spots.len()];
        for line in &lines {
            ends[line.from][0] += 1;
            ends[line.to][1] += 1;
        }
        let labels: Vec<Vec<String>> = lines
            .iter()
            .map(|line| match line.label.as_str() {
                "" => Vec::new(),
                label => measure::wrap(label, LABEL, LABEL_WIDTH),
            })
            .collect();
        let wires: Vec<Wire> = lines
            .iter()
            .zip(&labels)
            .map(|(line, label)| Wire {
                from: line.from,
                to: line.to,
                label: (!label.is_empty()).then(|| measure::size(label, LABEL)),
            })
            .collect();
        let nodes: Vec<Node> = (0..spots.len())
            .map(|place| {
                let most = ends[place][0].max(ends[place][1]);
                let size = text_size(&texts[place]);
                let double = spots[place].is_worker();
                let mut node = match &inner[place] {
                    Some(inner) => frame(size, &inner.layout),
                    None => spots[place].look.shape.around(size, double, most),
                };
                // Each loop of a node with itself has a part of the side.
                let own = wires
                    .iter()
                    .filter(|wire| wire.from == place && wire.to == place);
                node.height = node.height.max(own.map(Wire::slot).sum());
                node
            })
            .collect();
        let layout = layout(&nodes, &wires);
        Self {
            spots,
            texts,
            lines,
            labels,
            nodes,
            layout,
            inner,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, line) in self.lines.iter().enumerate() {
            self.write_line(f, line, &self.layout.routes[place], &self.labels[place])?;
        }
        for place in 0..self.spots.len() {
            self.write_spot(f, place)?;
        }
        Ok(())
    }

    fn write_spot(&self, f: &mut fmt::Formatter<'_>, place: usize) -> fmt::Result {
        let (spot, node) = (&self.spots[place], &self.nodes[place]);
        let At { x, y } = self.layout.nodes[place];
        let look = &spot.look;
        let class = if self.inner[place].is_some() {
            "cluster"
        } else {
            "node"
        };
        writeln!(f, "<g id=\"{}\" class=\"{class} {}\">", spot.id, look.class)?;
        writeln!(f, "<title>{}</title>", XmlText(spot.name))?;
        if let Some(about) = about(spot) {
            writeln!(f, "<desc>{}</desc>", XmlText(&about))?;
        }
        let width = look.mark.map_or("1.4", |mark| mark.width);
        let pen = format!("stroke=\"{}\" stroke-width=\"{width}\"", look.border);
        let (names, facts) = &self.texts[place];
        if let Some(inner) = &self.inner[place] {
            let (left, top) = (x - node.width / 2.0, y - node.height / 2.0);
            for inset in [0.0, DOUBLE]
                .into_iter()
                .take(1 + usize::from(spot.is_worker()))
            {
                let (width, height) = (node.width - 2.0 * inset, node.height - 2.0 * inset);
                let (x, y, rx) = (N(left + inset), N(top + inset), N(10.0 - inset));
                let (width, height) = (N(width), N(height));
                writeln!(
                    f,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{rx}\" fill=\"none\" {pen}/>"
                )?;
            }
            let title = (left + INSIDE + 2.0, top + INSIDE / 2.0 + 2.0);
            text(f, names, title, NAME, "font-weight=\"bold\"", look.border)?;
            let below = title.1 + names.len() as f64 * NAME * measure::LINE_HEIGHT;
            text(f, facts, (title.0, below), FACT, "", look.border)?;
            let down = y + node.height / 2.0 - INSIDE - inner.layout.height;
            let (aside, down) = (N(x - inner.layout.width / 2.0), N(down));
            writeln!(f, "<g transform=\"translate({aside} {down})\">")?;
            inner.write(f)?;
            return f.write_str("</g>\n</g>\n");
        }
        let path = look.shape.path((x, y), node.width, node.height);
        writeln!(f, "<path d=\"{path}\" fill=\"{}\" {pen}/>", look.fill)?;
        if spot.is_worker() || look.shape == Shape::DoubleCircle {
            let path = look.shape.inner_path((x, y), node.width, node.height);
            writeln!(f, "<path d=\"{path}\" fill=\"none\" {pen}/>")?;
        }
        if let Some(path) = look.shape.details((x, y), node.width, node.height) {
            writeln!(f, "<path d=\"{path}\" fill=\"{}\" {pen}/>", look.fill)?;
        }
        let (right, down) = look.shape.text();
        let (_, height) = text_size(&self.texts[place]);
        let top = y + down - height / 2.0;
        let size = if spot.node.is_some() { NAME } else { FACT };
        let ink = look.mark.map_or(INK, |mark| mark.ink);
        let anchor = "text-anchor=\"middle\"";
        let top = top + (NAME - size) * measure::LINE_HEIGHT / 2.0;
        text(f, names, (x + right, top), size, anchor, ink)?;
        let below = top + names.len() as f64 * size * measure::LINE_HEIGHT;
        text(f, facts, (x + right, below), FACT, anchor, ink)?;
        f.write_str("</g>\n")
    }

    fn write_line(
        &self,
        f: &mut fmt::Formatter<'_>,
        line: &Line<'_>,
        route: &Route,
        label: &[String],
    ) -> fmt::Result {
        let (from, to) = (&self.spots[line.from], &self.spots[line.to]);
        let is_fan_out = line.edge.payload.is_some();
        let is_broken = line.stroke == Stroke::Broken;
        let color = match (line.taken, is_broken) {
            (true, _) => TAKEN,
            (false, true) => BROKEN,
            (false, false) => LINE,
        };
        let (from_id, to_id) = (&from.id, &to.id);
        writeln!(
            f,
            "<g class=\"edge\" data-from=\"{from_id}\" data-to=\"{to_id}\">"
        )?;
        let (from, to) = (XmlText(from.name), XmlText(to.name));
        writeln!(f, "<title>{from} → {to}</title>")?;
        if !line.label.is_empty() {
            writeln!(f, "<desc>{}</desc>", XmlText(&line.label))?;
        }
        let width = match (is_fan_out, line.taken) {
            (true, _) => "2.6",
            (false, true) => "2",
            (false, false) => "1.2",
        };
        let dashes = match line.stroke {
            Stroke::Solid => "",
            Stroke::Dashed => " stroke-dasharray=\"6 4\"",
            Stroke::Dotted => " stroke-dasharray=\"0.5 4\" stroke-linecap=\"round\"",
            Stroke::Broken => " stroke-dasharray=\"8 3 2 3\"",
        };
        let (path, before, tip) = path(route);
        writeln!(
            f,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\"{dashes}/>"
        )?;
        let (dx, dy) = ((tip.x - before.x) / ARROW, (tip.y - before.y) / ARROW);
        let heads = if is_fan_out { 2 } else { 1 };
        for head in 0..heads {
            let back = f64::from(head) * 6.5;
            let at = |along: f64, aside: f64| {
                let along = along + back;
                let x = tip.x - dx * along - dy * aside;
                let y = tip.y - dy * along + dx * aside;
                format!("{} {}", N(x), N(y))
            };
            let (point, one, other) = (at(0.0, 0.0), at(ARROW, 3.8), at(ARROW, -3.8));
            // A hollow head still covers the end of the line below it, on any ground.
            let fill = match is_broken {
                true => format!("fill=\"none\" stroke=\"{color}\" stroke-linejoin=\"round\""),
                false => format!("fill=\"{color}\""),
            };
            writeln!(f, "<path d=\"M{point}L{one}L{other}Z\" {fill}/>")?;
        }
        if let Some(At { x, y }) = route.label {
            text(f, label, (x, y), LABEL, "", color)?;
        }
        f.write_str("</g>\n")
    }
}

/// The frame of a graph inside of another.
fn frame((wide, high): (f64, f64), inner: &Layout) -> Node {
    let width = (inner.width + 2.0 * INSIDE).max(wide * 1.1 + 2.0 * INSIDE + 8.0);
    Node {
        width,
        height: inner.height + high + 2.0 * INSIDE,
        ports: width / 2.0 - 14.0,
        rim: super::layout::Rim::Level,
    }
}

fn text_size((names, facts): &(Vec<String>, Vec<String>)) -> (f64, f64) {
    let (name, fact) = (measure::size(names, NAME), measure::size(facts, FACT));
    (name.0.max(fact.0), name.1 + fact.1)
}

/// What a node is and what a run did with it, as a sentence.
fn about(spot: &Spot<'_>) -> Option<String> {
    if let Some(join) = spot.join {
        return Some(join.name.to_string());
    }
    let node = spot.node?;
    let mut about = vec![node.kind.name().to_owned()];
    if let Some(payload) = node.payload {
        about.push(format!("worker of {}", super::text::short_type(payload)));
    }
    about.extend(super::line::declared(node));
    about.extend(spot.facts.iter().cloned());
    Some(about.join("; "))
}

/// The data of a wire's path up to the arrow, the point before the arrow, and its tip.
fn path(route: &Route) -> (String, At, At) {
    let mut path = format!("M{} {}", N(route.from.x), N(route.from.y));
    let mut here = route.from;
    let last = route.parts.len().saturating_sub(1);
    let mut before = here;
    for (place, part) in route.parts.iter().enumerate() {
        match *part {
            Part::Line(to) => {
                let (dx, dy) = (to.x - here.x, to.y - here.y);
                let length = dx.hypot(dy);
                let to_draw = if place == last {
                    let share = (1.0 - ARROW / length.max(ARROW)).max(0.0);
                    before = At {
                        x: here.x + dx * share,
                        y: here.y + dy * share,
                    };
                    // The head covers the end of the line.
                    let share = (1.0 - (ARROW - 2.0) / length.max(ARROW)).max(0.0);
                    At {
                        x: here.x + dx * share,
                        y: here.y + dy * share,
                    }
                } else {
                    to
                };
                path.push_str(&format!("L{} {}", N(to_draw.x), N(to_draw.y)));
                here = to;
            }
            Part::Curve(one, other, to) => {
                path.push_str(&format!(
                    "C{} {} {} {} {} {}",
                    N(one.x),
                    N(one.y),
                    N(other.x),
                    N(other.y),
                    N(to.x),
                    N(to.y)
                ));
                here = to;
            }
        }
    }
    (path, before, here)
}
