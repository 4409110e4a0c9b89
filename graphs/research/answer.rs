//! Chooses what the report says.
//!
//! In come the plan and the notes, out go for each question its findings, best first: quotes from
//! all documents ranked together, none said twice. Equals are ordered by id and place. It never
//! changes a quote.

use std::collections::{BTreeMap, BTreeSet};

use milepost::agent::terms;
use serde::{Deserialize, Serialize};

use super::notes::{Evidence, Note};
use super::plan::Plan;

/// How much the rank of its document adds to a quote.
const DOCUMENT_RANK: f64 = 0.25;
/// From this share of common words on, two quotes say the same.
const SAME: f64 = 0.75;
/// How many findings a question has at most.
const FINDINGS: usize = 8;

/// A quote that the report gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The canonical id of the document.
    pub id: String,
    /// The document's title.
    pub title: String,
    /// The headings above the quote, outermost first.
    pub heading: Vec<String>,
    /// The words.
    pub quote: String,
    /// How well it answers.
    pub score: f64,
}

/// For each question of the plan its findings, best first.
pub fn findings(plan: &Plan, notes: &BTreeMap<String, Note>) -> Vec<Vec<Finding>> {
    (0..plan.sub_questions.len())
        .map(|number| of_question(number, notes))
        .collect()
}

fn of_question(number: usize, notes: &BTreeMap<String, Note>) -> Vec<Finding> {
    let mut ranked: Vec<(f64, &Note, &Evidence)> = notes
        .values()
        .flat_map(|note| note.evidence.iter().map(move |one| (note, one)))
        .filter(|(_, one)| one.question == number)
        .map(|(note, one)| (one.score * (1.0 + DOCUMENT_RANK * note.rank), note, one))
        .collect();
    // A stable sort: notes are ordered by id, and evidence by the model.
    ranked.sort_by(|left, right| right.0.total_cmp(&left.0));
    let mut chosen: Vec<(Finding, BTreeSet<String>)> = Vec::new();
    for (score, note, one) in ranked {
        let has: BTreeSet<_> = terms(&one.quote).into_iter().collect();
        let said = chosen.iter().any(|(_, other)| {
            let common = other.intersection(&has).count() as f64;
            common >= SAME * other.union(&has).count() as f64
        });
        if chosen.len() < FINDINGS && !said {
            let finding = Finding {
                id: note.id.clone(),
                title: note.title.clone(),
                heading: one.heading.clone(),
                quote: one.quote.clone(),
                score: score / (1.0 + DOCUMENT_RANK),
            };
            chosen.push((finding, has));
        }
    }
    chosen.into_iter().map(|(finding, _)| finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(id: &str, rank: f64, quotes: &[(&str, f64)]) -> (String, Note) {
        let evidence = quotes.iter().map(|(quote, score)| Evidence {
            quote: (*quote).to_owned(),
            score: *score,
            ..Evidence::default()
        });
        let note = Note {
            id: id.into(),
            rank,
            evidence: evidence.collect(),
            ..Note::default()
        };
        (id.into(), note)
    }

    #[test]
    fn quotes_of_all_documents_are_ranked_together_and_said_once() {
        let plan = Plan::of("ports").unwrap();
        let notes = BTreeMap::from([
            note(
                "a",
                0.1,
                &[("The port is 5432.", 0.8), ("Ships use a port.", 0.5)],
            ),
            note("b", 1.0, &[("Port: the port is 5432.", 0.8)]),
        ]);
        let found = findings(&plan, &notes);
        let ids: Vec<_> = found[0]
            .iter()
            .map(|f| (f.id.as_str(), f.quote.as_str()))
            .collect();
        assert_eq!(
            ids,
            [("b", "Port: the port is 5432."), ("a", "Ships use a port.")]
        );
    }
}
