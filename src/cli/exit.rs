//! How a command ends: a code for machines, a sentence for people.

use std::io;
use std::process::ExitCode;

use super::in_use;
use crate::store::{Status, StoreError};
use crate::{Ended, RunError};

/// How a command ended. The number is the process's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(u8)]
pub enum Exit {
    /// 0: done; the thread is finished.
    Done = 0,
    /// 1: the run failed. What had finished is kept.
    Failed = 1,
    /// 2: what was asked makes no sense: an unknown name, a missing folder, a wrong flag.
    Usage = 2,
    /// 3: the thread waits for an answer.
    Waiting = 3,
    /// 4: the limit of supersteps or of time is used up.
    Limited = 4,
    /// 5: the thread waits for a time to come.
    Parked = 5,
    /// 6: the run was stopped.
    Cancelled = 6,
    /// 7: another process holds the store, or another call the thread.
    Busy = 7,
    /// 8: stored bytes are damaged, or come from a newer program.
    Corrupt = 8,
}

impl Exit {
    /// The exit code.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

impl From<Ended> for Exit {
    fn from(ended: Ended) -> Exit {
        match ended {
            Ended::Finished => Exit::Done,
            Ended::Paused { .. } => Exit::Waiting,
            Ended::Parked { .. } => Exit::Parked,
            Ended::Cancelled => Exit::Cancelled,
            Ended::StepLimit { .. } | Ended::Deadline { .. } => Exit::Limited,
        }
    }
}

/// What a thread's status means for who looks at it.
pub(super) fn stands(status: Status) -> &'static str {
    match status {
        Status::Running => "a call works on it, or died while it did",
        Status::Paused => "it waits for an answer, or to be taken up",
        Status::Parked => "it waits for a time to come",
        Status::Failed => "what had finished is kept",
        Status::Finished => "nothing is left to run",
        Status::Cancelled => "it was asked to stop",
        Status::Limited => "the limit of supersteps or of time was used up",
    }
}

/// Why a command did not do what it was asked: what happened and where, and what to do next.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) exit: Exit,
    pub(super) what: String,
    /// The next command, or the next step in words.
    pub(super) next: Option<String>,
}

impl Failure {
    pub(super) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self {
            exit,
            what: what.into(),
            next: None,
        }
    }

    pub(super) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    pub(super) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

/// Whether the disk takes no more: what is wrong is neither the place nor the store.
pub(super) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        if let StoreError::Locked { path, holder } = &error {
            return in_use::locked(path, *holder, None);
        }
        let (exit, next) = match &error {
            StoreError::Busy { .. } => (Exit::Busy, "wait until the other call is done"),
            StoreError::OtherWindow { .. } => (
                Exit::Busy,
                "look with the program that has it open, or wait until that process is done",
            ),
            StoreError::Fenced { .. } | StoreError::Conflict { .. } => {
                (Exit::Busy, "let the other call finish, then look again")
            }
            StoreError::Corrupt { .. } => (
                Exit::Corrupt,
                "keep the folder as it is, copy it, and put back the last good copy",
            ),
            StoreError::Exists { .. } => (
                Exit::Usage,
                "choose another name, or delete that thread first",
            ),
            StoreError::Newer { .. } => (Exit::Corrupt, "use the program that wrote it"),
            StoreError::Io { source, .. } if is_full(source) => (
                Exit::Failed,
                "make room on the disk and try again: nothing acknowledged is lost",
            ),
            _ => (Exit::Failed, ""),
        };
        let failure = Failure::new(exit, error.to_string());
        match next {
            "" => failure,
            next => failure.next(next),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Store(error) => error.into(),
            RunError::Unfinished { .. }
            | RunError::NotFound { .. }
            | RunError::NoCheckpoint { .. }
            | RunError::Pruned { .. }
            | RunError::OtherLine { .. }
            | RunError::NoBranch { .. }
            | RunError::NoNode { .. }
            | RunError::NoExit { .. }
            | RunError::MissingInput { .. }
            | RunError::OtherGraph { .. }
            | RunError::Superseded { .. } => Failure::usage(error.to_string()),
            error => Failure::new(Exit::Failed, error.to_string()),
        }
    }
}
