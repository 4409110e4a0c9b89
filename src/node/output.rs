//! What a node hands back.

use super::Exits;
use crate::state::State;

/// What a node hands back when it did not fail.
///
/// Most nodes return an update, or an update with an exit, and never name this type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Output<U, E> {
    /// The node is done: its update, and how it left.
    Done(U, E),
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

    /// The same as an [`Output`].
    fn into_output(self) -> Output<S::Update, Self::Exits>;
}

impl<S: State, E: Exits> IntoOutput<S> for (S::Update, E) {
    type Exits = E;

    #[inline]
    fn into_output(self) -> Output<S::Update, E> {
        Output::Done(self.0, self.1)
    }
}

impl<S: State<Update = U>, U: Send + 'static, E: Exits> IntoOutput<S> for Output<U, E> {
    type Exits = E;

    #[inline]
    fn into_output(self) -> Self {
        self
    }
}
