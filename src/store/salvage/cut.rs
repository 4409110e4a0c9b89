//! Where a damaged log is cut, so that what is left can be read and gone on with.
//!
//! From the newest record back, an end is looked for whose branch stands on a position that can be
//! read: its base, all records of its branch since, and the schema they were written with are there.
//! What lies before a hole is dropped as a prune would drop it; what lies behind the end is lost.

use std::collections::{BTreeMap, BTreeSet};

use super::super::archive::ThreadArchive;
use super::super::branches::Tree;
use super::super::contract::{Head, RunRow, Stored};
use super::super::record::{Record, Status};
use super::super::remains::Remains;
use super::log::{Log, needs};
use crate::ids::{Branch, RunId, Seq, ThreadId};

/// How many ends of a stretch without a hole are tried, from its last record back.
const ENDS: usize = 32;
/// How many records a write has at most that means nothing without its last one: a schema, an input
/// and a base of a subgraph.
const LONGEST: usize = 3;

/// The newest part of a thread that holds together.
pub(super) fn newest(remains: &Remains, thread: &ThreadId) -> Option<ThreadArchive> {
    let log = Log::of(remains);
    let cut = Cut {
        remains,
        thread,
        log: &log,
    };
    log.newest_first().find_map(|(first, last)| {
        // After its last records, and after each of its newest positions and their bases.
        let stretch = log.up_to(last).iter().rev();
        let ends = stretch
            .take_while(|stored| stored.seq.get() >= first)
            .filter(|stored| {
                matches!(
                    *stored.record,
                    Record::Input(_) | Record::Commit(_) | Record::Base(_)
                )
            })
            .map(|stored| stored.seq.get())
            .take(ENDS);
        let latest = (first..=last).rev().take(LONGEST);
        latest.chain(ends).find_map(|end| cut.at(end))
    })
}

struct Cut<'c> {
    remains: &'c Remains,
    thread: &'c ThreadId,
    log: &'c Log,
}

/// What is kept.
#[derive(Default)]
struct Spans {
    /// Of each branch one stretch, from where to where: a base before a hole would be taken for that
    /// of a position behind it.
    of: BTreeMap<Branch, (u64, u64)>,
    /// The branches that can be stood on.
    standing: BTreeSet<Branch>,
}

