//! Inside of subgraphs by the commands: what is open there is shown, asked, answered, killed,
//! copied and pruned like anything else. The graph is `review`, whose every edge is taken here.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cli_bin::{Desk, Ran};

const START: [&str; 8] = [
    "run", "review", "--thread", "t", "--files", "a.md", "b.md", "--plain",
];

/// Two files: three sections with links, of which two lead to other hosts, and one without any.
fn desk() -> Desk {
    let desk = Desk::new();
    let bread = "# Bread\n\nSee [flour](b.md#the-flour) and [the mill](https://mill.example/).\n\n\
                 ## Empty\n\nNothing to follow.\n\n```text\n[code](nosuch)\n```\n";
    let flour = "# The flour\n\nBack to [bread](a.md#nosuch), [gone](c.md) or\n\
                 [the shop](https://shop.example/).\n\n## Near\n\n[Up](#the-flour).\n";
    fs::write(desk.path("a.md"), bread).unwrap();
    fs::write(desk.path("b.md"), flour).unwrap();
    desk
}

/// What a review finds in them, with what people say of the two hosts.
fn found(faults: &[&str]) -> Value {
    let own = [
        "b.md, \"The flour\": a.md#nosuch names no heading",
        "b.md, \"The flour\": c.md is not there",
    ];
    let mut all: Vec<_> = own.iter().chain(faults).collect();
    all.sort_by_key(|fault| fault.starts_with('b'));
    json!(all)
}

fn faults(desk: &Desk, thread: &str) -> Value {
    desk.run(&["--json", "show", thread]).exits(0).value()["state"]["faults"].clone()
}

/// Runs a command as it was suggested, by a shell.
fn typed(desk: &Desk, suggested: &str) -> Ran {
    let words = suggested.strip_prefix("milepost ").unwrap();
    let line = format!("'{}' {words}", env!("CARGO_BIN_EXE_milepost"));
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", &line]).current_dir(desk.path("."));
    shell.stdin(Stdio::null()).output().unwrap().into()
}

/// The commands that a command has suggested.
fn suggested(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|line| line.trim());
    lines
        .filter_map(|line| line.strip_prefix("next: "))
        .collect()
}

