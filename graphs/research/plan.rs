//! Makes a plan of a question.
//!
//! In comes a question as people write it, out goes a [`Plan`]: the single questions in it, each
//! with the terms to search for and how much each matters. The same question always gives the
//! same plan. It never adds a word that is not in the question.

use std::collections::BTreeMap;

use milepost::agent::{KeyTerm, terms_of, words};
use serde::{Deserialize, Serialize};

use super::index::Index;

/// What identifiers and quoted words count beside plain ones: who names them means exactly them.
const EXACT: f64 = 1.6;
/// What the parts of an identifier count beside plain words.
const PART: f64 = 0.15;
/// What a word counts that every passage has, beside 1 for the rarest.
const COMMON: f64 = 0.3;
/// Words that start a question of their own after a comma or an `and`.
const ASKING: &[&str] = &[
    "are", "can", "do", "does", "explain", "how", "is", "list", "may", "should", "what", "when",
    "where", "which", "who", "why",
];

/// What to find out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The question as asked.
    pub question: String,
    /// The single questions in it.
    pub sub_questions: Vec<SubQuestion>,
    /// Terms of the question that no document has; empty until the plan is weighed.
    pub unknown: Vec<String>,
}

/// One question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SubQuestion {
    /// The question in words.
    pub text: String,
    /// What to search for, in the order of the question.
    pub terms: Vec<KeyTerm>,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// There is no word to search for.
    #[error("there is nothing to search for in the question {question:?}")]
    NothingAsked {
        /// The question.
        question: String,
    },
}

impl Plan {
    /// The plan for a question.
    ///
    /// # Errors
    ///
    /// [`PlanError::NothingAsked`] when the question has only words that every text has.
    pub fn of(question: &str) -> Result<Self, PlanError> {
        let mut sub_questions: Vec<SubQuestion> = Vec::new();
        for text in split(question) {
            let terms = key_terms(&text);
            if !terms.is_empty() && sub_questions.iter().all(|known| known.terms != terms) {
                sub_questions.push(SubQuestion { text, terms });
            }
        }
        if sub_questions.is_empty() {
            return Err(PlanError::NothingAsked {
                question: question.to_owned(),
            });
        }
        Ok(Self {
            question: question.trim().to_owned(),
            sub_questions,
            unknown: Vec::new(),
        })
    }

    /// The plan with each term weighed by how telling it is in a library.
    ///
    /// A term that no document has keeps its full weight and is named as unknown: the question
    /// cannot be answered whole, and coverage says so.
    #[must_use]
    pub fn weighed(mut self, index: &Index) -> Self {
        for term in self.sub_questions.iter_mut().flat_map(|one| &mut one.terms) {
            let rarity = index.rarity(&term.term);
            if rarity.is_none() && !self.unknown.contains(&term.term) {
                self.unknown.push(term.term.clone());
            }
            term.weight *= COMMON + (1.0 - COMMON) * rarity.unwrap_or(1.0);
        }
        self
    }
}

/// The terms of a question, each once, in its order.
fn key_terms(text: &str) -> Vec<KeyTerm> {
    let quoted = quoted(text);
    let mut weights: BTreeMap<String, f64> = BTreeMap::new();
    let mut order = Vec::new();
    for word in words(text) {
        let terms = terms_of(word);
        for (at, term) in terms.iter().enumerate() {
            let weight = match (at, terms.len()) {
                (0, 1) if quoted.iter().any(|phrase| words(phrase).any(|w| w == word)) => EXACT,
                (0, 1) => 1.0,
                (0, _) => EXACT,
                _ => PART,
            };
            if !weights.contains_key(term) {
                order.push(term.clone());
            }
            let known = weights.entry(term.clone()).or_insert(0.0);
            *known = known.max(weight);
        }
    }
    order
        .into_iter()
        .map(|term| KeyTerm {
            weight: weights[&term],
            term,
        })
        .collect()
}

/// What stands in quotation marks or backticks.
fn quoted(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (open, close) in [('"', '"'), ('`', '`'), ('“', '”')] {
        let mut rest = text;
        while let Some((_, after)) = rest.split_once(open)
            && let Some((inside, after)) = after.split_once(close)
        {
            found.push(inside);
            rest = after;
        }
    }
    found
}

