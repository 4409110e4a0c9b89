//! What must be true of a thread as a whole, whoever keeps it.
//!
//! In come how it stands, its runs, its segments and its records in order; out go findings: what a
//! reader could not make sense of, and what is odd. Nothing is read, changed or repaired here, and
//! no graph is known.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;

use super::branches::Branches;
use super::contract::{Head, RunRow, Stored};
use super::finding::{Finding, Severity, Spot};
use super::guard::segment_id;
use super::memory::hex;
use super::record::{
    BaseRecord, BaseValue, BranchRecord, DiscardedRecord, InnerRecord, OutcomeRef, Record,
};
use super::wish::Wish;
use crate::ids::{Branch, Epoch, NodeName, RunId, Seq, Step, TaskPath, ThreadId};

/// What to do about a thread that does not hold together.
pub(super) const RESTORE: &str = "copy the store's folder, then put back the last good copy or \
     import an export of this thread; or go on without it: delete it";
const SHOW: &str = "look at it with `events`; it can be read and resumed";

/// What is remembered of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Schema,
    Position {
        step: u64,
        is_input: bool,
    },
    Outcome {
        step: u64,
    },
    Base {
        at: u64,
    },
    Question,
    Timer,
    Other,
    /// It is there and cannot be read: what refers to it is not blamed for it.
    Damaged,
}

/// Looks at a thread, piece by piece: first [`extent`](Self::extent), then the segments, then the
/// records.
#[derive(Debug)]
pub(super) struct Rules {
    thread: ThreadId,
    head: Head,
    /// What the head row says besides; none where it could not be learned.
    end: Option<(Seq, Epoch)>,
    runs: Option<BTreeMap<RunId, RunRow>>,
    segments: Option<HashMap<[u8; 16], u64>>,
    seen: BTreeMap<u64, Kind>,
    /// The last record of each log of a subgraph.
    inner: HashMap<(Branch, String), u64>,
    inputs: Vec<(Seq, String)>,
    referred: HashSet<[u8; 16]>,
    /// From here on no record is missing.
    whole_from: u64,
    /// The position of the oldest base: a prune keeps everything from there on.
    oldest: Option<u64>,
    last: u64,
    epoch: Epoch,
    /// The last position of each branch, as long as nothing is missing behind it.
    steps: HashMap<Branch, u64>,
    branches: Branches,
    /// On which branch positions and bases stand.
    on: HashMap<u64, Branch>,
    /// Nodes and indices of the tasks that have ended, by the seqs of their outcomes.
    ended: HashMap<u64, (String, u32)>,
    /// Outcomes that were discarded, by seq.
    discarded: HashSet<u64>,
    /// Branches of which records may be missing since their last position.
    gaps: HashSet<Branch>,
    /// What is missing from a branch although one of its bases stands before it.
    torn: Vec<(Seq, String)>,
    findings: Vec<Finding>,
}

