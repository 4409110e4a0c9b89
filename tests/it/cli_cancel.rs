//! A run is cancelled and drained from another process; a worker that is asked to end gives back what
//! it holds.

use std::io::{BufRead, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command as Program};
use std::sync::Arc;

use milepost::ThreadId;
use milepost::store::{CheckpointStore, SledStore, Take, Window};
use serde_json::Value;

use crate::cli_bin::Desk;

/// Reads lines until one has these words.
fn until(out: &mut BufReader<ChildStdout>, words: &str) {
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "no {words:?}");
    }
}

/// A program that runs, with what it says.
fn running(desk: &Desk, words: &[&str], sign: &str) -> (Child, BufReader<ChildStdout>) {
    let mut child = desk.start(words);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    until(&mut out, sign);
    (child, out)
}

/// Waits for its end: the exit code, and what it said meanwhile.
fn ended((mut child, mut out): (Child, BufReader<ChildStdout>)) -> (Option<i32>, String) {
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    (child.wait().unwrap().code(), rest)
}

fn send(signal: &str, child: &Child) {
    let words = [format!("-{signal}"), child.id().to_string()];
    assert!(Program::new("kill").args(words).status().unwrap().success());
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

const COUNT: [&str; 8] = [
    "run", "count", "--to", "300", "--thread", "t", "--pace", "20ms",
];

#[test]
fn a_run_of_another_process_is_cancelled_with_a_reason() {
    let desk = Desk::new();
    let run = running(&desk, &COUNT, "→ tick");
    let words = ["cancel", "t", "--reason", "wrong number", "--wait"];
    let told = desk.run(&words).exits(0).out;
    has(&told, &["thread t is cancelled", "next: milepost resume t"]);
    let (code, rest) = ended(run);
    assert_eq!(code, Some(6), "{rest}");
    has(&rest, &["cancelled"]);
    let shown = desk.run(&["show", "t"]).exits(0).out;
    has(&shown, &["status  cancelled", "reason  wrong number"]);
    let events = desk.run(&["events", "t"]).exits(0).out;
    has(&events, &["wrong number"]);
    let told = desk.run(&["resume", "t"]).exits(0).out;
    has(&told, &["finished"]);
    let told = desk.run(&["cancel", "t"]).exits(0).out;
    has(&told, &["is finished: there is nothing to stop"]);
}

#[test]
fn a_run_of_another_process_is_drained_and_goes_on() {
    let desk = Desk::new();
    let words = [&COUNT[..], &["--tally", "tally"]].concat();
    let run = running(&desk, &words, "→ tick");
    let told = desk.run(&["cancel", "t", "--drain", "--wait"]).exits(0).out;
    has(&told, &["thread t has stopped: it is paused"]);
    let (code, rest) = ended(run);
    assert_eq!(code, Some(6), "{rest}");
    has(&rest, &["drained, as was asked for"]);
    let told = desk.run(&["resume", "t", "--tally", "tally"]).exits(0).out;
    has(&told, &["finished"]);
    let tally = desk.tally();
    assert_eq!(tally.len(), 300, "no superstep was cut");
    let told = desk.run(&["cancel", "t", "--drain"]).exits(0).out;
    has(&told, &["is finished: there is nothing to stop"]);
}

#[test]
fn a_thread_that_no_process_works_on_is_cancelled_at_once() {
    let desk = Desk::new();
    let words = [
        "--step-limit",
        "1",
        "run",
        "count",
        "--to",
        "9",
        "--thread",
        "t",
    ];
    desk.run(&words).exits(4);
    let told = desk.run(&["cancel", "t", "--drain"]).exits(0).out;
    has(&told, &["no call works on thread t: it is limited"]);
    let told = desk.run(&["--json", "cancel", "t"]).exits(0).out;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        (&told["status"], &told["pending"], &told["asked"]),
        (&"cancelled".into(), &false.into(), &"cancel".into())
    );
    let told = desk.run(&["cancel", "t"]).exits(0).out;
    has(&told, &["thread t is cancelled already"]);
    let told = desk.run(&["cancel", "nosuch"]).exits(2).err;
    has(&told, &["there is no thread nosuch; the store has t"]);
    // After a cancel, an input is accepted.
    desk.run(&["run", "count", "--to", "2", "--thread", "t"])
        .exits(0);
}

