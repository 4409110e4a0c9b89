//! `compact`: what is asked for stays and can be read, the rest goes, and a rewrite is whole or not there.

use std::fs;
use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use crate::cli_bin::{Desk, Ran};

fn counted(desk: &Desk, thread: &str, to: &str) {
    let words = ["run", "count", "--to", to, "--thread", thread];
    desk.run(&words).exits(0);
}

fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

fn records(ran: &Ran, thread: &str) -> u64 {
    let values = ran.values();
    let one = values.iter().find(|value| value["thread"] == thread);
    one.unwrap()["records"].as_u64().unwrap()
}

fn state(desk: &Desk, store: &str, thread: &str) -> Value {
    let shown = desk.run(&["--store", store, "show", thread, "--json"]);
    shown.exits(0).value()["state"].clone()
}

#[test]
fn every_thread_gives_back_what_was_not_asked_for() {
    let desk = Desk::new();
    counted(&desk, "long", "150");
    counted(&desk, "a b", "150");
    counted(&desk, "short", "2");
    let before = desk.run(&["threads", "--sizes", "--json"]).exits(0);
    let whole = records(&before, "long");
    let dry = desk.run(&["compact", "--keep", "3", "--dry-run"]).exits(0);
    says(
        &dry.out,
        &["thread a b: ", "would be given back", "3 threads: "],
    );
    says(&dry.out, &["thread short: every one of its"]);
    let unchanged = desk.run(&["threads", "--sizes", "--json"]).exits(0);
    assert_eq!(unchanged.out, before.out, "a dry run changes nothing");

    let told = desk.run(&["compact", "--keep", "3", "--json"]).exits(0);
    let values = told.values();
    let dropped: Vec<_> = values
        .iter()
        .map(|one| one["dropped"].as_u64().unwrap())
        .collect();
    let [first, second, 0, all] = dropped[..] else {
        panic!("{values:#?}");
    };
    assert_eq!((first, first + second), (second, all));
    assert_eq!(values[3]["type"], "summary");
    assert!(values[1]["bytes"].as_u64().unwrap() > 0);
    let after = desk.run(&["threads", "--sizes", "--json"]).exits(0);
    assert_eq!(records(&after, "long"), whole - first);
    assert_eq!(state(&desk, "mileposts", "long")["n"], 150);
    let history = desk.run(&["history", "long", "--json"]).exits(0).values();
    let newest = &history[history.len() - 3..];
    for at in newest {
        let seq = at["seq"].to_string();
        desk.run(&["show", "long", "--at", &seq]).exits(0);
    }
    desk.run(&["doctor"]).exits(0);
    // Nothing is left to give back, and nobody has asked for more.
    says(
        &desk.run(&["compact", "--keep", "3"]).exits(0).out,
        &["3 threads: 0 records"],
    );
    says(
        &desk.run(&["compact"]).exits(0).out,
        &["0 records", "next: say which checkpoints stay: --keep 10"],
    );
}

#[test]
fn one_thread_keeps_a_checkpoint_that_is_named() {
    let desk = Desk::new();
    counted(&desk, "t", "150");
    counted(&desk, "other", "150");
    let before = desk.run(&["threads", "--sizes", "--json"]).exits(0);
    let old = desk.run(&["history", "t", "--json"]).exits(0).values()[80]["seq"].to_string();
    let words = ["compact", "t", "--older-than", "30d", "--also", &old];
    let told = desk.run(&words).exits(0).out;
    says(&told, &["thread t: every one of its"]);
    let words = ["compact", "t", "--older-than", "0s", "--also", &old];
    let told = desk.run(&words).exits(0).out;
    says(
        &told,
        &["thread t: ", "are given back", "compact --rewrite NEW"],
    );
    desk.run(&["show", "t", "--at", &old]).exits(0);
    desk.run(&["show", "t", "--at", "2"]).exits(2);
    let after = desk.run(&["threads", "--sizes", "--json"]).exits(0);
    assert_eq!(records(&after, "other"), records(&before, "other"));
    for words in [
        &["compact", "--also", "4"][..],
        &["compact", "--keep", "0"],
        &["compact", "--older-than", "soon"],
        &["compact", "nosuch"],
        &["compact", "t", "--rewrite", "new"],
        &["compact", "--dry-run", "--rewrite", "new"],
    ] {
        says(&desk.run(words).exits(2).err, &["next:"]);
    }
}

