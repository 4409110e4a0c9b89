//! The checks: from a description to a graph, or to the list of what is wrong with it.

use std::collections::HashMap;

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{Dfs, Reversed};

use super::builder::Builder;
use super::catch;
use super::compiled::{Compiled, Entry, Graph, Out};
use super::declared::check_writers;
use super::error::{BuildError, Problem};
use super::join::{self, Join};
use super::reach::{Places, fanned_out};
use super::target::Dest;
use super::view::{AskView, EdgeView, FieldView, GraphView, JoinView, NodeView, Point};
use crate::ids::NodeName;
use crate::state::{AnyField, State, versions};

pub(super) fn compile<S: State>(builder: Builder<S>) -> Result<Graph<S>, BuildError> {
    let Builder {
        name,
        id,
        mut nodes,
        mut targets,
        start,
        joins,
        mut problems,
    } = builder;
    let joins = join::compile(joins, id, &mut nodes, &mut targets, start, &mut problems);
    let mut by_name = HashMap::with_capacity(nodes.len());
    let is_fan = fanned_out(nodes.len(), &targets);
    for (place, node) in nodes.iter().enumerate() {
        if by_name.insert(node.name.clone(), place as u32).is_some() {
            problems.push(Problem::Duplicate {
                node: node.name.clone(),
            });
        }
        check_node(node, is_fan[place], &mut problems);
        catch::check(node, &mut problems);
    }
    let mut names: Vec<_> = nodes.iter().map(|node| &node.name).collect();
    for join in &joins {
        if names.contains(&&join.name) {
            let join = join.name.clone();
            problems.push(Problem::JoinTwice { join });
        }
        names.push(&join.name);
    }
    if start.is_none() {
        problems.push(Problem::NoStart);
    }
    let names: Vec<_> = nodes.iter().map(|node| node.name.clone()).collect();
    let view = GraphView {
        joins: joins.iter().map(|join| join_view(join, &names)).collect(),
        edges: edges(&nodes, &targets, start, &joins),
        nodes: nodes.iter().map(node_view).collect(),
        fields: S::fields().iter().map(|field| field_view(*field)).collect(),
        state: S::NAME,
        doc: S::DOC,
        versions: versions::<S>(),
        name,
    };
    check_paths(&view, &mut problems);
    check_writers(
        &nodes,
        || Places::of(&nodes, &targets, &joins, start),
        &mut problems,
    );
    let initial = S::default();
    for field in S::fields() {
        if let Err(why) = field.check_value(&initial) {
            problems.push(Problem::Field {
                field: field.name(),
                why,
            });
        }
    }
    if let [own, older, ..] = view.versions[..]
        && older >= own
    {
        problems.push(Problem::Lift {
            state: S::NAME,
            own,
            older,
        });
    }
    match start {
        Some(start) if problems.is_empty() => {
            let fingerprint = fingerprint(&view, &nodes);
            let declares = nodes.iter().any(|node| node.writes.is_some());
            Ok(Graph::of(Compiled {
                names: names.into(),
                joins,
                declares,
                nodes,
                targets,
                start,
                by_name,
                view,
                fingerprint,
            }))
        }
        _ => Err(BuildError {
            graph: view.name,
            problems,
        }),
    }
}

