//! Power cuts, played at the seam: of what was handed to a disk, that is there which was synced.
//!
//! The writer's calls are recorded while several threads write, are copied and deleted. For every
//! moment of the record a disk is made of the batches before the last sync, with and without the
//! one that was under way, and a store over it is compared with what had been acknowledged by then.

use std::collections::BTreeMap;
use std::sync::RwLock;

use super::super::engine::{Keys, Place, Tree};
use super::super::vault::Vault;
use super::*;

/// Records of one write.
const TOGETHER: u64 = 3;
const WRITES: u64 = 8;

/// A call of the writer.
enum Did {
    Wrote(Batch),
    Flushed,
    Synced,
    Noted,
}

type Calls = Arc<Mutex<Vec<Did>>>;

/// A real disk whose calls are kept. One that does not sync leaves that call out.
struct Recorder {
    disk: Box<dyn Disk>,
    calls: Calls,
    syncs: bool,
}

impl Recorder {
    fn did(&self, call: Did) {
        self.calls.lock().unwrap().push(call);
    }
}

impl Disk for Recorder {
    fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        self.did(Did::Wrote(batch.clone()));
        self.disk.write(batch)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.disk.flush()?;
        self.did(Did::Flushed);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        if self.syncs {
            self.disk.sync()?;
            self.did(Did::Synced);
        }
        Ok(())
    }

    fn note(&mut self, batch: u64) {
        self.did(Did::Noted);
        self.disk.note(batch);
    }
}

/// Rows in memory: what a power cut has left.
#[derive(Debug, Default)]
struct Left(RwLock<BTreeMap<Vec<u8>, Vec<u8>>>);

impl Left {
    fn apply(&self, batch: &Batch) {
        let mut rows = self.0.write().unwrap();
        for (key, row) in &batch.0 {
            match row {
                Some(row) => rows.insert(key.clone(), row.clone()),
                None => rows.remove(key),
            };
        }
    }
}

impl Tree for Left {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.read().unwrap().get(key).cloned())
    }

    fn keys(&self, from: &[u8], to: Option<&[u8]>) -> Keys<'_> {
        let rows = self.0.read().unwrap();
        let keys = rows.range(from.to_vec()..).map(|(key, _)| key.clone());
        let keys = keys.take_while(|key| to.is_none_or(|to| key.as_slice() < to));
        Box::new(keys.map(Ok).collect::<Vec<_>>().into_iter())
    }
}

impl Disk for Arc<Left> {
    fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        self.apply(&batch);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn note(&mut self, _batch: u64) {}
}

/// What somebody was told, from when on, and until when it holds.
#[derive(Debug, Clone)]
struct Owed {
    thread: ThreadId,
    /// So many records; none for a thread that was deleted.
    records: u64,
    from: usize,
    until: usize,
}

/// A store while it is written to, and what it has told.
struct Day {
    store: Store,
    calls: Calls,
    owed: Mutex<Vec<Owed>>,
}

