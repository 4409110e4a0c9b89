//! The writer: one thread through which every change goes.
//!
//! In come jobs of all threads, out go their answers once the disk has the bytes. It takes what
//! waits, asks the guards, puts everything admitted into one batch, flushes, syncs, and answers.
//! It never runs on a worker of the runtime, and nobody else writes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, PoisonError};

use tokio::sync::oneshot;

use super::super::contract::{StoreError, Take};
use super::super::frame::ThreadKey;
use super::super::frame::{FrameHeader, encode_row};
use super::super::guard::{Asks, Standing, owns};
use super::super::kind::FrameKind;
use super::super::retention::{Retain, Retained};
use super::super::split::BlobId;
use super::super::wish::{self, Heeds, Wish, Wished};
use super::blobs::{self, Long};
use super::claims::Claims;
use super::engine::{Batch, Disk, Place, Tree};
use super::keys::Slot;
use super::marker;
use super::read::{THREAD_HINT, View};
use super::upkeep::{self, Upkeep};
use super::vault::Vault;
use crate::ids::{RunId, Seq, ThreadId};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::mpsc::Receiver;
use crate::sync::{Mutex, RwLock, RwLockWriteGuard};

/// A shorter value is not worth rows of its own, whatever is asked for.
const LEAST: usize = 1024;

/// How many sound values are remembered.
const REMEMBERED: usize = 1024;

/// A row of the tree.
pub(super) type Row = (Vec<u8>, Vec<u8>);

/// What everyone shares who has the store open.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) tree: Arc<dyn Tree>,
    pub(super) place: Place,
    pub(super) vault: Vault,
    pub(super) claims: Claims,
    /// Held for reading by those who look at more than one row, for writing while a batch is
    /// admitted and applied: a reader sees all of a batch or nothing, and who claims a thread sees
    /// what was admitted before.
    pub(super) gate: RwLock<()>,
    /// The number of the last batch. Only the writer changes it.
    batch: AtomicU64,
    /// Set once the end of the log is unknown.
    failed: Mutex<Option<StoreError>>,
    /// Values that are longer than this are kept once for all that have them.
    pub(super) over: usize,
    /// Long values that were found sound, as long as they are not many.
    sound: Mutex<HashSet<BlobId>>,
}

impl Shared {
    pub(super) fn new(
        tree: Arc<dyn Tree>,
        place: Place,
        vault: Vault,
        batch: u64,
        over: usize,
    ) -> Self {
        Self {
            tree,
            place,
            vault,
            claims: Claims::default(),
            gate: RwLock::new(()),
            batch: AtomicU64::new(batch),
            failed: Mutex::new(None),
            over: over.max(LEAST),
            sound: Mutex::default(),
        }
    }

    /// Whether a long value is there and sound. One that was damaged is written again with the next
    /// record that has it.
    fn has(&self, id: &BlobId) -> Result<bool, StoreError> {
        let view = self.view();
        if !view.contains(&Slot::blob(id))? {
            return Ok(false);
        }
        let mut sound = self.sound.lock().unwrap_or_else(PoisonError::into_inner);
        if sound.contains(id) {
            return Ok(true);
        }
        let is_sound = blobs::is_sound(view, id);
        if is_sound {
            if sound.len() >= REMEMBERED {
                sound.clear();
            }
            sound.insert(*id);
        }
        Ok(is_sound)
    }

    pub(super) fn view(&self) -> View<'_> {
        View {
            tree: &*self.tree,
            place: &self.place,
            vault: &self.vault,
        }
    }

    /// Nobody reads or claims while it is held.
    fn shut(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a batch with its number, opens the gate, and returns when it is durable and noted.
    fn commit(
        &self,
        disk: &mut dyn Disk,
        shut: RwLockWriteGuard<'_, ()>,
        mut batch: Batch,
    ) -> Result<(), StoreError> {
        let number = self.batch.fetch_add(1, Ordering::Relaxed) + 1;
        batch.insert(marker::KEY.to_vec(), marker::bytes(number));
        disk.write(batch)?;
        drop(shut);
        disk.flush()?;
        disk.sync()?;
        disk.note(number);
        Ok(())
    }

    /// Refuses once the end of the log is unknown.
    pub(super) fn usable(&self) -> Result<(), StoreError> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.clone().map_or(Ok(()), Err)
    }

    /// Remembers the first failure that leaves the end of the log unknown.
    fn fail(&self, error: &StoreError) -> StoreError {
        const UNKNOWN: &str = "what was not acknowledged may or may not be stored, so nothing more \
             is written: open the store again";
        let told = match error {
            StoreError::Io { action, source } => StoreError::Io {
                action: format!("{action} ({UNKNOWN})"),
                source: Arc::clone(source),
            },
            StoreError::Corrupt { place, found, hint } => StoreError::Corrupt {
                place: place.clone(),
                found: format!("{found} ({UNKNOWN})"),
                hint,
            },
            other => other.clone(),
        };
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert(told).clone()
    }
}

