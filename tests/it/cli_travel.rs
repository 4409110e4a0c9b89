//! Time travel from the command line: each command says what happened and what to type next.

use serde_json::json;

use crate::cli_bin::{Desk, bakery};

/// The text says all of this.
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

/// A thread that has counted to 3: checkpoints 2, 4, 5 and 6.
fn counted() -> Desk {
    let desk = Desk::new();
    desk.run(&["run", "count", "--thread", "t"]).exits(0);
    desk
}

#[test]
fn a_fork_says_where_the_thread_stands_and_how_to_go_on() {
    let desk = counted();
    let forked = desk.run(&["fork", "t", "4"]).exits(0);
    says(
        &forked.out,
        &[
            "stands at checkpoint 4 (superstep 1) on branch 1; branch 0 stays as it is",
            "to run: tick",
            "next: milepost resume t",
        ],
    );
    says(
        &desk.run(&["threads"]).exits(0).out,
        &["paused", "superstep 1, branch 1"],
    );
    let shown = desk.run(&["show", "t"]).exits(0).out;
    says(
        &shown,
        &[
            "paused",
            "checkpoint 4, branch 1",
            "to run  tick",
            "did     tick\n",
        ],
    );
    let resumed = desk.run(&["resume", "t"]).exits(0).out;
    says(&resumed, &["resumed", "counted to 3"]);
    let shown = desk.run(&["show", "t"]).exits(0).out;
    says(&shown, &["did     tick ×3; 1 resume", "n "]);

    let table = desk.run(&["history", "t"]).exits(0).out;
    says(
        &table,
        &[
            "2 checkpoints of other branches are not listed",
            "history --all t",
        ],
    );
    let seqs = |words: &[&str]| -> Vec<u64> {
        let words = [&["history", "t", "--json"], words].concat();
        let values = desk.run(&words).exits(0).values();
        values
            .iter()
            .map(|value| value["seq"].as_u64().unwrap())
            .collect()
    };
    let own = seqs(&[]);
    assert_eq!((own.len(), &own[..2]), (4, &[2, 4][..]));
    assert_eq!(seqs(&["--all"]).len(), 6);
    let tree = desk.run(&["history", "t", "--tree"]).exits(0).out;
    says(&tree, &["├─ branch 1", "(the thread stands here)"]);

    let told = desk.run(&["events", "t"]).exits(0).out;
    says(&told, &["back to checkpoint 4, on branch 1"]);
    assert_eq!(told.matches("  tick ").count(), 3, "{told}");
    let old = desk
        .run(&["show", "t", "--at", "6", "--field", "n"])
        .exits(0)
        .out;
    assert_eq!(old.trim(), "3");
    let picture = desk.run(&["dot", "--run", "t", "--at", "6"]).exits(0).out;
    says(&picture, &["tick"]);
    says(&desk.run(&["doctor"]).exits(0).out, &["t"]);
}

#[test]
fn one_goes_back_and_elsewhere_and_nothing_is_lost() {
    let desk = counted();
    let value = desk.run(&["fork", "t", "5", "--json"]).exits(0).value();
    assert_eq!(
        value,
        json!({
            "thread": "t", "branch": 1, "from": 0, "seq": 5, "step": 2, "status": "paused",
            "next": [{"node": "tick", "tasks": 1}], "resume": "milepost resume t",
        })
    );
    let aside = desk.run(&["rewind", "t", "6"]).exits(2).err;
    says(
        &aside,
        &[
            "is on branch 0 and did not lead",
            "fork it",
            "next: milepost history --tree t",
        ],
    );
    desk.run(&["rewind", "t", "2"]).exits(0);
    desk.run(&["resume", "t"]).exits(0);
    let back = desk.run(&["switch", "t", "0"]).exits(0).out;
    says(
        &back,
        &[
            "checkpoint 6",
            "branch 2 stays as it is",
            "nothing is left to run",
            "show t",
        ],
    );
    says(&desk.run(&["resume", "t"]).exits(0).out, &["counted to 3"]);
    let end = desk.run(&["fork", "t", "6"]).exits(0).out;
    says(&end, &["nothing is left to run", "next: milepost show t"]);
    for (words, code, parts) in [
        (
            &["fork", "t", "3"][..],
            2,
            &["has no checkpoint 3; it has 2, 4, 5, 6", "history"][..],
        ),
        (&["fork", "t", "99"], 2, &["has no checkpoint 99"]),
        (&["fork", "t", "x"], 2, &["invalid value"]),
        (
            &["rewind", "nosuch", "2"],
            2,
            &["there is no thread nosuch"],
        ),
        (
            &["switch", "t", "7"],
            2,
            &["has no branch 7; it has 0, 1, 2, 3", "history --tree"],
        ),
        (&["replay", "nosuch"], 2, &["there is no thread nosuch"]),
    ] {
        says(&desk.run(words).exits(code).err, parts);
    }
    desk.run(&["prune", "t"]).exits(0);
    says(&desk.run(&["doctor"]).exits(0).out, &["t"]);
}

