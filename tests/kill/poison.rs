//! A superstep that ends every process which takes it up.

use super::child::Plan;
use super::diary::Effect;
use super::graphs::Shape;
use super::ledger::made;
use super::parent::Family;

/// The first run, and five that take over.
const DEATHS: usize = 6;

#[test]
fn a_deadly_superstep_fails_after_five_takeovers_and_can_be_taken_up_by_hand() {
    let mut family = Family::new(&[Plan::new("main", Shape::Poison, 1)]);
    family.poison_limit = None;
    while family.live_until(None) {
        assert!(family.kills <= DEATHS, "it kills for ever");
    }
    assert_eq!(family.kills, DEATHS);
    let diary = super::diary::Diary::open(family.path());
    let class = |effect: &Effect| match effect {
        Effect::Failed(_, class, _) => Some(class.clone()),
        _ => None,
    };
    assert_eq!(
        class(diary.read().last_chunk::<2>().unwrap().first().unwrap()).as_deref(),
        Some("poison")
    );

    // Going on by hand is a decision: the takeovers count anew from there.
    let mut by_hand = family.life(None);
    by_hand.goes_on = true;
    let before = family.kills;
    while family.live(&by_hand) {
        assert!(family.kills - before <= DEATHS, "it kills for ever");
    }
    assert_eq!(family.kills - before, DEATHS);

    family.plans = vec![Plan::new("main", Shape::Mended, 1)];
    by_hand.plans.clone_from(&family.plans);
    assert!(!family.live(&by_hand), "it is mended");
    let ended = diary.read().iter().rev().any(
        |effect| matches!(effect, Effect::End(thread, run) if thread == "main" && run == "run-0"),
    );
    assert!(ended, "it came to its end");
    let entered = |node: &str| {
        diary
            .read()
            .iter()
            .filter(|effect| effect.is_entry_of(node))
            .count()
    };
    assert_eq!(entered("before"), 1, "what was finished is not run again");
    assert_eq!(entered("bite"), 2 * DEATHS + 1);
    made("poison", family.kills);
}
