//! The writer, its group commit and the claims under a model checker: each scenario runs in very many
//! orders of its threads (`src/sync.rs`; `docs/reliability.md` says how).
//!
//! The disk is one in memory that knows what a power cut would leave. Each of its calls can fail or
//! panic, and at each of them everything else may run.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::engine::{Batch, Disk, Keys, Opened, Place, Tree};
use super::vault::Vault;
use super::*;
use crate::ids::Branch;
use crate::store::conformance::{one_of_each, sample_head};
use crate::store::record::Record;
use crate::store::wish::WishKind;
use crate::sync::{Mutex, below, exhaust, explore, thread};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// What readers see, what the system has, what a power cut leaves.
#[derive(Debug, Default)]
struct Platter {
    seen: Mutex<Rows>,
    handed: Mutex<Rows>,
    safe: Mutex<Rows>,
}

impl Platter {
    /// Whether a power cut would leave a record.
    fn keeps(&self, thread: &ThreadId, seq: u64) -> bool {
        let key = Slot::record(ThreadKey::of(thread), Seq::new(seq)).row(0);
        self.safe.lock().unwrap().contains_key(&key)
    }
}

impl Tree for Platter {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.seen.lock().unwrap().get(key).cloned())
    }

    fn keys(&self, from: &[u8], to: Option<&[u8]>) -> Keys<'_> {
        let seen = self.seen.lock().unwrap();
        let keys = seen
            .keys()
            .filter(|key| key.as_slice() >= from && to.is_none_or(|to| key.as_slice() < to));
        Box::new(keys.cloned().map(Ok).collect::<Vec<_>>().into_iter())
    }
}

/// How a call of the disk goes wrong: the one with this number, from 1.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Never,
    Fails(usize),
    Panics(usize),
}

struct Arm {
    platter: Arc<Platter>,
    trouble: Trouble,
    calls: usize,
}

impl Arm {
    fn call(&mut self) -> Result<(), StoreError> {
        thread::yield_now();
        self.calls += 1;
        match self.trouble {
            Trouble::Fails(at) if at == self.calls => Err(StoreError::Io {
                action: "writing".to_owned(),
                source: Arc::new(std::io::Error::other("the disk is full")),
            }),
            // Without the hook of panics, which would tell of each.
            Trouble::Panics(at) if at == self.calls => {
                std::panic::resume_unwind(Box::new("the engine gives up"))
            }
            _ => Ok(()),
        }
    }
}

impl Disk for Arm {
    fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        self.call()?;
        for (key, row) in batch.0 {
            let mut seen = self.platter.seen.lock().unwrap();
            match row {
                Some(row) => seen.insert(key, row),
                None => seen.remove(&key),
            };
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.call()?;
        let seen = self.platter.seen.lock().unwrap().clone();
        *self.platter.handed.lock().unwrap() = seen;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.call()?;
        let handed = self.platter.handed.lock().unwrap().clone();
        *self.platter.safe.lock().unwrap() = handed;
        Ok(())
    }

    fn note(&mut self, _: u64) {}
}

#[derive(Debug)]
enum Model {}

type Store = DiskStore<Model>;

fn open(trouble: Trouble) -> (Store, Arc<Platter>) {
    let platter = Arc::new(Platter::default());
    let opened = Opened {
        place: Place {
            path: "model".into(),
            engine: "the model",
        },
        tree: Arc::clone(&platter) as Arc<dyn Tree>,
        disk: Box::new(Arm {
            platter: Arc::clone(&platter),
            trouble,
            calls: 0,
        }),
        vault: Vault::default(),
        over: BLOB_BYTES,
        batch: 0,
        close: Box::new(|| ()),
    };
    (Store::start(opened).unwrap(), platter)
}

fn id(number: usize) -> ThreadId {
    ThreadId::new(format!("t{number}")).unwrap()
}

/// An input, or the one after it.
fn write(thread: &ThreadId, epoch: Epoch, first: Seq) -> Write {
    let record = one_of_each().swap_remove(1);
    assert!(matches!(record, Record::Input(_)));
    Write {
        fulfils: None,
        thread: thread.clone(),
        epoch,
        branch: Branch::new(0),
        expected: Seq::new(first.get() - 1),
        first,
        records: vec![record],
        segments: Vec::new(),
        head: Head {
            seq: first,
            base: Seq::new(0),
            run: "run".into(),
            status: Status::Running,
            ..sample_head()
        },
        run: None,
    }
}

