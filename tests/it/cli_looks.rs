//! Looking at graphs, threads and checkpoints from the command line.

use serde_json::json;

use crate::cli_bin::{Desk, Ran};

/// The text says all of this.
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

fn counted(desk: &Desk, thread: &str, more: &[&str]) -> Ran {
    desk.run(&[&["run", "count", "--thread", thread], more].concat())
}

#[test]
fn a_graph_is_shown_with_its_exits_policies_and_fields() {
    let desk = Desk::new();
    let shown = desk.run(&["graphs", "show", "count"]).exits(0).out;
    says(
        &shown,
        &[
            "graph count",
            "tick   function",
            "Again  → tick",
            "Enough → end",
        ],
    );
    says(
        &shown,
        &["fields of ", "n           u64             replace"],
    );
    let value = desk.run(&["graphs", "show", "count", "--json"]);
    let value = value.exits(0).value();
    assert_eq!(value["edges"][0]["from"], json!(null));
    assert_eq!(value["edges"][1]["label"], "Again");
    assert_eq!(value["nodes"][0]["policy"]["retry"], json!(null));
    let research = desk.run(&["graphs", "show", "research"]).exits(0).out;
    says(&research, &["worker of ", ", each ", "planner"]);
    let wrong = desk.run(&["graphs", "show", "nosuch"]).exits(2);
    says(&wrong.err, &["count, research", "next: milepost graphs"]);
    assert!(!desk.path("mileposts").exists(), "no store is made to look");
}

#[test]
fn threads_are_chosen_by_status_graph_and_age_and_weighed() {
    let desk = Desk::new();
    counted(&desk, "b", &[]).exits(0);
    counted(&desk, "a", &["--step-limit", "1"]).exits(4);
    counted(&desk, "c", &["--to", "300"]).exits(0);
    let names = |words: &[&str]| -> Vec<String> {
        let listed = desk.run(&[&["threads", "--json"], words].concat());
        let values = listed.exits(0).values();
        let name = |value: &serde_json::Value| value["thread"].as_str().unwrap().to_owned();
        values.iter().map(name).collect()
    };
    assert_eq!(names(&[]), ["a", "b", "c"]);
    assert_eq!(names(&["--status", "finished"]), ["b", "c"]);
    assert_eq!(names(&["--status", "limited,failed"]), ["a"]);
    assert_eq!(names(&["--graph", "count"]), ["a", "b", "c"]);
    assert_eq!(names(&["--graph", "research"]), [""; 0]);
    assert_eq!(names(&["--older-than", "1h"]), [""; 0]);
    assert_eq!(names(&["--older-than", "0ms"]), ["a", "b", "c"]);
    let none = desk.run(&["threads", "--older-than", "1h"]).exits(0).out;
    says(&none, &["None of the 3 threads"]);
    let sized = desk
        .run(&["threads", "--sizes", "--json"])
        .exits(0)
        .values();
    let records: Vec<_> = sized
        .iter()
        .map(|value| value["records"].as_u64())
        .collect();
    let bytes: Vec<_> = sized.iter().map(|value| value["bytes"].as_u64()).collect();
    assert!(
        records[0] < records[1] && records[1] < records[2],
        "{records:?}"
    );
    assert!(bytes[0] > Some(0) && bytes[0] < bytes[1] && bytes[1] < bytes[2]);
    assert!(records[2] > Some(300), "{records:?}");
    let text = desk.run(&["threads", "--sizes"]).exits(0).out;
    says(&text, &[" records, ", " bytes of values"]);
    let wrong = desk.run(&["threads", "--status", "done"]).exits(2);
    says(&wrong.err, &["running, paused", "next: milepost"]);
}
