//! The kinds of frames, with their numbers in the stored format.
//!
//! A number that was given once is never given again; `docs/format.md` has the table.

use super::record::Record;

/// What a frame holds, as its number in the stored format. Records are 1 to 16, in the order of
/// the variants of [`Record`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FrameKind {
    /// A record; the number is its kind.
    Record(u8),
    /// The head row.
    Head,
    /// The name row.
    Name,
    /// A run row.
    Run,
    /// A segment.
    Segment,
    /// Where a pruned log begins.
    Start,
    /// The wish row.
    Wish,
}

impl FrameKind {
    pub(crate) const SCHEMA: Self = Self::Record(1);
    pub(crate) const INPUT: Self = Self::Record(2);
    pub(crate) const STARTED: Self = Self::Record(3);
    pub(crate) const OUTCOME: Self = Self::Record(4);
    pub(crate) const COMMIT: Self = Self::Record(5);
    pub(crate) const BASE: Self = Self::Record(6);
    pub(crate) const BEGUN: Self = Self::Record(15);

    /// The kind of a record.
    pub fn of(record: &Record) -> Self {
        Self::Record(match record {
            Record::Schema(_) => 1,
            Record::Input(_) => 2,
            Record::Started(_) => 3,
            Record::Outcome(_) => 4,
            Record::Commit(_) => 5,
            Record::Base(_) => 6,
            Record::Stopped(_) => 7,
            Record::Step(_) => 8,
            Record::Question(_) => 9,
            Record::Answer(_) => 10,
            Record::Timer(_) => 11,
            Record::Compensation(_) => 12,
            Record::Inner(_) => 13,
            Record::Branch(_) => 14,
            Record::Begun(_) => 15,
            Record::Discarded(_) => 16,
        })
    }

    /// The number in the stored format.
    pub const fn number(self) -> u8 {
        match self {
            Self::Record(kind) => kind,
            Self::Head => 64,
            Self::Name => 65,
            Self::Run => 66,
            Self::Segment => 67,
            Self::Start => 68,
            Self::Wish => 69,
        }
    }

    /// Reads the number; none if no kind of this version has it.
    pub(crate) const fn parse(number: u8) -> Option<Self> {
        Some(match number {
            1..=16 => Self::Record(number),
            64 => Self::Head,
            65 => Self::Name,
            66 => Self::Run,
            67 => Self::Segment,
            68 => Self::Start,
            69 => Self::Wish,
            _ => return None,
        })
    }
}
