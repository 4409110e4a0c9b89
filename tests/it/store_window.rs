//! A store in use is looked at through its window: all of it, by its owner alone, and whoever comes
//! to the window does the holder no harm.

use std::fs;
use std::io::{Read, Write as _};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use milepost::store::conformance::{check, one_of_each, sample_head};
use milepost::store::{
    Asked, CheckpointStore, Claim, Extent, Head, MemoryStore, Peer, Retain, Retained, RunRow,
    SledStore, StoreError, Stored, Take, ThreadArchive, Window, Wish, Wished, Write, segment_id,
};
use milepost::{Branch, Epoch, EventReader, RunId, Seq, ThreadId, events};

use super::store_logs::{History, commit, thread};

/// What most tests need: a folder with a window to a store in memory.
struct Held {
    folder: tempfile::TempDir,
    store: MemoryStore,
    window: Window,
}

impl Held {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = MemoryStore::new();
        let window = Window::open(Arc::new(store.clone()), folder.path()).unwrap();
        Self {
            folder,
            store,
            window,
        }
    }

    fn peer(&self) -> Peer {
        Peer::connect(self.folder.path()).unwrap()
    }

    /// A client of no program of ours.
    fn stranger(&self) -> UnixStream {
        let mut stream = UnixStream::connect(self.folder.path().join("window/socket")).unwrap();
        let mut hello = [0; 10];
        stream.read_exact(&mut hello).unwrap();
        assert_eq!(hello[..6], *b"MPWN\x02\0");
        assert_eq!(hello[6..], std::process::id().to_le_bytes());
        stream
    }
}

/// A store that is written directly and read through a window.
#[derive(Debug)]
struct Mirror<S> {
    store: S,
    peer: Peer,
    _window: Window,
    _folder: tempfile::TempDir,
}

impl<S: CheckpointStore + Clone> Mirror<S> {
    fn new(store: S, folder: tempfile::TempDir) -> Self {
        let window = Window::open(Arc::new(store.clone()), folder.path()).unwrap();
        Self {
            store,
            peer: Peer::connect(folder.path()).unwrap(),
            _window: window,
            _folder: folder,
        }
    }
}

#[async_trait]
impl<S: CheckpointStore> CheckpointStore for Mirror<S> {
    async fn claim(&self, thread: &ThreadId, how: Take) -> Result<Claim, StoreError> {
        self.store.claim(thread, how).await
    }

    fn release(&self, thread: &ThreadId, epoch: Epoch) {
        self.store.release(thread, epoch);
    }

    async fn append(&self, write: Write) -> Result<(), StoreError> {
        self.store.append(write).await
    }

    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError> {
        self.peer.head(thread).await
    }

    async fn records(
        &self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        self.peer.records(thread, from, limit).await
    }

    async fn segments(
        &self,
        thread: &ThreadId,
        ids: &[[u8; 16]],
    ) -> Result<Vec<Arc<[u8]>>, StoreError> {
        self.peer.segments(thread, ids).await
    }

    async fn run(&self, thread: &ThreadId, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.peer.run(thread, run).await
    }

    async fn threads(
        &self,
        after: Option<&ThreadId>,
        limit: usize,
    ) -> Result<Vec<(ThreadId, Head)>, StoreError> {
        self.peer.threads(after, limit).await
    }

    async fn extent(&self, thread: &ThreadId) -> Result<Option<Extent>, StoreError> {
        self.peer.extent(thread).await
    }

    async fn thread_names(&self) -> Result<Vec<Result<ThreadId, StoreError>>, StoreError> {
        self.peer.thread_names().await
    }

    async fn wish(&self, thread: &ThreadId, wish: Wish) -> Result<Wished, StoreError> {
        self.store.wish(thread, wish).await
    }

    async fn wished(&self, thread: &ThreadId) -> Result<Option<Wish>, StoreError> {
        self.peer.wished(thread).await
    }

    async fn ask_to_stop(
        &self,
        thread: &ThreadId,
        wish: Wish,
    ) -> Result<Option<Asked>, StoreError> {
        self.peer.ask_to_stop(thread, wish).await
    }

    async fn restore(&self, archive: ThreadArchive) -> Result<(), StoreError> {
        self.store.restore(archive).await
    }

    async fn delete_thread(&self, thread: &ThreadId) -> Result<(), StoreError> {
        self.store.delete_thread(thread).await
    }

    async fn copy_thread(&self, from: &ThreadId, to: &ThreadId) -> Result<(), StoreError> {
        self.store.copy_thread(from, to).await
    }

