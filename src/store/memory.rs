//! A store in memory, for tests and for runs that need not outlive their process.
//!
//! In come records, out go the same records, never encoded: an append is a lock and a push. It
//! keeps every promise of a store but one: nothing survives the process.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::archive::{Extent, SegmentSize, ThreadArchive, start};
use super::contract::{CheckpointStore, Claim, Head, RunRow, StoreError, Stored, Take, Write};
use super::guard::{Asks, Standing, after, owns, sound};
use super::retain::Survey;
use super::retention::{Retain, Retained};
use super::wish::{self, Heeds, Wish, WishSender, Wished, Wishes};
use crate::ids::{Epoch, RunId, Seq, ThreadId};

/// Keeps threads in this process. Clones share what they keep.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    threads: Arc<Mutex<BTreeMap<ThreadId, Log>>>,
}

/// One thread. It stays, without a head, after its log was deleted, so that a writer from before
/// is still fenced off.
#[derive(Debug, Default)]
struct Log {
    epoch: Epoch,
    held: bool,
    head: Option<Head>,
    /// The seq of the last record; 0 if there is none.
    last: Seq,
    records: Vec<Stored>,
    segments: HashMap<[u8; 16], Arc<[u8]>>,
    runs: HashMap<RunId, RunRow>,
    wish: Option<Wish>,
    /// The way to the holder.
    wishes: Option<WishSender>,
}

impl Log {
    fn standing(&self) -> Standing {
        Standing {
            epoch: self.epoch,
            head: self.head.as_ref().map(|head| head.seq).unwrap_or_default(),
            next: self.last.next(),
        }
    }

    /// Raises the epoch for a change that is no write, so that late writers are fenced off.
    fn seize(&mut self, thread: &ThreadId) -> Result<(), StoreError> {
        if self.held {
            return Err(StoreError::Busy {
                thread: thread.clone(),
            });
        }
        self.epoch = self.epoch.next();
        Ok(())
    }
}

