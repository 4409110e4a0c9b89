//! DOT, read by another's parser and by Graphviz.

use std::io::Write;
use std::process::{Command, Stdio};

use layout::gv::DotParser;
use layout::gv::parser::ast::{AttributeList, Stmt};
use milepost::GraphView;
use milepost::dot::Dot;

use super::golden;
use super::graphs::{QUOTING, WORDS, every_kind, nested, random, row, web};
use super::read::{Picture, assert_shows};

/// Resolves entities, which the parser leaves to whoever draws the label, as Graphviz does.
fn resolve(text: &str) -> String {
    let mut resolved = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        resolved.push_str(&rest[..at]);
        let end = at + rest[at..].find(';').expect("no lone & is written");
        let entity = &rest[at + 1..end];
        resolved.push(match entity.strip_prefix('#') {
            Some(number) => char::from_u32(number.parse().unwrap()).unwrap(),
            None => match entity {
                "amp" => '&',
                "lt" => '<',
                "gt" => '>',
                "quot" => '"',
                other => panic!("an unknown entity {other}"),
            },
        });
        rest = &rest[end + 1..];
    }
    resolved + rest
}

fn attribute(list: &AttributeList, name: &str) -> Option<String> {
    let found = list.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.clone())
}

pub(super) fn parse(text: &str) -> Picture {
    let mut parser = DotParser::new(text);
    let graph = parser.process().expect("it is DOT");
    let mut picture = Picture::default();
    add(graph.list.list, &mut picture);
    picture
}

/// Clusters come by their names, as nodes do.
fn add(statements: Vec<Stmt>, picture: &mut Picture) {
    for statement in statements {
        match statement {
            Stmt::Node(node) => {
                let label = attribute(&node.list, "label").expect("a node has a label");
                picture.nodes.push((node.id.name, resolve(&label)));
            }
            Stmt::Edge(edge) => {
                let label = attribute(&edge.list, "label").unwrap_or_default();
                let [(to, _)] = &edge.to[..] else {
                    panic!("an edge has two ends");
                };
                picture
                    .edges
                    .push((edge.from.name, to.name.clone(), resolve(&label)));
            }
            Stmt::Attribute(_) => {}
            Stmt::SubGraph(graph) => {
                let label = graph
                    .list
                    .list
                    .iter()
                    .find_map(|statement| match statement {
                        Stmt::Attribute(list) => attribute(&list.list, "label"),
                        _ => None,
                    });
                let label = resolve(&label.expect("a cluster has a label"));
                picture.nodes.push((graph.name.clone(), label));
                add(graph.list.list, picture);
            }
        }
    }
}

/// S055: a graph inside of a node is a cluster, and Graphviz draws its frame.
#[test]
fn dot_shows_graphs_inside_of_graphs_as_clusters() {
    let graph = nested();
    let text = Dot::new(&graph).to_string();
    let picture = parse(&text);
    let named = |id: &str| picture.nodes.iter().find(|node| node.0 == id);
    for (id, name) in [
        ("cluster_n1", "study"),
        ("cluster_n1_n1", "search \"everything\""),
        ("n1_n1_n0", "look"),
        ("n1_n1_stop", "end"),
    ] {
        assert_eq!(named(id).map(|node| node.1.as_str()), Some(name));
    }
    let edges: Vec<_> = picture
        .edges
        .iter()
        .map(|(from, to, _)| (from.as_str(), to.as_str()))
        .collect();
    assert!(edges.contains(&("n0", "n1_start")) && edges.contains(&("n1_stop", "n2")));
    golden("nested.dot", &text);
    let Some(svg) = svg(&text) else { return };
    assert_eq!(svg.matches("class=\"cluster").count(), 2);
    assert_eq!(svg.matches("class=\"edge\"").count(), edges.len());
}

fn assert_read_back(view: &GraphView) {
    let text = Dot::new(view).to_string();
    assert_shows(&parse(&text), view);
    for line in text.lines() {
        let quotes = line.replace("\\\\", "").replace("\\\"", "");
        assert_eq!(
            quotes.matches('"').count() % 2,
            0,
            "a string ends on its line: {line}"
        );
    }
    for _ in 0..10 {
        assert_eq!(Dot::new(view).to_string(), text);
    }
}

#[test]
fn dot_keeps_quotes_backslashes_and_newlines_in_names_and_labels() {
    assert_read_back(&row(&QUOTING));
}

#[test]
fn dot_keeps_names_that_are_words_or_nearly_the_same_apart() {
    assert_read_back(&web(&WORDS));
    assert_read_back(&row(&WORDS));
}

#[test]
fn dot_keeps_random_graphs() {
    for seed in 0..500 {
        assert_read_back(&random(seed));
    }
}

#[test]
fn dot_shows_every_kind_of_node_and_edge() {
    let graph = every_kind();
    assert_read_back(&graph);
    golden("every_kind.dot", &Dot::new(&graph).to_string());
}

/// What Graphviz makes of it; none where it is not installed, which CI does not allow.
pub(super) fn svg(text: &str) -> Option<String> {
    let started = Command::new("dot")
        .arg("-Tsvg")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut dot = match started {
        Ok(dot) => dot,
        Err(_) if std::env::var_os("CI").is_none() => return None,
        Err(why) => panic!("Graphviz is not there: {why}"),
    };
    let mut stdin = dot.stdin.take().unwrap();
    let text = text.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let out = dot.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    Some(String::from_utf8(out.stdout).unwrap())
}

/// The texts of an SVG, in the order of the picture, blanks as blanks.
fn texts(svg: &str) -> Vec<String> {
    svg.split("<text ")
        .skip(1)
        .map(|text| {
            let (_, text) = text.split_once('>').unwrap();
            let (text, _) = text.split_once("</text>").unwrap();
            resolve(text).replace('\u{a0}', " ")
        })
        .collect()
}

#[test]
fn graphviz_shows_each_name_as_it_is() {
    for names in [&QUOTING[..], &WORDS[..]] {
        let view = web(names);
        let Some(svg) = svg(&Dot::new(&view).to_string()) else {
            return;
        };
        assert_eq!(svg.matches("class=\"node ").count(), names.len() + 2);
        assert_eq!(svg.matches("class=\"edge\"").count(), view.edges.len());
        let texts = texts(&svg);
        for line in names.iter().flat_map(|name| name.split('\n')) {
            assert!(
                texts.iter().any(|text| text == line),
                "{line:?} is not among {texts:?}"
            );
        }
    }
}

#[test]
fn graphviz_accepts_random_graphs_and_every_kind() {
    let mut views: Vec<_> = (0..12).map(random).collect();
    views.push(row(&QUOTING));
    views.push(every_kind());
    for view in views {
        let Some(svg) = svg(&Dot::new(&view).to_string()) else {
            return;
        };
        assert_eq!(svg.matches("class=\"node ").count(), view.nodes.len() + 2);
        assert_eq!(svg.matches("class=\"edge\"").count(), view.edges.len());
    }
}
