//! The window's socket, from both ends: a client that says anything, and a holder that answers
//! anything.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use milepost::store::{CheckpointStore, MemoryStore, Peer, StoreError, Window, Wish, WishKind};
use milepost::{RunId, Seq, ThreadId};

use crate::corpus::{keep, of, play};
use crate::memory::Memory;
use crate::mutate::{Dice, mutate};

fn block_on<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(what)
}

fn t() -> ThreadId {
    ThreadId::new("t").unwrap()
}

/// A store with a thread of a few records.
fn store() -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let lines = of("thread");
    let mut archive = None;
    for line in &lines {
        use milepost::store::ExportLine;
        match (serde_json::from_slice(line).unwrap(), &mut archive) {
            (ExportLine::Thread(thread), None) => archive = Some(thread.begin()),
            (ExportLine::Record(record), Some(archive)) => archive.records.push(record.into()),
            (ExportLine::Segment(segment), Some(archive)) => {
                archive.segments.push((segment.id, segment.bytes.into()));
            }
            _ => unreachable!("a thread is a thread, records and segments"),
        }
    }
    let mut archive = archive.unwrap();
    archive.thread = t();
    block_on(store.restore(archive)).unwrap();
    store
}

/// Everything that a peer can ask.
async fn ask_all(peer: &Peer) -> Vec<StoreError> {
    let run = RunId::new("run-1").unwrap();
    let wish = Wish {
        run: "run-1".to_owned(),
        kind: WishKind::Cancel,
        at_ms: 1,
        reason: "why".to_owned(),
    };
    let told: [Result<(), StoreError>; 9] = [
        peer.head(&t()).await.map(drop),
        peer.records(&t(), Seq::new(1), 5).await.map(drop),
        peer.segments(&t(), &[[1; 16]]).await.map(drop),
        peer.run(&t(), &run).await.map(drop),
        peer.threads(None, 5).await.map(drop),
        peer.extent(&t()).await.map(drop),
        peer.thread_names().await.map(drop),
        peer.wished(&t()).await.map(drop),
        peer.ask_to_stop(&t(), wish).await.map(drop),
    ];
    told.into_iter().filter_map(Result::err).collect()
}

/// What passes between a peer and a window, told by a go-between.
fn overheard() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let (behind, before) = (folder.path().join("behind"), folder.path().join("before"));
    std::fs::create_dir_all(before.join("window")).unwrap();
    std::fs::create_dir(&behind).unwrap();
    let window = Window::open(store(), &behind).unwrap();
    let listener = UnixListener::bind(before.join("window/socket")).unwrap();
    let heard = Arc::new(Mutex::new((Vec::new(), Vec::new())));
    let theirs = Arc::clone(&heard);
    let between = thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let mut window = UnixStream::connect(behind.join("window/socket")).unwrap();
        let mut hello = [0; 10];
        window.read_exact(&mut hello).unwrap();
        peer.write_all(&hello).unwrap();
        while let Some(asked) = message(&mut peer) {
            window.write_all(&asked).unwrap();
            let told = message(&mut window).unwrap();
            peer.write_all(&told).unwrap();
            let mut heard = theirs.lock().unwrap();
            heard.0.push(asked);
            heard.1.push(told);
        }
    });
    let peer = Peer::connect(&before).unwrap();
    block_on(ask_all(&peer));
    drop(peer);
    between.join().unwrap();
    drop(window);
    let heard = heard.lock().unwrap();
    heard.clone()
}

/// Reads a length and a body, as they are.
fn message(from: &mut UnixStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length).ok()?;
    let mut message = length.to_vec();
    let body = u64::from(u32::from_le_bytes(length));
    from.take(body).read_to_end(&mut message).ok()?;
    Some(message)
}

fn numbered(messages: Vec<Vec<u8>>) -> Vec<(String, Vec<u8>)> {
    let all = messages.into_iter().enumerate();
    all.map(|(number, bytes)| (format!("{number:02}"), bytes))
        .collect()
}

#[test]
fn what_is_kept_is_what_passes() {
    let (asked, told) = overheard();
    assert!(asked.len() >= 9 && asked.len() == told.len());
    if std::env::var_os("MILEPOST_BLESS").is_some() {
        keep("ask", &numbered(asked));
        keep("tell", &numbered(told));
    }
}

/// With its length as it is, or as it should be.
fn lengths(bytes: &[u8]) -> [Vec<u8>; 2] {
    let mut right = bytes.to_vec();
    if let Some((length, body)) = right.split_first_chunk_mut::<4>() {
        *length = (body.len() as u32).to_le_bytes();
    }
    [bytes.to_vec(), right]
}

#[test]
fn questions_to_a_window() {
    let folder = tempfile::tempdir().unwrap();
    let window = Window::open(store(), folder.path()).unwrap();
    let socket = folder.path().join("window/socket");
    play("ask", 1_500, |bytes| {
        for message in lengths(bytes) {
            let mut stream = UnixStream::connect(&socket).unwrap();
            let mut hello = [0; 10];
            stream.read_exact(&mut hello).unwrap();
            // The window may have hung up by then.
            let _ = stream.write_all(&message);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut told = Vec::new();
            let _ = stream.read_to_end(&mut told);
        }
    });
    // And it still answers.
    let peer = Peer::connect(folder.path()).unwrap();
    let head = block_on(peer.head(&t())).unwrap();
    assert!(head.is_some());
    drop(window);
}

#[test]
fn answers_to_a_peer() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("window")).unwrap();
    let listener = UnixListener::bind(folder.path().join("window/socket")).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let (hand, answers) = mpsc::channel::<Vec<u8>>();
    let theirs = Arc::clone(&over);
    let holder = thread::spawn(move || {
        let mut hello = b"MPWN\x02\x00".to_vec();
        hello.extend_from_slice(&std::process::id().to_le_bytes());
        let mut answer = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            if theirs.load(Ordering::SeqCst) {
                return;
            }
            if let Some(last) = answers.try_iter().last() {
                answer = last;
            }
            let _ = stream.write_all(&hello);
            while message(&mut stream).is_some() {
                if stream.write_all(&answer).is_err() {
                    break;
                }
            }
        }
    });
    let inputs = of("tell");
    let cases = std::env::var("MILEPOST_FUZZ_CASES");
    let cases = cases.map_or(250, |number| number.parse().unwrap());
    let memory = Memory::watch();
    for case in 0..cases {
        let mut dice = Dice::new(case + 1);
        let (input, other) = (dice.one(&inputs).clone(), dice.one(&inputs).clone());
        let bytes = mutate(&mut dice, &input, &other);
        // Whoever answers in part keeps its peer waiting, which is not of interest here.
        let [_, whole] = lengths(&bytes);
        if whole.len() < 4 {
            continue;
        }
        hand.send(whole).unwrap();
        let peer = Peer::connect(folder.path()).unwrap();
        let told =
            block_on(async { tokio::time::timeout(Duration::from_secs(20), ask_all(&peer)).await });
        for error in told.unwrap_or_else(|_| panic!("case {case} hangs")) {
            let said = matches!(
                error,
                StoreError::Io { .. }
                    | StoreError::Corrupt { .. }
                    | StoreError::Newer { .. }
                    | StoreError::Closed
                    | StoreError::Refused { .. }
            );
            assert!(said, "case {case}: {error}");
        }
    }
    memory.check();
    over.store(true, Ordering::SeqCst);
    drop(UnixStream::connect(folder.path().join("window/socket")));
    holder.join().unwrap();
}
