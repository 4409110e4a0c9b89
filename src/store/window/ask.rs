//! What is asked through a window, and what is told.
//!
//! In comes a question about a store, out goes an answer that fits into one message. Records and
//! segments travel in their stored frames, so that their checksums are verified at the other end.

use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::archive::Extent;
use super::super::contract::{CheckpointStore, Head, RunRow, StoreError};
use super::super::frame::{FrameError, ThreadKey, encode_record, encode_segment};
use super::super::wish::{Asked, Wish};
use crate::ids::{RunId, Seq, ThreadId};

/// How many bytes of frames an answer has, unless a single one has more.
const PAGE_BYTES: usize = 1 << 20;
/// How many records, or segments, are read for one answer.
const PAGE: usize = 64;
/// How many threads are listed in one answer.
const THREADS: usize = 256;
/// How many segments may be asked for at once.
pub(super) const MOST_SEGMENTS: usize = 1024;

/// What to do about an error of the other process.
const TOLD: &str = "So says the process that has the store open";

/// A question.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ask {
    Head(ThreadId),
    Records(ThreadId, Seq, u64),
    Segments(ThreadId, Vec<[u8; 16]>),
    Run(ThreadId, RunId),
    Threads(Option<ThreadId>, u64),
    Extent(ThreadId),
    Names,
    Wished(ThreadId),
    /// The one that is no read.
    Stop(ThreadId, Wish),
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Told {
    Head(Option<Head>),
    /// The first of the records that were asked for. None at all: there are no more.
    Records(Vec<Framed<Seq>>),
    /// The first of the segments that were asked for.
    Segments(Vec<Framed<()>>),
    Run(Option<RunRow>),
    /// The first of the threads that were asked for. None at all: there are no more.
    Threads(Vec<(ThreadId, Head)>),
    Extent(Option<Extent>),
    Names(Vec<Result<ThreadId, Fault>>),
    Wished(Option<Wish>),
    Asked(Option<Asked>),
    Refused(Fault),
}

/// A frame as it is stored, with what it is called.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Framed<N> {
    pub(super) name: N,
    #[serde(with = "super::super::bytes")]
    pub(super) frame: Vec<u8>,
}

/// An error of a store on its way.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Fault {
    Corrupt {
        place: String,
        found: String,
        hint: String,
    },
    Newer {
        place: String,
        found: u32,
        known: u32,
    },
    Io {
        action: String,
        /// The system's number, where there is one.
        code: Option<i32>,
        text: String,
    },
    Closed,
    /// One that no read gives; as text.
    Other(String),
}

impl Ask {
    /// Asks the store. What is told is durable.
    pub(super) async fn of(self, store: &dyn CheckpointStore) -> Told {
        let mut told = self.put(store).await;
        if let Err(error) = store.durable().await {
            told = Err(error);
        }
        told.unwrap_or_else(|error| Told::Refused(error.into()))
    }

    async fn put(self, store: &dyn CheckpointStore) -> Result<Told, StoreError> {
        Ok(match self {
            Ask::Head(thread) => Told::Head(store.head(&thread).await?),
            Ask::Records(thread, from, limit) => {
                let limit = at_most(limit, PAGE);
                let key = ThreadKey::of(&thread);
                let mut page = Page::default();
                for stored in store.records(&thread, from, limit).await? {
                    let seq = stored.seq;
                    let frame =
                        encode_record(key, seq, stored.branch, stored.epoch, &stored.record);
                    let place = || format!("record {seq} of thread {thread}");
                    if !page.add(seq, frame.map_err(|error| unsent(error, place()))?) {
                        break;
                    }
                }
                Told::Records(page.frames)
            }
            Ask::Segments(thread, ids) => {
                let key = ThreadKey::of(&thread);
                let mut page = Page::default();
                let ids = &ids[..ids.len().min(PAGE)];
                for bytes in store.segments(&thread, ids).await? {
                    let place = || format!("a segment of thread {thread}");
                    let frame = encode_segment(key, &bytes);
                    if !page.add((), frame.map_err(|error| unsent(error, place()))?) {
                        break;
                    }
                }
                Told::Segments(page.frames)
            }
            Ask::Run(thread, run) => Told::Run(store.run(&thread, &run).await?),
            Ask::Threads(after, limit) => {
                let limit = at_most(limit, THREADS);
                Told::Threads(store.threads(after.as_ref(), limit).await?)
            }
            Ask::Extent(thread) => Told::Extent(store.extent(&thread).await?),
            Ask::Names => {
                let names = store.thread_names().await?.into_iter();
                Told::Names(names.map(|name| name.map_err(Fault::from)).collect())
            }
            Ask::Wished(thread) => Told::Wished(store.wished(&thread).await?),
            Ask::Stop(thread, wish) => Told::Asked(store.ask_to_stop(&thread, wish).await?),
        })
    }
}

fn at_most(limit: u64, most: usize) -> usize {
    usize::try_from(limit).unwrap_or(most).min(most)
}

fn unsent(error: FrameError, place: String) -> StoreError {
    error.at(place, "It cannot be sent to another process")
}

/// Frames up to a size.
#[derive(Debug)]
struct Page<N> {
    frames: Vec<Framed<N>>,
    bytes: usize,
}

impl<N> Default for Page<N> {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            bytes: 0,
        }
    }
}

impl<N> Page<N> {
    /// Adds a frame, unless the page has some and would grow too large.
    fn add(&mut self, name: N, frame: Vec<u8>) -> bool {
        let fits = self.frames.is_empty() || self.bytes + frame.len() <= PAGE_BYTES;
        if fits {
            self.bytes += frame.len();
            self.frames.push(Framed { name, frame });
        }
        fits
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Corrupt { place, found, hint } => Fault::Corrupt {
                place,
                found,
                hint: hint.to_owned(),
            },
            StoreError::Newer {
                place,
                found,
                known,
            } => Fault::Newer {
                place,
                found,
                known,
            },
            StoreError::Io { action, source } => Fault::Io {
                action,
                code: source.raw_os_error(),
                text: source.to_string(),
            },
            StoreError::Closed => Fault::Closed,
            other => Fault::Other(other.to_string()),
        }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Corrupt { place, found, hint } => StoreError::Corrupt {
                place,
                found: format!("{found}. {hint}"),
                hint: TOLD,
            },
            Fault::Newer {
                place,
                found,
                known,
            } => StoreError::Newer {
                place,
                found,
                known,
            },
            Fault::Io { action, code, text } => StoreError::Io {
                action,
                source: Arc::new(match code {
                    Some(code) => io::Error::from_raw_os_error(code),
                    None => io::Error::other(text),
                }),
            },
            Fault::Closed => StoreError::Closed,
            Fault::Other(text) => StoreError::Io {
                action: "reading through the process that has the store open".to_owned(),
                source: Arc::new(io::Error::other(text)),
            },
        }
    }
}
