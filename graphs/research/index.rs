//! Ranked full-text search over the passages of a library.
//!
//! In come documents once, then weighted terms; out go passages and documents, best first, equals
//! by id. Ranking is BM25 over two fields, the passage and the headings above it, with one length
//! and one weight each (BM25F). It never reads a disk and holds no text, only counts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use milepost::agent::{KeyTerm, terms_of, words};

use super::document::Document;

/// How fast more of the same word stops to count, and how much length counts, as usual for BM25.
const K1: f64 = 1.2;
const B: f64 = 0.75;
/// What a word in the innermost heading, or in one further out, counts beside one in the text.
const HEADING: f64 = 3.0;
const OUTER_HEADING: f64 = 1.0;
/// What the second best passage adds to the rank of its document, the third half of that, and on.
const NEXT_PASSAGE: f64 = 0.15;

/// An inverted index: for each term the passages that have it.
#[derive(Debug, Default)]
pub struct Index {
    terms: HashMap<String, u32>,
    postings: Vec<Vec<Posting>>,
    passages: Vec<PassageRow>,
    mean_words: f64,
}

#[derive(Clone, Copy, Debug)]
struct Posting {
    passage: u32,
    in_text: u16,
    in_heading: u16,
    in_outer: u16,
}

#[derive(Clone, Copy, Debug)]
struct PassageRow {
    document: u32,
    place: u32,
    words: u32,
}

/// A passage that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Where its document stands in the library.
    pub document: usize,
    /// Where the passage stands in the document.
    pub passage: usize,
    /// Its rank; higher is better, and only comparable within one search.
    pub score: f64,
}

/// Which field of a passage a word stands in.
#[derive(Clone, Copy)]
enum Field {
    Text,
    Heading,
    Outer,
}

impl Index {
    /// Indexes documents in their order.
    pub(super) fn of(documents: &[Arc<Document>]) -> Self {
        let mut index = Self::default();
        let mut known: HashMap<&str, Vec<u32>> = HashMap::new();
        let mut all_words = 0u64;
        for (at, document) in documents.iter().enumerate() {
            for (place, passage) in document.passages.iter().enumerate() {
                let row = to_u32(index.passages.len());
                let mut counted = 0;
                for word in words(&passage.text) {
                    counted += 1;
                    index.count(word, row, Field::Text, &mut known);
                }
                // The columns of a table say little about a row: they count as a heading further out.
                let is_columns = passage
                    .heading
                    .last()
                    .is_some_and(|last| last.contains(" | "));
                let outer =
                    passage.heading.len() - usize::from(!is_columns).min(passage.heading.len());
                let (outer, own) = passage.heading.split_at(outer);
                for word in own.iter().flat_map(|line| words(line)) {
                    index.count(word, row, Field::Heading, &mut known);
                }
                for word in outer.iter().flat_map(|line| words(line)) {
                    index.count(word, row, Field::Outer, &mut known);
                }
                all_words += u64::from(counted);
                index.passages.push(PassageRow {
                    document: to_u32(at),
                    place: to_u32(place),
                    words: counted,
                });
            }
        }
        index.mean_words = all_words as f64 / index.passages.len().max(1) as f64;
        index
    }

