//! Judges how much of the question is answered, and where the run goes next.
//!
//! In come the plan, the candidates, the notes and the failures; out go a [`CoverageReport`] and a
//! [`Route`]. The judgement is arithmetic over words: no model is asked whether it did well.

use std::collections::{BTreeMap, BTreeSet};

use milepost::Exits;
use milepost::agent::terms;
use serde::{Deserialize, Serialize};

use super::discover::Candidate;
use super::notes::Note;
use super::plan::{Plan, SubQuestion};
use super::state::TaskError;

/// From this coverage on the report is written (S416).
pub const ENOUGH_COVERAGE: f64 = 0.8;
/// How many candidates are analysed at once.
pub const ANALYSED_AT_ONCE: usize = 12;
/// How often a required source is tried.
pub const TRIES_OF_REQUIRED: usize = 3;
/// How many rounds of discovery there are: what three do not find is not there.
pub const MOST_ROUNDS: u32 = 3;

/// How much of the question is answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoverageReport {
    /// The share of the question's terms that the best quotes have, by weight, from 0 to 1.
    pub score: f64,
    /// The same for each question of the plan.
    pub questions: Vec<Covered>,
    /// What must be there and is not.
    pub missing: Vec<Missing>,
    /// How many candidates are left to analyse.
    pub pending: usize,
    /// Whether another round of discovery may bring new candidates.
    pub more_to_find: bool,
}

/// How well one question is answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Covered {
    /// The share, from 0 to 1.
    pub share: f64,
    /// The terms that its best quote does not have.
    pub open: Vec<String>,
}

/// Something critical that is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Missing {
    /// A required source has no note.
    Source(String),
    /// No source says anything about this question of the plan.
    Question(usize),
}

/// Where the run goes after the coverage check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Exits)]
pub enum Route {
    /// Search again.
    Discover,
    /// Analyse more of what was found.
    Analyse,
    /// Write the report.
    Report,
}

/// Where S416 leads: critical sources missing → discover; too little coverage → analyse; else
/// report.
pub fn route_after_coverage(critical_missing: bool, score: f64) -> Route {
    if critical_missing {
        Route::Discover
    } else if score < ENOUGH_COVERAGE {
        Route::Analyse
    } else {
        Route::Report
    }
}

impl CoverageReport {
    /// Where the run goes: as [`route_after_coverage`] says, as long as that can bring anything
    /// new. A report on what there is ends a search that finds no more.
    pub fn route(&self) -> Route {
        match route_after_coverage(!self.missing.is_empty(), self.score) {
            Route::Report => Route::Report,
            Route::Discover if self.more_to_find => Route::Discover,
            Route::Discover | Route::Analyse if self.pending > 0 => Route::Analyse,
            Route::Analyse if self.more_to_find => Route::Discover,
            Route::Discover | Route::Analyse => Route::Report,
        }
    }
}

/// Judges what is known so far. `more_to_find` says whether another round of discovery may bring
/// new candidates.
pub fn assess(
    plan: &Plan,
    required: &[String],
    candidates: &[Candidate],
    notes: &BTreeMap<String, Note>,
    errors: &[TaskError],
    more_to_find: bool,
) -> CoverageReport {
    let questions: Vec<_> = plan
        .sub_questions
        .iter()
        .enumerate()
        .map(|(number, question)| covered(number, question, notes))
        .collect();
    let weights: Vec<_> = plan.sub_questions.iter().map(weight).collect();
    let all: f64 = weights.iter().sum();
    let got: f64 = questions
        .iter()
        .zip(&weights)
        .map(|(one, weight)| one.share * weight)
        .sum();
    let sources = required
        .iter()
        .filter(|id| !notes.contains_key(*id))
        .map(|id| Missing::Source(id.clone()));
    let silent = (0..plan.sub_questions.len())
        .filter(|number| {
            let answers = |note: &Note| note.evidence.iter().any(|one| one.question == *number);
            !notes.values().any(answers)
        })
        .map(Missing::Question);
    CoverageReport {
        score: if all > 0.0 {
            (got / all).clamp(0.0, 1.0)
        } else {
            0.0
        },
        missing: sources.chain(silent).collect(),
        pending: pending(required, candidates, notes, errors).count(),
        questions,
        more_to_find,
    }
}

/// The candidates to analyse next: required ones first, then the best.
pub fn next_batch(
    required: &[String],
    candidates: &[Candidate],
    notes: &BTreeMap<String, Note>,
    errors: &[TaskError],
) -> Vec<Candidate> {
    let mut batch: Vec<_> = pending(required, candidates, notes, errors)
        .cloned()
        .collect();
    batch.sort_by(|left, right| {
        let other = |candidate: &Candidate| !required.contains(&candidate.id);
        other(left)
            .cmp(&other(right))
            .then(right.score.total_cmp(&left.score))
    });
    batch.truncate(ANALYSED_AT_ONCE);
    batch
}

