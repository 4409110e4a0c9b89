//! The doctor says what is wrong, where, and what to do; and changes nothing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command};

use milepost::cli::{Entry, Input, InputError};
use milepost::store::ThreadKey;
use milepost::{Add, BuildError, Context, End, Graph, NodeError, Snapshot, State, ThreadId, cli};
use serde_json::{Value, json};

use crate::cli_bin::{Desk, Ran};

fn desk() -> Desk {
    let desk = Desk::new();
    for (thread, exit) in [("a", 0), ("b", 4), ("c", 0)] {
        let words = ["run", "count", "--to", "5", "--thread", thread];
        let limit: &[&str] = if exit == 4 {
            &["--step-limit", "2"]
        } else {
            &[]
        };
        desk.run(&[&words[..], limit].concat()).exits(exit);
    }
    desk
}

/// Changes rows of a thread past the store. The class of records is 3.
fn alter(desk: &Desk, thread: &str, class: u8, change: impl Fn(&mut Vec<u8>)) {
    let db = sled::open(desk.path("mileposts")).unwrap();
    let thread = ThreadId::new(thread).unwrap();
    let mut prefix = ThreadKey::of(&thread).as_bytes().to_vec();
    prefix.push(class);
    let rows: Vec<_> = db.scan_prefix(prefix).map(Result::unwrap).collect();
    assert!(!rows.is_empty());
    for (key, row) in rows.into_iter().skip(usize::from(class == 3)).take(1) {
        let mut row = row.to_vec();
        change(&mut row);
        db.insert(key, row).unwrap();
    }
    db.flush().unwrap();
}

fn findings(values: &[Value]) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let found = values.iter().filter(|value| value["type"] == "finding");
    found
        .map(|one| {
            (
                text(&one["severity"]),
                text(&one["thread"]),
                text(&one["place"]),
            )
        })
        .collect()
}

#[test]
fn a_sound_store_is_told_with_its_sizes() {
    let desk = desk();
    let told = desk.run(&["doctor"]).exits(0);
    for part in [
        "store mileposts: opened in ",
        " bytes on disk, ",
        "3 threads (2 finished, 1 limited), 22 records",
        "sound, 0 warnings, 0 notes",
    ] {
        assert!(told.out.contains(part), "no {part:?} in {}", told.out);
    }
    let values = desk.run(&["doctor", "--json"]).exits(0).values();
    assert_eq!(findings(&values), []);
    let summary = values.last().unwrap();
    assert_eq!(summary["type"], "summary");
    assert_eq!(summary["statuses"], json!({"finished": 2, "limited": 1}));
    assert!(summary["disk_bytes"].as_u64() > Some(1_000), "{summary}");
    assert!(summary["value_bytes"].as_u64() > Some(10), "{summary}");
    let one = desk.run(&["doctor", "--thread", "b"]).exits(0).out;
    assert!(one.contains("1 thread (1 limited), 6 records"), "{one}");
    let unknown = desk.run(&["doctor", "--thread", "nosuch"]).exits(2);
    assert!(unknown.err.contains("no thread nosuch"), "{}", unknown.err);
    let early = Desk::new();
    assert!(early.run(&["doctor"]).exits(2).err.contains("no store"));
}

