//! Bodies whose long values lie elsewhere.
//!
//! In comes a row that is written as a body, out go the body without its long byte strings and these,
//! each by the hash of its bytes; and the other way round. What a value means, and where it is kept, is
//! not known here.

use std::io;

use super::frame::FrameError;

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
        let table = count.checked_mul(CUT_BYTES).filter(|table| *table <= body.len());
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

    use super::*;

    fn joined(parts: &Parts<'_>, blobs: &[Blob]) -> Vec<u8> {
        let known: HashMap<BlobId, &[u8]> =
            blobs.iter().map(|blob| (blob.id, &blob.bytes[..])).collect();
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
}
