//! How a run is watched and disturbed from outside its graph.
//!
//! A layer around each try of each task; no graph has to know of it. What it writes is no part of
//! the state and survives whatever happens to the process.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;

use super::exit::Failure;
use crate::{Call, Layer, Next, NodeError};

/// Writes each try down, and waits after it.
pub(super) struct Probe {
    tally: Option<File>,
    pace: Option<Duration>,
}

impl Probe {
    /// Opens the tally; none where nothing is to be done.
    pub(super) fn new(
        tally: Option<&Path>,
        pace: Option<Duration>,
    ) -> Result<Option<Self>, Failure> {
        if tally.is_none() && pace.is_none() {
            return Ok(None);
        }
        let open = |path: &Path| {
            let file = OpenOptions::new().append(true).create(true).open(path);
            file.map_err(|error| {
                Failure::usage(format!("{} cannot be written: {error}", path.display()))
                    .next("name a file that can be written with --tally")
            })
        };
        let tally = tally.map(open).transpose()?;
        Ok(Some(Self { tally, pace }))
    }
}

#[async_trait]
impl Layer for Probe {
    async fn call(&self, call: &Call, next: Next<'_>) -> Result<(), NodeError> {
        if let Some(mut file) = self.tally.as_ref() {
            // One write a line: several processes and tasks may write at once.
            let line = format!("{}\n", call.task);
            file.write_all(line.as_bytes())?;
        }
        let ended = next.run(call).await;
        if let Some(pace) = self.pace {
            tokio::time::sleep(pace).await;
        }
        ended
    }
}
