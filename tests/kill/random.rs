//! SIGKILL from outside at random moments.

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
    whenever(usual(), "random", wanted());
}

#[cfg(feature = "fjall")]
#[test]
fn nothing_is_lost_or_done_twice_on_fjall_whenever_a_process_is_killed() {
    whenever(StoreEngine::Fjall, "random fjall", wanted());
}

fn whenever(engine: StoreEngine, name: &str, wanted: usize) {
    let plans = [
        Plan::new("list", Shape::Long, 2),
        Plan::new("workers", Shape::Fan, 3),
        Plan::new("loop", Shape::Chain, 2),
        Plan::new("reducers", Shape::Mixed, 2),
    ];
    made(name, strike(engine, &plans, wanted));
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
    made("random modes", strike(usual(), &plans, wanted()));
}

/// Kills children at random moments until so many are killed.
fn strike(engine: StoreEngine, plans: &[Plan], wanted: usize) -> usize {
    let reference = undisturbed(plans);
    let made_so_far = AtomicUsize::new(0);
    let families: Vec<usize> = (0..wanted).collect();
    play(&families, |_| {
        if made_so_far.load(Ordering::SeqCst) >= wanted {
            return 0;
        }
        let mut family = Family::on(engine, plans);
        let mut strikes = Vec::new();
        // Short lives, so that one family has many.
        while family.kills < 40 {
            let random = RandomState::new().hash_one(0u8);
            let strike = match random % 2 {
                0 => Strike::Micros(random % 60_000),
                _ => Strike::Lines((random % (reference.lines as u64 / 3)) as usize),
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