fn wish() -> Wish {
    Wish {
        run: "run".into(),
        kind: WishKind::Cancel,
        at_ms: 0,
        reason: String::new(),
    }
}

fn block_on<T>(what: impl Future<Output = T>) -> T {
    shuttle::future::block_on(what)
}

/// Claims a thread and appends to it, as a run does that stops at the first refusal. Gives the seqs that
/// were acknowledged, each of which a power cut would have left by then.
fn appends(store: &Store, platter: &Platter, thread: &ThreadId, how: Take, times: u64) -> Vec<u64> {
    let Ok(claim) = block_on(store.claim(thread, how)) else {
        return Vec::new();
    };
    let mut acknowledged = Vec::new();
    for first in (claim.next.get()..).take(times as usize) {
        let write = write(thread, claim.epoch, Seq::new(first));
        match block_on(store.append(write)) {
            Ok(()) => {
                assert!(platter.keeps(thread, first), "told before it was synced");
                acknowledged.push(first);
            }
            // The one answer that it gets says why: nothing hangs, and nothing is lost on the way.
            Err(StoreError::Closed) => panic!("an append was not answered"),
            Err(_) => break,
        }
    }
    store.release(thread, claim.epoch);
    acknowledged
}

/// What is in the log when all is over: no gap, epochs that only rise, everything acknowledged.
fn is_sound(store: &Store, thread: &ThreadId, acknowledged: &[u64]) {
    let Ok(log) = block_on(store.records(thread, Seq::new(0), usize::MAX)) else {
        return;
    };
    let seqs: Vec<u64> = log.iter().map(|stored| stored.seq.get()).collect();
    assert!(seqs.iter().copied().eq(1..=seqs.len() as u64), "{seqs:?}");
    assert!(log.is_sorted_by_key(|stored| stored.epoch), "{log:?}");
    for seq in acknowledged {
        assert!(seqs.contains(seq), "{seq} is lost: {seqs:?}");
    }
}

/// Threads of their own, each of which appends.
fn crowd(trouble: Trouble, threads: usize, times: u64) {
    let (store, platter) = open(trouble);
    let all: Vec<_> = (0..threads)
        .map(|number| {
            let (store, platter) = (store.clone(), Arc::clone(&platter));
            thread::spawn(move || appends(&store, &platter, &id(number), Take::IfFree, times))
        })
        .collect();
    let all: Vec<_> = all.into_iter().map(|one| one.join().unwrap()).collect();
    for (number, acknowledged) in all.iter().enumerate() {
        match trouble {
            Trouble::Never => assert_eq!(acknowledged.len() as u64, times),
            // Nothing more is written after the first trouble.
            _ => assert!(
                acknowledged
                    .iter()
                    .copied()
                    .eq(1..=acknowledged.len() as u64)
            ),
        }
        is_sound(&store, &id(number), acknowledged);
    }
    drop(store);
    for (number, acknowledged) in all.iter().enumerate() {
        assert!(
            acknowledged
                .iter()
                .all(|seq| platter.keeps(&id(number), *seq))
        );
    }
}

/// No append is acknowledged before its batch is synced, each gets one answer, and the order of each
/// thread is kept.
#[test]
fn model_appends_of_many_threads_are_durable_when_they_are_answered() {
    explore("group commit", 200, || crowd(Trouble::Never, 3, 2));
}

/// The same where the disk fails or panics at any of its calls.
#[test]
fn model_appends_are_answered_once_where_the_disk_fails() {
    explore("failing disk", 200, || {
        let at = 1 + below(9);
        match below(2) {
            0 => crowd(Trouble::Fails(at), 3, 2),
            _ => crowd(Trouble::Panics(at), 3, 2),
        }
    });
}

