//! Kills before, inside and after every operation of the store, also while a killed run goes on.

use milepost::store::StoreEngine;

use super::child::{Mode, Plan};
use super::diary::Effect;
use super::disk::usual;
use super::failpoint::{Among, Moment, Point};
use super::graphs::Shape;
use super::ledger::made;
use super::parent::{Family, play, undisturbed};
use super::reference::Remains;

fn point(at: u64, moment: Moment, among: Among) -> Point {
    Point { at, moment, among }
}

/// Kills at each operation, before it or after it; then the next child and the one after that at some
/// of theirs. (`calls.rs` has both, in memory.)
fn at_every_operation(name: &str, plans: &[Plan]) {
    at_every_operation_on(usual(), name, plans);
}

fn at_every_operation_on(engine: StoreEngine, name: &str, plans: &[Plan]) {
    at_every_operation_in(name, plans, |plans| Family::on(engine, plans));
}

/// The same in families that are made so.
pub(crate) fn at_every_operation_in(
    name: &str,
    plans: &[Plan],
    family: impl Fn(&[Plan]) -> Family + Sync,
) {
    let reference = undisturbed(plans);
    // Timing decides how many ends go into one write, so there may be a few operations more.
    let moments = [Moment::Before, Moment::After].into_iter().cycle();
    let cases: Vec<_> = (1..=reference.operations + 2).zip(moments).collect();
    let kills = play(&cases, |(at, moment)| {
        let mut family = family(plans);
        family.live_until(Some(point(*at, *moment, Among::All)));
        let later = [at * 7 % (reference.operations + 4) + 1, at % 5 + 1];
        for (at, moment) in later.into_iter().zip([Moment::After, Moment::Before]) {
            family.live_until(Some(point(at, moment, Among::All)));
        }
        family.end(Some(&reference), &(at, moment, later))
    });
    assert!(kills as u64 >= reference.operations, "all were killed");
    made(name, kills);
}

/// Three threads, none of which waits for its store.
#[test]
fn runs_that_do_not_wait_survive_a_kill_at_every_operation() {
    let plans = [
        Plan::new("one", Shape::Chain, 2).mode(Mode::Background),
        Plan::new("two", Shape::Diamond, 1).mode(Mode::AtEnd),
        Plan::new("three", Shape::Fan, 1).mode(Mode::Background),
    ];
    at_every_operation("modes", &plans);
}

#[test]
fn a_loop_survives_a_kill_at_every_operation() {
    at_every_operation("chain", &[Plan::new("main", Shape::Chain, 1)]);
}

#[test]
fn two_nodes_at_once_survive_a_kill_at_every_operation() {
    at_every_operation("diamond", &[Plan::new("main", Shape::Diamond, 1)]);
}

#[test]
fn workers_that_fail_and_are_retried_survive_a_kill_at_every_operation() {
    at_every_operation("fan", &[Plan::new("main", Shape::Fan, 1)]);
}

#[test]
fn fan_outs_over_nothing_survive_a_kill_at_every_operation() {
    at_every_operation("empty", &[Plan::new("main", Shape::Empty, 1)]);
}

#[test]
fn a_list_over_several_bases_survives_a_kill_at_every_operation() {
    at_every_operation("long", &[Plan::new("main", Shape::Long, 1)]);
}

#[test]
fn reducers_of_all_kinds_survive_a_kill_at_every_operation() {
    at_every_operation("mixed", &[Plan::new("main", Shape::Mixed, 1)]);
}

#[test]
fn nodes_and_decisions_that_fail_survive_a_kill_at_every_operation() {
    at_every_operation("stumble", &[Plan::new("main", Shape::Stumble, 1)]);
}

#[test]
fn runs_that_are_started_again_after_every_kill_run_once() {
    at_every_operation("runs", &[Plan::new("main", Shape::Diamond, 3)]);
}

#[test]
fn threads_that_share_a_write_survive_a_kill_at_every_operation() {
    let plans = [
        Plan::new("one", Shape::Chain, 1),
        Plan::new("two", Shape::Diamond, 1),
        Plan::new("three", Shape::Fan, 1),
    ];
    at_every_operation("crowd", &plans);
}

