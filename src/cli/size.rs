//! How much a thread holds.
//!
//! In come its records, out go their number and the bytes of the values in them: what the user's
//! own data takes, without frames, names and indexes of a store. A segment is counted once, however
//! many bases refer to it.

use std::collections::HashMap;
use std::fmt;

use crate::store::{
    BaseValue, CheckpointStore, OutcomeRef, Record, StoreError, StoredBase, StoredChange,
    StoredTask, StoredValue,
};
use crate::{Seq, ThreadId};

/// How many records are read at once.
const PAGE: usize = 256;

/// How much a thread holds.
#[derive(Debug, Default)]
pub(super) struct Size {
    /// How many records.
    pub(super) records: u64,
    /// How many bytes their values have.
    pub(super) bytes: u64,
    /// Sealed segments, each once.
    segments: HashMap<[u8; 16], u64>,
}

impl Size {
    /// Reads a thread and counts.
    pub(super) async fn of(
        store: &dyn CheckpointStore,
        thread: &ThreadId,
    ) -> Result<Self, StoreError> {
        Self::without(store, thread, &[]).await
    }

    /// The same without some of its records, given in order.
    pub(super) async fn without(
        store: &dyn CheckpointStore,
        thread: &ThreadId,
        records: &[Seq],
    ) -> Result<Self, StoreError> {
        let mut size = Self::default();
        let mut from = Seq::new(1);
        loop {
            let page = store.records(thread, from, PAGE).await?;
            let Some(last) = page.last() else { break };
            from = last.seq.next();
            for stored in &page {
                if records.binary_search(&stored.seq).is_ok() {
                    continue;
                }
                size.records += 1;
                size.add(&stored.record);
            }
        }
        size.bytes += size.segments.values().sum::<u64>();
        Ok(size)
    }

    fn add(&mut self, record: &Record) {
        match record {
            Record::Input(input) => {
                self.bytes += changes(&input.settled) + changes(&input.update);
                self.bytes += values(&input.values) + payloads(&input.frontier);
            }
            Record::Outcome(outcome) => self.bytes += changes(&outcome.changes),
            Record::Commit(commit) => {
                for outcome in &commit.outcomes {
                    if let OutcomeRef::Inline(outcome) = outcome {
                        self.bytes += changes(&outcome.changes);
                    }
                }
                self.bytes += values(&commit.values) + payloads(&commit.frontier);
            }
            Record::Base(base) => {
                for field in &base.fields {
                    match &field.value {
                        BaseValue::Whole(bytes) => self.bytes += bytes.len() as u64,
                        BaseValue::Items { sealed, tail, .. } => {
                            self.bytes += tail.len() as u64;
                            let sealed = sealed.iter().map(|one| (one.id, u64::from(one.bytes)));
                            self.segments.extend(sealed);
                        }
                    }
                }
            }
            Record::Step(step) => self.bytes += step.value.len() as u64,
            Record::Question(question) => self.bytes += question.value.len() as u64,
            Record::Answer(answer) => self.bytes += answer.value.len() as u64,
            Record::Compensation(undo) => self.bytes += undo.value.len() as u64,
            Record::Inner(inner) => self.bytes += inner.record.len() as u64,
            _ => {}
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} records, {} bytes of values",
            self.records, self.bytes
        )
    }
}

fn changes(changes: &[StoredChange]) -> u64 {
    let bytes = changes.iter().map(|change| {
        let base = match &change.base {
            StoredBase::Overwrite(value) => value.len(),
            StoredBase::Keep | StoredBase::Clear => 0,
        };
        base + change.merges.iter().map(Vec::len).sum::<usize>()
    });
    bytes.sum::<usize>() as u64
}

fn values(values: &[StoredValue]) -> u64 {
    values.iter().map(|value| value.bytes.len() as u64).sum()
}

fn payloads(tasks: &[StoredTask]) -> u64 {
    let payloads = tasks.iter().filter_map(|task| task.payload.as_ref());
    payloads.map(|payload| payload.len() as u64).sum()
}
