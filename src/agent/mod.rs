//! Models behind one small seam, and the one that needs no network.
//!
//! In comes a [`Prompt`]: instructions, a question and labelled passages; out goes a [`Reply`]:
//! text and the quotes it rests on, each with the label of its passage. What a reply says is data:
//! this room never runs anything a model asks for, and never meets a graph, a state or a store.

mod extractive;
mod model;
mod question;
mod scripted;
mod sentence;
mod stem;
mod text;

pub use extractive::Extractive;
pub use model::{ChatModel, KeyTerm, ModelError, Prompt, Quote, Reply, Source};
pub use scripted::Scripted;
pub use sentence::sentences;
pub use text::{terms, terms_of, words};
