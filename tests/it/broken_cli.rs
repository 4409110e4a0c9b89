//! Awkward words: names that look like flags or have several lines, and what the help says.

use crate::cli_bin::Desk;

/// What is said to be typed next can be typed, whatever the thread is called.
#[test]
fn the_command_that_goes_on_works_for_a_name_like_a_flag() {
    for name in ["-x", "--help", "--", "it's", "two\nlines", "日本"] {
        let desk = Desk::new();
        let thread = format!("--thread={name}");
        let ran = desk.run(&["run", "count", "--step-limit", "1", &thread]);
        let ran = ran.exits(4);
        let (_, next) = ran.out.split_once("  next: milepost ").unwrap();
        assert_eq!(
            ran.out
                .matches("stopped at its limit of 1 superstep;")
                .count(),
            1
        );
        // As a shell does it, with the program at hand.
        let line = format!("\"$0\" {next}");
        let program = env!("CARGO_BIN_EXE_milepost");
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", &line, program])
            .current_dir(desk.path(""))
            .env_remove("MILEPOST_STORE");
        let typed = shell.output().unwrap();
        let said = String::from_utf8_lossy(&typed.stdout);
        assert!(said.contains("counted to 3"), "{name:?}: {line}: {typed:?}");
    }
}

#[test]
fn a_thread_takes_one_line_whatever_its_name() {
    let desk = Desk::new();
    desk.run(&["run", "count", "--thread", "two\nlines"])
        .exits(0);
    let threads = desk.run(&["threads"]).exits(0);
    assert_eq!(threads.out.lines().count(), 1, "{}", threads.out);
    assert!(threads.out.starts_with("two\\nlines "), "{}", threads.out);
    for command in ["show", "events"] {
        let ran = desk.run(&[command, "two\nlines"]).exits(0);
        assert!(ran.out.starts_with("thread two\\nlines"), "{}", ran.out);
    }
    let ran = desk.run(&["show", "nosuch"]).exits(2);
    assert!(ran.err.contains("the store has two\\nlines"), "{}", ran.err);
}

#[test]
fn help_says_of_each_graph_what_it_is_for() {
    let desk = Desk::new();
    let help = desk.run(&["run", "--help"]).exits(0);
    for says in ["Count to a number", "Answer a question"] {
        assert!(help.out.contains(says), "no {says:?} in {}", help.out);
    }
    let count = desk.run(&["run", "count", "--help"]).exits(0);
    assert!(count.out.starts_with("Count to a number"), "{}", count.out);
}
