//! Stores of both engines, as the commands meet them.

use std::fs;

use crate::cli_bin::{Desk, Ran};

fn says(ran: &Ran, parts: &[&str]) {
    for part in parts {
        assert!(ran.err.contains(part), "no {part:?} in {}", ran.err);
    }
}

#[test]
fn a_new_store_is_made_as_asked_and_then_opened_as_it_is() {
    let desk = Desk::new();
    let words = ["run", "count", "--to", "4", "--thread", "a"];
    desk.run(&[&["--engine", "fjall", "--step-limit", "2"], &words[..]].concat())
        .exits(4);
    assert!(desk.path("mileposts/fjall").is_dir());
    // From here on its folder tells.
    desk.run(&["resume", "a"]).exits(0);
    for look in ["threads", "doctor"] {
        desk.run(&[look]).exits(0);
    }
    for look in ["show", "history", "events"] {
        desk.run(&[look, "a"]).exits(0);
    }
    desk.run(&["copy", "a", "b"]).exits(0);
    desk.run(&["prune", "b"]).exits(0);
    desk.run(&["delete", "b"]).exits(0);
    assert!(!desk.path("mileposts/db").exists());
}

#[test]
fn the_environment_names_the_engine_of_new_stores_alone() {
    let desk = Desk::new();
    let run = |store: &str| {
        let words = ["--store", store, "run", "count", "--to", "2"];
        let mut command = desk.command(&words);
        command.env("MILEPOST_ENGINE", "fjall");
        Ran::from(command.output().unwrap())
    };
    let words = ["--store", "old", "run", "count", "--to", "2"];
    desk.run(&words).exits(0);
    run("old").exits(0);
    run("new").exits(0);
    assert!(desk.path("old/db").exists() && desk.path("new/fjall").exists());
    let mut command = desk.command(&["--store", "third", "run", "count", "--to", "2"]);
    command.env("MILEPOST_ENGINE", "rocks");
    let told = Ran::from(command.output().unwrap()).exits(2);
    says(&told, &["MILEPOST_ENGINE", "rocks", "sled or fjall"]);
    assert!(!desk.path("third").exists());
}

#[test]
fn a_store_of_one_engine_is_not_opened_by_the_other() {
    let desk = Desk::new();
    desk.run(&["run", "count", "--to", "2"]).exits(0);
    for words in [&["run", "count", "--to", "2"][..], &["threads"]] {
        let told = desk.run(&[&["--engine", "fjall"], words].concat()).exits(2);
        says(
            &told,
            &["mileposts is kept by sled, not by fjall", "export"],
        );
    }
    desk.run(&["--engine", "sled", "threads"]).exits(0);
    let told = desk.run(&["--engine", "rocks", "threads"]).exits(2);
    says(&told, &["sled or fjall is expected"]);
}

#[test]
fn threads_move_between_engines_and_stay_the_same() {
    let desk = Desk::new();
    let words = ["run", "count", "--to", "30", "--thread", "a"];
    desk.run(&words).exits(0);
    let words = ["run", "count", "--to", "30", "--thread", "b c"];
    desk.run(&[&words[..], &["--step-limit", "7"]].concat())
        .exits(4);
    let out = desk.run(&["export", "--all"]).exits(0).out;
    fs::write(desk.path("all.jsonl"), &out).unwrap();
    for (store, engine) in [("there", "fjall"), ("back", "sled")] {
        let words = ["--store", store, "--engine", engine, "import", "all.jsonl"];
        desk.run(&words).exits(0);
        let again = desk.run(&["--store", store, "export", "--all"]).exits(0);
        assert!(again.out == out, "{store}");
        fs::write(desk.path("all.jsonl"), again.out).unwrap();
        desk.run(&["--store", store, "doctor"]).exits(0);
    }
    let whole = desk.run(&["--store", "there", "resume", "b c"]).exits(0);
    let other = desk.run(&["--store", "back", "resume", "b c"]).exits(0);
    assert_eq!(whole.out, other.out);
}
