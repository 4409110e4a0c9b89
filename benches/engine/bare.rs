//! Writes without an engine: the least that a disk asks for.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use crate::counted::Handed;
use crate::job::Outcome;

/// Bytes of a row: what the stores cut into.
const ROW: usize = 4 << 10;
/// Bytes of a key: thread, kind, place.
const KEY: usize = 32;

/// Writes as many bytes as were handed to a store, durably.
pub(crate) trait Bare: Debug + Send {
    fn write(&mut self, handed: Handed) -> io::Result<()>;
}

/// Each write is appended to one file, which is then synced.
#[derive(Debug)]
pub(crate) struct Append(File);

impl Append {
    pub(crate) fn open(folder: &Path) -> Outcome<Self> {
        fs::create_dir_all(folder)?;
        let how = File::options().create(true).append(true).to_owned();
        Ok(Self(how.open(folder.join("log"))?))
    }
}

impl Bare for Append {
    fn write(&mut self, handed: Handed) -> io::Result<()> {
        self.0.write_all(&noise(handed.total()))?;
        self.0.sync_data()
    }
}

/// Each write is one batch, a flush, and a sync of the file.
#[derive(Debug)]
pub(crate) struct Sled {
    db: sled::Db,
    file: File,
    writes: u64,
}

impl Sled {
    pub(crate) fn open(folder: &Path) -> Outcome<Self> {
        Ok(Self {
            db: sled::open(folder)?,
            file: File::open(folder.join("db"))?,
            writes: 0,
        })
    }

    fn key(&self, part: u64) -> Vec<u8> {
        let mut key = vec![1; KEY];
        key[KEY - 16..KEY - 8].copy_from_slice(&self.writes.to_be_bytes());
        key[KEY - 8..].copy_from_slice(&part.to_be_bytes());
        key
    }
}

impl Bare for Sled {
    fn write(&mut self, handed: Handed) -> io::Result<()> {
        let mut batch = sled::Batch::default();
        let kept = noise(handed.records + handed.segments);
        for (part, row) in (0..).zip(kept.chunks(ROW)) {
            batch.insert(self.key(part), row);
        }
        batch.insert(vec![0; KEY], noise(handed.head));
        self.writes += 1;
        self.db.apply_batch(batch)?;
        self.db.flush()?;
        self.file.sync_data()
    }
}

/// Bytes without a pattern.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..count).map(next).collect()
}
