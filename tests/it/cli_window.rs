//! A store in use is looked at from other processes, and followed, and the run does not notice.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command};
use std::sync::Arc;

use milepost::ThreadId;
use milepost::store::{CheckpointStore, SledStore, Window};

use crate::cli_bin::{Desk, Ran};

/// A run of the program that others look at.
struct Running {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Running {
    /// Starts it, and returns when a superstep is closed.
    fn start(desk: &Desk, words: &[&str]) -> Self {
        let mut child = desk.start(words);
        let mut out = BufReader::new(child.stdout.take().unwrap());
        until(&mut out, "→ tick");
        until(&mut out, "→ tick");
        Self { child, out }
    }

    fn counting(desk: &Desk, to: &str) -> Self {
        let words = [
            "run", "count", "--to", to, "--pace", "50ms", "--thread", "t", "--tally", "tally",
        ];
        let mut run = Self::start(desk, &words);
        until(&mut run.out, "→ tick");
        run
    }

    /// Waits until it is done by itself.
    fn finishes(mut self) -> String {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        let mut why = String::new();
        let mut err = self.child.stderr.take().unwrap();
        err.read_to_string(&mut why).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{rest}{why}");
        assert_eq!(why, "");
        rest
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Reads lines until one has these words.
fn until(reader: &mut impl BufRead, words: &str) {
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "no {words:?}");
    }
}

/// Sends a signal by the system's own program.
fn send(signal: &str, pid: u32) {
    let words = [format!("-{signal}"), pid.to_string()];
    assert!(Command::new("kill").args(words).status().unwrap().success());
}

fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

fn follow(desk: &Desk, more: &[&str]) -> Child {
    desk.start(&[&["events", "t", "--follow"], more].concat())
}

fn ended(child: Child) -> Ran {
    child.wait_with_output().unwrap().into()
}

/// What `events` says of the thread now.
fn events(desk: &Desk, more: &[&str]) -> String {
    desk.run(&[&["events", "t"], more].concat()).exits(0).out
}

#[test]
fn every_command_that_only_looks_works_while_a_run_has_the_store() {
    let desk = Desk::new();
    let run = Running::counting(&desk, "1000");
    let looked = |words: &[&str]| {
        let ran = desk.run(words).exits(0);
        assert_eq!(ran.err, "", "{words:?}");
        ran
    };
    let shown = looked(&["show", "t", "--json"]).value();
    assert_eq!(shown["status"], "running");
    assert!(shown["state"]["n"].as_u64() >= Some(2), "{shown}");
    says(
        &looked(&["show", "t"]).out,
        &[
            "running: another process has the store open",
            "to run  tick\n  next: milepost events t --follow\n",
            "n: ",
        ],
    );
    says(
        &looked(&["threads", "--sizes"]).out,
        &["running", " records, "],
    );
    says(
        &looked(&["dot", "--run", "t", "--times"]).out,
        &["digraph", "Again"],
    );
    says(
        &looked(&["events", "t"]).out,
        &["start  → tick", "Again → tick"],
    );
    looked(&["graphs"]);
    let history = looked(&["history", "t", "--json"]).values();
    assert!(history.len() >= 3);
    let seqs: Vec<_> = history.iter().map(|at| at["seq"].to_string()).collect();
    says(
        &looked(&["diff", "t", &seqs[0], &seqs[2]]).out,
        &["n: 0 → 2"],
    );
    says(
        &desk.run(&["show", "nosuch"]).exits(2).err,
        &["the store has t"],
    );
    let told = desk
        .command(&["threads"])
        .env("MILEPOST_LOG", "info")
        .output()
        .unwrap();
    let holder = format!("holder={}", run.child.id());
    says(&Ran::from(told).exits(0).err, &[&holder]);
    let mode = |name| fs::metadata(desk.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("mileposts/window"), 0o700);
    assert_eq!(mode("mileposts/window/socket"), 0o600);
    run.kill();
    // The socket of the dead process is in nobody's way.
    assert!(desk.path("mileposts/window/socket").exists());
    says(&desk.run(&["show", "t"]).exits(0).out, &["running"]);
    assert!(!desk.path("mileposts/window/socket").exists());
}

#[test]
fn what_is_followed_is_what_is_looked_back_at() {
    let desk = Desk::new();
    let run = Running::counting(&desk, "40");
    // S338: two listeners get the same events, whenever they came.
    let first = follow(&desk, &[]);
    let values = follow(&desk, &["--json"]);
    let second = follow(&desk, &[]);
    run.finishes();
    for follower in [first, second] {
        let told = ended(follower).exits(0);
        assert_eq!(told.out, events(&desk, &[]));
        says(&told.err, &["thread t is finished"]);
    }
    let told = ended(values).exits(0);
    assert_eq!(told.out, events(&desk, &["--json"]));
    assert_eq!(told.values().last().unwrap()["type"], "ended");
}

#[test]
fn following_a_thread_that_stands_still_says_how_it_stands() {
    let desk = Desk::new();
    let early = follow(&desk, &[]);
    says(
        &ended(early).exits(2).err,
        &["no store at mileposts", "next:"],
    );
    let words = ["run", "count", "--thread", "t"];
    desk.run(&[&words[..], &["--step-limit", "1"]].concat())
        .exits(4);
    let told = ended(follow(&desk, &[])).exits(0);
    assert_eq!(told.out, events(&desk, &[]));
    says(
        &told.err,
        &["thread t is limited", "next: milepost resume t"],
    );
    // Slow enough that it is not done before it is killed.
    let crashed = ["resume", "t", "--crash-after", "tick", "--pace", "200ms"];
    assert_eq!(desk.run(&crashed).code, None);
    let told = ended(follow(&desk, &[])).exits(0);
    assert_eq!(told.out, events(&desk, &[]));
    says(&told.err, &["has died", "next: milepost resume t"]);
    desk.run(&["resume", "t"]).exits(0);
    let told = ended(follow(&desk, &[])).exits(0);
    says(&told.err, &["thread t is finished"]);
    says(
        &desk.run(&["events", "nosuch", "-f"]).exits(2).err,
        &["the store has t"],
    );
}

#[test]
fn a_follower_outlives_the_killed_holder_and_says_what_is_left_to_do() {
    let desk = Desk::new();
    let run = Running::counting(&desk, "1000");
    let mut follower = follow(&desk, &[]);
    let mut out = BufReader::new(follower.stdout.take().unwrap());
    until(&mut out, "→ tick");
    run.kill();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let told = ended(follower).exits(0);
    says(
        &told.err,
        &["thread t is running", "has died", "next: milepost resume t"],
    );
    assert!(events(&desk, &[]).ends_with(&rest), "{rest}");
}

#[test]
fn a_follower_goes_on_with_the_process_that_takes_over() {
    let desk = Desk::new();
    let run = Running::counting(&desk, "30");
    let follower = follow(&desk, &[]);
    // It must not be the one that takes the free store.
    send("STOP", follower.id());
    run.kill();
    let resumed = Running::start(&desk, &["resume", "t", "--pace", "50ms"]);
    send("CONT", follower.id());
    resumed.finishes();
    let told = ended(follower).exits(0);
    assert_eq!(told.out, events(&desk, &[]));
    says(&told.out, &["resumed", "Enough → end"]);
    says(&told.err, &["thread t is finished"]);
}

#[test]
fn a_follower_that_is_stopped_or_has_no_reader_leaves_the_run_alone() {
    let desk = Desk::new();
    let run = Running::counting(&desk, "40");
    for signal in ["INT", "TERM"] {
        let mut follower = follow(&desk, &[]);
        let mut out = BufReader::new(follower.stdout.take().unwrap());
        until(&mut out, "→ tick");
        send(signal, follower.id());
        says(&ended(follower).exits(0).err, &["no longer followed"]);
    }
    let mut follower = follow(&desk, &[]);
    drop(follower.stdout.take());
    ended(follower).exits(0);
    says(&run.finishes(), &["finished"]);
}

#[test]
fn a_thread_that_is_deleted_while_it_is_followed_ends_that() {
    let desk = Desk::new();
    let words = [
        "run",
        "count",
        "--to",
        "1000",
        "--thread",
        "t",
        "--crash-after",
        "tick",
        "--pace",
        "50ms",
    ];
    assert_eq!(desk.run(&words).code, None);
    let store = SledStore::open(desk.path("mileposts")).unwrap();
    let window = Window::open(Arc::new(store.clone()), store.path()).unwrap();
    let mut follower = follow(&desk, &[]);
    let mut out = BufReader::new(follower.stdout.take().unwrap());
    until(&mut out, "→ tick");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let thread = ThreadId::new("t").unwrap();
    runtime.block_on(store.delete_thread(&thread)).unwrap();
    says(
        &ended(follower).exits(2).err,
        &["t was deleted", "next: milepost threads"],
    );
    drop(window);
}

#[test]
fn what_would_write_to_a_store_in_use_names_its_holder_and_the_way_to_look() {
    let desk = Desk::new();
    let words = [
        "run",
        "count",
        "--to",
        "1000",
        "--pace",
        "50ms",
        "--thread",
        "a\u{1b}[2Jb\nc",
    ];
    let run = Running::start(&desk, &words);
    let pid = format!("by process {}", run.child.id());
    for words in [
        &["delete", "t"][..],
        &["prune", "t"],
        &["copy", "t", "u"],
        &["resume", "t"],
        &["run", "count"],
    ] {
        let told = desk.run(words).exits(7).err;
        says(&told, &["the store mileposts is locked", &pid]);
        says(
            &told,
            &[
                "next: wait",
                "looking works: milepost events THREAD --follow",
            ],
        );
        if cfg!(target_os = "linux") {
            says(&told, &["run count --to 1000", " for ", "\\u{1b}[2Jb\\nc"]);
            assert!(!told.contains('\u{1b}'), "{told}");
        }
        assert_eq!(told.lines().count(), 2, "{told}");
    }
    let told = desk.run(&["--json", "delete", "t"]).exits(7).err;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["error"]["exit"], 7);
    says(told["error"]["what"].as_str().unwrap(), &[&pid]);
    run.kill();
}

