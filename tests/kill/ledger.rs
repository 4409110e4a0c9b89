//! How many kills there must be, so that their number is no claim.

use std::io::Write as _;

/// How many kills each test makes at least, in an ordinary run.
const FLOORS: &[(&str, usize)] = &[
    ("chain", 30),
    ("diamond", 24),
    ("fan", 25),
    ("branch", 10),
    ("empty", 22),
    ("long", 25),
    ("mixed", 32),
    ("stumble", 25),
    ("runs", 90),
    ("crowd", 65),
    ("creep", 90),
    ("inside", 20),
    ("random", 100),
    ("load", 750),
    ("fjall", 60),
    ("inside fjall", 20),
    ("random fjall", 60),
    ("random modes", 60),
    ("modes", 40),
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
    ("chain again", 60),
    ("diamond again", 40),
    ("empty again", 40),
    ("fan again", 60),
    ("long again", 60),
    ("mixed again", 60),
    ("nested", 20),
    ("joining", 150),
    ("abandoned", 250),
    ("travelling", 600),
    ("scripts", 90),
    ("long values", 60),
    ("long values fjall", 60),
    ("random long values", 50),
    ("random long values fjall", 50),
    ("shared values", 7),
    ("shared values fjall", 7),
    ("asking, few", 300),
    ("chain, few", 60),
    ("long, few", 60),
    ("few on a disk", 40),
    ("few on fjall", 40),
];

/// Says how many kills a test made; fails if they were too few.
pub(crate) fn made(test: &str, kills: usize) {
    let line = format!("kills {test} {kills}\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
    let floor = FLOORS.iter().find(|(name, _)| *name == test);
    let (_, floor) = floor.expect("every test has its floor");
    assert!(kills >= *floor, "{test}: {kills} kills, not {floor}");
}

/// How many children the random tests kill: `MILEPOST_KILLS`, or a thousand.
pub(crate) fn wanted() -> usize {
    let wanted = std::env::var("MILEPOST_KILLS");
    wanted.map_or(1_000, |number| number.parse().unwrap())
}

#[test]
fn an_ordinary_run_makes_more_than_five_hundred_kills() {
    let all: usize = FLOORS.iter().map(|(_, floor)| floor).sum();
    assert!(all >= 500, "only {all}");
}
