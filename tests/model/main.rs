//! Random graphs, driven in random ways, against a reference that is computed from their definition
//! alone.
//!
//! A case is plain data: a graph, and the numbers by which it is driven (doors, stores, delays,
//! limits, pauses, answers, kills, forks). `interpreter.rs` says what must come of it. A case that
//! fails is made smaller and printed as JSON; kept in `cases/`, it is a test for ever.
//!
//! `MILEPOST_MODEL_CASES=20000` plays more cases, `MILEPOST_MODEL_SEED=7` others,
//! `MILEPOST_MODEL_FROM=500` those from one on.

#![cfg(feature = "sled")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod book;
mod compiled;
mod draw;
mod interpreter;
mod lives;
mod mortal;
mod place;
mod plan;
mod ride;
mod tape;
mod world;

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use plan::Case;
use ride::{Went, ride};
use tape::{Random, shrink};

/// How many cases there are where nobody says.
const CASES: usize = 600;

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |number| number.parse().unwrap())
}

/// Rows of a seed: small graphs first.
fn rows(seed: usize, number: usize) -> Vec<Vec<u32>> {
    let mut random = Random::new(((seed as u64) << 32) | number as u64);
    let nodes = 1 + number % 9;
    let mut rows = random.rows(1, 400);
    rows.extend(random.rows(1 + nodes, 130));
    rows
}

fn fails(rows: &[Vec<u32>]) -> Option<(Case, String)> {
    let case = draw::case(rows);
    match ride(&case) {
        Went::Wrong(wrong) => Some((case, wrong)),
        Went::Well | Went::Refused => None,
    }
}

/// C11, C13, C16, C17, C23, C28, C61, C64: whatever the graph, the door, the store, the delays, the
/// answers and the kills, a thread ends in the state that the definition gives.
#[test]
fn random_graphs_end_as_the_reference_says() {
    let (cases, seed) = (
        number("MILEPOST_MODEL_CASES", CASES),
        number("MILEPOST_MODEL_SEED", 1),
    );
    let (next, refused) = (
        AtomicUsize::new(number("MILEPOST_MODEL_FROM", 0)),
        AtomicUsize::new(0),
    );
    let broken = std::sync::Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= cases || broken.lock().unwrap().is_some() {
                        return;
                    }
                    let rows = rows(seed, number);
                    match ride(&draw::case(&rows)) {
                        Went::Well => {}
                        Went::Refused => drop(refused.fetch_add(1, Ordering::SeqCst)),
                        Went::Wrong(wrong) => {
                            broken.lock().unwrap().get_or_insert((number, rows, wrong));
                        }
                    }
                }
            });
        }
    });
    if let Some((number, rows, first)) = broken.into_inner().unwrap() {
        // It may take minutes to make it smaller, and whoever waits may not.
        let _ = writeln!(std::io::stderr(), "case {number}: {first}");
        let small = shrink(rows, 3_000, |rows| fails(rows).is_some());
        let (case, wrong) = fails(&small).unwrap_or_else(|| (draw::case(&small), first.clone()));
        let json = serde_json::to_string(&case).unwrap();
        panic!(
            "case {number}: {first}\n\nsmaller: {wrong}\nkeep this in tests/model/cases:\n{json}"
        );
    }
    let refused = refused.into_inner();
    assert!(
        refused * 3 < cases.max(30),
        "{refused} of {cases} graphs are refused"
    );
}

/// What was found once.
#[test]
fn every_kept_case_ends_as_the_reference_says() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model/cases");
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let case = std::fs::read_to_string(&path).unwrap();
        let case: Case = serde_json::from_str(&case).unwrap();
        let went = ride(&case);
        if went != Went::Well {
            wrong.push(format!("{}: {went:?}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
