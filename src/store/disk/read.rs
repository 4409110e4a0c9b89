//! Reading: from rows back to frames, from frames back to what was written, or a typed refusal.
//!
//! It trusts nothing: every frame is verified, and the log must be as long as its head row says.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::super::archive::{Extent, SegmentSize};
use super::super::contract::{Head, RunRow, StoreError, Stored};
use super::super::frame::{
    FrameError, ThreadKey, decode_row, decode_segment, frame_len, record as decode_body,
};
use super::super::kind::FrameKind;
use super::super::memory::hex;
use super::super::rows::{HeadRow, NameRow, NamedRun, StartRow};
use super::super::split::{Cut, Framed, decode_blob, open_record};
use super::super::wish::Wish;
use super::engine::{Place, Tree};
use super::keys::{Class, ROW_BYTES, Slot, end_of, first_thread, thread_of};
use super::vault::{Vault, body_len};
use crate::ids::{RunId, Seq, ThreadId};

pub(super) const THREAD_HINT: &str = "Other threads are not affected. Copy the store's folder, \
     then restore it from a backup, or go on without this thread: delete it";
pub(super) const STORE_HINT: &str = "Nothing was moved or removed. Copy the store's folder before \
     anything else, then restore it from a backup. Where only the end of its file was lost, removing the \
     file acknowledged in it lets what is left be opened";

/// The tree, for reading.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) tree: &'a dyn Tree,
    pub(super) place: &'a Place,
    pub(super) vault: &'a Vault,
}

