//! fjall's journals, looked at before fjall is: it cuts a journal off at the first thing that it
//! cannot read, and with that what comes after.
//!
//! In come the files as they lie there, out goes the number of the last whole batch in them, or a
//! refusal. Nothing is written, and what the entries hold is not verified: fjall does that, and
//! refuses where it finds damage.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::super::super::contract::StoreError;
use super::super::engine::Place;
use super::super::marker;

/// How an entry begins.
const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;

/// The kinds of items: a row, or that there is none any more.
const REMOVED: u8 = 1;

/// What follows the checksum of a batch.
const TRAILER: [u8; 4] = *b"FJL\x03";

/// Where the sorted files are.
const TABLES: &str = "keyspaces/1/tables";

/// The most bytes that one reading of a file brings.
const PIECE: usize = 64 << 10;

/// Refuses where the journals show that acknowledged writes would be cut off. `sorted` says how far the
/// sorted files go; it is asked only where no journal tells.
pub(super) fn check(
    place: &Place,
    data: &Path,
    noted: Option<u64>,
    sorted: impl FnOnce() -> Result<u64, StoreError>,
) -> Result<(), StoreError> {
    let unread = |source| place.failed("reading the journal of", source);
    let mut journals = journals(data).map_err(unread)?;
    let active = journals.pop();
    let mut last = None;
    for (number, path) in &journals {
        let end = Journal::open(path).and_then(|mut journal| {
            let batch = journal.read()?;
            Ok((batch, journal.at, journal.ended()?))
        });
        let (batch, at, is_over) = end.map_err(unread)?;
        // It was synced as a whole before the next one was begun.
        if !is_over {
            return Err(place.damaged(format!(
                "its journal {number}.jnl cannot be read from byte {at} on"
            )));
        }
        last = batch.or(last);
    }
    let mut is_cut = false;
    if let Some((_, path)) = active {
        let end = Journal::open(&path).and_then(|mut journal| {
            let batch = journal.read()?;
            Ok((batch, journal.ended()?))
        });
        let (batch, is_over) = end.map_err(unread)?;
        last = batch.or(last);
        is_cut = !is_over;
    }
    if last.is_none() {
        // What is in no journal may have been moved into a sorted file already. Where nothing would be
        // cut off, it is told early enough by the open tree.
        let is_sorted = data.join(TABLES).read_dir().map_err(unread)?.any(|_| true);
        last = match (is_sorted, noted) {
            (false, _) => Some(0),
            (true, Some(_)) if is_cut => Some(sorted()?),
            (true, _) => None,
        };
    }
    match (last, noted) {
        (Some(last), Some(noted)) if last < noted => Err(marker::short(place, last, noted)),
        _ => Ok(()),
    }
}

/// The journals by number. The last one is written to.
fn journals(data: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in data.read_dir()? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("jnl"))
            && let Some(number) = path.file_stem().and_then(OsStr::to_str)
            && let Ok(number) = number.parse()
        {
            found.push((number, path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

struct Journal {
    file: BufReader<File>,
    /// Bytes of the file.
    len: u64,
    /// Where the next entry begins.
    at: u64,
}

impl Journal {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        Ok(Self {
            len: file.metadata()?.len(),
            file: BufReader::with_capacity(PIECE, file),
            at: 0,
        })
    }

    /// Reads batches up to the first that is not whole, and says which number the last one has.
    fn read(&mut self) -> io::Result<Option<u64>> {
        let mut last = None;
        loop {
            match self.batch() {
                Ok(Some((bytes, number))) => {
                    self.at += bytes;
                    last = number.or(last);
                }
                Ok(None) => return Ok(last),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(last),
                Err(error) => return Err(error),
            }
        }
    }

    /// The length of a whole batch and the number in it; none where there is no whole batch.
    fn batch(&mut self) -> io::Result<Option<(u64, Option<u64>)>> {
        let [START, counted @ ..] = self.take::<13>()? else {
            return Ok(None);
        };
        let mut bytes = 13;
        let mut number = None;
        let [a, b, c, d, ..] = counted;
        for _ in 0..u32::from_le_bytes([a, b, c, d]) {
            // Kind, compression and keyspace, then three lengths: of the key, of the row, and of the
            // row as it stands here.
            let [ITEM, item @ ..] = self.take::<21>()? else {
                return Ok(None);
            };
            let [kind, compression, .., a, b, c, d, e, f, g, h, i, j] = item;
            let key = u64::from(u16::from_le_bytes([a, b]));
            let value = u64::from(u32::from_le_bytes([g, h, i, j]));
            let is_ours = kind <= REMOVED && compression == 0 && [c, d, e, f] == [g, h, i, j];
            if !is_ours {
                return Ok(None);
            }
            bytes += 21 + key + value;
            if self.at + bytes > self.len {
                return Ok(None);
            }
            if key == marker::KEY.len() as u64 && value == marker::BYTES as u64 {
                let [key, value @ ..] = self.take::<{ 1 + marker::BYTES }>()?;
                if [key] == marker::KEY {
                    number = marker::parse(&value);
                }
            } else {
                self.file.seek_relative((key + value) as i64)?;
            }
        }
        let [END, end @ ..] = self.take::<13>()? else {
            return Ok(None);
        };
        Ok(end.ends_with(&TRAILER).then_some((bytes + 13, number)))
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Whether nothing but room written ahead follows.
    fn ended(self) -> io::Result<bool> {
        use std::io::{Seek, SeekFrom};
        let mut file = self.file;
        file.seek(SeekFrom::Start(self.at))?;
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(true),
                read if piece[..read].iter().any(|byte| *byte != 0) => return Ok(false),
                _ => {}
            }
        }
    }
}
