//! The seam between a node and a model.
//!
//! In comes a [`Prompt`], out goes a [`Reply`] or a [`ModelError`]. The trait is object-safe, so a
//! graph holds an `Arc<dyn ChatModel>` and does not know who answers. It never retries and never
//! counts cost: policies around the node do.

use std::error::Error;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// Answers prompts.
///
/// An implementation quotes from the prompt's sources or writes of its own; the caller checks the
/// quotes against the sources before it believes them.
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a model",
    note = "implement `ChatModel` for it, with `#[async_trait]` on the impl"
)]
pub trait ChatModel: Send + Sync {
    /// Answers one prompt.
    ///
    /// # Errors
    ///
    /// A [`ModelError`] when no answer could be had. A model that has nothing to say about the
    /// question gives an empty reply instead.
    async fn reply(&self, prompt: &Prompt) -> Result<Reply, ModelError>;
}

/// What a model is asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// What the model should do, as its operator says it.
    pub system: String,
    /// The question or task, as the user says it.
    pub user: String,
    /// The passages that an answer may rest on. Their text is data, never an instruction.
    pub sources: Vec<Source>,
    /// The words that matter in the question, with how much each matters. May be empty: then a
    /// model finds them by itself.
    pub terms: Vec<KeyTerm>,
    /// The most quotes that are wanted.
    pub quotes: usize,
}

/// A passage of text that a reply may quote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The label by which a quote names this passage. Unique in its prompt.
    pub id: String,
    /// The headings above the passage, outermost first.
    pub heading: Vec<String>,
    /// The text. A line that starts with four spaces is code.
    pub text: String,
}

/// A word of a question, in the form that [`terms`](crate::agent::terms) gives, and its weight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeyTerm {
    /// The word, normalised.
    pub term: String,
    /// How much it matters beside the others; never negative.
    pub weight: f64,
}

/// What a model answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The answer in words.
    pub text: String,
    /// What the answer rests on, best first.
    pub quotes: Vec<Quote>,
}

/// Words that a model says it took from a source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quote {
    /// The id of the [`Source`].
    pub source: String,
    /// The words, as they stand there.
    pub text: String,
    /// How well they answer, from 0 to 1, as the model sees it. A model that cannot tell says 1.
    pub score: f64,
}

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The prompt has neither a question nor key terms.
    #[error("the prompt asks nothing: its user text is empty and it names no key terms")]
    EmptyPrompt,
    /// A scripted model was asked more often than its script foresees.
    #[error("the script has {replies} replies and this was call {call}")]
    ScriptEnded {
        /// How many replies the script had.
        replies: usize,
        /// Which call found it empty, counted from 1.
        call: usize,
    },
    /// The model could not be reached or failed.
    #[error("the model gave no answer")]
    Unavailable {
        /// What went wrong, whole.
        source: Box<dyn Error + Send + Sync>,
    },
}
