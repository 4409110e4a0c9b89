//! Research over a folder of documents: question in, report with checked citations out.
//!
//! `graph` has the graph and its picture, `nodes` what its nodes do. The rest are the pure parts:
//! read and index a folder, plan, search, take notes, judge coverage, write the report, check its
//! citations. Each takes plain data and gives plain data, so that the graph keeps all of it in its
//! state. Nothing here reaches a network.

mod answer;
#[cfg(feature = "cli")]
mod args;
mod canonical;
mod citations;
mod coverage;
mod discover;
mod document;
mod draft;
mod file;
mod folder;
mod graph;
mod html;
mod index;
mod library;
mod markdown;
mod nodes;
mod notes;
mod plain;
mod plan;
mod report;
mod shelf;
mod state;

pub use answer::{Finding, findings};
#[cfg(feature = "cli")]
pub use args::{ResearchArgs, example};
pub use canonical::canonical_id;
pub use citations::{CitationFault, check_citations};
pub use coverage::{
    ANALYSED_AT_ONCE, CoverageReport, Covered, ENOUGH_COVERAGE, MOST_ROUNDS, Missing, Route,
    TRIES_OF_REQUIRED, assess, next_batch, route_after_coverage,
};
pub use discover::{CANDIDATES_A_ROUND, Candidate, discover};
pub use document::{Document, Format, Passage};
pub use file::write_whole;
pub use graph::{research, research_with};
pub use index::{Hit, Index};
pub use library::{Library, LibraryError, Limits, SkipReason, Skipped, read_document};
pub use nodes::{Desk, Review, Reviewed, Verdict};
pub use notes::{AnalyseError, Evidence, Note, analyse};
pub use plan::{Plan, PlanError, SubQuestion};
pub use report::write_report;
pub use shelf::Shelf;
pub use state::{ResearchState, ResearchStateUpdate, TaskError, required_sources};
