//! What the nodes of the research graph do.
//!
//! Each takes a snapshot of the state and gives an update; the thinking is in the pure parts next
//! door. A node keeps nothing between calls but what lies on the [`Desk`]: the model, and the
//! folders that were read before, which are read again when they change.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use milepost::agent::ChatModel;
use milepost::{Ask, Context, Exits, NodeError, Output, Snapshot};
use serde::{Deserialize, Serialize};

use super::citations::{CitationFault, check_citations};
use super::coverage::{MOST_ROUNDS, Route, assess};
use super::discover::{self as search, Candidate};
use super::library::{Library, LibraryError, Limits};
use super::notes::{self, AnalyseError};
use super::plan::Plan;
use super::report::write_report;
use super::shelf::Shelf;
use super::state::{ResearchState, ResearchStateUpdate, required_sources};
use super::{answer, file};

/// What the nodes work with: a model, and folders as they were last read. Cheap to clone.
#[derive(Clone)]
pub struct Desk {
    model: Arc<dyn ChatModel>,
    shelf: Arc<Shelf>,
    /// One reader at a time: several tasks that begin together read a folder once.
    reading: Arc<Mutex<()>>,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk")
            .field("shelf", &self.shelf)
            .finish_non_exhaustive()
    }
}

impl Desk {
    /// A desk with a model, and no folder read yet.
    pub fn new(model: Arc<dyn ChatModel>) -> Self {
        Self {
            model,
            shelf: Arc::new(Shelf::new(Limits::default())),
            reading: Arc::default(),
        }
    }

    fn library(&self, state: &ResearchState) -> Result<Arc<Library>, LibraryError> {
        let _one = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        self.shelf.open(Path::new(&state.docs))
    }

    fn faults(&self, state: &ResearchState) -> Result<Vec<CitationFault>, NodeError> {
        let report = state.report.as_deref().ok_or_else(|| missing("report"))?;
        let folder = Path::new(&state.docs);
        Ok(check_citations(report, folder, self.shelf.limits()))
    }
}

type Updated = Result<ResearchStateUpdate, NodeError>;

/// Plans, and clears away what an earlier question of the thread has left.
pub(super) async fn planner(desk: Desk, state: Snapshot<ResearchState>) -> Updated {
    let library = desk.library(&state)?;
    let plan = Plan::of(&state.query).map_err(NodeError::invalid)?;
    Ok(ResearchState::update()
        .plan(Some(plan.weighed(library.index())))
        .skipped(library.skipped().to_vec())
        .clear(ResearchState::CANDIDATES)
        .clear(ResearchState::NOTES)
        .clear(ResearchState::ERRORS)
        .clear(ResearchState::ROUNDS)
        .clear(ResearchState::COVERAGE)
        .clear(ResearchState::REPORT)
        .clear(ResearchState::REPORT_PATH)
        .clear(ResearchState::CITATION_FAULTS))
}

/// Finds documents worth reading, more of them each round.
pub(super) async fn discover(desk: Desk, state: Snapshot<ResearchState>) -> Updated {
    let library = desk.library(&state)?;
    let required = required_sources(&state.constraints);
    let round = state.rounds + 1;
    let found = search::discover(&library, plan(&state)?, &required, &state.candidates, round);
    Ok(ResearchState::update().candidates(found).rounds(1))
}

/// Reads one document.
pub(super) async fn analyse(
    desk: Desk,
    candidate: Candidate,
    state: Snapshot<ResearchState>,
) -> Updated {
    let library = desk.library(&state)?;
    let note = notes::analyse(&library, plan(&state)?, &candidate, &*desk.model).await;
    let note = note.map_err(|error| match error {
        AnalyseError::Gone { .. } => NodeError::permanent(error),
        AnalyseError::Model { .. } => NodeError::transient(error),
    })?;
    Ok(ResearchState::update().notes([(note.id.clone(), note)].into()))
}