/// The candidates without a note that are still to be tried: once each, required ones more often.
fn pending<'a>(
    required: &'a [String],
    candidates: &'a [Candidate],
    notes: &'a BTreeMap<String, Note>,
    errors: &'a [TaskError],
) -> impl Iterator<Item = &'a Candidate> {
    candidates.iter().filter(move |candidate| {
        let failed = errors
            .iter()
            .filter(|error| error.source == candidate.id)
            .count();
        let tries = if required.contains(&candidate.id) {
            TRIES_OF_REQUIRED
        } else {
            1
        };
        !notes.contains_key(&candidate.id) && failed < tries
    })
}

fn weight(question: &SubQuestion) -> f64 {
    question.terms.iter().map(|term| term.weight).sum()
}

/// The share of the question's terms that its best quote has, counting the headings above it.
fn covered(number: usize, question: &SubQuestion, notes: &BTreeMap<String, Note>) -> Covered {
    let all = weight(question);
    let mut best = Covered {
        share: 0.0,
        open: question
            .terms
            .iter()
            .map(|term| term.term.clone())
            .collect(),
    };
    let evidence = notes.values().flat_map(|note| &note.evidence);
    for one in evidence.filter(|one| one.question == number) {
        let headings = one.heading.iter().flat_map(|line| terms(line));
        let has: BTreeSet<_> = headings.chain(terms(&one.quote)).collect();
        let (met, open): (Vec<_>, Vec<_>) = question
            .terms
            .iter()
            .partition(|term| has.contains(&term.term));
        let share = met.iter().map(|term| term.weight).sum::<f64>() / all;
        if share > best.share {
            best = Covered {
                share: share.min(1.0),
                open: open.into_iter().map(|term| term.term.clone()).collect(),
            };
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::notes::Evidence;
    use super::*;

    fn candidate(id: &str, score: f64) -> Candidate {
        Candidate {
            id: id.into(),
            score,
            ..Candidate::default()
        }
    }

    fn note(id: &str, question: usize, quote: &str) -> (String, Note) {
        let evidence = vec![Evidence {
            question,
            quote: quote.into(),
            ..Evidence::default()
        }];
        let note = Note {
            id: id.into(),
            evidence,
            ..Note::default()
        };
        (id.into(), note)
    }

    fn failure(source: &str) -> TaskError {
        TaskError {
            source: source.into(),
            ..TaskError::default()
        }
    }

    #[test]
    fn the_route_after_coverage_is_as_required() {
        assert_eq!(route_after_coverage(true, 0.95), Route::Discover);
        assert_eq!(route_after_coverage(false, 0.79), Route::Analyse);
        assert_eq!(route_after_coverage(false, 0.80), Route::Report);
    }

    #[test]
    fn coverage_is_the_share_of_the_words_that_the_best_quotes_have() {
        let plan = Plan::of("red apples? green pears?").unwrap();
        let notes = BTreeMap::from([note("a", 0, "Apples are red."), note("b", 1, "Green!")]);
        let report = assess(&plan, &[], &[], &notes, &[], false);
        assert!((report.score - 0.75).abs() < 1e-9);
        assert_eq!(report.questions[1].open, ["pear"]);
        assert!(report.missing.is_empty());
        assert_eq!(report.route(), Route::Report);
    }

    #[test]
    fn a_question_or_required_source_without_a_note_is_missing() {
        let plan = Plan::of("red apples? green pears?").unwrap();
        let notes = BTreeMap::from([note("a", 0, "Apples are red.")]);
        let required = ["must.md".to_owned()];
        let report = assess(&plan, &required, &[], &notes, &[], true);
        assert_eq!(
            report.missing,
            [Missing::Source("must.md".into()), Missing::Question(1)]
        );
        assert_eq!(report.route(), Route::Discover);
    }

    #[test]
    fn a_search_that_can_find_no_more_ends_in_a_report() {
        let mut report = CoverageReport {
            score: 0.5,
            pending: 2,
            ..CoverageReport::default()
        };
        assert_eq!(report.route(), Route::Analyse);
        report.missing.push(Missing::Question(0));
        assert_eq!(report.route(), Route::Analyse);
        report.pending = 0;
        assert_eq!(report.route(), Route::Report);
        report.more_to_find = true;
        assert_eq!(report.route(), Route::Discover);
    }

    #[test]
    fn a_batch_has_required_sources_first_and_no_failed_one_again() {
        let candidates = [
            candidate("a", 0.9),
            candidate("b", 0.8),
            candidate("must", 0.1),
            candidate("c", 0.95),
        ];
        let notes = BTreeMap::from([note("b", 0, "x")]);
        let required = ["must".to_owned()];
        let errors = [failure("a"), failure("must")];
        let ids = |errors: &[TaskError]| -> Vec<String> {
            let batch = next_batch(&required, &candidates, &notes, errors);
            batch.into_iter().map(|candidate| candidate.id).collect()
        };
        assert_eq!(ids(&errors), ["must", "c"]);
        let often = [failure("must"), failure("must"), failure("must")];
        assert_eq!(ids(&often), ["c", "a"]);
    }
}
