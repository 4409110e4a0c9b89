//! What a store promises, and the values that pass its door.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::archive::{Extent, ThreadArchive};
use super::finding::Waste;
use super::record::{Record, Status};
use super::remains::{self, Owner, Remains};
use super::retention::{Retain, Retained, Retention};
use super::text::Text;
use super::wish::{self, Asked, Wish, Wished, Wishes};
use crate::ids::{Branch, Epoch, RunId, Seq, ThreadId};

/// Keeps the logs of threads.
///
/// A thread is one log of [`Record`]s, numbered by [`Seq`] from 1 without gaps, plus the segments
/// that its bases refer to and one [`Head`] row. The promises, which `store::conformance` checks:
///
/// - **One atomic write.** All of a [`Write`] is there after a crash, or nothing of it; and when
///   `append` has returned, no crash and no power cut takes it away.
/// - **One writer.** [`claim`](Self::claim) raises the thread's epoch. A write that names an older
///   epoch is [`StoreError::Fenced`], a write that expects another end of the log or another head
///   is [`StoreError::Conflict`]; both change nothing.
/// - **Branches.** A write that begins with a [`Record::Branch`] may move the head back to an older
///   input or commit. All that was written before stays as it is, and can be read as before.
/// - **Order.** What is read comes in `seq` order. Nothing depends on a clock or on the text of ids.
/// - **Isolation.** Threads do not see each other, whatever their names.
/// - **Wishes.** Anybody may ask the run of a thread to stop, without a claim. Such a wish is kept until
///   its run heeds it or ends, is told to the holder at once, and never reaches another run.
/// - **Honesty.** Damaged bytes are [`StoreError::Corrupt`], never a partial or defaulted record.
#[async_trait]
pub trait CheckpointStore: Send + Sync + fmt::Debug + 'static {
    /// Takes the thread for one call and raises its epoch. An unknown thread is a claim on an
    /// empty log; nothing is stored before the first write.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if another call holds it and `how` is [`Take::IfFree`].
    async fn claim(&self, thread: &ThreadId, how: Take) -> Result<Claim, StoreError>;

    /// Gives the thread back. Does nothing if the epoch is no longer the holder's. Must not block:
    /// it is called from destructors.
    fn release(&self, thread: &ThreadId, epoch: Epoch);

    /// Adds records to a thread's log, atomically and durably.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::Conflict`]; [`StoreError::Io`] if nothing can be
    /// written.
    async fn append(&self, write: Write) -> Result<(), StoreError>;

    /// How the thread stands; none for an unknown one.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Io`].
    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError>;

    /// Reads at most `limit` records from `from` on, in order. An unknown thread has none; a
    /// pruned one has those that were kept.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] names the thread and the seq of the first record that cannot be
    /// trusted, or that is missing before the end of the log.
    async fn records(
        &self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError>;

    /// Reads segments in the order asked for.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if one is missing or does not match its id.
    async fn segments(
        &self,
        thread: &ThreadId,
        ids: &[[u8; 16]],
    ) -> Result<Vec<Arc<[u8]>>, StoreError>;

    /// Finds a run of a thread.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Io`].
    async fn run(&self, thread: &ThreadId, run: &RunId) -> Result<Option<RunRow>, StoreError>;

    /// Lists threads in a fixed order, at most `limit` after `after`.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Io`].
    async fn threads(
        &self,
        after: Option<&ThreadId>,
        limit: usize,
    ) -> Result<Vec<(ThreadId, Head)>, StoreError>;

    /// What a thread has, without its records; none for an unknown one.
    ///
    /// All of it is of one moment. What lies before its `next` is never changed, so whoever reads
    /// the records up to there has read the thread as it was then.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Io`].
    async fn extent(&self, thread: &ThreadId) -> Result<Option<Extent>, StoreError>;

    /// Lists every thread by name, also one whose head is damaged. A name that cannot be read is
    /// the error in its place.
    ///
    /// Default: what [`threads`](Self::threads) lists.
    ///
    /// # Errors
    /// [`StoreError::Io`]; and [`StoreError::Corrupt`] where nothing at all can be listed.
    async fn thread_names(&self) -> Result<Vec<Result<ThreadId, StoreError>>, StoreError> {
        const PAGE: usize = 256;
        let mut names = Vec::new();
        let mut last = None;
        loop {
            let page = self.threads(last.as_ref(), PAGE).await?;
            names.extend(page.iter().map(|(thread, _)| Ok(thread.clone())));
            match page.into_iter().nth(PAGE - 1) {
                Some((thread, _)) => last = Some(thread),
                None => return Ok(names),
            }
        }
    }

    /// Puts a whole thread under an id that has none, atomically and durably: all of it is there
    /// after a crash, or nothing.
    ///
    /// # Errors
    /// [`StoreError::Unsound`] if the archive does not hold together; [`StoreError::Exists`] if
    /// the thread has a log; [`StoreError::Busy`] while a call holds it.
    async fn restore(&self, archive: ThreadArchive) -> Result<(), StoreError>;

    /// Removes a thread with all that belongs to it. An unknown thread is no error.
    ///
    /// # Errors
    /// [`StoreError::Busy`] while a call holds it.
    async fn delete_thread(&self, thread: &ThreadId) -> Result<(), StoreError>;

    /// Copies a thread's whole log under another id. An unknown source copies nothing.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if the target has a log; [`StoreError::Busy`] while a call holds
    /// either.
    async fn copy_thread(&self, from: &ThreadId, to: &ThreadId) -> Result<(), StoreError>;

    /// Drops the checkpoints of a thread that a [`Retention`] does not keep, with the records and
    /// segments that nothing needs any more, atomically and durably. What stays is unchanged: the head
    /// of each branch, an open superstep, the runs, and older records that a kept one needs (the schema,
    /// the run's input, outcomes). A policy that keeps all drops only segments without a reference.
    ///
    /// A call may do this to the thread that it holds itself; its next write follows as if nothing
    /// had happened.
    ///
    /// # Errors
    /// [`StoreError::Busy`] while a call holds it; for a caller that names its own claim
    /// [`StoreError::Fenced`], where that is not the newest.
    async fn retain(&self, what: Retain) -> Result<Retained, StoreError>;

    /// Drops all checkpoints but the head of each branch, and those that are read from the same base.
    ///
    /// Default: [`retain`](Self::retain) with `Retention::last(1)`.
    ///
    /// # Errors
    /// [`StoreError::Busy`] while a call holds it.
    async fn prune(&self, thread: &ThreadId) -> Result<(), StoreError> {
        let what = Retain {
            thread: thread.clone(),
            retention: Retention::last(1),
            now_ms: 0,
            holder: None,
        };
        self.retain(what).await.map(|_| ())
    }

    /// What is stored and belongs to no thread: the rest of a damage, for nothing else leaves any.
    ///
    /// Default: nothing, as in a store that keeps all it has with the thread that it is of.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Io`].
    async fn waste(&self) -> Result<Waste, StoreError> {
        Ok(Waste::default())
    }

    /// Removes [`waste`](Self::waste).
    ///
    /// Default: there is nothing to do.
    ///
    /// # Errors
    /// As [`waste`](Self::waste).
    async fn sweep(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Keeps a wish for whoever holds the thread, durably, and tells the holder. Needs no claim. A
    /// wish that asks for no more than one that waits already changes nothing.
    ///
    /// Only if a call holds the thread and the wish's run has not ended: else nothing is stored.
    /// A write takes the wish away that it [fulfils](Write::fulfils), and any wish of a run that is
    /// finished or no longer the thread's. Copies, restored threads and exports have none.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if the reason is too long; [`StoreError::Corrupt`],
    /// [`StoreError::Io`].
    async fn wish(&self, thread: &ThreadId, wish: Wish) -> Result<Wished, StoreError>;

    /// The wish that waits, if one does.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Io`].
    async fn wished(&self, thread: &ThreadId) -> Result<Option<Wish>, StoreError>;

    /// Asks the run of a thread to stop. Where a call holds the thread, the wish is
    /// [kept](Self::wish) for it; where none does, the thread is cancelled here and now. Asked again,
    /// it does the same again, and no more. None for an unknown thread.
    ///
    /// Default: made of the other operations.
    ///
    /// # Errors
    /// As the operations that it is made of.
    async fn ask_to_stop(
        &self,
        thread: &ThreadId,
        wish: Wish,
    ) -> Result<Option<Asked>, StoreError> {
        wish::ask_to_stop(self, thread, wish).await
    }

    /// Whose anything is stored, also where no name can be read. What cannot even be counted is the
    /// error in its place.
    ///
    /// Default: the threads that [`thread_names`](Self::thread_names) lists.
    ///
    /// # Errors
    /// As listing the names.
    async fn owners(&self) -> Result<Vec<Result<Owner, StoreError>>, StoreError> {
        let names = self.thread_names().await?;
        Ok(names
            .into_iter()
            .map(|name| name.map(Owner::Thread))
            .collect())
    }

    /// Reads whatever of a thread can still be read, for [`salvage`](super::salvage()).
    ///
    /// Default: what the other operations read, which is nothing where the head is damaged. A store
    /// that keeps its records apart from its heads does better.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::Closed`]: damage is told in what is returned.
    async fn remains(&self, owner: &Owner) -> Result<Remains, StoreError> {
        remains::read(self, owner).await
    }

    /// A number that this store alone has in its process, and each handle of it: two stores may have
    /// threads of one name.
    ///
    /// Default: the address of this handle. A store with several handles should say that of what they
    /// share, and one in front of another that of the other, as a [`Layer`](super::Layer) does.
    fn identity(&self) -> usize {
        std::ptr::from_ref(self).cast::<()>().addr()
    }

    /// Waits until everything that could be read before this call is durable. A store that shows
    /// nothing before it is has nothing to wait for, which is the default.
    ///
    /// # Errors
    /// [`StoreError::Io`] if something of it may never be.
    async fn durable(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// How to take a thread that another call may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Take {
    /// Only if no call holds it.
    IfFree,
    /// In any case: the holder is fenced off.
    Replace,
}

/// A thread, taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The epoch that every write must name.
    pub epoch: Epoch,
    /// How the thread stands; none for a new one.
    pub head: Option<Head>,
    /// The seq that the next record gets.
    pub next: Seq,
    /// Whether the last holder gave the thread back, or was replaced, in the life of this store. If
    /// not, and the thread still says that it is running, its holder died.
    pub given_back: bool,
    /// What is asked of the thread while it is held; the wish that waited before included.
    pub wishes: Wishes,
}

/// How a thread stands: one row, rewritten with every write that changes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The graph's name.
    pub graph: Text,
    /// The graph's fingerprint.
    #[serde(with = "super::bytes::short")]
    pub fingerprint: [u8; 16],
    /// The current run.
    pub run: Text,
    /// The current branch.
    pub branch: Branch,
    /// The input or commit that is the current position; on a branch that was just begun, one of
    /// another branch.
    pub seq: Seq,
    /// How many supersteps the branch has closed.
    pub step: u64,
    /// The newest base on the way to `seq`.
    pub base: Seq,
    /// The newest schema record.
    pub schema: Seq,
    /// How the thread stands.
    pub status: Status,
    /// When the thread was begun, in milliseconds since 1970. For people only.
    pub created_ms: u64,
    /// When it was last written, in milliseconds since 1970. For people only.
    pub updated_ms: u64,
}

