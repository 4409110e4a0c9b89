//! Questions and waits by the commands: what is asked is shown with how to answer it, and what is
//! due is woken.

use std::fs;

use serde_json::Value;

use crate::cli_bin::Desk;

/// A folder with one document, and a thread that waits for a person because it was rewritten under
/// the report.
fn waiting(desk: &Desk) -> String {
    fs::create_dir(desk.path("docs")).unwrap();
    let text = "Bread is made of flour. Flour is milled from wheat.";
    fs::write(desk.path("docs/bread.md"), text).unwrap();
    let start = [
        "run",
        "research",
        "--question",
        "What is flour?",
        "--docs",
        "docs",
        "--out",
        "report.md",
        "--thread",
        "t",
        "--pause-after",
        "report",
    ];
    let paused = desk.run(&start).exits(3);
    assert!(
        paused.out.contains("paused, as was asked for"),
        "{}",
        paused.out
    );
    assert!(
        paused.out.contains("next: milepost resume t"),
        "{}",
        paused.out
    );
    fs::write(desk.path("docs/bread.md"), "Rewritten.").unwrap();
    text.to_owned()
}

#[test]
fn a_question_is_shown_with_how_to_answer_it_everywhere() {
    let desk = Desk::new();
    waiting(&desk);
    let asked = desk.run(&["resume", "t"]).exits(3);
    let next = "next: milepost answer t publish";
    for part in ["waits for an answer", "asks verdict: {\"faults\":", next] {
        assert!(asked.out.contains(part), "no {part:?} in {}", asked.out);
    }
    for command in [&["questions"][..], &["questions", "t"], &["show", "t"]] {
        let shown = desk.run(command).exits(0).out;
        assert!(
            shown.contains("asks verdict") && shown.contains(next),
            "{shown}"
        );
    }
    let value = desk.run(&["--json", "questions"]).exits(0).value();
    assert_eq!(value["key"], "verdict");
    assert_eq!(value["node"], "review");
    assert!(
        value["id"]
            .as_str()
            .unwrap()
            .ends_with(":review[0].verdict"),
        "{value}"
    );
    let report = desk.run(&["--json", "resume", "t"]).exits(3).values();
    let report = report.last().unwrap();
    assert_eq!(
        (&report["status"], &report["exit"]),
        (&Value::from("paused"), &Value::from(3))
    );
    assert_eq!(report["questions"][0]["id"], value["id"]);
    let threads = desk.run(&["threads", "--status", "paused"]).exits(0).out;
    assert!(threads.starts_with("t "), "{threads}");
    let other = [
        "run",
        "research",
        "--question",
        "x",
        "--docs",
        "docs",
        "--thread",
        "t",
    ];
    let refused = desk.run(&other).exits(2);
    assert!(refused.err.contains("waits for answers"), "{}", refused.err);
}

#[test]
fn an_answer_is_typed_piped_or_read_from_a_file_and_taken_once() {
    for how in [
        &["answer", "t", "publish"][..],
        &["answer", "t", "verdict", "publish"],
        &["answer", "t", "@answer.json"],
    ] {
        let desk = Desk::new();
        waiting(&desk);
        fs::write(desk.path("answer.json"), "\"publish\"\n").unwrap();
        desk.run(&["resume", "t"]).exits(3);
        let done = desk.run(how).exits(0);
        assert!(
            done.out.contains("verdict is answered: \"publish\""),
            "{}",
            done.out
        );
        assert!(desk.path("report.md").exists());
        let events = desk.run(&["events", "t"]).exits(0).out;
        assert!(
            events.contains("asks verdict") && events.contains("is answered"),
            "{events}"
        );
        let again = desk.run(&["answer", "t", "refuse"]).exits(2);
        assert!(again.err.contains("no open question"), "{}", again.err);
        assert!(
            desk.run(&["questions"])
                .exits(0)
                .out
                .contains("Nothing waits")
        );
    }
}

#[test]
fn what_is_no_answer_is_refused_and_the_question_stays_open() {
    let desk = Desk::new();
    let text = waiting(&desk);
    desk.run(&["resume", "t"]).exits(3);
    for (words, said) in [
        (
            &["answer", "t", "maybe"][..],
            r#""publish", "check", "refuse" is expected"#,
        ),
        (&["answer", "t", "{"], "still open"),
        (
            &["answer", "t", "nosuch", "publish"],
            "no open question nosuch",
        ),
        (
            &["answer", "t", "@nosuch.json"],
            "nosuch.json cannot be read",
        ),
        (&["answer", "t"], "what is the answer?"),
        (&["answer", "nosuch", "publish"], "no thread nosuch"),
        (&["questions", "nosuch"], "no thread nosuch"),
    ] {
        let refused = desk.run(words).exits(2);
        assert!(refused.err.contains(said), "no {said:?} in {}", refused.err);
        assert!(refused.err.contains("next: milepost"), "{}", refused.err);
    }
    // Another look at the documents, which are put right.
    fs::write(desk.path("docs/bread.md"), text).unwrap();
    let done = desk.run(&["answer", "t", "check"]).exits(0);
    assert!(done.out.contains("Hold → save"), "{}", done.out);
    let graph = desk.run(&["graphs", "show", "research"]).exits(0).out;
    assert!(graph.contains("asks Review"), "{graph}");
}

/// `worker` and `resume --due` take up what a dead process has left, and nothing else.
#[test]
fn what_was_left_behind_is_taken_up_once() {
    for command in [&["resume", "--due"][..], &["worker", "--once"]] {
        let desk = Desk::new();
        for (name, more) in [
            ("done", &[][..]),
            ("limited", &["--step-limit", "1"]),
            ("left", &["--crash-after", "tick"]),
            ("also", &["--crash-after", "tick"]),
        ] {
            let words = [&["run", "count", "--to", "300", "--thread", name], more];
            desk.run(&words.concat());
        }
        let told = desk.run(command).exits(0).out;
        for name in ["left", "also"] {
            let goes_on =
                format!("thread {name} of graph count goes on: it was left in its middle");
            assert!(told.contains(&goes_on), "{told}");
        }
        assert!(!told.contains("limited of graph"), "{told}");
        let threads = desk.run(&["threads"]).exits(0).out;
        assert_eq!(threads.matches("finished").count(), 3, "{threads}");
        let told = desk.run(command).exits(0).out;
        assert_eq!(told, "");
    }
}

#[test]
fn a_pause_at_a_node_that_is_not_there_is_refused_with_the_known_ones() {
    let desk = Desk::new();
    for flag in ["--pause-before", "--pause-after"] {
        let refused = desk.run(&["run", "count", flag, "tick,nosuch"]).exits(2);
        assert!(
            refused.err.contains("\"nosuch\"") && refused.err.contains("tick"),
            "{}",
            refused.err
        );
    }
    let paused = desk
        .run(&["run", "count", "--thread", "t", "--pause-before", "tick"])
        .exits(3);
    assert!(
        paused.out.contains("next: milepost resume t"),
        "{}",
        paused.out
    );
}
