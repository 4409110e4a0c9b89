//! Finds the documents worth reading.
//!
//! In come a plan, the sources that must be used and what is known already; out go new
//! candidates, best first. Each round looks further down the ranking than the one before. It only
//! names documents, it never reads them for an answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::library::Library;
use super::plan::Plan;

/// How many documents a single question brings in each round.
pub const CANDIDATES_A_ROUND: usize = 6;

/// A document worth reading.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its canonical id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// How well it meets the question that it meets best, from 0 to 1 beside the best document.
    pub score: f64,
    /// The round in which it was found, counted from 1.
    pub round: u32,
}

/// The candidates of a round that are not known yet, best first; `round` counts from 1.
///
/// Required sources come first whatever their rank, if the library has them.
pub fn discover(
    library: &Library,
    plan: &Plan,
    required: &[String],
    known: &[Candidate],
    round: u32,
) -> Vec<Candidate> {
    let depth = CANDIDATES_A_ROUND
        * usize::try_from(round.max(1))
            .unwrap_or(usize::MAX)
            .min(1_000);
    let mut found: BTreeMap<String, f64> = BTreeMap::new();
    for question in &plan.sub_questions {
        let hits = library.index().search_documents(&question.terms);
        let best = hits
            .first()
            .map_or(1.0, |hit| hit.score)
            .max(f64::MIN_POSITIVE);
        for hit in hits.iter().take(depth) {
            let id = library.documents()[hit.document].id.clone();
            let score = found.entry(id).or_insert(0.0);
            *score = score.max(hit.score / best);
        }
    }
    for id in required {
        if library.document(id).is_some() {
            found.insert(id.clone(), 1.0);
        }
    }
    let mut candidates: Vec<_> = found
        .into_iter()
        .filter(|(id, _)| known.iter().all(|candidate| candidate.id != *id))
        .map(|(id, score)| Candidate {
            title: library
                .document(&id)
                .map(|d| d.title.clone())
                .unwrap_or_default(),
            id,
            score,
            round,
        })
        .collect();
    let rank = |candidate: &Candidate| !required.contains(&candidate.id);
    candidates.sort_by(|left, right| {
        let by_score = right.score.total_cmp(&left.score);
        rank(left).cmp(&rank(right)).then(by_score)
    });
    candidates
}
