//! What `export` writes and `import` reads: a text of lines and its sums.
//!
//! `docs/format.md` is the contract. A line has one way to be written, so what was imported is
//! exported again as the same bytes.

use blake3::Hasher;
use serde::{Deserialize, Serialize};

use crate::store::{ExportLine, MAX_BODY_BYTES};

/// The version of the format.
pub(super) const VERSION: u32 = 1;

/// The most bytes of a line: enough for the largest record, whatever is in it.
pub(super) const MOST_BYTES: usize = 8 * MAX_BODY_BYTES;

/// What the first line says that the text is.
pub(super) const THREADS: &str = "threads";

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) milepost: String,
    pub(super) version: u32,
}

impl Header {
    pub(super) fn ours() -> Self {
        Self {
            milepost: THREADS.to_owned(),
            version: VERSION,
        }
    }
}

/// A line with its end.
pub(super) fn text<T: Serialize>(line: &T) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    Ok(text)
}

/// Reads a line without its end, which must be written as this program writes it.
pub(super) fn parse(text: &[u8]) -> Result<ExportLine, String> {
    let line: ExportLine = serde_json::from_slice(text).map_err(|error| {
        // The line is known better than serde_json knows it.
        let said = error.to_string();
        let said = said.split(" at line ").next().unwrap_or(&said);
        match error.classify() {
            serde_json::error::Category::Data => format!("it is no line of an export: {said}"),
            _ => format!("it is not JSON: {said} at column {}", error.column()),
        }
    })?;
    match serde_json::to_vec(&line) {
        Ok(again) if again == text => Ok(line),
        _ => Err("it was altered: it is not written as an export is".to_owned()),
    }
}

/// Sums up lines as they pass.
#[derive(Debug, Default)]
pub(super) struct Sums {
    all: Hasher,
    thread: Hasher,
}

impl Sums {
    /// Adds a line with its end.
    pub(super) fn add(&mut self, line: &[u8]) {
        self.all.update(line);
        self.thread.update(line);
    }

    /// Begins with the next thread, whose first line is added next.
    pub(super) fn begin(&mut self) {
        self.thread = Hasher::new();
    }

    pub(super) fn thread(&self) -> String {
        self.thread.finalize().to_hex().to_string()
    }

    pub(super) fn all(&self) -> String {
        self.all.finalize().to_hex().to_string()
    }
}