#[cfg(feature = "fjall")]
#[test]
fn threads_on_fjall_survive_a_kill_at_every_operation() {
    let plans = [
        Plan::new("one", Shape::Mixed, 1),
        Plan::new("two", Shape::Stumble, 1),
        Plan::new("three", Shape::Fan, 1),
    ];
    at_every_operation_on(StoreEngine::Fjall, "fjall", &plans);
}

#[test]
fn a_decision_is_asked_for_once_unless_the_kill_comes_before_its_commit() {
    let plans = [Plan::new("main", Shape::Branch, 1)];
    let operations = undisturbed(&plans).operations;
    let cases: Vec<_> = (1..=operations)
        .flat_map(|at| [(at, Moment::Before), (at, Moment::After)])
        .collect();
    let kills = play(&cases, |(at, moment)| {
        let mut family = Family::new(&plans);
        family.live_until(Some(point(*at, *moment, Among::All)));
        let path = family.folder.path().to_owned();
        assert!(!family.live_until(None));
        family.check(None).unwrap();
        let diary = Remains::open(&path).unwrap().diary.read();
        let asked: Vec<_> = diary
            .iter()
            .filter_map(|effect| match effect {
                Effect::Asked(_, _, side) => Some(side),
                _ => None,
            })
            .collect();
        let went = diary.iter().rev().find_map(|effect| match effect {
            Effect::Written(task, _) => Some(&task.node),
            _ => None,
        });
        assert_eq!(
            asked.last().copied(),
            went,
            "the last decision is the stored one"
        );
        let closed_first = diary
            .iter()
            .skip_while(|effect| !matches!(effect, Effect::Asked(..)))
            .find(|effect| matches!(effect, Effect::Closed(..) | Effect::Life));
        match closed_first {
            Some(Effect::Closed(..)) => assert_eq!(asked.len(), 1),
            _ => assert_eq!(asked.len(), 2, "{at} {moment:?}"),
        }
        family.kills
    });
    made("branch", kills);
}

/// Every child is killed after a few writes, until one has nothing left to do.
#[test]
fn a_run_that_is_killed_all_the_way_gets_to_its_end() {
    let mut cases = Vec::new();
    for shape in [Shape::Chain, Shape::Fan, Shape::Mixed] {
        for moment in [Moment::Before, Moment::After] {
            cases.extend([2, 3].map(|at| (shape, at, moment)));
        }
    }
    let kills = play(&cases, |(shape, at, moment)| {
        let plans = [Plan::new("main", *shape, 2)];
        let reference = undisturbed(&plans);
        let mut family = Family::new(&plans);
        // The second write is the first after the takeover: killed before it, nothing is gained.
        let at = at + u64::from(matches!(moment, Moment::Before));
        if *shape != Shape::Fan {
            // Each life closes a superstep, so that none is taken over too often.
            family.poison_limit = None;
        }
        while family.live_until(Some(point(at, *moment, Among::Appends))) {
            assert!(family.kills < 200, "it gets nowhere");
        }
        family.end(Some(&reference), &(shape, at, moment))
    });
    made("creep", kills);
}

#[test]
fn a_kill_inside_a_write_leaves_all_of_it_or_nothing() {
    inside(usual(), "inside");
}

#[cfg(feature = "fjall")]
#[test]
fn a_kill_inside_a_write_on_fjall_leaves_all_of_it_or_nothing() {
    inside(StoreEngine::Fjall, "inside fjall");
}

fn inside(engine: StoreEngine, name: &str) {
    let plans = [
        Plan::new("one", Shape::Long, 1),
        Plan::new("two", Shape::Fan, 1),
    ];
    let reference = undisturbed(&plans);
    let cases: Vec<_> = (1..=25u64)
        .map(|at| (at % 12 + 1, at * 173 % 2_500))
        .collect();
    let kills = play(&cases, |(at, micros)| {
        let mut family = Family::on(engine, &plans);
        for at in [*at, at + 3] {
            family.live_until(Some(point(at, Moment::During(*micros), Among::Appends)));
        }
        family.end(Some(&reference), &(at, micros))
    });
    made(name, kills);
}
