//! An end to calls that show no sign of life.

use std::time::Duration;

use crate::node::{ErrorClass, NodeError, Pulse};

/// Awaits a call as long as it shows signs of life. One that does not is dropped where it waits; a
/// blocking body runs on, and what it returns too late is thrown away.
pub(crate) async fn alive<T>(
    idle: Duration,
    pulse: &Pulse,
    call: impl Future<Output = Result<T, NodeError>>,
) -> Result<T, NodeError> {
    let silence = async {
        loop {
            // A time that no clock can count to is never over.
            let Some(end) = pulse.last().checked_add(idle) else {
                return std::future::pending().await;
            };
            if end <= tokio::time::Instant::now() {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    };
    tokio::select! {
        biased;
        ended = call => ended,
        () = silence => Err(NodeError::new(
            ErrorClass::Timeout,
            format!(
                "it was idle for its idle timeout of {idle:?}: no token, no event, no finished \
                 step and no `cx.heartbeat()` in that time"
            ),
        )),
    }
}
