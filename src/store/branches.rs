//! The branches of a log: where each begins, what stands on it, and which records are of one line.
//!
//! In come the records of a log in order, out go branches, positions and lines. A *line* is a branch
//! back to the first record: its own records, those of the branch that it leaves up to where it
//! does, and so on. What lies beside a line is of another past, and means nothing on this one.

use std::collections::BTreeMap;

use super::contract::Stored;
use super::record::{Record, Status};
use crate::ids::{Branch, Seq};

/// Where the branches of a log begin.
#[derive(Debug, Clone, Default)]
pub(crate) struct Branches(BTreeMap<Branch, (Branch, Seq)>);

impl Branches {
    /// Takes note of a record; of those that begin no branch nothing is noted.
    pub(crate) fn see(&mut self, stored: &Stored) {
        if let Record::Branch(begun) = &*stored.record {
            let leaves = (Branch::new(begun.parent), Seq::new(begun.at));
            self.0.entry(Branch::new(begun.branch)).or_insert(leaves);
        }
    }

    /// Where a branch leaves another one; none for the first.
    pub(crate) fn leaves(&self, branch: Branch) -> Option<(Branch, Seq)> {
        self.0.get(&branch).copied()
    }

    /// Whether there are any but the first.
    pub(crate) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// The number that the next branch gets.
    pub(crate) fn next(&self) -> Branch {
        self.0
            .keys()
            .next_back()
            .map_or(Branch::new(1), |last| last.next())
    }

    /// The line of a branch up to a record.
    pub(crate) fn line(&self, branch: Branch, until: Seq) -> Line {
        let mut line = vec![(branch, until)];
        let mut last = (branch, until);
        // One turn a branch: no damaged record sends it round for ever.
        while let Some((parent, at)) = self.leaves(last.0).filter(|_| line.len() <= self.0.len()) {
            last = (parent, at.min(last.1));
            line.push(last);
        }
        Line(line)
    }
}

/// The records of one line: by branch up to which seq, the newest branch first.
#[derive(Debug, Clone)]
pub(crate) struct Line(Vec<(Branch, Seq)>);

impl Line {
    /// Whether a record is of this line.
    pub(crate) fn has(&self, branch: Branch, seq: Seq) -> bool {
        self.0
            .iter()
            .any(|(own, until)| *own == branch && seq <= *until)
    }

    /// Its parts, the newest first: a branch, and the last seq of it.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Branch, Seq)> + '_ {
        self.0.iter().copied()
    }
}

/// An input or a commit, with what has to be read to stand there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) branch: Branch,
    pub(crate) step: u64,
    /// The newest base at or before it; 0 if there is none any more.
    pub(crate) base: Seq,
    /// The schema that it was written with; 0 if there is none any more.
    pub(crate) schema: Seq,
    pub(crate) status: Status,
}

/// A log as a tree: every position, and how each branch stands.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) branches: Branches,
    pub(crate) places: BTreeMap<Seq, Place>,
    /// The inputs with their runs.
    pub(crate) inputs: BTreeMap<Seq, (Branch, String)>,
    tips: BTreeMap<Branch, Tip>,
    /// Runs of seqs without a gap.
    seen: Vec<(Seq, Seq)>,
}

/// How a branch stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tip {
    /// Its newest position; where it has none of its own, that which it leaves.
    pub(crate) at: Seq,
    pub(crate) status: Status,
    /// The record that says why the last call on it ended, where one does.
    pub(crate) stopped: Option<Seq>,
    base: Seq,
    schema: Seq,
}

impl Tree {
    /// Looks at the next record.
    pub(crate) fn see(&mut self, stored: &Stored) {
        self.branches.see(stored);
        let Stored { seq, branch, .. } = stored;
        match self.seen.last_mut() {
            Some((_, last)) if last.next() == *seq => *last = *seq,
            _ => self.seen.push((*seq, *seq)),
        }
        let on = match &*stored.record {
            Record::Branch(begun) => Branch::new(begun.branch),
            _ => *branch,
        };
        let tip = self.tips.entry(on).or_insert(Tip {
            at: Seq::default(),
            status: Status::Running,
            stopped: None,
            base: Seq::default(),
            schema: Seq::default(),
        });
        let (step, status) = match &*stored.record {
            Record::Schema(_) => {
                tip.schema = *seq;
                return;
            }
            Record::Base(base) => {
                tip.base = *seq;
                if let Some(place) = self.places.get_mut(&Seq::new(base.at)) {
                    place.base = *seq;
                }
                return;
            }
            Record::Branch(begun) => {
                tip.at = Seq::new(begun.at);
                let left = self.places.get(&tip.at);
                tip.status = at_rest(left.map_or(Status::Running, |left| left.status));
                return;
            }
            Record::Stopped(stopped) => {
                (tip.status, tip.stopped) = (stopped.status, Some(*seq));
                return;
            }
            Record::Answer(_) | Record::Discarded(_) => return,
            Record::Input(input) => {
                self.inputs.insert(*seq, (*branch, input.run.clone()));
                (input.step, input.status)
            }
            Record::Commit(commit) => (commit.step, commit.status),
            _ => {
                (tip.status, tip.stopped) = (Status::Running, None);
                return;
            }
        };
        (tip.at, tip.status, tip.stopped) = (*seq, status, None);
        let place = Place {
            branch: *branch,
            step,
            base: tip.base,
            schema: tip.schema,
            status,
        };
        self.places.insert(*seq, place);
    }

    /// Whether a record is there.
    pub(crate) fn has(&self, seq: Seq) -> bool {
        let mut seen = self.seen.iter();
        seen.any(|(first, last)| (*first..=*last).contains(&seq))
    }

    /// How a branch stands; none if there is no such branch.
    pub(crate) fn tip(&self, branch: Branch) -> Option<Tip> {
        self.tips
            .get(&branch)
            .copied()
            .filter(|tip| tip.at.get() > 0)
    }

    /// All branches, in the order of their numbers.
    pub(crate) fn tips(&self) -> impl Iterator<Item = (Branch, Tip)> + '_ {
        let tips = self.tips.iter().map(|(branch, tip)| (*branch, *tip));
        tips.filter(|(_, tip)| tip.at.get() > 0)
    }

    /// The input of the run that a position belongs to, and the run.
    pub(crate) fn input_of(&self, at: Seq) -> Option<(Seq, &str)> {
        let branch = self.places.get(&at)?.branch;
        self.branches
            .line(branch, at)
            .parts()
            .find_map(|(branch, until)| {
                let found = self.inputs.range(..=until).rev();
                let mut found = found.filter(|(_, (own, _))| *own == branch);
                found.next().map(|(seq, (_, run))| (*seq, run.as_str()))
            })
    }
}

/// How a thread stands of which nobody works on what is left.
pub(crate) fn at_rest(status: Status) -> Status {
    match status {
        Status::Running | Status::Drained => Status::Paused,
        other => other,
    }
}
