//! What stays of a log under a policy.
//!
//! In come the head and all records of a log in order, out goes the first record of what stays
//! whole, the older records that are still needed, and the segments that are still referred to.
//! It reads and decides; the stores delete.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::branches::Tree;
use super::contract::{Head, Stored};
use super::record::{BaseValue, OutcomeRef, Record};
use super::retention::{Retained, Retention};
use crate::ids::{Branch, Seq};

/// Looks at a log, record by record, and then says what to keep.
#[derive(Debug)]
pub(crate) struct Survey {
    head: Head,
    tree: Tree,
    /// Every record, with its branch.
    records: Vec<(u64, Branch)>,
    /// When each position was written.
    times: BTreeMap<Seq, u64>,
    schemas: Vec<u64>,
    /// Of each base the position that it is the state of, and its segments.
    bases: BTreeMap<u64, (u64, Vec<[u8; 16]>)>,
    /// Which older records a record needs.
    needs: BTreeMap<u64, Vec<u64>>,
    /// Records without an end: open questions, compensations.
    pending: BTreeSet<u64>,
    /// Where branches begin.
    begun: Vec<u64>,
}

/// What stays of a log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Everything from here on stays.
    pub(crate) floor: u64,
    /// These older records stay.
    pub(crate) older: BTreeSet<u64>,
    /// These segments stay.
    pub(crate) segments: HashSet<[u8; 16]>,
    /// How many records stay, and how many do not.
    pub(crate) records: Retained,
}

impl Survey {
    /// Begins with how the thread stands.
    pub(crate) fn new(head: &Head) -> Self {
        Self {
            head: head.clone(),
            tree: Tree::default(),
            records: Vec::new(),
            times: BTreeMap::new(),
            schemas: Vec::new(),
            bases: BTreeMap::new(),
            needs: BTreeMap::new(),
            pending: BTreeSet::new(),
            begun: Vec::new(),
        }
    }

    /// Looks at the next record.
    pub(crate) fn see(&mut self, stored: &Stored) {
        let seq = stored.seq.get();
        self.tree.see(stored);
        self.records.push((seq, stored.branch));
        match &*stored.record {
            Record::Schema(_) => self.schemas.push(seq),
            Record::Input(input) => {
                self.times.insert(stored.seq, input.at_ms);
                self.needs.insert(seq, input.closed.clone());
            }
            Record::Commit(commit) => {
                self.times.insert(stored.seq, commit.at_ms);
                let mut needs = commit.timers.clone();
                needs.extend(commit.outcomes.iter().filter_map(|outcome| match outcome {
                    OutcomeRef::Inline(_) => None,
                    OutcomeRef::At(seq) => Some(*seq),
                }));
                self.needs.insert(seq, needs);
            }
            Record::Base(base) => {
                let sealed = base.fields.iter().flat_map(|field| match &field.value {
                    BaseValue::Whole(_) => &[][..],
                    BaseValue::Items { sealed, .. } => &sealed[..],
                });
                let segments = sealed.map(|one| one.id).collect();
                self.bases.insert(seq, (base.at, segments));
            }
            Record::Question(_) | Record::Compensation(_) => {
                self.pending.insert(seq);
            }
            Record::Answer(answer) => {
                self.pending.remove(&answer.question);
                self.needs.insert(seq, vec![answer.question]);
            }
            Record::Branch(_) => self.begun.push(seq),
            Record::Started(_)
            | Record::Outcome(_)
            | Record::Stopped(_)
            | Record::Step(_)
            | Record::Begun(_)
            | Record::Timer(_)
            | Record::Inner(_)
            | Record::Discarded(_) => {}
        }
    }

