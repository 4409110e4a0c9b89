//! A model that needs no network: it answers by quoting.
//!
//! In comes a prompt with sources; out go the sentences of those sources that meet the question
//! best, word for word. The same prompt gives the same reply on every machine. It never writes a
//! sentence of its own: with nothing to quote, the reply is empty.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::model::{ChatModel, ModelError, Prompt, Quote, Reply};
use super::question::{Candidate, Question};

/// How many quotes are given when the prompt names no number.
const DEFAULT_QUOTES: usize = 3;
/// How much a sentence loses for saying what a chosen one says already.
const REDUNDANCY: f64 = 0.5;

/// Ranks the sentences of the given sources against the question, and quotes the best.
///
/// A sentence gains by the weight of the question's terms that it has, that its headings have, or
/// that its passage has; by having them side by side; by opening its passage; by a number where
/// the question asks for one. It loses by being a fragment, code or overlong, and by repeating what
/// a better one says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extractive;

#[async_trait]
impl ChatModel for Extractive {
    async fn reply(&self, prompt: &Prompt) -> Result<Reply, ModelError> {
        let question = Question::of(prompt)?;
        let wanted = match prompt.quotes {
            0 => DEFAULT_QUOTES,
            wanted => wanted,
        };
        let candidates = prompt
            .sources
            .iter()
            .flat_map(|source| question.read(source))
            .collect();
        let quotes: Vec<_> = choose(candidates, wanted)
            .into_iter()
            .map(|chosen| Quote {
                source: chosen.source.id.clone(),
                text: chosen.text.to_owned(),
                score: chosen.score.min(1.0),
            })
            .collect();
        let texts: Vec<_> = quotes.iter().map(|quote| quote.text.as_str()).collect();
        Ok(Reply {
            text: texts.join("\n"),
            quotes,
        })
    }
}

/// Takes the best candidate again and again, each time less what the taken ones say already
/// (maximal marginal relevance). Of equals the one that was read first is taken.
fn choose(mut candidates: Vec<Candidate<'_>>, wanted: usize) -> Vec<Candidate<'_>> {
    let mut chosen: Vec<Candidate<'_>> = Vec::new();
    while chosen.len() < wanted {
        let mut best: Option<(usize, f64)> = None;
        for (at, candidate) in candidates.iter().enumerate() {
            let alike = chosen
                .iter()
                .map(|taken| likeness(&taken.terms, &candidate.terms))
                .fold(0.0, f64::max);
            let value = candidate.score * (1.0 - REDUNDANCY * alike);
            if alike < 1.0 && best.is_none_or(|(_, most)| value > most) {
                best = Some((at, value));
            }
        }
        let Some((at, _)) = best else { break };
        chosen.push(candidates.remove(at));
    }
    chosen
}

/// The share of terms that two sentences have in common.
fn likeness(left: &BTreeSet<String>, right: &BTreeSet<String>) -> f64 {
    let common = left.intersection(right).count() as f64;
    let all = left.union(right).count() as f64;
    if all == 0.0 { 1.0 } else { common / all }
}

#[cfg(test)]
mod tests {
    use super::super::model::{KeyTerm, Source};
    use super::*;

    fn source(id: &str, heading: &str, text: &str) -> Source {
        Source {
            id: id.into(),
            heading: vec!["Manual".into(), heading.into()],
            text: text.into(),
        }
    }

    fn ask(user: &str, sources: Vec<Source>) -> Prompt {
        Prompt {
            user: user.into(),
            sources,
            ..Prompt::default()
        }
    }

    #[tokio::test]
    async fn the_sentence_that_answers_is_quoted_word_for_word_with_its_source() {
        let text = "Sets how many parcels fit into one van. The default is 12 parcels. Vans are \
                    washed on Mondays.";
        let prompt = ask(
            "What is the default of van_capacity?",
            vec![
                source(
                    "wash",
                    "Washing",
                    "The default soap is green. Vans like it.",
                ),
                source("size", "van_capacity (integer)", text),
            ],
        );
        let reply = Extractive.reply(&prompt).await.expect("a reply");
        assert_eq!(reply.quotes[0].source, "size");
        assert_eq!(reply.quotes[0].text, "The default is 12 parcels.");
        assert!(reply.quotes.iter().all(|q| (0.0..=1.0).contains(&q.score)));
        assert_eq!(reply, Extractive.reply(&prompt).await.expect("a reply"));
    }

    #[tokio::test]
    async fn a_sentence_is_not_quoted_twice_from_two_sources() {
        let same = "The gate opens at 8 in the morning.";
        let prompt = ask(
            "When does the gate open?",
            vec![source("a", "Gate", same), source("b", "Gate", same)],
        );
        let reply = Extractive.reply(&prompt).await.expect("a reply");
        assert_eq!(reply.quotes.len(), 1);
        assert_eq!(reply.quotes[0].source, "a");
    }

    #[tokio::test]
    async fn with_nothing_to_quote_the_reply_is_empty_and_no_question_is_an_error() {
        let unrelated = vec![source("a", "Cheese", "Gouda is made of milk.")];
        let reply = Extractive
            .reply(&ask("Who wrote Hamlet?", unrelated))
            .await
            .expect("a reply");
        assert_eq!(reply, Reply::default());
        let nothing = Extractive.reply(&ask("", Vec::new())).await;
        assert!(matches!(nothing, Err(ModelError::EmptyPrompt)));
    }

    #[tokio::test]
    async fn the_weights_of_the_prompt_decide_what_matters() {
        let mut prompt = ask(
            "red or green",
            vec![
                source("a", "", "The house on the hill is red all over."),
                source("b", "", "The house on the hill is green all over."),
            ],
        );
        let term = |term: &str, weight| KeyTerm {
            term: term.into(),
            weight,
        };
        prompt.terms = vec![term("red", 1.0), term("green", 3.0)];
        let reply = Extractive.reply(&prompt).await.expect("a reply");
        assert_eq!(reply.quotes[0].source, "b");
    }
}
