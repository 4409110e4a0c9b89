//! Frames: how a record, a head, a name, a run or a segment becomes bytes and comes back.
//!
//! In come plain structs and where they belong, out go bytes that say what they are, and the
//! other way round with a typed refusal of whatever is not exactly that. A store keeps frames and
//! never looks inside; `docs/format.md` is the contract, and nothing here changes without it.

use std::io;

use bincode::Options;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::contract::{StoreError, Stored};
use super::guard::short_hash;
use super::kind::FrameKind;
use super::record::Record;
use crate::ids::{Branch, Epoch, Seq, ThreadId};

/// The newest format version that this program reads. A frame is written in the lowest version that has
/// what is in it.
pub const FORMAT_VERSION: u16 = 2;

/// How many bytes a frame has before its body.
pub const HEADER_BYTES: usize = 48;

/// The most bytes that a body may have.
pub const MAX_BODY_BYTES: usize = 64 << 20;

const MAGIC: [u8; 4] = *b"MPST";
/// Where the checksum stands: the end of the header.
const SUM: std::ops::Range<usize> = 32..48;
const CODEC_RAW: u8 = 0;
pub(super) const CODEC_BINCODE: u8 = 1;
/// Another codec inside: the first byte of the body says which.
pub(super) const CODEC_ENCRYPTED: u8 = 2;
/// bincode without its long values, which lie elsewhere.
pub(super) const CODEC_SPLIT: u8 = 3;

/// The 16 bytes that stand for a thread in keys and checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadKey([u8; 16]);

impl ThreadKey {
    /// The key of a thread: the first 16 bytes of the BLAKE3 hash of its id.
    pub fn of(thread: &ThreadId) -> Self {
        Self(short_hash(thread.as_str().as_bytes()))
    }

    /// The key as it was read from a store.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// What a frame says about its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// What the body is.
    pub kind: FrameKind,
    /// The place in the log; 0 where there is none.
    pub seq: Seq,
    /// The branch; 0 where there is none.
    pub branch: Branch,
    /// The epoch of the writer; 0 where there is none.
    pub epoch: Epoch,
}

impl FrameHeader {
    /// The header of a row that has no place in the log.
    pub const fn row(kind: FrameKind) -> Self {
        Self {
            kind,
            seq: Seq::new(0),
            branch: Branch::new(0),
            epoch: Epoch::new(0),
        }
    }
}

/// Why bytes are not the frame that was expected. The store adds the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The bytes cannot be trusted.
    #[error("{0}")]
    Corrupt(String),
    /// The frame is sound, but a newer program wrote it.
    #[error("format version {0}, known is {FORMAT_VERSION}")]
    Newer(u16),
    /// A body does not fit into a frame.
    #[error("a body has {0} bytes or more, a frame takes {MAX_BODY_BYTES}")]
    TooLarge(u64),
}

impl FrameError {
    /// The same as the error of a store, with the place that the caller knows.
    pub fn at(self, place: impl Into<String>, hint: &'static str) -> StoreError {
        match self {
            Self::Newer(found) => StoreError::Newer {
                place: place.into(),
                found: found.into(),
                known: FORMAT_VERSION.into(),
            },
            other => StoreError::Corrupt {
                place: place.into(),
                found: other.to_string(),
                hint,
            },
        }
    }
}

/// Puts a record into a frame.
///
/// # Errors
/// [`FrameError::TooLarge`].
pub fn encode_record(
    thread: ThreadKey,
    seq: Seq,
    branch: Branch,
    epoch: Epoch,
    record: &Record,
) -> Result<Vec<u8>, FrameError> {
    let kind = FrameKind::of(record);
    encode_row(
        thread,
        FrameHeader {
            kind,
            seq,
            branch,
            epoch,
        },
        record,
    )
}

/// How many bytes a record has as a body; the most that a body may have for one that has more.
pub(crate) fn body_len(record: &Record) -> usize {
    let size = strict().serialized_size(record);
    size.map_or(MAX_BODY_BYTES, |size| size as usize)
}

/// Takes the record out of a frame that must be that of `thread` and `seq`.
///
/// # Errors
/// [`FrameError::Corrupt`], [`FrameError::Newer`].
pub fn decode_record(thread: ThreadKey, seq: Seq, bytes: &[u8]) -> Result<Stored, FrameError> {
    let (header, body) = open(thread, bytes)?;
    in_place(header, seq)?;
    record(header, body)
}

/// Refuses a frame that belongs to another place of the log.
pub(super) fn in_place(header: FrameHeader, seq: Seq) -> Result<(), FrameError> {
    match header.seq == seq {
        true => Ok(()),
        false => Err(corrupt(format!(
            "expected record {seq}, found record {}",
            header.seq
        ))),
    }
}

/// Reads a record from its body.
pub(super) fn record(header: FrameHeader, body: &[u8]) -> Result<Stored, FrameError> {
    let record: Record = from_body(body)?;
    if FrameKind::of(&record) != header.kind {
        return Err(corrupt(format!(
            "the frame says kind {}, its body is of kind {}",
            header.kind.number(),
            FrameKind::of(&record).number()
        )));
    }
    Ok(Stored {
        seq: header.seq,
        branch: header.branch,
        epoch: header.epoch,
        record: record.into(),
    })
}