/// Where an answer goes.
pub(super) type Reply = oneshot::Sender<Result<(), StoreError>>;

/// Something to write.
#[derive(Debug)]
pub(super) enum Job {
    Append(Append, Reply),
    Upkeep(Upkeep, oneshot::Sender<Result<Retained, StoreError>>),
    Wish(ThreadId, Wish, oneshot::Sender<Result<Wished, StoreError>>),
    /// Nothing: an answer says that all before it is durable.
    Wait(Reply),
}

/// An append, encoded by its caller.
#[derive(Debug)]
pub(super) struct Append {
    pub(super) asks: Asks,
    pub(super) key: ThreadKey,
    /// How the thread stands afterwards.
    pub(super) head: Seq,
    pub(super) next: Seq,
    /// Whether it runs afterwards.
    pub(super) running: bool,
    /// Records, head row, run row.
    pub(super) rows: Vec<Row>,
    /// The name row, for a thread without a log.
    pub(super) name: Vec<Row>,
    /// Segments, each written only if it is not there.
    pub(super) segments: Vec<(Slot, Vec<Row>)>,
    /// Long values, each written only if nobody has it yet.
    pub(super) long: Vec<Long>,
    pub(super) heeds: Heeds,
}

impl Append {
    fn bytes(&self) -> usize {
        let size = |rows: &[Row]| rows.iter().map(|(_, row)| row.len()).sum::<usize>();
        size(&self.rows)
            + self
                .segments
                .iter()
                .map(|(_, rows)| size(rows))
                .sum::<usize>()
            + self.long.iter().map(|long| size(&long.rows)).sum::<usize>()
    }
}

/// Works until every sender is gone.
pub(super) fn work(shared: &Shared, disk: &mut dyn Disk, jobs: &Receiver<Job>) {
    let mut waiting = VecDeque::new();
    while let Some(job) = waiting.pop_front().or_else(|| jobs.recv().ok()) {
        match job {
            Job::Upkeep(what, reply) => {
                let done = shared.place.guarded(|| upkeep(shared, disk, &what));
                // Whoever asked may have gone.
                let _ = reply.send(done);
            }
            Job::Wish(thread, wish, reply) => {
                let done = shared.place.guarded(|| keep(shared, disk, &thread, wish));
                let _ = reply.send(done);
            }
            Job::Wait(reply) => {
                let _ = reply.send(shared.usable());
            }
            Job::Append(first, reply) => {
                let mut bytes = first.bytes();
                let mut appends = vec![(first, reply)];
                while bytes < disk.together()
                    && let Ok(job) = jobs.try_recv()
                {
                    match job {
                        Job::Append(append, reply) => {
                            bytes += append.bytes();
                            appends.push((append, reply));
                        }
                        // What came before it is written first.
                        other => {
                            waiting.push_back(other);
                            break;
                        }
                    }
                }
                write(shared, disk, appends);
            }
        }
    }
}

/// Writes appends of any threads in one batch and answers each.
fn write(shared: &Shared, disk: &mut dyn Disk, appends: Vec<(Append, Reply)>) {
    if let Err(error) = shared.usable() {
        return answer(appends.into_iter().map(|(_, reply)| reply), &Err(error));
    }
    // Both outlive a panic below, so that nobody is left without the answer.
    let mut appends = appends.into_iter();
    let mut admitted: Vec<(Append, Reply)> = Vec::new();
    let done = shared.place.guarded(|| {
        let mut batch = Batch::default();
        let mut seen = Seen::default();
        let shut = shared.shut();
        for next in appends.by_ref() {
            let (append, _) = admitted.push_mut(next);
            if let Err(error) = seen.admit(shared, append, &mut batch)
                && let Some((_, reply)) = admitted.pop()
            {
                let _ = reply.send(Err(error));
            }
        }
        if admitted.is_empty() {
            return Ok(());
        }
        shared.commit(disk, shut, batch)
    });
    if done.is_ok() {
        for (append, _) in &admitted {
            shared
                .claims
                .note(append.key, append.asks.epoch, append.running);
        }
    }
    let told = done.map_err(|error| shared.fail(&error));
    answer(
        admitted.into_iter().chain(appends).map(|(_, reply)| reply),
        &told,
    );
}

fn answer(replies: impl Iterator<Item = Reply>, told: &Result<(), StoreError>) {
    for reply in replies {
        let _ = reply.send(told.clone());
    }
}

/// How threads will stand once the batch is applied.
#[derive(Debug, Default)]
struct Seen {
    standings: HashMap<ThreadKey, Standing>,
    segments: HashSet<Slot>,
    long: HashSet<BlobId>,
}

