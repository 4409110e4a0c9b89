//! The writer against disks that wait, refuse and panic.

mod cut;
mod replace;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use std::time::Duration;

use super::engine::{Batch, Disk};
use super::*;
use crate::ids::Branch;
use crate::store::conformance::{one_of_each, sample_head};
use crate::store::record::Record;

/// How long a test waits for what must come, before it fails and does not hang.
const PATIENCE: Duration = Duration::from_secs(20);

type Log = Arc<Mutex<Vec<&'static str>>>;

/// What a disk does instead of its work.
type Trick = Box<dyn FnMut(&'static str) -> Result<(), StoreError> + Send>;

struct Tricky {
    disk: Box<dyn Disk>,
    log: Log,
    trick: Trick,
}

impl Tricky {
    fn step(&mut self, call: &'static str) -> Result<(), StoreError> {
        self.log.lock().unwrap().push(call);
        (self.trick)(call)
    }
}

impl Disk for Tricky {
    fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        self.step("write")?;
        self.disk.write(batch)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.step("flush")?;
        self.disk.flush()
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.step("sync")?;
        self.disk.sync()
    }

    fn note(&mut self, batch: u64) {
        self.log.lock().unwrap().push("note");
        self.disk.note(batch);
    }
}

type Store = DiskStore<StoreEngine>;

/// The engines that this build has.
const ENGINES: &[StoreEngine] = &[
    #[cfg(feature = "sled")]
    StoreEngine::Sled,
    #[cfg(feature = "fjall")]
    StoreEngine::Fjall,
];

fn reopen(engine: StoreEngine, path: &Path) -> Store {
    Store::start(engine.opened(path).unwrap()).unwrap()
}

fn open(engine: StoreEngine, path: &Path, trick: Trick) -> (Store, Log) {
    let log = Log::default();
    let theirs = Arc::clone(&log);
    let mut opened = engine.opened(path).unwrap();
    opened.disk = Box::new(Tricky {
        disk: opened.disk,
        log: theirs,
        trick,
    });
    (Store::start(opened).unwrap(), log)
}

fn thread(number: usize) -> ThreadId {
    ThreadId::new(format!("t{number}")).unwrap()
}

/// An input, or the one after it.
fn write(thread: &ThreadId, epoch: Epoch, first: u64) -> Write {
    let record = one_of_each().swap_remove(1);
    assert!(matches!(record, Record::Input(_)));
    Write {
        fulfils: None,
        thread: thread.clone(),
        epoch,
        branch: Branch::new(0),
        expected: Seq::new(first - 1),
        first: Seq::new(first),
        records: vec![record],
        segments: Vec::new(),
        head: Head {
            seq: Seq::new(first),
            base: Seq::new(0),
            ..sample_head()
        },
        run: None,
    }
}

async fn claim(store: &Store, thread: &ThreadId) -> Epoch {
    store.claim(thread, Take::IfFree).await.unwrap().epoch
}

async fn count(store: &Store, thread: &ThreadId) -> usize {
    let all = store.records(thread, Seq::new(0), usize::MAX).await;
    all.unwrap().len()
}

/// A disk whose sync says that it was reached and then waits to be let on.
fn gated() -> (Trick, Receiver<()>, Sender<()>) {
    let (reached, at_sync) = channel();
    let (let_on, waiting) = channel();
    let trick = move |call| {
        if call == "sync" {
            let _ = reached.send(());
            let _: Result<(), _> = waiting.recv();
        }
        Ok(())
    };
    (Box::new(trick), at_sync, let_on)
}

fn says_no(at: &'static str) -> Trick {
    Box::new(move |call| {
        if call != at {
            return Ok(());
        }
        Err(StoreError::Io {
            action: at.to_owned(),
            source: Arc::new(std::io::Error::other("no space left on device")),
        })
    })
}

#[tokio::test]
async fn a_write_is_acknowledged_after_write_flush_and_sync_in_this_order() {
    for &engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let (trick, at_sync, let_on) = gated();
        let (store, log) = open(engine, folder.path(), trick);
        let epoch = claim(&store, &thread(0)).await;
        let mut append = store.append(write(&thread(0), epoch, 1));
        assert!(futures::poll!(&mut append).is_pending());
        at_sync.recv_timeout(PATIENCE).unwrap();
        assert_eq!(*log.lock().unwrap(), ["write", "flush", "sync"]);
        // The disk has it all but for the sync, and still nobody was told.
        assert!(futures::poll!(&mut append).is_pending());
        let_on.send(()).unwrap();
        append.await.unwrap();
        assert_eq!(*log.lock().unwrap(), ["write", "flush", "sync", "note"]);
        drop(let_on);
    }
}

#[tokio::test]
async fn what_can_be_read_is_durable_once_that_was_waited_for() {
    for &engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let (trick, at_sync, let_on) = gated();
        let (store, _) = open(engine, folder.path(), trick);
        store.durable().await.unwrap();
        let epoch = claim(&store, &thread(0)).await;
        let mut append = store.append(write(&thread(0), epoch, 1));
        assert!(futures::poll!(&mut append).is_pending());
        at_sync.recv_timeout(PATIENCE).unwrap();
        // It can be read, and a power cut could still take it.
        assert_eq!(count(&store, &thread(0)).await, 1);
        let mut durable = store.durable();
        assert!(futures::poll!(&mut durable).is_pending());
        drop(let_on);
        durable.await.unwrap();
        append.await.unwrap();
        drop(store);

        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open(engine, folder.path(), says_no("sync"));
        let epoch = claim(&store, &thread(0)).await;
        store.append(write(&thread(0), epoch, 1)).await.unwrap_err();
        assert!(matches!(store.durable().await, Err(StoreError::Io { .. })));
    }
}