/// Puts a row into a frame.
///
/// # Errors
/// [`FrameError::TooLarge`].
pub fn encode_row<T: Serialize>(
    thread: ThreadKey,
    header: FrameHeader,
    row: &T,
) -> Result<Vec<u8>, FrameError> {
    encode_sized(thread, header, row, size_of(row)?)
}

/// The same, where the length of the body is known.
pub(super) fn encode_sized<T: Serialize>(
    thread: ThreadKey,
    header: FrameHeader,
    row: &T,
    size: u64,
) -> Result<Vec<u8>, FrameError> {
    let mut frame = Vec::with_capacity(HEADER_BYTES + size as usize);
    frame.resize(HEADER_BYTES, 0);
    write(&mut frame, row, size)?;
    Ok(seal(thread, header, CODEC_BINCODE, frame))
}

/// How long the body of a row is.
pub(super) fn size_of<T: Serialize>(row: &T) -> Result<u64, FrameError> {
    strict()
        .serialized_size(row)
        .map_err(|_| FrameError::TooLarge(MAX_BODY_BYTES as u64))
}

/// Writes the body of a row.
pub(super) fn write<T: Serialize>(
    to: &mut impl io::Write,
    row: &T,
    size: u64,
) -> Result<(), FrameError> {
    strict()
        .serialize_into(to, row)
        .map_err(|_| FrameError::TooLarge(size))
}

/// Takes a row out of a frame that must be of this kind.
///
/// # Errors
/// [`FrameError::Corrupt`], [`FrameError::Newer`].
pub fn decode_row<T: DeserializeOwned>(
    thread: ThreadKey,
    kind: FrameKind,
    bytes: &[u8],
) -> Result<(FrameHeader, T), FrameError> {
    let (header, body) = open(thread, bytes)?;
    expect_kind(header, kind)?;
    Ok((header, from_body(body)?))
}

/// Puts a segment's bytes into a frame.
///
/// # Errors
/// [`FrameError::TooLarge`].
pub fn encode_segment(thread: ThreadKey, bytes: &[u8]) -> Result<Vec<u8>, FrameError> {
    encode_raw(thread, FrameKind::Segment, bytes)
}

/// Puts bytes into a frame as they are.
pub(super) fn encode_raw(
    thread: ThreadKey,
    kind: FrameKind,
    bytes: &[u8],
) -> Result<Vec<u8>, FrameError> {
    if bytes.len() > MAX_BODY_BYTES {
        return Err(FrameError::TooLarge(bytes.len() as u64));
    }
    let mut frame = Vec::with_capacity(HEADER_BYTES + bytes.len());
    frame.resize(HEADER_BYTES, 0);
    frame.extend_from_slice(bytes);
    Ok(seal(thread, FrameHeader::row(kind), CODEC_RAW, frame))
}

/// Takes a segment's bytes out of a frame; they must have this id.
///
/// # Errors
/// [`FrameError::Corrupt`], [`FrameError::Newer`].
pub fn decode_segment<'a>(
    thread: ThreadKey,
    id: &[u8; 16],
    bytes: &'a [u8],
) -> Result<&'a [u8], FrameError> {
    let (header, body) = open(thread, bytes)?;
    expect_kind(header, FrameKind::Segment)?;
    if short_hash(body) != *id {
        return Err(corrupt("the bytes are not those of the segment's id"));
    }
    Ok(body)
}

/// Puts a body into a frame under a codec: `frame` has room for the header before it.
#[cfg(feature = "encryption")]
pub(crate) fn wrap(
    thread: ThreadKey,
    header: FrameHeader,
    codec: u8,
    frame: Vec<u8>,
) -> Result<Vec<u8>, FrameError> {
    let body = frame.len().saturating_sub(HEADER_BYTES);
    if body > MAX_BODY_BYTES {
        return Err(FrameError::TooLarge(body as u64));
    }
    Ok(seal(thread, header, codec, frame))
}

/// Takes a frame apart whatever the codec of its body is.
pub(crate) fn unwrap(
    thread: ThreadKey,
    frame: &[u8],
) -> Result<(FrameHeader, u8, &[u8]), FrameError> {
    let expected = frame_len(frame)?;
    if frame.len() != expected {
        return Err(corrupt(format!(
            "a frame of {expected} bytes has {}",
            frame.len()
        )));
    }
    // Before anything else is believed, the version included: what a newer program wrote is
    // sealed in the same way, what is damaged is not.
    if checksum(thread, frame) != frame[SUM] {
        return Err(corrupt(
            "the checksum does not match: the bytes were altered, or belong to another thread",
        ));
    }
    let version = u16::from_le_bytes(array(frame, 6));
    if version > FORMAT_VERSION {
        return Err(FrameError::Newer(version));
    }
    let kind = FrameKind::parse(frame[4])
        .filter(|kind| version == version_of(*kind, codec_of(frame)))
        .ok_or_else(|| corrupt(format!("no kind {} in version {version}", frame[4])))?;
    let header = FrameHeader {
        kind,
        seq: Seq::new(u64::from_le_bytes(array(frame, 8))),
        epoch: Epoch::new(u64::from_le_bytes(array(frame, 16))),
        branch: Branch::new(u32::from_le_bytes(array(frame, 24))),
    };
    Ok((header, frame[5], &frame[HEADER_BYTES..]))
}

