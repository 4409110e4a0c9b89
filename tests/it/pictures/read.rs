//! What a reader makes of a picture, and what it should.

use milepost::{GraphView, Point};

/// A picture as someone else reads it: ids and decoded labels.
#[derive(Debug, Default, PartialEq, serde::Deserialize)]
pub(crate) struct Picture {
    pub(crate) nodes: Vec<(String, String)>,
    pub(crate) edges: Vec<(String, String, String)>,
}

/// Checks that a picture shows exactly this graph.
pub(crate) fn assert_shows(picture: &Picture, view: &GraphView) {
    let id = |point| match point {
        Point::Start => "start".to_owned(),
        Point::Node(place) => format!("n{place}"),
        Point::Join(place) => format!("j{place}"),
        Point::End => "stop".to_owned(),
    };
    let mut nodes = vec![("start".to_owned(), "start".to_owned())];
    for (place, node) in view.nodes.iter().enumerate() {
        nodes.push((format!("n{place}"), node.name.to_string()));
    }
    for (place, join) in view.joins.iter().enumerate() {
        nodes.push((format!("j{place}"), join.rule.clone()));
    }
    nodes.push(("stop".to_owned(), "end".to_owned()));
    assert_eq!(picture.nodes, nodes);

    let edges: Vec<_> = view
        .edges
        .iter()
        .map(|edge| {
            let payload = edge
                .payload
                .map(|path| format!("each {}", path.rsplit(':').next().unwrap()));
            let parts: Vec<_> = [Some(edge.label.to_owned()), payload]
                .into_iter()
                .flatten()
                .filter(|part| !part.is_empty())
                .collect();
            (id(edge.from), id(edge.to), parts.join("\n"))
        })
        .collect();
    assert_eq!(picture.edges, edges);
}
