//! What is saved of a thread whose store was damaged: the newest position that can be read from what
//! is sound, with all that belongs to it.
//!
//! In come the remains of a thread, out goes an archive that holds together, and what is lost. No
//! byte is invented: a record is kept as it was written, or not at all; only the rows beside the log
//! (how the thread stands, how its runs do) are told anew by its records. The old store is not
//! touched.

mod cut;
mod log;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use self::log::Log;
use super::archive::{ThreadArchive, segments_of};
use super::branches::Tree;
use super::contract::{CheckpointStore, Head, StoreError};
use super::finding::Spot;
use super::record::Record;
use super::remains::{Owner, Remains};
use crate::ids::{Branch, RunId, Seq, ThreadId};

/// What was saved of a thread, and what was not.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Salvage {
    /// Whose remains these were.
    pub owner: Owner,
    /// The name that it has in the new store.
    pub thread: ThreadId,
    /// The thread as it is saved; none if nothing of it can be read on its own.
    pub archive: Option<ThreadArchive>,
    /// How the thread stood, where that could be read.
    pub stood: Option<Head>,
    /// What could not be read, and why.
    pub faults: Vec<(Spot, String)>,
    /// The records that could not be read, or are not there.
    pub missing: Vec<RangeInclusive<Seq>>,
    /// Records that can be read and are not kept, since they mean nothing without the missing ones.
    pub dropped: Vec<RangeInclusive<Seq>>,
    /// The branches on which nothing can stand any more.
    pub branches: Vec<Branch>,
    /// The runs of which nothing is kept.
    pub runs: Vec<RunId>,
    /// The segments that were referred to and are not kept.
    pub segments: Vec<[u8; 16]>,
}

impl Salvage {
    /// Decides what is saved. It reads and writes nothing.
    pub fn of(remains: Remains) -> Self {
        let thread = remains.owner.name();
        let mut salvage = Self {
            owner: remains.owner.clone(),
            thread: thread.clone(),
            archive: None,
            stood: remains.head.clone(),
            faults: remains.faults.clone(),
            missing: Vec::new(),
            dropped: Vec::new(),
            branches: Vec::new(),
            runs: Vec::new(),
            segments: Vec::new(),
        };
        salvage.archive = whole(&remains, &thread).or_else(|| cut::newest(&remains, &thread));
        salvage.count(&remains);
        salvage
    }

    /// Whether all of the thread is saved, as it was.
    pub fn is_whole(&self) -> bool {
        self.archive.is_some() && self.faults.is_empty() && self.keeps_all()
    }

    /// Whether no record, branch, run or segment is lost, though something beside them may be.
    pub fn keeps_all(&self) -> bool {
        self.archive.is_some()
            && self.missing.is_empty()
            && self.dropped.is_empty()
            && self.branches.is_empty()
            && self.runs.is_empty()
            && self.segments.is_empty()
    }

    /// Whether there was nothing: no such thread.
    pub fn is_nothing(&self) -> bool {
        self.archive.is_none()
            && self.faults.is_empty()
            && self.missing.is_empty()
            && self.dropped.is_empty()
    }

    /// The last record that is kept.
    pub fn until(&self) -> Option<Seq> {
        let records = &self.archive.as_ref()?.records;
        records.last().map(|stored| stored.seq)
    }

