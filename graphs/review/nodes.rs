//! What the nodes of a review do, and what they know of one section.

use milepost::{Append, Ask, Context, Exits, NodeError, Output, Snapshot, State};
use serde::{Deserialize, Serialize};

use super::{Review, ReviewUpdate, Section};

/// What is known of one section.
#[derive(Clone, Debug, Default, State)]
pub(super) struct Check {
    pub(super) section: Section,
    links: Vec<String>,
    /// Links that nobody can follow from here.
    doubts: Vec<String>,
    #[reduce(Append)]
    pub(super) faults: Vec<String>,
}

#[derive(Clone, Copy, Exits)]
pub(super) enum Found {
    Links,
    Nothing,
}

#[derive(Clone, Copy, Exits)]
pub(super) enum Looked {
    Sure,
    Unsure,
}

/// What a person is asked: are these links what their section says?
#[derive(Serialize, Deserialize)]
pub(super) struct Doubt {
    section: String,
    links: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Good,
    Bad,
}

impl Ask for Doubt {
    type Answer = Verdict;
}

pub(super) async fn find(
    check: Snapshot<Check>,
    _: Context,
) -> Result<(CheckUpdate, Found), NodeError> {
    let links = check.section.links();
    let exit = if links.is_empty() {
        Found::Nothing
    } else {
        Found::Links
    };
    Ok((Check::update().links(links), exit))
}

pub(super) async fn look(
    check: Snapshot<Check>,
    _: Context,
) -> Result<(CheckUpdate, Looked), NodeError> {
    let is_far = |link: &String| link.contains(':');
    let (doubts, near): (Vec<_>, Vec<_>) = check.links.iter().cloned().partition(is_far);
    let faults = near.iter().filter_map(|link| check.section.fault(link));
    let exit = if doubts.is_empty() {
        Looked::Sure
    } else {
        Looked::Unsure
    };
    Ok((
        Check::update().faults(faults.collect()).doubts(doubts),
        exit,
    ))
}

pub(super) async fn ask(
    check: Snapshot<Check>,
    cx: Context,
) -> Result<Output<CheckUpdate, (), Doubt>, NodeError> {
    let (section, links) = (check.section.to_string(), check.doubts.clone());
    Ok(match cx.answer::<Doubt>("links")? {
        None => Output::ask("links", Doubt { section, links }),
        Some(Verdict::Good) => Output::Done(Check::update(), ()),
        Some(Verdict::Bad) => {
            let fault = format!("{section}: a person says no to {}", links.join(", "));
            Output::Done(Check::update().faults(vec![fault]), ())
        }
    })
}

pub(super) async fn plan(review: Snapshot<Review>, _: Context) -> Result<ReviewUpdate, NodeError> {
    let sections: Result<Vec<_>, _> = review.files.iter().map(|file| Section::all(file)).collect();
    let sections = sections.map_err(NodeError::permanent)?.concat();
    Ok(Review::update().sections(sections).clear(Review::FAULTS))
}

pub(super) async fn report(
    review: Snapshot<Review>,
    _: Context,
) -> Result<ReviewUpdate, NodeError> {
    let (sections, faults) = (review.sections.len(), review.faults.len());
    let head = format!("{sections} sections, {faults} faults");
    let lines = [head].into_iter().chain(review.faults.iter().cloned());
    Ok(Review::update().report(Some(lines.collect::<Vec<_>>().join("\n"))))
}
