//! A limit on how many calls run at once.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Semaphore;

use super::{Call, Layer, Next};
use crate::node::NodeError;

/// Lets so many calls run at once. The permit is held while the body runs and no longer: not
/// during the wait between two tries, not while the outcome is recorded.
pub(crate) struct Limit(Arc<Semaphore>);

impl Limit {
    pub(crate) fn new(calls: usize) -> Self {
        Self(Arc::new(Semaphore::new(
            calls.clamp(1, Semaphore::MAX_PERMITS),
        )))
    }
}

#[async_trait]
impl Layer for Limit {
    async fn call(&self, call: &Call, next: Next<'_>) -> Result<(), NodeError> {
        let _permit = self.0.acquire().await.map_err(NodeError::permanent)?;
        next.run(call).await
    }
}
