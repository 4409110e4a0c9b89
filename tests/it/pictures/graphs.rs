//! The graphs that are drawn.

use milepost::{
    Append, Context, EdgeView, End, Exits, Graph, GraphView, NodeKind, NodeName, NodeView, Point,
    Policy, Snapshot, State,
};
use serde::{Deserialize, Serialize};

/// C58: names and labels that mean something to a careless writer or reader.
pub(crate) const QUOTING: [&str; 20] = [
    "say \"hi\"",
    "back\\slash",
    "trailing \\",
    "\\n",
    "a\nreal newline",
    "a\ttab",
    "<b>",
    "{x|y}",
    "a->b",
    ";",
    "🦀🧭",
    "שלום עולם",
    "\\N",
    "\\l\\G\\E",
    "&lt;b&gt; &amp; &#65;",
    "<<b>bold</b>>",
    "`**strong**` _soft_",
    "1. first",
    "#quot; %% #59; ﬂ°°65¶ß",
    " blank  both ends ",
];

/// C59: names that are words of a language, or nearly the same as another.
pub(crate) const WORDS: [&str; 22] = [
    "a:b",
    "a",
    "end",
    "graph",
    "subgraph",
    "strict",
    "node",
    "[x]",
    "a b",
    "a_b",
    "x",
    "X",
    "\u{e9}",
    "e\u{301}",
    "start",
    "stop",
    "n0",
    "digraph",
    "flowchart TB",
    "style n0 fill:#f00",
    "style a:b#c;",
    "click",
];

pub(crate) fn node(name: &str, kind: NodeKind) -> NodeView {
    NodeView {
        name: NodeName::new(name).unwrap(),
        kind,
        exits: Vec::new(),
        payload: None,
        payload_shape: None,
        cache: None,
        asks: None,
        policy: Policy::default(),
        reads: None,
        writes: None,
        inner: None,
    }
}

pub(crate) fn edge(from: Point, to: Point, label: &'static str) -> EdgeView {
    EdgeView {
        from,
        to,
        label,
        conditional: !label.is_empty(),
        payload: None,
        when_empty: false,
        on_error: false,
    }
}

pub(crate) fn view(name: &str, nodes: Vec<NodeView>, edges: Vec<EdgeView>) -> GraphView {
    GraphView {
        name: name.to_owned(),
        state: "State",
        doc: "",
        versions: vec![1],
        nodes,
        joins: Vec::new(),
        edges,
        fields: Vec::new(),
    }
}

/// Nodes with these names in a row, each edge with a label from the same list.
pub(crate) fn row(names: &'static [&'static str]) -> GraphView {
    let nodes = names.iter().map(|name| node(name, NodeKind::Function));
    let mut edges = vec![edge(Point::Start, Point::Node(0), "")];
    for (place, label) in names.iter().enumerate() {
        let to = if place + 1 < names.len() {
            Point::Node(place + 1)
        } else {
            Point::End
        };
        edges.push(edge(Point::Node(place), to, label));
    }
    view(names[0], nodes.collect(), edges)
}

/// Nodes with these names, an edge from each to each.
pub(crate) fn web(names: &[&str]) -> GraphView {
    let nodes: Vec<_> = names
        .iter()
        .map(|name| node(name, NodeKind::Function))
        .collect();
    let mut edges = vec![edge(Point::Start, Point::Node(0), "")];
    for from in 0..names.len() {
        edges.extend((0..names.len()).map(|to| edge(Point::Node(from), Point::Node(to), "")));
    }
    view("web", nodes, edges)
}

/// Some graph, the same for the same seed.
pub(crate) fn random(seed: u64) -> GraphView {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % most as u64) as usize
    };
    const PIECES: [&str; 24] = [
        "\"", "\\", "\n", "\t", "<", ">", "{", "|", "}", "->", ";", ":", "[", "]", "#", "&", "a",
        "B", "é", "🦀", " ", "`", "_", "\u{202e}",
    ];
    let kinds = [
        NodeKind::Planner,
        NodeKind::Model,
        NodeKind::Tools,
        NodeKind::Reflect,
        NodeKind::Summary,
        NodeKind::Function,
        NodeKind::Human,
        NodeKind::Subgraph,
    ];
    let mut nodes = Vec::new();
    for _ in 0..1 + below(20) {
        let name: String = (0..1 + below(8)).map(|_| PIECES[below(24)]).collect();
        let mut node = node(&name, kinds[below(8)]);
        node.payload = (below(4) == 0).then_some("app::Topic");
        nodes.push(node);
    }
    let mut point = |nodes: usize| match below(nodes + 1) {
        0 => Point::End,
        place => Point::Node(place - 1),
    };
    let mut edges = vec![edge(Point::Start, Point::Node(0), "")];
    for from in 0..nodes.len() {
        for label in ["", QUOTING[from % QUOTING.len()]] {
            let mut edge = edge(Point::Node(from), point(nodes.len()), label);
            if let Point::Node(to) = edge.to {
                edge.payload = nodes[to].payload;
            }
            edges.push(edge);
        }
    }
    view("random", nodes, edges)
}

