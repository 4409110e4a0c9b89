//! What a node sees of the state.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The state as it was before the superstep; read only, shared by all its tasks.
///
/// A snapshot that outlives its task (kept in a static, sent to a background task) costs a clone
/// of the state at the next merge; one that is dropped with its task costs nothing.
pub struct Snapshot<S>(Arc<S>);

impl<S> Snapshot<S> {
    /// Takes a state, as a test of a node does.
    pub fn new(state: S) -> Self {
        Self(Arc::new(state))
    }

    pub(crate) fn shared(state: Arc<S>) -> Self {
        Self(state)
    }
}

impl<S> Deref for Snapshot<S> {
    type Target = S;
    fn deref(&self) -> &S {
        &self.0
    }
}

impl<S> Clone for Snapshot<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: fmt::Debug> fmt::Debug for Snapshot<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
