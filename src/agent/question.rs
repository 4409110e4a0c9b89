//! Scores sentences by how well they answer a question.
//!
//! In comes a prompt's question once, then sources; out go their sentences with a score from 0 to
//! 1, which compares between sources. It never chooses among them.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{KeyTerm, ModelError, Prompt, Source};
use super::sentence::sentences;
use super::text::{terms, terms_of, words};

/// What a term is worth when it stands in the sentence's own heading, in a heading further out, or
/// elsewhere in the passage, beside 1 in the sentence itself.
const IN_HEADING: f64 = 0.5;
const IN_OUTER_HEADING: f64 = 0.4;
const IN_PASSAGE: f64 = 0.2;
/// What is added to a term in a heading that is about nothing else: then each sentence below is
/// about the subject, whether it names it or not.
const HEADING_IS_SUBJECT: f64 = 0.6;
/// What two words of the question add when they stand side by side in the sentence too.
const SIDE_BY_SIDE: f64 = 0.25;
/// What a number adds where the question asks for one.
const NUMBER_WANTED: f64 = 1.2;
/// What a sentence without one keeps where the question asks how many or how much.
const NUMBER_UNSAID: f64 = 0.6;
/// What the start of a passage adds: it says what the passage is about.
const OPENS_PASSAGE: f64 = 1.06;
/// Words for what is asked about a subject. The subject may stand in a heading, but a sentence that
/// answers says the asked word itself. As [`terms`] gives them.
const ASPECTS: &[&str] = &[
    "default", "largest", "limit", "maximum", "minimum", "smallest",
];
/// What a sentence keeps that does not say what is asked about the subject.
const ASPECT_UNSAID: f64 = 0.7;
/// A sentence that meets less of the question than this share is not quoted.
const LEAST_SHARE: f64 = 0.2;

/// The question as terms with weights that sum to 1.
pub(super) struct Question {
    weights: BTreeMap<String, f64>,
    pairs: BTreeSet<(String, String)>,
    asked_words: BTreeSet<String>,
    wants: Number,
}

impl Question {
    /// The question of a prompt.
    pub(super) fn of(prompt: &Prompt) -> Result<Self, ModelError> {
        let asked = terms(&prompt.user);
        let own: Vec<_> = match prompt.terms.as_slice() {
            [] => weigh(&asked, &prompt.sources),
            given => given.to_vec(),
        };
        let total: f64 = own.iter().map(|term| term.weight).sum();
        if own.is_empty() || total <= 0.0 {
            return Err(ModelError::EmptyPrompt);
        }
        let mut weights = BTreeMap::new();
        for term in own {
            *weights.entry(term.term).or_insert(0.0) += term.weight / total;
        }
        Ok(Self {
            pairs: pairs(&prompt.user),
            weights,
            asked_words: words(&prompt.user).map(str::to_lowercase).collect(),
            wants: Number::of(&prompt.user),
        })
    }

    /// Scores every sentence of a source that meets enough of the question.
    pub(super) fn read<'a>(&self, source: &'a Source) -> Vec<Candidate<'a>> {
        let around = self.around(source);
        sentences(&source.text)
            .into_iter()
            .enumerate()
            .filter_map(|(place, text)| {
                let found = terms(text);
                let score = self.score(text, &found, &around, place)?;
                Some(Candidate {
                    source,
                    text,
                    terms: found.into_iter().collect(),
                    score,
                })
            })
            .collect()
    }

    /// What each term of the question is worth to the sentences of a source that do not have it.
    fn around(&self, source: &Source) -> BTreeMap<&str, f64> {
        let own = source.heading.last().map_or("", String::as_str);
        let in_own: BTreeSet<_> = terms(own).into_iter().collect();
        let in_outer: BTreeSet<_> = source.heading.iter().flat_map(|line| terms(line)).collect();
        let in_text: BTreeSet<_> = terms(&source.text).into_iter().collect();
        let own_words: BTreeSet<_> = words(own)
            .filter_map(|word| terms_of(word).into_iter().next())
            .collect();
        let heading = IN_HEADING + HEADING_IS_SUBJECT * self.focus(own);
        let worth = |term: &str| {
            if ASPECTS.contains(&term) {
                // The column of a table says it for its rows, a part of a name says nothing.
                if own_words.contains(term) {
                    1.0
                } else {
                    IN_PASSAGE
                }
            } else if in_own.contains(term) {
                heading
            } else if in_outer.contains(term) {
                IN_OUTER_HEADING
            } else if in_text.contains(term) {
                IN_PASSAGE
            } else {
                0.0
            }
        };
        self.weights
            .keys()
            .map(|term| (term.as_str(), worth(term)))
            .collect()
    }

    /// The share of a heading's words that the question has too, leaving out what it adds in
    /// brackets. An identifier is met by its parts: `block_size` by "block size".
    fn focus(&self, heading: &str) -> f64 {
        let (mut all, mut met) = (0.0, 0.0);
        let plain = heading
            .split('(')
            .map(|part| part.rsplit(')').next().unwrap_or_default());
        for of_word in plain.flat_map(words).map(terms_of) {
            if let [whole, parts @ ..] = of_word.as_slice() {
                let by_parts =
                    !parts.is_empty() && parts.iter().all(|p| self.weights.contains_key(p));
                all += 1.0;
                met += if by_parts || self.weights.contains_key(whole) {
                    1.0
                } else {
                    0.0
                };
            }
        }
        if all == 0.0 { 0.0 } else { met / all }
    }

    fn score(
        &self,
        text: &str,
        found: &[String],
        around: &BTreeMap<&str, f64>,
        place: usize,
    ) -> Option<f64> {
        let has: BTreeSet<&str> = found.iter().map(String::as_str).collect();
        let share: f64 = self
            .weights
            .iter()
            .map(|(term, weight)| {
                let nearby = around.get(term.as_str()).copied().unwrap_or(0.0);
                let inside = if has.contains(term.as_str()) {
                    1.0
                } else {
                    0.0
                };
                weight * nearby.max(inside)
            })
            .sum();
        if share < LEAST_SHARE {
            return None;
        }
        let weight = |term: &String| self.weights.get(term).copied().unwrap_or(0.0);
        let together: f64 = pairs(text)
            .intersection(&self.pairs)
            .map(|(left, right)| weight(left) + weight(right))
            .sum();
        let mut score = share * (1.0 + SIDE_BY_SIDE * together.min(1.0)) * shape(text);
        let unsaid = |aspect: &&str| {
            let said = has.contains(aspect) || around.get(aspect).is_some_and(|near| *near >= 1.0);
            self.weights.contains_key(*aspect) && !said
        };
        if ASPECTS.iter().any(unsaid) {
            score *= ASPECT_UNSAID;
        }
        match (self.wants, self.has_new_number(text)) {
            (Number::Asked | Number::Likely, true) => score *= NUMBER_WANTED,
            (Number::Asked, false) => score *= NUMBER_UNSAID,
            (Number::Likely, false) | (Number::NotAsked, _) => {}
        }
        if place == 0 {
            score *= OPENS_PASSAGE;
        }
        // The gains multiply to less than this; dividing keeps the score within 0 and 1 without
        // making all good sentences equal.
        Some(score / ((1.0 + SIDE_BY_SIDE) * NUMBER_WANTED * OPENS_PASSAGE))
    }

    /// Whether the text has a number that the question does not have itself.
    fn has_new_number(&self, text: &str) -> bool {
        words(text)
            .map(str::to_lowercase)
            .any(|word| is_number(&word) && !self.asked_words.contains(&word))
    }
}

