//! What a research run knows (S414).
//!
//! Plain data that every node reads and adds to; it is stored between nodes. Folders and libraries
//! are never in it: each node opens them again.

use std::collections::BTreeMap;

use milepost::{Add, Append, Merge, State};
use serde::{Deserialize, Serialize};

use super::citations::CitationFault;
use super::coverage::CoverageReport;
use super::discover::Candidate;
use super::library::Skipped;
use super::notes::Note;
use super::plan::Plan;

/// The state of a research run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, State)]
pub struct ResearchState {
    /// The question.
    #[required]
    pub query: String,
    /// The folder of documents.
    pub docs: String,
    /// What the asker demands, by name: `require` names sources that must be used.
    pub constraints: BTreeMap<String, String>,
    /// What is to be found out.
    pub plan: Option<Plan>,
    /// The documents worth reading, in the order they were found.
    #[reduce(Append)]
    pub candidates: Vec<Candidate>,
    /// What was found, by canonical id: one note a source.
    #[reduce(Merge)]
    pub notes: BTreeMap<String, Note>,
    /// How much of the question is answered.
    pub coverage: Option<CoverageReport>,
    /// How often discovery was done.
    #[reduce(Add)]
    pub rounds: u32,
    /// The report.
    pub report: Option<String>,
    /// Where the report is to be written; nowhere, if there is nothing.
    pub out: Option<String>,
    /// Where the report was written.
    pub report_path: Option<String>,
    /// Whether a person is asked for approval.
    pub pending_approval: bool,
    /// What is wrong with the report's citations.
    pub citation_faults: Vec<CitationFault>,
    /// The files that could not be read.
    pub skipped: Vec<Skipped>,
    /// The tasks that failed and were tolerated.
    #[reduce(Append)]
    pub errors: Vec<TaskError>,
}

/// A task that failed and was tolerated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskError {
    /// The node.
    pub node: String,
    /// The canonical id of the source it worked on.
    pub source: String,
    /// What went wrong.
    pub message: String,
}

/// The canonical ids of the sources that the constraints demand, under the name `require`,
/// separated by commas.
pub fn required_sources(constraints: &BTreeMap<String, String>) -> Vec<String> {
    let named = constraints.get("require").map_or("", String::as_str);
    let mut ids: Vec<_> = named
        .split(',')
        .map(super::canonical::canonical_id)
        .filter(|id| !id.is_empty())
        .collect();
    ids.sort();
    ids.dedup();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_sources_are_named_by_canonical_id_each_once() {
        let constraints = BTreeMap::from([("require".into(), "./b.md, a.md#x,b.md,".into())]);
        assert_eq!(required_sources(&constraints), ["a.md", "b.md"]);
        assert!(required_sources(&BTreeMap::new()).is_empty());
    }
}
