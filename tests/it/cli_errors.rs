//! What cannot be done is said: what happened, where, and what to do next.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::Value;

use crate::cli_bin::{Desk, Ran, bakery};

/// The refusal says all of this, and what to do next.
fn says(ran: &Ran, parts: &[&str]) {
    for part in parts {
        assert!(ran.err.contains(part), "no {part:?} in {}", ran.err);
    }
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    let desk = Desk::new();
    let no_graph = desk.run(&["run", "nosuch"]).exits(2);
    says(
        &no_graph,
        &["\"nosuch\"", "count, research", "next: milepost graphs"],
    );
    says(&desk.run(&["run"]).exits(2), &["count, research"]);
    says(&desk.run(&["dot", "nosuch"]).exits(2), &["count, research"]);
    let early = desk.run(&["show", "t"]).exits(2);
    says(&early, &["no store at mileposts", "next: milepost run"]);
    desk.run(&["run", "count", "--thread", "a"]).exits(0);
    for command in ["show", "history", "events", "prune", "delete", "resume"] {
        let ran = desk.run(&[command, "nosuch"]).exits(2);
        says(
            &ran,
            &[
                "no thread nosuch",
                "the store has a",
                "next: milepost threads",
            ],
        );
    }
    let node = desk
        .run(&["run", "count", "--crash-after", "nosuch"])
        .exits(2);
    says(&node, &["no node \"nosuch\"", "tick"]);
    let demo = desk.run(&["demo", "nosuch"]).exits(2);
    says(&demo, &["count, research"]);
}

#[test]
fn words_that_make_no_sense_are_refused() {
    let desk = Desk::new();
    for words in [
        &["nosuch"][..],
        &["run", "count", "--to", "many"],
        &["run", "count", "--thread", ""],
        &["run", "count", "--thread", &"x".repeat(300)],
        &["run", "count", "--deadline", "soon"],
        &["run", "count", "--step-limit", "0"],
        &["run", "count", "--concurrency", "0"],
        &["run", "research"],
        &["show"],
        &["resume", "a", "--all"],
        &["dot", "count", "--format", "png"],
    ] {
        let ran = desk.run(words).exits(2);
        says(&ran, &["next: milepost"]);
    }
    assert!(fs::read_dir(desk.path("")).unwrap().next().is_none());
    assert!(desk.run(&["--help"]).exits(0).out.contains("Exit codes"));
    assert!(desk.run(&["--version"]).exits(0).out.contains("milepost"));
}

#[test]
fn a_refusal_for_machines_is_one_value() {
    let desk = Desk::new();
    for words in [&["--json", "run", "nosuch"][..], &["show", "--json"]] {
        let ran = desk.run(words).exits(2);
        let value: Value = serde_json::from_str(&ran.err).unwrap();
        assert_eq!(value["error"]["exit"], 2);
        assert!(value["error"]["next"].is_string());
        assert_eq!(ran.out, "");
    }
}

#[test]
fn documents_that_are_not_there_are_refused_before_anything_is_stored() {
    let desk = Desk::new();
    fs::write(desk.path("file"), "x").unwrap();
    for docs in ["nosuch", "file"] {
        let ran = desk
            .run(&["run", "research", "--question", "x", "--docs", docs])
            .exits(2);
        says(&ran, &[docs]);
    }
    assert!(!desk.path("mileposts").exists());
    fs::create_dir(desk.path("empty")).unwrap();
    let words = [
        "run",
        "research",
        "--question",
        "x",
        "--docs",
        "empty",
        "--thread",
        "t",
    ];
    let ran = desk.run(&words).exits(1);
    says(
        &ran,
        &[
            "no document could be read",
            "\"planner\"",
            "next: milepost resume t",
        ],
    );
    let out = [
        "run",
        "research",
        "--question",
        "flour",
        "--docs",
        &bakery(),
        "--out",
        "no/x.md",
    ];
    let ran = desk.run(&out).exits(2);
    says(&ran, &["no/x.md cannot be written", "no is no folder"]);
}

