//! What a node hands back.

use super::{Ask, Exits, NoQuestion, Question};
use crate::state::State;

/// What a node hands back when it did not fail.
///
/// Most nodes return an update, or an update with an exit, and never name this type. One that asks
/// does: see [`Ask`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Output<U, E = (), Q = NoQuestion> {
    /// The node is done: its update, and how it left.
    Done(U, E),
    /// The node asks, and is run again when all of this is answered. It changes nothing yet.
    Ask(Vec<Question<Q>>),
}

impl<U, E, Q: Ask> Output<U, E, Q> {
    /// Asks one question, under a key. The answer is found under that key when the node is run
    /// again: [`Context::answer`](super::Context::answer).
    pub fn ask(key: impl Into<String>, question: Q) -> Self {
        Output::Ask(vec![Question::new(key, question)])
    }

    /// Asks several questions at once, each under a key of its own.
    pub fn ask_all(questions: impl IntoIterator<Item = Question<Q>>) -> Self {
        Output::Ask(questions.into_iter().collect())
    }
}

/// What a node of a graph over `S` may return: an update of `S`, an update with an exit, or an
/// [`Output`].
#[diagnostic::on_unimplemented(
    message = "a node of a `{S}` graph cannot return `{Self}`",
    label = "this node returns `{Self}`",
    note = "a node returns an update of its graph's own state, alone or as `(update, exit)`, in a `Result` with `NodeError`"
)]
pub trait IntoOutput<S: State>: Send + 'static {
    /// The exits of the node.
    type Exits: Exits;
    /// What the node may ask.
    type Question: Ask;

    /// The same as an [`Output`].
    fn into_output(self) -> Output<S::Update, Self::Exits, Self::Question>;
}

impl<S: State, E: Exits> IntoOutput<S> for (S::Update, E) {
    type Exits = E;
    type Question = NoQuestion;

    #[inline]
    fn into_output(self) -> Output<S::Update, E> {
        Output::Done(self.0, self.1)
    }
}

impl<S: State<Update = U>, U: Send + 'static, E: Exits, Q: Ask> IntoOutput<S> for Output<U, E, Q> {
    type Exits = E;
    type Question = Q;

    #[inline]
    fn into_output(self) -> Self {
        self
    }
}
