//! An irreversible node of a program that dies in its middle, by the commands.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use milepost::cli::{self, Entry};
use milepost::{
    BuildError, Context, Effect, End, Exits, Graph, NodeError, Policy, Snapshot, State,
};

use crate::cli_bin::Ran;

/// Set for the child: its words.
const WORDS: &str = "MILEPOST_TEST_EFFECTS";
/// Stands before what the program itself says.
const BEGIN: &str = "-- here the program begins --\n";
/// Where this file is, the process dies in the middle of paying.
const BOMB: &str = "bomb";

#[derive(Clone, Debug, Default, State)]
struct Bill {
    paid: String,
}

#[derive(Clone, Copy, Exits)]
enum Paid {
    Whole,
    Part,
}

fn graph() -> Result<Graph<Bill>, BuildError> {
    let mut g = Graph::builder("bill");
    let pay = g.node("pay", async |_: Snapshot<Bill>, cx: Context| {
        if Path::new(BOMB).exists() {
            // As after a kill: nothing is put in order.
            std::process::abort();
        }
        let paid = format!("{:?}", cx.after_crash());
        Ok::<_, NodeError>((Bill::update().paid(paid), Paid::Whole))
    });
    g.policy(pay, Policy::default().effect(Effect::Irreversible));
    let thank = g.node("thank", async |_: Snapshot<Bill>, _: Context| {
        Ok::<_, NodeError>(Bill::update())
    });
    g.start(pay);
    g.wire(pay, |paid| match paid {
        Paid::Whole => thank.into(),
        Paid::Part => End.into(),
    });
    g.edge(thank, End);
    g.build()
}

/// Not a test of its own: the program, where it was started as such.
#[test]
fn program() {
    let Ok(words) = std::env::var(WORDS) else {
        return;
    };
    let mut out = std::io::stdout();
    out.write_all(BEGIN.as_bytes()).unwrap();
    let words = ["pay"].into_iter().chain(words.split('\u{1f}'));
    let exit = cli::run([Entry::of(graph())], words);
    std::process::exit(exit.code().into());
}

fn ran(folder: &Path, words: &[&str]) -> Ran {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "cli_effects::program"])
        .env(WORDS, words.join("\u{1f}"))
        .env_remove("MILEPOST_STORE")
        .env_remove("MILEPOST_LOG")
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut ran = Ran::from(child);
    let (_, said) = ran.out.split_once(BEGIN).unwrap();
    ran.out = said.to_owned();
    ran
}

/// A folder with a thread whose process died while it paid, and which was taken up since.
fn died() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join(BOMB), "").unwrap();
    let died = ran(path, &["run", "bill", "--thread", "t"]);
    assert!(!matches!(died.code, Some(0 | 3)), "{died:?}");
    // It is not run again, or the process would die again.
    let asked = ran(path, &["resume", "t"]).exits(3);
    for part in [
        "1:pay[0] asks @after_crash",
        "\"Whole\",\"Part\"",
        "one of \"ran\", {\"ran_by\": …}, \"did_not_run\", \"again\"",
    ] {
        assert!(asked.out.contains(part), "no {part:?} in {}", asked.out);
    }
    let told = ran(path, &["events", "t"]).exits(0).out;
    assert!(told.contains("1  pay  begins, irreversible"), "{told}");
    std::fs::remove_file(path.join(BOMB)).unwrap();
    folder
}

#[test]
fn a_process_that_dies_in_an_irreversible_node_is_asked_about_by_the_commands() {
    for (answer, end, state) in [
        (&["did_not_run"][..], "pay", "Some(DidNotRun)"),
        (&["@after_crash", "again"], "pay", "Some(Again)"),
        (&["{\"ran_by\": \"Whole\"}"], "thank", ""),
        (
            &["1:pay[0].@after_crash", "{\"ran_by\": \"Part\"}"],
            "Part",
            "",
        ),
    ] {
        let folder = died();
        let path = folder.path();
        let shown = ran(path, &["questions"]).exits(0).out;
        assert!(shown.contains("asks @after_crash"), "{shown}");
        let next = "pay answer t '{\"ran_by\":\"Whole\"}'";
        assert!(shown.contains(next), "{shown}");
        let refused = ran(path, &["answer", "t", "ran"]).exits(2);
        let why = "by which exit is node \"pay\" left?; it has Whole, Part";
        assert!(refused.err.contains(why), "{}", refused.err);
        let wrong = ran(path, &["answer", "t", "perhaps"]).exits(2);
        assert!(wrong.err.contains("did_not_run"), "{}", wrong.err);
        let done = ran(path, &[&["answer", "t"], answer].concat()).exits(0);
        assert!(done.out.contains(end), "{}", done.out);
        let shown = ran(path, &["--json", "show", "t"]).exits(0).value();
        assert_eq!(shown["state"]["paid"], state, "{shown}");
        ran(path, &["doctor"]).exits(0);
        ran(path, &["export", "--all", "--out", "all.jsonl"]).exits(0);
        ran(path, &["--store", "other", "import", "all.jsonl"]).exits(0);
        ran(path, &["replay", "t"]).exits(0);
    }
}

#[test]
fn the_effect_of_a_node_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let shown = ran(folder.path(), &["graphs", "show", "bill"]).exits(0).out;
    assert!(shown.contains("function, irreversible"), "{shown}");
    let value = ran(folder.path(), &["--json", "graphs", "show", "bill"])
        .exits(0)
        .value();
    assert_eq!(value["nodes"][0]["policy"]["effect"], "irreversible");
    assert!(value["nodes"][0]["policy"]["idle_timeout_ms"].is_null());
    let drawn = ran(folder.path(), &["dot", "bill", "--format", "svg"])
        .exits(0)
        .out;
    assert!(drawn.contains("irreversible"), "{drawn}");
}
