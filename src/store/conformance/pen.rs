//! A pen writes a thread the way a driver does, so that a check says only what it is about.

use super::super::contract::{CheckpointStore, Head, RunRow, StoreError, Stored, Take, Write};
use super::super::few::Few;
use super::super::guard::segment_id;
use super::super::record::{
    BaseField, BaseRecord, BaseValue, BranchRecord, CommitRecord, InputRecord, OutcomeRef, Record,
    SegmentRef, Status, StoredBase, StoredChange,
};
use super::samples::{outcome, sample_head, schema};
use crate::ids::{Branch, Epoch, RunId, Seq, ThreadId};

/// Holds a claim and knows where the log ends.
#[derive(Debug)]
pub(super) struct Pen<'a, S: ?Sized> {
    pub(super) store: &'a S,
    pub(super) thread: ThreadId,
    pub(super) epoch: Epoch,
    pub(super) head: Option<Head>,
    pub(super) next: Seq,
}

impl<'a, S: CheckpointStore + ?Sized> Pen<'a, S> {
    /// Takes a thread.
    pub(super) async fn take(store: &'a S, thread: &ThreadId) -> Result<Self, String> {
        let claim = store.claim(thread, Take::IfFree).await.map_err(told)?;
        Ok(Self {
            store,
            thread: thread.clone(),
            epoch: claim.epoch,
            head: claim.head,
            next: claim.next,
        })
    }

    /// Takes a new thread and writes its schema and an input.
    pub(super) async fn begin(store: &'a S, thread: &ThreadId) -> Result<Self, String> {
        let mut pen = Self::take(store, thread).await?;
        pen.add(vec![Record::Schema(schema()), input("run-1")])
            .await?;
        Ok(pen)
    }

    /// The next write, moving the head to the last input or commit in it.
    pub(super) fn write(&self, records: Vec<Record>) -> Write {
        let mut head = self.head.clone().unwrap_or_else(|| Head {
            base: Seq::new(0),
            seq: Seq::new(0),
            ..sample_head()
        });
        let expected = head.seq;
        let mut run = None;
        for (offset, record) in records.iter().enumerate() {
            let seq = Seq::new(self.next.get() + offset as u64);
            match record {
                Record::Input(input) => {
                    head.seq = seq;
                    head.run = input.run.as_str().into();
                    let row = RunRow {
                        input: seq,
                        end: None,
                        status: input.status,
                    };
                    run = RunId::new(&input.run).ok().map(|id| (id, row));
                }
                Record::Commit(commit) => {
                    head.seq = seq;
                    head.step = commit.step;
                }
                Record::Base(_) => head.base = seq,
                Record::Schema(_) => head.schema = seq,
                Record::Branch(begun) => {
                    head.branch = Branch::new(begun.branch);
                    head.seq = Seq::new(begun.at);
                }
                _ => {}
            }
        }
        Write {
            fulfils: None,
            thread: self.thread.clone(),
            epoch: self.epoch,
            branch: head.branch,
            expected,
            first: self.next,
            records,
            segments: Vec::new(),
            head,
            run,
        }
    }

    /// Appends records.
    pub(super) async fn add(&mut self, records: Vec<Record>) -> Result<(), String> {
        let write = self.write(records);
        self.send(write).await.map_err(told)
    }

    /// Appends a write and, where it was taken, follows the log.
    pub(super) async fn send(&mut self, write: Write) -> Result<(), StoreError> {
        let (head, next) = (write.head.clone(), super::super::guard::after(&write));
        self.store.append(write).await?;
        self.head = Some(head);
        self.next = next;
        Ok(())
    }

    /// Gives the thread back.
    pub(super) fn done(self) {
        self.store.release(&self.thread, self.epoch);
    }
}

/// All records of a thread.
pub(super) async fn all<S: CheckpointStore + ?Sized>(
    store: &S,
    thread: &ThreadId,
) -> Result<Vec<Stored>, String> {
    store
        .records(thread, Seq::new(0), usize::MAX)
        .await
        .map_err(told)
}

/// The seqs of records.
pub(super) fn seqs(records: &[Stored]) -> Vec<u64> {
    records.iter().map(|stored| stored.seq.get()).collect()
}

pub(super) fn thread(name: &str) -> ThreadId {
    ThreadId::new(name).expect("the name of a sample thread is an id")
}

pub(super) fn run_id(name: &str) -> RunId {
    RunId::new(name).expect("the name of a sample run is an id")
}

pub(super) fn told(error: StoreError) -> String {
    format!("unexpected refusal: {error}")
}

pub(super) fn input(run: &str) -> Record {
    Record::Input(InputRecord {
        run: run.to_owned(),
        at_ms: 0,
        step: 0,
        closed: Vec::new(),
        settled: Vec::new(),
        update: Vec::new(),
        values: Vec::new(),
        edges: Few::new(),
        frontier: Few::new(),
        status: Status::Running,
    })
}

/// A commit of one task that adds some bytes.
pub(super) fn commit(step: u64, bytes: Vec<u8>) -> Record {
    let mut ended = outcome("study", 0);
    ended.changes = Few::one(StoredChange {
        field: "notes".into(),
        codec: 1,
        base: StoredBase::Keep,
        merges: Few::one(bytes),
    });
    commit_of(step, vec![OutcomeRef::Inline(ended)])
}

pub(super) fn commit_of(step: u64, outcomes: Vec<OutcomeRef>) -> Record {
    Record::Commit(CommitRecord {
        step,
        at_ms: 0,
        outcomes: outcomes.into(),
        values: Vec::new(),
        edges: Few::new(),
        frontier: Few::new(),
        joins: Vec::new(),
        timers: Vec::new(),
        status: Status::Running,
    })
}

/// A base whose segments have these bytes.
pub(super) fn base(at: u64, sealed: &[&[u8]]) -> Record {
    Record::Base(BaseRecord {
        at,
        fields: vec![BaseField {
            field: "notes".to_owned(),
            codec: 1,
            value: BaseValue::Items {
                sealed: sealed
                    .iter()
                    .map(|bytes| SegmentRef {
                        id: segment_id(bytes),
                        items: 1,
                        bytes: bytes.len() as u32,
                    })
                    .collect(),
                tail: Vec::new(),
                tail_items: 0,
            },
        }],
    })
}

/// A branch that begins at a position.
pub(super) fn branch(number: u32, parent: u32, at: u64) -> Record {
    Record::Branch(BranchRecord {
        branch: number,
        parent,
        at,
    })
}
