//! A record inside of a record: the log of a subgraph in the open superstep of its thread.
//!
//! In comes a record of the inner log, out comes one of the outer log that holds its frame, and the
//! other way round. The frame inside belongs to no thread: its key is zero, so that a thread can be
//! copied under another id without touching it.

use super::Stored;
use super::frame::{FrameError, ThreadKey, decode_record, encode_record};
use super::kind::FrameKind;
use super::record::{InnerRecord, Record};
use crate::ids::{Branch, Epoch, Seq, TaskPath};

/// The key of frames inside of frames.
const NO_THREAD: ThreadKey = ThreadKey::from_bytes([0; 16]);

impl InnerRecord {
    /// Puts a record of the log of a subgraph into a record of its thread's log.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`].
    pub fn of(
        path: &TaskPath,
        seq: Seq,
        epoch: Epoch,
        record: &Record,
    ) -> Result<Self, FrameError> {
        Ok(Self {
            path: path.to_string(),
            seq: seq.get(),
            record: encode_record(NO_THREAD, seq, Branch::new(0), epoch, record)?,
        })
    }

    /// What the record inside says that it is, unverified; none for bytes that are no frame.
    pub(crate) fn kind(&self) -> Option<FrameKind> {
        self.record.get(4).copied().and_then(FrameKind::parse)
    }

    /// The task that runs the subgraph, and the record of its log.
    ///
    /// # Errors
    /// [`FrameError`] if the path is none, or the record inside cannot be trusted.
    pub fn open(&self) -> Result<(TaskPath, Stored), FrameError> {
        let path = self.path.parse().map_err(|_| {
            FrameError::Corrupt(format!(
                "expected the path of a task, found \"{}\"",
                self.path
            ))
        })?;
        let stored: Stored = decode_record(NO_THREAD, Seq::new(self.seq), &self.record)?;
        Ok((path, stored))
    }
}
