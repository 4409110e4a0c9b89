//! Checking a thread in a store: every record, every reference, every segment.
//!
//! In come a store and a thread, out goes what was found. One damaged record does not keep the
//! others from being read. Nothing is changed or repaired.

use super::archive::Extent;
use super::contract::{CheckpointStore, Head, StoreError, Stored};
use super::finding::{Finding, Severity, Spot};
use super::retain::Survey;
use super::retention::Retention;
use super::rules::{RESTORE, Rules};
use crate::ids::{Seq, ThreadId};

/// How many records are read at once.
const PAGE: usize = 256;

/// What a check of a thread found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// How the thread stands; none if that cannot be read, or there is no such thread.
    pub head: Option<Head>,
    /// How many records could be read.
    pub records: u64,
    /// How many segments could be read.
    pub segments: u64,
    /// The bytes of those segments.
    pub segment_bytes: u64,
    /// What is wrong or worth knowing, in the order in which it was found.
    pub findings: Vec<Finding>,
}

impl Checked {
    /// Whether nothing is damaged.
    pub fn is_sound(&self) -> bool {
        !self.findings.iter().any(Finding::is_error)
    }
}

/// Checks a thread. What cannot be read is a finding, so this has no error of its own.
pub async fn check(store: &dyn CheckpointStore, thread: &ThreadId) -> Checked {
    loop {
        let before = floor(store, thread).await;
        let checked = look(store, thread).await;
        // What a run drops of its own thread meanwhile is no damage.
        if checked.is_sound() || before.is_none() || floor(store, thread).await == before {
            return checked;
        }
    }
}

/// From where on the log is whole.
async fn floor(store: &dyn CheckpointStore, thread: &ThreadId) -> Option<Seq> {
    let extent = store.extent(thread).await.ok().flatten();
    extent.map(|extent| extent.floor)
}

async fn look(store: &dyn CheckpointStore, thread: &ThreadId) -> Checked {
    let mut all = Checked {
        head: None,
        records: 0,
        segments: 0,
        segment_bytes: 0,
        findings: Vec::new(),
    };
    let extent = match store.extent(thread).await {
        Ok(None) => return all,
        Ok(Some(extent)) => Some(extent),
        Err(error) => {
            all.findings.push(unreadable(thread, Spot::Thread, &error));
            None
        }
    };
    // Where a run row or a segment is damaged, the head may still be sound.
    all.head = match &extent {
        Some(extent) => Some(extent.head.clone()),
        None => store.head(thread).await.ok().flatten(),
    };
    let Some(head) = all.head.clone() else {
        return all;
    };
    let mut rules = Rules::new(thread, &head);
    if let Some(extent) = &extent {
        rules.extent(extent.next, extent.epoch, &extent.runs);
        for segment in &extent.segments {
            match store.segments(thread, &[segment.id]).await {
                Ok(found) => {
                    found
                        .iter()
                        .for_each(|bytes| rules.segment(segment.id, bytes));
                    all.segments += 1;
                    all.segment_bytes += segment.bytes;
                }
                Err(error) => {
                    let place = Spot::Segment(segment.id);
                    all.findings.push(unreadable(thread, place, &error));
                    rules.damaged_segment(segment.id, segment.bytes);
                }
            }
        }
    }
    match store.wished(thread).await {
        Ok(Some(wish)) => rules.wish(&wish),
        Ok(None) => {}
        Err(error) => all.findings.push(unreadable(thread, Spot::Wish, &error)),
    }
    let mut survey = Survey::new(&head);
    let mut reading = Reading {
        store,
        thread,
        all: &mut all,
    };
    let is_whole = reading
        .records(extent.as_ref(), &mut rules, |stored| survey.see(stored))
        .await;
    if is_whole {
        let found = rules.finish();
        let kept = survey.finish(&Retention::last(1), 0);
        all.findings.extend(found);
        let dropped = kept.map_or(0, |kept| kept.records.dropped);
        if dropped > 0 && all.is_sound() {
            all.findings.push(Finding {
                severity: Severity::Note,
                thread: thread.clone(),
                place: Spot::Thread,
                what: format!("{dropped} records are of older checkpoints only"),
                next: "free them with `prune` or `compact`, if no older checkpoint is needed",
            });
        }
    }
    all
}

struct Reading<'r> {
    store: &'r dyn CheckpointStore,
    thread: &'r ThreadId,
    all: &'r mut Checked,
}

impl Reading<'_> {
    /// Shows every record that can be read. Returns whether the end of the log was reached.
    async fn records(
        &mut self,
        extent: Option<&Extent>,
        rules: &mut Rules,
        mut show: impl FnMut(&Stored),
    ) -> bool {
        let mut from = Seq::new(1);
        loop {
            match self.store.records(self.thread, from, PAGE).await {
                Ok(page) => {
                    for stored in &page {
                        if extent.is_some_and(|extent| stored.seq >= extent.next) {
                            return true;
                        }
                        self.all.records += 1;
                        rules.see(stored);
                        show(stored);
                    }
                    match page.last() {
                        Some(last) => from = last.seq.next(),
                        None => return true,
                    }
                }
                // One of the page is damaged: one by one, the others are found.
                Err(error) => {
                    let Some(extent) = extent else {
                        self.tell(Spot::Thread, &error);
                        return false;
                    };
                    let mut last = None;
                    let begin = from;
                    let rest = extent.seqs().skip_while(|seq| *seq < begin);
                    for seq in rest.take(PAGE) {
                        from = seq.next();
                        match self.store.records(self.thread, seq, 1).await {
                            Ok(one) => {
                                for stored in &one {
                                    self.all.records += 1;
                                    rules.see(stored);
                                    show(stored);
                                }
                            }
                            Err(error) => {
                                // A record's own error names it: what is said twice is of the
                                // whole log.
                                let said = error.to_string();
                                if last.as_ref() == Some(&said) {
                                    return false;
                                }
                                self.tell(Spot::Record(seq), &error);
                                rules.damaged(seq);
                                last = Some(said);
                            }
                        }
                    }
                    if last.is_none() {
                        // None of the records is to blame.
                        self.tell(Spot::Thread, &error);
                        return false;
                    }
                }
            }
        }
    }

    fn tell(&mut self, place: Spot, error: &StoreError) {
        self.all
            .findings
            .push(unreadable(self.thread, place, error));
    }
}

/// Something that a store refuses to read.
fn unreadable(thread: &ThreadId, place: Spot, error: &StoreError) -> Finding {
    let (what, next) = match error {
        StoreError::Corrupt {
            place: at, found, ..
        } => (format!("{at} is damaged: {found}"), RESTORE),
        StoreError::Newer { .. } => (error.to_string(), "use the program that wrote it"),
        StoreError::Encrypted { .. } => (error.to_string(), "check again with its key"),
        error => (error.to_string(), "try again once that is put right"),
    };
    Finding {
        severity: Severity::Error,
        thread: thread.clone(),
        place,
        what,
        next,
    }
}
