//! Looking at graphs, threads and checkpoints from the command line.

use std::io::{BufRead, BufReader};

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

#[test]
fn a_thread_is_copied_with_its_history_and_both_go_on_alone() {
    let desk = Desk::new();
    counted(&desk, "t", &["--step-limit", "1"]).exits(4);
    let told = desk.run(&["copy", "t", "my copy"]).exits(0).out;
    says(
        &told,
        &[
            "copied to my copy",
            "superstep 1",
            "next: milepost show 'my copy'",
        ],
    );
    desk.run(&["resume", "my copy"]).exits(0);
    let shown = |thread: &str| desk.run(&["show", thread, "--json"]).exits(0).value();
    assert_eq!(shown("my copy")["status"], "finished");
    assert_eq!(shown("t")["status"], "limited");
    let history = desk.run(&["history", "my copy", "--json"]).exits(0);
    assert_eq!(history.values().len(), 4);
    let taken = desk.run(&["copy", "t", "my copy"]).exits(2);
    says(&taken.err, &["my copy exists already", "next:"]);
    let missing = desk.run(&["copy", "nosuch", "x"]).exits(2);
    says(
        &missing.err,
        &["no thread nosuch", "next: milepost threads"],
    );
}

#[test]
fn a_pruned_thread_stands_where_it_stood_and_says_what_is_gone() {
    let desk = Desk::new();
    counted(&desk, "t", &["--to", "150"]).exits(0);
    let before = desk.run(&["show", "t", "--json"]).exits(0).value();
    let told = desk.run(&["prune", "t"]).exits(0).out;
    says(&told, &["records are dropped", "oldest checkpoint is now "]);
    let after = desk.run(&["show", "t", "--json"]).exits(0).value();
    assert_eq!(
        (&after["state"], &after["seq"]),
        (&before["state"], &before["seq"])
    );
    let again = desk.run(&["prune", "t", "--json"]).exits(0).value();
    assert_eq!(again["dropped"], 0);
    let oldest = again["oldest"].as_u64().unwrap();
    let history = desk.run(&["history", "t", "--json"]).exits(0).values();
    assert!(history.iter().any(|at| at["seq"] == oldest));
    says(
        &desk.run(&["dot", "--run", "t"]).exits(0).out,
        &["older supersteps are pruned and not counted"],
    );
    counted(&desk, "short", &[]).exits(0);
    says(&desk.run(&["prune", "short"]).exits(0).out, &["as it was"]);
}

#[test]
fn a_thread_of_a_store_in_use_is_neither_copied_nor_pruned() {
    let desk = Desk::new();
    let mut holder = desk.start(&[
        "run", "count", "--to", "1000", "--pace", "50ms", "--thread", "t",
    ]);
    let mut line = String::new();
    let mut reader = BufReader::new(holder.stdout.take().unwrap());
    reader.read_line(&mut line).unwrap();
    for words in [&["copy", "t", "u"][..], &["prune", "t"]] {
        says(&desk.run(words).exits(7).err, &["mileposts", "next:"]);
    }
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn two_checkpoints_are_compared_field_by_field() {
    let desk = Desk::new();
    counted(&desk, "t", &["--to", "3"]).exits(0);
    let history = desk.run(&["history", "t", "--json"]).exits(0).values();
    let seqs: Vec<_> = history.iter().map(|at| at["seq"].to_string()).collect();
    let text = desk.run(&["diff", "t", &seqs[0], &seqs[3]]).exits(0).out;
    says(&text, &["thread t, checkpoint", "  n: 0 → 3"]);
    assert_eq!(
        text.lines().count(),
        2,
        "only what differs is shown: {text}"
    );
    let back = ["diff", "t", &seqs[3], &seqs[1], "--json"];
    let value = desk.run(&back).exits(0).value();
    assert_eq!(value["fields"], json!({"n": {"before": 3, "after": 1}}));
    let same = desk.run(&["diff", "t", &seqs[2], &seqs[2]]).exits(0).out;
    says(&same, &["no field differs"]);
    let wrong = desk.run(&["diff", "t", &seqs[0], "999"]).exits(2);
    says(
        &wrong.err,
        &[
            "no checkpoint 999",
            &seqs.join(", "),
            "next: milepost history t",
        ],
    );
    let missing = desk.run(&["diff", "nosuch", "1", "2"]).exits(2);
    says(&missing.err, &["no thread nosuch"]);
}

#[test]
fn a_shell_can_complete_commands_graphs_and_flags() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = desk.run(&["completions", shell]).exits(0).out;
        says(&text, &["milepost", "history", "research", "blocked-by"]);
    }
    let value = desk
        .run(&["completions", "fish", "--json"])
        .exits(0)
        .value();
    assert_eq!(value["shell"], "fish");
    let wrong = desk.run(&["completions", "dos"]).exits(2);
    says(&wrong.err, &["bash", "next: milepost"]);
    assert!(!desk.path("mileposts").exists(), "no store is made to look");
}