#[test]
fn a_rewrite_is_a_store_of_its_own_with_every_thread() {
    let desk = Desk::new();
    for thread in ["a", "b c", "d"] {
        counted(&desk, thread, "150");
    }
    let all = desk.run(&["export", "--all"]).exits(0).out;
    let told = desk.run(&["compact", "--rewrite", "new"]).exits(0).out;
    says(
        &told,
        &[
            "3 threads are in new",
            "bytes on disk",
            "--store new doctor",
        ],
    );
    let there = desk.run(&["--store", "new", "export", "--all"]).exits(0);
    assert_eq!(there.out, all);
    assert!(!desk.path("new.unfinished").exists());
    desk.run(&["--store", "new", "doctor"]).exits(0);
    // With a policy, what is not to stay is never written.
    let words = ["compact", "--keep", "1", "--rewrite", "small", "--json"];
    let values = desk.run(&words).exits(0).values();
    let value = values.last().unwrap();
    assert_eq!(
        (&value["type"], &value["threads"]),
        (&json!("rewritten"), &json!(3))
    );
    assert_eq!(
        state(&desk, "small", "b c"),
        state(&desk, "mileposts", "b c")
    );
    let small = desk
        .run(&["--store", "small", "threads", "--sizes", "--json"])
        .exits(0);
    let old = desk.run(&["threads", "--sizes", "--json"]).exits(0);
    assert!(records(&small, "a") < records(&old, "a"));
    assert_eq!(
        desk.run(&["export", "--all"]).exits(0).out,
        all,
        "it was only read"
    );
    // It can be run on.
    let words = [
        "--store", "small", "run", "count", "--to", "3", "--thread", "a",
    ];
    desk.run(&words).exits(0);
}

#[test]
fn a_rewrite_takes_no_folder_that_is_not_its_own() {
    let desk = Desk::new();
    counted(&desk, "a", "3");
    fs::create_dir(desk.path("there")).unwrap();
    fs::create_dir(desk.path("full.unfinished")).unwrap();
    fs::write(desk.path("full.unfinished/letter"), "dear").unwrap();
    fs::create_dir(desk.path("other.unfinished")).unwrap();
    fs::write(desk.path("other.unfinished/of"), "/another/store").unwrap();
    for (to, why) in [
        ("there", "is there already"),
        ("mileposts", "is there already"),
        ("mileposts/new", "lies in the store"),
        ("full", "is no rewrite"),
        ("other", "an unfinished rewrite of /another/store"),
        ("no/such/new", "cannot be read"),
    ] {
        says(
            &desk.run(&["compact", "--rewrite", to]).exits(2).err,
            &[why, "next:"],
        );
    }
    assert_eq!(
        fs::read_to_string(desk.path("full.unfinished/letter")).unwrap(),
        "dear"
    );
    let memory = ["--store", "memory", "compact", "--rewrite", "new"];
    says(&desk.run(&memory).exits(2).err, &["a store in memory"]);
}

/// What an earlier try has left is gone on with, and follows the old store.
#[test]
fn a_rewrite_that_was_cut_short_is_gone_on_with() {
    let desk = Desk::new();
    for thread in ["a", "b", "c"] {
        counted(&desk, thread, "20");
    }
    let old = desk.path("mileposts").canonicalize().unwrap();
    fs::create_dir(desk.path("new.unfinished")).unwrap();
    // It was killed before its mark was whole.
    fs::write(desk.path("new.unfinished/of.new"), "/ha").unwrap();
    desk.run(&["compact", "--rewrite", "new"]).exits(0);
    fs::create_dir(desk.path("late.unfinished")).unwrap();
    fs::rename(desk.path("new"), desk.path("late.unfinished/store")).unwrap();
    fs::write(desk.path("late.unfinished/of"), old.to_str().unwrap()).unwrap();
    // Since then, one has gone on, one is gone, one is new.
    counted(&desk, "a", "3");
    desk.run(&["delete", "b"]).exits(0);
    counted(&desk, "d", "3");
    let words = ["compact", "--rewrite", "late", "--json"];
    let values = desk.run(&words).exits(0).values();
    let value = values.last().unwrap();
    assert_eq!(
        (&value["threads"], &value["from_an_earlier_try"]),
        (&json!(3), &json!(1))
    );
    let all = desk.run(&["export", "--all"]).exits(0).out;
    assert_eq!(
        desk.run(&["--store", "late", "export", "--all"])
            .exits(0)
            .out,
        all
    );
    assert!(!desk.path("late.unfinished").exists());
}

#[test]
fn a_rewrite_that_is_killed_at_any_thread_is_gone_on_with() {
    let desk = Desk::new();
    for thread in 0..6 {
        counted(&desk, &format!("t{thread}"), "100");
    }
    let all = desk.run(&["export", "--all"]).exits(0).out;
    for threads in 0..6 {
        let mut child = desk.start(&["compact", "--rewrite", "new"]);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.take(threads).count(), threads);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(desk.run(&["export", "--all"]).exits(0).out, all);
        if desk.path("new").exists() {
            // It was quicker than the kill.
            break;
        }
    }
    if !desk.path("new").exists() {
        desk.run(&["compact", "--rewrite", "new"]).exits(0);
    }
    let there = desk.run(&["--store", "new", "export", "--all"]).exits(0);
    assert_eq!(there.out, all);
    desk.run(&["--store", "new", "doctor"]).exits(0);
}