impl Day {
    fn now(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    fn owe(&self, thread: &ThreadId, records: u64) {
        self.owed.lock().unwrap().push(Owed {
            thread: thread.clone(),
            records,
            from: self.now(),
            until: usize::MAX,
        });
    }

    async fn grow(&self, thread: &ThreadId) {
        let epoch = claim(&self.store, thread).await;
        for number in 0..WRITES {
            let first = number * TOGETHER + 1;
            let mut write = write(thread, epoch, first);
            write.records = vec![write.records[0].clone(); TOGETHER as usize];
            write.head.seq = Seq::new(first + TOGETHER - 1);
            self.store.append(write).await.unwrap();
            self.owe(thread, first + TOGETHER - 1);
        }
        self.store.release(thread, epoch);
    }

    async fn live(&self, number: usize) {
        let (first, copy) = (thread(number), thread(number + 100));
        self.grow(&first).await;
        self.store.copy_thread(&first, &copy).await.unwrap();
        self.owe(&copy, WRITES * TOGETHER);
        // From here on the first one may be there or not, until it is not.
        let now = self.now();
        for owed in self.owed.lock().unwrap().iter_mut() {
            if owed.thread == first {
                owed.until = now;
            }
        }
        self.store.delete_thread(&first).await.unwrap();
        self.owe(&first, 0);
    }
}

/// Lets some threads live, and gives the calls and what is owed.
async fn day(engine: StoreEngine, syncs: bool) -> (Vec<Did>, Vec<Owed>) {
    let folder = tempfile::tempdir().unwrap();
    let calls = Calls::default();
    let mut opened = engine.opened(folder.path()).unwrap();
    opened.disk = Box::new(Recorder {
        disk: opened.disk,
        calls: Arc::clone(&calls),
        syncs,
    });
    let day = Day {
        store: Store::start(opened).unwrap(),
        calls: Arc::clone(&calls),
        owed: Mutex::default(),
    };
    futures::future::join_all((0..4).map(|number| day.live(number))).await;
    let owed = day.owed.into_inner().unwrap();
    drop(day.store);
    (std::mem::take(&mut *calls.lock().unwrap()), owed)
}

/// The batches that were written before a moment: those that were synced by then, and the others.
fn before(calls: &[Did], cut: usize) -> (Vec<&Batch>, Vec<&Batch>) {
    let (mut synced, mut under_way) = (Vec::new(), Vec::new());
    for call in &calls[..cut] {
        match call {
            Did::Wrote(batch) => under_way.push(batch),
            Did::Synced => synced.append(&mut under_way),
            Did::Flushed | Did::Noted => {}
        }
    }
    (synced, under_way)
}

fn over(left: Left) -> Store {
    let left = Arc::new(left);
    Store::start(Opened {
        place: Place {
            path: PathBuf::from("what is left"),
            engine: "memory",
        },
        tree: Arc::clone(&left) as _,
        disk: Box::new(left),
        vault: Vault::default(),
        over: usize::MAX,
        batch: 0,
        close: Box::new(|| {}),
    })
    .unwrap()
}

/// What is wrong with what is left at a moment.
async fn wrong(store: &Store, owed: &[Owed], cut: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    for name in store.thread_names().await.unwrap() {
        let Ok(thread) = name else {
            wrong.push(format!("{name:?}"));
            continue;
        };
        match store.records(&thread, Seq::new(0), usize::MAX).await {
            Ok(log) if (log.len() as u64).is_multiple_of(TOGETHER) => {}
            Ok(log) => wrong.push(format!("{thread}: half a write, {} records", log.len())),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    for owed in owed.iter().filter(|it| it.from <= cut && cut < it.until) {
        let head = store.head(&owed.thread).await;
        let there = head.map(|head| head.map_or(0, |head| head.seq.get()));
        match (&there, owed.records) {
            (Ok(0), 0) => {}
            (Ok(there), records @ 1..) if *there >= records => {}
            _ => wrong.push(format!("{owed:?}: {there:?} are left")),
        }
    }
    wrong
}

#[tokio::test]
async fn a_power_cut_at_any_moment_takes_nothing_that_was_acknowledged_and_no_half_batch() {
    for &engine in ENGINES {
        let (calls, owed) = day(engine, true).await;
        assert!(owed.len() as u64 >= 4 * (WRITES + 2));
        for cut in 0..=calls.len() {
            let (synced, under_way) = before(&calls, cut);
            assert!(under_way.len() <= 1, "one batch is under way at a time");
            for arrived in [&[][..], &under_way] {
                let left = Left::default();
                synced.iter().chain(arrived).for_each(|it| left.apply(it));
                let wrong = wrong(&over(left), &owed, cut).await;
                assert_eq!(wrong, [""; 0], "{engine}, after call {cut}");
            }
        }
        // The engine itself over what is left, at some of the moments.
        for part in 1..=4 {
            let cut = calls.len() * part / 4 - part;
            let (synced, _) = before(&calls, cut);
            let folder = tempfile::tempdir().unwrap();
            let mut left = engine.opened(folder.path()).unwrap();
            for batch in synced {
                left.disk.write(batch.clone()).unwrap();
                left.disk.flush().unwrap();
                left.disk.sync().unwrap();
            }
            drop(Store::start(left).unwrap());
            let wrong = wrong(&reopen(engine, folder.path()), &owed, cut).await;
            assert_eq!(wrong, [""; 0], "{engine}, after call {cut}");
        }
    }
}

/// The control: the same comparison over a store whose writer does not sync.
#[tokio::test]
async fn without_a_sync_a_power_cut_takes_what_was_acknowledged() {
    for &engine in ENGINES {
        let (calls, owed) = day(engine, false).await;
        let (mut nothing_arrived, mut some_arrived) = (0, 0);
        for cut in 0..=calls.len() {
            let (synced, under_way) = before(&calls, cut);
            assert!(synced.is_empty());
            nothing_arrived += wrong(&over(Left::default()), &owed, cut).await.len();
            let left = Left::default();
            let mut dice = cut as u64 | 1;
            for batch in under_way {
                dice = dice.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (dice >> 29);
                if dice >> 63 == 1 {
                    left.apply(batch);
                }
            }
            some_arrived += wrong(&over(left), &owed, cut).await.len();
        }
        assert!(nothing_arrived > 100 && some_arrived > 20);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_job_goes_to_the_disk_in_the_same_order() {
    for &engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let logs = Mutex::new(Vec::new());
        let number = std::sync::atomic::AtomicUsize::new(0);
        let report = crate::store::conformance::check(async || {
            let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let path = folder.path().join(number.to_string());
            let (store, log) = open(engine, &path, Box::new(|_| Ok(())));
            logs.lock().unwrap().push(log);
            store
        })
        .await;
        assert!(report.passed(), "{report}");
        let mut batches = 0;
        for log in logs.into_inner().unwrap() {
            let log = log.lock().unwrap();
            let whole = ["write", "flush", "sync", "note"];
            assert!(log.chunks(4).all(|calls| calls == whole), "{log:?}");
            batches += log.len() / 4;
        }
        assert!(batches > 100, "{batches}");
    }
}
