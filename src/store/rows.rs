//! The rows beside a log: its head, its name, its runs, and where it begins after a prune.
//!
//! Plain structs whose order of fields is part of the stored format, like that of records.

use serde::{Deserialize, Serialize};

use super::contract::{Head, RunRow};
use crate::ids::{Epoch, RunId, Seq, ThreadId};

/// The head row: rewritten with every write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeadRow {
    /// The seq that the next record gets.
    pub(crate) next: Seq,
    /// The epoch of the last write.
    pub(crate) epoch: Epoch,
    pub(crate) head: Head,
}

/// The name row: written once. The key of a thread is a hash, this is what was hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NameRow {
    pub(crate) thread: ThreadId,
}

/// A run row with its name, since its key is a hash too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamedRun {
    pub(crate) run: RunId,
    pub(crate) row: RunRow,
}

/// The start row: there once a log was pruned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartRow {
    /// From here on the log is whole.
    pub(crate) floor: u64,
    /// The older records that are kept, in order.
    pub(crate) older: Vec<u64>,
}

impl StartRow {
    /// That of a log that was never pruned.
    pub(crate) fn whole() -> Self {
        Self {
            floor: 1,
            older: Vec::new(),
        }
    }

    /// The seqs that a log with this start and this end has, from `from` on.
    pub(crate) fn seqs(&self, from: Seq, next: Seq) -> impl Iterator<Item = Seq> + '_ {
        let from = from.get();
        self.older
            .iter()
            .copied()
            .filter(move |seq| *seq >= from)
            .chain(self.floor.max(from)..next.get())
            .map(Seq::new)
    }
}
