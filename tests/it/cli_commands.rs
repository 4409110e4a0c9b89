//! Each command does what it says, for people and for machines.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

use serde_json::json;

use crate::cli_bin::{Desk, bakery};

#[test]
fn the_graphs_are_listed_and_drawn() {
    let desk = Desk::new();
    let listed = desk.run(&["graphs"]).exits(0);
    assert!(listed.out.contains("research"), "{}", listed.out);
    let values = desk.run(&["graphs", "--json"]).exits(0).values();
    let names: Vec<_> = values.iter().map(|graph| graph["graph"].clone()).collect();
    assert_eq!(names, ["count", "research", "review"]);
    assert_eq!(values[1]["nodes"][0]["kind"], "planner");
    let dot = desk.run(&["dot", "research"]).exits(0).out;
    assert!(dot.starts_with("digraph \"research\" {"), "{dot}");
    let svg = desk.run(&["dot", "research", "--format", "svg"]).exits(0);
    for (drawn, kept) in [(&dot, "research.dot"), (&svg.out, "research.svg")] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("docs")
            .join(kept);
        assert_eq!(
            *drawn,
            fs::read_to_string(file).unwrap(),
            "draw docs/{kept} anew"
        );
    }
    let mermaid = desk.run(&["dot", "count", "--format", "mermaid"]).exits(0);
    assert!(mermaid.out.contains("flowchart"), "{}", mermaid.out);
    let value = desk.run(&["dot", "research", "--json"]).exits(0).value();
    assert_eq!(value["text"].as_str().unwrap().trim_end(), dot.trim_end());
    assert!(!desk.path("mileposts").exists(), "no store is made to look");
}

#[test]
fn a_run_says_what_happens_and_a_limited_one_how_to_go_on() {
    let desk = Desk::new();
    let limited = [
        "run",
        "count",
        "--to",
        "3",
        "--thread",
        "t",
        "--step-limit",
        "2",
    ];
    let limited = desk.run(&limited).exits(4);
    assert!(limited.out.contains("Again → tick"), "{}", limited.out);
    assert!(
        limited.out.contains("next: milepost resume t"),
        "{}",
        limited.out
    );
    let done = desk.run(&["resume", "t"]).exits(0);
    assert!(done.out.contains("Enough → end"), "{}", done.out);
    assert!(done.out.contains("counted to 3"), "{}", done.out);
    let again = desk.run(&["resume", "t"]).exits(0);
    assert!(again.out.contains("finished"), "{}", again.out);
    let slow = [
        "run",
        "count",
        "--pace",
        "1s",
        "--deadline",
        "10ms",
        "--thread",
        "u",
    ];
    let late = desk.run(&slow).exits(4);
    assert!(late.out.contains("deadline"), "{}", late.out);
}

#[test]
fn a_run_for_machines_is_one_value_a_line_with_a_report_at_the_end() {
    let desk = Desk::new();
    let words = [
        "--json", "run", "count", "--to", "2", "--thread", "t", "--run-id", "r",
    ];
    let values = desk.run(&words).exits(0).values();
    let types: Vec<_> = values.iter().map(|value| value["type"].clone()).collect();
    let round = [
        "superstep_started",
        "task_started",
        "task_finished",
        "committed",
    ];
    let expected = [&["started"][..], &round, &round, &["ended", "report"]].concat();
    assert_eq!(types, expected);
    assert_eq!(values[0]["update"]["to"], json!({"merged": [2]}));
    let report = values.last().unwrap();
    assert_eq!(
        report["state"],
        json!({"n": 2, "to": 2, "blocked_by": null})
    );
    assert_eq!((&report["run"], &report["exit"]), (&json!("r"), &json!(0)));
    // The same run again: it is not run again.
    let again = desk.run(&words).exits(0).values();
    assert_eq!(again.last().unwrap()["state"]["n"], 2);
    assert!(again.iter().all(|value| value["type"] != "task_finished"));
}

