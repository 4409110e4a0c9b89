//! The lines of an export: a whole thread, piece by piece, for a format that people can read.
//!
//! In comes an archive, out go lines in the one order that they have, and the other way round.
//! How a line becomes text and how texts are summed is told in `docs/format.md`; the names here are
//! part of it.

use serde::{Deserialize, Serialize};

use super::archive::ThreadArchive;
use super::contract::{Head, RunRow, Stored};
use super::record::{Record, Status};
use crate::ids::{Branch, Epoch, RunId, Seq, ThreadId};

/// One line of an export, after the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the usual one, and a pointer to it would be an allocation"
)]
pub enum ExportLine {
    /// A thread begins.
    Thread(ThreadLine),
    /// One of its records.
    Record(RecordLine),
    /// One of its segments.
    Segment(SegmentLine),
    /// The thread is whole.
    End(EndLine),
    /// The export is whole.
    Done(DoneLine),
}

impl ExportLine {
    /// What kind of line it is.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Thread(_) => "thread",
            Self::Record(_) => "record",
            Self::Segment(_) => "segment",
            Self::End(_) => "end",
            Self::Done(_) => "done",
        }
    }

    /// The lines of a thread, less the last one.
    pub fn of(archive: &ThreadArchive) -> impl Iterator<Item = Self> + '_ {
        let runs = archive.runs.iter().map(|(run, row)| RunLine {
            run: run.clone(),
            input: row.input,
            end: row.end,
            status: row.status,
        });
        let thread = Self::Thread(ThreadLine {
            id: archive.thread.clone(),
            next: archive.next,
            epoch: archive.epoch,
            head: archive.head.clone(),
            runs: runs.collect(),
        });
        let records = archive.records.iter().map(|stored| {
            Self::Record(RecordLine {
                seq: stored.seq,
                branch: stored.branch,
                epoch: stored.epoch,
                body: Record::clone(&stored.record),
            })
        });
        let segments = archive.segments.iter().map(|(id, bytes)| {
            Self::Segment(SegmentLine {
                id: *id,
                bytes: bytes.to_vec(),
            })
        });
        [thread].into_iter().chain(records).chain(segments)
    }
}

/// How a thread stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadLine {
    /// Its id.
    pub id: ThreadId,
    /// The seq that its next record gets.
    pub next: Seq,
    /// The epoch of its last write.
    pub epoch: Epoch,
    /// Its head.
    pub head: Head,
    /// Its runs, in the order of their inputs.
    pub runs: Vec<RunLine>,
}

impl ThreadLine {
    /// A thread to which the other lines have to be added.
    pub fn begin(self) -> ThreadArchive {
        let row = |run: RunLine| {
            let row = RunRow {
                input: run.input,
                end: run.end,
                status: run.status,
            };
            (run.run, row)
        };
        ThreadArchive {
            thread: self.id,
            head: self.head,
            next: self.next,
            epoch: self.epoch,
            runs: self.runs.into_iter().map(row).collect(),
            records: Vec::new(),
            segments: Vec::new(),
        }
    }
}

/// A run of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunLine {
    /// Its id.
    pub run: RunId,
    /// Its input.
    pub input: Seq,
    /// The position it ended with; none while it goes on.
    pub end: Option<Seq>,
    /// How it ended, or that it goes on.
    pub status: Status,
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordLine {
    /// Its place.
    pub seq: Seq,
    /// The branch it belongs to.
    pub branch: Branch,
    /// The epoch of its writer.
    pub epoch: Epoch,
    /// What it says.
    pub body: Record,
}

impl From<RecordLine> for Stored {
    fn from(line: RecordLine) -> Self {
        Self {
            seq: line.seq,
            branch: line.branch,
            epoch: line.epoch,
            record: line.body.into(),
        }
    }
}

/// A segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentLine {
    /// Its id.
    #[serde(with = "super::bytes::short")]
    pub id: [u8; 16],
    /// Its bytes.
    #[serde(with = "super::bytes")]
    pub bytes: Vec<u8>,
}

/// The end of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndLine {
    /// The thread's id.
    pub id: ThreadId,
    /// How many records it has.
    pub records: u64,
    /// How many segments it has.
    pub segments: u64,
    /// The BLAKE3 hash of its lines before this one, as 64 hex digits.
    pub sum: String,
}

/// The end of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoneLine {
    /// How many threads it has.
    pub threads: u64,
    /// The BLAKE3 hash of all lines before this one, as 64 hex digits.
    pub sum: String,
}
