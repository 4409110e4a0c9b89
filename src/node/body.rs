//! A node without its types: what the driver calls.

use std::any::Any;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Asked, Context, Exits, IntoOutput, NodeError, Output, Question};
use crate::state::{Codec, CodecError, Snapshot, State};

/// A struct as a node, for nodes that hold something: a client, a model, settings.
///
/// ```
/// use async_trait::async_trait;
/// use milepost::{Context, Node, NodeError, Snapshot, State};
///
/// #[derive(Clone, Default, State)]
/// struct Count {
///     n: u64,
/// }
///
/// struct Increase {
///     by: u64,
/// }
///
/// #[async_trait]
/// impl Node<Count> for Increase {
///     type Output = CountUpdate;
///     async fn run(&self, count: Snapshot<Count>, _: Context) -> Result<CountUpdate, NodeError> {
///         Ok(Count::update().n(count.n + self.by))
///     }
/// }
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a node of a `{S}` graph",
    label = "this is not a node",
    note = "implement `Node<{S}>` for it, or give an async function to `node` or `worker`"
)]
pub trait Node<S: State>: Send + Sync + 'static {
    /// What it returns: an update, an update with an exit, or an [`Output`](super::Output).
    type Output: IntoOutput<S>;

    /// Reads the state and returns what is to change.
    ///
    /// # Errors
    /// Any error of the node's own.
    async fn run(&self, state: Snapshot<S>, cx: Context) -> Result<Self::Output, NodeError>;
}

/// What a task hands back, without the types of its exits and questions.
#[derive(Debug)]
pub(crate) enum Returned<U> {
    /// It is done.
    Done { update: U, exit: u32 },
    /// It asks.
    Asked(Vec<Asked>),
    /// It waits for a time to come, in milliseconds since 1970, and was let go.
    Parked(u64),
    /// The graph that it runs did not come to its end; what the driver knows of that.
    Held(Box<dyn Any + Send>),
}

/// What a call of a body gives.
pub(crate) type Call<U> = BoxFuture<'static, Result<Returned<U>, NodeError>>;

/// A worker's payload, typed inside. All payloads of one fan-out lie in one list, so that one of a
/// thousand tasks costs no allocation for it.
#[derive(Clone)]
pub(crate) struct Payload {
    list: Arc<dyn Any + Send + Sync>,
    place: usize,
}

impl Payload {
    /// The payloads of one fan-out.
    pub(crate) fn all<P: Send + Sync + 'static>(list: Vec<P>) -> Vec<Self> {
        let count = list.len();
        let list: Arc<dyn Any + Send + Sync> = Arc::new(list);
        let one = |place| Self {
            list: Arc::clone(&list),
            place,
        };
        (0..count).map(one).collect()
    }

    /// The payload, if it is of this type.
    pub(crate) fn get<P: 'static>(&self) -> Option<&P> {
        self.list.downcast_ref::<Vec<P>>()?.get(self.place)
    }
}

/// A node as the driver sees it.
pub(crate) trait Body<S: State>: Send + Sync {
    fn call(&self, payload: Option<&Payload>, state: Snapshot<S>, cx: Context) -> Call<S::Update>;
}

#[inline]
fn returned<S: State, R: IntoOutput<S>>(output: R) -> Result<Returned<S::Update>, NodeError> {
    match output.into_output() {
        Output::Done(update, exit) => Ok(Returned::Done {
            update,
            exit: exit.index() as u32,
        }),
        Output::Ask(questions) => {
            let asked: Result<Vec<_>, _> = questions.into_iter().map(Question::erased).collect();
            Ok(Returned::Asked(asked?))
        }
    }
}

/// An async function as a node.
pub(crate) struct FnBody<F>(pub(crate) F);

impl<S, F, Fut, R> Body<S> for FnBody<F>
where
    S: State,
    F: Fn(Snapshot<S>, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, NodeError>> + Send + 'static,
    R: IntoOutput<S>,
{
    fn call(&self, _: Option<&Payload>, state: Snapshot<S>, cx: Context) -> Call<S::Update> {
        let future = (self.0)(state, cx);
        Box::pin(async move { future.await.and_then(returned::<S, R>) })
    }
}

/// A struct as a node.
pub(crate) struct NodeBody<N>(pub(crate) Arc<N>);

impl<S: State, N: Node<S>> Body<S> for NodeBody<N> {
    fn call(&self, _: Option<&Payload>, state: Snapshot<S>, cx: Context) -> Call<S::Update> {
        let node = Arc::clone(&self.0);
        Box::pin(async move { node.run(state, cx).await.and_then(returned::<S, _>) })
    }
}

/// An async function as a worker.
pub(crate) struct WorkerBody<P, F>(pub(crate) F, pub(crate) PhantomData<fn(P)>);

impl<S, P, F, Fut, R> Body<S> for WorkerBody<P, F>
where
    S: State,
    P: Clone + Send + Sync + 'static,
    F: Fn(P, Snapshot<S>, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, NodeError>> + Send + 'static,
    R: IntoOutput<S>,
{
    fn call(&self, payload: Option<&Payload>, state: Snapshot<S>, cx: Context) -> Call<S::Update> {
        let Some(payload) = payload.and_then(Payload::get::<P>) else {
            let error = NodeError::invalid("a worker was started without its payload");
            return Box::pin(std::future::ready(Err(error)));
        };
        let future = (self.0)(payload.clone(), state, cx);
        Box::pin(async move { future.await.and_then(returned::<S, R>) })
    }
}

/// How the payloads of a worker become bytes and back.
#[derive(Clone, Copy)]
pub(crate) struct PayloadCodec {
    pub(crate) type_name: &'static str,
    encode: fn(&Payload) -> Result<Vec<u8>, CodecError>,
    decode: fn(&[u8]) -> Result<Payload, CodecError>,
    check: fn(&Payload) -> Result<(), CodecError>,
    pub(crate) shape: fn() -> String,
}

impl PayloadCodec {
    pub(crate) fn of<P: Serialize + DeserializeOwned + Send + Sync + 'static>() -> Self {
        fn typed<P: 'static>(payload: &Payload) -> Result<&P, CodecError> {
            payload.get::<P>().ok_or_else(|| CodecError::Encode {
                reason: format!("the payload is no {}", std::any::type_name::<P>()),
            })
        }
        Self {
            type_name: std::any::type_name::<P>(),
            encode: |payload| Codec::MessagePack.encode(typed::<P>(payload)?),
            decode: |bytes| {
                let list = Arc::new(vec![Codec::MessagePack.decode::<P>(bytes)?]);
                Ok(Payload { list, place: 0 })
            },
            check: |payload| Codec::MessagePack.check(typed::<P>(payload)?),
            shape: crate::state::shape_of::<P>,
        }
    }

    pub(crate) fn encode(&self, payload: &Payload) -> Result<Vec<u8>, CodecError> {
        (self.encode)(payload)
    }

    pub(crate) fn decode(&self, bytes: &[u8]) -> Result<Payload, CodecError> {
        (self.decode)(bytes)
    }

    pub(crate) fn check(&self, payload: &Payload) -> Result<(), CodecError> {
        (self.check)(payload)
    }
}
