//! What a layer is.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;

use crate::ids::TaskPath;
use crate::node::NodeError;

/// One try of one task, as a layer sees it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Call {
    /// The task.
    pub task: TaskPath,
    /// The try, from 1.
    pub attempt: u32,
}

/// Something around each try of a task: it runs before and after what is further in, or instead.
///
/// ```
/// use async_trait::async_trait;
/// use milepost::{Call, Layer, Next, NodeError};
///
/// /// Refuses to call a node more than twice.
/// struct TwoTries;
///
/// #[async_trait]
/// impl Layer for TwoTries {
///     async fn call(&self, call: &Call, next: Next<'_>) -> Result<(), NodeError> {
///         if call.attempt > 2 {
///             return Err(NodeError::permanent("enough"));
///         }
///         next.run(call).await
///     }
/// }
/// ```
#[async_trait]
pub trait Layer: Send + Sync + 'static {
    /// Runs what is further in, by `next`, or fails without it. What the node returned passes by
    /// unseen; a layer that says `Ok` without having run `next` makes the call fail.
    ///
    /// # Errors
    /// The node's error, or one of the layer's own.
    async fn call(&self, call: &Call, next: Next<'_>) -> Result<(), NodeError>;
}

/// What is further in: the other layers, then the node.
pub struct Next<'a> {
    layers: &'a [Arc<dyn Layer>],
    body: BoxFuture<'a, Result<(), NodeError>>,
}

impl<'a> Next<'a> {
    pub(crate) fn new(
        layers: &'a [Arc<dyn Layer>],
        body: BoxFuture<'a, Result<(), NodeError>>,
    ) -> Self {
        Self { layers, body }
    }

    /// Runs it.
    ///
    /// # Errors
    /// As the layers and the node do.
    pub async fn run(self, call: &Call) -> Result<(), NodeError> {
        match self.layers.split_first() {
            Some((layer, layers)) => {
                layer
                    .call(
                        call,
                        Next {
                            layers,
                            body: self.body,
                        },
                    )
                    .await
            }
            None => self.body.await,
        }
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next")
            .field("layers", &self.layers.len())
            .finish_non_exhaustive()
    }
}