#[test]
fn threads_are_listed_shown_looked_back_at_and_deleted() {
    let desk = Desk::new();
    desk.run(&["run", "count", "--thread", "b"]).exits(0);
    desk.run(&["run", "count", "--thread", "a b", "--step-limit", "1"])
        .exits(4);
    let threads = desk.run(&["threads", "--json"]).exits(0).values();
    let names: Vec<_> = threads
        .iter()
        .map(|thread| thread["thread"].clone())
        .collect();
    assert_eq!(names, ["a b", "b"]);
    let listed = desk.run(&["threads"]).exits(0).out;
    assert_eq!(listed.lines().count(), 2);
    let shown = desk.run(&["show", "a b", "--json"]).exits(0).value();
    assert_eq!(shown["status"], "limited");
    assert_eq!(shown["state"]["n"], 1);
    assert_eq!(shown["frontier"][0]["node"], "tick");
    assert_eq!(shown["resume"], "milepost resume 'a b'");
    let text = desk.run(&["show", "a b"]).exits(0).out;
    assert!(text.contains("to run  tick\n"), "{text}");
    let history = desk.run(&["history", "b", "--json"]).exits(0).values();
    assert_eq!(history.len(), 4);
    assert_eq!(history[3]["ran"], json!([{"node": "tick", "tasks": 1}]));
    assert_eq!(history[3]["status"], "finished");
    assert!(desk.run(&["history", "b"]).exits(0).out.contains(" tick "));
    let events = desk.run(&["events", "b", "--json"]).exits(0).values();
    assert_eq!(
        events
            .iter()
            .filter(|event| event["type"] == "committed")
            .count(),
        3
    );
    let text = desk.run(&["events", "b"]).exits(0).out;
    assert!(text.contains("Enough → end"), "{text}");
    desk.run(&["delete", "b"]).exits(0);
    assert_eq!(desk.run(&["threads"]).exits(0).out.lines().count(), 1);
}

#[test]
fn all_unfinished_threads_are_taken_up_together() {
    let desk = Desk::new();
    for thread in ["a", "b", "c"] {
        desk.run(&["run", "count", "--thread", thread, "--step-limit", "1"])
            .exits(4);
    }
    let which = desk.run(&["resume"]).exits(2);
    assert!(which.err.contains("a, b, c"), "{}", which.err);
    desk.run(&["resume", "--all", "--concurrency", "1"])
        .exits(0);
    assert!(desk.run(&["resume"]).exits(0).out.contains("Every thread"));
}

#[test]
fn the_research_graph_answers_and_writes_its_report() {
    let desk = Desk::new();
    let query = "How long does rye flour keep?";
    let words = [
        "run",
        "research",
        "--question",
        query,
        "--docs",
        &bakery(),
        "--thread",
        "t",
    ];
    let told = desk.run(&words).exits(0);
    assert!(told.out.contains("six months"), "{}", told.out);
    let words = [
        &words[..],
        &["--out", "report.md", "--require", "hours.txt"],
    ]
    .concat();
    desk.run(&words).exits(0);
    let report = fs::read_to_string(desk.path("report.md")).unwrap();
    assert!(report.contains("six months"), "{report}");
    let shown = desk.run(&["show", "t", "--json"]).exits(0).value();
    assert_eq!(shown["state"]["report"], report);
    assert!(shown["state"]["notes"]["hours.txt"].is_object());
}

#[test]
fn a_store_in_memory_is_gone_with_the_process_and_says_so() {
    let desk = Desk::new();
    let words = ["--store", "memory", "run", "count", "--step-limit", "1"];
    let ran = desk.run(&words).exits(4);
    assert!(ran.out.contains("in memory only"), "{}", ran.out);
    assert!(fs::read_dir(desk.path("")).unwrap().next().is_none());
}

#[test]
fn the_store_is_named_by_flag_or_by_environment_and_the_next_command_names_it_too() {
    let desk = Desk::new();
    let words = ["run", "count", "--step-limit", "1", "--thread", "t"];
    let ran = desk
        .command(&words)
        .env("MILEPOST_STORE", "elsewhere")
        .output();
    assert_eq!(ran.unwrap().status.code(), Some(4));
    let shown = desk.run(&["--store", "elsewhere", "show", "t"]).exits(0);
    assert!(
        shown
            .out
            .contains("next: milepost --store elsewhere resume t"),
        "{}",
        shown.out
    );
    let words = ["--store=-dash", "run", "count", "--thread=-t"];
    let limited = desk
        .run(&[&words[..], &["--step-limit", "1"]].concat())
        .exits(4);
    let next = "next: milepost --store=-dash resume -- -t";
    assert!(limited.out.contains(next), "{}", limited.out);
    let wrong = desk
        .run(&["--store=-dash", "show", "--at", "9", "--", "-t"])
        .exits(2);
    let next = "next: milepost --store=-dash history -- -t";
    assert!(wrong.err.contains(next), "{}", wrong.err);
}

#[test]
fn a_reader_that_goes_away_ends_the_output_quietly() {
    let desk = Desk::new();
    desk.run(&["run", "count", "--to", "300", "--thread", "t"])
        .exits(0);
    for words in [&["events", "t"][..], &["history", "t", "--json"]] {
        let mut child = desk.start(words);
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        drop(reader);
        let mut err = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut err)
            .unwrap();
        assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
    }
    let mut run = desk
        .command(&["run", "count", "--to", "100000", "--thread", "u"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(run.stdout.take());
    assert_eq!(run.wait().unwrap().code(), Some(6), "the run has stopped");
}
