//! What a check says: how bad, where, what, and what to do.

use std::fmt;

use super::memory::hex;
use crate::ids::{RunId, Seq, ThreadId};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Odd, but everything can be read.
    Warning,
    /// Damaged: something cannot be read or makes no sense.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// Where in a thread something was found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Spot {
    /// The thread as a whole.
    Thread,
    /// The row that says how it stands.
    Head,
    /// A record.
    Record(Seq),
    /// A run row.
    Run(RunId),
    /// A segment.
    Segment([u8; 16]),
    /// The wish that waits.
    Wish,
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread => f.write_str("thread"),
            Self::Head => f.write_str("head"),
            Self::Record(seq) => write!(f, "record {seq}"),
            Self::Run(run) => write!(f, "run {run}"),
            Self::Segment(id) => write!(f, "segment {}", hex(id)),
            Self::Wish => f.write_str("wish"),
        }
    }
}

/// Something that was found in a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The thread.
    pub thread: ThreadId,
    /// Where in it.
    pub place: Spot,
    /// What is wrong, as a sentence without its end.
    pub what: String,
    /// What to do.
    pub next: &'static str,
}

impl Finding {
    /// Whether something is damaged.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// What a store keeps and no thread has any more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waste {
    /// How many long values.
    pub values: u64,
    /// How many bytes they have.
    pub bytes: u64,
}
