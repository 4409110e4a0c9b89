//! The research graph: question in, report with checked citations out.
//!
//! It shows a loop that ends by judgement, a fan-out whose failed members are tolerated, a
//! decision on the merged state, a question to a person, and an effect (the report's file) that a
//! crash cannot halve.
//!
//! ```text
//!            start
//!              │
//!           planner
//!              │
//!   ┌─────► discover
//!   │          │ one task a candidate
//!   │       analyse ×n ◄───┐ more to read
//!   │          │           │
//!   └────── coverage ──────┘
//!  not found   │ enough
//!            report
//!              │
//!            check ◄─────► review        a citation does not hold: a person is asked
//!              │ they hold   │ │
//!             save ◄─────────┘ │ it is refused
//!              │ published     │
//!             end ◄────────────┘
//! ```

use std::sync::Arc;
use std::time::Duration;

use milepost::agent::Extractive;
use milepost::{BuildError, Context, End, Graph, NodeError, NodeKind, Policy, Snapshot};

use super::coverage::{Route, next_batch};
use super::discover::Candidate;
use super::nodes::{self, Checked, Desk, Reviewed};
use super::state::{ResearchState, TaskError, required_sources};

/// How many documents are read at once.
const READERS: usize = 4;
/// How long one document may take.
const READING: Duration = Duration::from_secs(60);

/// The research graph over the embedded model, which needs no network.
///
/// # Errors
/// [`BuildError`] if its description is wrong; a test builds it.
pub fn research() -> Result<Graph<ResearchState>, BuildError> {
    research_with(Desk::new(Arc::new(Extractive)))
}

/// The research graph over a model of one's own.
///
/// # Errors
/// As for [`research`].
pub fn research_with(desk: Desk) -> Result<Graph<ResearchState>, BuildError> {
    let mut g = Graph::builder("research");
    let at = |desk: &Desk| desk.clone();

    let d = at(&desk);
    let planner = g.node("planner", move |state, _: Context| {
        nodes::planner(d.clone(), state)
    });
    let d = at(&desk);
    let discover = g.node("discover", move |state, _: Context| {
        nodes::discover(d.clone(), state)
    });
    let d = at(&desk);
    let analyse = g.worker("analyse", move |candidate: Candidate, state, _: Context| {
        nodes::analyse(d.clone(), candidate, state)
    });
    let coverage = g.node("coverage", |state: Snapshot<ResearchState>, _: Context| {
        nodes::coverage(state)
    });
    let report = g.node("report", |state: Snapshot<ResearchState>, _: Context| {
        nodes::report(state)
    });
    let d = at(&desk);
    let check = g.node("check", move |state, _: Context| {
        nodes::check(d.clone(), state)
    });
    let review = g.node("review", nodes::review);
    let save = g.node("save", |state: Snapshot<ResearchState>, _: Context| {
        nodes::save(state)
    });

    let reads = Policy::default().blocking();
    for node in [planner, discover, save] {
        g.policy(node, reads.clone());
    }
    g.policy(check, reads.clone());
    g.policy(analyse, reads.concurrency(READERS).timeout(READING));
    g.worker_error(analyse, |candidate: &Candidate, error: &NodeError| {
        ResearchState::update().errors(vec![TaskError {
            node: "analyse".to_owned(),
            source: candidate.id.clone(),
            message: error.full(),
        }])
    });
    g.kind(planner, NodeKind::Planner);
    g.kind(discover, NodeKind::Tools);
    g.kind(analyse, NodeKind::Model);
    g.kind(coverage, NodeKind::Reflect);
    g.kind(report, NodeKind::Summary);

    let batch = |state: &ResearchState| {
        let required = required_sources(&state.constraints);
        next_batch(&required, &state.candidates, &state.notes, &state.errors)
    };
    g.start(planner);
    g.edge(planner, discover);
    g.edge(discover, analyse.each(batch));
    g.edge(analyse, coverage);
    g.branch(coverage, nodes::route, |route| match route {
        Route::Discover => discover.into(),
        Route::Analyse => analyse.each(batch),
        Route::Report => report.into(),
    });
    g.edge(report, check);
    g.wire(check, |checked| match checked {
        Checked::Hold => save.into(),
        Checked::Refused => review.into(),
    });
    g.wire(review, |reviewed| match reviewed {
        Reviewed::Publish => save.into(),
        Reviewed::Check => check.into(),
        Reviewed::Refuse => End.into(),
    });
    g.edge(save, End);
    g.build()
}
