//! A run as a stream of events.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::{Stream, StreamExt};
use tokio::task::JoinHandle;

use super::port::Events;
use super::{Report, RunError};
use crate::event::Event;
use crate::ids::ThreadId;
use crate::node::NodeError;
use crate::state::State;

/// The events of a run as they happen, then its report. Dropping it stops the run.
pub struct RunStream<S: State> {
    events: Events,
    task: JoinHandle<Result<Report<S>, RunError>>,
    thread: ThreadId,
}

impl<S: State> fmt::Debug for RunStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStream")
            .field("thread", &self.thread)
            .finish_non_exhaustive()
    }
}

impl<S: State> RunStream<S> {
    pub(super) fn new(
        events: Events,
        task: JoinHandle<Result<Report<S>, RunError>>,
        thread: ThreadId,
    ) -> Self {
        Self {
            events,
            task,
            thread,
        }
    }

    /// Reads what events are left, and returns how the run ended.
    ///
    /// # Errors
    /// [`RunError`], as the run door gives it.
    pub async fn report(mut self) -> Result<Report<S>, RunError> {
        while self.next().await.is_some() {}
        match self.task.await {
            Ok(ended) => ended,
            // The runtime was shut down under the run: everything recorded is kept.
            Err(error) => Err(RunError::Interrupted {
                thread: self.thread,
                error: NodeError::transient(error),
            }),
        }
    }
}

impl<S: State> Stream for RunStream<S> {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.events.poll_next(cx)
    }
}
