//! What a prune keeps.
//!
//! In come the head and all records of a log in order, out goes the first record of what stays
//! whole, the older records that are still needed, and the segments that are still referred to.
//! It reads and decides; the stores delete.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::contract::{Head, Stored};
use super::record::{BaseValue, OutcomeRef, Record};

/// Looks at a log, record by record, and then says what to keep.
#[derive(Debug)]
pub(crate) struct Survey {
    base: u64,
    run: String,
    schema: u64,
    /// The position that the newest base is the state of.
    floor: Option<u64>,
    branched: bool,
    input: Option<u64>,
    schemas: Vec<u64>,
    /// Which older records a record needs.
    needs: BTreeMap<u64, Vec<u64>>,
    /// Records without an end: open questions, compensations.
    pending: BTreeSet<u64>,
    segments: Vec<(u64, Vec<[u8; 16]>)>,
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
}

impl Survey {
    /// Begins with how the thread stands.
    pub(crate) fn new(head: &Head) -> Self {
        Self {
            base: head.base.get(),
            run: head.run.clone(),
            schema: head.schema.get(),
            floor: None,
            branched: head.branch.get() != 0,
            input: None,
            schemas: Vec::new(),
            needs: BTreeMap::new(),
            pending: BTreeSet::new(),
            segments: Vec::new(),
        }
    }

    /// Looks at the next record.
    pub(crate) fn see(&mut self, stored: &Stored) {
        let seq = stored.seq.get();
        self.branched |= stored.branch.get() != 0;
        match &*stored.record {
            Record::Schema(_) => self.schemas.push(seq),
            Record::Input(input) => {
                if input.run == self.run {
                    self.input = Some(seq);
                }
                self.needs.insert(seq, input.closed.clone());
            }
            Record::Commit(commit) => {
                let mut needs = commit.timers.clone();
                needs.extend(commit.outcomes.iter().filter_map(|outcome| match outcome {
                    OutcomeRef::Inline(_) => None,
                    OutcomeRef::At(seq) => Some(*seq),
                }));
                self.needs.insert(seq, needs);
            }
            Record::Base(base) => {
                if seq == self.base {
                    self.floor = Some(base.at);
                }
                let sealed = base.fields.iter().flat_map(|field| match &field.value {
                    BaseValue::Whole(_) => &[][..],
                    BaseValue::Items { sealed, .. } => &sealed[..],
                });
                self.segments
                    .push((seq, sealed.map(|one| one.id).collect()));
            }
            Record::Question(_) | Record::Compensation(_) => {
                self.pending.insert(seq);
            }
            Record::Answer(answer) => {
                self.pending.remove(&answer.question);
                self.needs.insert(seq, vec![answer.question]);
            }
            Record::Branch(_) => self.branched = true,
            Record::Started(_)
            | Record::Outcome(_)
            | Record::Stopped(_)
            | Record::Step(_)
            | Record::Timer(_)
            | Record::Inner(_) => {}
        }
    }

    /// What to keep; none if everything has to stay.
    pub(crate) fn finish(self) -> Option<Kept> {
        // A log with branches has more than one head to keep; until branches say which base each
        // of them needs, such a log stays whole.
        let floor = self.floor.filter(|_| !self.branched)?;
        let mut open: Vec<u64> = self
            .needs
            .range(floor..)
            .flat_map(|(_, old)| old.clone())
            .collect();
        open.extend(self.input);
        open.extend(self.pending.iter().copied());
        open.push(self.schema);
        let mut older = BTreeSet::new();
        while let Some(seq) = open.pop() {
            if seq > 0 && seq < floor && older.insert(seq) {
                open.extend(self.needs.get(&seq).into_iter().flatten().copied());
            }
        }
        // Every kept record was written under a schema; without it its bytes mean nothing.
        let schemas: Vec<u64> = older
            .iter()
            .copied()
            .chain([floor])
            .filter_map(|seq| self.schemas.iter().copied().rfind(|schema| *schema <= seq))
            .collect();
        older.extend(schemas.into_iter().filter(|schema| *schema < floor));
        let segments = self
            .segments
            .into_iter()
            .filter(|(seq, _)| *seq >= floor || older.contains(seq))
            .flat_map(|(_, ids)| ids)
            .collect();
        Some(Kept {
            floor,
            older,
            segments,
        })
    }
}

impl Kept {
    /// Whether a record stays.
    pub(crate) fn has(&self, seq: u64) -> bool {
        seq >= self.floor || self.older.contains(&seq)
    }
}
