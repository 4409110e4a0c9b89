//! The same bytes, written without an engine: the least that a disk asks for.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use crate::clock::{Clock, Spent};
use crate::counted::Handed;
use crate::job::Outcome;

/// Bytes of a row: what the store on sled cuts into.
const ROW: usize = 4 << 10;
/// Bytes of a key: thread, kind, place.
const KEY: usize = 32;

type Writer = fn(&[Handed], &Path) -> Outcome<Spent>;

/// Who writes under this name, if it is one of the bare ones.
pub(crate) fn writer(store: &str) -> Option<Writer> {
    match store {
        "bare-append" => Some(append),
        "bare-sled" => Some(sled),
        _ => None,
    }
}

/// Each write is appended to one file, which is then synced.
fn append(writes: &[Handed], folder: &Path) -> Outcome<Spent> {
    fs::create_dir_all(folder)?;
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"))?;
    let bytes = noise(writes);
    let clock = Clock::start();
    for write in writes {
        file.write_all(&bytes[..write.total()])?;
        file.sync_data()?;
    }
    Ok(clock.stop())
}

/// Each write is one batch, a flush, and a sync of the file.
fn sled(writes: &[Handed], folder: &Path) -> Outcome<Spent> {
    let db = sled::open(folder)?;
    let file = File::open(folder.join("db"))?;
    let bytes = noise(writes);
    let clock = Clock::start();
    for (place, write) in writes.iter().enumerate() {
        let mut batch = sled::Batch::default();
        let mut kept = write.records + write.segments;
        let mut part = 0;
        while kept > 0 {
            let row = kept.min(ROW);
            batch.insert(key(place, part), &bytes[..row]);
            kept -= row;
            part += 1;
        }
        batch.insert([0; KEY].to_vec(), &bytes[..write.head]);
        db.apply_batch(batch)?;
        db.flush()?;
        file.sync_data()?;
    }
    Ok(clock.stop())
}

fn key(place: usize, part: usize) -> Vec<u8> {
    let mut key = vec![1; KEY];
    key[KEY - 16..KEY - 8].copy_from_slice(&(place as u64).to_be_bytes());
    key[KEY - 8..].copy_from_slice(&(part as u64).to_be_bytes());
    key
}

/// Bytes that do not repeat, as many as the largest write has.
fn noise(writes: &[Handed]) -> Vec<u8> {
    let most = writes.iter().map(Handed::total).max().unwrap_or(0);
    let mut state = 7_u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..most).map(next).collect()
}
