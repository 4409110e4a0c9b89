//! Bases: the whole state, with its long values in sealed segments.
//!
//! A list is cut greedily from its start, so a segment that is sealed stays what it is while the
//! list grows at its end, and is never written again. A keyed collection is cut where an item's
//! hash says so, so that a change inside moves only the cuts around it. Any other value that is long
//! is cut into pieces, which are written again only where its bytes have changed.

use std::collections::HashSet;

use super::record::Unstorable;
use crate::state::{AnyField, Layout, State};
use crate::store::{BaseField, BaseValue, SegmentRef};

/// The most bytes of a segment (design §6). An item that is larger has one of its own.
const SEGMENT_BYTES: usize = 64 << 10;
/// A keyed segment may be cut from here on, where an item's hash ends in zeros.
const KEYED_BYTES: usize = 16 << 10;
/// A value without items is kept in the base up to here: what every base may repeat of it. A longer
/// one is written once for each time it changes.
const WHOLE_BYTES: usize = 4 << 10;

/// What is known of the sealed segments of each field: the way to write only what is new.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    fields: Vec<Sealed>,
    /// Whether there are none: a base holds every value itself.
    whole: bool,
}

#[derive(Debug, Default, Clone)]
struct Sealed {
    list: Vec<SegmentRef>,
    /// Whether the sealed part of a list may have changed inside since the last base.
    touched: bool,
}

/// Whether the segments of a base are the pieces of one value, and not items of a collection: a
/// piece has no items, and every segment of a collection has some.
pub(crate) fn in_pieces(sealed: &[SegmentRef]) -> bool {
    sealed.first().is_some_and(|segment| segment.items == 0)
}

/// A segment to be written: its id and its bytes.
pub(crate) type NewSegment = ([u8; 16], Vec<u8>);

impl Segments {
    /// None at all: every base holds every value itself.
    pub(crate) fn whole() -> Self {
        Self {
            whole: true,
            ..Self::default()
        }
    }

    pub(crate) fn are_whole(&self) -> bool {
        self.whole
    }

    /// Takes over what the newest base says.
    pub(crate) fn load<S: State>(base: &[BaseField]) -> Self {
        let sealed = |field: &&'static dyn AnyField<S>| {
            let stored = base.iter().find(|stored| field.is_called(&stored.field));
            let list = match stored.map(|stored| &stored.value) {
                // What another reducer has cut is not a beginning of what this one cuts.
                Some(BaseValue::Items { sealed, .. })
                    if in_pieces(sealed) == (field.reducer().layout == Layout::Whole) =>
                {
                    sealed.clone()
                }
                _ => Vec::new(),
            };
            Sealed {
                list,
                touched: false,
            }
        };
        Self {
            fields: S::fields().iter().map(sealed).collect(),
            whole: false,
        }
    }

    /// Notes that a field was set past its reducer: its sealed items may be gone.
    pub(crate) fn touch<S: State>(&mut self, field: &str) {
        self.fields.resize(S::fields().len(), Sealed::default());
        if let Some(place) = S::fields().iter().position(|known| known.is_called(field)) {
            self.fields[place].touched = true;
        }
    }

    /// Cuts a state into a base and the segments that are new.
    pub(crate) fn cut<S: State>(
        &mut self,
        state: &S,
    ) -> Result<(Vec<BaseField>, Vec<NewSegment>), Unstorable> {
        self.fields.resize(S::fields().len(), Sealed::default());
        let mut fresh = Vec::new();
        let mut fields = Vec::with_capacity(S::fields().len());
        let whole = self.whole;
        for (field, sealed) in S::fields().iter().zip(&mut self.fields) {
            let fault = |why| (field.name().to_owned(), why);
            let value = match field.reducer().layout {
                _ if whole => BaseValue::Whole(field.encode_value(state).map_err(fault)?),
                Layout::Whole => {
                    let bytes = field.encode_value(state).map_err(fault)?;
                    if bytes.len() <= WHOLE_BYTES {
                        sealed.list.clear();
                        BaseValue::Whole(bytes)
                    } else {
                        let mut cutter = Cutter::new(Vec::new(), false);
                        cutter.known = sealed.list.iter().map(|segment| segment.id).collect();
                        for piece in bytes.chunks(SEGMENT_BYTES) {
                            cutter.open.extend_from_slice(piece);
                            cutter.seal();
                        }
                        cutter.finish(sealed, &mut fresh)
                    }
                }
                Layout::List => {
                    if std::mem::take(&mut sealed.touched) {
                        sealed.list.clear();
                    }
                    let skip: u64 = sealed.list.iter().map(|segment| segment.items).sum();
                    let mut cutter = Cutter::new(std::mem::take(&mut sealed.list), false);
                    let skip = usize::try_from(skip).unwrap_or(usize::MAX);
                    field
                        .encode_items(state, skip, &mut |item| cutter.add(item))
                        .map_err(fault)?;
                    cutter.finish(sealed, &mut fresh)
                }
                Layout::Keyed => {
                    let mut cutter = Cutter::new(Vec::new(), true);
                    cutter.known = sealed.list.iter().map(|segment| segment.id).collect();
                    field
                        .encode_items(state, 0, &mut |item| cutter.add(item))
                        .map_err(fault)?;
                    cutter.finish(sealed, &mut fresh)
                }
            };
            let codec = field.codec().number();
            fields.push(BaseField {
                field: field.name().to_owned(),
                codec,
                value,
            });
        }
        Ok((fields, fresh))
    }
}

struct Cutter {
    keyed: bool,
    known: HashSet<[u8; 16]>,
    sealed: Vec<SegmentRef>,
    fresh: Vec<NewSegment>,
    open: Vec<u8>,
    items: u64,
}

impl Cutter {
    fn new(sealed: Vec<SegmentRef>, keyed: bool) -> Self {
        let known = HashSet::new();
        Self {
            keyed,
            known,
            sealed,
            fresh: Vec::new(),
            open: Vec::new(),
            items: 0,
        }
    }

    fn add(&mut self, item: &[u8]) {
        if self.items > 0 && self.open.len() + item.len() > SEGMENT_BYTES {
            self.seal();
        }
        self.open.extend_from_slice(item);
        self.items += 1;
        let cut = self.keyed
            && self.open.len() >= KEYED_BYTES
            && blake3::hash(item).as_bytes()[0] & 0x0f == 0;
        if cut {
            self.seal();
        }
    }

    fn seal(&mut self) {
        let bytes = std::mem::take(&mut self.open);
        let mut id = [0; 16];
        id.copy_from_slice(&blake3::hash(&bytes).as_bytes()[..16]);
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.sealed.push(SegmentRef {
            id,
            items: std::mem::take(&mut self.items),
            bytes: size,
        });
        if self.known.insert(id) {
            self.fresh.push((id, bytes));
        }
    }

    fn finish(self, sealed: &mut Sealed, fresh: &mut Vec<NewSegment>) -> BaseValue {
        fresh.extend(self.fresh);
        sealed.list.clone_from(&self.sealed);
        BaseValue::Items {
            sealed: self.sealed,
            tail: self.open,
            tail_items: self.items,
        }
    }
}
