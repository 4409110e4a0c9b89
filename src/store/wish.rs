//! Wishes: what is asked of the run of a thread by somebody who does not hold it.
//!
//! In comes a wish from anybody who has the store, out goes whether a call will see it, or that the
//! thread stands still already. It is kept beside the log until the run that it is for has heeded it
//! or ended; it never reaches another run.

use std::fmt;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::contract::{CheckpointStore, Head, StoreError, Take, Write};
use super::record::{Record, Status, StoppedRecord, StoredError};
use super::text::Text;
use crate::ids::{Epoch, RunId, ThreadId};

/// The most bytes that a reason may have.
const REASON_BYTES: usize = 1024;

/// The class of the error that a cancelled thread keeps its reason in.
const CANCELLED: &str = "cancelled";

/// How often a wish is made again where the thread is taken and given back meanwhile.
const TRIES: u32 = 64;

/// What is asked of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WishKind {
    /// To stop: what is running is told to end, and has the grace time to do so.
    Cancel,
    /// To start no other superstep: the open one closes, and the thread is left for later.
    Drain,
}

impl fmt::Display for WishKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            WishKind::Cancel => "cancel",
            WishKind::Drain => "drain",
        })
    }
}

/// Something that is asked of a run: one row beside the log. The order of the fields is part of the
/// stored format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// The run that it is for.
    pub run: String,
    /// What is asked.
    pub kind: WishKind,
    /// When, in milliseconds since 1970. For people only.
    pub at_ms: u64,
    /// Why, in words; at most 1,024 bytes, empty where no reason was given.
    pub reason: String,
}

impl Wish {
    /// Whether it asks for what another one asks for, or for more.
    fn covers(&self, other: &Wish) -> bool {
        self.run == other.run && (self.kind == WishKind::Cancel || other.kind == WishKind::Drain)
    }

    /// Refuses a wish that no store keeps.
    pub(crate) fn check(&self, thread: &ThreadId) -> Result<(), StoreError> {
        match self.reason.len() <= REASON_BYTES {
            true => Ok(()),
            false => Err(StoreError::Refused {
                thread: thread.clone(),
                reason: "the reason of a wish has more than 1,024 bytes",
            }),
        }
    }

    /// The reason as a stopped record keeps it.
    pub(crate) fn error(&self) -> Option<StoredError> {
        (!self.reason.is_empty()).then(|| StoredError {
            class: CANCELLED.to_owned(),
            message: self.reason.clone(),
        })
    }
}

/// What a store has done with a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wished {
    /// It is stored, and the call that holds the thread is told.
    Kept,
    /// Nothing is stored: no call holds the thread.
    Free,
    /// Nothing is stored: the run has ended like this.
    Over(Status),
    /// There is no such thread.
    Unknown,
}

/// What has become of the wish that a run should stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Asked {
    /// A call works on the thread. It stops at its next boundary at the latest.
    Pending,
    /// No call worked on the thread. It is cancelled now.
    Stopped,
    /// There was nothing to stop: the run, or the thread that nobody works on, stands like this.
    AtRest(Status),
}

/// What the holder of a thread hears of wishes; part of its [`Claim`](super::Claim).
#[derive(Debug, Clone)]
pub struct Wishes(watch::Receiver<Option<Wish>>);

impl PartialEq for Wishes {
    fn eq(&self, other: &Self) -> bool {
        *self.0.borrow() == *other.0.borrow()
    }
}

impl Eq for Wishes {}

/// The store's end of [`Wishes`].
#[derive(Debug)]
pub struct WishSender(watch::Sender<Option<Wish>>);

impl WishSender {
    /// Tells the holder.
    pub fn tell(&self, wish: Wish) {
        self.0.send_replace(Some(wish));
    }
}

impl Wishes {
    /// A way from a store to the holder of a thread, with the wish that waits already.
    pub fn new(pending: Option<Wish>) -> (WishSender, Self) {
        let (sender, receiver) = watch::channel(pending);
        (WishSender(sender), Self(receiver))
    }

    /// The newest wish.
    pub fn newest(&self) -> Option<Wish> {
        self.0.borrow().clone()
    }

    /// Whether one has come since the claim.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.0.has_changed().unwrap_or(false)
    }

    /// Waits for one that is like this.
    pub(crate) async fn wait(&self, is_one: impl Fn(&Wish) -> bool) {
        let mut wishes = self.0.clone();
        let found = wishes.wait_for(|wish| wish.as_ref().is_some_and(&is_one));
        if found.await.is_err() {
            // The store tells this holder nothing any more.
            std::future::pending::<()>().await;
        }
    }
}

