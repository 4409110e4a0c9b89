//! A run as a stream of events.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::{FutureExt, Stream, StreamExt};
use tokio::task::{JoinError, JoinHandle};

use super::port::Events;
use super::{Report, RunError};
use crate::event::Event;
use crate::ids::ThreadId;
use crate::node::NodeError;
use crate::state::State;

/// The events of a run as they happen, then its report. Dropping it stops the run.
pub struct RunStream<S: State> {
    events: Events,
    /// None where nothing could be started; then it has ended.
    task: Option<JoinHandle<Result<Report<S>, RunError>>>,
    ended: Option<Result<Report<S>, RunError>>,
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
            task: Some(task),
            ended: None,
            thread,
        }
    }

    /// The stream of a run that could not be started: no events, and why.
    pub(super) fn refused(events: Events, thread: ThreadId, error: RunError) -> Self {
        Self {
            events,
            task: None,
            ended: Some(Err(error)),
            thread,
        }
    }

    /// Reads what events are left, and returns how the run ended.
    ///
    /// # Errors
    /// [`RunError`], as the run door gives it.
    pub async fn report(mut self) -> Result<Report<S>, RunError> {
        while self.next().await.is_some() {}
        match (self.ended, self.task) {
            (None, Some(task)) => joined(task.await, self.thread),
            (Some(ended), _) => ended,
            (None, None) => unreachable!("what was not started has ended"),
        }
    }
}

fn joined<S: State>(
    ended: Result<Result<Report<S>, RunError>, JoinError>,
    thread: ThreadId,
) -> Result<Report<S>, RunError> {
    ended.unwrap_or_else(|error| {
        // The runtime was shut down under the run: everything recorded is kept.
        let error = NodeError::transient(error);
        Err(RunError::Interrupted { thread, error })
    })
}

impl<S: State> Stream for RunStream<S> {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Poll::Ready(event) = self.events.poll_next(cx) {
            return Poll::Ready(event);
        }
        // The stream ends with the run, even where a body that was cut still holds its context.
        if self.ended.is_none()
            && let Some(task) = &mut self.task
        {
            match task.poll_unpin(cx) {
                Poll::Ready(ended) => self.ended = Some(joined(ended, self.thread.clone())),
                Poll::Pending => return Poll::Pending,
            }
        }
        match self.events.poll_next(cx) {
            Poll::Ready(event) => Poll::Ready(event),
            Poll::Pending => Poll::Ready(None),
        }
    }
}
