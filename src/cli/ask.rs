//! A run without the type of its state, as it happens.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use futures::future::BoxFuture;
use serde_json::Value;

use super::entry::fields;
use crate::store::CheckpointStore;
use crate::{
    Ended, Event, OpenQuestion, RunError, RunId, RunOptions, RunStream, Seq, State, Step, ThreadId,
};

/// Starts a run, or takes one up.
pub(super) type Opening =
    Box<dyn FnOnce(&ThreadId, Arc<dyn CheckpointStore>, RunOptions) -> Box<dyn Live> + Send>;

/// A run as it happens: its events, then its end.
pub(super) trait Live: Stream<Item = Event> + Send + Unpin {
    /// How it ended.
    fn end(self: Box<Self>) -> BoxFuture<'static, Result<End, RunError>>;
}

/// How a run ended, and where the thread stands.
#[derive(Debug)]
pub(super) struct End {
    pub(super) run: RunId,
    pub(super) ended: Ended,
    pub(super) step: Step,
    pub(super) seq: Option<Seq>,
    /// What waits for an answer.
    pub(super) questions: Vec<OpenQuestion>,
    pub(super) state: Value,
    /// What it has to show for people, where it is finished.
    pub(super) result: Option<String>,
}

pub(super) struct Typed<S: State> {
    stream: RunStream<S>,
    result: fn(&S) -> Option<String>,
}

impl<S: State> Typed<S> {
    pub(super) fn new(stream: RunStream<S>, result: fn(&S) -> Option<String>) -> Self {
        Self { stream, result }
    }
}

impl<S: State> Stream for Typed<S> {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        Pin::new(&mut self.stream).poll_next(cx)
    }
}

impl<S: State> Live for Typed<S> {
    fn end(self: Box<Self>) -> BoxFuture<'static, Result<End, RunError>> {
        Box::pin(async move {
            let report = self.stream.report().await?;
            let is_finished = report.ended.is_finished();
            let result = is_finished.then(|| (self.result)(&report.state));
            Ok(End {
                result: result.flatten(),
                state: fields(&report.state),
                run: report.run,
                ended: report.ended,
                step: report.step,
                seq: report.seq,
                questions: report.questions,
            })
        })
    }
}
