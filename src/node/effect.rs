//! What a node does to the world outside, and what is asked where nobody knows whether it did.

use serde::{Deserialize, Serialize};

use super::Ask;
use crate::ids::QuestionId;

/// What a node does to the world outside: whether it may be run again.
///
/// A node whose author says nothing is run again where its end was not recorded (after a crash, a
/// failure, a cancellation), as one that is [`Idempotent`](Effect::Idempotent). Only
/// [`Irreversible`](Effect::Irreversible) changes what the engine does; the others tell readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// None: it computes.
    Pure,
    /// It reads, and changes nothing.
    Read,
    /// Done twice is as good as done once: by its nature, or by an
    /// [`idempotency_key`](super::Context::idempotency_key).
    Idempotent,
    /// It cannot be taken back and must not be done twice: money, a message to many.
    ///
    /// It is never tried again by the engine (`build()` refuses a retry beside it), and a record
    /// says that it begins before its body starts. If a call finds that record and no end (the
    /// process died in the middle, the task failed, or was cut), it does not run the body: the
    /// thread pauses with the question [`MayHaveRun`], answered with [`AfterCrash`].
    Irreversible,
}

impl Effect {
    /// The class's name.
    pub const fn name(self) -> &'static str {
        match self {
            Effect::Pure => "pure",
            Effect::Read => "read",
            Effect::Idempotent => "idempotent",
            Effect::Irreversible => "irreversible",
        }
    }
}

/// The engine's own question of an irreversible task that began and has no recorded end: did it do
/// what it does?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MayHaveRun {
    /// The node.
    pub node: String,
    /// The node's exits; none where it has one way out.
    pub exits: Vec<String>,
    /// When its body last began or went on, in milliseconds since 1970.
    pub began_ms: u64,
}

impl Ask for MayHaveRun {
    type Answer = AfterCrash;
}

/// The answer to [`MayHaveRun`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AfterCrash {
    /// It did. The task counts as done, with an empty update.
    Ran,
    /// It did, and leads to this exit: for a node that has several.
    RanBy(String),
    /// It did not: the body is run.
    DidNotRun,
    /// Whatever it did, the body is run again.
    Again,
}

/// The key of the engine's own questions; a later one of the same task has a number behind it.
pub(crate) const AFTER_CRASH: &str = "@after_crash";

impl AfterCrash {
    /// Whether a question is the engine's own, and answered with this.
    pub fn answers(id: &QuestionId) -> bool {
        id.key().starts_with(AFTER_CRASH)
    }

    /// Whether an author's question may not have this key, because the engine's may.
    pub(crate) fn reserves(key: &str) -> bool {
        key.starts_with('@')
    }
}