impl Cut<'_> {
    /// The thread up to a record, if that holds together.
    fn at(&self, end: u64) -> Option<ThreadArchive> {
        let records = self.log.up_to(end);
        let last = records.last()?;
        let mut tree = Tree::default();
        records.iter().for_each(|stored| tree.see(stored));
        let tip = tree.tip(last.branch)?;
        let place = *tree.places.get(&tip.at)?;
        let (first, _) = self.log.stretch(end)?;
        let spans = self.spans(&tree, end, last.branch);
        // Nothing may be missing in the open superstep, and nothing since the base.
        let since = match place.branch == last.branch {
            true => tip.at.get(),
            false => self.begins(records, last.branch)?,
        };
        let stands = spans.standing.contains(&last.branch);
        if since < first || !stands || !begin(records, since) {
            return None;
        }
        let kept = self.kept(&tree, &spans, records);
        let records: Vec<Stored> = records
            .iter()
            .filter(|stored| kept.contains(&stored.seq.get()))
            .cloned()
            .collect();
        let (_, run) = tree.input_of(tip.at)?;
        let schema = match &*self.log.get(place.schema.get())?.record {
            Record::Schema(schema) => schema,
            _ => return None,
        };
        let stood = self.remains.head.as_ref();
        let times = || records.iter().filter_map(|stored| at_ms(&stored.record));
        let head = Head {
            graph: schema.graph.clone().into(),
            fingerprint: match stood {
                Some(stood) if stood.schema == place.schema => stood.fingerprint,
                _ => schema.fingerprint,
            },
            run: run.into(),
            branch: last.branch,
            seq: tip.at,
            step: place.step,
            base: place.base,
            schema: place.schema,
            status: tip.status,
            created_ms: stood.map_or_else(|| times().min().unwrap_or(0), |stood| stood.created_ms),
            updated_ms: times().max().unwrap_or(0),
        };
        let archive = ThreadArchive {
            thread: self.thread.clone(),
            next: last.seq.next(),
            epoch: last.epoch,
            runs: self.runs(&records, &head),
            segments: Log::segments(self.remains, &records)?,
            head,
            records,
        };
        archive.check().is_ok().then_some(archive)
    }

    /// What is kept of each branch on which something can stand: of the head's first.
    fn spans(&self, tree: &Tree, end: u64, head: Branch) -> Spans {
        let mut spans = Spans::default();
        let mut tips: Vec<_> = tree.tips().collect();
        tips.sort_by_key(|(branch, tip)| (*branch != head, std::cmp::Reverse(tip.at)));
        for (branch, tip) in tips {
            let Some(place) = tree.places.get(&tip.at) else {
                continue;
            };
            if place.base <= place.schema || !self.knows_run(tree, tip.at) {
                continue;
            }
            if !spans.of.contains_key(&place.branch)
                && let Some((first, last)) = self.log.stretch(tip.at.get())
                && let Some(floor) = match first {
                    1 => (place.schema.get() > 0).then_some(1),
                    _ => self.floor(tree, place.branch, first, tip.at),
                }
            {
                spans.of.insert(place.branch, (floor, last.min(end)));
            }
            let span = spans.of.get(&place.branch);
            if span.is_some_and(|(from, to)| (*from..=*to).contains(&tip.at.get())) {
                spans.standing.insert(branch);
            }
        }
        spans
    }

    /// The oldest position of a branch behind a hole from which on everything can be read.
    fn floor(&self, tree: &Tree, branch: Branch, first: u64, at: Seq) -> Option<u64> {
        let stretch = self.log.up_to(at.get().saturating_add(1));
        let stretch = stretch.iter().skip_while(|stored| stored.seq.get() < first);
        // A write that begins with a schema goes on with timers and a position: what directly
        // follows a hole may have been written under a schema that is lost.
        let mut stretch = stretch.skip_while(|stored| matches!(*stored.record, Record::Timer(_)));
        let doubtful = stretch.next().map(|stored| stored.seq.get());
        let known = self.remains.head.as_ref().map(|head| head.schema);
        stretch.find_map(|stored| {
            let Record::Base(base) = &*stored.record else {
                return None;
            };
            let place = tree.places.get(&Seq::new(base.at))?;
            let hole = self.log.widest_hole(place.schema.get(), base.at);
            let is_certain =
                hole == 0 || known == Some(place.schema) || doubtful != Some(base.at) && hole < 3;
            let fits = stored.branch == branch
                && place.branch == branch
                && (first..=at.get()).contains(&base.at)
                && place.schema.get() > 0;
            (fits && is_certain).then_some(base.at)
        })
    }

    /// Whether the input before a position is that of its run, and no later one is lost.
    fn knows_run(&self, tree: &Tree, at: Seq) -> bool {
        let Some((input, run)) = tree.input_of(at) else {
            return false;
        };
        let stood = self.remains.head.as_ref();
        self.log.widest_hole(input.get(), at.get()) == 0
            || stood.is_some_and(|stood| stood.run == run && at <= stood.seq)
    }

    /// Where a branch begins.
    fn begins(&self, records: &[Stored], branch: Branch) -> Option<u64> {
        let begins = |stored: &&Stored| match &*stored.record {
            Record::Branch(begun) => begun.branch == branch.get(),
            _ => false,
        };
        records.iter().find(begins).map(|stored| stored.seq.get())
    }

    /// What stays: the spans, where branches begin, schemas, the inputs of the runs of what stays,
    /// and the older records that one of these needs.
    fn kept(&self, tree: &Tree, spans: &Spans, records: &[Stored]) -> BTreeSet<u64> {
        let mut kept = BTreeSet::new();
        let mut open: Vec<u64> = records
            .iter()
            .filter(|stored| {
                let seq = stored.seq.get();
                let span = spans.of.get(&stored.branch);
                span.is_some_and(|(from, to)| (*from..=*to).contains(&seq))
                    || matches!(*stored.record, Record::Branch(_) | Record::Schema(_))
            })
            .map(|stored| stored.seq.get())
            .collect();
        let first = spans.of.values().filter_map(|(from, _)| {
            let mut places = tree.places.range(Seq::new(*from)..);
            places.next().map(|(at, _)| *at)
        });
        let tips = spans.standing.iter();
        let tips: Vec<_> = tips.filter_map(|branch| tree.tip(*branch)).collect();
        let inputs = first.chain(tips.iter().map(|tip| tip.at));
        open.extend(
            inputs
                .filter_map(|at| tree.input_of(at))
                .map(|(input, _)| input.get()),
        );
        // What a branch that only begins has recorded since.
        for branch in &spans.standing {
            let place = tree.tip(*branch).and_then(|tip| tree.places.get(&tip.at));
            let beside = place.is_some_and(|place| place.branch != *branch);
            let begins = self.begins(records, *branch).filter(|_| beside);
            let Some((from, to)) = begins.and_then(|at| self.log.stretch(at)) else {
                continue;
            };
            let since = records.iter().filter(|stored| {
                stored.branch == *branch && (from..=to).contains(&stored.seq.get())
            });
            open.extend(since.map(|stored| stored.seq.get()));
        }
        while let Some(seq) = open.pop() {
            if kept.insert(seq)
                && let Some(stored) = self.log.get(seq)
            {
                open.extend(needs(&stored.record));
            }
        }
        kept
    }

    /// The rows of the runs that are kept: as they are where they fit, else as the records tell.
    fn runs(&self, records: &[Stored], head: &Head) -> Vec<(RunId, RunRow)> {
        let positions: BTreeSet<u64> = records
            .iter()
            .filter(|stored| matches!(*stored.record, Record::Input(_) | Record::Commit(_)))
            .map(|stored| stored.seq.get())
            .collect();
        let end = records.last().map_or(0, |stored| stored.seq.get());
        let first = records.first().map_or(0, |stored| stored.seq.get());
        let mut rows: BTreeMap<RunId, RunRow> = BTreeMap::new();
        for stored in records {
            let Record::Input(input) = &*stored.record else {
                continue;
            };
            let Ok(run) = RunId::new(&input.run) else {
                continue;
            };
            let known = self.remains.runs.iter().find(|(id, row)| {
                let fits = |end_of: Seq| end_of.get() <= end;
                *id == run && row.input == stored.seq && row.end.is_none_or(fits)
            });
            let row = match known {
                Some((_, row)) if head.run != input.run || row.end == Some(head.seq) => row.clone(),
                _ if head.run == input.run => RunRow {
                    input: stored.seq,
                    end: (head.status == Status::Finished).then_some(head.seq),
                    status: head.status,
                },
                _ => told(records, stored),
            };
            rows.insert(run, row);
        }
        // Runs whose inputs an earlier prune has dropped.
        for (run, row) in &self.remains.runs {
            let is_older = row.input.get() < first && !positions.contains(&row.input.get());
            if is_older && run.as_str() != head.run {
                rows.entry(run.clone()).or_insert_with(|| row.clone());
            }
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by(|(a, one), (b, other)| (one.input, a).cmp(&(other.input, b)));
        rows
    }
}

