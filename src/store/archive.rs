//! A whole thread as one value, on its way from one store to another.
//!
//! In comes a thread of any store, out goes everything that another store needs to have it too.
//! Nothing is interpreted: the records are the same, with their seqs, branches and epochs.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::contract::{CheckpointStore, Head, RunRow, StoreError, Stored};
use super::record::{BaseValue, Record};
use super::rules::Rules;
use crate::ids::{Epoch, RunId, Seq, ThreadId};

/// How many records are read at once.
const PAGE: usize = 256;

/// What a thread has, without its records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// How it stands.
    pub head: Head,
    /// The seq that its next record gets.
    pub next: Seq,
    /// The epoch of its last write.
    pub epoch: Epoch,
    /// From here on its log is whole; 1 where it was never pruned.
    pub floor: Seq,
    /// The older records that a prune has kept, in order.
    pub older: Vec<Seq>,
    /// Its runs, in the order of their inputs.
    pub runs: Vec<(RunId, RunRow)>,
    /// Its segments, in the order of their ids.
    pub segments: Vec<SegmentSize>,
}

/// How long a segment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentSize {
    /// Its id.
    #[serde(with = "super::bytes::short")]
    pub id: [u8; 16],
    /// How many bytes it has.
    pub bytes: u64,
}

impl Extent {
    /// The seqs of its records, in order.
    pub fn seqs(&self) -> impl Iterator<Item = Seq> + '_ {
        let whole = (self.floor.get()..self.next.get()).map(Seq::new);
        self.older.iter().copied().chain(whole)
    }

    /// Puts runs in the order in which they are listed.
    pub(super) fn sort(runs: &mut [(RunId, RunRow)]) {
        runs.sort_by(|one, other| place(one).cmp(&place(other)));
    }
}

/// The place of a run among those of its thread.
fn place((id, row): &(RunId, RunRow)) -> (Seq, &RunId) {
    (row.input, id)
}

/// A whole thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadArchive {
    /// Its id.
    pub thread: ThreadId,
    /// How it stands.
    pub head: Head,
    /// The seq that its next record gets.
    pub next: Seq,
    /// The epoch of its last write.
    pub epoch: Epoch,
    /// Its runs, in the order of their inputs.
    pub runs: Vec<(RunId, RunRow)>,
    /// Its records in order. Those that a prune has dropped are not there.
    pub records: Vec<Stored>,
    /// The segments that its bases refer to, in the order in which they do.
    pub segments: Vec<([u8; 16], Arc<[u8]>)>,
}

impl ThreadArchive {
    /// Reads a thread as it stands; none if there is none. What nothing refers to is left out.
    ///
    /// # Errors
    /// As reading its parts gives them.
    pub async fn read(
        store: &dyn CheckpointStore,
        thread: &ThreadId,
    ) -> Result<Option<Self>, StoreError> {
        let Some(extent) = store.extent(thread).await? else {
            return Ok(None);
        };
        let mut records = Vec::new();
        let mut from = Seq::new(1);
        while from < extent.next {
            let mut page = store.records(thread, from, PAGE).await?;
            page.retain(|stored| stored.seq < extent.next);
            let Some(last) = page.last() else { break };
            from = last.seq.next();
            records.append(&mut page);
        }
        let ids = segments_of(&records);
        let segments = store.segments(thread, &ids).await?;
        Ok(Some(Self {
            thread: thread.clone(),
            head: extent.head,
            next: extent.next,
            epoch: extent.epoch,
            runs: extent.runs,
            records,
            segments: ids.into_iter().zip(segments).collect(),
        }))
    }

    /// Whether it holds together: everything that something in it refers to is there.
    ///
    /// # Errors
    /// [`StoreError::Unsound`] with the first thing that is wrong.
    pub fn check(&self) -> Result<(), StoreError> {
        let mut rules = Rules::new(&self.thread, &self.head);
        rules.extent(self.next, self.epoch, &self.runs);
        for (id, bytes) in &self.segments {
            rules.segment(*id, bytes);
        }
        for stored in &self.records {
            rules.see(stored);
        }
        let unsound = |found: String| {
            Err(StoreError::Unsound {
                thread: self.thread.clone(),
                found,
            })
        };
        if let Some(found) = rules.finish().into_iter().find(|found| found.is_error()) {
            return unsound(format!("{}: {}", found.place, found.what));
        }
        if !self.runs.is_sorted_by_key(place) {
            return unsound("its runs are not in the order of their inputs".to_owned());
        }
        let ids = self.segments.iter().map(|(id, _)| *id);
        if !ids.eq(segments_of(&self.records)) {
            let what = "its segments are not in the order in which its bases refer to them";
            return unsound(what.to_owned());
        }
        Ok(())
    }
}

/// The ids of the segments that records refer to, each once, in the order in which they do.
pub(super) fn segments_of(records: &[Stored]) -> Vec<[u8; 16]> {
    let mut seen = HashSet::new();
    let mut ids = Vec::new();
    for stored in records {
        let Record::Base(base) = &*stored.record else {
            continue;
        };
        for field in &base.fields {
            if let BaseValue::Items { sealed, .. } = &field.value {
                let new = sealed
                    .iter()
                    .map(|one| one.id)
                    .filter(|id| seen.insert(*id));
                ids.extend(new);
            }
        }
    }
    ids
}

/// From where on records follow one another without a gap, and the seqs of those before.
pub(super) fn start(records: &[Stored]) -> (Seq, Vec<Seq>) {
    let gap = records
        .windows(2)
        .rposition(|pair| pair[0].seq.next() != pair[1].seq);
    let whole = gap.map_or(0, |place| place + 1);
    let floor = records.get(whole).map_or(Seq::new(1), |stored| stored.seq);
    let older = records[..whole].iter().map(|stored| stored.seq);
    (floor, older.collect())
}
