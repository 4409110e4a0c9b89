//! The holder's end.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use super::super::contract::{CheckpointStore, StoreError};
use super::ask::{Ask, Fault, Told};
use super::place::Place;
use super::wire::{self, MOST_ASKED, MOST_TOLD};

/// How many clients are answered at a time; further ones wait.
const CLIENTS: usize = 64;

/// How long a client may say nothing, or take to read an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lets other processes look at a store that this one has open, until it is dropped.
///
/// Any store will do; the folder is the one that others are told of, which for a store on disk is
/// its own. Only the same user can look (and the system's own), and nobody can change anything but that
/// a run stops.
///
/// ```
/// use std::sync::Arc;
///
/// use milepost::store::{CheckpointStore, MemoryStore, Peer, StoreError, Window};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let store = Arc::new(MemoryStore::new());
/// let window = Window::open(store, folder)?;
///
/// // In another process, or in this one:
/// let peer = Peer::connect(folder)?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// assert!(peer.threads(None, 10).await?.is_empty());
/// # Ok::<_, StoreError>(()) })?;
///
/// drop(window);
/// assert!(Peer::connect(folder).is_err());
/// # Ok(()) }
/// ```
pub struct Window {
    path: PathBuf,
    /// There until the window is dropped; dropping it ends the thread.
    open: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Window {
    /// Opens a window to a store at a folder that is there.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if one is open there already; [`StoreError::Io`] where there can be
    /// none: on a file system without sockets, or one that cannot be written.
    pub fn open(
        store: Arc<dyn CheckpointStore>,
        path: impl AsRef<Path>,
    ) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let fail = |source| StoreError::Io {
            action: format!("opening a window to the store {}", path.display()),
            source: Arc::new(source),
        };
        // Whoever changes the working directory later still closes the same window.
        let path = path.canonicalize().map_err(fail)?;
        let place = Place::make(&path).map_err(fail)?;
        if !place.take().map_err(fail)? {
            return Err(StoreError::Locked { path, holder: None });
        }
        let listener = bind(&place).map_err(fail)?;
        let (stop, stopped) = oneshot::channel();
        let (started, start) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("milepost-window".to_owned())
            .spawn(move || match Server::new(listener, store) {
                Ok((runtime, server)) => {
                    let _ = started.send(Ok(()));
                    runtime.block_on(server.work(stopped));
                    close(&place);
                    drop(place);
                    // Only now may the store close: the next holder finds the place free.
                    drop(runtime);
                    drop(server);
                }
                Err(error) => {
                    close(&place);
                    let _ = started.send(Err(error));
                }
            })
            .map_err(fail)?;
        match start.recv() {
            Ok(Ok(())) => Ok(Self {
                path,
                open: Some((stop, thread)),
            }),
            Ok(Err(error)) => Err(fail(error)),
            Err(_) => Err(fail(io::Error::other("its thread ended"))),
        }
    }

    /// Whether a window is open at a folder.
    pub fn is_open(path: impl AsRef<Path>) -> bool {
        let taken = Place::find(path.as_ref()).and_then(|place| place.is_taken());
        taken.unwrap_or(false)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.open.take() {
            drop(stop);
            // It cannot panic, and if it did, the window is closed all the same.
            let _ = thread.join();
        }
    }
}

/// Puts the socket where others look for it.
fn bind(place: &Place) -> io::Result<std::os::unix::net::UnixListener> {
    place.clear()?;
    let socket = place.socket()?;
    let listener = std::os::unix::net::UnixListener::bind(&socket)?;
    fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn close(place: &Place) {
    if let Err(error) = place.clear() {
        tracing::debug!(%error, "the socket of a window stays behind");
    }
}

/// A runtime for a thread of our own.
pub(super) fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// This process's user, as a socket tells it.
pub(super) fn own_user() -> io::Result<u32> {
    let (one, _) = UnixStream::pair()?;
    Ok(one.peer_cred()?.uid())
}

#[derive(Debug)]
struct Server {
    listener: UnixListener,
    store: Arc<dyn CheckpointStore>,
    user: u32,
}

impl Server {
    fn new(
        listener: std::os::unix::net::UnixListener,
        store: Arc<dyn CheckpointStore>,
    ) -> io::Result<(Runtime, Self)> {
        let runtime = runtime()?;
        let inside = runtime.enter();
        let listener = UnixListener::from_std(listener)?;
        let user = own_user()?;
        drop(inside);
        Ok((
            runtime,
            Self {
                listener,
                store,
                user,
            },
        ))
    }

    /// Answers until it is told to stop.
    async fn work(&self, mut stopped: oneshot::Receiver<()>) {
        tokio::select! {
            _ = &mut stopped => {}
            () = self.accept() => {}
        }
    }

    async fn accept(&self) {
        let places = Arc::new(Semaphore::new(CLIENTS));
        // Nobody closes the semaphore.
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // No handles are left, or the like: it may pass.
                    tracing::debug!(%error, "a window could not let a client in");
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let (store, user) = (Arc::clone(&self.store), self.user);
            tokio::spawn(async move {
                if let Err(error) = answer(stream, &*store, user).await {
                    tracing::debug!(%error, "a window lost a client");
                }
                drop(place);
            });
        }
    }
}

/// Answers one client until it goes, says nothing for long, or makes no sense.
async fn answer(mut stream: UnixStream, store: &dyn CheckpointStore, user: u32) -> io::Result<()> {
    let client = stream.peer_cred()?.uid();
    if client != user && client != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    patient(wire::greet(&mut stream, std::process::id())).await?;
    loop {
        let ask: Ask = match patient(wire::receive(&mut stream, MOST_ASKED)).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        };
        let told = ask.of(store).await;
        match patient(wire::send(&mut stream, &told, MOST_TOLD)).await {
            // Nothing of it was sent.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let refused = Told::Refused(Fault::Other(error.to_string()));
                patient(wire::send(&mut stream, &refused, MOST_TOLD)).await?;
            }
            other => other?,
        }
    }
}

async fn patient<T>(what: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(PATIENCE, what).await?
}
