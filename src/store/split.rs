//! Records whose long values lie elsewhere.
//!
//! In comes a record, out go its frame without its long byte strings and these, each by the hash of its
//! bytes; and the other way round. What a value means, and where it is kept, is not known here.

use std::io;

use super::contract::Stored;
use super::frame::{
    CODEC_BINCODE, CODEC_SPLIT, FrameError, FrameHeader, HEADER_BYTES, MAX_BODY_BYTES, ThreadKey,
    decode_record, encode_raw, encode_sized, expect_kind, in_place, open, seal, size_of, unwrap,
    write,
};
use super::kind::FrameKind;
use super::record::Record;
use crate::ids::{Branch, Epoch, Seq};

/// The key of what belongs to no thread.
pub(crate) const NO_THREAD: ThreadKey = ThreadKey::from_bytes([0; 16]);

/// The bytes of a [`Cut`] before the rest of a body.
const CUT_BYTES: usize = 8 + 8 + 32;

/// The id of a long value: the BLAKE3 hash of its bytes.
pub(crate) type BlobId = [u8; 32];

/// A long value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) id: BlobId,
    pub(crate) bytes: Vec<u8>,
}

/// Where a long value belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Before which byte of what is left.
    at: u64,
    pub(crate) bytes: u64,
    pub(crate) id: BlobId,
}

/// Puts a record into a frame, without its values that are longer than `over`.
pub(crate) fn split_record(
    thread: ThreadKey,
    (seq, branch, epoch): (Seq, Branch, Epoch),
    record: &Record,
    over: usize,
) -> Result<(Vec<u8>, Vec<Blob>), FrameError> {
    let header = FrameHeader {
        kind: FrameKind::of(record),
        seq,
        branch,
        epoch,
    };
    let size = size_of(record)?;
    if size <= over as u64 {
        let frame = encode_sized(thread, header, record, size)?;
        return Ok((frame, Vec::new()));
    }
    let mut splitter = Splitter::new(over);
    write(&mut splitter, record, size)?;
    let mut frame = vec![0; HEADER_BYTES];
    let blobs = splitter.finish(&mut frame);
    let codec = match blobs.is_empty() {
        true => CODEC_BINCODE,
        false => CODEC_SPLIT,
    };
    Ok((seal(thread, header, codec, frame), blobs))
}

/// A record's frame, verified.
#[derive(Debug)]
pub(crate) enum Framed<'a> {
    /// All of it is there.
    Whole(Stored),
    /// It lacks values.
    Split(FrameHeader, Parts<'a>),
}

/// Takes apart a frame that must be that of `thread` and `seq`.
pub(crate) fn open_record(
    thread: ThreadKey,
    seq: Seq,
    frame: &[u8],
) -> Result<Framed<'_>, FrameError> {
    let (header, codec, body) = unwrap(thread, frame)?;
    if codec != CODEC_SPLIT {
        return decode_record(thread, seq, frame).map(Framed::Whole);
    }
    in_place(header, seq)?;
    Ok(Framed::Split(header, Parts::parse(body, MAX_BODY_BYTES)?))
}

/// Puts a long value into a frame, which belongs to no thread.
pub(crate) fn encode_blob(bytes: &[u8]) -> Result<Vec<u8>, FrameError> {
    encode_raw(NO_THREAD, FrameKind::Blob, bytes)
}

/// Takes a long value out of a frame; it must have this id.
pub(crate) fn decode_blob<'a>(id: &BlobId, frame: &'a [u8]) -> Result<&'a [u8], FrameError> {
    let (header, bytes) = open(NO_THREAD, frame)?;
    expect_kind(header, FrameKind::Blob)?;
    match blake3::hash(bytes).as_bytes() == id {
        true => Ok(bytes),
        false => Err(FrameError::Corrupt(
            "the bytes are not those of the value's id".to_owned(),
        )),
    }
}

/// Takes a body as it is written, and leaves out what is longer than `over`.
///
/// A byte string comes here in one piece, after its length. So everything that is fixed in size stays,
/// and equal values are left out as equal bytes, whatever stands around them.
#[derive(Debug)]
pub(crate) struct Splitter {
    over: usize,
    rest: Vec<u8>,
    cuts: Vec<Cut>,
    blobs: Vec<Blob>,
}

impl Splitter {
    pub(crate) fn new(over: usize) -> Self {
        Self {
            over,
            rest: Vec::new(),
            cuts: Vec::new(),
            blobs: Vec::new(),
        }
    }