impl MemoryStore {
    /// Makes an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ThreadId, Log>> {
        // No change below can panic halfway, so a poisoned lock guards a sound map.
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl CheckpointStore for MemoryStore {
    async fn claim(&self, thread: &ThreadId, how: Take) -> Result<Claim, StoreError> {
        let mut threads = self.lock();
        let log = threads.entry(thread.clone()).or_default();
        if log.held && how == Take::IfFree {
            return Err(StoreError::Busy {
                thread: thread.clone(),
            });
        }
        log.held = true;
        log.epoch = log.epoch.next();
        let (sender, wishes) = Wishes::new(log.wish.clone());
        log.wishes = Some(sender);
        Ok(Claim {
            wishes,
            epoch: log.epoch,
            head: log.head.clone(),
            next: log.last.next(),
            // What is in memory has not outlived its holder's process.
            given_back: true,
        })
    }

    fn release(&self, thread: &ThreadId, epoch: Epoch) {
        if let Some(log) = self.lock().get_mut(thread)
            && log.epoch == epoch
        {
            log.held = false;
            log.wishes = None;
        }
    }

    async fn append(&self, write: Write) -> Result<(), StoreError> {
        sound(&write)?;
        let next = after(&write);
        let mut threads = self.lock();
        let Some(log) = threads.get_mut(&write.thread) else {
            return Standing::unknown().admit(&Asks::of(&write));
        };
        log.standing().admits(&write)?;
        if log.wish.is_some() {
            let heeds = Heeds::of(&write);
            log.wish.take_if(|wish| heeds.ends(wish));
        }
        let mut seq = write.first;
        for record in write.records {
            log.records.push(Stored {
                seq,
                branch: write.branch,
                epoch: write.epoch,
                record: Arc::new(record),
            });
            seq = seq.next();
        }
        for (id, bytes) in write.segments {
            log.segments.entry(id).or_insert_with(|| bytes.into());
        }
        if let Some((run, row)) = write.run {
            log.runs.insert(run, row);
        }
        log.head = Some(write.head);
        log.last = Seq::new(next.get() - 1);
        Ok(())
    }

    fn identity(&self) -> usize {
        Arc::as_ptr(&self.threads).addr()
    }

    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError> {
        Ok(self.lock().get(thread).and_then(|log| log.head.clone()))
    }

    async fn records(
        &self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        let threads = self.lock();
        let Some(log) = threads.get(thread) else {
            return Ok(Vec::new());
        };
        let begin = log.records.partition_point(|stored| stored.seq < from);
        Ok(log.records[begin..].iter().take(limit).cloned().collect())
    }

    async fn segments(
        &self,
        thread: &ThreadId,
        ids: &[[u8; 16]],
    ) -> Result<Vec<Arc<[u8]>>, StoreError> {
        let threads = self.lock();
        let log = threads.get(thread);
        ids.iter()
            .map(|id| {
                log.and_then(|log| log.segments.get(id).cloned())
                    .ok_or_else(|| StoreError::Corrupt {
                        place: format!("segment {} of thread {thread}", hex(id)),
                        found: "it is not there".to_owned(),
                        hint: "Read a base that the log still has",
                    })
            })
            .collect()
    }

    async fn run(&self, thread: &ThreadId, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        Ok(self
            .lock()
            .get(thread)
            .and_then(|log| log.runs.get(run).cloned()))
    }

    async fn threads(
        &self,
        after: Option<&ThreadId>,
        limit: usize,
    ) -> Result<Vec<(ThreadId, Head)>, StoreError> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self
            .lock()
            .range::<ThreadId, _>((begin, Bound::Unbounded))
            .filter_map(|(thread, log)| Some((thread.clone(), log.head.clone()?)))
            .take(limit)
            .collect())
    }

    async fn extent(&self, thread: &ThreadId) -> Result<Option<Extent>, StoreError> {
        let threads = self.lock();
        let Some((log, head)) = threads
            .get(thread)
            .and_then(|log| Some((log, log.head.clone()?)))
        else {
            return Ok(None);
        };
        let (floor, older) = start(&log.records);
        let mut runs: Vec<_> = log
            .runs
            .iter()
            .map(|(id, row)| (id.clone(), row.clone()))
            .collect();
        Extent::sort(&mut runs);
        let mut segments: Vec<_> = log
            .segments
            .iter()
            .map(|(id, bytes)| SegmentSize {
                id: *id,
                bytes: bytes.len() as u64,
            })
            .collect();
        segments.sort_by_key(|segment| segment.id);
        Ok(Some(Extent {
            head,
            next: log.last.next(),
            // The log's own epoch is that of the newest claim, which may not have written.
            epoch: log
                .records
                .last()
                .map(|last| last.epoch)
                .unwrap_or_default(),
            floor,
            older,
            runs,
            segments,
        }))
    }

    async fn wish(&self, thread: &ThreadId, wish: Wish) -> Result<Wished, StoreError> {
        wish.check(thread)?;
        let mut threads = self.lock();
        let Some(log) = threads.get_mut(thread) else {
            return Ok(Wished::Unknown);
        };
        let standing = wish::Standing {
            head: log.head.as_ref(),
            held: log.held,
            pending: log.wish.as_ref(),
        };
        let end_of = |run: &str| {
            let run = RunId::new(run).ok()?;
            log.runs.get(&run).map(|row| row.status)
        };
        let (told, is_new) = standing.hears(&wish, end_of);
        if is_new {
            log.wish = Some(wish.clone());
            if let Some(wishes) = &log.wishes {
                wishes.tell(wish);
            }
        }
        Ok(told)
    }

    async fn wished(&self, thread: &ThreadId) -> Result<Option<Wish>, StoreError> {
        Ok(self.lock().get(thread).and_then(|log| log.wish.clone()))
    }

    async fn restore(&self, archive: ThreadArchive) -> Result<(), StoreError> {
        archive.check()?;
        let thread = archive.thread;
        let mut threads = self.lock();
        let log = threads.entry(thread.clone()).or_default();
        log.seize(&thread)?;
        if log.head.is_some() {
            return Err(StoreError::Exists { thread });
        }
        *log = Log {
            epoch: log.epoch.max(archive.epoch),
            held: false,
            head: Some(archive.head),
            last: Seq::new(archive.next.get() - 1),
            records: archive.records,
            segments: archive.segments.into_iter().collect(),
            runs: archive.runs.into_iter().collect(),
            wish: None,
            wishes: None,
        };
        Ok(())
    }

    async fn delete_thread(&self, thread: &ThreadId) -> Result<(), StoreError> {
        let mut threads = self.lock();
        let Some(log) = threads.get_mut(thread) else {
            return Ok(());
        };
        log.seize(thread)?;
        *log = Log {
            epoch: log.epoch,
            ..Log::default()
        };
        Ok(())
    }

    async fn copy_thread(&self, from: &ThreadId, to: &ThreadId) -> Result<(), StoreError> {
        let mut threads = self.lock();
        let Some(source) = threads.get(from).filter(|log| log.head.is_some()) else {
            return Ok(());
        };
        if source.held {
            return Err(StoreError::Busy {
                thread: from.clone(),
            });
        }
        let copy = Log {
            epoch: source.epoch,
            held: false,
            head: source.head.clone(),
            last: source.last,
            records: source.records.clone(),
            segments: source.segments.clone(),
            runs: source.runs.clone(),
            wish: None,
            wishes: None,
        };
        let target = threads.entry(to.clone()).or_default();
        if target.head.is_some() {
            return Err(StoreError::Exists { thread: to.clone() });
        }
        target.seize(to)?;
        *target = Log {
            epoch: target.epoch.max(copy.epoch),
            ..copy
        };
        Ok(())
    }

    async fn retain(&self, what: Retain) -> Result<Retained, StoreError> {
        let thread = &what.thread;
        let mut threads = self.lock();
        let Some(log) = threads.get_mut(thread) else {
            return Ok(Retained::default());
        };
        match what.holder {
            Some(epoch) => owns(thread, epoch, log.epoch)?,
            None => log.seize(thread)?,
        }
        let Some(head) = &log.head else {
            return Ok(Retained::default());
        };
        let mut survey = Survey::new(head);
        log.records.iter().for_each(|stored| survey.see(stored));
        let Some(kept) = survey.finish(&what.retention, what.now_ms) else {
            return Ok(Retained {
                dropped: 0,
                kept: log.records.len() as u64,
            });
        };
        log.records.retain(|stored| kept.has(stored.seq.get()));
        log.segments.retain(|id, _| kept.segments.contains(id));
        Ok(kept.records)
    }
}

/// Bytes as text for people.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
