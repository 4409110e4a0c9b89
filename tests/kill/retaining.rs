//! Kills of threads that are pruned as they run (`RunOptions::retention`), on a disk and with long
//! values apart: at every operation, the pruning among them. In memory it is in `calls.rs`.
//!
//! After each kill the newest checkpoints are there with all that they need, and no value is left of
//! what was dropped; at the end they are those of the script left alone.

use milepost::store::StoreEngine;

use super::calls::{left_on_disk, lives, process};
use super::disk::{open, usual};
use super::failpoint::Moment;
use super::ledger::made;
use super::parent::{Family, block_on, play};
use super::script::thread;
use super::workloads;

fn at_every_operation(name: &str, engine: StoreEngine) {
    let workload = workloads::by_name("long, few");
    let (_, undisturbed, done) = lives(workload, &[]).unwrap();
    let moments = [Moment::Before, Moment::After].into_iter().cycle();
    let cases: Vec<_> = (1..=done.operations).zip(moments).collect();
    let kills = play(&cases, |(at, moment)| {
        let mut family = Family::on(engine, &[]).apart();
        let deaths = [
            Some((*at, *moment)),
            Some((at * 7 % 19 + 4, Moment::During(at * 173 % 1_500))),
            None,
        ];
        for death in deaths {
            let killed = process(&mut family, workload, death);
            assert!(!killed || death.is_some(), "nobody killed it");
            let store = open(family.path()).unwrap();
            let begun = block_on(store.head(&thread())).unwrap().is_some();
            drop(store);
            if !begun {
                continue;
            }
            let left = left_on_disk(workload, family.path());
            let wrong = match &left {
                Ok(left) if death.is_none() => left.differs(&undisturbed),
                Ok(_) => None,
                Err(wrong) => Some(wrong.clone()),
            };
            if let Some(wrong) = wrong {
                let kept = family.folder.keep();
                panic!("at {at} {moment:?}: {wrong}\nsee {}", kept.display());
            }
        }
        family.kills
    });
    made(name, kills);
}

#[test]
fn a_thread_that_is_pruned_as_it_runs_survives_a_kill_at_every_operation() {
    at_every_operation("few on a disk", usual());
}

#[cfg(feature = "fjall")]
#[test]
fn a_thread_on_fjall_that_is_pruned_as_it_runs_survives_a_kill_at_every_operation() {
    at_every_operation("few on fjall", StoreEngine::Fjall);
}

/// So that the tests are about what they say: most of a thread is dropped, and values with it.
#[test]
fn threads_of_these_workloads_are_pruned() {
    for name in ["asking, few", "chain, few", "long, few"] {
        let workload = workloads::by_name(name);
        let mut family = Family::new(&[]).apart();
        assert!(!process(&mut family, workload, None));
        let store = open(family.path()).unwrap();
        let extent = block_on(store.extent(&thread())).unwrap().unwrap();
        let records = block_on(store.records(&thread(), milepost::Seq::new(0), usize::MAX));
        let (all, left) = (extent.next.get() - 1, records.unwrap().len() as u64);
        assert!(left < all * 2 / 3, "{name}: {left} of {all}");
    }
}
