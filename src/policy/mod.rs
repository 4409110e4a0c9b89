//! Policies: layers around one call of a node.
//!
//! In come a call and what is further in; out comes how the call ended. A layer sees one try of
//! one task and its outcome, never the loop, never the state, never a store. Beside them is the cache
//! of outcomes: keys and bytes.

mod cache;
mod flight;
mod idle;
mod layer;
mod limit;
mod retry;
mod timeout;

pub use cache::{CacheKey, MemoryCache, NodeCache};
pub(crate) use flight::Flight;
pub(crate) use idle::alive;
pub use layer::{Call, Layer, Next};
pub(crate) use limit::Limit;
pub(crate) use retry::{Attempt, Watch, now_ms, tried};
pub(crate) use timeout::Timeout;
