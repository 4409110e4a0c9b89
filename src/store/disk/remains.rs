//! Reading a damaged thread: every row that verifies, whatever its head, its name or its neighbours
//! look like.

use std::collections::{BTreeMap, HashSet};

use super::super::archive::{Extent, segments_of};
use super::super::contract::StoreError;
use super::super::finding::Spot;
use super::super::frame::ThreadKey;
use super::super::kind::FrameKind;
use super::super::remains::{Owner, Remains};
use super::super::rows::{HeadRow, NameRow, NamedRun, StartRow};
use super::keys::{Class, Slot, end_of, first_thread, thread_of};
use super::read::{View, corrupt};
use crate::ids::Seq;

impl View<'_> {
    /// Whose rows there are, in the order of their keys.
    pub(super) fn owners(self) -> Vec<Result<Owner, StoreError>> {
        let mut owners = Vec::new();
        let mut from = first_thread().to_vec();
        loop {
            let next = || self.tree.keys(&from, None).next().transpose();
            let raw = match self.place.guarded(next) {
                Ok(Some(raw)) => raw,
                Ok(None) => break,
                Err(error) => {
                    owners.push(Err(error));
                    break;
                }
            };
            let Some(key) = thread_of(&raw) else {
                let place = self.place.to_string();
                owners.push(Err(corrupt(place, "a key in it is none of a store's")));
                // The next key after this one.
                from = [&raw, &[0][..]].concat();
                continue;
            };
            owners.push(Ok(match self.place.guarded(|| self.name(key)) {
                Ok(thread) => Owner::Thread(thread),
                Err(_) => Owner::Nameless(key),
            }));
            match end_of(key) {
                Some(next) => from = next.to_vec(),
                None => break,
            }
        }
        owners
    }

    /// Whatever of a thread verifies.
    pub(super) fn remains(self, owner: &Owner) -> Result<Remains, StoreError> {
        let key = match owner {
            Owner::Thread(thread) => ThreadKey::of(thread),
            Owner::Nameless(key) => *key,
        };
        let mut remains = Remains::of(owner.clone());
        let slots = self.rows_of(key, &mut remains)?;
        if slots.is_empty() && remains.faults.is_empty() {
            return Ok(remains);
        }
        let place = || "the name".to_owned();
        match self.whole::<NameRow>(key, &Slot::name(key), FrameKind::Name, &place) {
            Ok(Some(_)) => {}
            Ok(None) => remains.fault(Spot::Thread, &corrupt(place(), "it is missing")),
            Err(error) => remains.note(Spot::Thread, &error)?,
        }
        let place = || "the head".to_owned();
        let head = match self.whole::<HeadRow>(key, &Slot::head(key), FrameKind::Head, &place) {
            Ok(Some(head)) => Some(head),
            Ok(None) => {
                remains.fault(Spot::Head, &corrupt(place(), "it is missing"));
                None
            }
            Err(error) => {
                remains.note(Spot::Head, &error)?;
                None
            }
        };
        let place = || "the start".to_owned();
        let start = match self.whole::<StartRow>(key, &Slot::start(key), FrameKind::Start, &place) {
            Ok(start) => Some(start.unwrap_or_else(StartRow::whole)),
            Err(error) => {
                remains.note(Spot::Thread, &error)?;
                None
            }
        };
        self.pieces(key, &slots, &mut remains)?;
        if let (Some(head), Some(start)) = (&head, &start) {
            self.compare(head, start, &mut remains);
        }
        remains.head = head.map(|row| row.head);
        for id in segments_of(&remains.records) {
            let place = || "the segment".to_owned();
            match self.place.guarded(|| self.segment_of(key, &id, &place)) {
                Ok(bytes) => remains.segments.push((id, bytes)),
                Err(error) => remains.note(Spot::Segment(id), &error)?,
            }
        }
        Ok(remains)
    }

    /// The slots of which any row is there, in order.
    fn rows_of(
        self,
        key: ThreadKey,
        remains: &mut Remains,
    ) -> Result<BTreeMap<Slot, Class>, StoreError> {
        let mut slots = BTreeMap::new();
        let mut keys = self.tree.beginning(key.as_bytes());
        loop {
            match self.place.guarded(|| keys.next().transpose()) {
                Ok(None) => return Ok(slots),
                Ok(Some(raw)) => match Slot::parse(&raw) {
                    Some((slot, class, _)) => drop(slots.insert(slot, class)),
                    None => {
                        let error = corrupt("a key".to_owned(), "it is none of a store's");
                        remains.fault(Spot::Thread, &error);
                    }
                },
                Err(error) => {
                    remains.note(Spot::Thread, &error)?;
                    return Ok(slots);
                }
            }
        }
    }

    /// Reads records and runs, one by one.
    fn pieces(
        self,
        key: ThreadKey,
        slots: &BTreeMap<Slot, Class>,
        remains: &mut Remains,
    ) -> Result<(), StoreError> {
        for (slot, class) in slots {
            if let Class::Record(seq) = *class {
                let place = || "the record".to_owned();
                let read = || {
                    let frame = self.frame(slot, &place)?;
                    let frame =
                        frame.ok_or_else(|| corrupt(place(), "its first row is missing"))?;
                    self.record(key, seq, &frame, &place)
                };
                match self.place.guarded(read) {
                    Ok(stored) => remains.records.push(stored),
                    Err(error) => remains.note(Spot::Record(seq), &error)?,
                }
            } else if slot.is_run() {
                let place = || "a run".to_owned();
                match self.whole::<NamedRun>(key, slot, FrameKind::Run, &place) {
                    Ok(Some(named)) if Slot::run(key, &named.run) == *slot => {
                        remains.runs.push((named.run, named.row));
                    }
                    Ok(_) => {
                        let error = corrupt(place(), "it stands where another run belongs");
                        remains.fault(Spot::Thread, &error);
                    }
                    Err(error) => remains.note(Spot::Thread, &error)?,
                }
            }
        }
        Extent::sort(&mut remains.runs);
        Ok(())
    }

    /// Compares the records with what the rows beside them say that there is.
    fn compare(self, head: &HeadRow, start: &StartRow, remains: &mut Remains) {
        let read: HashSet<Seq> = remains.records.iter().map(|stored| stored.seq).collect();
        let seqs = start.seqs(Seq::new(1), head.next);
        remains.missing = Some(seqs.filter(|seq| !read.contains(seq)).collect());
        if let Some(last) = remains.records.last().map(|stored| stored.seq)
            && last >= head.next
        {
            let what = format!(
                "it says that the log ends before record {}, but the log goes on to {last}",
                head.next
            );
            remains.fault(Spot::Head, &corrupt("the head".to_owned(), what));
        }
    }

    /// Reads a row; a panic of the engine is damage like any other.
    fn whole<T: serde::de::DeserializeOwned>(
        self,
        key: ThreadKey,
        slot: &Slot,
        kind: FrameKind,
        place: &dyn Fn() -> String,
    ) -> Result<Option<T>, StoreError> {
        self.place.guarded(|| self.row(key, slot, kind, place))
    }
}
