//! One line of a thread with branches: from its first record to where it stands.

use std::collections::BTreeMap;

use crate::{Branch, Checkpoint, Seq};

/// The records of a line: by branch, up to which seq.
#[derive(Debug)]
pub(super) struct Line(BTreeMap<Branch, Seq>);

impl Line {
    /// The line that leads to a checkpoint and goes on from there on a branch.
    pub(super) fn to(all: &[Checkpoint], at: Seq, branch: Branch) -> Self {
        let mut until = BTreeMap::from([(branch, Seq::new(u64::MAX))]);
        let mut next = Some(at);
        while let Some(seq) = next
            && let Ok(place) = all.binary_search_by_key(&seq, |known| known.seq)
        {
            until.entry(all[place].branch).or_insert(seq);
            // A parent comes before its child, whatever the records say.
            next = all[place].parent.filter(|parent| *parent < seq);
        }
        Self(until)
    }

    /// Whether a record is of it.
    pub(super) fn has(&self, branch: Branch, seq: Seq) -> bool {
        self.0.get(&branch).is_some_and(|until| seq <= *until)
    }
}