    /// What to keep; none if everything has to stay.
    pub(crate) fn finish(self, retention: &Retention, now_ms: u64) -> Option<Kept> {
        self.bases.get(&self.head.base.get())?;
        let floors = match retention.keeps_all() {
            true => BTreeMap::new(),
            false => self.floors(retention, now_ms)?,
        };
        // What is kept belongs to runs that began before.
        let mut open = vec![self.head.schema.get()];
        let tips = self.tree.tips().map(|(_, tip)| tip.at);
        let begins = tips.chain(floors.values().map(|floor| Seq::new(*floor)));
        let begins = begins.filter_map(|at| self.tree.input_of(at));
        open.extend(begins.map(|(input, _)| input.get()));
        let whole = |seq: u64, branch: Branch| floors.get(&branch).is_none_or(|at| seq >= *at);
        let stays: BTreeSet<u64> = self
            .records
            .iter()
            .filter(|(seq, branch)| whole(*seq, *branch))
            .map(|(seq, _)| *seq)
            .collect();
        open.extend(self.needs.iter().flat_map(|(seq, old)| {
            let old = stays.contains(seq).then_some(old);
            old.into_iter().flatten().copied()
        }));
        open.extend(self.pending.iter().chain(&self.begun).copied());
        let mut older = BTreeSet::new();
        while let Some(seq) = open.pop() {
            if seq > 0 && !stays.contains(&seq) && older.insert(seq) {
                open.extend(self.needs.get(&seq).into_iter().flatten().copied());
            }
        }
        // Every kept record was written under a schema; without it its bytes mean nothing.
        let written: Vec<u64> = older.iter().copied().chain(floors.into_values()).collect();
        let schemas = written.into_iter().filter_map(|seq| self.schema_of(seq));
        older.extend(schemas.filter(|schema| !stays.contains(schema)));
        let kept = |seq: u64| stays.contains(&seq) || older.contains(&seq);
        let segments = self.bases.iter().filter(|(seq, _)| kept(**seq));
        let segments = segments.flat_map(|(_, (_, ids))| ids.iter().copied());
        let segments = segments.collect();
        let mut floor = self.records.last()?.0 + 1;
        for (seq, _) in self.records.iter().rev() {
            if *seq + 1 != floor || !kept(*seq) {
                break;
            }
            floor = *seq;
        }
        older.extend(stays);
        // A damaged log may refer to records that it has not.
        let stays = |(seq, _): &&(u64, Branch)| older.contains(seq);
        let records = self.records.iter().filter(stays).count() as u64;
        let dropped = self.records.len() as u64 - records;
        older.retain(|seq| *seq < floor);
        Some(Kept {
            floor,
            older,
            segments,
            records: Retained {
                dropped,
                kept: records,
            },
        })
    }

    /// From where on each branch stays whole: the oldest position from which one is read that has to
    /// stay. A branch that only begins stands on a position of another one.
    fn floors(&self, retention: &Retention, now_ms: u64) -> Option<BTreeMap<Branch, u64>> {
        let mut floors: BTreeMap<Branch, u64> = BTreeMap::new();
        let mut keep = |at: Seq| {
            let place = self.tree.places.get(&at)?;
            let (floor, _) = self.bases.get(&place.base.get())?;
            let lowest = floors.entry(place.branch).or_insert(*floor);
            *lowest = (*lowest).min(*floor);
            Some(())
        };
        let mut own: BTreeMap<Branch, Vec<Seq>> = BTreeMap::new();
        for (seq, place) in &self.tree.places {
            own.entry(place.branch).or_default().push(*seq);
        }
        for (branch, tip) in self.tree.tips() {
            // Without its base, a head cannot be read, and nothing is known of what it needs.
            keep(tip.at)?;
            let line = self.tree.branches.line(branch, tip.at);
            let line = line.parts().flat_map(|(branch, until)| {
                let own = own.get(&branch).map_or(&[][..], Vec::as_slice);
                own[..own.partition_point(|seq| *seq <= until)].iter().rev()
            });
            // Of others, what an earlier prune has left cannot be read, and need not be kept.
            line.skip(1).take(retention.newest() - 1).for_each(|at| {
                keep(*at);
            });
        }
        if retention.is_selective() {
            for (at, at_ms) in &self.times {
                if retention.asks_for(*at, *at_ms, now_ms) {
                    keep(*at);
                }
            }
        }
        Some(floors)
    }

    /// The schema that a record was written under.
    fn schema_of(&self, seq: u64) -> Option<u64> {
        let place = |seq: &u64| self.records.binary_search_by_key(seq, |(seq, _)| *seq);
        let branch = self.records[place(&seq).ok()?].1;
        let line = self.tree.branches.line(branch, Seq::new(seq));
        let schemas = self.schemas.iter().rev().copied();
        let mut of_line = schemas.filter(|schema| {
            place(schema).is_ok_and(|at| line.has(self.records[at].1, Seq::new(*schema)))
        });
        of_line.next()
    }
}

impl Kept {
    /// Whether a record stays.
    pub(crate) fn has(&self, seq: u64) -> bool {
        seq >= self.floor || self.older.contains(&seq)
    }
}
