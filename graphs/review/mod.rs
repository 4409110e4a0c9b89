//! Reviewing the links of Markdown files: a graph that runs once for each section of them.
//!
//! ```text
//!  start ──► plan ──each Section──► check ──► report ──► end
//!
//!  check:    start ──► find ──Links──► look ──Unsure──► ask ──► end
//!                       └──Nothing──► end └──Sure──► end
//! ```
//!
//! What a link to a file or a heading leads to is looked up. What stands on another host cannot be
//! seen from here, so a person is asked: once a section, while the other sections go on.

#[cfg(feature = "cli")]
mod args;
mod links;
mod nodes;

use milepost::{Append, BuildError, End, Graph, NodeKind, State};

use nodes::{Check, Found, Looked};

#[cfg(feature = "cli")]
pub use args::ReviewArgs;
pub use links::Section;

/// What a review knows.
#[derive(Clone, Debug, Default, State)]
pub struct Review {
    /// The files to review.
    pub files: Vec<String>,
    /// Their sections.
    pub sections: Vec<Section>,
    /// What is wrong, in the order of the sections.
    #[reduce(Append)]
    pub faults: Vec<String>,
    /// What comes of it.
    pub report: Option<String>,
}

/// The graph for one section.
fn check() -> Result<Graph<Check>, BuildError> {
    let mut g = Graph::builder("check");
    let find = g.node("find", nodes::find);
    let look = g.node("look", nodes::look);
    let ask = g.node("ask", nodes::ask);
    g.kind(ask, NodeKind::Human);
    g.start(find);
    g.wire(find, |found| match found {
        Found::Links => look.into(),
        Found::Nothing => End.into(),
    });
    g.wire(look, |looked| match looked {
        Looked::Sure => End.into(),
        Looked::Unsure => ask.into(),
    });
    g.edge(ask, End);
    g.build()
}

/// The graph.
///
/// # Errors
/// [`BuildError`] if its description is wrong; a test builds it.
pub fn review() -> Result<Graph<Review>, BuildError> {
    let mut g = Graph::builder("review");
    let plan = g.node("plan", nodes::plan);
    let check = g.subgraph_worker(
        "check",
        check()?,
        |section: &Section, _: &Review| Check::update().section(section.clone()),
        |_, check| Review::update().faults(check.faults.clone()),
    );
    let report = g.node("report", nodes::report);
    g.kind(plan, NodeKind::Planner);
    g.kind(report, NodeKind::Summary);
    g.start(plan);
    g.edge(plan, check.each(|review: &Review| review.sections.clone()));
    g.edge(check, report);
    g.edge(report, End);
    g.build()
}