#[test]
fn questions_inside_are_shown_with_commands_that_a_shell_understands() {
    let desk = desk();
    let asked = desk.run(&START).exits(3).out;
    for part in [
        "   2  check › find",
        "   2  check[1] › find",
        "   2  check[2] › look",
        "Unsure",
        "   2  check[2] › ask  asks links: ",
        "2:check[2]/3:ask[0] asks links: ",
    ] {
        assert!(asked.contains(part), "no {part:?} in {asked}");
    }
    let mut ways = suggested(&asked);
    // In the order in which they were asked: sections go on side by side.
    ways.sort();
    assert_eq!(
        ways,
        [
            "milepost answer t '2:check[0]/3:ask[0].links' good",
            "milepost answer t '2:check[2]/3:ask[0].links' good",
        ]
    );
    let shown = desk.run(&["show", "t"]).exits(0).out;
    for part in [
        "  done    check[1]",
        "  to run  check[2]",
        "  inside  check after 2 supersteps: ask asks links",
        "  inside  check[2] after 2 supersteps: ask asks links",
        ways[1],
    ] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    assert!(!shown.contains("inside  check[1]"), "{shown}");
    let value = desk.run(&["--json", "show", "t"]).exits(0).value();
    let inside = &value["inside"][1];
    assert_eq!(
        (&inside["task"], &inside["step"]),
        (&json!("2:check[2]"), &json!(2))
    );
    assert_eq!(
        inside["tasks"][0]["asks"],
        json!(["2:check[2]/3:ask[0].links"])
    );
    let questions = desk.run(&["questions"]).exits(0).out;
    let mut again = suggested(&questions);
    again.sort();
    assert_eq!(again, ways);
    let events = desk.run(&["events", "t"]).exits(0).out;
    assert!(events.contains("check[2] › ask  asks links"), "{events}");
    // Both have the key, so the key alone says too little.
    let unclear = desk.run(&["answer", "t", "links", "good"]).exits(2);
    assert!(unclear.err.contains("several questions"), "{}", unclear.err);
    let wrong = ["answer", "t", "2:check[2]/3:ask[0].links", "perhaps"];
    let wrong = desk.run(&wrong).exits(2).err;
    assert!(wrong.contains("\"good\", \"bad\" is expected"), "{wrong}");

    let half = typed(&desk, ways[1]).exits(3).out;
    assert!(
        half.contains("check[2] › ask  links is answered: \"good\""),
        "{half}"
    );
    assert_eq!(suggested(&half), ["milepost answer t good"]);
    let shown = desk.run(&["show", "t"]).exits(0).out;
    assert!(shown.contains("done    check[2]"), "{shown}");
    let drawn = desk.run(&["dot", "--run", "t"]).exits(0).out;
    for part in [
        "\"ask\\n×1\\n1 waits\"",
        "\"Unsure\\n×2\"",
        "\"check\\n×3\\n1 waits\"",
    ] {
        assert!(drawn.contains(part), "no {part} in {drawn}");
    }
    let done = desk.run(&["answer", "t", "bad"]).exits(0).out;
    assert!(done.contains("4 sections, 3 faults"), "{done}");
    let no = "a.md, \"Bread\": a person says no to https://mill.example/";
    assert_eq!(faults(&desk, "t"), found(&[no]));
    // Every edge inside was taken.
    let drawn = desk.run(&["dot", "--run", "t"]).exits(0).out;
    for part in ["Links\\n×3", "Nothing\\n×1", "Sure\\n×1", "Unsure\\n×2"] {
        assert!(drawn.contains(part), "no {part} in {drawn}");
    }
    let flame = desk
        .run(&["dot", "--run", "t", "--format", "timeline"])
        .exits(0)
        .out;
    assert!(
        flame.contains("<title>2:check[2]/3:ask[0]</title>"),
        "{flame}"
    );
    assert!(!desk.run(&["show", "t"]).exits(0).out.contains("inside  "));
}

/// Killed after any node inside, nothing that had finished there is run again.
#[test]
fn a_run_that_crashes_inside_of_a_subgraph_goes_on_inside() {
    for (node, answers) in [
        ("find", false),
        ("look", false),
        ("ask", true),
        ("check", true),
    ] {
        let desk = desk();
        let tallied = ["--tally", "tally", "--concurrency", "1"];
        let crash = ["--crash-after", node];
        let (first, second) = ("2:check[0]/3:ask[0].links", "2:check[2]/3:ask[0].links");
        let crashed = if answers {
            desk.run(&[&START[..], &tallied].concat()).exits(3);
            let answer = ["t", first, "good"];
            desk.run(&[&["answer"][..], &tallied, &crash, &answer].concat())
        } else {
            desk.run(&[&START[..], &tallied, &crash].concat())
        };
        assert_eq!(crashed.code, None, "ended by a signal: {}", crashed.err);
        let finished = |desk: &Desk| -> Vec<String> {
            let events = desk.run(&["events", "t", "--json"]).exits(0).values();
            let done = events
                .iter()
                .filter(|event| event["type"] == "task_finished");
            done.map(|event| event["task"]["path"].as_str().unwrap().to_owned())
                .collect()
        };
        let before = finished(&desk);
        assert!(before.iter().any(|task| task.contains(node)), "{before:?}");
        let ran = desk.tally();
        assert!(ran.contains(&"2:check[0]/1:find[0]".to_owned()), "{ran:?}");
        let resumed = desk.run(&[&["resume", "t"][..], &tallied].concat());
        assert_eq!(resumed.code, Some(3), "{}{}", resumed.out, resumed.err);
        let left = suggested(&resumed.out).len();
        assert_eq!(left, if answers { 1 } else { 2 }, "{}", resumed.out);
        let after = desk.tally();
        let times = |tally: &[String], task: &str| tally.iter().filter(|t| *t == task).count();
        for task in &before {
            assert_eq!(times(&after, task), times(&ran, task), "{task} ran again");
        }
        if !answers {
            desk.run(&["answer", "t", first, "good"]).exits(3);
        }
        desk.run(&["answer", "t", second, "good"]).exits(0);
        let all = finished(&desk);
        assert_eq!(
            all.iter().collect::<BTreeSet<_>>().len(),
            all.len(),
            "{all:?}"
        );
        assert_eq!(faults(&desk, "t"), found(&[]));
        desk.run(&["doctor"]).exits(0);
    }
}