    fn count<'a>(
        &mut self,
        word: &'a str,
        row: u32,
        field: Field,
        known: &mut HashMap<&'a str, Vec<u32>>,
    ) {
        // Most words of a text were met before: then nothing is put in lower case or cut again.
        let ids = known.entry(word).or_insert_with(|| {
            let of_term = |term| {
                let next = to_u32(self.terms.len());
                *self.terms.entry(term).or_insert(next)
            };
            terms_of(word).into_iter().map(of_term).collect()
        });
        self.postings.resize_with(self.terms.len(), Vec::new);
        for id in ids {
            let list = &mut self.postings[*id as usize];
            if list.last().is_none_or(|last| last.passage != row) {
                list.push(Posting {
                    passage: row,
                    in_text: 0,
                    in_heading: 0,
                    in_outer: 0,
                });
            }
            if let Some(last) = list.last_mut() {
                let count = match field {
                    Field::Text => &mut last.in_text,
                    Field::Heading => &mut last.in_heading,
                    Field::Outer => &mut last.in_outer,
                };
                *count = count.saturating_add(1);
            }
        }
    }

    /// How many passages there are.
    pub fn passages(&self) -> usize {
        self.passages.len()
    }

    /// How telling a term is, from 0 for one that all passages have to 1 for one that a single
    /// passage has; `None` for one that no passage has.
    pub fn rarity(&self, term: &str) -> Option<f64> {
        let having = self.postings(term)?.len();
        let most = idf(self.passages.len(), 1);
        Some(idf(self.passages.len(), having) / most)
    }

    /// The passages that have any of the terms, best first, equals in the order of the library.
    pub fn search(&self, terms: &[KeyTerm]) -> Vec<Hit> {
        self.find(terms, |list| list)
    }

    fn find(&self, terms: &[KeyTerm], among: impl Fn(&[Posting]) -> &[Posting]) -> Vec<Hit> {
        let mut scores: BTreeMap<u32, f64> = BTreeMap::new();
        for term in terms {
            let list = self.postings(&term.term).unwrap_or_default();
            let worth = term.weight * idf(self.passages.len(), list.len());
            for posting in among(list) {
                *scores.entry(posting.passage).or_insert(0.0) += worth * self.frequency(posting);
            }
        }
        let mut hits: Vec<_> = scores
            .into_iter()
            .map(|(row, score)| {
                let row = self.passages[row as usize];
                Hit {
                    document: row.document as usize,
                    passage: row.place as usize,
                    score,
                }
            })
            .collect();
        // A stable sort: rows are in the order of the library.
        hits.sort_by(|left, right| right.score.total_cmp(&left.score));
        hits
    }

    /// The passages of one document that have any of the terms, best first.
    pub fn search_in(&self, document: usize, terms: &[KeyTerm]) -> Vec<Hit> {
        let from = self
            .passages
            .partition_point(|row| (row.document as usize) < document);
        let to = self
            .passages
            .partition_point(|row| row.document as usize <= document);
        self.find(terms, |list| {
            let first = list.partition_point(|posting| (posting.passage as usize) < from);
            let end = list.partition_point(|posting| (posting.passage as usize) < to);
            &list[first..end]
        })
    }

    /// The documents that have any of the terms, best first, equals in the order of the library:
    /// each with its rank and its best passage.
    pub fn search_documents(&self, terms: &[KeyTerm]) -> Vec<Hit> {
        let mut best: BTreeMap<usize, (Hit, f64)> = BTreeMap::new();
        for hit in self.search(terms) {
            best.entry(hit.document)
                .and_modify(|(first, share)| {
                    first.score += hit.score * *share;
                    *share /= 2.0;
                })
                .or_insert((hit, NEXT_PASSAGE));
        }
        let mut hits: Vec<_> = best.into_values().map(|(hit, _)| hit).collect();
        hits.sort_by(|left, right| right.score.total_cmp(&left.score));
        hits
    }

    fn postings(&self, term: &str) -> Option<&[Posting]> {
        let id = *self.terms.get(term)?;
        Some(&self.postings[id as usize])
    }

    /// How much of a term is in a passage, between 0 and `K1 + 1`.
    fn frequency(&self, posting: &Posting) -> f64 {
        let words = f64::from(self.passages[posting.passage as usize].words);
        let length = 1.0 - B + B * words / self.mean_words.max(1.0);
        let count = f64::from(posting.in_text) / length
            + HEADING * f64::from(posting.in_heading.min(1))
            + OUTER_HEADING * f64::from(posting.in_outer.min(1));
        count * (K1 + 1.0) / (count + K1)
    }
}

/// The inverse document frequency, never negative.
fn idf(all: usize, having: usize) -> f64 {
    let (all, having) = (all as f64, having as f64);
    (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
}

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).expect("the limits of a folder keep its counts within 32 bits")
}

#[cfg(test)]
mod tests {
    use super::super::document::Format;
    use super::*;

    fn index(texts: &[&str]) -> Index {
        let documents: Vec<_> = texts
            .iter()
            .enumerate()
            .map(|(at, text)| {
                let id = format!("{at}.md");
                Arc::new(Document::parse(&id, Format::Markdown, text.as_bytes()).unwrap())
            })
            .collect();
        Index::of(&documents)
    }

    fn query(words: &[&str]) -> Vec<KeyTerm> {
        let term = |word: &&str| KeyTerm {
            term: (*word).to_owned(),
            weight: 1.0,
        };
        words.iter().map(term).collect()
    }

    #[test]
    fn the_passage_with_the_rarest_words_and_the_right_heading_is_first() {
        let index = index(&[
            "# Tea\n\nTea is hot. Water is hot.",
            "# Kettle\n\nIt makes water hot.",
            "# Other\n\nA kettle stands here, with much other hot water and many more words.",
        ]);
        let found: Vec<_> = index
            .search(&query(&["kettl", "hot"]))
            .iter()
            .map(|h| h.document)
            .collect();
        assert_eq!(found, [1, 2, 0]);
        assert!(index.rarity("hot").unwrap() < index.rarity("kettl").unwrap());
        assert_eq!(index.rarity("coffee"), None);
        assert!(index.search(&query(&["coffee"])).is_empty());
    }

    #[test]
    fn equals_come_in_the_order_of_the_library() {
        let index = index(&["equal words", "equal words", "equal words"]);
        let found: Vec<_> = index
            .search_documents(&query(&["equal"]))
            .iter()
            .map(|h| h.document)
            .collect();
        assert_eq!(found, [0, 1, 2]);
    }

    #[test]
    fn a_document_with_more_good_passages_wins_over_an_equal_one() {
        let index = index(&["# A\n\npear", "# A\n\npear\n\n## B\n\npear"]);
        let found = index.search_documents(&query(&["pear"]));
        assert_eq!(found[0].document, 1);
    }
}
