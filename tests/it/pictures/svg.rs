//! SVG, read by another's parser of XML.

use milepost::GraphView;
use milepost::dot::{Overlay, Svg};
use roxmltree::{Document, Node};

use super::golden;
use super::graphs::{QUOTING, WORDS, every_kind, nested, random, row, view, web};
use super::read::{Picture, assert_shows};

/// The direct children of this name.
pub(super) fn children<'n>(node: Node<'n, 'n>, name: &str) -> impl Iterator<Item = Node<'n, 'n>> {
    node.children()
        .filter(move |child| child.has_tag_name(("http://www.w3.org/2000/svg", name)))
}

pub(super) fn title<'n>(node: Node<'n, 'n>) -> &'n str {
    let title = children(node, "title").next().expect("it has a title");
    title.text().unwrap_or_default()
}

/// What a reader sees of a picture and of the graphs inside of it: the title of each node with what
/// a run did below it, and the edges.
pub(super) fn parse(text: &str) -> Picture {
    let document = Document::parse(text).unwrap();
    let root = document.root_element();
    assert_eq!(root.attribute("role"), Some("img"));
    let mut picture = Picture::default();
    for group in root
        .descendants()
        .filter(|node| node.has_attribute("class"))
    {
        let class = group.attribute("class").unwrap();
        if class.starts_with("node ") || class.starts_with("cluster ") {
            let name = title(group);
            let is_end = class.ends_with(" start") || class.ends_with(" stop");
            let lines = |size: &'static str| {
                children(group, "text")
                    .filter(move |text| text.attribute("font-size") == Some(size))
                    .map(|text| text.text().unwrap_or_default())
            };
            // What is seen is the name, whatever the line breaks.
            let seen: String = lines(if is_end { "11" } else { "13" }).collect();
            assert_eq!(seen, name.replace('\n', ""), "of {name:?}");
            let facts = lines("11").filter(|_| !is_end);
            let label: Vec<_> = std::iter::once(name).chain(facts).collect();
            let id = group.attribute("id").unwrap().to_owned();
            picture.nodes.push((id, label.join("\n")));
        } else if class == "edge" {
            let end = |name| group.attribute(name).unwrap().to_owned();
            let label = children(group, "desc").next();
            let label = label.and_then(|label| label.text()).unwrap_or_default();
            let seen: String = children(group, "text")
                .filter_map(|text| text.text())
                .collect();
            assert_eq!(seen, label.replace('\n', ""));
            let edge = (end("data-from"), end("data-to"), label.to_owned());
            picture.edges.push(edge);
        }
    }
    picture
}

fn assert_read_back(view: &GraphView) {
    let text = Svg::new(view).to_string();
    assert_shows(&parse(&text), view);
    for _ in 0..3 {
        assert_eq!(Svg::new(view).to_string(), text);
    }
}

/// C58.
#[test]
fn svg_keeps_quotes_backslashes_and_newlines_in_names_and_labels() {
    assert_read_back(&row(&QUOTING));
}

/// C59.
#[test]
fn svg_keeps_names_that_are_words_or_nearly_the_same_apart() {
    assert_read_back(&row(&WORDS));
    assert_read_back(&web(&WORDS[..8]));
}

#[test]
fn svg_keeps_random_graphs() {
    for seed in 0..60 {
        assert_read_back(&random(seed));
    }
}

/// S054.
#[test]
fn svg_shows_every_kind_of_node_and_edge() {
    let graph = every_kind();
    assert_read_back(&graph);
    golden("every_kind.svg", &Svg::new(&graph).to_string());
}

/// S055: graphs inside of graphs are framed, and edges of a frame are edges of its node.
#[test]
fn svg_shows_graphs_inside_of_graphs() {
    let graph = nested();
    let text = Svg::new(&graph).to_string();
    let picture = parse(&text);
    let ids: Vec<_> = picture.nodes.iter().map(|(id, _)| id.as_str()).collect();
    for id in [
        "n1",
        "n1_start",
        "n1_n1",
        "n1_n1_n0",
        "n1_n1_stop",
        "n1_stop",
        "n2",
    ] {
        assert!(ids.contains(&id), "{id} is not among {ids:?}");
    }
    let edges: Vec<_> = picture
        .edges
        .iter()
        .map(|(from, to, _)| (from.as_str(), to.as_str()))
        .collect();
    for edge in [
        ("n0", "n1"),
        ("n1", "n2"),
        ("n1", "n1"),
        ("n1_n0", "n1_n1"),
        ("n1_n1_n1", "n1_n1_n0"),
    ] {
        assert!(edges.contains(&edge), "{edge:?} is not among {edges:?}");
    }
    golden("nested.svg", &text);
}

#[test]
fn a_graph_without_nodes_and_a_run_not_begun_are_drawn() {
    let empty = view("empty", Vec::new(), Vec::new());
    assert_eq!(parse(&Svg::new(&empty).to_string()).nodes.len(), 2);
    let graph = every_kind();
    let overlay = Overlay::new(&graph, []);
    let text = Svg::new(&graph).run(&overlay).times().to_string();
    assert!(text.contains(">not begun</text>"), "{text}");
    assert_shows(&parse(&text), &graph);
}

/// A view made by hand may name a node that it does not have.
#[test]
fn an_edge_to_a_node_that_is_not_there_is_left_out() {
    let mut graph = every_kind();
    let before = graph.edges.len();
    graph.edges[1].to = milepost::Point::Node(99);
    assert_eq!(parse(&Svg::new(&graph).to_string()).edges.len(), before - 1);
}