impl Rules {
    pub(super) fn new(thread: &ThreadId, head: &Head) -> Self {
        Self {
            thread: thread.clone(),
            head: head.clone(),
            end: None,
            runs: None,
            segments: None,
            inner: HashMap::new(),
            seen: BTreeMap::new(),
            inputs: Vec::new(),
            referred: HashSet::new(),
            whole_from: 0,
            oldest: None,
            last: 0,
            epoch: Epoch::new(1),
            steps: HashMap::new(),
            branches: Branches::default(),
            on: HashMap::new(),
            ended: HashMap::new(),
            discarded: HashSet::new(),
            gaps: HashSet::new(),
            torn: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Tells where the log ends and which runs there are.
    pub(super) fn extent(&mut self, next: Seq, epoch: Epoch, runs: &[(RunId, RunRow)]) {
        self.end = Some((next, epoch));
        self.segments = Some(HashMap::new());
        let mut rows = BTreeMap::new();
        for (id, row) in runs {
            if rows.insert(id.clone(), row.clone()).is_some() {
                self.error(Spot::Run(id.clone()), "it is there twice");
            }
        }
        self.runs = Some(rows);
    }

    /// Looks at a segment.
    pub(super) fn segment(&mut self, id: [u8; 16], bytes: &[u8]) {
        if segment_id(bytes) != id {
            self.error(Spot::Segment(id), "its bytes are others than its id says");
        }
        let size = bytes.len() as u64;
        let known = self.segments.get_or_insert_default();
        if known.insert(id, size).is_some() {
            self.error(Spot::Segment(id), "it is there twice");
        }
    }

    /// Looks at the wish that waits.
    pub(super) fn wish(&mut self, wish: &Wish) {
        if wish.run != self.head.run {
            let (run, head) = (&wish.run, &self.head.run);
            let what = format!("it is for run {run}, the thread is at run {head}");
            self.warn(Spot::Wish, what);
        }
    }

    /// Takes note of a segment that cannot be read.
    pub(super) fn damaged_segment(&mut self, id: [u8; 16], bytes: u64) {
        self.segments.get_or_insert_default().insert(id, bytes);
    }

    /// Takes note of a record that cannot be read.
    pub(super) fn damaged(&mut self, seq: Seq) {
        self.follow(seq);
        self.seen.insert(seq.get(), Kind::Damaged);
        self.steps.clear();
    }

    /// Looks at the next record.
    pub(super) fn see(&mut self, stored: &Stored) {
        let seq = stored.seq;
        let here = Spot::Record(seq);
        if seq.get() == 0 {
            return self.error(here, "logs begin at 1");
        }
        if seq.get() <= self.last {
            return self.error(here, format!("it stands behind record {}", self.last));
        }
        if let Some((next, _)) = self.end
            && seq >= next
        {
            self.error(
                here.clone(),
                format!("the head says that the log ends before record {next}"),
            );
        }
        if stored.epoch < self.epoch {
            let what = format!(
                "its writer had epoch {}, an earlier one had {}",
                stored.epoch, self.epoch
            );
            self.error(here.clone(), what);
        }
        self.epoch = self.epoch.max(stored.epoch);
        let first = self.seen.is_empty();
        if first && !matches!(*stored.record, Record::Schema(_)) {
            self.error(here, "there is no schema before it");
        }
        self.follow(seq);
        let kind = self.kind(stored);
        self.seen.insert(seq.get(), kind);
    }

    /// Looks for gaps.
    fn follow(&mut self, seq: Seq) {
        if seq.get() != self.last.saturating_add(1) {
            self.whole_from = seq.get();
            self.gaps.extend(self.steps.keys().copied());
        } else if self.last == 0 {
            self.whole_from = 1;
        }
        self.last = seq.get();
    }

    /// What a record is; looks at what it refers to.
    fn kind(&mut self, stored: &Stored) -> Kind {
        let seq = stored.seq;
        self.branches.see(stored);
        if let Record::Input(_) | Record::Commit(_) | Record::Base(_) = &*stored.record {
            self.on.insert(seq.get(), stored.branch);
        }
        match &*stored.record {
            Record::Schema(_) => Kind::Schema,
            Record::Input(input) => {
                for closed in &input.closed {
                    self.outcome(seq, *closed, None);
                }
                self.inputs.push((seq, input.run.clone()));
                self.step(stored, input.step, 0..=1);
                Kind::Position {
                    step: input.step,
                    is_input: true,
                }
            }
            Record::Commit(commit) => {
                for outcome in &commit.outcomes {
                    if let OutcomeRef::At(at) = outcome {
                        self.outcome(seq, *at, Some(commit.step));
                    }
                }
                for timer in &commit.timers {
                    self.refers(seq, "timer", *timer, |kind| kind == Kind::Timer);
                }
                self.step(stored, commit.step, 1..=1);
                Kind::Position {
                    step: commit.step,
                    is_input: false,
                }
            }
            Record::Base(base) => {
                self.base(seq, base);
                Kind::Base { at: base.at }
            }
            Record::Outcome(outcome) => {
                let task = (outcome.node.to_string(), outcome.index);
                self.ended.insert(seq.get(), task);
                Kind::Outcome { step: outcome.step }
            }
            Record::Question(_) => Kind::Question,
            Record::Answer(answer) => {
                let is_question = |kind| kind == Kind::Question;
                self.refers(seq, "question", answer.question, is_question);
                Kind::Other
            }
            Record::Timer(_) => Kind::Timer,
            Record::Branch(begun) => {
                self.begun(seq, begun);
                Kind::Other
            }
            Record::Discarded(discarded) => {
                for outcome in &discarded.outcomes {
                    self.outcome(seq, *outcome, Some(discarded.step));
                }
                self.discarded.extend(&discarded.outcomes);
                self.restarted(stored.branch, discarded);
                Kind::Other
            }
            Record::Started(_)
            | Record::Begun(_)
            | Record::Stopped(_)
            | Record::Step(_)
            | Record::Compensation(_) => Kind::Other,
            Record::Inner(inner) => {
                self.inner(stored, inner);
                Kind::Other
            }
        }
    }

    /// The graphs that tasks run begin anew where what the tasks brought is void.
    fn restarted(&mut self, branch: Branch, discarded: &DiscardedRecord) {
        for outcome in &discarded.outcomes {
            let Some((node, index)) = self.ended.get(outcome) else {
                continue;
            };
            let Ok(node) = NodeName::new(node) else {
                continue;
            };
            let task = TaskPath::new(Step::new(discarded.step), node, *index).to_string();
            self.inner.retain(|(of, path), _| {
                let rest = path.strip_prefix(&task);
                *of != branch || rest.is_none_or(|rest| !rest.is_empty() && !rest.starts_with('/'))
            });
        }
    }

    /// A record of a subgraph can be read, and follows the one before it.
    fn inner(&mut self, stored: &Stored, inner: &InnerRecord) {
        let here = Spot::Record(stored.seq);
        if let Err(why) = inner.open() {
            let what = format!(
                "its record of subgraph {} cannot be read: {why}",
                inner.path
            );
            return self.error(here, what);
        }
        let log = (stored.branch, inner.path.clone());
        let before = self.inner.insert(log, inner.seq).unwrap_or(0);
        if inner.seq != before + 1 {
            let what = format!(
                "it is record {} of subgraph {}, and record {before} is the one before it",
                inner.seq, inner.path
            );
            self.error(here, what);
        }
    }

    /// A branch leaves a position, which a prune may have dropped since.
    fn begun(&mut self, seq: Seq, begun: &BranchRecord) {
        let leaves = self.seen.get(&begun.at).copied();
        if begun.at >= seq.get() {
            let what = format!("its branch leaves record {}, which is later", begun.at);
            self.error(Spot::Record(seq), what);
        }
        match leaves {
            Some(Kind::Position { step, .. }) => {
                self.steps.insert(Branch::new(begun.branch), step);
            }
            Some(Kind::Damaged) | None => {}
            Some(_) => self.error(
                Spot::Record(seq),
                format!(
                    "its branch leaves record {}, which is no position",
                    begun.at
                ),
            ),
        }
    }

    fn base(&mut self, seq: Seq, base: &BaseRecord) {
        let is_position = |kind| matches!(kind, Kind::Position { .. });
        self.refers(seq, "position", base.at, is_position);
        if let (Some(own), Some(at)) = (self.on.get(&seq.get()), self.on.get(&base.at))
            && own != at
        {
            let what = format!("it is on branch {own}, its position on branch {at}");
            self.error(Spot::Record(seq), what);
        }
        self.oldest.get_or_insert(base.at);
        for field in &base.fields {
            let BaseValue::Items { sealed, .. } = &field.value else {
                continue;
            };
            for segment in sealed {
                self.referred.insert(segment.id);
                let Some(known) = &self.segments else {
                    continue;
                };
                let (expected, id) = (u64::from(segment.bytes), hex(&segment.id));
                match known.get(&segment.id) {
                    Some(found) if *found == expected => {}
                    Some(found) => self.error(
                        Spot::Record(seq),
                        format!(
                            "field {}: segment {id} was {expected} bytes long, it has {found}",
                            field.field
                        ),
                    ),
                    None => self.error(
                        Spot::Record(seq),
                        format!("field {}: segment {id} is missing", field.field),
                    ),
                }
            }
        }
    }

    fn outcome(&mut self, by: Seq, at: u64, step: Option<u64>) {
        let is_outcome = |kind| matches!(kind, Kind::Outcome { .. });
        self.refers(by, "outcome", at, is_outcome);
        if self.discarded.contains(&at) {
            let what = format!("it refers to outcome {at}, which was discarded");
            self.error(Spot::Record(by), what);
        }
        if let (Some(Kind::Outcome { step: found }), Some(step)) = (self.seen.get(&at), step)
            && *found != step
        {
            let what = format!("it closes superstep {step} with outcome {at}, which is of {found}");
            self.warn(Spot::Record(by), what);
        }
    }

    fn refers(&mut self, by: Seq, to: &str, at: u64, fits: impl Fn(Kind) -> bool) {
        match self.seen.get(&at) {
            Some(kind) if *kind == Kind::Damaged || fits(*kind) => {}
            Some(_) => self.error(
                Spot::Record(by),
                format!("it refers to {to} {at}, which is another kind of record"),
            ),
            None => self.error(
                Spot::Record(by),
                format!("it refers to {to} {at}, which is not there"),
            ),
        }
    }

    /// Positions of a branch count supersteps one by one; an input closes none.
    fn step(&mut self, stored: &Stored, step: u64, more: RangeInclusive<u64>) {
        let gap = self.gaps.remove(&stored.branch);
        let Some(before) = self.steps.insert(stored.branch, step) else {
            return;
        };
        if step
            .checked_sub(before)
            .is_some_and(|by| more.contains(&by))
        {
            return;
        }
        let what = format!("it stands at superstep {step}, the position before at {before}");
        if !gap {
            self.warn(Spot::Record(stored.seq), what);
        } else if self.based(stored.branch) {
            self.torn.push((stored.seq, what));
        }
    }

    /// Whether a base of the branch was seen: a prune drops nothing of it from there on.
    fn based(&self, branch: Branch) -> bool {
        let bases = self.seen.iter();
        let mut bases = bases.filter(|(_, kind)| matches!(kind, Kind::Base { .. }));
        bases.any(|(seq, _)| self.on.get(seq) == Some(&branch))
    }

    /// Says what was found, once all records were seen.
    pub(super) fn finish(mut self) -> Vec<Finding> {
        let head = self.head.clone();
        if let Some((next, epoch)) = self.end {
            if self.last.saturating_add(1) != next.get() {
                let what = format!(
                    "it says that the next record is {next}, but the last one is {}",
                    self.last
                );
                self.error(Spot::Head, what);
            }
            let last_read = self.seen.get(&self.last) != Some(&Kind::Damaged);
            if last_read && self.epoch != epoch {
                let what = format!("it says epoch {epoch}, the last record {}", self.epoch);
                self.error(Spot::Head, what);
            }
        }
        if self.branches.any() {
            for (seq, what) in std::mem::take(&mut self.torn) {
                self.error(
                    Spot::Record(seq),
                    format!("{what}: records before it are missing"),
                );
            }
        } else if self.whole_from > self.oldest.unwrap_or(1) {
            let oldest = self.oldest.unwrap_or(1);
            let what = format!(
                "records between {oldest} and {} are missing",
                self.whole_from
            );
            self.error(Spot::Thread, what);
        }
        let position = self.seen.get(&head.seq.get()).copied();
        match position {
            Some(Kind::Position { step, .. }) if step != head.step => self.warn(
                Spot::Head,
                format!("it says superstep {}, its position says {step}", head.step),
            ),
            Some(Kind::Position { .. } | Kind::Damaged) => {}
            _ => self.error(
                Spot::Head,
                format!("it points to record {}, which is no position", head.seq),
            ),
        }
        self.check_line(&head);
        match self.seen.get(&head.base.get()).copied() {
            Some(Kind::Base { at }) if at > head.seq.get() => self.error(
                Spot::Head,
                format!("its base {} is of position {at}, which is later", head.base),
            ),
            Some(Kind::Base { .. } | Kind::Damaged) => {}
            _ => self.error(
                Spot::Head,
                format!("it names base {}, which is not there", head.base),
            ),
        }
        match self.seen.get(&head.schema.get()) {
            Some(Kind::Schema | Kind::Damaged) => {}
            _ => self.error(
                Spot::Head,
                format!("it names schema {}, which is not there", head.schema),
            ),
        }
        self.check_runs();
        self.check_waste();
        self.findings
    }

    /// The head stands on the line of its branch, and its base on the branch of its position.
    fn check_line(&mut self, head: &Head) {
        let Some(at) = self.on.get(&head.seq.get()).copied() else {
            return;
        };
        if !self.branches.line(head.branch, head.seq).has(at, head.seq) {
            let what = format!(
                "it is on branch {}, and its position {} on branch {at}, which does not lead there",
                head.branch, head.seq
            );
            self.error(Spot::Head, what);
        }
        if let Some(base) = self.on.get(&head.base.get()).filter(|base| **base != at) {
            let what = format!(
                "its base {} is of branch {base}, its position of {at}",
                head.base
            );
            self.error(Spot::Head, what);
        }
    }

    fn check_runs(&mut self) {
        let Some(runs) = self.runs.take() else {
            return;
        };
        let current = self.head.run.clone();
        if !runs.keys().any(|run| run.as_str() == current) {
            self.error(Spot::Head, format!("its run {current} has no row"));
        }
        for (seq, run) in std::mem::take(&mut self.inputs) {
            let row = runs.iter().find(|(id, _)| id.as_str() == run);
            match row {
                Some((_, row)) if row.input == seq => {}
                Some((_, row)) => self.error(
                    Spot::Record(seq),
                    format!("run {run} says that its input is record {}", row.input),
                ),
                None => self.error(Spot::Record(seq), format!("its run {run} has no row")),
            }
        }
        for (run, row) in runs {
            let here = Spot::Run(run.clone());
            let next = self
                .end
                .map_or(Seq::new(self.last).next(), |(next, _)| next);
            match self.seen.get(&row.input.get()) {
                Some(Kind::Position { is_input: true, .. } | Kind::Damaged) => {}
                // A prune drops the inputs of older runs.
                None if row.input.get() > 0
                    && row.input.get() < self.whole_from
                    && run.as_str() != current => {}
                _ => self.error(
                    here.clone(),
                    format!("it began with record {}, which is no input", row.input),
                ),
            }
            let Some(end) = row.end else { continue };
            match self.seen.get(&end.get()) {
                _ if end >= next || end < row.input => {
                    self.error(here, format!("it ended at record {end}, which cannot be"));
                }
                Some(Kind::Position { .. } | Kind::Damaged) | None => {}
                Some(_) => {
                    self.error(
                        here,
                        format!("it ended at record {end}, which is no position"),
                    );
                }
            }
        }
    }

    fn check_waste(&mut self) {
        let Some(segments) = &self.segments else {
            return;
        };
        // What cannot be read may be the one that refers to them.
        if self.seen.values().any(|kind| *kind == Kind::Damaged) {
            return;
        }
        let unused: BTreeSet<_> = segments
            .iter()
            .filter(|(id, _)| !self.referred.contains(*id))
            .collect();
        if !unused.is_empty() {
            let bytes: u64 = unused.iter().map(|(_, bytes)| **bytes).sum();
            let what = format!(
                "{} segments of {bytes} bytes are not referred to by any record",
                unused.len()
            );
            self.push(Severity::Note, Spot::Thread, what, "free them with `prune`");
        }
    }

    fn error(&mut self, place: Spot, what: impl Into<String>) {
        self.push(Severity::Error, place, what, RESTORE);
    }

    fn warn(&mut self, place: Spot, what: impl Into<String>) {
        self.push(Severity::Warning, place, what, SHOW);
    }

    fn push(
        &mut self,
        severity: Severity,
        place: Spot,
        what: impl Into<String>,
        next: &'static str,
    ) {
        self.findings.push(Finding {
            severity,
            thread: self.thread.clone(),
            place,
            what: what.into(),
            next,
        });
    }
}