#[test]
fn a_holder_without_a_window_or_of_another_version_is_named() {
    let desk = Desk::new();
    desk.run(&["run", "count", "--thread", "t"]).exits(0);
    let store = SledStore::open(desk.path("mileposts")).unwrap();
    let told = desk.run(&["show", "t"]).exits(7).err;
    let pid = std::process::id();
    says(&told, &[&format!("locked by process {pid}"), "next: wait"]);
    assert!(!told.contains("looking works"), "{told}");
    let told = desk.run(&["delete", "t"]).exits(7).err;
    assert!(!told.contains("looking works"), "{told}");
    let listener = UnixListener::bind(desk.path("mileposts/window/socket")).unwrap();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"MPWN\x09\0\x2a\0\0\0").unwrap();
    });
    let told = desk.run(&["show", "t"]).exits(7).err;
    says(&told, &["process 42", "version 9", "version 2", "next: "]);
    other.join().unwrap();
    drop(store);
    desk.run(&["show", "t"]).exits(0);
}

#[test]
fn a_holder_that_is_suspended_is_said_not_to_answer_and_answers_afterwards() {
    let desk = Desk::new();
    let run = Running::counting(&desk, "1000");
    send("STOP", run.child.id());
    let told = desk.run(&["show", "t"]).exits(7).err;
    let pid = format!("by process {}", run.child.id());
    says(&told, &[&pid, "does not answer", "next: wait"]);
    send("CONT", run.child.id());
    says(&desk.run(&["show", "t"]).exits(0).out, &["running"]);
    run.kill();
}