    /// Appends the body to a frame. Returns what was left out, each value once; none where the body is
    /// whole.
    pub(crate) fn finish(mut self, frame: &mut Vec<u8>) -> Vec<Blob> {
        if !self.cuts.is_empty() {
            frame.extend_from_slice(&(self.cuts.len() as u32).to_le_bytes());
            for cut in &self.cuts {
                frame.extend_from_slice(&cut.at.to_le_bytes());
                frame.extend_from_slice(&cut.bytes.to_le_bytes());
                frame.extend_from_slice(&cut.id);
            }
        }
        frame.append(&mut self.rest);
        self.blobs
    }
}

impl io::Write for Splitter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() <= self.over {
            self.rest.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        let id = *blake3::hash(bytes).as_bytes();
        self.cuts.push(Cut {
            at: self.rest.len() as u64,
            bytes: bytes.len() as u64,
            id,
        });
        if !self.blobs.iter().any(|known| known.id == id) {
            self.blobs.push(Blob {
                id,
                bytes: bytes.to_vec(),
            });
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A body with what it lacks.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) cuts: Vec<Cut>,
    rest: &'a [u8],
    whole: usize,
}

impl<'a> Parts<'a> {
    /// Reads a body that lacks something, and is at most so long with it.
    pub(crate) fn parse(body: &'a [u8], most: usize) -> Result<Self, FrameError> {
        let wrong = |what: &str| FrameError::Corrupt(format!("the body lacks values: {what}"));
        let (count, body) = body
            .split_first_chunk::<4>()
            .ok_or_else(|| wrong("their number is cut off"))?;
        let count = u32::from_le_bytes(*count) as usize;
        let table = count
            .checked_mul(CUT_BYTES)
            .filter(|table| *table <= body.len());
        let table = table.ok_or_else(|| wrong("their list is cut off"))?;
        let (table, rest) = body.split_at(table);
        let mut cuts: Vec<Cut> = Vec::with_capacity(count);
        let mut whole = rest.len() as u64;
        for entry in table.chunks_exact(CUT_BYTES) {
            let cut = Cut {
                at: number(entry, 0),
                bytes: number(entry, 8),
                id: entry[16..].try_into().unwrap_or_default(),
            };
            let rises = cuts.last().is_none_or(|last| last.at <= cut.at);
            whole = whole.saturating_add(cut.bytes);
            if !rises || cut.at > rest.len() as u64 || whole > most as u64 {
                return Err(wrong("their list is in no order, or too long"));
            }
            cuts.push(cut);
        }
        match cuts.is_empty() {
            true => Err(wrong("none is listed")),
            false => Ok(Self {
                cuts,
                rest,
                whole: whole as usize,
            }),
        }
    }

