//! Whatever ends the process, nothing that had finished is lost or done twice.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Command;

use crate::cli_bin::{Desk, bakery};

const NODES: [&str; 7] = [
    "planner", "discover", "analyse", "coverage", "report", "check", "save",
];
const QUERY: &str = "How hot are ovens, how long does flour keep, and when does the shop open?";

fn start(docs: &str) -> Vec<&str> {
    vec![
        "run",
        "research",
        "--question",
        QUERY,
        "--docs",
        docs,
        "--out",
        "report.md",
        "--thread",
        "t",
        "--tally",
        "tally",
    ]
}

#[test]
fn a_run_that_crashes_after_any_node_is_resumed_without_repeating_a_finished_one() {
    let docs = bakery();
    let calm = Desk::new();
    calm.run(&start(&docs)).exits(0);
    let state = |desk: &Desk| desk.run(&["show", "t", "--json"]).exits(0).value()["state"].clone();
    let report = |desk: &Desk| fs::read_to_string(desk.path("report.md")).unwrap();
    let finished = |desk: &Desk| -> Vec<String> {
        let events = desk.run(&["events", "t", "--json"]).exits(0).values();
        let done = events
            .iter()
            .filter(|event| event["type"] == "task_finished");
        done.map(|event| event["task"]["path"].as_str().unwrap().to_owned())
            .collect()
    };
    for node in NODES {
        let desk = Desk::new();
        let words = [
            start(&docs),
            vec!["--crash-after", node, "--concurrency", "1"],
        ]
        .concat();
        let crashed = desk.run(&words);
        assert_eq!(crashed.code, None, "ended by a signal: {}", crashed.err);
        let shown = desk.run(&["show", "t"]).exits(0).out;
        let threads = desk.run(&["threads"]).exits(0).out;
        // What closes the last superstep finishes the thread with it.
        let is_open = node != "save";
        for part in [": no process works on it", "next: milepost resume t\n"] {
            assert_eq!(shown.contains(part), is_open, "{part:?} in {shown}");
        }
        assert_eq!(
            threads.contains(", its process has died"),
            is_open,
            "{threads}"
        );
        let before = finished(&desk);
        assert!(before.iter().any(|task| task.contains(node)), "{before:?}");
        let ran = desk.tally();
        desk.run(&["resume", "t", "--tally", "tally"]).exits(0);
        let after = desk.tally();
        let times = |tally: &[String], task: &str| tally.iter().filter(|t| *t == task).count();
        for task in &before {
            assert_eq!(times(&after, task), times(&ran, task), "{task} ran again");
        }
        let all = finished(&desk);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert_eq!(state(&desk), state(&calm));
        assert_eq!(report(&desk), report(&calm));
    }
}

#[cfg(unix)]
#[test]
fn one_ctrl_c_stops_at_a_boundary_and_says_how_to_go_on() {
    let desk = Desk::new();
    let words = [
        "run", "count", "--to", "40", "--pace", "50ms", "--thread", "t",
    ];
    for signal in ["INT", "TERM"] {
        let words = match signal {
            "INT" => &words[..],
            _ => &["resume", "t", "--pace", "50ms"],
        };
        let mut child = desk.start(words);
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        until(&mut reader, "→ tick");
        until(&mut reader, "→ tick");
        send(signal, child.id());
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(6), "{rest}");
        assert!(rest.contains("next: milepost resume t"), "{rest}");
        let shown = desk.run(&["show", "t", "--json"]).exits(0).value();
        assert_eq!(shown["status"], "cancelled");
    }
    let done = desk.run(&["--json", "resume", "t"]).exits(0).values();
    assert_eq!(done.last().unwrap()["state"]["n"], 40);
}

#[cfg(unix)]
#[test]
fn a_second_ctrl_c_stops_at_once_and_loses_nothing_that_was_told() {
    let desk = Desk::new();
    let words = ["run", "count", "--to", "3", "--thread", "t"];
    desk.run(&[&words[..], &["--step-limit", "1"]].concat())
        .exits(4);
    // The node that is running now would take an hour.
    let mut child = desk.start(&["--json", "resume", "t", "--pace", "1h"]);
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    until(&mut reader, "task_started");
    let mut err = BufReader::new(child.stderr.take().unwrap());
    send("INT", child.id());
    until(&mut err, "once more");
    send("INT", child.id());
    until(&mut err, "next: milepost resume t");
    assert_eq!(child.wait().unwrap().code(), Some(6));
    let done = desk.run(&["--json", "resume", "t"]).exits(0).values();
    assert_eq!(done.last().unwrap()["state"]["n"], 3);
}

#[test]
fn the_demo_holds_for_each_node_as_the_kill_point() {
    for (seed, node) in NODES.iter().enumerate() {
        let desk = Desk::new();
        let seed = seed.to_string();
        let words = [
            "demo",
            "--json",
            "--docs",
            &bakery(),
            "--dir",
            "work",
            "--kill-at",
            node,
            "--seed",
            &seed,
        ];
        let value = desk.run(&words).exits(0).value();
        assert!(
            value["killed_at"].as_str().unwrap().contains(node),
            "{value}"
        );
        assert_eq!(value["ran_again"], serde_json::json!([]));
        let checks = value["checks"].as_array().unwrap();
        assert!(checks.iter().all(|check| check["holds"] == true), "{value}");
        assert!(desk.path("work/killed/report.md").exists());
        assert!(desk.path("work/research.dot").exists());
    }
}

#[test]
fn the_demo_says_what_it_needs() {
    let desk = Desk::new();
    let ran = desk.run(&["demo"]).exits(2);
    assert!(ran.err.contains("--docs"), "{}", ran.err);
    let docs = bakery();
    let node = ["demo", "--docs", &docs, "--dir", "w", "--kill-at", "review"];
    let ran = desk.run(&node).exits(2);
    assert!(ran.err.contains("planner"), "{}", ran.err);
    fs::write(desk.path("w/mine"), "x").unwrap();
    let ran = desk.run(&["demo", "--docs", &docs, "--dir", "w"]).exits(2);
    assert!(ran.err.contains("not empty"), "{}", ran.err);
}

/// Reads lines until one has these words.
fn until(reader: &mut impl BufRead, words: &str) {
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "no {words:?}");
    }
}

/// Sends a signal by the system's own program: this crate has no unsafe code to do it with.
fn send(signal: &str, pid: u32) {
    let flag = format!("-{signal}");
    let sent = Command::new("kill")
        .args([&flag, &pid.to_string()])
        .status();
    assert!(sent.unwrap().success());
}
