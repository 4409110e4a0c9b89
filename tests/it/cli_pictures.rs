//! A thread laid over its graph, from the command line.

use std::fs;

use crate::cli_bin::{Desk, bakery};

#[test]
fn a_thread_is_drawn_over_its_graph_the_same_each_time() {
    let desk = Desk::new();
    let words = ["run", "count", "--to", "3", "--thread", "t"];
    desk.run(&words).exits(0);
    let drawn = desk.run(&["dot", "--run", "t"]).exits(0).out;
    assert!(drawn.contains("label=\"tick\\n×3\""), "{drawn}");
    assert!(drawn.contains("label=\"Again\\n×2\""), "{drawn}");
    assert!(drawn.contains("finished after superstep 3"), "{drawn}");
    let twin = ["run", "count", "--to", "3", "--thread", "twin"];
    desk.run(&twin).exits(0);
    for other in [
        &["dot", "--run", "t"][..],
        &["dot", "count", "--run", "twin"],
    ] {
        assert_eq!(desk.run(other).exits(0).out, drawn);
    }
    let timed = desk.run(&["dot", "--run", "t", "--times"]).exits(0).out;
    assert!(timed.contains("last "), "{timed}");
    let words = ["dot", "--run", "t", "--format", "mermaid"];
    let mermaid = desk.run(&words).exits(0).out;
    assert!(mermaid.starts_with("flowchart TB\n"), "{mermaid}");
    assert!(mermaid.contains("#10;#215;3") || mermaid.contains("#10;×3"));
}

#[test]
fn a_thread_is_drawn_as_it_was_at_a_checkpoint() {
    let desk = Desk::new();
    desk.run(&["run", "count", "--to", "3", "--thread", "t"])
        .exits(0);
    let history = desk.run(&["history", "t", "--json"]).exits(0).values();
    let visits: Vec<_> = history
        .iter()
        .map(|checkpoint| {
            let at = checkpoint["seq"].to_string();
            let words = ["dot", "--run", "t", "--at", &at, "--json"];
            let value = desk.run(&words).exits(0).value();
            let node = &value["nodes"][0];
            (node["visits"].as_u64(), node["open"].as_u64())
        })
        .collect();
    let expected = [(0, 1), (1, 1), (2, 1), (3, 0)];
    assert_eq!(visits, expected.map(|(n, open)| (Some(n), Some(open))));
    let wrong = desk.run(&["dot", "--run", "t", "--at", "999"]).exits(2);
    for part in ["no checkpoint 999", "next: milepost history t"] {
        assert!(wrong.err.contains(part), "{}", wrong.err);
    }
}

#[test]
fn a_failed_thread_is_drawn_with_what_failed() {
    let desk = Desk::new();
    fs::write(desk.path("block"), "").unwrap();
    let words = ["run", "count", "--blocked-by", "block", "--thread", "t"];
    desk.run(&words).exits(1);
    let value = desk.run(&["dot", "--run", "t", "--json"]).exits(0).value();
    assert_eq!(value["nodes"][0]["failed"], true);
    assert_eq!(value["nodes"][0]["failures"], 1);
    assert_eq!(value["nodes"][0]["last_micros"], serde_json::Value::Null);
    assert_eq!(value["stands"], "failed after superstep 0");
    assert_eq!(value["edges"][0]["taken"], 1);
}

#[test]
fn a_picture_of_what_is_not_there_is_refused() {
    let desk = Desk::new();
    let query = ["run", "research", "--question", "rye", "--thread", "r"];
    desk.run(&[&query[..], &["--docs", &bakery()]].concat())
        .exits(0);
    for (words, parts) in [
        (&["dot"][..], &["--run", "next: milepost"][..]),
        (&["dot", "count", "--at", "3"], &["--run"]),
        (&["dot", "--run", "nosuch"], &["no thread nosuch", "has r"]),
        (
            &["dot", "count", "--run", "r"],
            &["of graph research, not of count", "dot --run r"],
        ),
    ] {
        let ran = desk.run(words).exits(2);
        for part in parts {
            assert!(ran.err.contains(part), "no {part:?} in {}", ran.err);
        }
    }
}
