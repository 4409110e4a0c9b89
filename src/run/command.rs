//! What a caller asks of a thread.

use crate::ids::RunId;
use crate::state::State;

/// What a caller asks of a thread.
#[derive(Debug)]
pub struct Command<S: State> {
    pub(super) what: What<S>,
}

#[derive(Debug)]
pub(super) enum What<S: State> {
    Start {
        input: S::Update,
        run: Option<RunId>,
        abandon: bool,
    },
    GoOn,
}

impl<S: State> Command<S> {
    /// Starts a run with an input, which is merged into the thread's state by the reducers before
    /// any node starts.
    pub fn start(input: S::Update) -> Self {
        Self {
            what: What::Start {
                input,
                run: None,
                abandon: false,
            },
        }
    }

    /// Goes on where the thread stands: after a crash, a failure, a cancellation, a limit. A
    /// finished thread is left as it is, and its state comes back.
    pub fn go_on() -> Self {
        Self { what: What::GoOn }
    }

    /// Names the run. A start that is repeated with the same id gives the same run: goes on with
    /// it, or returns how it ended.
    #[must_use]
    pub fn run_id(mut self, id: RunId) -> Self {
        if let What::Start { run, .. } = &mut self.what {
            *run = Some(id);
        }
        self
    }

    /// Gives up the superstep that a failed, crashed or limited run has left open, and starts
    /// anew. What its tasks have finished is kept, what they have not is dropped.
    #[must_use]
    pub fn abandon(mut self) -> Self {
        if let What::Start { abandon, .. } = &mut self.what {
            *abandon = true;
        }
        self
    }
}