/// Graphs inside of graphs, two deep, with edges into a frame, out of it, and to itself.
pub(crate) fn nested() -> GraphView {
    use Point::{End, Node, Start};
    let within = |name, kind, inner| NodeView {
        inner: Some(Box::new(inner)),
        ..node(name, kind)
    };
    let innermost = view(
        "innermost",
        vec![node("look", NodeKind::Tools), node("read", NodeKind::Model)],
        vec![
            edge(Start, Node(0), ""),
            edge(Node(0), Node(1), ""),
            edge(Node(1), Node(0), "More"),
            edge(Node(1), End, "Done"),
        ],
    );
    let inner = view(
        "inner",
        vec![
            node("split", NodeKind::Planner),
            within("search \"everything\"", NodeKind::Subgraph, innermost),
            node("merge", NodeKind::Summary),
        ],
        vec![
            edge(Start, Node(0), ""),
            edge(Node(0), Node(1), "Search"),
            edge(Node(0), Node(2), "Skip"),
            edge(Node(1), Node(2), ""),
            edge(Node(2), End, ""),
        ],
    );
    let mut study = within("study", NodeKind::Subgraph, inner);
    study.payload = Some("app::Topic");
    let mut fan_out = edge(Node(0), Node(1), "");
    fan_out.payload = study.payload;
    view(
        "nested",
        vec![
            node("plan", NodeKind::Planner),
            study,
            node("judge", NodeKind::Reflect),
        ],
        vec![
            edge(Start, Node(0), ""),
            fan_out,
            edge(Node(1), Node(2), ""),
            edge(Node(1), Node(1), "Once more"),
            edge(Node(2), Node(0), "Again"),
            edge(Node(2), End, "Good"),
        ],
    )
}

#[derive(Clone, Debug, Default, State)]
struct Book {
    #[reduce(Append)]
    lines: Vec<String>,
}

#[derive(Clone, Copy, Exits)]
enum Planned {
    Split,
    Nothing,
}

#[derive(Clone, Copy, Exits)]
enum Found {
    Enough,
    NotEnough,
}

#[derive(Clone, Copy, Exits)]
enum Judged {
    Good,
    AskAgain,
}

#[derive(Clone, Serialize, Deserialize)]
struct Topic;

/// S016, S054: a graph with every kind of node and every kind of edge that a graph can have.
pub(crate) fn every_kind() -> GraphView {
    let mut g = Graph::<Book>::builder("every kind");
    let same = async |_: Snapshot<Book>, _: Context| Ok(Book::update());
    let plan = g.node("plan", async |_: Snapshot<Book>, _: Context| {
        Ok((Book::update(), Planned::Split))
    });
    let ask = g.node("ask the model", same);
    let tools = g.node("look things up", same);
    let study = g.worker("study", async |_: Topic, _: Snapshot<Book>, _: Context| {
        Ok((Book::update(), Found::Enough))
    });
    let reflect = g.node("reflect", same);
    let sum_up = g.node("sum up", same);
    let editor = g.node("editor", same);
    let check = g.node("check sources", same);
    let file = g.node("file", same);
    g.kind(plan, NodeKind::Planner);
    g.kind(ask, NodeKind::Model);
    g.kind(tools, NodeKind::Tools);
    g.kind(study, NodeKind::Model);
    g.kind(reflect, NodeKind::Reflect);
    g.kind(sum_up, NodeKind::Summary);
    g.kind(editor, NodeKind::Human);
    g.kind(check, NodeKind::Subgraph);
    g.start(plan);
    g.wire(plan, |exit| match exit {
        Planned::Split => study.each(|_| vec![Topic]),
        Planned::Nothing => ask.into(),
    });
    g.wire(study, |exit| match exit {
        Found::Enough => reflect.into(),
        Found::NotEnough => tools.into(),
    })
    .when_empty(ask);
    g.edge(tools, reflect);
    g.edge(ask, tools);
    g.branch(
        reflect,
        |_| Ok(Judged::Good),
        |judged| match judged {
            Judged::Good => sum_up.and(check),
            Judged::AskAgain => plan.into(),
        },
    );
    g.edge(sum_up, editor);
    g.edge(check, editor);
    g.edge(editor, file);
    g.edge(file, End);
    g.build().unwrap().view().clone()
}