/// Whether the graphs that tasks of the open superstep run have all that they begin with.
fn begin(records: &[Stored], since: u64) -> bool {
    let mut begun: BTreeMap<&str, bool> = BTreeMap::new();
    for stored in records.iter().filter(|stored| stored.seq.get() > since) {
        let Record::Inner(inner) = &*stored.record else {
            continue;
        };
        let based = begun.entry(&inner.path).or_default();
        // The frame in the frame is looked at when all is checked.
        *based |= inner
            .open()
            .is_ok_and(|(_, inner)| matches!(*inner.record, Record::Base(_)));
    }
    begun.into_values().all(|based| based)
}

/// How a run that another one followed has ended, by the records.
fn told(records: &[Stored], input: &Stored) -> RunRow {
    let of_run = records
        .iter()
        .filter(|stored| stored.branch == input.branch && stored.seq > input.seq)
        .take_while(|stored| !matches!(*stored.record, Record::Input(_)));
    let (mut at, mut status) = (input.seq, Status::Running);
    if let Record::Input(input) = &*input.record {
        status = input.status;
    }
    for stored in of_run {
        match &*stored.record {
            Record::Commit(commit) => (at, status) = (stored.seq, commit.status),
            Record::Stopped(stopped) => status = stopped.status,
            _ => {}
        }
    }
    RunRow {
        input: input.seq,
        end: (status == Status::Finished).then_some(at),
        status,
    }
}

/// When a record was written, where it says so.
fn at_ms(record: &Record) -> Option<u64> {
    match record {
        Record::Input(input) => Some(input.at_ms),
        Record::Commit(commit) => Some(commit.at_ms),
        Record::Started(started) => Some(started.at_ms),
        Record::Stopped(stopped) => Some(stopped.at_ms),
        Record::Answer(answer) => Some(answer.at_ms),
        _ => None,
    }
}