/// The pairs of terms that stand side by side. An identifier counts as one: its parts always do.
fn pairs(text: &str) -> BTreeSet<(String, String)> {
    let firsts: Vec<_> = words(text)
        .filter_map(|word| terms_of(word).into_iter().next())
        .collect();
    firsts
        .windows(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect()
}

/// What the form of a sentence says about it as an answer.
fn shape(text: &str) -> f64 {
    let count = words(text).count();
    let length: f64 = match count {
        0..=2 => 0.5,
        3..=4 => 0.8,
        5..=45 => 1.0,
        46..=80 => 0.85,
        _ => 0.6,
    };
    let starts = text.chars().next().is_some_and(char::is_alphanumeric);
    let form = if text.ends_with('?') {
        0.5
    } else if text.contains('\n') {
        0.8
    } else if text.ends_with(':') || (!starts && !text.starts_with(['"', '“', '(', '\''])) {
        0.7
    } else {
        1.0
    };
    length * form
}

/// Whether a question asks for a number or an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    /// It says "how many" or the like: a sentence without a number is no answer.
    Asked,
    /// It asks for something that mostly is one, such as a limit.
    Likely,
    NotAsked,
}

impl Number {
    fn of(question: &str) -> Self {
        let asks = [
            "how many",
            "how much",
            "how long",
            "how large",
            "how big",
            "how often",
        ];
        let about = [
            "maximum", "minimum", "limit", "size", "number", "default", "port", "largest",
            "longest", "smallest", "version", "year", "length",
        ];
        let lower = question.to_lowercase();
        if asks.iter().any(|ask| lower.contains(ask)) {
            Self::Asked
        } else if words(&lower).any(|word| about.contains(&word)) {
            Self::Likely
        } else {
            Self::NotAsked
        }
    }
}

/// Whether a word is a number in digits or in letters.
fn is_number(word: &str) -> bool {
    const IN_LETTERS: &[&str] = &[
        "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "hundred",
        "thousand", "million", "billion",
    ];
    word.starts_with(|c: char| c.is_ascii_digit()) || IN_LETTERS.contains(&word)
}

/// Weighs terms by how few of the sources have them, for a prompt that brings no weights.
fn weigh(asked: &[String], sources: &[Source]) -> Vec<KeyTerm> {
    let read: Vec<BTreeSet<String>> = sources
        .iter()
        .map(|source| {
            let heading = source.heading.iter().flat_map(|line| words(line));
            heading
                .chain(words(&source.text))
                .flat_map(terms_of)
                .collect()
        })
        .collect();
    let all = read.len() as f64;
    let distinct: BTreeSet<_> = asked.iter().collect();
    distinct
        .into_iter()
        .map(|term| {
            let having = read.iter().filter(|source| source.contains(term)).count() as f64;
            KeyTerm {
                term: term.clone(),
                weight: 1.0 + ((all + 1.0) / (having + 1.0)).ln(),
            }
        })
        .collect()
}

/// A sentence that may be quoted.
pub(super) struct Candidate<'a> {
    pub(super) source: &'a Source,
    pub(super) text: &'a str,
    pub(super) terms: BTreeSet<String>,
    pub(super) score: f64,
}