    /// Compares what is kept with what was there.
    fn count(&mut self, remains: &Remains) {
        let kept = self.archive.as_ref();
        let has: BTreeSet<u64> = kept.map_or_else(BTreeSet::new, |archive| {
            let records = archive.records.iter();
            records.map(|stored| stored.seq.get()).collect()
        });
        let read: BTreeSet<u64> = remains.records.iter().map(|one| one.seq.get()).collect();
        let mut missing: BTreeSet<u64> = match &remains.missing {
            Some(missing) => missing.iter().map(|seq| seq.get()).collect(),
            None => {
                let faults = remains.faults.iter();
                let records = faults.filter_map(|(place, _)| match place {
                    Spot::Record(seq) => Some(seq.get()),
                    _ => None,
                });
                records.collect()
            }
        };
        // The head names some, too.
        if let Some(head) = &remains.head {
            let named = [head.seq, head.base, head.schema].map(Seq::get);
            missing.extend(named.into_iter().filter(|seq| !read.contains(seq)));
        }
        self.missing = ranges(missing);
        self.dropped = ranges(read.iter().copied().filter(|seq| !has.contains(seq)));
        let tree = |records: &[super::Stored]| {
            let mut tree = Tree::default();
            records.iter().for_each(|stored| tree.see(stored));
            tree
        };
        let old = tree(&remains.records);
        let new = tree(kept.map_or(&[], |archive| &archive.records));
        let stands = |branch| {
            let tip = new.tip(branch);
            tip.is_some_and(|tip| new.places.contains_key(&tip.at))
        };
        let branches = old.tips().map(|(branch, _)| branch);
        self.branches = branches.filter(|branch| !stands(*branch)).collect();
        let runs = remains
            .records
            .iter()
            .filter_map(|stored| match &*stored.record {
                Record::Input(input) => RunId::new(&input.run).ok(),
                _ => None,
            });
        let runs: BTreeSet<RunId> = runs
            .chain(remains.runs.iter().map(|(run, _)| run.clone()))
            .collect();
        let keeps =
            |run: &RunId| kept.is_some_and(|kept| kept.runs.iter().any(|(id, _)| id == run));
        self.runs = runs.into_iter().filter(|run| !keeps(run)).collect();
        let segments = segments_of(&remains.records).into_iter();
        let keeps = |id: &[u8; 16]| {
            kept.is_some_and(|kept| kept.segments.iter().any(|(kept, _)| kept == id))
        };
        self.segments = segments.filter(|id| !keeps(id)).collect();
    }
}

/// Reads what is left of a thread, puts what is sound of it into another store, and reads it there
/// again. Returns what was saved; [`Salvage::archive`] is none where nothing was.
///
/// # Errors
/// [`StoreError::Exists`] if the other store has a thread of that name; what is no damage; and
/// [`StoreError::Corrupt`] if the new store gives back something else than it was given.
pub async fn salvage(
    from: &dyn CheckpointStore,
    to: &dyn CheckpointStore,
    owner: &Owner,
) -> Result<Salvage, StoreError> {
    let salvage = Salvage::of(from.remains(owner).await?);
    if let Some(archive) = &salvage.archive {
        to.restore(archive.clone()).await?;
        let stored = ThreadArchive::read(to, &archive.thread).await?;
        if stored.as_ref() != Some(archive) {
            return Err(StoreError::Corrupt {
                place: format!("thread {} in the new store", archive.thread),
                found: "it is not what was just written".to_owned(),
                hint: "The disk of the new store cannot be trusted. Repair into another place",
            });
        }
    }
    Ok(salvage)
}

/// The thread as it is, if nothing of it is damaged.
fn whole(remains: &Remains, thread: &ThreadId) -> Option<ThreadArchive> {
    let last = remains.records.last()?;
    let is_sound =
        remains.faults.is_empty() && remains.missing.as_ref().is_some_and(BTreeSet::is_empty);
    let archive = ThreadArchive {
        thread: thread.clone(),
        head: remains.head.clone().filter(|_| is_sound)?,
        next: last.seq.next(),
        epoch: last.epoch,
        runs: remains.runs.clone(),
        records: remains.records.clone(),
        segments: Log::segments(remains, &remains.records)?,
    };
    archive.check().is_ok().then_some(archive)
}

/// Runs of seqs without a gap.
fn ranges(seqs: impl IntoIterator<Item = u64>) -> Vec<RangeInclusive<Seq>> {
    let mut ranges: Vec<RangeInclusive<Seq>> = Vec::new();
    for seq in seqs.into_iter().map(Seq::new) {
        match ranges.last_mut() {
            Some(last) if last.end().next() == seq => *last = *last.start()..=seq,
            _ => ranges.push(seq..=seq),
        }
    }
    ranges
}

/// What a segment's id stands for.
type Segments = Vec<([u8; 16], Arc<[u8]>)>;
