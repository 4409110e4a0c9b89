//! How a command ends: a code for machines, a sentence for people.

use std::io;
use std::process::ExitCode;

use super::in_use;
use crate::store::{Status, StoreError};
use crate::{Ended, RunError};

/// How a command ended. The number is the process's exit code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(u8)]
pub enum Exit {
    /// 0: done; the thread is finished.
    #[default]
    Done = 0,
    /// 1: the run failed, or the output could not be written. What had finished is kept.
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
            Ended::Cancelled | Ended::Drained => Exit::Cancelled,
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
        Status::Drained => "its process gave it back at a boundary, for another one to go on",
    }
}

/// Why a command did not do what it was asked: what happened and where, and what to do next.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) exit: Exit,
    pub(super) what: String,
    /// The next command, or the next step in words.
    pub(super) next: String,
}

/// What happened and where, as long as nobody has said what to do next.
#[derive(Debug)]
pub(super) struct Happened {
    exit: Exit,
    what: String,
}

impl Happened {
    /// Says what to do next.
    pub(super) fn next(self, next: impl Into<String>) -> Failure {
        Failure {
            exit: self.exit,
            what: self.what,
            next: next.into(),
        }
    }
}

impl Failure {
    #[expect(
        clippy::new_ret_no_self,
        reason = "no failure goes without a next step"
    )]
    pub(super) fn new(exit: Exit, what: impl Into<String>) -> Happened {
        let what = what.into();
        Happened { exit, what }
    }

    pub(super) fn usage(what: impl Into<String>) -> Happened {
        Self::new(Exit::Usage, what)
    }

    /// Says something better to do next.
    pub(super) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = next.into();
        self
    }
}

/// What to do where the disk takes no more: what is wrong then is neither the place nor the store.
pub(super) fn room(error: &io::Error) -> Option<&'static str> {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded => Some("make room on the disk"),
        FileTooLarge => Some("allow larger files (ulimit -f)"),
        _ => None,
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        if let StoreError::Locked { path, holder } = &error {
            return in_use::locked(path, *holder, None);
        }
        let (exit, next) = match &error {
            StoreError::Busy { .. } => (Exit::Busy, "wait until the other call is done"),
            StoreError::Locked { .. } | StoreError::OtherWindow { .. } => (
                Exit::Busy,
                "look with the program that has it open, or wait until that process is done",
            ),
            StoreError::Fenced { .. } | StoreError::Conflict { .. } => {
                (Exit::Busy, "let the other call finish, then look again")
            }
            StoreError::Corrupt { place, found, hint } => {
                let what = format!("{place} is damaged: {found}");
                return Failure::new(Exit::Corrupt, what).next(*hint);
            }
            StoreError::Exists { .. } => (
                Exit::Usage,
                "choose another name, or delete that thread first",
            ),
            StoreError::Newer { .. } => (Exit::Corrupt, "use the program that wrote it"),
            StoreError::Encrypted { .. } => (
                Exit::Failed,
                "put its key into MILEPOST_KEYS, as NUMBER:HEX; nothing was changed",
            ),
            StoreError::Unsound { .. } => (
                Exit::Failed,
                "export once more, and import that with --skip-existing",
            ),
            StoreError::Refused { .. } => (
                Exit::Failed,
                "report this: the program has a fault; what was stored before is kept",
            ),
            StoreError::Io { source, .. } => {
                let first = room(source).unwrap_or("put that right");
                let next = format!("{first} and try again: nothing acknowledged is lost");
                return Failure::new(Exit::Failed, error.to_string()).next(next);
            }
            StoreError::OtherEngine { found, .. } => {
                let next = format!(
                    "leave out --engine, or name another folder with --store: \
                     this one is kept by {found}"
                );
                return Failure::new(Exit::Usage, error.to_string()).next(next);
            }
            StoreError::NoEngine { engine, .. } => {
                let next = format!("build the program with the feature `{engine}` of milepost");
                return Failure::new(Exit::Usage, error.to_string()).next(next);
            }
            StoreError::Closed => (Exit::Failed, "try again: nothing acknowledged is lost"),
        };
        Failure::new(exit, error.to_string()).next(next)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let (exit, next) = match &error {
            RunError::Store(error) => return error.clone().into(),
            RunError::Unfinished { .. } => (
                Exit::Usage,
                "resume the thread, or run it with --abandon to start anew",
            ),
            RunError::NotFound { .. } => (Exit::Usage, "look at the threads that there are"),
            RunError::NoCheckpoint { .. } => (Exit::Usage, "look at the thread's history"),
            RunError::MissingInput { .. } => (Exit::Usage, "give the field"),
            RunError::OtherGraph { .. } => (
                Exit::Usage,
                "run that graph, or name another thread with --thread",
            ),
            RunError::PendingInterrupt { .. } => (
                Exit::Usage,
                "answer the questions, or run it with --abandon to start anew",
            ),
            RunError::NoQuestion { .. }
            | RunError::AmbiguousAnswer { .. }
            | RunError::WrongAnswer { .. }
            | RunError::AlreadyAnswered { .. } => (Exit::Usage, "look at the open questions"),
            RunError::NoTask { .. } => (Exit::Usage, "look at what happened in the thread"),
            RunError::Pruned { .. } => (Exit::Usage, "look at the thread's history"),
            RunError::OtherLine { .. } | RunError::NoBranch { .. } => (
                Exit::Usage,
                "look at the thread's branches with history --tree",
            ),
            RunError::NoNode { .. } | RunError::NoExit { .. } => (
                Exit::Usage,
                "name a node of the graph, and one of its exits",
            ),
            RunError::NoPause { .. } => (Exit::Usage, "name a node of the graph"),
            RunError::Superseded { .. } => (Exit::Usage, "start a run with another name"),
            RunError::SchemaMismatch { .. } | RunError::UnknownNode { .. } => {
                (Exit::Failed, "go on with the program that wrote it")
            }
            RunError::GraphVersionMismatch { .. } => (
                Exit::Failed,
                "go on with the program that wrote it, or without --pin",
            ),
            RunError::OlderOutcomes { .. } => (
                Exit::Failed,
                "go on with the program that wrote it, or fork the thread there",
            ),
            RunError::Migrate { .. } => (
                Exit::Failed,
                "mend the lift, or go on with the program that wrote it",
            ),
            _ => (
                Exit::Failed,
                "put that right, then resume the thread: what had finished is kept",
            ),
        };
        Failure::new(exit, error.to_string()).next(next)
    }
}
