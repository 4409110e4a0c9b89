//! A graph whose state tells by itself whether it is whole.

use milepost::{Add, Append, BuildError, End, Exits, Graph, NodeError, Snapshot, State};
use serde::{Deserialize, Serialize};

/// How many items a run adds in its loop.
const ROUNDS: u64 = 12;
/// How many workers add one more each.
const WORKERS: u64 = 4;

#[derive(Clone, Debug, Default, Serialize, Deserialize, State)]
pub(crate) struct Work {
    /// Item `n` is the text of `n`.
    #[reduce(Append)]
    items: Vec<String>,
    /// The sum of all `n`.
    #[reduce(Add)]
    sum: u64,
}

impl Work {
    /// Whether this is a state that some number of steps leads to.
    pub(crate) fn is_whole(&self) -> Result<(), String> {
        let len = self.items.len() as u64;
        if let Some(n) = (0..len).find(|n| self.items[*n as usize] != text(*n)) {
            return Err(format!("item {n} of {len} is another one"));
        }
        let sum: u64 = (0..len).sum();
        match self.sum == sum {
            true => Ok(()),
            false => Err(format!("the sum is {}, not {sum}", self.sum)),
        }
    }
}

/// The text of an item: mostly short, now and then of several rows.
fn text(n: u64) -> String {
    let len = match n % 16 {
        15 => 9_000,
        7 => 3_000,
        other => 40 + other * 60,
    };
    let mut text = format!("{n}:");
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while (text.len() as u64) < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push(char::from(b'a' + (state % 26) as u8));
    }
    text
}

#[derive(Clone, Copy, Exits)]
enum Round {
    Again,
    Enough,
}

async fn add(work: Snapshot<Work>) -> Result<(WorkUpdate, Round), NodeError> {
    let n = work.items.len() as u64;
    let update = Work::update().items(vec![text(n)]).sum(n);
    let round = match (n + 1) % (ROUNDS + WORKERS) {
        0..ROUNDS => Round::Again,
        _ => Round::Enough,
    };
    Ok((update, round))
}

async fn help(n: u64) -> Result<WorkUpdate, NodeError> {
    Ok(Work::update().items(vec![text(n)]).sum(n))
}

pub(crate) fn graph() -> Result<Graph<Work>, BuildError> {
    let mut g = Graph::builder("work");
    let add = g.node("add", |work, _| add(work));
    let help = g.worker("help", |n, _: Snapshot<Work>, _| help(n));
    g.start(add);
    g.wire(add, move |round| match round {
        Round::Again => add.into(),
        Round::Enough => help.each(|work: &Work| {
            let len = work.items.len() as u64;
            (len..len + WORKERS).collect()
        }),
    });
    g.edge(help, End);
    g.build()
}