#[test]
fn a_run_whose_window_is_misused_gives_what_an_undisturbed_one_gives() {
    let calm = Desk::new();
    Running::counting(&calm, "40").finishes();
    let desk = Desk::new();
    let run = Running::counting(&desk, "40");
    let messages: [&[u8]; 4] = [
        b"rubbish, and more of it",
        &[9, 0, 0, 0, 0x81],
        &[0xff; 4],
        &[],
    ];
    let hanging: Vec<_> = (0..40)
        .map(|number| {
            let mut stream = UnixStream::connect(desk.path("mileposts/window/socket")).unwrap();
            let mut hello = [0; 10];
            stream.read_exact(&mut hello).unwrap();
            // Whoever is hung up on has no say.
            let _ = stream.write_all(messages[number % messages.len()]);
            stream
        })
        .collect();
    desk.run(&["show", "t"]).exits(0);
    run.finishes();
    drop(hanging);
    let state = |desk: &Desk| desk.run(&["show", "t", "--json"]).exits(0).value()["state"].clone();
    assert_eq!(state(&desk), state(&calm));
    assert_eq!(desk.tally(), calm.tally());
    assert_eq!(desk.tally().len(), 40);
}

#[test]
fn programs_that_race_for_a_store_get_it_or_are_told_who_has_it() {
    let desk = Desk::new();
    desk.run(&["run", "count", "--thread", "t"]).exits(0);
    // Those that look never fail: one of them has the store, the others ask it or wait for it.
    let looking: Vec<_> = (0..4).map(|_| desk.start(&["show", "t"])).collect();
    for child in looking {
        says(&ended(child).exits(0).out, &["finished"]);
    }
    let words = ["run", "count", "--to", "20", "--pace", "50ms"];
    let running: Vec<_> = (0..3).map(|_| desk.start(&words)).collect();
    let told: Vec<_> = running.into_iter().map(ended).collect();
    // Who has just come may be looking, so it is waited for; who runs for long is not.
    let codes: Vec<_> = told.iter().map(|ran| ran.code.unwrap()).collect();
    assert!(codes.contains(&0), "{told:?}");
    assert!(codes.iter().all(|code| [0, 7].contains(code)), "{told:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_store_at_a_long_path_is_looked_at_too() {
    let desk = Desk::new();
    let deep = format!("{}/{}", "d".repeat(150), "e".repeat(150));
    fs::create_dir_all(desk.path(&deep)).unwrap();
    let store = format!("{deep}/store");
    let words = [
        "--store", &store, "run", "count", "--to", "1000", "--pace", "50ms", "--thread", "t",
    ];
    let run = Running::start(&desk, &words);
    let shown = desk.run(&["--store", &store, "show", "t"]).exits(0);
    says(&shown.out, &["running"]);
    run.kill();
}