/// The single questions in a text.
fn split(question: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for sentence in question.split(['?', ';', '\n', '？', '；']) {
        let mut rest = sentence;
        while let Some((part, after)) = split_at_asking(rest) {
            parts.push(part);
            rest = after;
        }
        parts.push(rest);
    }
    let trim = |part: &str| {
        let part = part.trim().trim_end_matches(['.', ',', '!']);
        part.trim().to_owned()
    };
    parts
        .into_iter()
        .map(trim)
        .flat_map(|part| split_list(&part))
        .collect()
}

/// Cuts before the first `and how …`, `, what …` and the like.
fn split_at_asking(text: &str) -> Option<(&str, &str)> {
    let lower = text.to_ascii_lowercase();
    ASKING
        .iter()
        .flat_map(|asking| [" and ", ", and ", ", "].map(|joint| format!("{joint}{asking} ")))
        .filter_map(|mark| {
            let at = lower.find(&mark)?;
            let joint = mark.trim_end().rfind(' ')?;
            Some((at, at + joint + 1))
        })
        .min()
        .map(|(end, start)| (&text[..end], &text[start..]))
}

/// Makes one question of each identifier in a list: `defaults of work_mem and temp_buffers`.
fn split_list(text: &str) -> Vec<String> {
    let pieces: Vec<&str> = text.split(' ').collect();
    let name = |piece: &str| {
        let bare = piece.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
        bare.contains('_') || (piece.starts_with('`') && bare.len() > 1)
    };
    let Some(first) = pieces.iter().position(|piece| name(piece)) else {
        return vec![text.to_owned()];
    };
    let in_list = |piece: &&&str| name(piece) || matches!(**piece, "and" | "or" | "&");
    let length = pieces[first..].iter().take_while(in_list).count();
    let list = &pieces[first..first + length];
    let names: Vec<&&str> = list.iter().filter(|piece| name(piece)).collect();
    if names.len() < 2 {
        return vec![text.to_owned()];
    }
    let end = first
        + list
            .iter()
            .rposition(|piece| name(piece))
            .map_or(0, |last| last + 1);
    let around = |name: &&str| {
        let name = name.trim_end_matches(',');
        let all = pieces[..first].iter().chain([&name]).chain(&pieces[end..]);
        all.copied().collect::<Vec<_>>().join(" ")
    };
    names.into_iter().map(around).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(question: &str) -> Vec<String> {
        let plan = Plan::of(question).unwrap();
        plan.sub_questions.into_iter().map(|one| one.text).collect()
    }

    #[test]
    fn a_question_is_split_where_another_starts() {
        assert_eq!(
            texts("What is the default port, and how do I change it? Who may connect?"),
            [
                "What is the default port",
                "how do I change it",
                "Who may connect"
            ]
        );
        assert_eq!(texts("salt and pepper"), ["salt and pepper"]);
    }

    #[test]
    fn each_identifier_of_a_list_is_a_question() {
        assert_eq!(
            texts("What are the defaults of work_mem, temp_buffers and max_connections in bytes?"),
            [
                "What are the defaults of work_mem in bytes",
                "What are the defaults of temp_buffers in bytes",
                "What are the defaults of max_connections in bytes"
            ]
        );
    }

    #[test]
    fn identifiers_and_quoted_words_count_more_and_their_parts_less() {
        let plan = Plan::of("Does \"full\" need max_connections or plain words?").unwrap();
        let weights: Vec<_> = plan.sub_questions[0]
            .terms
            .iter()
            .map(|term| (term.term.as_str(), term.weight))
            .collect();
        assert_eq!(
            weights,
            [
                ("full", EXACT),
                ("max_connections", EXACT),
                ("max", PART),
                ("connect", PART),
                ("plain", 1.0),
                ("word", 1.0)
            ]
        );
    }

    #[test]
    fn a_question_without_words_to_search_for_is_refused() {
        assert!(matches!(
            Plan::of("What is it?"),
            Err(PlanError::NothingAsked { .. })
        ));
    }
}
