//! Frames of records, rows and segments, and the records inside of records.
//!
//! A checksum refuses nearly everything, so bodies are changed and sealed again as well: what a
//! reader makes of bytes that verify and make no sense.

use std::hash::{DefaultHasher, Hash, Hasher};

use milepost::store::conformance::{one_of_each, sample_head};
use milepost::store::{
    FrameError, FrameHeader, FrameKind, HEADER_BYTES, Head, Record, RunRow, ThreadKey, Wish,
    decode_record, decode_row, decode_segment, encode_record, encode_row, encode_segment,
    frame_len, reframe, segment_id,
};
use milepost::{Branch, Epoch, RunId, Seq, ThreadId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::corpus::{keep, play};

const SEQ: Seq = Seq::new(7);

fn key() -> ThreadKey {
    ThreadKey::of(&ThreadId::new("fuzz").unwrap())
}

/// Writes length and checksum anew, by the words of `docs/format.md`.
fn seal(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut frame = bytes.to_vec();
    if frame.len() < HEADER_BYTES {
        return None;
    }
    let body = (frame.len() - HEADER_BYTES) as u32;
    frame[..4].copy_from_slice(b"MPST");
    frame[28..32].copy_from_slice(&body.to_le_bytes());
    let mut hasher = blake3::Hasher::new();
    hasher.update(key().as_bytes());
    hasher.update(&frame[..32]);
    hasher.update(&frame[HEADER_BYTES..]);
    frame[32..48].copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    Some(frame)
}

/// As they are, and sealed again; the latter also with a header that fits.
fn sealed(bytes: &[u8], sound: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![bytes.to_vec()];
    all.extend(seal(bytes));
    if bytes.len() > HEADER_BYTES {
        let fits = [&sound[..HEADER_BYTES], &bytes[HEADER_BYTES..]].concat();
        all.extend(seal(&fits));
    }
    all
}

fn record(frame: &[u8]) {
    let _ = frame_len(frame);
    match decode_record(key(), SEQ, frame) {
        Ok(stored) => {
            let again = encode_record(key(), SEQ, stored.branch, stored.epoch, &stored.record);
            assert!(again.unwrap() == frame, "it is written as other bytes");
            if let Record::Inner(inner) = &*stored.record
                && let Ok((path, inside)) = inner.open()
            {
                let _ = (path.to_string(), inside);
            }
            let moved = reframe(key(), ThreadKey::from_bytes([9; 16]), frame).unwrap();
            assert!(decode_record(key(), SEQ, &moved).is_err());
        }
        Err(FrameError::Corrupt(why)) => assert!(!why.is_empty()),
        Err(FrameError::Newer(version)) => assert!(version > 1),
        Err(error) => panic!("{error}"),
    }
    // Never as that of another thread.
    assert!(decode_record(ThreadKey::from_bytes([1; 16]), SEQ, frame).is_err());
}

#[test]
fn records() {
    let samples: Vec<_> = one_of_each()
        .iter()
        .enumerate()
        .map(|(number, record)| {
            let frame = encode_record(key(), SEQ, Branch::new(2), Epoch::new(3), record).unwrap();
            (
                format!("{number:02}-{}", FrameKind::of(record).number()),
                frame,
            )
        })
        .collect();
    keep("record", &samples);
    play("record", 12_000, |bytes| {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        // A header of any kind over a body of any other.
        let sound = &samples[hasher.finish() as usize % samples.len()].1;
        let kind = bytes.get(HEADER_BYTES).map(|case| usize::from(*case));
        let own = kind.and_then(|case| samples.get(case)).map(|own| &own.1);
        for sound in [Some(sound), own].into_iter().flatten() {
            sealed(bytes, sound).iter().for_each(|frame| record(frame));
        }
    });
}

fn rows<T: Serialize + DeserializeOwned>(kind: FrameKind, name: &str, row: &T) {
    let frame = encode_row(key(), FrameHeader::row(kind), row).unwrap();
    keep(&format!("row-{name}"), &[("00".to_owned(), frame.clone())]);
    play(&format!("row-{name}"), 2_000, |bytes| {
        for frame in sealed(bytes, &frame) {
            match decode_row::<T>(key(), kind, &frame) {
                Ok((header, row)) => {
                    assert!(encode_row(key(), header, &row).unwrap() == frame);
                }
                Err(FrameError::Corrupt(_) | FrameError::Newer(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
}

/// The rows beside a log, as the tuples of their fields: bincode has no names.
#[test]
fn rows_beside_the_log() {
    let head: (Seq, Epoch, Head) = (Seq::new(15), Epoch::new(3), sample_head());
    rows(FrameKind::Head, "head", &head);
    rows(FrameKind::Name, "name", &ThreadId::new("a name").unwrap());
    let row = RunRow {
        input: Seq::new(2),
        end: Some(Seq::new(5)),
        status: milepost::store::Status::Finished,
    };
    rows(FrameKind::Run, "run", &(RunId::new("run-1").unwrap(), row));
    rows(FrameKind::Start, "start", &(5u64, vec![1u64, 2, 4]));
    let wish = Wish {
        run: "run-1".to_owned(),
        kind: milepost::store::WishKind::Drain,
        at_ms: 5,
        reason: "the host goes down".to_owned(),
    };
    rows(FrameKind::Wish, "wish", &wish);
}

#[test]
fn segments() {
    let bytes = b"some bytes of a segment".repeat(7);
    let frame = encode_segment(key(), &bytes).unwrap();
    keep("segment", &[("00".to_owned(), frame.clone())]);
    let id = segment_id(&bytes);
    play("segment", 4_000, |changed| {
        for frame in sealed(changed, &frame) {
            match decode_segment(key(), &id, &frame) {
                Ok(found) => assert_eq!(found, bytes),
                Err(FrameError::Corrupt(_) | FrameError::Newer(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
}
