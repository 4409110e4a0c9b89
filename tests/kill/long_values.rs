//! Kills where long values are kept apart from their records: several threads have the same ones, and
//! they go when the last thread that had them is deleted or pruned. Not one may be missing, and none
//! may stay that nobody has; `checker.rs` looks for that after every family.

use milepost::store::{Severity, StoreEngine, check};

use super::child::{Chore, NEW, OLD, Plan};
use super::disk::usual;
use super::every_operation::at_every_operation_in;
use super::graphs::Shape;
use super::ledger::{made, wanted};
use super::parent::{Family, block_on};
use super::random::strike;
use super::reference::Remains;
use super::upkeep::{killed_at_among, listed, records};

/// Lists of many KiB, the same on two threads, and a text beside them.
fn plans() -> [Plan; 3] {
    [
        Plan::new("one", Shape::Long, 1),
        Plan::new("two", Shape::Long, 1),
        Plan::new("three", Shape::Mixed, 1),
    ]
}

fn on(engine: StoreEngine) -> impl Fn(&[Plan]) -> Family + Sync {
    move |plans| Family::on(engine, plans).apart()
}

/// No thread lacks a value, and no value lacks a thread.
fn is_whole(remains: &Remains) {
    for thread in listed(remains) {
        let thread = milepost::ThreadId::new(thread).unwrap();
        let checked = block_on(check(&*remains.store, &thread));
        let worst = checked.findings.iter().map(|found| found.severity).max();
        assert!(worst <= Some(Severity::Note), "{:?}", checked.findings);
    }
    let waste = block_on(remains.store.waste()).unwrap();
    assert_eq!(waste.values, 0, "no thread has {waste:?}");
}

#[test]
fn long_values_survive_a_kill_at_every_operation() {
    at_every_operation_in("long values", &plans(), on(usual()));
}

#[cfg(feature = "fjall")]
#[test]
fn long_values_on_fjall_survive_a_kill_at_every_operation() {
    at_every_operation_in("long values fjall", &plans(), on(StoreEngine::Fjall));
}

#[test]
fn no_long_value_is_lost_whenever_a_process_is_killed() {
    let kills = strike(&plans(), 2, wanted() / 20, on(usual()));
    made("random long values", kills);
}

#[cfg(feature = "fjall")]
#[test]
fn no_long_value_on_fjall_is_lost_whenever_a_process_is_killed() {
    let kills = strike(&plans(), 2, wanted() / 20, on(StoreEngine::Fjall));
    made("random long values fjall", kills);
}

/// A thread whose values others write at the same time is deleted, copied or pruned.
fn chores(name: &str, engine: StoreEngine) {
    let others = &plans()[..2];
    for chore in [Chore::Delete, Chore::Copy, Chore::Prune] {
        killed_at_among(
            name,
            chore,
            (others, 6),
            on(engine),
            |remains, before, done| {
                is_whole(remains);
                let left = records(remains, OLD);
                let copied = listed(remains).contains(&NEW.to_owned());
                match chore {
                    Chore::Delete => assert!(left.is_empty() || (left == before && !done)),
                    Chore::Copy if copied => assert_eq!(records(remains, NEW), before),
                    Chore::Copy => assert!(!done && left == before),
                    _ => assert!(!left.is_empty() && (left.len() < before.len() || !done)),
                }
            },
        );
    }
}

#[test]
fn values_that_threads_share_go_with_the_last_of_them_though_processes_are_killed() {
    chores("shared values", usual());
}

#[cfg(feature = "fjall")]
#[test]
fn values_on_fjall_that_threads_share_go_with_the_last_of_them_though_processes_are_killed() {
    chores("shared values fjall", StoreEngine::Fjall);
}

/// So that the tests above are about what they say.
#[test]
fn the_values_of_these_families_are_kept_apart_and_shared() {
    let blobs = |plans: &[Plan]| {
        let mut family = Family::on(StoreEngine::Sled, plans).apart();
        assert!(!family.live_until(None));
        let db = sled::open(family.path().join("store")).unwrap();
        // Long values stand below a key of zeros and the class 8; the number of the row is last.
        let prefix = [&[0; 16][..], &[8]].concat();
        let rows = db.scan_prefix(prefix).keys().map(Result::unwrap);
        rows.filter(|key| key.ends_with(&[0])).count()
    };
    let [one, ..] = plans();
    let alone = blobs(std::slice::from_ref(&one));
    assert!(alone >= 6, "{alone} values");
    assert_eq!(
        blobs(&[
            one.clone(),
            Plan {
                thread: "again".to_owned(),
                ..one.clone()
            }
        ]),
        alone
    );
    let twice = Plan {
        runs: 2,
        ..one.clone()
    };
    assert!(blobs(&[twice]) > alone);
}
