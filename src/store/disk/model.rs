//! The writer, its group commit and the claims under a model checker: each scenario runs in very many
//! orders of its threads (`src/sync.rs`; `docs/reliability.md` says how).
//!
//! The disk is one in memory that knows what a power cut would leave. Each of its calls can fail or
//! panic, and at each of them everything else may run. What is not checked here: the engines' own
//! threads and files (`tests.rs`, `tests/cut.rs` and `tests/powercut` have those), and the inside of
//! the one-shot answers, which are tokio's: each call of them is one step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::engine::{Batch, Disk, Keys, Opened, Place, Tree};
use super::vault::Vault;
use super::*;
use crate::ids::Branch;
use crate::store::conformance::{one_of_each, sample_head};
use crate::store::record::Record;
use crate::store::wish::WishKind;
use crate::sync::{Mutex, MutexGuard, below, exhaust, explore, thread};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// What readers see, what the system has, what a power cut leaves.
#[derive(Debug, Default)]
struct Platter {
    seen: Mutex<Rows>,
    handed: Mutex<Rows>,
    safe: Mutex<Rows>,
    /// How many reads there were, and which of them panics.
    reads: AtomicUsize,
    blind: Option<usize>,
    /// Whether the disk was called after it had failed.
    late: AtomicBool,
}

fn rows(rows: &Mutex<Rows>) -> MutexGuard<'_, Rows> {
    // One thread of the system plays all: while one of them unwinds, a lock that another lets go of is
    // poisoned, too.
    rows.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Platter {
    /// Whether a power cut would leave a record.
    fn keeps(&self, thread: &ThreadId, seq: u64) -> bool {
        let key = Slot::record(ThreadKey::of(thread), Seq::new(seq)).row(0);
        rows(&self.safe).contains_key(&key)
    }
}

impl Tree for Platter {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        if Some(self.reads.fetch_add(1, Ordering::Relaxed) + 1) == self.blind {
            std::panic::resume_unwind(Box::new("the engine gives up"));
        }
        Ok(rows(&self.seen).get(key).cloned())
    }

    fn keys(&self, from: &[u8], to: Option<&[u8]>) -> Keys<'_> {
        let seen = rows(&self.seen);
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
    /// A read panics.
    Blind(usize),
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
            Trouble::Fails(at) | Trouble::Panics(at) if at < self.calls => {
                self.platter.late.store(true, Ordering::Relaxed);
                Ok(())
            }
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
            let mut seen = rows(&self.platter.seen);
            match row {
                Some(row) => seen.insert(key, row),
                None => seen.remove(&key),
            };
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.call()?;
        let seen = rows(&self.platter.seen).clone();
        *rows(&self.platter.handed) = seen;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.call()?;
        let handed = rows(&self.platter.handed).clone();
        *rows(&self.platter.safe) = handed;
        Ok(())
    }

    fn note(&mut self, _: u64) {}
}

#[derive(Debug)]
enum Model {}

type Store = DiskStore<Model>;

