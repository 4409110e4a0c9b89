//! The records of which everything that they refer to can be read.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::archive::segments_of;
use super::super::contract::Stored;
use super::super::record::{BaseValue, OutcomeRef, Record};
use super::super::remains::Remains;
use super::Segments;
use crate::ids::Seq;

/// What can be used of a log.
pub(super) struct Log {
    pub(super) records: Vec<Stored>,
    /// Stretches without a gap: first and last seq.
    stretches: Vec<(u64, u64)>,
    /// Where records are missing that were there, or may have been.
    holes: Vec<(u64, u64)>,
}

impl Log {
    /// Leaves out what refers to something that is not there, and what refers to that.
    pub(super) fn of(remains: &Remains) -> Self {
        let lengths: HashMap<[u8; 16], usize> = remains
            .segments
            .iter()
            .map(|(id, bytes)| (*id, bytes.len()))
            .collect();
        let mut usable: BTreeMap<u64, &Stored> = BTreeMap::new();
        for stored in &remains.records {
            let has = |seq: &u64| usable.contains_key(seq);
            let is_usable = match &*stored.record {
                Record::Base(base) => {
                    let sealed = base.fields.iter().flat_map(|field| match &field.value {
                        BaseValue::Whole(_) => &[][..],
                        BaseValue::Items { sealed, .. } => &sealed[..],
                    });
                    let mut sealed = sealed;
                    has(&base.at)
                        && sealed.all(|one| lengths.get(&one.id) == Some(&(one.bytes as usize)))
                }
                record => needs(record).iter().all(has),
            };
            if is_usable && stored.seq.get() > 0 {
                usable.entry(stored.seq.get()).or_insert(stored);
            }
        }
        let stretches = stretches_of(usable.keys().copied());
        let holes = match &remains.missing {
            Some(missing) => {
                let read = remains.records.iter().map(|stored| stored.seq);
                let all: BTreeSet<u64> =
                    read.chain(missing.iter().copied()).map(Seq::get).collect();
                stretches_of(all.into_iter().filter(|seq| !usable.contains_key(seq)))
            }
            // What a prune has dropped cannot be told from what is lost.
            None => stretches
                .windows(2)
                .map(|pair| (pair[0].1 + 1, pair[1].0 - 1))
                .collect(),
        };
        Self {
            records: usable.into_values().cloned().collect(),
            stretches,
            holes,
        }
    }

    /// The records up to one.
    pub(super) fn up_to(&self, end: u64) -> &[Stored] {
        let until = self
            .records
            .partition_point(|stored| stored.seq.get() <= end);
        &self.records[..until]
    }

    /// The record with this seq.
    pub(super) fn get(&self, seq: u64) -> Option<&Stored> {
        let place = self
            .records
            .binary_search_by_key(&seq, |stored| stored.seq.get());
        Some(&self.records[place.ok()?])
    }

    /// The first and the last seq of the stretch that a record is of.
    pub(super) fn stretch(&self, seq: u64) -> Option<(u64, u64)> {
        let mut stretches = self.stretches.iter().copied();
        stretches.find(|(first, last)| (*first..=*last).contains(&seq))
    }

    /// The stretches, the newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.stretches.iter().rev().copied()
    }

    /// How many records are missing between two, at most, without one that can be used between them.
    pub(super) fn widest_hole(&self, from: u64, to: u64) -> u64 {
        let holes = self.holes.iter();
        let between = holes.filter(|(first, last)| *first > from && *last < to);
        between
            .map(|(first, last)| last - first + 1)
            .max()
            .unwrap_or(0)
    }

    /// The segments that records refer to, in the order in which they do; none if one is missing.
    pub(super) fn segments(remains: &Remains, records: &[Stored]) -> Option<Segments> {
        let known: HashMap<_, _> = remains.segments.iter().cloned().collect();
        segments_of(records)
            .into_iter()
            .map(|id| Some((id, known.get(&id)?.clone())))
            .collect()
    }
}

/// The older records that a record needs, its position's base aside.
pub(super) fn needs(record: &Record) -> Vec<u64> {
    match record {
        Record::Input(input) => input.closed.clone(),
        Record::Commit(commit) => {
            let at = commit.outcomes.iter().filter_map(|outcome| match outcome {
                OutcomeRef::At(seq) => Some(*seq),
                OutcomeRef::Inline(_) => None,
            });
            at.chain(commit.timers.iter().copied()).collect()
        }
        Record::Base(base) => vec![base.at],
        Record::Answer(answer) => vec![answer.question],
        Record::Discarded(discarded) => discarded.outcomes.clone(),
        _ => Vec::new(),
    }
}

/// Stretches of seqs without a gap.
fn stretches_of(seqs: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut stretches: Vec<(u64, u64)> = Vec::new();
    for seq in seqs {
        match stretches.last_mut() {
            Some((_, last)) if *last + 1 == seq => *last = seq,
            _ => stretches.push((seq, seq)),
        }
    }
    stretches
}