#[test]
fn damage_is_found_where_it_is_and_the_other_threads_are_checked() {
    for (class, place) in [(0, "store"), (1, "thread"), (3, "record 2"), (5, "thread")] {
        let desk = desk();
        alter(&desk, "b", class, |row| *row.last_mut().unwrap() ^= 1);
        let before = fs::read(desk.path("mileposts/db")).unwrap();
        let values = desk.run(&["doctor", "--json"]).exits(8).values();
        let thread = if class == 0 { "-" } else { "b" };
        let expected = ("error".to_owned(), thread.to_owned(), place.to_owned());
        assert_eq!(findings(&values), [expected], "class {class}");
        assert!(
            values[0]["next"]
                .as_str()
                .unwrap()
                .to_lowercase()
                .contains("copy the store's folder"),
            "{}",
            values[0]
        );
        let summary = values.last().unwrap();
        assert_eq!(summary["statuses"]["finished"], 2, "{summary}");
        assert_eq!(
            (&summary["errors"], &summary["exit"]),
            (&json!(1), &json!(8))
        );
        let told = desk.run(&["doctor"]).exits(8);
        assert!(told.out.starts_with("error    "), "{}", told.out);
        assert!(told.out.contains("checksum"), "{}", told.out);
        assert!(
            told.out.to_lowercase().contains("copy the store's folder"),
            "{}",
            told.out
        );
        // Nothing is repaired: the bytes of the log are those of before.
        let after = fs::read(desk.path("mileposts/db")).unwrap();
        assert!(after.starts_with(&before[..before.len().min(10_000)]));
        // The others can be saved, and the damaged one is said to be left out.
        let saved = desk
            .run(&["export", "--all", "--out", "all.jsonl"])
            .exits(8);
        assert!(saved.err.contains("was left out"), "{}", saved.err);
        assert!(saved.err.contains("next: milepost doctor"), "{}", saved.err);
        let told = desk
            .run(&["--store", "new", "import", "all.jsonl"])
            .exits(0);
        assert!(told.out.contains("thread a is"), "{}", told.out);
        assert!(told.out.contains("thread c is"), "{}", told.out);
        assert!(!told.out.contains("thread b is"), "{}", told.out);
        if class != 0 {
            let lone = desk.run(&["export", "b"]).exits(8);
            assert_eq!(lone.out, "", "nothing is exported");
            let only = desk.run(&["doctor", "--thread", "b"]).exits(8);
            assert!(only.out.contains("1 error"), "{}", only.out);
            desk.run(&["delete", "b"]).exits(0);
            desk.run(&["doctor"]).exits(0);
        }
    }
}

#[test]
fn a_store_that_does_not_open_is_told_in_the_same_form() {
    let desk = desk();
    fs::write(desk.path("mileposts/db"), "").unwrap();
    let values = desk.run(&["doctor", "--json"]).exits(8).values();
    let expected = ("error".to_owned(), "-".to_owned(), "store".to_owned());
    assert_eq!(findings(&values), [expected]);
    assert!(values[0]["what"].as_str().unwrap().contains("db is empty"));
    assert_eq!(values[1]["exit"], 8);
    let told = desk.run(&["doctor"]).exits(8).out;
    assert!(told.contains("store mileposts: not opened"), "{told}");
}

/// Starts a run that goes on for long, and waits until it holds the store.
fn busy(desk: &Desk, pace: &str) -> (Child, BufReader<ChildStdout>) {
    let slow = [
        "run",
        "count",
        "--to",
        "100000",
        "--thread",
        "t",
        "--pace",
        pace,
        "--json",
        "--step-limit",
        "100000",
    ];
    let mut child = desk.start(&slow);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    (child, out)
}

#[test]
fn a_store_in_use_is_checked_and_exported_through_the_process_that_has_it() {
    let desk = desk();
    let (mut child, _out) = busy(&desk, "1h");
    let values = desk.run(&["doctor", "--json"]).exits(0).values();
    assert_eq!(findings(&values), []);
    assert_eq!(values[0]["statuses"]["running"], 1, "{}", values[0]);
    assert_eq!(values[0]["threads"], 4);
    let all = ["export", "--all", "--out", "all.jsonl"];
    assert!(desk.run(&all).exits(0).out.contains("4 threads"));
    assert!(child.try_wait().unwrap().is_none(), "the run goes on");
    child.kill().unwrap();
    child.wait().unwrap();
    desk.run(&["--store", "new", "import", "all.jsonl"])
        .exits(0);
    let told = desk.run(&["--store", "new", "doctor"]).exits(0).out;
    assert!(told.contains("4 threads"), "{told}");
}

#[test]
fn what_is_being_written_is_no_damage() {
    let desk = Desk::new();
    let (mut child, out) = busy(&desk, "1ms");
    // Whoever writes must be read.
    let reader = std::thread::spawn(move || out.lines().count());
    let mut records = 0;
    for time in 0..20 {
        let values = desk.run(&["doctor", "--json"]).exits(0).values();
        let summary = values.last().unwrap();
        // That older checkpoints can be pruned is a note, and true.
        assert_eq!(
            (&summary["errors"], &summary["warnings"]),
            (&json!(0), &json!(0))
        );
        let seen = summary["records"].as_u64().unwrap();
        assert!(seen > records, "nothing was written between two looks");
        records = seen;
        if time % 5 == 0 {
            let file = format!("{time}.jsonl");
            desk.run(&["export", "t", "--out", &file]).exits(0);
            let store = format!("store{time}");
            desk.run(&["--store", &store, "import", &file]).exits(0);
            let sound = desk.run(&["--store", &store, "doctor"]).exits(0).out;
            assert!(sound.contains("sound, 0 warnings"), "{sound}");
        }
    }
    assert!(child.try_wait().unwrap().is_none(), "the run goes on");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(reader.join().unwrap() > 20);
}