impl View<'_> {
    /// How the thread stands; none if nothing of it is stored.
    pub(super) fn head_row(self, thread: &ThreadId) -> Result<Option<HeadRow>, StoreError> {
        let key = ThreadKey::of(thread);
        let place = || format!("the head of thread {thread}");
        let name = self.row::<NameRow>(key, &Slot::name(key), FrameKind::Name, &|| {
            format!("the name of thread {thread}")
        })?;
        let head = self.row::<HeadRow>(key, &Slot::head(key), FrameKind::Head, &place)?;
        match (name, head) {
            (Some(name), Some(head)) if name.thread == *thread => Ok(Some(head)),
            (Some(name), Some(_)) => Err(StoreError::Corrupt {
                place: format!("the name of thread {thread}"),
                found: format!("it is {}", name.thread),
                hint: THREAD_HINT,
            }),
            (None, None) if !self.any(key)? => Ok(None),
            (name, _) => Err(corrupt(
                place(),
                match name {
                    Some(_) => "the head row is missing",
                    None => "the name row is missing",
                },
            )),
        }
    }

    /// The same, and the log must end where the head row says.
    pub(super) fn standing(self, thread: &ThreadId) -> Result<Option<HeadRow>, StoreError> {
        let row = self.head_row(thread)?;
        if let Some(row) = &row {
            let last = Seq::new(row.next.get().saturating_sub(1));
            let key = ThreadKey::of(thread);
            if self.get(&Slot::record(key, last).row(0))?.is_none() {
                return Err(missing(thread, last, &self.start_row(thread)?));
            }
            self.ends(thread, row.next)?;
        }
        Ok(row)
    }

    /// At most `limit` records from `from` on.
    pub(super) fn records(
        self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        let mut all = Vec::new();
        self.walk(thread, from, limit, |seq, frame| {
            let place = || format!("record {seq} of thread {thread}");
            all.push(self.record(ThreadKey::of(thread), seq, frame, &place)?);
            Ok(())
        })?;
        Ok(all)
    }

    /// The record of a frame, with its long values.
    pub(super) fn record(
        self,
        key: ThreadKey,
        seq: Seq,
        frame: &[u8],
        place: &dyn Fn() -> String,
    ) -> Result<Stored, StoreError> {
        let fetch = |cut: &Cut, body: &mut Vec<u8>| self.blob(cut, body, place);
        record(key, seq, frame, place, fetch).map(|(stored, _)| stored)
    }

    /// Shows all records one after the other with the long values that they have, but without the bytes
    /// of these: zeros stand in their place.
    pub(super) fn outlines(
        self,
        thread: &ThreadId,
        mut show: impl FnMut(Stored, &[Cut]),
    ) -> Result<(), StoreError> {
        self.walk(thread, Seq::new(0), usize::MAX, |seq, frame| {
            let place = || format!("record {seq} of thread {thread}");
            let blank = |cut: &Cut, body: &mut Vec<u8>| {
                body.resize(body.len() + cut.bytes as usize, 0);
                Ok(())
            };
            let (stored, cuts) = record(ThreadKey::of(thread), seq, frame, &place, blank)?;
            show(stored, &cuts);
            Ok(())
        })
    }

    /// Shows the frames of the records one after the other.
    fn walk(
        self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
        mut show: impl FnMut(Seq, &[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Some(row) = self.head_row(thread)? else {
            return Ok(());
        };
        let key = ThreadKey::of(thread);
        let start = self.start_row(thread)?;
        for seq in start.seqs(from, row.next).take(limit) {
            let place = || format!("record {seq} of thread {thread}");
            let frame = self
                .frame(&Slot::record(key, seq), &place)?
                .ok_or_else(|| missing(thread, seq, &start))?;
            show(seq, &frame)?;
        }
        self.ends(thread, row.next)
    }

    /// Appends a long value that belongs to what stands at a place.
    fn blob(
        self,
        cut: &Cut,
        body: &mut Vec<u8>,
        place: &dyn Fn() -> String,
    ) -> Result<(), StoreError> {
        let here = || {
            let (place, id) = (place(), hex(&cut.id[..8]));
            format!("{place}, its value {id}… of {} bytes", cut.bytes)
        };
        let frame = self.frame(&Slot::blob(&cut.id), &here)?;
        let frame = frame.ok_or_else(|| corrupt(here(), "it is missing"))?;
        let bytes = decode_blob(&cut.id, &frame).map_err(|error| error.at(here(), THREAD_HINT))?;
        if bytes.len() as u64 != cut.bytes {
            return Err(corrupt(here(), format!("it has {}", bytes.len())));
        }
        body.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn start_row(self, thread: &ThreadId) -> Result<StartRow, StoreError> {
        let key = ThreadKey::of(thread);
        let place = || format!("the start of thread {thread}");
        let row = self.row::<StartRow>(key, &Slot::start(key), FrameKind::Start, &place)?;
        Ok(row.unwrap_or_else(StartRow::whole))
    }

    pub(super) fn segment(self, thread: &ThreadId, id: &[u8; 16]) -> Result<Arc<[u8]>, StoreError> {
        let place = || format!("segment {} of thread {thread}", hex(id));
        self.segment_of(ThreadKey::of(thread), id, &place)
    }

    pub(super) fn segment_of(
        self,
        key: ThreadKey,
        id: &[u8; 16],
        place: &dyn Fn() -> String,
    ) -> Result<Arc<[u8]>, StoreError> {
        let frame = self
            .frame(&Slot::segment(key, id), place)?
            .ok_or_else(|| corrupt(place(), "it is missing"))?;
        let bytes =
            decode_segment(key, id, &frame).map_err(|error| error.at(place(), THREAD_HINT))?;
        Ok(bytes.into())
    }

    pub(super) fn run(self, thread: &ThreadId, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        let key = ThreadKey::of(thread);
        let place = || format!("run {run} of thread {thread}");
        let row = self.row::<NamedRun>(key, &Slot::run(key, run), FrameKind::Run, &place)?;
        match row {
            Some(named) if named.run != *run => Err(StoreError::Corrupt {
                place: place(),
                found: format!("it is run {}", named.run),
                hint: THREAD_HINT,
            }),
            row => Ok(row.map(|named| named.row)),
        }
    }

    pub(super) fn wish(self, thread: &ThreadId) -> Result<Option<Wish>, StoreError> {
        let key = ThreadKey::of(thread);
        let place = || format!("the wish of thread {thread}");
        self.row::<Wish>(key, &Slot::wish(key), FrameKind::Wish, &place)
    }

    /// What a thread has, without its records.
    pub(super) fn extent(self, thread: &ThreadId) -> Result<Option<Extent>, StoreError> {
        // Whether the log ends there is seen when it is read.
        let Some(row) = self.head_row(thread)? else {
            return Ok(None);
        };
        let key = ThreadKey::of(thread);
        let start = self.start_row(thread)?;
        let mut runs = Vec::new();
        for (slot, _) in self.slots(&Slot::runs(key), thread)? {
            let place = || format!("a run of thread {thread}");
            let named = self
                .row::<NamedRun>(key, &slot, FrameKind::Run, &place)?
                .ok_or_else(|| corrupt(place(), "a row has gone"))?;
            if Slot::run(key, &named.run) != slot {
                return Err(corrupt(
                    format!("run {} of thread {thread}", named.run),
                    "it stands where another run belongs",
                ));
            }
            runs.push((named.run, named.row));
        }
        Extent::sort(&mut runs);
        let mut segments = Vec::new();
        for (slot, class) in self.slots(&Slot::segments(key), thread)? {
            let Class::Segment(id) = class else { continue };
            let place = || format!("segment {} of thread {thread}", hex(&id));
            let first = self.get(&slot.row(0))?;
            let first = first.ok_or_else(|| corrupt(place(), "a row has gone"))?;
            let len = frame_len(&first).map_err(|error| error.at(place(), THREAD_HINT))?;
            segments.push(SegmentSize {
                id,
                bytes: body_len(&first, len) as u64,
            });
        }
        Ok(Some(Extent {
            head: row.head,
            next: row.next,
            epoch: row.epoch,
            floor: Seq::new(start.floor),
            older: start.older.into_iter().map(Seq::new).collect(),
            runs,
            segments,
        }))
    }

    /// The slots whose keys begin like this, in order.
    pub(super) fn slots(
        self,
        prefix: &[u8],
        thread: &ThreadId,
    ) -> Result<Vec<(Slot, Class)>, StoreError> {
        let mut slots = Vec::new();
        for key in self.tree.beginning(prefix) {
            match Slot::parse(&key?) {
                Some((slot, class, 0)) => slots.push((slot, class)),
                Some(_) => {}
                None => {
                    return Err(corrupt(
                        format!("thread {thread}"),
                        "a key in it is none of a store's",
                    ));
                }
            }
        }
        Ok(slots)
    }

    /// All threads by name, in the order of their keys, and in its place what keeps a name from
    /// being read.
    pub(super) fn names(self) -> Result<Vec<Result<ThreadId, StoreError>>, StoreError> {
        let mut names = Vec::new();
        let mut from = first_thread().to_vec();
        while let Some(raw) = self.tree.keys(&from, None).next() {
            let raw = raw?;
            let Some(key) = thread_of(&raw) else {
                names.push(Err(corrupt(
                    self.place.to_string(),
                    "a key in it is none of a store's",
                )));
                // The next key after this one.
                from = [&raw, &[0][..]].concat();
                continue;
            };
            names.push(self.name(key));
            match end_of(key) {
                Some(next) => from = next.to_vec(),
                None => break,
            }
        }
        Ok(names)
    }

    /// The name of the thread with this key.
    pub(super) fn name(self, key: ThreadKey) -> Result<ThreadId, StoreError> {
        let place = || format!("the name of a thread with key {}", hex(key.as_bytes()));
        let name = self
            .row::<NameRow>(key, &Slot::name(key), FrameKind::Name, &place)?
            .ok_or_else(|| corrupt(place(), "the name row is missing"))?;
        if ThreadKey::of(&name.thread) != key {
            return Err(corrupt(place(), "the name belongs to another key"));
        }
        Ok(name.thread)
    }

    /// At most `limit` threads after `after`, in the order of their keys.
    pub(super) fn threads(
        self,
        after: Option<&ThreadId>,
        limit: usize,
    ) -> Result<Vec<(ThreadId, Head)>, StoreError> {
        let mut found = Vec::new();
        let mut from = match after.map(|thread| end_of(ThreadKey::of(thread))) {
            None => Some(first_thread()),
            Some(next) => next,
        };
        while let Some(begin) = from
            && found.len() < limit
            && let Some(raw) = self.tree.keys(&begin, None).next()
        {
            let key = thread_of(&raw?).ok_or_else(|| {
                corrupt(self.place.to_string(), "a key in it is none of a store's")
            })?;
            let thread = self.name(key)?;
            if let Some(row) = self.head_row(&thread)? {
                found.push((thread, row.head));
            }
            from = end_of(key);
        }
        Ok(found)
    }

    /// Puts the rows of a frame together again; none if there is no first row.
    pub(super) fn frame(
        self,
        slot: &Slot,
        place: &dyn Fn() -> String,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(first) = self.get(&slot.row(0))? else {
            return Ok(None);
        };
        let len = frame_len(&first).map_err(|error| error.at(place(), THREAD_HINT))?;
        let mut frame = Vec::with_capacity(len);
        frame.extend_from_slice(&first);
        for number in 1..len.div_ceil(ROW_BYTES) {
            let row = self.get(&slot.row(number as u16))?;
            frame.extend_from_slice(&row.ok_or_else(|| {
                corrupt(place(), format!("row {number} of the frame is missing"))
            })?);
        }
        self.vault.open(slot.thread(), frame, place).map(Some)
    }

    pub(super) fn contains(self, slot: &Slot) -> Result<bool, StoreError> {
        Ok(self.get(&slot.row(0))?.is_some())
    }

    pub(super) fn row<T: DeserializeOwned>(
        self,
        key: ThreadKey,
        slot: &Slot,
        kind: FrameKind,
        place: &dyn Fn() -> String,
    ) -> Result<Option<T>, StoreError> {
        let Some(frame) = self.frame(slot, place)? else {
            return Ok(None);
        };
        let (_, row) =
            decode_row(key, kind, &frame).map_err(|error| error.at(place(), THREAD_HINT))?;
        Ok(Some(row))
    }

    /// Whether anything is stored under a thread's key.
    fn any(self, key: ThreadKey) -> Result<bool, StoreError> {
        let first = self.tree.beginning(key.as_bytes()).next();
        Ok(first.transpose()?.is_some())
    }

    /// Nothing may stand behind the end of the log: it would be a record that the head lost.
    fn ends(self, thread: &ThreadId, next: Seq) -> Result<(), StoreError> {
        let key = ThreadKey::of(thread);
        let begin = Slot::record(key, next).row(0);
        let end = Slot::segments(key);
        match self.tree.keys(&begin, Some(&end)).next().transpose()? {
            None => Ok(()),
            Some(_) => Err(corrupt(
                format!("the head of thread {thread}"),
                format!("it says that the log ends before record {next}, but the log goes on"),
            )),
        }
    }

    fn get(self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.tree.get(key)
    }
}

/// Reads a record, and says which long values it has; `fetch` appends one.
fn record(
    key: ThreadKey,
    seq: Seq,
    frame: &[u8],
    place: &dyn Fn() -> String,
    fetch: impl FnMut(&Cut, &mut Vec<u8>) -> Result<(), StoreError>,
) -> Result<(Stored, Vec<Cut>), StoreError> {
    let at = |error: FrameError| error.at(place(), THREAD_HINT);
    match open_record(key, seq, frame).map_err(at)? {
        Framed::Whole(stored) => Ok((stored, Vec::new())),
        Framed::Split(header, parts) => {
            let body = parts.join(fetch)?;
            let stored = decode_body(header, &body).map_err(at)?;
            Ok((stored, parts.cuts))
        }
    }
}

pub(super) fn corrupt(place: String, found: impl Into<String>) -> StoreError {
    StoreError::Corrupt {
        place,
        found: found.into(),
        hint: THREAD_HINT,
    }
}

fn missing(thread: &ThreadId, seq: Seq, start: &StartRow) -> StoreError {
    let sound = start
        .seqs(Seq::new(0), seq)
        .filter(|kept| *kept < seq)
        .last();
    corrupt(
        format!("record {seq} of thread {thread}"),
        match sound {
            Some(sound) => format!("it is missing; the last record before it is {sound}"),
            None => "it is missing, and there is none before it".to_owned(),
        },
    )
}