    async fn retain(&self, what: Retain) -> Result<Retained, StoreError> {
        self.store.retain(what).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_promise_of_a_store_holds_for_what_is_read_through_a_window() {
    let report =
        check(async || Mirror::new(MemoryStore::new(), tempfile::tempdir().unwrap())).await;
    assert!(report.passed(), "{report}");
    let report = check(async || {
        let folder = tempfile::tempdir().unwrap();
        Mirror::new(SledStore::open(folder.path()).unwrap(), folder)
    })
    .await;
    assert!(report.passed(), "{report}");
}

#[tokio::test]
async fn nothing_can_be_written_through_a_window() {
    let held = Held::new();
    let mut history = History::new(&thread("t"));
    history.grow(&held.store, 2, 10).await;
    let peer = held.peer();
    assert_eq!(peer.holder(), std::process::id());
    let write = Write {
        fulfils: None,
        thread: thread("t"),
        epoch: Epoch::new(1),
        branch: Branch::new(0),
        expected: Seq::new(3),
        first: Seq::new(4),
        records: vec![commit(4, 1)],
        segments: Vec::new(),
        head: sample_head(),
        run: None,
    };
    let archive = ThreadArchive::read(&peer, &thread("t"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(archive.records, history.log);
    let refusals = [
        peer.claim(&thread("t"), Take::Replace).await.err(),
        peer.append(write).await.err(),
        peer.delete_thread(&thread("t")).await.err(),
        peer.copy_thread(&thread("t"), &thread("u")).await.err(),
        peer.prune(&thread("t")).await.err(),
        peer.restore(archive).await.err(),
    ];
    for refusal in refusals {
        let Some(StoreError::Locked { path, holder }) = refusal else {
            panic!("{refusal:?}");
        };
        assert_eq!(path, held.folder.path().canonicalize().unwrap());
        assert_eq!(holder, Some(std::process::id()));
    }
    peer.release(&thread("t"), Epoch::new(1));
    history.check(&held.store).await;
}

#[test]
fn a_window_is_its_owners_alone_and_leaves_no_socket_behind() {
    let held = Held::new();
    let folder = held.folder.path().join("window");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let socket = folder.join("socket");
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&socket), 0o600);
    assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
    assert!(Window::is_open(held.folder.path()));
    let Held { folder, window, .. } = held;
    drop(window);
    assert!(!socket.exists());
    assert!(!Window::is_open(folder.path()));
    let gone = Peer::connect(folder.path()).unwrap_err();
    assert!(matches!(gone, StoreError::Io { .. }), "{gone:?}");
    // A folder that others may enter is closed to them before there is a socket.
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.path().join("window"), open).unwrap();
    let _window = Window::open(Arc::new(MemoryStore::new()), folder.path()).unwrap();
    assert_eq!(mode(&folder.path().join("window")), 0o700);
}

#[test]
fn a_second_window_at_one_folder_is_refused_and_the_first_stays() {
    let held = Held::new();
    let told = Window::open(Arc::new(MemoryStore::new()), held.folder.path()).unwrap_err();
    assert!(matches!(told, StoreError::Locked { .. }), "{told:?}");
    held.peer();
    drop(held.window);
    Window::open(Arc::new(MemoryStore::new()), held.folder.path()).unwrap();
}

#[test]
fn a_socket_that_a_dead_process_left_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("window")).unwrap();
    // Its listener is gone, its file is not.
    drop(UnixListener::bind(folder.path().join("window/socket")).unwrap());
    assert!(!Window::is_open(folder.path()));
    let told = Peer::connect(folder.path()).unwrap_err();
    assert!(matches!(told, StoreError::Io { .. }), "{told:?}");
    let _window = Window::open(Arc::new(MemoryStore::new()), folder.path()).unwrap();
    Peer::connect(folder.path()).unwrap();
}