/// What is known, as another version of the program has it.
mod newer {
    use super::*;

    #[derive(Clone, Debug, Default, State)]
    pub(super) struct Count {
        pub(super) n: u64,
        pub(super) to: String,
        #[reduce(Add)]
        pub(super) seen: u64,
    }

    #[derive(clap::Args)]
    pub(super) struct CountArgs {}

    impl Input for CountArgs {
        type State = Count;
        fn input(self) -> Result<CountUpdate, InputError> {
            Ok(Count::update())
        }
    }

    pub(super) fn graph(node: &str) -> Result<Graph<Count>, BuildError> {
        let mut g = Graph::builder("count");
        let one = g.node(node, async |_: Snapshot<Count>, _: Context| {
            Ok::<_, NodeError>(Count::update().n(1))
        });
        g.start(one);
        g.edge(one, End);
        g.build()
    }
}

/// Set for a child: the node of its graph, and the words of its command.
const CHILD: &str = "MILEPOST_TEST_PROGRAM";

/// Another program: its graph has the name of ours, this node, and another state.
fn program(desk: &Desk, node: &str, words: &str) -> Ran {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "cli_doctor::a_program"])
        .env(CHILD, format!("{node} {words}"))
        .current_dir(desk.path(""))
        .output()
        .unwrap()
        .into()
}

/// What [`program`] runs: no test of its own.
#[test]
fn a_program() {
    let Ok(said) = std::env::var(CHILD) else {
        return;
    };
    let mut words = said.split(' ');
    let entries = match words.next() {
        Some("-") | None => Vec::new(),
        Some(node) => vec![Entry::new::<newer::CountArgs>(newer::graph(node))],
    };
    let exit = cli::run(entries, ["other"].into_iter().chain(words));
    std::process::exit(exit.code().into());
}

/// What a program says of a desk's store: severity, thread, place.
fn doctored(desk: &Desk, node: &str, exit: i32) -> Vec<(String, String, String)> {
    let ran = program(desk, node, "doctor --json").exits(exit);
    let lines = ran.out.lines().filter(|line| line.starts_with('{'));
    let values: Vec<_> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last: &Value = values.last().unwrap();
    assert_eq!(last["exit"], exit);
    findings(&values)
}

#[test]
fn what_does_not_fit_the_graph_at_hand_is_told_and_is_no_damage() {
    let desk = desk();
    let of = |thread: &str, usable: &str| -> Vec<(String, String, String)> {
        let mut found = vec![
            ("warning", "graph"),
            (usable, "field to"),
            ("warning", "field seen"),
            ("warning", "field blocked_by"),
        ];
        if usable == "error" {
            found.push(("error", "record 5"));
        }
        let told = |(severity, place): (&str, &str)| {
            (severity.to_owned(), thread.to_owned(), place.to_owned())
        };
        found.into_iter().map(told).collect()
    };
    // What is limited cannot go on; of the finished ones nothing runs any more.
    let all = [of("a", "warning"), of("b", "error"), of("c", "warning")].concat();
    assert_eq!(doctored(&desk, "one", 1), all);
    let told = program(&desk, "one", "doctor --thread b").exits(1).out;
    for part in [
        "field to: it was stored as u64 (codec 1), the graph has str (codec 1)",
        "node \"tick\" is to run next, and the graph has none of that name; it has one",
        "resume it with the program that wrote it",
        "2 errors, 3 warnings, 0 notes",
    ] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    desk.run(&["resume", "b"]).exits(0);
    assert_eq!(doctored(&desk, "one", 0)[4..8], of("b", "warning"));
    let notes = doctored(&desk, "-", 0);
    let note = |thread: &str| ("note".to_owned(), thread.to_owned(), "graph".to_owned());
    assert_eq!(notes, ["a", "b", "c"].map(note));
}

#[test]
fn another_version_of_a_graph_that_fits_is_a_warning() {
    let desk = Desk::new();
    program(&desk, "one", "run count --thread t").exits(0);
    assert_eq!(doctored(&desk, "one", 0), []);
    let graph = ("warning".to_owned(), "t".to_owned(), "graph".to_owned());
    assert_eq!(doctored(&desk, "two", 0), [graph]);
}