fn open(trouble: Trouble) -> (Store, Arc<Platter>) {
    let platter = Arc::new(Platter {
        blind: match trouble {
            Trouble::Blind(at) => Some(at),
            _ => None,
        },
        ..Platter::default()
    });
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

/// What became of a run.
struct Ran {
    /// The seqs that were acknowledged, each of which a power cut would have left by then.
    acknowledged: Vec<u64>,
    /// Why there are not more.
    refused: Option<StoreError>,
}

/// Claims a thread and appends to it, as a run does that stops at the first refusal.
fn appends(store: &Store, platter: &Platter, thread: &ThreadId, how: Take, times: u64) -> Ran {
    let mut ran = Ran {
        acknowledged: Vec::new(),
        refused: None,
    };
    let claim = match block_on(store.claim(thread, how)) {
        Ok(claim) => claim,
        Err(error) => {
            ran.refused = Some(error);
            return ran;
        }
    };
    for first in (claim.next.get()..).take(times as usize) {
        let write = write(thread, claim.epoch, Seq::new(first));
        match block_on(store.append(write)) {
            Ok(()) => {
                assert!(platter.keeps(thread, first), "told before it was synced");
                ran.acknowledged.push(first);
            }
            // The one answer that it gets says why: nothing hangs, and nothing is lost on the way.
            Err(StoreError::Closed) => panic!("an append was not answered"),
            Err(error) => {
                ran.refused = Some(error);
                break;
            }
        }
    }
    store.release(thread, claim.epoch);
    ran
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
    for (number, ran) in all.iter().enumerate() {
        let acknowledged = ran.acknowledged.len() as u64;
        assert!(ran.acknowledged.iter().copied().eq(1..=acknowledged));
        assert_eq!(acknowledged < times, ran.refused.is_some());
        if let Trouble::Never = trouble {
            assert_eq!(acknowledged, times);
        }
        is_sound(&store, &id(number), &ran.acknowledged);
    }
    drop(store);
    let late = platter.late.load(Ordering::Relaxed);
    assert!(!late, "written to after it had failed");
    for (number, ran) in all.iter().enumerate() {
        let kept = |seq: &u64| platter.keeps(&id(number), *seq);
        assert!(ran.acknowledged.iter().all(kept));
    }
}

/// No append is acknowledged before its batch is synced, each gets one answer, and the order of each
/// thread is kept.
#[test]
fn model_appends_of_many_threads_are_durable_when_they_are_answered() {
    explore("group commit", 600, || crowd(Trouble::Never, 3, 2));
}

/// The same where the disk fails or panics at any of its calls, or at any read; nothing is written
/// after that.
#[test]
fn model_appends_are_answered_once_where_the_disk_fails() {
    explore("failing disk", 600, || {
        let at = 1 + below(9);
        match below(3) {
            0 => crowd(Trouble::Fails(at), 3, 2),
            1 => crowd(Trouble::Panics(at), 3, 2),
            _ => crowd(Trouble::Blind(1 + below(60)), 3, 2),
        }
    });
}

/// Callers of one thread: of each place in the log, one is told that it is its. Who holds the thread
/// and is not replaced is not refused.
fn rivals(how: [Take; 2], times: u64) {
    let (store, platter) = open(Trouble::Never);
    let both: Vec<_> = how
        .into_iter()
        .map(|how| {
            let (store, platter) = (store.clone(), Arc::clone(&platter));
            thread::spawn(move || appends(&store, &platter, &id(0), how, times))
        })
        .collect();
    let both: Vec<Ran> = both.into_iter().map(|one| one.join().unwrap()).collect();
    for (own, ran) in both.iter().enumerate() {
        let may_be_replaced = how[1 - own] == Take::Replace;
        let is_busy = matches!(ran.refused, Some(StoreError::Busy { .. }));
        let is_done = ran.refused.is_none();
        assert!(may_be_replaced || is_busy || is_done, "{:?}", ran.refused);
        assert!(!is_busy || how[own] == Take::IfFree);
    }
    assert!(both.iter().any(|ran| ran.refused.is_none()));
    let mut acknowledged: Vec<u64> = both.into_iter().flat_map(|ran| ran.acknowledged).collect();
    acknowledged.sort_unstable();
    let mut once = acknowledged.clone();
    once.dedup();
    assert_eq!(acknowledged, once, "two hold one place");
    is_sound(&store, &id(0), &acknowledged);
}

#[test]
fn model_a_thread_has_one_writer_whoever_replaces_whom() {
    explore("replacing", 600, || {
        rivals([Take::IfFree, Take::Replace], 3)
    });
    explore("both replacing", 600, || {
        rivals([Take::Replace, Take::Replace], 3)
    });
    explore("both if free", 600, || {
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
                        if how == Take::Replace {
                            let again = claims.take(&id(0), Epoch::new(4), Take::IfFree);
                            assert!(again.is_err(), "somebody else gave it back");
                        }
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
    explore("wishes", 600, || {
        let (store, _) = open(Trouble::Never);
        let first = block_on(store.claim(&id(0), Take::IfFree)).unwrap();
        block_on(store.append(write(&id(0), first.epoch, Seq::new(1)))).unwrap();
        let mut asks = Some({
            let store = store.clone();
            thread::spawn(move || block_on(store.wish(&id(0), wish())).unwrap())
        });
        let asked = match below(2) {
            0 => asks.take().map(|asks| asks.join().unwrap()),
            _ => None,
        };
        let next = {
            let store = store.clone();
            thread::spawn(move || {
                store.release(&id(0), first.epoch);
                block_on(store.claim(&id(0), Take::IfFree)).unwrap()
            })
        };
        let next = next.join().unwrap();
        let asked = asked.or_else(|| asks.map(|asks| asks.join().unwrap()));
        match asked.unwrap() {
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
    explore("close", 600, || {
        let (store, platter) = open(Trouble::Never);
        let claims: Vec<_> = (0..3)
            .map(|number| block_on(store.claim(&id(number), Take::IfFree)).unwrap())
            .collect();
        for (number, claim) in claims.iter().enumerate() {
            hands_over(&store, write(&id(number), claim.epoch, Seq::new(1)));
        }
        drop(store);
        assert!((0..3).all(|number| platter.keeps(&id(number), 1)));
    });
}

/// Whoever looks sees all of a change or nothing of it, whatever is written and deleted meanwhile; and
/// nobody deletes what is held.
#[test]
fn model_a_reader_sees_whole_changes() {
    explore("readers", 600, || {
        let (store, platter) = open(Trouble::Never);
        appends(&store, &platter, &id(0), Take::IfFree, 2);
        let deletes = {
            let store = store.clone();
            thread::spawn(move || match block_on(store.delete_thread(&id(0))) {
                Ok(()) | Err(StoreError::Busy { .. }) => {}
                Err(other) => panic!("{other}"),
            })
        };
        let writes = {
            let (store, platter) = (store.clone(), Arc::clone(&platter));
            let how = [Take::IfFree, Take::Replace][below(2)];
            thread::spawn(move || appends(&store, &platter, &id(0), how, 1))
        };
        for _ in 0..2 {
            let log = block_on(store.records(&id(0), Seq::new(0), usize::MAX)).unwrap();
            let seqs = log.iter().map(|stored| stored.seq.get());
            assert!(seqs.eq(1..=log.len() as u64));
            let extent = block_on(store.extent(&id(0))).unwrap();
            assert!(extent.is_none_or(|extent| extent.next == extent.head.seq.next()));
        }
        deletes.join().unwrap();
        let refused = writes.join().unwrap().refused;
        assert!(matches!(refused, None | Some(StoreError::Busy { .. })));
    });
}

/// A caller that goes in the middle of an append: whoever has the thread next goes on from where it is
/// then, with that append or without it.
#[test]
fn model_who_takes_a_thread_sees_what_was_admitted_before() {
    explore("left in the middle", 600, || {
        let (store, platter) = open(Trouble::Never);
        let claim = block_on(store.claim(&id(0), Take::IfFree)).unwrap();
        hands_over(&store, write(&id(0), claim.epoch, Seq::new(1)));
        store.release(&id(0), claim.epoch);
        let ran = appends(&store, &platter, &id(0), Take::IfFree, 2);
        assert!(ran.refused.is_none(), "{:?}", ran.refused);
        is_sound(&store, &id(0), &ran.acknowledged);
    });
}

/// Jobs of other kinds between the appends: none is lost, and whoever waits for all before it is
/// answered when that is durable, also what it has only read.
#[test]
fn model_who_waits_is_answered_when_all_before_it_is_durable() {
    explore("waiting", 600, || {
        let (store, platter) = open(Trouble::Never);
        let claim = block_on(store.claim(&id(1), Take::IfFree)).unwrap();
        let writes = {
            let (store, platter) = (store.clone(), Arc::clone(&platter));
            thread::spawn(move || appends(&store, &platter, &id(0), Take::IfFree, 2))
        };
        let asks = {
            let store = store.clone();
            thread::spawn(move || block_on(store.wish(&id(0), wish())).unwrap())
        };
        hands_over(&store, write(&id(1), claim.epoch, Seq::new(1)));
        let read = block_on(store.records(&id(0), Seq::new(0), usize::MAX)).unwrap();
        block_on(store.durable()).unwrap();
        assert!(platter.keeps(&id(1), 1));
        assert!(
            read.iter()
                .all(|stored| platter.keeps(&id(0), stored.seq.get()))
        );
        assert!(writes.join().unwrap().refused.is_none());
        asks.join().unwrap();
    });
}

/// An append is handed over, and nobody waits for the answer.
fn hands_over(store: &Store, write: Write) {
    let mut noop = std::task::Context::from_waker(std::task::Waker::noop());
    let _ = std::pin::pin!(store.append(write)).as_mut().poll(&mut noop);
}
