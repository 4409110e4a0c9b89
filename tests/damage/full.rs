//! A disk that takes no more, through the real program: the run stops with a message that says so,
//! and goes on once there is room.
//!
//! The system's own limit of a file's length stands in for the disk: writes beyond it fail for real,
//! in the middle of whatever the engine writes.

use std::process::{Command, Stdio};

use crate::cli_bin::{Desk, Ran};

/// Runs the program where no file may have more than so many KiB.
fn limited(desk: &Desk, kib: u64, words: &[&str]) -> Ran {
    // Without the trap, the signal that comes with the error would end the program.
    let script = format!("trap '' XFSZ; ulimit -f {kib}; exec \"$@\"");
    Command::new("bash")
        .args(["-c", &script, "bash", env!("CARGO_BIN_EXE_milepost")])
        .args(words)
        .current_dir(desk.path(""))
        .env_remove("MILEPOST_STORE")
        .env_remove("MILEPOST_LOG")
        .stdin(Stdio::null())
        .output()
        .unwrap()
        .into()
}

const START: &[&str] = &[
    "run",
    "count",
    "--to",
    "1500",
    "--step-limit",
    "10000",
    "--thread",
    "t",
    "--tally",
    "tally",
];

#[test]
fn a_run_whose_disk_is_full_stops_and_goes_on_when_there_is_room() {
    let calm = Desk::new();
    calm.run(START).exits(0);
    let state = |desk: &Desk| desk.run(&["show", "t", "--json"]).exits(0).value()["state"].clone();
    for kib in [520, 700, 1_100] {
        let desk = Desk::new();
        let full = limited(&desk, kib, START).exits(1);
        assert!(full.err.contains("File too large"), "{kib}: {}", full.err);
        assert!(
            full.err.contains(
                "next: allow larger files (ulimit -f), then milepost resume t: nothing acknowledged \
                 is lost"
            ),
            "{kib}: {}",
            full.err
        );
        // Still no room: the same, and nothing is harmed.
        let again = limited(&desk, kib, &["resume", "t", "--tally", "tally"]);
        assert_eq!(again.code, Some(1), "{kib}: {}", again.err);
        let before = desk.run(&["events", "t", "--json"]).exits(0).values();
        let finished = |events: &[serde_json::Value]| -> Vec<String> {
            let done = events
                .iter()
                .filter(|event| event["type"] == "task_finished");
            done.map(|event| event["task"]["path"].as_str().unwrap().to_owned())
                .collect()
        };
        let before = finished(&before);
        assert!(!before.is_empty(), "{kib}: nothing was written");
        let ran = desk.tally();
        desk.run(&["doctor"]).exits(0);
        desk.run(&["resume", "t", "--tally", "tally", "--step-limit", "10000"])
            .exits(0);
        assert_eq!(state(&desk), state(&calm), "{kib}");
        let after = desk.tally();
        let times = |tally: &[String], task: &str| tally.iter().filter(|one| *one == task).count();
        for task in before.iter().step_by(97).chain(before.last()) {
            assert_eq!(
                times(&after, task),
                times(&ran, task),
                "{kib}: {task} ran again"
            );
        }
        desk.run(&["doctor"]).exits(0);
    }
}

#[test]
fn a_repair_without_room_leaves_no_half_of_a_store() {
    let desk = Desk::new();
    desk.run(START).exits(0);
    let words = ["doctor", "--repair", "--to", "new"];
    let full = limited(&desk, 300, &words).exits(1);
    assert!(full.err.contains("next: "), "{}", full.err);
    assert!(!desk.path("new").exists());
    desk.run(&words).exits(0);
    desk.run(&["--store", "new", "doctor"]).exits(0);
}
