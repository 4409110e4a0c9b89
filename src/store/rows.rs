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

#[cfg(all(test, feature = "conformance"))]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde::de::DeserializeOwned;

    use super::super::conformance::sample_head;
    use super::super::frame::{FrameHeader, ThreadKey, decode_row, encode_row};
    use super::super::kind::FrameKind;
    use super::super::memory::hex;
    use super::super::record::Status;
    use super::super::wish::{Wish, WishKind};
    use super::*;

    fn golden<T>(kind: FrameKind, row: &T, text: &str)
    where
        T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        let key = ThreadKey::of(&ThreadId::new("golden").unwrap());
        let frame = encode_row(key, FrameHeader::row(kind), row).unwrap();
        let text: String = text.split_whitespace().collect();
        assert_eq!(hex(&frame), text);
        assert_eq!(decode_row::<T>(key, kind, &frame).unwrap().1, *row);
        for place in 0..frame.len() {
            for bit in 0..8 {
                let mut frame = frame.clone();
                frame[place] ^= 1 << bit;
                assert!(decode_row::<T>(key, kind, &frame).is_err());
            }
            assert!(decode_row::<T>(key, kind, &frame[..place]).is_err());
        }
    }

    #[test]
    fn every_row_is_written_as_its_golden_bytes() {
        let row = HeadRow {
            next: Seq::new(15),
            epoch: Epoch::new(3),
            head: sample_head(),
        };
        golden(
            FrameKind::Head,
            &row,
            include_str!("../../tests/data/head.hex"),
        );
        let row = NameRow {
            thread: ThreadId::new("golden").unwrap(),
        };
        golden(
            FrameKind::Name,
            &row,
            include_str!("../../tests/data/name.hex"),
        );
        let row = NamedRun {
            run: RunId::new("run-1").unwrap(),
            row: RunRow {
                input: Seq::new(2),
                end: Some(Seq::new(5)),
                status: Status::Finished,
            },
        };
        golden(
            FrameKind::Run,
            &row,
            include_str!("../../tests/data/run.hex"),
        );
        let row = StartRow {
            floor: 5,
            older: vec![1, 2, 4],
        };
        golden(
            FrameKind::Start,
            &row,
            include_str!("../../tests/data/start.hex"),
        );
    }

    #[test]
    fn a_wish_is_written_as_its_golden_bytes() {
        let row = Wish {
            run: "run-1".to_owned(),
            kind: WishKind::Drain,
            at_ms: 1_700_000_000_015,
            reason: "the host goes down".to_owned(),
        };
        golden(
            FrameKind::Wish,
            &row,
            include_str!("../../tests/data/wish.hex"),
        );
    }

    #[test]
    fn a_pruned_log_has_its_older_records_and_then_all() {
        let start = StartRow {
            floor: 5,
            older: vec![1, 3],
        };
        let seqs = |from, next| -> Vec<u64> {
            start
                .seqs(Seq::new(from), Seq::new(next))
                .map(Seq::get)
                .collect()
        };
        assert_eq!(seqs(0, 8), [1, 3, 5, 6, 7]);
        assert_eq!(seqs(2, 8), [3, 5, 6, 7]);
        assert_eq!(seqs(6, 8), [6, 7]);
        assert_eq!(seqs(9, 8), [0; 0]);
    }
}
