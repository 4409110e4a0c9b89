//! The state, with a field of each kind of reducer, and what a task does to it as plain data.

use std::collections::BTreeSet;

use milepost::{Add, Append, Ephemeral, Max, ReduceFault, Reducer, State, Union, Updates};

use crate::plan::{Count, Plan, Rule, Wait};

#[derive(Clone, Debug, Default, PartialEq, State)]
pub(crate) struct Book {
    #[reduce(Append)]
    pub(crate) log: Vec<String>,
    #[reduce(Add)]
    pub(crate) sum: u64,
    #[reduce(Add)]
    pub(crate) laps: u64,
    #[reduce(Add)]
    pub(crate) runs: u64,
    #[reduce(Union)]
    pub(crate) seen: BTreeSet<u64>,
    #[reduce(Max)]
    pub(crate) top: u64,
    pub(crate) last: u64,
    #[reduce(Ephemeral)]
    pub(crate) word: String,
    #[reduce(Fold)]
    pub(crate) fold: u64,
    #[reduce(Braid)]
    pub(crate) braid: String,
}

/// A number that depends on every update and on their order; stored by value.
pub(crate) struct Fold;

impl Reducer<u64> for Fold {
    type Update = u64;
    fn reduce(value: &mut u64, updates: Updates<u64>) -> Result<(), ReduceFault> {
        for update in updates {
            *value = value.wrapping_mul(31).wrapping_add(update);
        }
        Ok(())
    }
}

/// A text that does; stored as updates.
pub(crate) struct Braid;

impl Reducer<String> for Braid {
    type Update = String;
    fn reduce(value: &mut String, updates: Updates<String>) -> Result<(), ReduceFault> {
        for update in updates {
            value.push_str(&update);
        }
        Ok(())
    }
    fn version() -> Option<u32> {
        Some(1)
    }
}

/// What a task, an input or a patch changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Effect {
    pub(crate) line: String,
    pub(crate) sum: u64,
    pub(crate) laps: u64,
    pub(crate) runs: u64,
    pub(crate) value: u64,
    /// Whether the fields that take one writer are written.
    pub(crate) sole: bool,
}

impl Effect {
    /// As an update of the real state.
    pub(crate) fn update(&self) -> BookUpdate {
        let mut update = Book::update()
            .log(vec![self.line.clone()])
            .sum(self.sum)
            .top(self.value)
            .seen(BTreeSet::from([self.value % 16]))
            .fold(self.value)
            .braid(self.strand());
        if self.laps > 0 {
            update = update.laps(self.laps);
        }
        if self.runs > 0 {
            update = update.runs(self.runs);
        }
        match self.sole {
            true => update.last(self.value).word(self.word()),
            false => update,
        }
    }

    pub(crate) fn strand(&self) -> String {
        format!("{}/", self.value % 10)
    }

    pub(crate) fn word(&self) -> String {
        format!("w{}", self.value)
    }
}

/// A number out of numbers.
pub(crate) fn mixed(numbers: &[u64]) -> u64 {
    let mix = |hash: u64, number: &u64| {
        let mixed = (hash ^ number).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 31)
    };
    numbers.iter().fold(0x9e37_79b9_7f4a_7c15, mix)
}

pub(crate) fn input(value: u64) -> Effect {
    Effect {
        line: format!("input {value}"),
        sum: value,
        runs: 1,
        value,
        sole: true,
        ..Effect::default()
    }
}

/// What a task does, by what it sees and what it was answered.
pub(crate) fn task(plan: &Plan, node: usize, payload: u64, seen: &Book, answers: &[u64]) -> Effect {
    let lines = seen.log.len() as u64;
    let numbers = [node as u64, payload, seen.sum, seen.fold, seen.last, lines];
    let value = mixed(&[&numbers, answers].concat()) % 1000;
    let Book { word, top, .. } = seen;
    Effect {
        line: format!(
            "{node}:{payload} {answers:?} {word} {top} {}",
            seen.seen.len()
        ),
        sum: value % 50,
        laps: u64::from(matches!(plan.nodes[node].out.rule(), Some(Rule::Laps(_)))),
        value,
        sole: plan.nodes[node].does.sole,
        ..Effect::default()
    }
}

/// What a graph inside gets, by what the node sees that runs it.
pub(crate) fn enter(seen: &Book, payload: u64) -> u64 {
    (seen.sum + payload) % 7
}

/// What a node does that runs a graph inside, by how that has ended.
pub(crate) fn leave(plan: &Plan, node: usize, payload: u64, inner: &Book) -> Effect {
    Effect {
        line: format!("{node}:{payload} {} {}", inner.log.len(), inner.braid),
        sum: inner.sum % 50,
        laps: u64::from(matches!(plan.nodes[node].out.rule(), Some(Rule::Laps(_)))),
        value: inner.fold % 1000,
        sole: plan.nodes[node].does.sole,
        ..Effect::default()
    }
}

/// What the graph makes of a task that failed for good.
pub(crate) fn tolerated(node: usize, payload: u64) -> Effect {
    Effect {
        line: format!("{node}:{payload} failed"),
        sum: 3,
        value: payload,
        ..Effect::default()
    }
}

/// Whether a task fails for good, and the graph tolerates it.
pub(crate) fn is_tolerated(plan: &Plan, node: usize, payload: u64) -> bool {
    plan.nodes[node].does.tolerated && payload.is_multiple_of(3)
}

/// Whether the second of two ways is taken.
pub(crate) fn is_second(rule: &Rule, seen: &Book, payload: u64) -> bool {
    match rule {
        Rule::A => false,
        Rule::B => true,
        Rule::Odd(more) => (seen.sum + payload + more) % 2 == 1,
        Rule::Laps(laps) => seen.laps < laps * seen.runs,
    }
}

pub(crate) fn payloads(count: &Count, seen: &Book) -> Vec<u64> {
    let many = (count.base + if count.sum { seen.sum } else { 0 }) % 4;
    (0..many).map(|place| seen.sum % 5 + place).collect()
}

/// The rounds in which a task asks.
pub(crate) fn rounds<'p>(plan: &'p Plan, node: usize, seen: &Book) -> &'p [Vec<Wait>] {
    let does = &plan.nodes[node].does;
    match does.asks_if_odd && seen.sum.is_multiple_of(2) {
        true => &[],
        false => &does.asks,
    }
}

pub(crate) fn key(round: usize, place: usize) -> String {
    format!("q{round}_{place}")
}

/// What a person answers, by the question's id.
pub(crate) fn answer(salt: u64, id: &str) -> u64 {
    let bytes: Vec<u64> = id.bytes().map(u64::from).collect();
    mixed(&[&[salt], &bytes[..]].concat()) % 100
}

/// The result of a durable step.
pub(crate) fn step(node: usize, payload: u64, number: u32, seen: &Book) -> u64 {
    mixed(&[node as u64, payload, u64::from(number), seen.sum]) % 50
}

/// What counts where nobody answers.
pub(crate) const DEFAULT: u64 = 7;
