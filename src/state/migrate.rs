//! Older versions of a state: how a value of the type before becomes one of this type.
//!
//! In comes a state as an older program has left it, read with that program's own type; out comes a
//! state of the present type. A lift sees whole states and never updates: those were meant for the
//! reducers of their own version, which have merged them by then.

use std::error::Error;

use super::{AnyField, State};

/// Why a state of an older version cannot be lifted; the author's own error.
pub type MigrateFault = Box<dyn Error + Send + Sync>;

/// Something that is done with the version before a state's own, whose type only the derive knows.
pub trait Older<S: State>: Sized {
    /// What comes out.
    type Out;

    /// Does it, given the function that lifts the older type.
    fn visit<O: State>(
        self,
        lift: impl Fn(O) -> Result<S, MigrateFault> + Send + Sync + 'static,
    ) -> Self::Out;
}

/// Hands the author's function to a visitor; what the derive calls.
pub fn lift<S, O, E, V>(visitor: V, lift: fn(O) -> Result<S, E>) -> V::Out
where
    S: State,
    O: State,
    E: Into<MigrateFault> + 'static,
    V: Older<S>,
{
    visitor.visit(move |old| lift(old).map_err(Into::into))
}

/// The versions that a state's type reads: its own, then those that it lifts, newest first.
pub(crate) fn versions<S: State>() -> Vec<u32> {
    let mut versions = vec![S::VERSION];
    if let Some(older) = S::older(Versions) {
        versions.extend(older);
    }
    versions
}

struct Versions;

impl<S: State> Older<S> for Versions {
    type Out = Vec<u32>;

    fn visit<O: State>(
        self,
        _: impl Fn(O) -> Result<S, MigrateFault> + Send + Sync + 'static,
    ) -> Vec<u32> {
        // One that does not come before is refused when a graph is built; until then it may lead
        // round in a circle.
        match O::VERSION < S::VERSION {
            true => versions::<O>(),
            false => vec![O::VERSION],
        }
    }
}

/// The field that is stored under a name, or was.
pub(crate) fn field_called<S: State>(name: &str) -> Option<&'static dyn AnyField<S>> {
    let fields = S::fields().iter();
    fields.copied().find(|field| field.is_called(name))
}
