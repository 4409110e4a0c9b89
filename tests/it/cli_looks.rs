//! Looking at graphs, threads and checkpoints from the command line.

use std::fs;
use std::io::{BufRead, BufReader};

use milepost::store::conformance::{one_of_each, sample_head};
use milepost::store::{
    BranchRecord, CheckpointStore, Head, MemoryStore, Record, SledStore, Take, Write,
};
use milepost::{Branch, Seq};
use serde_json::json;

use crate::cli_bin::{Desk, Ran, bakery};
use crate::store_logs::{commit, thread};

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
    says(&none, &["No thread is like that; there are 3."]);
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
    let told = desk.run(&["copy", "--", "t", "-a\nb"]).exits(0).out;
    says(
        &told,
        &["copied to -a\\nb", "next: milepost show -- '-a\nb'"],
    );
    let told = desk.run(&["delete", "--", "-a\nb"]).exits(0).out;
    assert_eq!(told, "thread -a\\nb is deleted\n");
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

#[test]
fn a_thread_says_what_it_did_where_it_stands_what_it_waits_for_and_what_to_type() {
    let desk = Desk::new();
    fs::write(desk.path("block"), "").unwrap();
    counted(&desk, "t", &["--to", "4", "--step-limit", "2"]).exits(4);
    let history = desk.run(&["history", "t"]).exits(0).out;
    assert!(history.trim_end().ends_with("tick  limited"), "{history}");
    let shown = desk.run(&["show", "t"]).exits(0).out;
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines[0], "thread t of graph count");
    assert!(lines[2].starts_with("  status  limited: "), "{shown}");
    assert!(
        lines[3].starts_with("  at      superstep 2, checkpoint "),
        "{shown}"
    );
    assert!(lines[3].contains(" UTC ("), "{shown}");
    assert_eq!(
        lines[4..],
        [
            "  did     tick ×2",
            "  to run  tick",
            "  next: milepost resume t",
            "  state",
            "    blocked_by: null",
            "    n: 2",
            "    to: 4",
        ]
    );
    desk.run(&["resume", "t"]).exits(0);
    let shown = desk.run(&["show", "t"]).exits(0).out;
    says(
        &shown,
        &["  did     tick ×4; 1 resume\n  next: milepost history t\n"],
    );
    counted(&desk, "failed", &["--blocked-by", "block"]).exits(1);
    let shown = desk.run(&["show", "failed"]).exits(0).out;
    says(
        &shown,
        &[
            "did     nothing yet; 1 failed task\n  error   (permanent) ",
            "to run  tick\n  next: milepost resume failed\n",
        ],
    );
}

