//! `--durability`: what the lines of a run say, and what a crash leaves.

use serde_json::Value;

use crate::cli_bin::Desk;

fn kinds<'v>(values: &'v [Value], kind: &str) -> Vec<&'v Value> {
    values
        .iter()
        .filter(|value| value["type"] == kind)
        .collect()
}

#[test]
fn a_run_says_up_to_where_it_is_on_disk_where_it_does_not_wait() {
    let desk = Desk::new();
    for (mode, says) in [("each", false), ("background", true), ("at-end", true)] {
        let words = ["run", "count", "--to", "20", "--thread", mode, "--json"];
        let told = desk.run(&[&words[..], &["--durability", mode]].concat());
        let told = told.exits(0).values();
        let durable = kinds(&told, "durable");
        assert_eq!(!durable.is_empty(), says, "{mode}");
        let ended = kinds(&told, "ended")[0];
        if let Some(last) = durable.last() {
            assert!(last["up_to"].as_u64() >= ended["seq"].as_u64(), "{last}");
        }
        // Looked at later, all runs are the same.
        let events = desk.run(&["events", mode, "--json"]).exits(0).values();
        assert_eq!(kinds(&events, "committed").len(), 20);
        assert!(kinds(&events, "durable").is_empty());
    }
    let wrong = ["run", "count", "--durability", "never"];
    let refused = desk.run(&wrong).exits(2).err;
    assert!(refused.contains("each, background, at-end"), "{refused}");
}

/// What was said to be on disk is there after a crash; the rest is done again, to the same end.
#[test]
fn a_crash_takes_no_more_than_what_was_not_on_disk() {
    for mode in ["background", "at-end"] {
        let desk = Desk::new();
        let words = ["run", "count", "--to", "9", "--thread", "t", "--json"];
        let crash = ["--crash-after", "tick", "--durability", mode];
        let crashed = desk.run(&[&words[..], &crash].concat());
        assert_eq!(crashed.code, None, "ended by a signal: {}", crashed.err);
        let told = crashed.values();
        let durable = kinds(&told, "durable");
        let safe = durable.iter().filter_map(|one| one["up_to"].as_u64()).max();
        let kept = desk.run(&["events", "t", "--json"]).exits(0).values();
        let last = kept.iter().filter_map(|one| one["seq"].as_u64()).max();
        // The input is waited for in every mode. A base, which may be the last record, is no event.
        let (last, safe) = (last.unwrap_or(0), safe.unwrap_or(0));
        assert!(last >= 2 && last + 1 >= safe, "{last} {safe}");
        let resumed = desk.run(&["resume", "t", "--json", "--durability", mode]);
        let report = resumed.exits(0).values().pop().unwrap();
        assert_eq!(
            (&report["status"], &report["step"]),
            (&"finished".into(), &9.into())
        );
        assert_eq!(report["state"]["n"], 9);
    }
}
