//! A thread's history as a test remembers it, to compare with what a store says.

use std::sync::Arc;

use milepost::store::conformance::{one_of_each, sample_head};
use milepost::store::{
    CheckpointStore, Head, Record, StoreError, Stored, StoredBase, StoredChange, Take, Write,
};
use milepost::{Branch, Seq, ThreadId};

pub(crate) fn thread(name: &str) -> ThreadId {
    ThreadId::new(name).unwrap()
}

/// A commit that says which one it is.
pub(crate) fn commit(step: u64, bytes: usize) -> Record {
    let mut record = one_of_each().swap_remove(4);
    let Record::Commit(commit) = &mut record else {
        unreachable!("the fifth sample is a commit");
    };
    commit.step = step;
    commit.outcomes.truncate(1);
    commit.timers.clear();
    let milepost::store::OutcomeRef::At(_) = commit.outcomes[0] else {
        unreachable!("the first outcome of the sample is a reference");
    };
    let milepost::store::Record::Outcome(mut outcome) = one_of_each().swap_remove(3) else {
        unreachable!("the fourth sample is an outcome");
    };
    outcome.changes = vec![StoredChange {
        field: "notes".into(),
        codec: 1,
        base: StoredBase::Keep,
        merges: vec![
            (0..bytes)
                .map(|place| (place as u64 * 7 + step) as u8)
                .collect(),
        ]
        .into(),
    }]
    .into();
    commit.outcomes = vec![milepost::store::OutcomeRef::Inline(outcome)].into();
    record
}

#[derive(Debug)]
pub(crate) struct History {
    pub(crate) thread: ThreadId,
    pub(crate) log: Vec<Stored>,
    pub(crate) head: Option<Head>,
}

impl History {
    pub(crate) fn new(thread: &ThreadId) -> Self {
        Self {
            thread: thread.clone(),
            log: Vec::new(),
            head: None,
        }
    }

    /// Adds commits of so many bytes, each in a write of its own; a schema and an input first.
    pub(crate) async fn grow(&mut self, store: &dyn CheckpointStore, steps: u64, bytes: usize) {
        let claim = store.claim(&self.thread, Take::IfFree).await.unwrap();
        assert_eq!(claim.next.get(), self.log.len() as u64 + 1);
        assert_eq!(claim.head, self.head);
        for _ in 0..steps {
            let first = self.log.len() as u64 + 1;
            let records = match first {
                1 => {
                    let mut records = one_of_each();
                    records.truncate(2);
                    records.push(commit(3, bytes));
                    records
                }
                _ => vec![commit(first, bytes)],
            };
            let last = first + records.len() as u64 - 1;
            let head = Head {
                seq: Seq::new(last),
                base: Seq::new(0),
                step: last,
                ..sample_head()
            };
            let write = Write {
                fulfils: None,
                thread: self.thread.clone(),
                epoch: claim.epoch,
                branch: Branch::new(0),
                expected: self.head.as_ref().map(|head| head.seq).unwrap_or_default(),
                first: Seq::new(first),
                records: records.clone(),
                segments: Vec::new(),
                head: head.clone(),
                run: None,
            };
            store.append(write).await.unwrap();
            self.head = Some(head);
            self.log.extend(
                records
                    .into_iter()
                    .zip(first..)
                    .map(|(record, seq)| Stored {
                        seq: Seq::new(seq),
                        branch: Branch::new(0),
                        epoch: claim.epoch,
                        record: Arc::new(record),
                    }),
            );
        }
        store.release(&self.thread, claim.epoch);
    }

    /// The store has exactly this.
    pub(crate) async fn check(&self, store: &dyn CheckpointStore) {
        let found = store.records(&self.thread, Seq::new(0), usize::MAX).await;
        let found = found.unwrap();
        assert_eq!(found.len(), self.log.len(), "{}", self.thread);
        assert!(found == self.log, "{}", self.thread);
        assert_eq!(store.head(&self.thread).await.unwrap(), self.head);
    }

    /// The store has this, the beginning of this, or says that it is damaged.
    pub(crate) async fn check_prefix(
        &self,
        store: &dyn CheckpointStore,
    ) -> Result<usize, StoreError> {
        store.head(&self.thread).await?;
        let found = store.records(&self.thread, Seq::new(0), usize::MAX).await?;
        assert!(
            self.log.starts_with(&found),
            "{} has other records than were written",
            self.thread
        );
        Ok(found.len())
    }
}