#[test]
fn a_patch_is_given_as_the_input_of_a_run_is() {
    let desk = counted();
    let patched = desk
        .run(&["patch", "t", "--n", "10", "--to", "12", "--exit", "Again"])
        .exits(0)
        .out;
    says(
        &patched,
        &[
            "patched as tick, which ran last",
            "superstep 4",
            "branch 1",
            "next: milepost resume t",
        ],
    );
    says(&desk.run(&["resume", "t"]).exits(0).out, &["counted to 12"]);
    let words = [
        "patch",
        "t",
        "--as",
        "tick",
        "--exit",
        "Enough",
        "--json",
        "--input",
        r#"{"n": 5}"#,
    ];
    let value = desk.run(&words).exits(0).value();
    assert_eq!(
        (&value["status"], &value["branch"]),
        (&json!("finished"), &json!(2))
    );
    let n = desk.run(&["show", "t", "--field", "n"]).exits(0).out;
    assert_eq!(n.trim(), "5");
    // Back to 0, both, then on from there.
    desk.run(&[
        "patch", "t", "--clear", "n", "--clear", "to", "--exit", "Again",
    ])
    .exits(0);
    says(&desk.run(&["resume", "t"]).exits(0).out, &["counted to 1"]);
    says(
        &desk.run(&["history", "t"]).exits(0).out,
        &["patch as tick"],
    );
    says(
        &desk.run(&["replay", "t"]).exits(0).out,
        &["nothing differs"],
    );

    let help = desk.run(&["patch", "t", "--help"]).exits(0).out;
    says(&help, &["[--as NODE] [--exit EXIT]", "--clear FIELD"]);
    let records = desk.run(&["threads", "--sizes", "--json"]).exits(0).value();
    for (words, parts) in [
        (
            &["patch", "t", "--n", "1"][..],
            &["by which exit is node \"tick\" left", "Again, Enough"][..],
        ),
        (
            &["patch", "t", "--n", "1", "--exit", "No"],
            &["has no exit \"No\""],
        ),
        (
            &["patch", "t", "--n", "1", "--as", "x"],
            &["does not have; it has \"tick\""],
        ),
        (&["patch", "t", "--n", "x", "--exit", "Again"], &["--n"]),
        (&["patch", "t", "--m", "1"], &["--m"]),
        (
            &["patch", "t", "--clear", "m"],
            &["there is no field m; there are n, to"],
        ),
        (&["patch", "t"], &["CHANGE"]),
        (
            &["patch", "nosuch", "--n", "1"],
            &["there is no thread nosuch"],
        ),
    ] {
        says(&desk.run(words).exits(2).err, parts);
    }
    let after = desk.run(&["threads", "--sizes", "--json"]).exits(0).value();
    assert_eq!(
        after["records"], records["records"],
        "what is refused stores nothing"
    );
}

/// An input closes no superstep of a node: the patch has to say as which node it is.
#[test]
fn a_patch_at_an_input_names_its_node() {
    let desk = counted();
    desk.run(&["fork", "t", "2"]).exits(0);
    let refused = desk
        .run(&["patch", "t", "--n", "1", "--exit", "Again"])
        .exits(2)
        .err;
    says(&refused, &["no node has run before", "--as NODE"]);
    let words = ["patch", "t", "--n", "1", "--exit", "Again", "--as", "tick"];
    says(
        &desk.run(&words).exits(0).out,
        &["patched as tick; it stands", "on branch 1\n"],
    );
}

/// The research graph decides by its state alone: a replay of a whole run finds nothing.
#[test]
fn a_replay_of_the_research_graph_is_silent() {
    let desk = Desk::new();
    let words = [
        "run",
        "research",
        "--thread",
        "r",
        "--docs",
        &bakery(),
        "--question",
        "rye",
    ];
    let ran = desk.run(&words);
    assert!(
        ran.code.is_some_and(|code| code == 0 || code == 3),
        "{}{}",
        ran.out,
        ran.err
    );
    let value = desk.run(&["replay", "r", "--json"]).exits(0).value();
    assert_eq!(value["differences"], json!([]));
    assert!(value["checkpoints"].as_u64() > Some(3), "{value}");
}