#[test]
fn where_there_can_be_no_window_that_is_an_error_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let store = || Arc::new(MemoryStore::new());
    let missing = Window::open(store(), folder.path().join("nosuch")).unwrap_err();
    assert!(matches!(missing, StoreError::Io { .. }), "{missing:?}");
    fs::write(folder.path().join("window"), "a file").unwrap();
    let file = Window::open(store(), folder.path()).unwrap_err();
    assert!(matches!(file, StoreError::Io { .. }), "{file:?}");
    assert_eq!(fs::read(folder.path().join("window")).unwrap(), b"a file");
    assert!(Peer::connect(folder.path()).is_err());
    assert!(!Window::is_open(folder.path()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_may_have_a_longer_path_than_a_socket() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("f".repeat(200)).join("g".repeat(200));
    fs::create_dir_all(&long).unwrap();
    let window = Window::open(Arc::new(MemoryStore::new()), &long).unwrap();
    assert!(long.join("window/socket").exists());
    Peer::connect(&long).unwrap();
    drop(window);
    assert!(!long.join("window/socket").exists());
}

#[tokio::test]
async fn a_program_of_another_version_is_told_both_versions() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("window")).unwrap();
    let listener = UnixListener::bind(folder.path().join("window/socket")).unwrap();
    let hellos: [&[u8]; 3] = [b"MPWN\x07\0\x2a\0\0\0", b"HTTP/1.1 400", b"MPW"];
    let other = std::thread::spawn(move || {
        for hello in hellos {
            listener.accept().unwrap().0.write_all(hello).unwrap();
        }
    });
    let told = Peer::connect(folder.path()).unwrap_err();
    let StoreError::OtherWindow {
        holder,
        found,
        known,
        ..
    } = told
    else {
        panic!("{told:?}");
    };
    assert_eq!((holder, found, known), (42, 7, 2));
    for part in ["process 42", "version 7", "version 2"] {
        assert!(told.to_string().contains(part), "{told}");
    }
    for _ in 0..2 {
        let told = Peer::connect(folder.path()).unwrap_err();
        assert!(matches!(told, StoreError::Io { .. }), "{told:?}");
    }
    other.join().unwrap();
}

#[tokio::test]
async fn clients_that_make_no_sense_are_let_go_and_others_are_answered() {
    let held = Held::new();
    let mut history = History::new(&thread("t"));
    history.grow(&held.store, 3, 100).await;
    let messages: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",
        // Lengths of 4 GiB, of one byte too many, and of nothing.
        &[0xff; 4],
        &[1, 0, 1, 0],
        &[0; 4],
        // A message that is no question, and one that is nested without an end.
        &[3, 0, 0, 0, 0xc1, 0xc1, 0xc1],
        &[[8, 0, 0, 0].as_slice(), &[0x91; 8]].concat(),
    ];
    for message in messages {
        let mut stranger = held.stranger();
        stranger.write_all(message).unwrap();
        let mut rest = Vec::new();
        // The window hangs up. Where it has not read everything, that is an error here.
        let _ = stranger.read_to_end(&mut rest);
        assert_eq!(rest, b"", "{message:?}");
    }
    // Half a length, half a message, and nothing at all, kept open.
    let halves: [&[u8]; 3] = [&[9, 0], &[9, 0, 0, 0, 0x81], &[]];
    let hanging: Vec<_> = halves
        .iter()
        .map(|half| {
            let mut stranger = held.stranger();
            stranger.write_all(half).unwrap();
            stranger
        })
        .collect();
    history.check(&held.peer()).await;
    // The window closes under them.
    let Held { window, .. } = held;
    drop(window);
    drop(hanging);
}

