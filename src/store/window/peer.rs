//! The other process's end.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::super::archive::{Extent, ThreadArchive};
use super::super::contract::{
    CheckpointStore, Claim, Head, RunRow, StoreError, Stored, Take, Write,
};
use super::super::frame::{FrameError, ThreadKey, decode_record, decode_segment};
use super::super::retention::{Retain, Retained};
use super::super::wish::{Asked, Wish, Wished};
use super::ask::{Ask, MOST_SEGMENTS, Told};
use super::place::Place;
use super::serve::{own_user, runtime};
use super::wire::{self, MOST_ASKED, MOST_TOLD, VERSION};
use crate::ids::{Epoch, RunId, Seq, ThreadId};

/// How long the holder may take to say who it is.
const GREETING: Duration = Duration::from_secs(5);

/// How long the holder may take to answer.
const ANSWER: Duration = Duration::from_secs(30);

/// What to do about an answer that cannot be trusted.
const AGAIN: &str = "It was damaged on its way from the process that has the store open: ask again";

/// A store that another process has open, for reading and for asking its runs to stop.
///
/// It is read through that process's [`Window`](super::Window), and asks its runs to stop; every write
/// is refused as [`StoreError::Locked`]. Where that process has gone and another one has opened the store with a
/// window, the reads go there. Works on every runtime, and on none.
pub struct Peer {
    line: Line,
    asks: mpsc::UnboundedSender<(Ask, Reply)>,
}

type Reply = oneshot::Sender<Result<Told, StoreError>>;

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("path", &self.line.path)
            .field("holder", &self.holder())
            .finish_non_exhaustive()
    }
}

impl Peer {
    /// Finds the window of a store.
    ///
    /// Blocks for some seconds where the other process does not answer.
    ///
    /// # Errors
    /// [`StoreError::Io`] if there is no window or nobody answers; [`StoreError::OtherWindow`] if
    /// the other process speaks another version.
    pub fn connect(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let fail = |source| StoreError::Io {
            action: format!(
                "looking through the window of the store {}",
                path.as_ref().display()
            ),
            source: Arc::new(source),
        };
        let path = path.as_ref().canonicalize().map_err(fail)?;
        let line = Line {
            path,
            holder: Arc::default(),
        };
        let theirs = line.clone();
        let (asks, questions) = mpsc::unbounded_channel();
        let (connected, connection) = std::sync::mpsc::channel();
        std::thread::Builder::new()
            .name("milepost-peer".to_owned())
            .spawn(move || match runtime() {
                Ok(runtime) => runtime.block_on(async {
                    match theirs.connect().await {
                        Ok(stream) => {
                            let _ = connected.send(Ok(()));
                            theirs.work(stream, questions).await;
                        }
                        Err(error) => {
                            let _ = connected.send(Err(error));
                        }
                    }
                }),
                Err(error) => {
                    let _ = connected.send(Err(error.into()));
                }
            })
            .map_err(fail)?;
        match connection.recv() {
            Ok(Ok(())) => Ok(Self { line, asks }),
            Ok(Err(Lost::Io(error))) => Err(fail(error)),
            Ok(Err(Lost::Version(error))) => Err(error),
            Err(_) => Err(fail(io::Error::other("its thread ended"))),
        }
    }

    /// The process that has the store open.
    pub fn holder(&self) -> u32 {
        self.line.holder.load(Ordering::Relaxed)
    }

    /// The store's folder.
    pub fn path(&self) -> &Path {
        &self.line.path
    }

    async fn ask(&self, ask: Ask) -> Result<Told, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.asks
            .send((ask, reply))
            .map_err(|_| StoreError::Closed)?;
        match answer.await {
            Ok(Ok(Told::Refused(fault))) => Err(fault.into()),
            Ok(told) => told,
            // Its thread has ended.
            Err(_) => Err(StoreError::Closed),
        }
    }

    fn locked(&self) -> StoreError {
        StoreError::Locked {
            path: self.line.path.clone(),
            holder: Some(self.holder()),
        }
    }

    fn confused(&self) -> StoreError {
        self.line.lost(wire::invalid("it answers something else"))
    }
}

