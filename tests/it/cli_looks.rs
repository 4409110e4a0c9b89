//! Looking at graphs, threads and checkpoints from the command line.

use serde_json::json;

use crate::cli_bin::Desk;

/// The text says all of this.
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
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
