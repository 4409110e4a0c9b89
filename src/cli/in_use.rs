//! A store that a process has open: looked at by others, and named to them.
//!
//! In come the store's folder and who holds it, out go a window, a way through another process's
//! window, or a refusal that says who it is, since when, and what to do.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::exit::{Exit, Failure, stands};
use super::out::{cut, one_line};
use super::shell::quoted;
use crate::store::{
    Asked, CheckpointStore, Claim, Extent, Head, Owner, Remains, Retain, Retained, RunRow, Status,
    StoreEngine, StoreError, Stored, Take, ThreadArchive, Waste, Wish, Wished, Write,
};
#[cfg(unix)]
use crate::store::{Peer, Window};
use crate::{Epoch, RunId, Seq, ThreadId};

/// How long to wait for a process that is just opening or closing the store.
const PASSING: Duration = Duration::from_secs(2);

/// How often a store is found again for one read.
const TRIES: u32 = 5;

/// The variable with the keys of a store, the current one first.
const KEYS: &str = "MILEPOST_KEYS";

/// How many characters of a command line are shown.
const WIDTH: usize = 100;

/// Opens a store to write to it. Who has only just come may be looking, and go in a moment.
pub(super) fn open(
    place: &Path,
    engine: StoreEngine,
) -> Result<Arc<dyn CheckpointStore>, StoreError> {
    let deadline = Instant::now() + PASSING;
    loop {
        match open_once(place, engine) {
            Err(StoreError::Locked { .. })
                if held(place).is_some_and(|time| time < PASSING) && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            told => return told,
        }
    }
}

/// Opens a store with the keys that the environment has for it.
pub(super) fn open_once(
    place: &Path,
    engine: StoreEngine,
) -> Result<Arc<dyn CheckpointStore>, StoreError> {
    if let Some(text) = std::env::var_os(KEYS) {
        let refused = |why: String| StoreError::Io {
            action: format!("reading the keys in {KEYS}"),
            source: Arc::new(std::io::Error::new(std::io::ErrorKind::InvalidInput, why)),
        };
        #[cfg(feature = "encryption")]
        {
            let text = text.into_string();
            let text = text.map_err(|_| refused("they are no text".to_owned()))?;
            let keys = crate::store::Keyring::parse(&text);
            let keys = keys.map_err(|error| refused(error.to_string()))?;
            return engine.open_encrypted(place, keys);
        }
        #[cfg(not(feature = "encryption"))]
        {
            let _ = text;
            return Err(refused(
                "this program was built without the feature `encryption`".to_owned(),
            ));
        }
    }
    engine.open(place)
}

/// This process's window, closed when it is dropped.
#[derive(Debug)]
pub(super) struct Shown {
    #[cfg(unix)]
    _window: Window,
}

impl Shown {
    /// Lets others look at a store. Where that cannot be, nothing else changes.
    pub(super) fn open(store: &Arc<dyn CheckpointStore>, place: &Path) -> Option<Self> {
        #[cfg(unix)]
        match Window::open(Arc::clone(store), place) {
            Ok(window) => return Some(Self { _window: window }),
            Err(error) => tracing::info!(%error, "others cannot look at this store meanwhile"),
        }
        let _ = (store, place);
        None
    }
}

/// A store to look at: open here, or seen through the window of the process that has it open. Where
/// that process goes, the store is found again, so whoever reads does not notice.
#[derive(Debug)]
pub(super) struct Sight {
    place: PathBuf,
    engine: StoreEngine,
    way: Mutex<Way>,
}

/// How a store is seen.
#[derive(Debug, Clone)]
struct Way {
    store: Arc<dyn CheckpointStore>,
    /// Whether another process has it open, and may write to it.
    in_use: bool,
    /// Where this process has it open, others see it too.
    _shown: Option<Arc<Shown>>,
}

impl Sight {
    /// Opens a store, or finds the window of the process that has it open.
    pub(super) fn find(place: &Path, engine: StoreEngine) -> Result<Self, StoreError> {
        Ok(Self {
            place: place.to_owned(),
            engine,
            way: Mutex::new(Way::find(place, engine)?),
        })
    }