/// Why there is no connection.
enum Lost {
    Io(io::Error),
    Version(StoreError),
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        Lost::Io(error)
    }
}

/// The way to the holder.
#[derive(Clone)]
struct Line {
    path: PathBuf,
    holder: Arc<AtomicU32>,
}

impl Line {
    async fn connect(&self) -> Result<UnixStream, Lost> {
        let place = Place::find(&self.path)?;
        let met = async {
            let mut stream = UnixStream::connect(place.socket()?).await?;
            let user = stream.peer_cred()?.uid();
            if user != place.owner()? && user != own_user()? {
                return Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    format!("its socket belongs to user {user}"),
                ));
            }
            let (version, holder) = wire::greeted(&mut stream).await?;
            Ok((stream, version, holder))
        };
        let (stream, version, holder) = timeout(GREETING, met).await.map_err(io::Error::from)??;
        if version != VERSION {
            return Err(Lost::Version(StoreError::OtherWindow {
                path: self.path.clone(),
                holder,
                found: version,
                known: VERSION,
            }));
        }
        self.holder.store(holder, Ordering::Relaxed);
        Ok(stream)
    }

    /// Asks what is to be asked until nobody asks any more.
    async fn work(&self, stream: UnixStream, mut asks: mpsc::UnboundedReceiver<(Ask, Reply)>) {
        let mut stream = Some(stream);
        while let Some((ask, reply)) = asks.recv().await {
            let told = self.ask(&mut stream, &ask).await;
            // Whoever asked may have gone.
            let _ = reply.send(told);
        }
    }

    async fn ask(&self, open: &mut Option<UnixStream>, ask: &Ask) -> Result<Told, StoreError> {
        if let Some(mut stream) = open.take() {
            match exchange(&mut stream, ask).await {
                Ok(told) => {
                    *open = Some(stream);
                    return Ok(told);
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Err(self.lost(error));
                }
                // What is asked can be asked twice: of who holds the store now.
                Err(_) => {}
            }
        }
        let mut stream = self.connect().await.map_err(|lost| match lost {
            Lost::Io(error) => self.lost(error),
            Lost::Version(error) => error,
        })?;
        let told = exchange(&mut stream, ask).await;
        let told = told.map_err(|error| self.lost(error))?;
        *open = Some(stream);
        Ok(told)
    }

    fn lost(&self, source: io::Error) -> StoreError {
        StoreError::Io {
            action: format!(
                "asking process {}, which had the store {} open,",
                self.holder.load(Ordering::Relaxed),
                self.path.display()
            ),
            source: Arc::new(source),
        }
    }
}

async fn exchange(stream: &mut UnixStream, ask: &Ask) -> io::Result<Told> {
    let exchange = async {
        wire::send(stream, ask, MOST_ASKED).await?;
        wire::receive(stream, MOST_TOLD).await
    };
    timeout(ANSWER, exchange).await?
}

fn damaged(error: FrameError, place: String) -> StoreError {
    error.at(place, AGAIN)
}

#[async_trait]
impl CheckpointStore for Peer {
    async fn claim(&self, _: &ThreadId, _: Take) -> Result<Claim, StoreError> {
        Err(self.locked())
    }

    fn release(&self, _: &ThreadId, _: Epoch) {}

    async fn append(&self, _: Write) -> Result<(), StoreError> {
        Err(self.locked())
    }

    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError> {
        match self.ask(Ask::Head(thread.clone())).await? {
            Told::Head(head) => Ok(head),
            _ => Err(self.confused()),
        }
    }

    async fn records(
        &self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        let key = ThreadKey::of(thread);
        let mut records: Vec<Stored> = Vec::new();
        while records.len() < limit {
            let from = records.last().map_or(from, |last| last.seq.next());
            let left = (limit - records.len()) as u64;
            let told = self.ask(Ask::Records(thread.clone(), from, left)).await?;
            let Told::Records(page) = told else {
                return Err(self.confused());
            };
            if page.is_empty() {
                break;
            }
            for framed in page {
                let seq = framed.name;
                let stored = decode_record(key, seq, &framed.frame)
                    .map_err(|error| damaged(error, format!("record {seq} of thread {thread}")))?;
                if seq < from || records.last().is_some_and(|last| last.seq >= seq) {
                    return Err(self.confused());
                }
                records.push(stored);
            }
        }
        Ok(records)
    }

