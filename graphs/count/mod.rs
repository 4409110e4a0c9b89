//! Counting: the smallest graph with a loop, an exit and a failure that can be put right.
//!
//! ```text
//!  start ──► tick ──Enough──► end
//!            ▲  │
//!            └──┘ Again
//! ```

use std::path::Path;

use milepost::{BuildError, Context, End, Exits, Graph, NodeError, Snapshot, State};

/// How far we have come.
#[derive(Clone, Debug, Default, PartialEq, State)]
pub struct Count {
    /// The number.
    pub n: u64,
    /// Where to end.
    pub to: u64,
    /// While this file is there, nothing is counted.
    pub blocked_by: Option<String>,
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

/// Count to a number
#[cfg(feature = "cli")]
#[derive(Debug, Clone, clap::Args)]
pub struct CountArgs {
    /// Where to end
    #[arg(long, value_name = "N", default_value_t = 3)]
    to: u64,
    /// Fail while this file is there
    #[arg(long, value_name = "FILE")]
    blocked_by: Option<String>,
}

#[cfg(feature = "cli")]
impl milepost::cli::Input for CountArgs {
    type State = Count;

    fn input(self) -> Result<CountUpdate, milepost::cli::InputError> {
        Ok(Count::update().n(0).to(self.to).blocked_by(self.blocked_by))
    }

    fn result(state: &Count) -> Option<String> {
        Some(format!("counted to {}", state.n))
    }
}