#[tokio::test]
async fn what_waits_is_written_in_one_batch_with_one_sync() {
    for &engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let (trick, at_sync, let_on) = gated();
        let (store, log) = open(engine, folder.path(), trick);
        let mut epochs = Vec::new();
        for number in 0..8 {
            epochs.push(claim(&store, &thread(number)).await);
        }
        let mut first = store.append(write(&thread(0), epochs[0], 1));
        assert!(futures::poll!(&mut first).is_pending());
        at_sync.recv_timeout(PATIENCE).unwrap();
        let mut waiting = Vec::new();
        // Two more of the same thread, the second on top of the first, and one of each other.
        waiting.push(store.append(write(&thread(0), epochs[0], 2)));
        waiting.push(store.append(write(&thread(0), epochs[0], 3)));
        for (number, epoch) in epochs.iter().enumerate().skip(1) {
            waiting.push(store.append(write(&thread(number), *epoch, 1)));
        }
        // A writer that is behind is refused alone.
        let mut late = store.append(write(&thread(0), epochs[0], 2));
        for append in &mut waiting {
            assert!(futures::poll!(append).is_pending());
        }
        assert!(futures::poll!(&mut late).is_pending());
        drop(let_on);
        first.await.unwrap();
        for append in waiting {
            append.await.unwrap();
        }
        assert!(matches!(late.await, Err(StoreError::Conflict { .. })));
        assert_eq!(
            *log.lock().unwrap(),
            ["write", "flush", "sync", "note"].repeat(2)
        );
        assert_eq!(count(&store, &thread(0)).await, 3);
        assert_eq!(count(&store, &thread(7)).await, 1);
    }
}

#[tokio::test]
async fn an_append_whose_caller_left_is_written_whole_or_not_at_all() {
    for &engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let (trick, at_sync, let_on) = gated();
        let (store, _) = open(engine, folder.path(), trick);
        let epoch = claim(&store, &thread(0)).await;
        let mut append = store.append(write(&thread(0), epoch, 1));
        assert!(futures::poll!(&mut append).is_pending());
        at_sync.recv_timeout(PATIENCE).unwrap();
        drop(append);
        drop(let_on);
        store.release(&thread(0), epoch);
        let next = claim(&store, &thread(0)).await;
        assert!(next > epoch);
        store.append(write(&thread(0), next, 2)).await.unwrap();
        assert_eq!(count(&store, &thread(0)).await, 2);
    }
}

#[tokio::test]
async fn after_a_failed_flush_or_sync_nothing_is_written_until_it_is_opened_again() {
    for &engine in ENGINES {
        for at in ["write", "flush", "sync"] {
            let folder = tempfile::tempdir().unwrap();
            let (store, log) = open(engine, folder.path(), says_no(at));
            let epoch = claim(&store, &thread(0)).await;
            let other = claim(&store, &thread(1)).await;
            let told = store.append(write(&thread(0), epoch, 1)).await;
            let calls = log.lock().unwrap().len();
            for told in [
                told,
                store.append(write(&thread(0), epoch, 1)).await,
                store.append(write(&thread(1), other, 1)).await,
                store.delete_thread(&thread(2)).await,
                store.claim(&thread(3), Take::Replace).await.map(|_| ()),
            ] {
                let Err(error @ StoreError::Io { .. }) = told else {
                    panic!("{at}: {told:?}");
                };
                let said = error.to_string();
                assert!(said.contains("open the store again"), "{said}");
                assert!(said.contains("no space left"), "{said}");
            }
            assert_eq!(log.lock().unwrap().len(), calls, "the disk was left alone");
            drop(store);
            let store = reopen(engine, folder.path());
            // What was not acknowledged is there whole or not at all.
            let there = count(&store, &thread(0)).await;
            let epoch = claim(&store, &thread(0)).await;
            let next = write(&thread(0), epoch, there as u64 + 1);
            store.append(next).await.unwrap();
            assert_eq!(count(&store, &thread(0)).await, there + 1);
        }
    }
}

#[tokio::test]
async fn a_panic_below_the_writer_is_a_typed_error_for_everyone_and_no_hang() {
    for &engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open(
            engine,
            folder.path(),
            Box::new(|call| match call {
                "flush" => panic!("a page has gone"),
                _ => Ok(()),
            }),
        );
        let epoch = claim(&store, &thread(0)).await;
        let other = claim(&store, &thread(1)).await;
        let both = futures::join!(
            store.append(write(&thread(0), epoch, 1)),
            store.append(write(&thread(1), other, 1))
        );
        for told in [
            both.0,
            both.1,
            store.append(write(&thread(0), epoch, 1)).await,
        ] {
            let Err(error @ StoreError::Corrupt { .. }) = told else {
                panic!("{told:?}");
            };
            assert!(error.to_string().contains("a page has gone"), "{error}");
        }
        drop(store);
        reopen(engine, folder.path());
    }
}

#[tokio::test]
async fn upkeep_goes_the_same_way_to_the_disk() {
    for &engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let (store, log) = open(engine, folder.path(), Box::new(|_| Ok(())));
        let epoch = claim(&store, &thread(0)).await;
        store.append(write(&thread(0), epoch, 1)).await.unwrap();
        store.release(&thread(0), epoch);
        store.copy_thread(&thread(0), &thread(1)).await.unwrap();
        store.delete_thread(&thread(0)).await.unwrap();
        // Nothing to do, nothing to sync.
        store.delete_thread(&thread(0)).await.unwrap();
        store.prune(&thread(1)).await.unwrap();
        let calls = ["write", "flush", "sync", "note"].repeat(3);
        assert_eq!(*log.lock().unwrap(), calls);
    }
}
