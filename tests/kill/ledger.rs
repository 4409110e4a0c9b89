//! How many kills there must be, so that their number is no claim.

use std::io::Write as _;

/// How many kills each test makes at least, in an ordinary run.
const FLOORS: &[(&str, usize)] = &[
    ("chain", 60),
    ("diamond", 48),
    ("fan", 50),
    ("branch", 10),
    ("empty", 45),
    ("long", 50),
    ("mixed", 65),
    ("stumble", 50),
    ("runs", 180),
    ("crowd", 130),
    ("creep", 90),
    ("inside", 20),
    ("random", 60),
    ("delete", 20),
    ("copy", 20),
    ("restore", 20),
    ("prune", 20),
    ("poison", 7),
    ("asking", 350),
    ("stepping", 60),
    ("sleeping", 150),
    ("expiring", 150),
    ("failing", 80),
    ("inside", 100),
    ("joining", 150),
    ("abandoned", 250),
    ("travelling", 600),
    ("scripts", 90),
];

/// Says how many kills a test made; fails if they were too few.
pub(crate) fn made(test: &str, kills: usize) {
    let line = format!("kills {test} {kills}\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
    let floor = FLOORS.iter().find(|(name, _)| *name == test);
    let (_, floor) = floor.expect("every test has its floor");
    assert!(kills >= *floor, "{test}: {kills} kills, not {floor}");
}

/// How many children the random tests kill: `MILEPOST_KILLS`, or a few.
pub(crate) fn wanted() -> usize {
    let wanted = std::env::var("MILEPOST_KILLS");
    wanted.map_or(100, |number| number.parse().unwrap())
}

#[test]
fn an_ordinary_run_makes_more_than_five_hundred_kills() {
    let all: usize = FLOORS.iter().map(|(_, floor)| floor).sum();
    assert!(all >= 500, "only {all}");
}