    /// A store that no other process can have.
    pub(super) fn own(store: Arc<dyn CheckpointStore>) -> Self {
        Self {
            place: PathBuf::new(),
            engine: StoreEngine::Sled,
            way: Mutex::new(Way {
                store,
                in_use: false,
                _shown: None,
            }),
        }
    }

    /// Whether another process has the store open, and may write to it.
    pub(super) fn is_in_use(&self) -> bool {
        self.way().in_use
    }

    fn way(&self) -> Way {
        let way = self.way.lock();
        way.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn find_again(&self) -> Result<(), StoreError> {
        let found = Way::find(&self.place, self.engine)?;
        *self.way.lock().unwrap_or_else(PoisonError::into_inner) = found;
        Ok(())
    }
}

impl Way {
    fn find(place: &Path, engine: StoreEngine) -> Result<Self, StoreError> {
        let deadline = Instant::now() + PASSING;
        loop {
            let locked = match open_once(place, engine) {
                Ok(store) => {
                    return Ok(Self {
                        _shown: Shown::open(&store, place).map(Arc::new),
                        store,
                        in_use: false,
                    });
                }
                Err(error @ StoreError::Locked { .. }) => error,
                Err(error) => return Err(error),
            };
            #[cfg(unix)]
            match Peer::connect(place) {
                Ok(peer) => {
                    let holder = peer.holder();
                    tracing::info!(holder, "read from the process that has the store open");
                    return Ok(Self {
                        store: Arc::new(peer),
                        in_use: true,
                        _shown: None,
                    });
                }
                Err(error @ StoreError::OtherWindow { .. }) => return Err(error),
                Err(error) => tracing::debug!(%error, "no window"),
            }
            if Instant::now() >= deadline {
                return Err(locked);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Reads, and where the process that was asked has gone, finds the store again and reads once more.
macro_rules! read {
    ($sight:ident.$read:ident($($given:expr),*)) => {{
        let mut tries = 0;
        loop {
            let way = $sight.way();
            match way.store.$read($($given),*).await {
                Err(StoreError::Io { .. } | StoreError::Closed) if way.in_use && tries < TRIES => {
                    tries += 1;
                    $sight.find_again()?;
                }
                told => break told,
            }
        }
    }};
}

#[async_trait]
impl CheckpointStore for Sight {
    fn identity(&self) -> usize {
        self.way().store.identity()
    }

    async fn claim(&self, thread: &ThreadId, how: Take) -> Result<Claim, StoreError> {
        self.way().store.claim(thread, how).await
    }

    fn release(&self, thread: &ThreadId, epoch: Epoch) {
        self.way().store.release(thread, epoch);
    }

    async fn append(&self, write: Write) -> Result<(), StoreError> {
        self.way().store.append(write).await
    }

    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError> {
        read!(self.head(thread))
    }

    async fn records(
        &self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        read!(self.records(thread, from, limit))
    }

    async fn segments(
        &self,
        thread: &ThreadId,
        ids: &[[u8; 16]],
    ) -> Result<Vec<Arc<[u8]>>, StoreError> {
        read!(self.segments(thread, ids))
    }

    async fn run(&self, thread: &ThreadId, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        read!(self.run(thread, run))
    }

    async fn threads(
        &self,
        after: Option<&ThreadId>,
        limit: usize,
    ) -> Result<Vec<(ThreadId, Head)>, StoreError> {
        read!(self.threads(after, limit))
    }

    async fn extent(&self, thread: &ThreadId) -> Result<Option<Extent>, StoreError> {
        read!(self.extent(thread))
    }

    async fn thread_names(&self) -> Result<Vec<Result<ThreadId, StoreError>>, StoreError> {
        read!(self.thread_names())
    }

    async fn waste(&self) -> Result<Waste, StoreError> {
        self.way().store.waste().await
    }

    async fn owners(&self) -> Result<Vec<Result<Owner, StoreError>>, StoreError> {
        self.way().store.owners().await
    }

    async fn remains(&self, owner: &Owner) -> Result<Remains, StoreError> {
        self.way().store.remains(owner).await
    }

    async fn durable(&self) -> Result<(), StoreError> {
        self.way().store.durable().await
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        self.way().store.sweep().await
    }

    async fn wish(&self, thread: &ThreadId, wish: Wish) -> Result<Wished, StoreError> {
        self.way().store.wish(thread, wish).await
    }

    async fn wished(&self, thread: &ThreadId) -> Result<Option<Wish>, StoreError> {
        read!(self.wished(thread))
    }

    async fn ask_to_stop(
        &self,
        thread: &ThreadId,
        wish: Wish,
    ) -> Result<Option<Asked>, StoreError> {
        read!(self.ask_to_stop(thread, wish.clone()))
    }

    async fn restore(&self, archive: ThreadArchive) -> Result<(), StoreError> {
        self.way().store.restore(archive).await
    }

    async fn delete_thread(&self, thread: &ThreadId) -> Result<(), StoreError> {
        self.way().store.delete_thread(thread).await
    }

    async fn copy_thread(&self, from: &ThreadId, to: &ThreadId) -> Result<(), StoreError> {
        self.way().store.copy_thread(from, to).await
    }

    async fn retain(&self, what: Retain) -> Result<Retained, StoreError> {
        self.way().store.retain(what).await
    }
}

/// What a status means, to who knows whether another process has the store open: a call that nobody
/// can be at work on has died.
pub(super) fn meaning(status: Status, in_use: bool) -> &'static str {
    match status {
        Status::Running if in_use => "another process has the store open, and may be at work on it",
        Status::Running => "no process works on it: the one that did has died",
        other => stands(other),
    }
}

/// Whether others can look at a store that is locked.
pub(super) fn is_shown(place: &Path) -> bool {
    #[cfg(unix)]
    return Window::is_open(place);
    #[cfg(not(unix))]
    {
        let _ = place;
        false
    }
}

/// Says who holds a store.
pub(super) fn locked(place: &Path, holder: Option<u32>, looking: Option<&str>) -> Failure {
    let who = match holder {
        Some(pid) => match words(pid) {
            Some(words) => format!(" by process {pid} ({words})"),
            None => format!(" by process {pid}"),
        },
        None => String::new(),
    };
    let since = held(place).map(|time| format!(" for {}", ago(time)));
    let what = format!(
        "the store {} is locked{who}{}: one process at a time can open it",
        place.display(),
        since.unwrap_or_default()
    );
    let wait = "wait until that process is done, or stop it: nothing acknowledged is lost";
    let next = match looking {
        Some(command) => format!("{wait}; meanwhile looking works: {command}"),
        None => wait.to_owned(),
    };
    Failure::new(Exit::Busy, what).next(next)
}

/// The command line of a process, where the system tells it.
fn words(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<_> = bytes
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| quoted(&String::from_utf8_lossy(word)))
        .collect();
    (!words.is_empty()).then(|| cut(&one_line(&words.join(" ")), WIDTH))
}

/// How long the store has been held: its holder wrote its number when it came.
fn held(place: &Path) -> Option<Duration> {
    let came = fs::metadata(place.join("holder")).ok()?.modified().ok()?;
    came.elapsed().ok()
}

fn ago(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_named_by_its_words_and_a_dead_one_by_its_number() {
        let folder = Path::new("nowhere");
        let own = locked(folder, Some(std::process::id()), None);
        assert!(
            own.what.contains("nowhere is locked by process"),
            "{}",
            own.what
        );
        if cfg!(target_os = "linux") {
            assert!(own.what.contains(" ("), "{}", own.what);
        }
        let gone = locked(folder, Some(u32::MAX), Some("milepost threads"));
        assert!(gone.what.contains("process 4294967295:"), "{}", gone.what);
        assert!(gone.next.ends_with("milepost threads"), "{}", gone.next);
        assert!(locked(folder, None, None).what.contains("is locked: "));
    }
}
