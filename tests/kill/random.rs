//! SIGKILL from outside at random moments, also while many threads are at work.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};

use milepost::store::StoreEngine;

use super::child::{Mode, Plan};
use super::disk::usual;
use super::graphs::Shape;
use super::ledger::{made, wanted};
use super::parent::{Family, Strike, play, undisturbed};

#[test]
fn nothing_is_lost_or_done_twice_whenever_a_process_is_killed() {
    whenever(usual(), "random", wanted() / 10);
}

#[cfg(feature = "fjall")]
#[test]
fn nothing_is_lost_or_done_twice_on_fjall_whenever_a_process_is_killed() {
    whenever(StoreEngine::Fjall, "random fjall", wanted() / 10);
}

fn whenever(engine: StoreEngine, name: &str, wanted: usize) {
    let plans = [
        Plan::new("list", Shape::Long, 2),
        Plan::new("workers", Shape::Fan, 3),
        Plan::new("loop", Shape::Chain, 2),
        Plan::new("reducers", Shape::Mixed, 2),
    ];
    made(
        name,
        strike(&plans, 0, wanted, |plans| Family::on(engine, plans)),
    );
}

/// Where runs do not wait for their store, what was said to be durable is neither lost nor done twice,
/// and the rest is done again to the same end.
#[test]
fn nothing_durable_is_lost_or_done_twice_whenever_a_process_is_killed() {
    let plans = [
        Plan::new("list", Shape::Long, 2).mode(Mode::Background),
        Plan::new("workers", Shape::Fan, 3).mode(Mode::AtEnd),
        Plan::new("loop", Shape::Chain, 2).mode(Mode::AtEnd),
        Plan::new("reducers", Shape::Mixed, 2).mode(Mode::Background),
        Plan::new("waits", Shape::Diamond, 2),
    ];
    made(
        "random modes",
        strike(&plans, 0, wanted() / 10, Family::new),
    );
}

/// Many threads, on several threads of the system: their writes share batches, and each kill finds
/// most of them in the middle of something.
#[test]
fn nothing_is_lost_or_done_twice_whenever_a_process_with_many_threads_is_killed() {
    let shapes = [
        Shape::Long,
        Shape::Fan,
        Shape::Chain,
        Shape::Mixed,
        Shape::Diamond,
        Shape::Empty,
    ];
    let plans: Vec<_> = (0..20)
        .map(|number| {
            let shape = shapes[number % shapes.len()];
            Plan::new(&format!("thread-{number}"), shape, 2)
        })
        .collect();
    made("load", strike(&plans, 2, wanted() * 8 / 10, Family::new));
}

/// Kills children, each on so many threads of the system, at random moments until so many are killed.
pub(crate) fn strike(
    plans: &[Plan],
    workers: usize,
    wanted: usize,
    family: impl Fn(&[Plan]) -> Family + Sync,
) -> usize {
    let reference = undisturbed(plans);
    let made_so_far = AtomicUsize::new(0);
    let families: Vec<usize> = (0..wanted).collect();
    play(&families, |_| {
        if made_so_far.load(Ordering::SeqCst) >= wanted {
            return 0;
        }
        let mut family = family(plans);
        family.workers = workers;
        let mut strikes = Vec::new();
        // Short lives, so that one family has many.
        while family.kills < 80 {
            let random = RandomState::new().hash_one(0u8);
            let strike = match random % 2 {
                0 => Strike::Micros(random % 12_000),
                _ => Strike::Lines((random % (reference.lines as u64 / 20)) as usize),
            };
            strikes.push(strike);
            let life = family.life(None);
            if !family.strike(&life, strike) {
                break;
            }
        }
        made_so_far.fetch_add(family.kills, Ordering::SeqCst);
        family.end(Some(&reference), &strikes)
    })
}