/// Judges what the notes answer.
pub(super) async fn coverage(state: Snapshot<ResearchState>) -> Updated {
    let coverage = assess(
        plan(&state)?,
        &required_sources(&state.constraints),
        &state.candidates,
        &state.notes,
        &state.errors,
        state.rounds < MOST_ROUNDS,
    );
    Ok(ResearchState::update().coverage(Some(coverage)))
}

/// Where to go after the judgement.
pub(super) fn route(state: &ResearchState) -> Result<Route, NodeError> {
    let coverage = state.coverage.as_ref();
    Ok(coverage.ok_or_else(|| missing("coverage"))?.route())
}

/// Writes the report's text.
pub(super) async fn report(state: Snapshot<ResearchState>) -> Updated {
    let plan = plan(&state)?;
    let coverage = state.coverage.as_ref().ok_or_else(|| missing("coverage"))?;
    let found = answer::findings(plan, &state.notes);
    let report = write_report(plan, &found, coverage, &state.errors, &state.skipped);
    Ok(ResearchState::update().report(Some(report)))
}

/// How a report leaves the citation check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Exits)]
pub(super) enum Checked {
    /// Every quote stands in its document, word for word.
    Hold,
    /// At least one does not.
    Refused,
}

/// Checks every citation against the disk, whoever wrote the report.
pub(super) async fn check(
    desk: Desk,
    state: Snapshot<ResearchState>,
) -> Result<(ResearchStateUpdate, Checked), NodeError> {
    let faults = desk.faults(&state)?;
    let checked = match faults.is_empty() {
        true => Checked::Hold,
        false => Checked::Refused,
    };
    let pending = checked == Checked::Refused;
    let update = ResearchState::update().citation_faults(faults);
    Ok((update.pending_approval(pending), checked))
}

/// Asks a person what becomes of a report whose citations do not hold (S317).
pub(super) async fn review(
    state: Snapshot<ResearchState>,
    cx: Context,
) -> Result<Output<ResearchStateUpdate, Reviewed, Review>, NodeError> {
    let exit = match cx.answer::<Review>("verdict")? {
        Some(Verdict::Publish) => Reviewed::Publish,
        Some(Verdict::Check) => Reviewed::Check,
        Some(Verdict::Refuse) => Reviewed::Refuse,
        None => {
            let faults = state.citation_faults.iter().map(ToString::to_string);
            let faults = faults.collect();
            return Ok(Output::ask("verdict", Review { faults }));
        }
    };
    let update = ResearchState::update().pending_approval(false);
    Ok(Output::Done(update, exit))
}

/// Writes the report's file, if one is wanted. Doing it twice does no harm.
pub(super) async fn save(state: Snapshot<ResearchState>) -> Updated {
    let Some(path) = &state.out else {
        return Ok(ResearchState::update());
    };
    let report = state.report.as_deref().ok_or_else(|| missing("report"))?;
    file::write_whole(Path::new(path), report)?;
    Ok(ResearchState::update().report_path(Some(path.clone())))
}

/// What a person is asked: what becomes of a report whose citations do not hold?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// What is wrong, in the order of the report's lines.
    pub faults: Vec<String>,
}

/// What a person says of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Save it as it is.
    Publish,
    /// Check it once more: the documents were put right.
    Check,
    /// Do not save it.
    Refuse,
}

impl Ask for Review {
    type Answer = Verdict;
}

/// How a review ends.
#[derive(Clone, Copy, Debug, Exits)]
pub enum Reviewed {
    /// The report is saved.
    Publish,
    /// It is checked again.
    Check,
    /// It is not saved.
    Refuse,
}

fn plan(state: &ResearchState) -> Result<&Plan, NodeError> {
    state.plan.as_ref().ok_or_else(|| missing("plan"))
}

fn missing(what: &str) -> NodeError {
    NodeError::invalid(format!("there is no {what} in the state"))
}
