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
    assert!(
        mermaid.starts_with("---\ntitle: \"finished after superstep 3\"\n---\nflowchart TB\n"),
        "{mermaid}"
    );
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
fn a_thread_is_drawn_as_svg_as_a_timeline_and_as_a_flame_graph() {
    let desk = Desk::new();
    desk.run(&["run", "count", "--to", "3", "--thread", "t"])
        .exits(0);
    let draw = |more: &[&str]| {
        desk.run(&[&["dot", "--run", "t"], more].concat())
            .exits(0)
            .out
    };
    let svg = draw(&["--format", "svg"]);
    for part in [
        "<title>count</title>",
        ">×3</text>",
        ">finished after superstep 3</text>",
    ] {
        assert!(svg.contains(part), "no {part} in {svg}");
    }
    assert!(draw(&["--format", "svg", "--times"]).contains(">last "));
    let timeline = draw(&["--format", "timeline"]);
    for part in ["1:tick[0]", "3:tick[0]", "<title>finished</title>"] {
        assert!(timeline.contains(part), "no {part} in {timeline}");
    }
    let history = desk.run(&["history", "t", "--json"]).exits(0).values();
    let at = history[1]["seq"].to_string();
    let then = draw(&["--format", "timeline", "--at", &at]);
    assert!(
        then.contains("1:tick[0]") && !then.contains("2:tick[0]"),
        "{then}"
    );
    let flame = draw(&["--format", "flame"]);
    for text in [&svg, &timeline, &flame] {
        roxmltree::Document::parse_with_options(
            text,
            roxmltree::ParsingOptions {
                allow_dtd: true,
                ..Default::default()
            },
        )
        .unwrap();
    }
    for part in ["count", "tick", "try 1: done", "µs"] {
        assert!(flame.contains(part), "no {part} in {flame}");
    }
    let words = ["dot", "--run", "t", "--format", "flame", "--json"];
    let value = desk.run(&words).exits(0).value();
    assert_eq!(value["format"], "flame");
    assert_eq!(value["text"].as_str().map(str::trim), Some(flame.trim()));
    let plain = desk.run(&["dot", "count", "--format", "svg"]).exits(0).out;
    assert!(
        plain.starts_with("<svg ") && !plain.contains("×"),
        "{plain}"
    );
}

#[test]
fn a_timeline_or_a_flame_graph_without_a_run_is_refused() {
    let desk = Desk::new();
    for format in ["timeline", "flame"] {
        let ran = desk.run(&["dot", "count", "--format", format]).exits(2);
        for part in ["--run THREAD", format, "next: milepost threads"] {
            assert!(ran.err.contains(part), "no {part:?} in {}", ran.err);
        }
    }
    desk.run(&["run", "count", "--to", "1", "--thread", "t"])
        .exits(0);
    let history = desk.run(&["history", "t", "--json"]).exits(0).values();
    let at = history[0]["seq"].to_string();
    let words = ["dot", "--run", "t", "--format", "flame", "--at", &at];
    let ran = desk.run(&words).exits(2);
    assert!(
        ran.err.contains("no task of thread t has ended"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("next: milepost events t"), "{}", ran.err);
}

#[test]
fn a_pruned_thread_is_drawn_with_what_is_left() {
    let desk = Desk::new();
    desk.run(&["run", "count", "--to", "200", "--thread", "t"])
        .exits(0);
    desk.run(&["prune", "t"]).exits(0);
    for format in ["dot", "mermaid", "svg", "timeline"] {
        let words = ["dot", "--run", "t", "--format", format];
        let drawn = desk.run(&words).exits(0).out;
        let told = drawn.replace("#32;", " ").replace("\\u003b", ";");
        assert!(told.contains("pruned and not counted"), "{drawn}");
    }
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