#[test]
fn a_failed_run_is_put_right_and_goes_on() {
    let desk = Desk::new();
    fs::write(desk.path("block"), "").unwrap();
    let words = ["run", "count", "--blocked-by", "block", "--thread", "t"];
    let failed = desk.run(&words).exits(1);
    says(&failed, &["block is in the way", "next: milepost resume t"]);
    let shown = desk.run(&["show", "t"]).exits(0).out;
    assert!(
        shown.contains("error") && shown.contains("in the way"),
        "{shown}"
    );
    let second = desk.run(&["run", "count", "--thread", "t"]).exits(2);
    says(&second, &["failed", "milepost resume t", "--abandon"]);
    let other = [
        "run",
        "research",
        "--question",
        "flour",
        "--docs",
        &bakery(),
        "--thread",
        "t",
    ];
    says(&desk.run(&other).exits(2), &["belongs to graph \"count\""]);
    desk.run(&["resume", "t"]).exits(1);
    fs::remove_file(desk.path("block")).unwrap();
    desk.run(&["resume", "t"]).exits(0);
    fs::write(desk.path("block"), "").unwrap();
    desk.run(&words).exits(1);
    // What is not given stays as it is.
    let anew = [
        "run",
        "count",
        "--thread",
        "t",
        "--abandon",
        "--blocked-by",
        "null",
    ];
    desk.run(&anew).exits(0);
}

#[test]
fn a_place_that_is_no_store_is_refused_and_left_alone() {
    let desk = Desk::new();
    fs::write(desk.path("file"), "x").unwrap();
    says(
        &desk.run(&["run", "count", "--store", "file"]).exits(2),
        &["file", "--store"],
    );
    fs::create_dir(desk.path("mine")).unwrap();
    fs::write(desk.path("mine/letter.txt"), "x").unwrap();
    let ran = desk.run(&["run", "count", "--store", "mine"]).exits(2);
    says(&ran, &["mine", "no store"]);
    assert_eq!(fs::read_dir(desk.path("mine")).unwrap().count(), 1);
    let deep = desk
        .run(&["run", "count", "--store", "no/such/folder"])
        .exits(2);
    says(&deep, &["no/such/folder", "--store"]);
    if Path::new("/proc").is_dir() {
        // Not even root may write there.
        let ran = desk
            .run(&["run", "count", "--store", "/proc/mileposts"])
            .exits(2);
        says(&ran, &["/proc/mileposts"]);
    }
}

#[test]
fn a_damaged_store_is_reported_and_not_touched() {
    let whole = |desk: &Desk| fs::read(desk.path("mileposts/db")).unwrap();
    type Damage = fn(Vec<u8>) -> Vec<u8>;
    let damages: [(&str, Damage); 4] = [
        ("emptied", |_| Vec::new()),
        ("cut off", |mut data| {
            data.truncate(data.len() / 2);
            data
        }),
        ("zeroed", |data| vec![0; data.len()]),
        ("scribbled over", |data| {
            (0..data.len()).map(|at| (at * 31) as u8).collect()
        }),
    ];
    for (name, damage) in damages {
        let desk = Desk::new();
        desk.run(&["run", "count", "--thread", "t"]).exits(0);
        let data = damage(whole(&desk));
        fs::write(desk.path("mileposts/db"), &data).unwrap();
        for words in [&["show", "t"][..], &["threads"], &["run", "count"]] {
            let ran = desk.run(words).exits(8);
            says(&ran, &["mileposts", "damaged", "next:"]);
        }
        let left = whole(&desk);
        // sled itself mends what it takes for the end of its log; an empty file it never sees.
        assert!(name != "emptied" || left == data, "{name} was changed");
    }
}

#[test]
fn a_locked_store_names_its_path_and_its_holder() {
    let desk = Desk::new();
    let words = [
        "run", "count", "--to", "1000", "--pace", "50ms", "--thread", "t",
    ];
    let mut holder = desk.start(&words);
    let mut line = String::new();
    let mut reader = BufReader::new(holder.stdout.take().unwrap());
    reader.read_line(&mut line).unwrap();
    let ran = desk.run(&["delete", "t"]).exits(7);
    says(
        &ran,
        &["mileposts", &format!("process {}", holder.id()), "next:"],
    );
    holder.kill().unwrap();
    holder.wait().unwrap();
    desk.run(&["show", "t"]).exits(0);
}