#[tokio::test]
async fn a_client_that_reads_no_answer_holds_up_nobody() {
    let held = Held::new();
    let mut history = History::new(&thread("t"));
    history.grow(&held.store, 8, 1 << 20).await;
    // The question for all records, many times over: far more than a socket takes unread.
    let ask = b"\x81\xa7Records\x93\xa1t\x01\xcd\xff\xff";
    let mut message = (ask.len() as u32).to_le_bytes().to_vec();
    message.extend_from_slice(ask);
    let mut greedy = held.stranger();
    for _ in 0..50 {
        greedy.write_all(&message).unwrap();
    }
    history.check(&held.peer()).await;
    let mut first = [0; 4];
    greedy.read_exact(&mut first).unwrap();
    assert!(u32::from_le_bytes(first) > 100, "it was a question");
    history.grow(&held.store, 1, 10).await;
    history.check(&held.peer()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_clients_read_the_same_while_the_store_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(folder.path()).unwrap();
    let mut history = History::new(&thread("done"));
    history.grow(&store, 100, 500).await;
    let history = Arc::new(history);
    let _window = Window::open(Arc::new(store.clone()), folder.path()).unwrap();
    let writing = tokio::spawn(async move {
        let mut growing = History::new(&thread("growing"));
        growing.grow(&store, 40, 500).await;
        growing
    });
    let readers: Vec<_> = (0..50)
        .map(|_| {
            let (path, history) = (folder.path().to_owned(), Arc::clone(&history));
            tokio::task::spawn_blocking(move || {
                let peer = Peer::connect(path).unwrap();
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .build()
                    .unwrap();
                runtime.block_on(history.check(&peer));
                peer
            })
        })
        .collect();
    let mut peers = Vec::new();
    for reader in readers {
        peers.push(reader.await.unwrap());
    }
    let growing = writing.await.unwrap();
    for peer in &peers {
        growing.check(peer).await;
    }
    assert_eq!(peers[0].threads(None, usize::MAX).await.unwrap().len(), 2);
}

#[tokio::test]
async fn long_threads_large_records_and_many_segments_come_in_pages() {
    let held = Held::new();
    let peer = held.peer();
    for (name, steps, bytes) in [
        ("long", 1000, 10),
        ("wide", 9, 400_000),
        ("huge", 1, 20 << 20),
    ] {
        let mut history = History::new(&thread(name));
        history.grow(&held.store, steps, bytes).await;
        history.check(&peer).await;
    }
    let from = peer
        .records(&thread("long"), Seq::new(500), 70)
        .await
        .unwrap();
    assert_eq!(from.len(), 70);
    assert_eq!(from[0].seq, Seq::new(500));
    let id = thread("segments");
    let claim = held.store.claim(&id, Take::IfFree).await.unwrap();
    let segments: Vec<_> = (0_u32..3000)
        .map(|number| {
            let bytes = vec![number.to_le_bytes(); 250].concat();
            (segment_id(&bytes), bytes)
        })
        .collect();
    let mut records = one_of_each();
    records.truncate(2);
    let write = Write {
        fulfils: None,
        thread: id.clone(),
        epoch: claim.epoch,
        branch: Branch::new(0),
        expected: Seq::new(0),
        first: Seq::new(1),
        records,
        segments: segments.clone(),
        head: Head {
            seq: Seq::new(2),
            base: Seq::new(0),
            ..sample_head()
        },
        run: None,
    };
    held.store.append(write).await.unwrap();
    let ids: Vec<_> = segments.iter().map(|(id, _)| *id).collect();
    let found = peer.segments(&id, &ids).await.unwrap();
    assert!(
        found
            .iter()
            .map(|bytes| &bytes[..])
            .eq(segments.iter().map(|(_, bytes)| &bytes[..]))
    );
    for number in 0..600 {
        History::new(&thread(&format!("t{number}")))
            .grow(&held.store, 1, 1)
            .await;
    }
    let all = held.store.threads(None, usize::MAX).await.unwrap();
    assert_eq!(peer.threads(None, usize::MAX).await.unwrap(), all);
    assert_eq!(
        peer.threads(Some(&all[9].0), 300).await.unwrap(),
        all[10..310]
    );
}

#[test]
fn a_peer_needs_no_runtime_with_sockets_and_a_window_none_at_all() {
    let held = Held::new();
    let peer = held.peer();
    let plain = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let threads = plain.block_on(peer.threads(None, 10)).unwrap();
    assert!(threads.is_empty());
}

#[tokio::test]
async fn a_peer_goes_on_with_the_next_holder() {
    let held = Held::new();
    let peer = held.peer();
    let mut history = History::new(&thread("t"));
    history.grow(&held.store, 2, 10).await;
    history.check(&peer).await;
    let Held {
        folder,
        store,
        window,
    } = held;
    drop(window);
    let told = peer.head(&thread("t")).await.unwrap_err();
    assert!(matches!(told, StoreError::Io { .. }), "{told:?}");
    assert!(told.to_string().contains("which had the store"), "{told}");
    let _window = Window::open(Arc::new(store.clone()), folder.path()).unwrap();
    history.grow(&store, 1, 10).await;
    history.check(&peer).await;
}

#[tokio::test]
async fn two_listeners_hear_the_same_events_as_they_come() {
    let held = Held::new();
    let id = thread("t");
    let mut history = History::new(&id);
    let mut listeners: Vec<_> = (0..2)
        .map(|_| (held.peer(), EventReader::new(id.clone()), Vec::new()))
        .collect();
    for _ in 0..5 {
        history.grow(&held.store, 3, 10).await;
        for (peer, reader, heard) in &mut listeners {
            let came = reader.poll(&*peer).await.unwrap();
            assert!(!came.is_empty());
            heard.extend(came);
            assert!(reader.poll(&*peer).await.unwrap().is_empty());
        }
    }
    let all = events(&held.store, &id).await.unwrap();
    for (_, _, heard) in listeners {
        assert_eq!(heard, all);
    }
}

/// A store whose reads fail in one way.
#[derive(Debug)]
struct Failing(StoreError, bool);

#[async_trait]
impl CheckpointStore for Failing {
    async fn claim(&self, _: &ThreadId, _: Take) -> Result<Claim, StoreError> {
        Err(self.0.clone())
    }

    fn release(&self, _: &ThreadId, _: Epoch) {}

    async fn append(&self, _: Write) -> Result<(), StoreError> {
        Err(self.0.clone())
    }

    async fn head(&self, _: &ThreadId) -> Result<Option<Head>, StoreError> {
        // Damage shows while reading, what is not durable afterwards.
        if self.1 {
            Ok(None)
        } else {
            Err(self.0.clone())
        }
    }

    async fn records(&self, _: &ThreadId, _: Seq, _: usize) -> Result<Vec<Stored>, StoreError> {
        panic!("a store that panics");
    }

    async fn segments(&self, _: &ThreadId, _: &[[u8; 16]]) -> Result<Vec<Arc<[u8]>>, StoreError> {
        Ok(Vec::new())
    }

    async fn run(&self, _: &ThreadId, _: &RunId) -> Result<Option<RunRow>, StoreError> {
        Err(self.0.clone())
    }

    async fn threads(
        &self,
        _: Option<&ThreadId>,
        _: usize,
    ) -> Result<Vec<(ThreadId, Head)>, StoreError> {
        Err(self.0.clone())
    }

    async fn extent(&self, _: &ThreadId) -> Result<Option<Extent>, StoreError> {
        Err(self.0.clone())
    }

    async fn thread_names(&self) -> Result<Vec<Result<ThreadId, StoreError>>, StoreError> {
        Ok(vec![Ok(thread("t")), Err(self.0.clone())])
    }

    async fn wish(&self, _: &ThreadId, _: Wish) -> Result<Wished, StoreError> {
        Err(self.0.clone())
    }

    async fn wished(&self, _: &ThreadId) -> Result<Option<Wish>, StoreError> {
        Err(self.0.clone())
    }

    async fn restore(&self, _: ThreadArchive) -> Result<(), StoreError> {
        Err(self.0.clone())
    }

    async fn delete_thread(&self, _: &ThreadId) -> Result<(), StoreError> {
        Err(self.0.clone())
    }

    async fn copy_thread(&self, _: &ThreadId, _: &ThreadId) -> Result<(), StoreError> {
        Err(self.0.clone())
    }

    async fn retain(&self, _: Retain) -> Result<Retained, StoreError> {
        Err(self.0.clone())
    }

    async fn durable(&self) -> Result<(), StoreError> {
        if self.1 { Err(self.0.clone()) } else { Ok(()) }
    }
}

#[tokio::test]
async fn an_error_of_the_store_travels_as_what_it_is() {
    let corrupt = StoreError::Corrupt {
        place: "record 3".to_owned(),
        found: "a bit is wrong".to_owned(),
        hint: "Put the copy back",
    };
    let newer = StoreError::Newer {
        place: "record 3".to_owned(),
        found: 9,
        known: 1,
    };
    let full = StoreError::Io {
        action: "reading".to_owned(),
        source: Arc::new(std::io::Error::from_raw_os_error(28)),
    };
    for (error, late) in [
        (corrupt, false),
        (newer, false),
        (full.clone(), false),
        (StoreError::Closed, false),
        (full, true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Failing(error.clone(), late));
        let _window = Window::open(store, folder.path()).unwrap();
        let peer = Peer::connect(folder.path()).unwrap();
        let told = peer.head(&thread("t")).await.unwrap_err();
        assert_eq!(
            std::mem::discriminant(&told),
            std::mem::discriminant(&error),
            "{told:?}"
        );
        let (told_text, text) = (told.to_string(), error.to_string());
        assert!(
            told_text.starts_with(&text),
            "{told_text} instead of {text}"
        );
        if let (StoreError::Io { source, .. }, StoreError::Io { source: sent, .. }) = (told, error)
        {
            assert_eq!(source.kind(), sent.kind());
        }
        if !late {
            let names = peer.thread_names().await.unwrap();
            assert_eq!(names[0].as_ref().unwrap(), &thread("t"));
            let one = names[1].as_ref().unwrap_err().to_string();
            assert!(one.starts_with(&text), "{one} instead of {text}");
        }
        // A panic of the store, and a segment that is not there, end one question and no more.
        let told = peer.records(&thread("t"), Seq::new(1), 1).await;
        assert!(matches!(told, Err(StoreError::Io { .. })), "{told:?}");
        if !late {
            let told = peer.segments(&thread("t"), &[[1; 16]]).await;
            assert!(matches!(told, Err(StoreError::Io { .. })), "{told:?}");
        }
        peer.head(&thread("t")).await.unwrap_err();
    }
}