/// One atomic addition to a log.
#[derive(Debug, Clone)]
pub struct Write {
    /// The thread.
    pub thread: ThreadId,
    /// The writer's epoch.
    pub epoch: Epoch,
    /// The branch that the records belong to, and the head afterwards. A new one is begun by a
    /// [`Record::Branch`], the first of the records.
    pub branch: Branch,
    /// The head as the writer knows it; [`Seq::new(0)`](Seq::new) for a new thread.
    pub expected: Seq,
    /// The seq of the first record: the end of the log as the writer knows it. The others follow.
    pub first: Seq,
    /// The records, at least one.
    pub records: Vec<Record>,
    /// New segments. One that is there already is not written again.
    pub segments: Vec<([u8; 16], Vec<u8>)>,
    /// The new head row.
    pub head: Head,
    /// The run row to write: the run that an input begins, or a run that moves on.
    pub run: Option<(RunId, RunRow)>,
    /// The wish that is heeded by this, and waits no longer.
    pub fulfils: Option<Wish>,
}

/// Where a run stands in its thread's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// Its input.
    pub input: Seq,
    /// The position it ended with; none while it goes on.
    pub end: Option<Seq>,
    /// How it ended, or that it goes on.
    pub status: Status,
}

/// A record as it stands in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its place.
    pub seq: Seq,
    /// The branch it belongs to.
    pub branch: Branch,
    /// The epoch of its writer.
    pub epoch: Epoch,
    /// What it says.
    pub record: Arc<Record>,
}

