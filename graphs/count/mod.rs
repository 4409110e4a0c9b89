//! Counting: the smallest graph with a loop, an exit and a failure that can be put right.
//!
//! ```text
//!  start ──► tick ──Enough──► end
//!            ▲  │
//!            └──┘ Again
//! ```

use std::path::Path;

use milepost::{BuildError, Context, End, Exits, Graph, NodeError, Snapshot, State};

/// Count to a number: how far it has come, and how far it is to go.
#[derive(Clone, Debug, PartialEq, State)]
pub struct Count {
    /// The number to count on from.
    pub n: u64,
    /// Where to end.
    pub to: u64,
    /// Fail while this file is there.
    pub blocked_by: Option<String>,
}

impl Default for Count {
    fn default() -> Self {
        Self {
            n: 0,
            to: 3,
            blocked_by: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Exits)]
enum Tick {
    Again,
    Enough,
}

async fn tick(count: Snapshot<Count>, _: Context) -> Result<(CountUpdate, Tick), NodeError> {
    let blocked = count.blocked_by.as_ref();
    if let Some(file) = blocked.filter(|file| Path::new(file).exists()) {
        let why = format!("{file} is in the way: remove it");
        return Err(NodeError::permanent(why));
    }
    let n = count.n + 1;
    let exit = if n < count.to {
        Tick::Again
    } else {
        Tick::Enough
    };
    Ok((Count::update().n(n), exit))
}

/// The counting graph.
///
/// # Errors
/// [`BuildError`] if its description is wrong; a test builds it.
pub fn count() -> Result<Graph<Count>, BuildError> {
    let mut g = Graph::builder("count");
    let tick = g.node("tick", tick);
    g.start(tick);
    g.wire(tick, |exit| match exit {
        Tick::Again => tick.into(),
        Tick::Enough => End.into(),
    });
    g.build()
}

/// The counting graph with its flags, one a field of [`Count`].
#[cfg(feature = "cli")]
pub fn entry() -> milepost::cli::Entry {
    milepost::cli::Entry::showing(count(), |count: &Count| {
        Some(format!("counted to {}", count.n))
    })
}