fn check_node<S: State>(node: &Entry<S>, is_fan: bool, problems: &mut Vec<Problem>) {
    let name = || node.name.clone();
    if node.out.is_none() {
        problems.push(Problem::LeadsNowhere { node: name() });
    }
    match (&node.payload, &node.out, node.empty) {
        (Some(_), Some(Out::Exits(_)), None) if is_fan || node.tolerate.is_some() => {
            problems.push(Problem::NothingWhenEmpty { worker: name() });
        }
        (None, _, Some(_)) => problems.push(Problem::EmptyWithoutWorker { node: name() }),
        _ => {}
    }
    let mut policy = |reason| {
        problems.push(Problem::Policy {
            node: name(),
            reason,
        })
    };
    if node.policy.concurrency == Some(0) {
        policy("a concurrency of 0 never runs anything");
    }
    if node.policy.idle_timeout == Some(std::time::Duration::ZERO) {
        policy("an idle timeout of 0 lets nothing run");
    }
    match (node.policy.is_irreversible(), &node.inner) {
        (true, Some(_)) => {
            policy("it runs a graph: say of the nodes inside that they are irreversible")
        }
        (true, None) if node.policy.retry.is_some() => policy(
            "it is irreversible, and a retry would do it again: drop the retry, or give it another class",
        ),
        _ => {}
    }
    match (node.policy.step_limit, &node.inner) {
        (Some(_), None) => policy("a limit of supersteps is for a node that runs a graph"),
        (Some(0), _) => policy("a limit of 0 supersteps never runs anything"),
        _ => {}
    }
    if let Some(retry) = &node.policy.retry {
        if retry.max_attempts == 0 {
            policy("0 attempts never run anything");
        }
        if !(retry.factor.is_finite() && retry.factor >= 0.0) {
            policy("the factor of the waits is not a number of 0 or more");
        }
        if !(0.0..=1.0).contains(&retry.jitter) {
            policy("the jitter is not between 0 and 1");
        }
    }
}

fn node_view<S: State>(node: &Entry<S>) -> NodeView {
    NodeView {
        name: node.name.clone(),
        kind: node.kind,
        exits: node.exits.clone(),
        payload: node.payload.map(|payload| payload.type_name),
        payload_shape: node.payload.map(|payload| (payload.shape)()),
        asks: node.asks.map(|asks| AskView {
            question: asks.question,
            answer: asks.answer,
            shape: (asks.shape)(),
            answer_is: (asks.known)(),
        }),
        policy: node.policy.clone(),
        cache: None,
        reads: node.reads.clone(),
        writes: node.writes.clone(),
        inner: node
            .inner
            .as_ref()
            .map(|inner| Box::new(inner.view.clone())),
    }
}

fn join_view(join: &Join, nodes: &[NodeName]) -> JoinView {
    JoinView {
        name: join.name.clone(),
        members: join.members.iter().map(|node| *node as usize).collect(),
        rule: join.rule(nodes),
    }
}

pub(crate) fn field_view<S: State>(field: &dyn AnyField<S>) -> FieldView {
    FieldView {
        name: field.name(),
        type_name: field.type_name(),
        shape: field.shape(),
        reducer: field.reducer(),
        codec: field.codec().number(),
        required: field.required(),
        aliases: field.aliases(),
        doc: field.doc(),
    }
}

fn edges<S: State>(
    nodes: &[Entry<S>],
    targets: &[Vec<Dest<S>>],
    start: Option<u32>,
    joins: &[Join],
) -> Vec<EdgeView> {
    let mut edges = Vec::new();
    let mut add = |from, target: u32, label, conditional, when_empty, on_error| {
        for dest in &targets[target as usize] {
            let (to, payload) = match dest {
                Dest::Node(node) => (Point::Node(*node as usize), None),
                Dest::Each(node, _) => {
                    let payload = nodes[*node as usize].payload;
                    (
                        Point::Node(*node as usize),
                        payload.map(|payload| payload.type_name),
                    )
                }
                Dest::Caught(node) => (Point::Node(*node as usize), None),
                Dest::Join(join) => (Point::Join(*join as usize), None),
                Dest::End => (Point::End, None),
            };
            edges.push(EdgeView {
                from,
                to,
                label,
                conditional,
                payload,
                when_empty,
                on_error,
            });
        }
    };
    if let Some(start) = start {
        add(Point::Start, start, "", false, false, false);
    }
    for (place, node) in nodes.iter().enumerate() {
        let from = Point::Node(place);
        match &node.out {
            None => {}
            Some(Out::Edge(target)) => add(from, *target, "", false, false, false),
            Some(Out::Exits(targets)) => {
                for (exit, target) in targets.iter().enumerate() {
                    let label = node.exits.get(exit).copied().unwrap_or_default();
                    add(from, *target, label, !node.exits.is_empty(), false, false);
                }
            }
            Some(Out::Branch {
                labels, targets, ..
            }) => {
                for (label, target) in labels.iter().zip(targets) {
                    add(from, *target, label, true, false, false);
                }
            }
        }
        if let Some(empty) = node.empty {
            add(from, empty, "when empty", true, true, false);
        }
        for catch in &node.catches {
            add(from, catch.target, catch.label, true, false, true);
        }
    }
    for (place, join) in joins.iter().enumerate() {
        add(Point::Join(place), join.target, "", false, false, false);
    }
    edges
}

