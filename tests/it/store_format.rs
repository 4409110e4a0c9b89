//! The stored format is what `docs/format.md` says, byte for byte.
//!
//! To add a golden file for a new kind, write it by the words of the contract first. A file that
//! is there never changes.

use std::fs;
use std::path::PathBuf;

use milepost::store::conformance::one_of_each;
use milepost::store::{
    FrameError, FrameHeader, FrameKind, HEADER_BYTES, Record, ThreadKey, decode_record, decode_row,
    decode_segment, encode_record, encode_row, encode_segment, frame_len, reframe, segment_id,
};
use milepost::{Branch, Epoch, Seq, ThreadId};

const NAMES: [&str; 16] = [
    "schema",
    "input",
    "started",
    "outcome",
    "commit",
    "base",
    "stopped",
    "step",
    "question",
    "answer",
    "timer",
    "compensation",
    "inner",
    "branch",
    "begun",
    "discarded",
];

fn key() -> ThreadKey {
    ThreadKey::of(&ThreadId::new("golden").unwrap())
}

fn frames() -> Vec<(&'static str, Seq, Record, Vec<u8>)> {
    NAMES
        .into_iter()
        .zip(one_of_each())
        .zip(1..)
        .map(|((name, record), seq)| {
            let seq = Seq::new(seq);
            let frame = encode_record(key(), seq, Branch::new(2), Epoch::new(3), &record).unwrap();
            (name, seq, record, frame)
        })
        .collect()
}

fn golden(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(format!("{name}.hex"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let digits: Vec<u8> = text.bytes().filter(|c| !c.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn every_record_kind_is_written_as_its_golden_bytes() {
    for (name, _, _, frame) in frames() {
        assert_eq!(hex(&frame), hex(&golden(name)), "{name}");
    }
}

#[test]
fn golden_bytes_are_read_as_the_records_they_were_made_of() {
    for (name, seq, record, _) in frames() {
        let stored = decode_record(key(), seq, &golden(name)).unwrap();
        assert_eq!(*stored.record, record, "{name}");
        assert_eq!(
            (stored.seq, stored.branch, stored.epoch),
            (seq, Branch::new(2), Epoch::new(3))
        );
    }
}

#[test]
fn the_header_stands_where_the_contract_says() {
    let (_, _, _, frame) = frames().swap_remove(2);
    assert_eq!(&frame[..4], b"MPST");
    assert_eq!(frame[4..8], [3, 1, 1, 0], "kind, codec, version");
    assert_eq!(frame[8..16], 3u64.to_le_bytes(), "seq");
    assert_eq!(frame[16..24], 3u64.to_le_bytes(), "epoch");
    assert_eq!(frame[24..28], 2u32.to_le_bytes(), "branch");
    assert_eq!(frame[28..32], 24u32.to_le_bytes(), "length");
    let mut covered = blake3::Hasher::new();
    covered.update(&blake3::hash(b"golden").as_bytes()[..16]);
    covered.update(&frame[..32]);
    covered.update(&frame[48..]);
    assert_eq!(frame[32..48], covered.finalize().as_bytes()[..16]);
    assert_eq!(frame[48..52], 2u32.to_le_bytes(), "the case, kind - 1");
    assert_eq!(frame.len(), HEADER_BYTES + 24);
}

#[test]
fn a_frame_cut_anywhere_is_corrupt() {
    for (name, seq, _, frame) in frames() {
        for len in 0..frame.len() {
            let told = decode_record(key(), seq, &frame[..len]);
            assert!(matches!(told, Err(FrameError::Corrupt(_))), "{name} {len}");
        }
        let longer = [&frame[..], &[0]].concat();
        let told = decode_record(key(), seq, &longer);
        assert!(matches!(told, Err(FrameError::Corrupt(_))), "{name} longer");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_corrupt() {
    for (name, seq, _, mut frame) in frames() {
        for place in 0..frame.len() {
            for bit in 0..8 {
                frame[place] ^= 1 << bit;
                let told = decode_record(key(), seq, &frame);
                assert!(
                    matches!(told, Err(FrameError::Corrupt(_))),
                    "{name} byte {place} bit {bit}: {told:?}"
                );
                frame[place] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn a_record_of_another_thread_or_place_is_corrupt() {
    let other = ThreadKey::of(&ThreadId::new("other").unwrap());
    for (_, seq, record, frame) in frames() {
        assert!(decode_record(other, seq, &frame).is_err());
        assert!(decode_record(key(), seq.next(), &frame).is_err());
        let moved = reframe(key(), other, &frame).unwrap();
        assert_eq!(*decode_record(other, seq, &moved).unwrap().record, record);
        assert!(decode_record(key(), seq, &moved).is_err());
    }
}

/// Seals bytes by the words of the contract, without the crate.
fn sealed(mut frame: Vec<u8>) -> Vec<u8> {
    let mut covered = blake3::Hasher::new();
    covered.update(&blake3::hash(b"golden").as_bytes()[..16]);
    covered.update(&frame[..32]);
    covered.update(&frame[48..]);
    frame[32..48].copy_from_slice(&covered.finalize().as_bytes()[..16]);
    frame
}

#[test]
fn a_sound_frame_of_a_newer_program_is_newer_and_not_corrupt() {
    let (_, seq, _, mut frame) = frames().swap_remove(0);
    frame[6] = 9;
    frame[4] = 200;
    let told = decode_record(key(), seq, &sealed(frame));
    assert_eq!(told, Err(FrameError::Newer(9)));
}

#[test]
fn a_sealed_frame_that_makes_no_sense_is_corrupt() {
    let (_, seq, _, frame) = frames().swap_remove(2);
    let broken: [fn(&mut Vec<u8>); 7] = [
        |frame| frame[4] = 0,
        |frame| frame[4] = 15,
        |frame| frame[4] = 4,
        |frame| frame[5] = 0,
        |frame| frame[6] = 0,
        |frame| frame[48] = 200,
        |frame| {
            frame.push(0);
            frame[28] += 1;
        },
    ];
    for (number, change) in broken.into_iter().enumerate() {
        let mut frame = frame.clone();
        change(&mut frame);
        let told = decode_record(key(), seq, &sealed(frame));
        assert!(
            matches!(told, Err(FrameError::Corrupt(_))),
            "{number}: {told:?}"
        );
    }
    // A length that no memory has.
    let mut frame = frames().swap_remove(3).3;
    frame[60..68].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(decode_record(key(), Seq::new(4), &sealed(frame)).is_err());
}

#[test]
fn a_segment_is_raw_bytes_with_a_header() {
    let frame = encode_segment(key(), b"items").unwrap();
    assert_eq!(hex(&frame), hex(&golden("segment")));
    assert_eq!(frame_len(&frame), Ok(frame.len()));
    let id = segment_id(b"items");
    assert_eq!(decode_segment(key(), &id, &frame), Ok(&b"items"[..]));
    assert!(decode_segment(key(), &segment_id(b"other"), &frame).is_err());
    for place in 0..frame.len() {
        let mut frame = frame.clone();
        frame[place] ^= 1;
        assert!(decode_segment(key(), &id, &frame).is_err(), "byte {place}");
    }
}

#[test]
fn a_row_of_one_kind_is_not_read_as_another() {
    let row = encode_row(key(), FrameHeader::row(FrameKind::Run), &7u64).unwrap();
    assert!(decode_row::<u64>(key(), FrameKind::Run, &row).is_ok());
    assert!(decode_row::<u64>(key(), FrameKind::Head, &row).is_err());
    assert!(decode_row::<u32>(key(), FrameKind::Run, &row).is_err());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
