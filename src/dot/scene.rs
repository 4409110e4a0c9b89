//! What is to be drawn, for all formats: the one walk over a view and the run that is laid over it.

use super::line::{self, Drawn, Stroke, facts};
use super::look::{END, JOIN, Look, START, look, marked};
use super::overlay::{EdgeRun, Overlay};
use crate::graph::{EdgeView, GraphView, JoinView, NodeView, Point};

/// A graph, and maybe a run over it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene<'g> {
    pub(super) view: &'g GraphView,
    pub(super) run: Option<Drawn<'g>>,
}

/// A node as it is drawn, or a join, or the start or the end.
#[derive(Debug)]
pub(super) struct Spot<'g> {
    /// Made of places alone, so no two names can share one and no name can be a word of a language.
    pub(super) id: String,
    pub(super) name: &'g str,
    /// What a run did with it, a line each.
    pub(super) facts: Vec<String>,
    pub(super) look: Look,
    /// The node; none for the start, the end and a join.
    pub(super) node: Option<&'g NodeView>,
    /// The join, if it is one.
    pub(super) join: Option<&'g JoinView>,
    /// The graph that it runs, and what the run did with that.
    inside: Option<Scene<'g>>,
}

/// An edge as it is drawn.
#[derive(Debug)]
pub(super) struct Line<'g> {
    pub(super) edge: &'g EdgeView,
    /// Its ends, as places among the spots.
    pub(super) from: usize,
    pub(super) to: usize,
    /// What it says, a line each; empty where there is nothing to say.
    pub(super) label: String,
    pub(super) stroke: Stroke,
    /// Whether a run has taken it.
    pub(super) taken: bool,
}

impl<'g> Scene<'g> {
    pub(super) fn new(view: &'g GraphView) -> Self {
        Self { view, run: None }
    }

    /// Lays a run over it.
    pub(super) fn run(self, overlay: &'g Overlay) -> Self {
        let times = false;
        let run = Some(Drawn { overlay, times });
        Self { run, ..self }
    }

    /// Says how long nodes took.
    pub(super) fn times(mut self) -> Self {
        if let Some(run) = &mut self.run {
            run.times = true;
        }
        self
    }

    /// The start, the nodes, the joins, the end. The ids begin with the prefix.
    pub(super) fn spots(&self, prefix: &str) -> Vec<Spot<'g>> {
        let end_of_graph = |id: &str, name: &'static str, look: Look| Spot {
            id: format!("{prefix}{id}"),
            name,
            facts: Vec::new(),
            look,
            node: None,
            join: None,
            inside: None,
        };
        let join = |(place, join): (usize, &'g JoinView)| Spot {
            id: format!("{prefix}j{place}"),
            name: &join.rule,
            facts: Vec::new(),
            look: JOIN,
            node: None,
            join: Some(join),
            inside: None,
        };
        let node = |(place, node): (usize, &'g NodeView)| Spot {
            id: format!("{prefix}n{place}"),
            name: node.name.as_str(),
            facts: self.run.map_or_else(Vec::new, |run| facts(place, run)),
            look: match self.run {
                Some(run) => marked(look(node.kind), run.overlay.node(place).mark()),
                None => look(node.kind),
            },
            node: Some(node),
            join: None,
            inside: node.inner.as_deref().map(|view| Scene {
                view,
                run: self.run.and_then(|run| run.inside(place)),
            }),
        };
        let nodes = self.view.nodes.iter().enumerate().map(node);
        let start = end_of_graph("start", "start", START);
        let end = end_of_graph("stop", "end", END);
        let joins = self.view.joins.iter().enumerate().map(join);
        let inside = nodes.chain(joins);
        std::iter::once(start).chain(inside).chain([end]).collect()
    }

    /// The edges; one from or to a node that the view does not have is left out.
    pub(super) fn lines(&self) -> Vec<Line<'g>> {
        let (count, joins) = (self.view.nodes.len(), self.view.joins.len());
        let spot = |point| match point {
            Point::Start => Some(0),
            Point::Node(place) => (place < count).then_some(place + 1),
            Point::Join(place) => (place < joins).then_some(count + place + 1),
            Point::End => Some(count + joins + 1),
        };
        let line = |(place, edge): (usize, &'g EdgeView)| {
            let run = self.run.map(|run| run.overlay.edge(place));
            let run: EdgeRun = run.unwrap_or_default();
            Some(Line {
                edge,
                from: spot(edge.from)?,
                to: spot(edge.to)?,
                label: line::label(edge, run),
                stroke: line::stroke(edge),
                taken: run.taken > 0,
            })
        };
        let edges = self.view.edges.iter().enumerate();
        edges.filter_map(line).collect()
    }
}

impl<'g> Spot<'g> {
    /// Its name, then what a run did with it.
    pub(super) fn text(&self) -> String {
        let facts = self.facts.iter().map(String::as_str);
        let lines: Vec<_> = std::iter::once(self.name).chain(facts).collect();
        lines.join("\n")
    }

    /// What it is: a node's kind and what it says of fields, a join's name.
    pub(super) fn tooltip(&self) -> String {
        let mut parts = vec![match self.join {
            Some(join) => join.name.to_string(),
            None => self.look.class.to_owned(),
        }];
        parts.extend(self.node.into_iter().flat_map(line::declared));
        parts.join("; ")
    }

    /// Whether it stands for one task a payload.
    pub(super) fn is_worker(&self) -> bool {
        self.node.is_some_and(|node| node.payload.is_some())
    }

    /// The graph that it runs, to be drawn inside of it, and what its ids begin with.
    pub(super) fn inner(&self) -> Option<(Scene<'g>, String)> {
        Some((self.inside?, format!("{}_", self.id)))
    }
}