/// Every node can be reached from the start, and from every node the end can be reached.
fn check_paths(view: &GraphView, problems: &mut Vec<Problem>) {
    let places = view.nodes.len() + view.joins.len();
    let mut paths: DiGraph<(), ()> = DiGraph::with_capacity(places + 2, view.edges.len());
    for _ in 0..places {
        paths.add_node(());
    }
    let start = paths.add_node(());
    let end = paths.add_node(());
    let index = |point| match point {
        Point::Start => start,
        Point::Node(node) => NodeIndex::new(node),
        Point::Join(join) => NodeIndex::new(view.nodes.len() + join),
        Point::End => end,
    };
    for edge in &view.edges {
        paths.add_edge(index(edge.from), index(edge.to), ());
    }
    let name = |node: NodeIndex| view.nodes[node.index()].name.clone();

    let mut reached = Dfs::new(&paths, start);
    while reached.next(&paths).is_some() {}
    let mut ending = Dfs::new(Reversed(&paths), end);
    while ending.next(Reversed(&paths)).is_some() {}
    let is_node = |node: &NodeIndex| node.index() < view.nodes.len();
    for node in paths.node_indices().filter(is_node) {
        if !reached.discovered.contains(node.index()) {
            problems.push(Problem::Unreachable { node: name(node) });
        }
    }
    // A component without an edge that leaves it is either the end, a node that leads nowhere
    // (said already), or a cycle that nothing can leave.
    // Not the recursive algorithm: a chain of nodes may be longer than a stack is deep.
    let components = kosaraju_scc(&paths);
    let mut component_of = vec![0; paths.node_count()];
    for (number, component) in components.iter().enumerate() {
        for node in component {
            component_of[node.index()] = number;
        }
    }
    for (number, component) in components.into_iter().enumerate() {
        let inside = |node: NodeIndex| component_of[node.index()] == number;
        let endless = component.iter().all(|node| {
            node.index() < places
                && !ending.discovered.contains(node.index())
                && paths.neighbors(*node).all(inside)
        });
        let cyclic = component
            .iter()
            .any(|node| paths.neighbors(*node).next().is_some());
        if endless && cyclic {
            let mut nodes: Vec<NodeIndex> = component.into_iter().filter(is_node).collect();
            nodes.sort_unstable();
            let nodes: Vec<NodeName> = nodes.into_iter().map(name).collect();
            problems.push(Problem::EndlessCycle { nodes });
        }
    }
}

fn fingerprint<S: State>(view: &GraphView, nodes: &[Entry<S>]) -> [u8; 16] {
    let mut hash = blake3::Hasher::new();
    let mut add = |text: &str| {
        hash.update(&(text.len() as u64).to_le_bytes())
            .update(text.as_bytes());
    };
    add(&view.name);
    for (node, entry) in view.nodes.iter().zip(nodes) {
        add(node.name.as_str());
        add(node.kind.name());
        add(&node.exits.join("\n"));
        add(node.payload_shape.as_deref().unwrap_or_default());
        if let Some(inner) = &entry.inner {
            add(&format!("{:032x}", u128::from_be_bytes(inner.fingerprint)));
        }
        if let Some(asks) = &node.asks {
            add("asks");
            add(&asks.shape);
        }
    }
    for edge in &view.edges {
        add(&format!(
            "{:?} {:?} {} {}",
            edge.from, edge.to, edge.label, edge.when_empty
        ));
    }
    for join in &view.joins {
        add("join");
        add(join.name.as_str());
        add(&format!("{:?} {}", join.members, join.rule));
    }
    for field in &view.fields {
        add(field.name);
        add(&field.shape);
        add(field.reducer.id);
        add(&format!(
            "{:?} {} {}",
            field.reducer.version, field.codec, field.required
        ));
    }
    let mut short = [0; 16];
    short.copy_from_slice(&hash.finalize().as_bytes()[..16]);
    short
}