/// Why a store refused.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another call holds the thread.
    #[error("thread {thread} is busy: another call holds it. Wait for it, or replace it")]
    Busy {
        /// The thread.
        thread: ThreadId,
    },
    /// The writer's epoch is no longer the thread's.
    #[error(
        "thread {thread} was taken over: this writer has epoch {found}, the thread is at {current}. Nothing was written"
    )]
    Fenced {
        /// The thread.
        thread: ThreadId,
        /// The writer's epoch.
        found: Epoch,
        /// The thread's epoch.
        current: Epoch,
    },
    /// The log or the head is not where the writer expected it.
    #[error(
        "thread {thread} has moved: the writer expected head {expected_head} and next record {expected_next}, found {head} and {next}. Nothing was written"
    )]
    Conflict {
        /// The thread.
        thread: ThreadId,
        /// The head that the writer expected.
        expected_head: Seq,
        /// The head as it is.
        head: Seq,
        /// The next seq that the writer expected.
        expected_next: Seq,
        /// The next seq as it is.
        next: Seq,
    },
    /// Another process, or another handle in this one, has the store open.
    #[error("the store {} is locked{}: one process at a time can open it", path.display(), holder.map(|pid| format!(" by process {pid}")).unwrap_or_default())]
    Locked {
        /// The store's folder.
        path: PathBuf,
        /// The process that holds it, where known.
        holder: Option<u32>,
    },
    /// The process that has the store open lets others look, but not this program.
    #[error("process {holder} has the store {} open and speaks version {found} of the window, this program speaks version {known}. Look with the same version of the program", path.display())]
    OtherWindow {
        /// The store's folder.
        path: PathBuf,
        /// The process.
        holder: u32,
        /// The version that it speaks.
        found: u16,
        /// The version that this program speaks.
        known: u16,
    },
    /// The store is kept by another engine than the one that was to open it.
    #[error("the store {} is kept by {found}, not by {expected}: threads move from one to the other by export and import", path.display())]
    OtherEngine {
        /// The store's folder.
        path: PathBuf,
        /// The engine that keeps it.
        found: &'static str,
        /// The engine that was to open it.
        expected: &'static str,
    },
    /// The program was built without the engine of a store.
    #[error("the store {} needs {engine}, and this program was built without it", path.display())]
    NoEngine {
        /// The store's folder.
        path: PathBuf,
        /// The engine: the name of a feature of this crate.
        engine: &'static str,
    },
    /// Stored bytes cannot be trusted.
    #[error("{place} is damaged: {found}. {hint}")]
    Corrupt {
        /// Which store, thread and record.
        place: String,
        /// What was expected and what was found.
        found: String,
        /// What to do.
        hint: &'static str,
    },
    /// Stored bytes come from a newer program.
    #[error(
        "{place} has format version {found}, this program reads up to {known}. Use a newer program"
    )]
    Newer {
        /// Which store, thread and record.
        place: String,
        /// The version found.
        found: u32,
        /// The newest known version.
        known: u32,
    },
    /// A value is encrypted, and its key is not at hand.
    #[error("{place} is encrypted with key {key}: {why}. Open the store with that key")]
    Encrypted {
        /// Which store, thread and record.
        place: String,
        /// The key's number.
        key: u32,
        /// Why it does not open.
        why: &'static str,
    },
    /// The thread exists already.
    #[error("thread {thread} exists already")]
    Exists {
        /// The thread.
        thread: ThreadId,
    },
    /// A whole thread was given that does not hold together.
    #[error("thread {thread} was not restored, for it does not hold together: {found}")]
    Unsound {
        /// The thread.
        thread: ThreadId,
        /// The first thing that is wrong.
        found: String,
    },
    /// The write itself makes no sense: no record, or a head that points nowhere.
    #[error("a write to thread {thread} was refused: {reason}")]
    Refused {
        /// The thread.
        thread: ThreadId,
        /// Why.
        reason: &'static str,
    },
    /// The operating system said no.
    #[error("{action} failed: {source}")]
    Io {
        /// What was tried, with the path.
        action: String,
        /// What the system said.
        source: Arc<std::io::Error>,
    },
    /// The store was closed, or its writer has ended.
    #[error("the store is closed")]
    Closed,
}
