//! A run without the type of its state, as it happens.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use futures::future::BoxFuture;
use serde_json::Value;

use super::entry::{Input, fields};
use crate::store::CheckpointStore;
use crate::{Ended, Event, RunError, RunId, RunOptions, RunStream, Seq, Step, ThreadId};

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
    pub(super) state: Value,
    /// What it has to show for people, where it is finished.
    pub(super) result: Option<String>,
}

pub(super) struct Typed<A: Input> {
    stream: RunStream<A::State>,
    types: PhantomData<fn() -> A>,
}

impl<A: Input> Typed<A> {
    pub(super) fn new(stream: RunStream<A::State>) -> Self {
        Self {
            stream,
            types: PhantomData,
        }
    }
}

impl<A: Input> Stream for Typed<A> {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        Pin::new(&mut self.stream).poll_next(cx)
    }
}

impl<A: Input> Live for Typed<A> {
    fn end(self: Box<Self>) -> BoxFuture<'static, Result<End, RunError>> {
        Box::pin(async move {
            let report = self.stream.report().await?;
            let result = report.ended.is_finished().then(|| A::result(&report.state));
            Ok(End {
                result: result.flatten(),
                state: fields(&report.state),
                run: report.run,
                ended: report.ended,
                step: report.step,
                seq: report.seq,
            })
        })
    }
}