impl Seen {
    /// Adds an append to the batch, if its thread admits it.
    fn admit(
        &mut self,
        shared: &Shared,
        append: &mut Append,
        batch: &mut Batch,
    ) -> Result<(), StoreError> {
        let view = shared.view();
        let stored = match self.standings.get(&append.key) {
            Some(standing) => *standing,
            None => view
                .head_row(&append.asks.thread)?
                .map_or(Standing::unknown(), |row| Standing {
                    epoch: row.epoch,
                    head: row.head.seq,
                    next: row.next,
                }),
        };
        Standing {
            epoch: shared.claims.current(append.key, stored.epoch),
            ..stored
        }
        .admit(&append.asks)?;
        let mut segments = Vec::new();
        for (slot, rows) in std::mem::take(&mut append.segments) {
            if !self.segments.contains(&slot) && !view.contains(&slot)? {
                self.segments.insert(slot);
                segments.extend(rows);
            }
        }
        let mut rows = std::mem::take(&mut append.rows);
        rows.extend(segments);
        if stored.head.get() == 0 {
            rows.append(&mut append.name);
        }
        for long in std::mem::take(&mut append.long) {
            if self.long.insert(long.id) && !shared.has(&long.id)? {
                rows.extend(long.rows);
            }
            blobs::refer(batch, &long.id, append.key);
        }
        for (key, row) in rows {
            batch.insert(key, row);
        }
        // A damaged one is gone with the next that is made, or with its thread.
        let wish = view.wish(&append.asks.thread).ok().flatten();
        if wish.is_some_and(|wish| append.heeds.ends(&wish)) {
            batch.remove(Slot::wish(append.key).row(0));
        }
        let standing = Standing {
            epoch: append.asks.epoch,
            head: append.head,
            next: append.next,
        };
        self.standings.insert(append.key, standing);
        Ok(())
    }
}

/// Keeps a wish, if somebody is there to heed it, and tells the holder once it is durable.
fn keep(
    shared: &Shared,
    disk: &mut dyn Disk,
    thread: &ThreadId,
    wish: Wish,
) -> Result<Wished, StoreError> {
    shared.usable()?;
    let view = shared.view();
    let key = ThreadKey::of(thread);
    let row = view.head_row(thread)?;
    let pending = view.wish(thread)?;
    let standing = wish::Standing {
        head: row.as_ref().map(|row| &row.head),
        held: shared.claims.is_held(key),
        pending: pending.as_ref(),
    };
    let end_of = |run: &str| {
        let run = view.run(thread, &RunId::new(run).ok()?);
        run.ok().flatten().map(|row| row.status)
    };
    let (told, is_new) = standing.hears(&wish, end_of);
    if is_new {
        let place = || format!("the wish of thread {thread}");
        let slot = Slot::wish(key);
        let rows = encode_row(key, FrameHeader::row(FrameKind::Wish), &wish)
            .and_then(|frame| shared.vault.cut(&slot, frame))
            .map_err(|error| error.at(place(), THREAD_HINT))?;
        let mut batch = Batch::default();
        for (key, row) in rows {
            batch.insert(key, row);
        }
        shared
            .commit(disk, shared.shut(), batch)
            .map_err(|error| shared.fail(&error))?;
        shared.claims.tell(key, wish);
    }
    Ok(told)
}

/// Does one piece of upkeep, with its threads held meanwhile.
fn upkeep(shared: &Shared, disk: &mut dyn Disk, what: &Upkeep) -> Result<Retained, StoreError> {
    shared.usable()?;
    if let Upkeep::Prune(Retain {
        thread,
        holder: Some(epoch),
        ..
    }) = what
    {
        let stored = shared.view().head_row(thread)?;
        let stored = stored.map(|row| row.epoch).unwrap_or_default();
        let current = shared.claims.current(ThreadKey::of(thread), stored);
        owns(thread, *epoch, current)?;
    }
    let mut taken = Vec::new();
    let done = (|| {
        for thread in what.threads() {
            shared.claims.free(thread)?;
            // A damaged head hides its epoch; such a thread can still be deleted.
            let stored = shared.view().head_row(thread).ok().flatten();
            let epoch = stored.map(|row| row.epoch).unwrap_or_default();
            let (epoch, _) = shared.claims.take(thread, epoch, Take::IfFree)?;
            taken.push((thread, epoch));
        }
        let (batch, records) = upkeep::plan(shared.view(), what)?;
        if let Some(batch) = batch {
            let shut = shared.shut();
            // Who has replaced us goes on from what it has read.
            for (thread, epoch) in &taken {
                shared.claims.held_by(thread, *epoch)?;
            }
            shared
                .commit(disk, shut, batch)
                .map_err(|error| shared.fail(&error))?;
        }
        Ok(records)
    })();
    for (thread, epoch) in taken {
        shared.claims.release(thread, epoch);
    }
    done
}