/// Seals a frame of one thread anew for another, its body untouched.
///
/// # Errors
/// [`FrameError::Corrupt`], [`FrameError::Newer`].
pub fn reframe(from: ThreadKey, to: ThreadKey, bytes: &[u8]) -> Result<Vec<u8>, FrameError> {
    let (header, codec, _) = unwrap(from, bytes)?;
    // What a record lacks is the same for its copy.
    if codec != CODEC_SPLIT {
        open(from, bytes)?;
    }
    Ok(seal(to, header, codec, bytes.to_vec()))
}

/// How long the frame is that begins with these bytes, its header included.
///
/// For a store that cuts frames into rows: it knows from the first row how many follow. The
/// header is not verified here, so the answer is a claim that the whole frame has to confirm.
///
/// # Errors
/// [`FrameError::Corrupt`] if these bytes do not begin a frame.
pub fn frame_len(first: &[u8]) -> Result<usize, FrameError> {
    if first.len() < HEADER_BYTES {
        return Err(corrupt(format!(
            "a frame has at least {HEADER_BYTES} bytes, found {}",
            first.len()
        )));
    }
    if first[..4] != MAGIC {
        return Err(corrupt("the bytes do not begin like a frame"));
    }
    let body = u32::from_le_bytes(array(first, 28)) as usize;
    if body > MAX_BODY_BYTES {
        return Err(corrupt(format!(
            "a body of {body} bytes is above the limit"
        )));
    }
    Ok(HEADER_BYTES + body)
}

/// Writes the header before the body that `frame` holds already.
pub(super) fn seal(
    thread: ThreadKey,
    header: FrameHeader,
    codec: u8,
    mut frame: Vec<u8>,
) -> Vec<u8> {
    let body = (frame.len() - HEADER_BYTES) as u32;
    frame[..4].copy_from_slice(&MAGIC);
    frame[4] = header.kind.number();
    frame[5] = codec;
    let version = version_of(header.kind, codec_of(&frame));
    frame[6..8].copy_from_slice(&version.to_le_bytes());
    frame[8..16].copy_from_slice(&header.seq.get().to_le_bytes());
    frame[16..24].copy_from_slice(&header.epoch.get().to_le_bytes());
    frame[24..28].copy_from_slice(&header.branch.get().to_le_bytes());
    frame[28..32].copy_from_slice(&body.to_le_bytes());
    let sum = checksum(thread, &frame);
    frame[SUM].copy_from_slice(&sum);
    frame
}

/// The codec of a body, under its encryption.
fn codec_of(frame: &[u8]) -> u8 {
    match (frame[5], frame.get(HEADER_BYTES)) {
        (CODEC_ENCRYPTED, Some(inside)) => *inside,
        (codec, _) => codec,
    }
}

/// The lowest version that has this.
fn version_of(kind: FrameKind, codec: u8) -> u16 {
    match (kind, codec) {
        (FrameKind::Blob, _) | (_, CODEC_SPLIT) => 2,
        _ => 1,
    }
}

/// Verifies a frame and takes it apart; its body has all that belongs to it.
pub(super) fn open(thread: ThreadKey, frame: &[u8]) -> Result<(FrameHeader, &[u8]), FrameError> {
    let (header, found, body) = unwrap(thread, frame)?;
    let codec = match header.kind {
        FrameKind::Segment | FrameKind::Blob => CODEC_RAW,
        _ => CODEC_BINCODE,
    };
    if found != codec {
        return Err(corrupt(format!("expected codec {codec}, found {found}")));
    }
    Ok((header, body))
}

pub(super) fn expect_kind(header: FrameHeader, kind: FrameKind) -> Result<(), FrameError> {
    if header.kind == kind {
        return Ok(());
    }
    Err(corrupt(format!(
        "expected kind {}, found {}",
        kind.number(),
        header.kind.number()
    )))
}

/// Covers the thread, so that a frame that was moved to another thread is found.
fn checksum(thread: ThreadKey, frame: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(thread.as_bytes());
    hasher.update(&frame[..SUM.start]);
    hasher.update(&frame[SUM.end..]);
    array(hasher.finalize().as_bytes(), 0)
}

fn from_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    strict()
        .deserialize(body)
        .map_err(|error| corrupt(format!("the body does not decode: {error}")))
}

fn strict() -> impl Options {
    bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .reject_trailing_bytes()
        .with_limit(MAX_BODY_BYTES as u64)
}

fn corrupt(found: impl Into<String>) -> FrameError {
    FrameError::Corrupt(found.into())
}

fn array<const N: usize>(bytes: &[u8], from: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[from..from + N]);
    array
}
