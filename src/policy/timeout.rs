//! An end to calls that take too long.

use std::time::Duration;

use async_trait::async_trait;

use super::{Call, Layer, Next};
use crate::node::{ErrorClass, NodeError};

/// Ends a call after a time. The body is dropped where it waits; a blocking body runs on, and what
/// it returns too late is thrown away.
pub(crate) struct Timeout(pub(crate) Duration);

#[async_trait]
impl Layer for Timeout {
    async fn call(&self, call: &Call, next: Next<'_>) -> Result<(), NodeError> {
        match tokio::time::timeout(self.0, next.run(call)).await {
            Ok(ended) => ended,
            Err(_) => Err(NodeError::new(
                ErrorClass::Timeout,
                format!("it took longer than its timeout of {:?}", self.0),
            )),
        }
    }
}
