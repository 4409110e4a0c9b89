//! Mermaid, read by its own parser where `.ci/run` has installed it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use milepost::dot::Mermaid;

use super::golden;
use super::graphs::{QUOTING, WORDS, every_kind, nested, random, row, web};
use super::read::{Picture, assert_shows};

#[test]
fn mermaid_shows_every_kind_of_node_and_edge() {
    let text = Mermaid::new(&every_kind()).to_string();
    golden("every_kind.mmd", &text);
}

#[test]
fn a_line_of_mermaid_has_nothing_that_could_be_read_as_more() {
    let mut views: Vec<_> = (0..500).map(random).collect();
    views.extend([row(&QUOTING), row(&WORDS), web(&WORDS)]);
    for view in views {
        let text = Mermaid::new(&view).to_string();
        assert_eq!(text, Mermaid::new(&view).to_string());
        let styles = text.lines().filter(|line| {
            line.starts_with("  linkStyle ")
                || line.starts_with("  style ")
                || line.starts_with("  classDef ")
        });
        let shapes = 1 + view.nodes.len() + 2 + view.edges.len();
        assert_eq!(text.lines().count(), shapes + styles.count());
        for line in text.lines() {
            // A label is the only thing in quotes, and a name can put no quote into it.
            assert!(matches!(line.matches('"').count(), 0 | 2), "{line}");
            if let Some(label) = line.split('"').nth(1) {
                assert!(
                    !label.contains(['\\', '`', '<', '>', '&', '%', ':', '\t', '*']),
                    "{line}"
                );
            }
        }
    }
}

#[test]
fn mermaid_itself_reads_each_name_as_it_is() {
    let mut views: Vec<_> = (0..40).map(random).collect();
    views.extend([row(&QUOTING), row(&WORDS), web(&WORDS)]);
    views.push(every_kind());
    let texts: Vec<_> = views
        .iter()
        .map(|view| Mermaid::new(view).to_string())
        .collect();
    let Some(pictures) = understood(&texts) else {
        return;
    };
    assert_eq!(pictures.len(), views.len());
    for (picture, view) in pictures.iter().zip(&views) {
        assert_shows(picture, view);
    }
}

/// S055: a graph inside of a node is a subgraph of Mermaid's.
#[test]
fn mermaid_shows_graphs_inside_of_graphs() {
    let text = Mermaid::new(&nested()).to_string();
    golden("nested.mmd", &text);
    let Some(pictures) = understood(&[text]) else {
        return;
    };
    let nodes: Vec<_> = pictures[0]
        .nodes
        .iter()
        .map(|node| node.0.as_str())
        .collect();
    for id in ["n0", "n1_n0", "n1_n1_n0", "n1_n1_stop", "n2"] {
        assert!(nodes.contains(&id), "{id} is not among {nodes:?}");
    }
    let edges = pictures[0].edges.iter();
    let edges: Vec<_> = edges
        .map(|(from, to, _)| (from.as_str(), to.as_str()))
        .collect();
    for edge in [
        ("n0", "n1"),
        ("n1", "n2"),
        ("n1_n0", "n1_n1"),
        ("n1_n1_n1", "n1_n1_n0"),
    ] {
        assert!(edges.contains(&edge), "{edge:?} is not among {edges:?}");
    }
}

/// What Mermaid's parser understands; none where it is not installed. `MILEPOST_MERMAID` says
/// that it must be.
pub(super) fn understood(texts: &[String]) -> Option<Vec<Picture>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("target/mermaid");
    if !folder.join("node_modules/mermaid").is_dir() {
        assert!(
            std::env::var_os("MILEPOST_MERMAID").is_none(),
            "Mermaid is not in {}",
            folder.display()
        );
        return None;
    }
    let mut node = Command::new("node")
        .arg(root.join(".ci/mermaid.mjs"))
        .arg(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = node.stdin.take().unwrap();
    let texts = serde_json::to_vec(texts).unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&texts));
    let out = node.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(out.status.success(), "Mermaid refuses a picture");
    Some(serde_json::from_slice(&out.stdout).unwrap())
}