/// The process that holds the thread does not heed the wish: it is seen, and waited for.
#[test]
fn a_wish_that_waits_is_shown() {
    let desk = Desk::new();
    let words = [
        "--step-limit",
        "1",
        "run",
        "count",
        "--to",
        "9",
        "--thread",
        "t",
    ];
    desk.run(&words).exits(4);
    let store = SledStore::open(desk.path("mileposts")).unwrap();
    let window = Window::open(Arc::new(store.clone()), store.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let thread = ThreadId::new("t").unwrap();
    let claim = runtime
        .block_on(store.claim(&thread, Take::IfFree))
        .unwrap();
    let told = desk.run(&["cancel", "t", "--reason", "late"]).exits(0).out;
    has(
        &told,
        &[
            "thread t is asked to cancel",
            "next: milepost events t --follow",
        ],
    );
    assert_eq!(claim.wishes.newest().unwrap().reason, "late");
    let words = ["cancel", "t", "--wait", "--deadline", "200ms"];
    desk.run(&words).exits(4);
    let threads = desk.run(&["threads"]).exits(0).out;
    has(&threads, &["limited", ", asked to cancel"]);
    let shown = desk.run(&["show", "t"]).exits(0).out;
    has(&shown, &["asked   to cancel, ", ": late"]);
    let shown = desk.run(&["--json", "show", "t"]).exits(0).out;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["asked"]["reason"], "late");
    store.release(&thread, claim.epoch);
    let told = desk.run(&["cancel", "t", "--wait"]).exits(0).out;
    has(&told, &["thread t is cancelled"]);
    let shown = desk.run(&["show", "t"]).exits(0).out;
    assert!(!shown.contains("  asked "), "{shown}");
    drop(window);
    drop(store);
    // The doctor finds nothing wrong with it.
    desk.run(&["doctor"]).exits(0);
}

/// A worker that is asked to end closes the open supersteps, gives its threads back, and the next
/// worker goes on with them.
#[test]
fn a_worker_that_is_asked_to_end_gives_back_what_it_holds() {
    let desk = Desk::new();
    for name in ["one", "two"] {
        let words = [
            "--step-limit",
            "100000",
            "run",
            "count",
            "--to",
            "90000",
            "--thread",
            name,
            "--crash-after",
            "tick",
        ];
        assert_eq!(desk.run(&words).code, None);
    }
    let worker = ["--step-limit", "100000", "worker"];
    for why in ["it was left in its middle", "another process gave it back"] {
        let mut worker = running(&desk, &worker, why);
        until(&mut worker.1, why);
        send("TERM", &worker.0);
        let (code, rest) = ended(worker);
        assert_eq!(code, Some(6), "{rest}");
        has(&rest, &["drained, as was asked for"]);
        let threads = desk.run(&["threads", "--status", "drained"]).exits(0).out;
        assert_eq!(threads.lines().count(), 2, "{threads}");
    }
    let shown = desk.run(&["show", "one"]).exits(0).out;
    has(
        &shown,
        &["drained: its process gave it back at a boundary, for another one to go on"],
    );
    // One that has nothing to do ends at once, in the same way.
    for name in ["one", "two"] {
        desk.run(&["delete", name]).exits(0);
    }
    let mut idle = desk.start(&["worker"]);
    let mut err = BufReader::new(idle.stderr.take().unwrap());
    let mut line = String::new();
    err.read_line(&mut line).unwrap();
    has(&line, &["waking what is due"]);
    send("INT", &idle);
    assert_eq!(idle.wait().unwrap().code(), Some(6));
}