#[test]
fn a_thread_is_shown_as_it_was_at_a_checkpoint() {
    let desk = Desk::new();
    counted(&desk, "t", &["--to", "3"]).exits(0);
    let history = desk.run(&["history", "t", "--json"]).exits(0).values();
    let seqs: Vec<_> = history.iter().map(|at| at["seq"].to_string()).collect();
    let shown = desk.run(&["show", "t", "--at", &seqs[1]]).exits(0).out;
    says(
        &shown,
        &[
            &format!(
                "thread t of graph count, as it was at checkpoint {}\n",
                seqs[1]
            ),
            "  status  running\n",
            &format!("  at      superstep 1, checkpoint {}, ", seqs[1]),
            "  did     tick\n  to run  tick\n",
            &format!("  next: milepost diff t {} {}\n", seqs[1], seqs[3]),
            "    n: 1\n",
        ],
    );
    let field = desk.run(&["show", "t", "--at", &seqs[2], "--field", "n"]);
    assert_eq!(field.exits(0).out, "2\n");
    let value = desk.run(&["show", "t", "--at", &seqs[0], "--json"]);
    let value = value.exits(0).value();
    assert_eq!(
        (&value["step"], &value["state"]["n"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(value["resume"], json!(null));
    let wrong = desk.run(&["show", "t", "--at", "999"]).exits(2);
    says(
        &wrong.err,
        &[
            "no checkpoint 999",
            &seqs.join(", "),
            "next: milepost history t",
        ],
    );
}

#[test]
fn a_state_is_readable_and_each_part_of_it_can_be_had_alone() {
    let desk = Desk::new();
    let docs = bakery();
    let words = [
        "run",
        "research",
        "--question",
        "When is the bakery open?",
        "--docs",
        &docs,
    ];
    let ran = desk
        .run(&[&words[..], &["--thread", "t"]].concat())
        .exits(0);
    let whole = desk.run(&["show", "t", "--json"]).exits(0).value();
    let report = whole["state"]["report"].as_str().unwrap();
    let shown = desk.run(&["show", "t"]).exits(0).out;
    says(
        &shown,
        &[
            &format!("    report: {} lines, ", report.lines().count()),
            "\n      # Research report\n",
            " more lines\n",
            " entries)\n",
            "    question: \"When is the bakery open?\"\n",
        ],
    );
    assert!(
        shown.lines().all(|line| line.chars().count() <= 120),
        "{shown}"
    );
    let full = desk.run(&["show", "t", "--full"]).exits(0).out;
    assert!(!full.contains('…') || report.contains('…'), "{full}");
    for line in report.lines() {
        says(&full, &[line]);
    }
    let bare = desk.run(&["show", "t", "--field", "report"]).exits(0).out;
    assert_eq!(bare.trim_end(), report.trim_end());
    assert!(ran.out.contains(bare.trim_end()));
    let quoted = desk.run(&["show", "t", "--field", "report", "--json"]);
    assert_eq!(quoted.exits(0).value(), whole["state"]["report"]);
    let notes = whole["state"]["notes"].as_object().unwrap();
    let (name, note) = notes.iter().next().unwrap();
    for (path, found) in [
        (
            format!("/notes/{}/title", name.replace('/', "~1")),
            &note["title"],
        ),
        (
            "plan.question".to_owned(),
            &whole["state"]["plan"]["question"],
        ),
        (
            "candidates[0].id".to_owned(),
            &whole["state"]["candidates"][0]["id"],
        ),
    ] {
        let ran = desk.run(&["show", "t", "--field", &path]).exits(0);
        assert_eq!(ran.out.trim_end(), found.as_str().unwrap(), "{path}");
    }
    let list = desk.run(&["show", "t", "--field", "candidates"]).exits(0);
    assert_eq!(
        list.value(),
        whole["state"]["candidates"],
        "one line of JSON"
    );
    let pretty = desk
        .run(&["show", "t", "--field", "candidates", "--full"])
        .exits(0);
    assert!(pretty.out.starts_with("[\n  {\n"), "{}", pretty.out);
    for (path, why) in [
        ("reprot", "did you mean \"report\"? it has candidates, "),
        ("candidates[999]", "there is no \"999\""),
        (
            "plan.nothing",
            "plan has no field \"nothing\": it has question",
        ),
        ("[", "is no path"),
    ] {
        let wrong = desk.run(&["show", "t", "--field", path]).exits(2);
        says(&wrong.err, &[why, "next: milepost show t"]);
        assert_eq!(wrong.out, "");
    }
}

#[test]
fn a_history_is_a_table_with_times() {
    let desk = Desk::new();
    counted(&desk, "t", &["--to", "3", "--run-id", "r"]).exits(0);
    let table = desk.run(&["history", "t"]).exits(0).out;
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 5, "{table}");
    let column = |name: &str| lines[0].find(name).unwrap();
    for line in &lines[1..] {
        assert!(line[column("when")..].starts_with("20"), "{table}");
        assert!(line.contains(" UTC ("), "{table}");
    }
    assert!(
        lines[1][column("ran")..].starts_with("input of run r"),
        "{table}"
    );
    assert!(lines[2][column("wrote")..].starts_with("n "), "{table}");
    assert!(lines[2][column("next")..].starts_with("tick "), "{table}");
    assert!(lines[4][column("next")..].starts_with("end "), "{table}");
    assert!(
        lines[4][column("status")..].starts_with("finished"),
        "{table}"
    );
}

/// A log with four branches, as forks will write it.
async fn forked(store: &dyn CheckpointStore) {
    let thread = thread("t");
    let claim = store.claim(&thread, Take::IfFree).await.unwrap();
    let begin = |branch, parent, at| Record::Branch(BranchRecord { branch, parent, at });
    let mut first = one_of_each();
    first.truncate(2);
    let writes = [
        (0, first),
        (0, vec![commit(1, 1)]),
        (0, vec![commit(2, 1)]),
        (1, vec![begin(1, 0, 3), commit(2, 1)]),
        (2, vec![begin(2, 1, 6), commit(3, 1)]),
        (3, vec![begin(3, 0, 3), commit(2, 1)]),
        (1, vec![commit(3, 1)]),
        (0, vec![commit(3, 1)]),
    ];
    let (mut next, mut expected) = (1, Seq::new(0));
    for (branch, records) in writes {
        let last = Seq::new(next + records.len() as u64 - 1);
        let head = Head {
            branch: Branch::new(branch),
            seq: last,
            base: Seq::new(0),
            ..sample_head()
        };
        let write = Write {
            fulfils: None,
            thread: thread.clone(),
            epoch: claim.epoch,
            branch: Branch::new(branch),
            expected,
            first: Seq::new(next),
            records,
            segments: Vec::new(),
            head,
            run: None,
        };
        store.append(write).await.unwrap();
        (next, expected) = (last.get() + 1, last);
    }
    store.release(&thread, claim.epoch);
}

#[tokio::test]
async fn a_checkpoint_follows_the_one_of_its_branch_or_where_its_branch_leaves() {
    let store = MemoryStore::new();
    forked(&store).await;
    let line = milepost::history(&store, &thread("t")).await.unwrap();
    let follows: Vec<_> = line
        .iter()
        .map(|at| {
            let parent = at.parent.map_or(0, Seq::get);
            (at.branch.get(), at.seq.get(), parent)
        })
        .collect();
    let known = [
        (0, 2, 0),
        (0, 3, 2),
        (0, 4, 3),
        (1, 6, 3),
        (2, 8, 6),
        (3, 10, 3),
        (1, 11, 6),
        (0, 12, 4),
    ];
    assert_eq!(follows, known);
}

#[tokio::test]
async fn branches_are_drawn_as_a_tree() {
    let desk = Desk::new();
    let store = SledStore::open(desk.path("mileposts")).unwrap();
    forked(&store).await;
    drop(store);
    let tree = desk.run(&["history", "t", "--tree"]).exits(0).out;
    // Without what a checkpoint says of itself.
    let drawn: Vec<_> = tree
        .lines()
        .map(|line| line.split("  superstep").next().unwrap())
        .collect();
    let known = [
        "● 2",
        "● 3",
        "├─ branch 1",
        "│ ● 6",
        "│ ├─ branch 2",
        "│ │ ● 8",
        "│ ● 11",
        "├─ branch 3",
        "│ ● 10",
        "● 4",
        "● 12 (the thread stands here)",
    ];
    assert_eq!(drawn, known, "{tree}");
    let table = desk.run(&["history", "t", "--all"]).exits(0).out;
    says(table.lines().next().unwrap(), &["superstep  branch  when"]);
    let values = desk.run(&["history", "t", "--all", "--json"]);
    let values = values.exits(0).values();
    assert_eq!(
        (&values[3]["branch"], &values[3]["parent"]),
        (&json!(1), &json!(3))
    );
    assert_eq!(values[0]["parent"], json!(null));
}