/// Copied, exported and imported under another name, and pruned: each can be answered.
#[test]
fn a_thread_that_is_open_inside_can_be_copied_moved_and_pruned() {
    let desk = desk();
    desk.run(&START).exits(3);
    desk.run(&["answer", "t", "2:check[2]/3:ask[0].links", "bad"])
        .exits(3);
    desk.run(&["copy", "t", "copied"]).exits(0);
    desk.run(&["export", "t", "--out", "t.jsonl"]).exits(0);
    desk.run(&["import", "t.jsonl", "--as", "moved"]).exits(0);
    desk.run(&["prune", "t"]).exits(0);
    let sound = desk.run(&["doctor"]).exits(0).out;
    assert!(sound.contains("sound, 0 warnings, 0 notes"), "{sound}");
    let no = "b.md, \"The flour\": a person says no to https://shop.example/";
    for thread in ["t", "copied", "moved"] {
        let open = desk.run(&["questions", thread]).exits(0).out;
        let next = format!("milepost answer {thread} good");
        assert_eq!(suggested(&open), [&*next]);
        typed(&desk, &next).exits(0);
        assert_eq!(faults(&desk, thread), found(&[no]));
        desk.run(&["prune", thread]).exits(0);
    }
    let sound = desk.run(&["doctor"]).exits(0).out;
    assert!(sound.contains("sound, 0 warnings, 0 notes"), "{sound}");
}

#[test]
fn a_failure_inside_is_told_where_it_was_and_what_is_open_there_is_shown() {
    let desk = desk();
    let nosuch = desk
        .run(&["run", "review", "--files", "nosuch.md"])
        .exits(2);
    assert!(
        nosuch.err.contains("nosuch.md cannot be read"),
        "{}",
        nosuch.err
    );
    let unknown = [&START[..], &["--crash-after", "nosuch"]].concat();
    let unknown = desk.run(&unknown).exits(2).err;
    assert!(
        unknown.contains("plan, check, find, look, ask, report"),
        "{unknown}"
    );
    let limited = [&START[..], &["--step-limit", "2", "--concurrency", "1"]].concat();
    desk.run(&limited).exits(4);
    let shown = desk.run(&["show", "t"]).exits(0).out;
    assert!(shown.contains("  inside  check after "), "{shown}");
    assert!(shown.contains("to run"), "{shown}");
}

#[test]
fn a_graph_is_shown_with_the_graphs_inside() {
    let desk = Desk::new();
    let shown = desk.run(&["graphs", "show", "review"]).exits(0).out;
    for part in [
        "check   subgraph, worker of Section, runs graph check",
        "inside of check: graph check",
        "asks Doubt, answered with Verdict",
        "Unsure  → ask",
        "fields of Check",
    ] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    let value = desk
        .run(&["--json", "graphs", "show", "review"])
        .exits(0)
        .value();
    let inner = &value["nodes"][1]["inner"];
    assert_eq!(
        (&inner["graph"], &inner["nodes"][2]["name"]),
        (&json!("check"), &json!("ask"))
    );
    assert_eq!(inner["edges"][1]["label"], "Links");
    assert_eq!(value["nodes"][0]["inner"], Value::Null);
}
