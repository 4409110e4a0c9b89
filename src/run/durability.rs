//! When a run waits for its store.
//!
//! In comes a write, out goes whether the run goes on before it is durable. What an effect outside
//! depends on, and what hands the thread over, is waited for in every mode.

use crate::store::{FrameKind, Record, Status, Write};

/// When a run waits until what it has written is durable. In every mode the store makes each write
/// durable before it says so, and the writes of a thread are stored in their order: after a crash or a
/// power cut, a thread stands where it stood at some moment before, whole, and goes on to the same
/// state.
///
/// In every mode a run waits for what others rely on: the input that begins a run, a takeover, durable
/// steps ([`Context::step`](crate::Context::step)), times to wake up, questions and answers, the
/// beginning and the end of a task that is [irreversible](crate::Effect::Irreversible), and whatever
/// ends the call (a pause, a stop, a failure, the end). Everything before such a write is durable with
/// it. No door gives a thread back, or returns, before all of it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Durability {
    /// A result is durable before anything that depends on it starts. What was reported is safe.
    #[default]
    Each,
    /// The run goes on while its last writes are stored, several of them in one. A crash can take what
    /// is on its way: at most 1,024 records or 1 MiB, which is what two writes of the store take in.
    /// Those tasks run again.
    ///
    /// [`EventKind::TaskFinished`](crate::EventKind::TaskFinished) and
    /// [`EventKind::Committed`](crate::EventKind::Committed) come once a record is accepted;
    /// [`EventKind::Durable`](crate::EventKind::Durable) says up to where the log is safe. Where the
    /// store fails, the run hears of it at its next boundary.
    Background,
    /// The run stores nothing on its way, but all at once where it waits or ends; and where 16,384
    /// records or 8 MiB have gathered, what there is. A crash can take all since the last such moment.
    AtEnd,
}

/// How much of a run may be on its way to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) records: usize,
    /// Of bodies of records and of segments.
    pub(super) bytes: usize,
    /// Whether it is on its way as soon as it is accepted.
    pub(super) at_once: bool,
}

impl Durability {
    /// How much may be accepted and not yet durable; none where nothing may.
    ///
    /// To sync a disk takes 0.1 to 10 ms (`docs/reliability.md`), a step with its record some 10 µs: a
    /// thousand records are what a slow disk needs to be never waited for, and 1 MiB is a quarter of
    /// what the stores put into one batch. At the end, 8 MiB are less than the memory that a run may
    /// take besides its state.
    pub(super) fn window(self) -> Option<Window> {
        match self {
            Self::Each => None,
            Self::Background => Some(Window {
                records: 1024,
                bytes: 1 << 20,
                at_once: true,
            }),
            Self::AtEnd => Some(Window {
                records: 16 << 10,
                bytes: 8 << 20,
                at_once: false,
            }),
        }
    }
}

/// Which writes of a run are waited for.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    /// Whether an irreversible task of the open superstep has begun.
    begun: bool,
}

impl Awaited {
    /// Whether the run waits for the next write.
    pub(super) fn next(&mut self, write: &Write) -> bool {
        let mut waits = write.head.status != Status::Running || write.fulfils.is_some();
        for record in &write.records {
            // A graph inside has the kinds of the outermost one, and its claim and input lie there.
            let (kind, inside) = match record {
                Record::Inner(inner) => (inner.kind(), true),
                record => (Some(FrameKind::of(record)), false),
            };
            waits |= match kind {
                Some(FrameKind::SCHEMA | FrameKind::BASE) => false,
                Some(FrameKind::INPUT | FrameKind::STARTED) => !inside,
                Some(FrameKind::OUTCOME | FrameKind::COMMIT) => self.begun,
                _ => true,
            };
            self.begun |= kind == Some(FrameKind::BEGUN);
            self.begun &= inside || kind != Some(FrameKind::COMMIT);
        }
        waits
    }
}