    async fn segments(
        &self,
        thread: &ThreadId,
        ids: &[[u8; 16]],
    ) -> Result<Vec<Arc<[u8]>>, StoreError> {
        let key = ThreadKey::of(thread);
        let mut segments: Vec<Arc<[u8]>> = Vec::new();
        while segments.len() < ids.len() {
            let left = &ids[segments.len()..];
            let asked = left[..left.len().min(MOST_SEGMENTS)].to_vec();
            let told = self.ask(Ask::Segments(thread.clone(), asked)).await?;
            let Told::Segments(page) = told else {
                return Err(self.confused());
            };
            if page.is_empty() || page.len() > left.len() {
                return Err(self.confused());
            }
            for (id, framed) in left.iter().zip(page) {
                let bytes = decode_segment(key, id, &framed.frame)
                    .map_err(|error| damaged(error, format!("a segment of thread {thread}")))?;
                segments.push(bytes.into());
            }
        }
        Ok(segments)
    }

    async fn run(&self, thread: &ThreadId, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        match self.ask(Ask::Run(thread.clone(), run.clone())).await? {
            Told::Run(row) => Ok(row),
            _ => Err(self.confused()),
        }
    }

    async fn threads(
        &self,
        after: Option<&ThreadId>,
        limit: usize,
    ) -> Result<Vec<(ThreadId, Head)>, StoreError> {
        let mut threads: Vec<(ThreadId, Head)> = Vec::new();
        while threads.len() < limit {
            let after = threads.last().map(|(last, _)| last).or(after).cloned();
            let left = (limit - threads.len()) as u64;
            let Told::Threads(page) = self.ask(Ask::Threads(after, left)).await? else {
                return Err(self.confused());
            };
            if page.is_empty() {
                break;
            }
            threads.extend(page);
        }
        Ok(threads)
    }

    async fn extent(&self, thread: &ThreadId) -> Result<Option<Extent>, StoreError> {
        match self.ask(Ask::Extent(thread.clone())).await? {
            Told::Extent(extent) => Ok(extent),
            _ => Err(self.confused()),
        }
    }

    async fn thread_names(&self) -> Result<Vec<Result<ThreadId, StoreError>>, StoreError> {
        let Told::Names(names) = self.ask(Ask::Names).await? else {
            return Err(self.confused());
        };
        let names = names.into_iter();
        Ok(names.map(|name| name.map_err(StoreError::from)).collect())
    }

    async fn wish(&self, _: &ThreadId, _: Wish) -> Result<Wished, StoreError> {
        Err(self.locked())
    }

    async fn wished(&self, thread: &ThreadId) -> Result<Option<Wish>, StoreError> {
        match self.ask(Ask::Wished(thread.clone())).await? {
            Told::Wished(wish) => Ok(wish),
            _ => Err(self.confused()),
        }
    }

    async fn ask_to_stop(
        &self,
        thread: &ThreadId,
        wish: Wish,
    ) -> Result<Option<Asked>, StoreError> {
        // The wish names its run, so it may be made twice.
        match self.ask(Ask::Stop(thread.clone(), wish)).await? {
            Told::Asked(asked) => Ok(asked),
            _ => Err(self.confused()),
        }
    }

    async fn restore(&self, _: ThreadArchive) -> Result<(), StoreError> {
        Err(self.locked())
    }

    async fn delete_thread(&self, _: &ThreadId) -> Result<(), StoreError> {
        Err(self.locked())
    }

    async fn copy_thread(&self, _: &ThreadId, _: &ThreadId) -> Result<(), StoreError> {
        Err(self.locked())
    }

    async fn retain(&self, _: Retain) -> Result<Retained, StoreError> {
        Err(self.locked())
    }
}