/// How a thread stands for wishes.
pub(super) struct Standing<'a> {
    pub(super) head: Option<&'a Head>,
    pub(super) held: bool,
    pub(super) pending: Option<&'a Wish>,
}

impl Standing<'_> {
    /// What becomes of a wish, and whether it has to be stored for that.
    pub(super) fn hears(
        &self,
        wish: &Wish,
        end_of: impl FnOnce(&str) -> Option<Status>,
    ) -> (Wished, bool) {
        let Some(head) = self.head else {
            return (Wished::Unknown, false);
        };
        if head.run != wish.run {
            let status = end_of(&wish.run).unwrap_or(Status::Cancelled);
            return (Wished::Over(status), false);
        }
        if head.status == Status::Finished {
            return (Wished::Over(head.status), false);
        }
        if !self.held {
            return (Wished::Free, false);
        }
        let known = self.pending.is_some_and(|pending| pending.covers(wish));
        (Wished::Kept, !known)
    }
}

/// What a write means for a wish that waits.
#[derive(Debug)]
pub(super) struct Heeds {
    run: Text,
    finished: bool,
    fulfils: Option<Wish>,
}

impl Heeds {
    pub(super) fn of(write: &Write) -> Self {
        Self {
            run: write.head.run.clone(),
            finished: write.head.status == Status::Finished,
            fulfils: write.fulfils.clone(),
        }
    }

    /// Whether the wish is gone with the write: it is fulfilled, or its run has ended.
    pub(super) fn ends(&self, wish: &Wish) -> bool {
        self.finished || self.run != wish.run || self.fulfils.as_ref() == Some(wish)
    }
}

/// Gives a thread back, whatever happens.
struct Held<'a, S: CheckpointStore + ?Sized> {
    store: &'a S,
    thread: &'a ThreadId,
    epoch: Epoch,
}

impl<S: CheckpointStore + ?Sized> Drop for Held<'_, S> {
    fn drop(&mut self) {
        self.store.release(self.thread, self.epoch);
    }
}

/// Makes a wish, and where no call holds the thread, does what is wished.
pub(super) async fn ask_to_stop<S: CheckpointStore + ?Sized>(
    store: &S,
    thread: &ThreadId,
    wish: Wish,
) -> Result<Option<Asked>, StoreError> {
    let mut tries = 0;
    loop {
        match store.wish(thread, wish.clone()).await? {
            Wished::Kept => return Ok(Some(Asked::Pending)),
            Wished::Over(status) => return Ok(Some(Asked::AtRest(status))),
            Wished::Unknown => return Ok(None),
            Wished::Free => match stop_here(store, thread, &wish).await {
                // Another call has just taken it.
                Err(StoreError::Busy { .. }) if tries < TRIES => tries += 1,
                told => return told,
            },
        }
        tokio::task::yield_now().await;
    }
}

/// Stops a thread that no call holds.
async fn stop_here<S: CheckpointStore + ?Sized>(
    store: &S,
    thread: &ThreadId,
    wish: &Wish,
) -> Result<Option<Asked>, StoreError> {
    let claim = store.claim(thread, Take::IfFree).await?;
    let held = Held {
        store,
        thread,
        epoch: claim.epoch,
    };
    let Some(head) = claim.head else {
        return Ok(None);
    };
    let run = RunId::new(&wish.run).ok();
    let row = match &run {
        Some(run) => store.run(thread, run).await?,
        None => None,
    };
    if head.run != wish.run {
        let status = row.map_or(Status::Cancelled, |row| row.status);
        return Ok(Some(Asked::AtRest(status)));
    }
    let is_over = matches!(head.status, Status::Finished | Status::Cancelled);
    if is_over || wish.kind == WishKind::Drain {
        return Ok(Some(Asked::AtRest(head.status)));
    }
    let stopped = StoppedRecord {
        step: head.step + 1,
        at_ms: wish.at_ms,
        status: Status::Cancelled,
        error: wish.error(),
        failed: Vec::new(),
    };
    let head = Head {
        status: Status::Cancelled,
        updated_ms: wish.at_ms,
        ..head
    };
    let run = run.zip(row).map(|(run, mut row)| {
        (row.status, row.end) = (Status::Cancelled, None);
        (run, row)
    });
    let write = Write {
        thread: thread.clone(),
        epoch: held.epoch,
        branch: head.branch,
        expected: head.seq,
        first: claim.next,
        records: vec![Record::Stopped(stopped)],
        segments: Vec::new(),
        head,
        run,
        fulfils: claim.wishes.newest(),
    };
    store.append(write).await?;
    Ok(Some(Asked::Stopped))
}
