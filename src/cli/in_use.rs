//! A store that a process has open: looked at by others, and named to them.
//!
//! In come the store's folder and who holds it, out go a window, a way through another process's
//! window, or a refusal that says who it is, since when, and what to do.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::exit::{Exit, Failure};
use super::out::{cut, one_line};
use super::shell::quoted;
use crate::store::{CheckpointStore, SledStore, StoreError};
#[cfg(unix)]
use crate::store::{Peer, Window};

/// How long to wait for a process that is just opening or closing the store.
const PASSING: Duration = Duration::from_secs(1);

/// How many characters of a command line are shown.
const WIDTH: usize = 100;

/// A store to look at.
#[derive(Debug)]
pub(super) struct Sight {
    pub(super) store: Arc<dyn CheckpointStore>,
    /// Whether another process has it open, and may write to it.
    pub(super) in_use: bool,
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

/// Opens a store, or finds the window of the process that has it open.
pub(super) fn look(place: &Path) -> Result<Sight, StoreError> {
    let deadline = Instant::now() + PASSING;
    loop {
        let locked = match SledStore::open(place) {
            Ok(store) => {
                return Ok(Sight {
                    store: Arc::new(store),
                    in_use: false,
                });
            }
            Err(error @ StoreError::Locked { .. }) => error,
            Err(error) => return Err(error),
        };
        #[cfg(unix)]
        match Peer::connect(place) {
            Ok(peer) => {
                tracing::info!(
                    holder = peer.holder(),
                    "read from the process that has the store open"
                );
                return Ok(Sight {
                    store: Arc::new(peer),
                    in_use: true,
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
    let since = since(place).map(|time| format!(" for {time}"));
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
fn since(place: &Path) -> Option<String> {
    let came = fs::metadata(place.join("holder")).ok()?.modified().ok()?;
    let seconds = came.elapsed().ok()?.as_secs();
    Some(match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    })
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
        assert!(
            gone.next
                .is_some_and(|next| next.ends_with("milepost threads"))
        );
        assert!(locked(folder, None, None).what.contains("is locked: "));
    }
}