/// Callers of one thread: of each place in the log, one is told that it is its.
fn rivals(how: [Take; 2], times: u64) {
    let (store, platter) = open(Trouble::Never);
    let both: Vec<_> = how
        .into_iter()
        .map(|how| {
            let (store, platter) = (store.clone(), Arc::clone(&platter));
            thread::spawn(move || appends(&store, &platter, &id(0), how, times))
        })
        .collect();
    let mut acknowledged: Vec<u64> = both
        .into_iter()
        .flat_map(|one| one.join().unwrap())
        .collect();
    acknowledged.sort_unstable();
    let mut once = acknowledged.clone();
    once.dedup();
    assert_eq!(acknowledged, once, "two hold one place");
    assert!(!acknowledged.is_empty());
    is_sound(&store, &id(0), &acknowledged);
}

#[test]
fn model_a_thread_has_one_writer_whoever_replaces_whom() {
    explore("replacing", 200, || {
        rivals([Take::IfFree, Take::Replace], 3)
    });
    explore("both replacing", 200, || {
        rivals([Take::Replace, Take::Replace], 3)
    });
    explore("both if free", 200, || {
        rivals([Take::IfFree, Take::IfFree], 3)
    });
}

/// Claims alone, in every order: an epoch is given once, and a release takes nobody's thread away but
/// its own.
#[test]
fn model_no_two_hold_one_epoch() {
    exhaust("claims", 50_000, || {
        let claims = Arc::new(super::claims::Claims::default());
        let took: Vec<_> = [Take::IfFree, Take::Replace]
            .into_iter()
            .map(|how| {
                let claims = Arc::clone(&claims);
                thread::spawn(move || {
                    let taken = claims.take(&id(0), Epoch::new(4), how);
                    taken.ok().map(|(epoch, _)| {
                        claims.release(&id(0), epoch);
                        epoch
                    })
                })
            })
            .collect();
        let took: Vec<_> = took.into_iter().map(|one| one.join().unwrap()).collect();
        assert!(took[1].is_some());
        assert_ne!(took[0], took[1]);
        let (last, _) = claims.take(&id(0), Epoch::new(4), Take::IfFree).unwrap();
        assert!(took.into_iter().flatten().all(|epoch| epoch < last));
    });
}

/// A wish that is kept reaches whoever holds the thread then, or whoever takes it next; and it is
/// refused where nobody holds it.
#[test]
fn model_a_wish_is_heard_whoever_gives_the_thread_back() {
    explore("wishes", 200, || {
        let (store, _) = open(Trouble::Never);
        let first = block_on(store.claim(&id(0), Take::IfFree)).unwrap();
        block_on(store.append(write(&id(0), first.epoch, Seq::new(1)))).unwrap();
        let asks = {
            let store = store.clone();
            thread::spawn(move || block_on(store.wish(&id(0), wish())).unwrap())
        };
        let next = {
            let store = store.clone();
            thread::spawn(move || {
                store.release(&id(0), first.epoch);
                block_on(store.claim(&id(0), Take::IfFree)).unwrap()
            })
        };
        let (asked, next) = (asks.join().unwrap(), next.join().unwrap());
        match asked {
            Wished::Kept => assert_eq!(next.wishes.newest(), Some(wish())),
            Wished::Free => assert_eq!(next.wishes.newest(), None),
            other => panic!("{other:?}"),
        }
        let waits = block_on(store.wished(&id(0))).unwrap();
        assert_eq!(waits, next.wishes.newest());
    });
}

/// A store that is closed while jobs wait, whose callers have gone, does them first.
#[test]
fn model_a_close_does_what_waits() {
    explore("close", 200, || {
        let (store, platter) = open(Trouble::Never);
        let claims: Vec<_> = (0..3)
            .map(|number| block_on(store.claim(&id(number), Take::IfFree)).unwrap())
            .collect();
        for (number, claim) in claims.iter().enumerate() {
            let append = store.append(write(&id(number), claim.epoch, Seq::new(1)));
            // It is handed over, and nobody waits for the answer.
            let mut noop = std::task::Context::from_waker(std::task::Waker::noop());
            let _ = std::pin::pin!(append).as_mut().poll(&mut noop);
        }
        drop(store);
        assert!((0..3).all(|number| platter.keeps(&id(number), 1)));
    });
}
