//! Threads of older programs, from the command line: what is said of them, and how they go on (C53,
//! S050).

use std::process::Command;

use milepost::cli::Entry;
use milepost::{Append, Context, End, Graph, NodeError, Snapshot, State, cli};

use crate::cli_bin::{Desk, Ran};

#[derive(Clone, Debug, Default, State)]
struct OrderV1 {
    #[reduce(Append)]
    lines: Vec<String>,
    price: String,
}

#[derive(Clone, Debug, Default, State)]
#[state(version = 2, migrate = from_v1)]
struct Order {
    #[reduce(Append)]
    #[field(alias = lines)]
    entries: Vec<String>,
    cents: u64,
}

fn from_v1(old: OrderV1) -> Result<Order, NodeError> {
    Ok(Order {
        cents: old.price.parse::<u64>()? * 100,
        entries: old.lines,
    })
}

/// Two nodes, one after the other; the second has another name in the second release.
macro_rules! entry {
    ($state:ty, $field:ident, $last:literal) => {{
        let mut g = Graph::<$state>::builder("order");
        let note = |name: &'static str| {
            move |_: Snapshot<$state>, _: Context| async move {
                Ok::<_, NodeError>(<$state>::update().$field(vec![name.to_owned()]))
            }
        };
        let first = g.node("first", note("first"));
        let last = g.node($last, note($last));
        g.start(first);
        g.edge(first, last);
        g.edge(last, End);
        Entry::of(g.build())
    }};
}

/// Set for a child: the release, and the words of its command.
const CHILD: &str = "MILEPOST_TEST_RELEASE";

fn program(desk: &Desk, release: &str, words: &str) -> Ran {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "cli_versions::a_program"])
        .env(CHILD, format!("{release} {words}"))
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
    let entry = match words.next() {
        Some("1") => entry!(OrderV1, lines, "last"),
        Some("2") => entry!(Order, entries, "last"),
        _ => entry!(Order, entries, "end"),
    };
    let exit = cli::run([entry], ["other"].into_iter().chain(words));
    std::process::exit(exit.code().into());
}

#[track_caller]
fn says(ran: &Ran, parts: &[&str]) {
    let told = format!("{}{}", ran.out, ran.err);
    for part in parts {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
}

#[test]
fn a_thread_of_an_older_program_is_lifted_and_told() {
    let desk = Desk::new();
    let start = "run order --price 7 --thread t --step-limit 1";
    program(&desk, "1", start).exits(4);
    says(
        &program(&desk, "2", "doctor").exits(0),
        &["it was written with version 1 of the state, the graph has version 2"],
    );
    says(&program(&desk, "2", "show t").exits(0), &["cents", "700"]);
    // Nothing of that has touched it.
    says(&program(&desk, "1", "show t").exits(0), &["price"]);
    let pinned = program(&desk, "2", "resume t --pin").exits(1);
    says(
        &pinned,
        &[
            "another version of its graph",
            "field \"price\" is gone",
            "without --pin",
        ],
    );
    program(&desk, "2", "resume t").exits(0);
    says(&program(&desk, "2", "show t").exits(0), &["first", "last"]);
    says(&program(&desk, "2", "diff t 2 8").exits(0), &["entries"]);
    program(&desk, "2", "history t").exits(0);
    says(
        &program(&desk, "2", "replay t").exits(0),
        &["older version"],
    );
    let found = program(&desk, "2", "doctor").exits(0);
    says(&found, &["0 warnings"]);
    let newer = program(&desk, "1", "show t").exits(0);
    says(&newer, &["version 2", "version 1"]);
    says(&program(&desk, "1", "doctor").exits(0), &["version 2"]);
}

#[test]
fn a_node_that_is_gone_is_told_before_and_when_it_is_needed() {
    let desk = Desk::new();
    program(&desk, "2", "run order --thread t --step-limit 1").exits(4);
    let doctor = program(&desk, "3", "doctor").exits(1);
    says(
        &doctor,
        &[
            "node \"last\" is gone; node \"end\" is new",
            "node \"last\" is to run next",
        ],
    );
    let resumed = program(&desk, "3", "resume t").exits(1);
    says(&resumed, &["is to go on at node \"last\""]);
    program(&desk, "2", "resume t --pin").exits(0);
}
