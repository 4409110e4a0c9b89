//! The checker is seen to catch stores that break their promises.

use super::child::Plan;
use super::failpoint::{Among, Moment, Point};
use super::faulty::Fault;
use super::graphs::Shape;
use super::parent::{Family, undisturbed};

/// What the checker says of a store with this fault, for kills after the first few writes.
fn said(shape: Shape, fault: Fault) -> Vec<Result<(), String>> {
    let plans = [Plan::new("main", shape, 2)];
    let reference = undisturbed(&plans);
    let mut said = Vec::new();
    for at in 2..=5 {
        let mut family = Family::new(&plans);
        family.fault = Some(fault);
        let moment = Moment::After;
        let among = Among::Appends;
        family.live_until(Some(Point { at, moment, among }));
        family.live_until(None);
        said.push(family.check(Some(&reference)));
    }
    said
}

fn caught(said: &[Result<(), String>], with: &str) -> usize {
    let with = |fault: &String| fault.contains(with);
    said.iter()
        .filter(|said| said.as_ref().is_err_and(with))
        .count()
}

#[test]
fn a_store_that_forgets_every_fifth_write_is_caught() {
    let said = said(Shape::Chain, Fault::Forgets);
    assert!(said.iter().all(Result::is_err), "{said:?}");
}

#[test]
fn a_store_that_answers_before_it_writes_is_caught() {
    let said = said(Shape::Chain, Fault::AnswersEarly);
    assert_eq!(
        caught(&said, "was finished and ran again"),
        said.len(),
        "{said:?}"
    );
}

#[test]
fn a_store_that_loses_updates_is_caught() {
    let said = said(Shape::Chain, Fault::LosesUpdates);
    assert!(caught(&said, "undisturbed: ") > 0, "{said:?}");
}

#[test]
fn a_store_that_hides_what_tasks_have_ended_is_caught() {
    let said = said(Shape::Diamond, Fault::HidesOutcomes);
    assert!(caught(&said, "was finished and ran again") > 0, "{said:?}");
}
