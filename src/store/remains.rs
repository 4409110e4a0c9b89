//! What can still be read of a thread whose store was damaged, piece by piece.
//!
//! In comes a store, out goes whatever verifies, and in its place what does not. Nothing is changed,
//! repaired or put together here; that is the business of [`salvage`](super::salvage).

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::archive::{Extent, segments_of};
use super::contract::{CheckpointStore, Head, RunRow, StoreError, Stored};
use super::finding::Spot;
use super::frame::ThreadKey;
use super::memory::hex;
use super::record::Record;
use crate::ids::{RunId, Seq, ThreadId};

/// How many records are read at once.
const PAGE: usize = 256;

/// Whose the pieces are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Owner {
    /// A thread that can be named.
    Thread(ThreadId),
    /// A thread whose name cannot be read: the hash of it is all that is left.
    Nameless(ThreadKey),
}

impl Owner {
    /// The name under which a thread is put into another store: its own, or `lost-` and its key.
    pub fn name(&self) -> ThreadId {
        match self {
            Self::Thread(thread) => thread.clone(),
            Self::Nameless(key) => ThreadId::new(format!("lost-{}", hex(key.as_bytes())))
                .expect("the name has 37 characters"),
        }
    }
}

/// What can still be read of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remains {
    /// Whose it is.
    pub owner: Owner,
    /// How the thread stood, if that can be read.
    pub head: Option<Head>,
    /// The run rows that can be read.
    pub runs: Vec<(RunId, RunRow)>,
    /// The records that can be read, in order.
    pub records: Vec<Stored>,
    /// The segments that can be read.
    pub segments: Vec<([u8; 16], Arc<[u8]>)>,
    /// What is there, or should be, and cannot be read: where, and why.
    pub faults: Vec<(Spot, String)>,
    /// Which records should be there and cannot be read; none where it is not known which there were.
    pub missing: Option<BTreeSet<Seq>>,
}

impl Remains {
    /// Of what nothing was read yet.
    pub fn of(owner: Owner) -> Self {
        Self {
            owner,
            head: None,
            runs: Vec::new(),
            records: Vec::new(),
            segments: Vec::new(),
            faults: Vec::new(),
            missing: None,
        }
    }

    /// Takes note of damage; passes on what is none.
    pub(super) fn note(&mut self, place: Spot, error: &StoreError) -> Result<(), StoreError> {
        damage(error)?;
        self.fault(place, error);
        Ok(())
    }

    /// Takes note of something that cannot be read.
    pub(super) fn fault(&mut self, place: Spot, error: &StoreError) {
        let what = match error {
            StoreError::Corrupt {
                place: of, found, ..
            } => match place {
                Spot::Thread => format!("{of} is damaged: {found}"),
                _ => found.clone(),
            },
            error => error.to_string(),
        };
        self.faults.push((place, what));
    }
}

/// Reads what a store's other operations can read of a thread.
///
/// # Errors
/// What is no damage: an error of the system, a closed store.
pub(super) async fn read<C: CheckpointStore + ?Sized>(
    store: &C,
    owner: &Owner,
) -> Result<Remains, StoreError> {
    let mut remains = Remains::of(owner.clone());
    let Owner::Thread(thread) = owner else {
        return Ok(remains);
    };
    match store.extent(thread).await {
        Ok(None) => return Ok(remains),
        Ok(Some(extent)) => {
            remains.head = Some(extent.head.clone());
            remains.runs = extent.runs.clone();
            records(store, thread, Some(&extent), &mut remains).await?;
            let read: HashSet<Seq> = remains.records.iter().map(|one| one.seq).collect();
            remains.missing = Some(extent.seqs().filter(|seq| !read.contains(seq)).collect());
        }
        Err(error) => {
            remains.note(Spot::Thread, &error)?;
            // Where a run row or a segment is damaged, the rest may still be sound.
            match store.head(thread).await {
                Ok(head) => remains.head = head,
                Err(error) => damage(&error)?,
            }
            if remains.head.is_some() {
                records(store, thread, None, &mut remains).await?;
                runs(store, thread, &mut remains).await?;
            }
        }
    }
    for id in segments_of(&remains.records) {
        match store.segments(thread, &[id]).await {
            Ok(found) => remains
                .segments
                .extend(found.into_iter().map(|one| (id, one))),
            Err(error) => {
                remains.note(Spot::Segment(id), &error)?;
            }
        }
    }
    Ok(remains)
}

/// Passes on whatever is no damage: another try, or a key, could put it right.
pub(super) fn damage(error: &StoreError) -> Result<(), StoreError> {
    match error {
        StoreError::Corrupt { .. } | StoreError::Newer { .. } => Ok(()),
        error => Err(error.clone()),
    }
}

/// Reads all records that can be read: in pages, and where one is damaged, one by one.
async fn records<C: CheckpointStore + ?Sized>(
    store: &C,
    thread: &ThreadId,
    extent: Option<&Extent>,
    remains: &mut Remains,
) -> Result<(), StoreError> {
    // Where the end of the log is not known, damage may go on for a while behind the head.
    let head = remains.head.as_ref().map_or(0, |head| head.seq.get());
    let end = extent.map_or(Seq::new(head + PAGE as u64), |extent| extent.next);
    let mut from = Seq::new(1);
    while from < end {
        let error = match store.records(thread, from, PAGE).await {
            Ok(page) => {
                let Some(last) = page.last() else {
                    return Ok(());
                };
                from = last.seq.next();
                remains.records.extend(page);
                continue;
            }
            Err(error) => error,
        };
        damage(&error)?;
        let begin = from;
        let seqs: Vec<Seq> = match extent {
            Some(extent) => extent
                .seqs()
                .filter(|seq| *seq >= begin)
                .take(PAGE)
                .collect(),
            None => (begin.get()..end.get()).take(PAGE).map(Seq::new).collect(),
        };
        from = seqs.last().map_or(end, |last| last.next());
        let mut said = None;
        for seq in seqs {
            match store.records(thread, seq, 1).await {
                // Where a prune has dropped some, the next is found more than once.
                Ok(one) => remains
                    .records
                    .extend(one.into_iter().filter(|stored| stored.seq == seq)),
                Err(error) => {
                    damage(&error)?;
                    let says = error.to_string();
                    if said.as_ref() != Some(&says) {
                        remains.fault(Spot::Record(seq), &error);
                        said = Some(says);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Reads the rows of the runs that records tell of, one by one.
async fn runs<C: CheckpointStore + ?Sized>(
    store: &C,
    thread: &ThreadId,
    remains: &mut Remains,
) -> Result<(), StoreError> {
    let told = remains
        .records
        .iter()
        .filter_map(|stored| match &*stored.record {
            Record::Input(input) => RunId::new(&input.run).ok(),
            _ => None,
        });
    for run in told.collect::<Vec<_>>() {
        match store.run(thread, &run).await {
            Ok(row) => remains.runs.extend(row.map(|row| (run, row))),
            Err(error) => {
                remains.note(Spot::Run(run), &error)?;
            }
        }
    }
    Ok(())
}