    /// Puts the body together. `fetch` appends one value.
    pub(crate) fn join<E>(
        &self,
        mut fetch: impl FnMut(&Cut, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Vec<u8>, E> {
        let mut body = Vec::with_capacity(self.whole);
        let mut from = 0;
        for cut in &self.cuts {
            let at = cut.at as usize;
            body.extend_from_slice(&self.rest[from..at]);
            from = at;
            fetch(cut, &mut body)?;
        }
        body.extend_from_slice(&self.rest[from..]);
        Ok(body)
    }
}

fn number(entry: &[u8], from: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&entry[from..from + 8]);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::collections::HashMap;
    use std::io::Write;

    use proptest::prelude::*;

    use super::super::memory::hex;
    use super::super::record::QuestionRecord;
    use super::*;
    use crate::ids::ThreadId;

    fn joined(parts: &Parts<'_>, blobs: &[Blob]) -> Vec<u8> {
        let known: HashMap<BlobId, &[u8]> = blobs
            .iter()
            .map(|blob| (blob.id, &blob.bytes[..]))
            .collect();
        let fetch = |cut: &Cut, body: &mut Vec<u8>| {
            assert_eq!(known[&cut.id].len() as u64, cut.bytes);
            body.extend_from_slice(known[&cut.id]);
            Ok::<_, ()>(())
        };
        parts.join(fetch).unwrap()
    }

    proptest! {
        /// Whatever is written in whatever pieces comes back, and no damage of it is a panic.
        #[test]
        fn what_is_split_is_joined(
            pieces in prop::collection::vec(prop::collection::vec(0..3_u8, 0..24), 0..12),
            place in any::<prop::sample::Index>(),
            bit in 0..8_u8,
        ) {
            let mut splitter = Splitter::new(8);
            for piece in &pieces {
                splitter.write_all(piece).unwrap();
            }
            let mut body = Vec::new();
            let blobs = splitter.finish(&mut body);
            let whole = pieces.concat();
            if blobs.is_empty() {
                prop_assert_eq!(body, whole);
                return Ok(());
            }
            let long = pieces.iter().filter(|piece| piece.len() > 8);
            prop_assert_eq!(Parts::parse(&body, 1 << 20).unwrap().cuts.len(), long.count());
            prop_assert_eq!(joined(&Parts::parse(&body, 1 << 20).unwrap(), &blobs), whole.clone());
            prop_assert!(Parts::parse(&body, whole.len() - 1).is_err());
            let cut = place.index(body.len());
            let _ = Parts::parse(&body[..cut], 1 << 20);
            body[cut] ^= 1 << bit;
            if let Ok(parts) = Parts::parse(&body, 1 << 20) {
                let _ = parts.join(|_, _| Ok::<_, ()>(()));
            }
        }
    }

    #[test]
    fn equal_values_are_left_out_once() {
        let mut splitter = Splitter::new(2);
        for piece in [b"one", b"two", b"one"] {
            splitter.write_all(piece).unwrap();
        }
        let mut body = Vec::new();
        let blobs = splitter.finish(&mut body);
        assert_eq!(blobs.len(), 2);
        let parts = Parts::parse(&body, 100).unwrap();
        assert_eq!(joined(&parts, &blobs), b"onetwoone");
    }

    fn golden(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|c| !c.is_ascii_whitespace()).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    const SPLIT: &str = include_str!("../../tests/data/split.hex");
    const BLOB: &str = include_str!("../../tests/data/blob.hex");

    /// A record of which three values are too long, two of them the same.
    fn question() -> Record {
        Record::Question(QuestionRecord {
            task: "3:pay[0]".into(),
            key: "a key of more bytes than may stand here".into(),
            type_name: "shop::Approve".into(),
            answer: "bool".into(),
            value: b"a value that is longer than the limit allows".to_vec(),
            expires_ms: Some(1_700_000_900_000),
            default: Some(b"a value that is longer than the limit allows".to_vec()),
        })
    }

    fn key() -> ThreadKey {
        ThreadKey::of(&ThreadId::new("golden").unwrap())
    }

    #[test]
    fn a_record_without_its_long_values_is_written_as_its_golden_bytes() {
        let place = (Seq::new(9), Branch::new(2), Epoch::new(3));
        let (frame, blobs) = split_record(key(), place, &question(), 32).unwrap();
        assert_eq!(hex(&frame), hex(&golden(SPLIT)));
        assert_eq!(frame[4..8], [9, 3, 2, 0], "kind, codec, version");
        let [_, long] = &blobs[..] else {
            panic!("{} values", blobs.len())
        };
        let blob = encode_blob(&long.bytes).unwrap();
        assert_eq!(hex(&blob), hex(&golden(BLOB)));
        assert_eq!(blob[4..8], [70, 0, 2, 0], "kind, codec, version");
    }

    #[test]
    fn golden_bytes_with_long_values_are_read_as_the_record_they_were_made_of() {
        let (split, blob) = (golden(SPLIT), golden(BLOB));
        let Framed::Split(header, parts) = open_record(key(), Seq::new(9), &split).unwrap() else {
            panic!("it lacks nothing")
        };
        assert_eq!(
            (header.branch, header.epoch),
            (Branch::new(2), Epoch::new(3))
        );
        let body = parts.join(|cut, body| {
            match body.ends_with(&39_u64.to_le_bytes()) {
                true => body.extend_from_slice(b"a key of more bytes than may stand here"),
                false => body.extend_from_slice(decode_blob(&cut.id, &blob)?),
            }
            Ok::<_, FrameError>(())
        });
        assert_eq!(
            *super::super::frame::record(header, &body.unwrap())
                .unwrap()
                .record,
            question()
        );
    }

    /// In both frames, and none of it panics.
    #[test]
    fn a_flipped_bit_in_golden_bytes_with_long_values_is_refused() {
        let (split, blob) = (golden(SPLIT), golden(BLOB));
        let id = *blake3::hash(&blob[HEADER_BYTES..]).as_bytes();
        let harmed = |frame: &[u8], refused: &dyn Fn(&[u8]) -> bool| {
            for place in 0..frame.len() {
                for bit in 0..8 {
                    let mut frame = frame.to_vec();
                    frame[place] ^= 1 << bit;
                    assert!(refused(&frame), "byte {place} bit {bit}");
                }
                assert!(refused(&frame[..place]), "cut off at {place}");
            }
            assert!(!refused(frame));
        };
        harmed(&split, &|frame| {
            open_record(key(), Seq::new(9), frame).is_err()
        });
        harmed(&blob, &|frame| decode_blob(&id, frame).is_err());
    }
}
