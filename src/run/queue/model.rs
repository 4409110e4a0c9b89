//! The queue of a run under a model checker: each scenario runs in very many orders of its tasks
//! (`src/sync.rs`; `docs/reliability.md` says how).
//!
//! What is not checked here is the inside of tokio's notifications: each call of them is one step, so
//! a waiter that looks before it listens would not be found.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::event::EventKind;
use crate::ids::Branch;
use crate::run::port::{Events, channel};
use crate::store::conformance::{one_of_each, sample_head};
use crate::store::{MemoryStore, Record, Status};
use crate::sync::{below, explore};

/// A store at whose every write everything else may run, and one of whose writes may fail.
#[derive(Debug)]
struct Slow {
    inner: MemoryStore,
    fails: usize,
    writes: AtomicUsize,
}

async fn others_run() {
    shuttle::future::yield_now().await;
}

#[async_trait]
impl CheckpointStore for Slow {
    async fn append(&self, write: Write) -> Result<(), StoreError> {
        others_run().await;
        let number = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if number == self.fails {
            return Err(StoreError::Closed);
        }
        let written = self.inner.append(write).await;
        others_run().await;
        written
    }
    fn release(&self, thread: &ThreadId, epoch: Epoch) {
        self.inner.release(thread, epoch);
    }
    async fn claim(&self, thread: &ThreadId, how: Take) -> Result<Claim, StoreError> {
        self.inner.claim(thread, how).await
    }
    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError> {
        self.inner.head(thread).await
    }
    async fn records(
        &self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        self.inner.records(thread, from, limit).await
    }
    async fn segments(
        &self,
        thread: &ThreadId,
        ids: &[[u8; 16]],
    ) -> Result<Vec<Arc<[u8]>>, StoreError> {
        self.inner.segments(thread, ids).await
    }
    async fn run(&self, thread: &ThreadId, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.inner.run(thread, run).await
    }
    async fn threads(
        &self,
        after: Option<&ThreadId>,
        limit: usize,
    ) -> Result<Vec<(ThreadId, Head)>, StoreError> {
        self.inner.threads(after, limit).await
    }
    async fn extent(&self, thread: &ThreadId) -> Result<Option<Extent>, StoreError> {
        self.inner.extent(thread).await
    }
    async fn wish(&self, thread: &ThreadId, wish: Wish) -> Result<Wished, StoreError> {
        self.inner.wish(thread, wish).await
    }
    async fn wished(&self, thread: &ThreadId) -> Result<Option<Wish>, StoreError> {
        self.inner.wished(thread).await
    }
    async fn restore(&self, archive: ThreadArchive) -> Result<(), StoreError> {
        self.inner.restore(archive).await
    }
    async fn delete_thread(&self, thread: &ThreadId) -> Result<(), StoreError> {
        self.inner.delete_thread(thread).await
    }
    async fn copy_thread(&self, from: &ThreadId, to: &ThreadId) -> Result<(), StoreError> {
        self.inner.copy_thread(from, to).await
    }
    async fn retain(&self, what: Retain) -> Result<Retained, StoreError> {
        self.inner.retain(what).await
    }
}

fn id() -> ThreadId {
    ThreadId::new("t").unwrap()
}

/// A log that is written through a queue, as a run does.
struct Pen {
    queue: Arc<Queue>,
    store: MemoryStore,
    epoch: Epoch,
    head: Head,
    next: u64,
    events: Events,
}

/// What is written: one of these records.
#[derive(Clone, Copy)]
enum What {
    Input,
    Commit,
    /// Which the run waits for.
    Stopped,
}

async fn begin(durability: Durability, fails: usize) -> Pen {
    let inner = MemoryStore::new();
    let slow: Arc<dyn CheckpointStore> = Arc::new(Slow {
        inner: inner.clone(),
        fails,
        writes: AtomicUsize::new(0),
    });
    let claim = slow.claim(&id(), Take::IfFree).await.unwrap();
    let queue = Queue::before(&slow, &id(), claim.next, durability).unwrap();
    let (listener, events) = channel(usize::MAX);
    queue.listen(listener, claim.epoch);
    Pen {
        queue,
        store: inner,
        epoch: claim.epoch,
        head: Head {
            seq: Seq::new(0),
            base: Seq::new(0),
            schema: Seq::new(0),
            branch: Branch::new(0),
            status: Status::Running,
            ..sample_head()
        },
        next: 1,
        events,
    }
}

impl Pen {
    async fn add(&mut self, what: What) -> Result<(), StoreError> {
        let place = match what {
            What::Input => 1,
            What::Commit => 4,
            What::Stopped => 6,
        };
        let record = one_of_each().swap_remove(place);
        assert!(matches!(
            (what, &record),
            (What::Input, Record::Input(_))
                | (What::Commit, Record::Commit(_))
                | (What::Stopped, Record::Stopped(_))
        ));
        let expected = self.head.seq;
        match what {
            What::Stopped => self.head.status = Status::Paused,
            _ => self.head.seq = Seq::new(self.next),
        }
        let write = Write {
            thread: id(),
            epoch: self.epoch,
            branch: Branch::new(0),
            expected,
            first: Seq::new(self.next),
            records: vec![record],
            segments: Vec::new(),
            head: self.head.clone(),
            run: None,
            fulfils: None,
        };
        self.queue.append(write).await?;
        self.queue.told();
        self.next += 1;
        Ok(())
    }

    /// How many records are durable: all in order, without a gap.
    async fn stored(&self) -> u64 {
        let thread = id();
        let log = self.store.records(&thread, Seq::new(0), usize::MAX).await;
        let log = log.unwrap();
        assert!(
            log.iter()
                .map(|stored| stored.seq.get())
                .eq(1..=log.len() as u64)
        );
        log.len() as u64
    }

    /// What was said to be durable.
    fn told(&mut self) -> Vec<u64> {
        let mut told = Vec::new();
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        while let std::task::Poll::Ready(Some(event)) = self.events.poll_next(&mut cx) {
            let EventKind::Durable { up_to } = event.kind else {
                panic!("{event:?}")
            };
            told.push(up_to.get());
        }
        told
    }
}

fn mode() -> Durability {
    match below(2) {
        0 => Durability::Background,
        _ => Durability::AtEnd,
    }
}

/// Everything is written in order; what is waited for is durable with all before it; whoever looks
/// meanwhile waits for what was accepted by then; what is said to be durable is.
#[test]
fn model_what_a_run_waits_for_is_durable_with_all_before_it() {
    explore("run queue", 2_000, || {
        shuttle::future::block_on(async {
            let mut pen = begin(mode(), 0).await;
            pen.add(What::Input).await.unwrap();
            assert_eq!(pen.stored().await, 1);
            let reads = {
                let queue = Arc::clone(&pen.queue);
                shuttle::future::spawn(async move {
                    let seen = queue.records(&id(), Seq::new(0), usize::MAX).await;
                    seen.unwrap().len()
                })
            };
            let settles = {
                let queue = Arc::clone(&pen.queue);
                shuttle::future::spawn(async move { settle(&*queue.0.store, &id()).await })
            };
            for _ in 0..3 {
                pen.add(What::Commit).await.unwrap();
            }
            if below(2) == 0 {
                pen.queue.settled().await.unwrap();
                assert_eq!(pen.stored().await, 4);
            }
            pen.add(What::Stopped).await.unwrap();
            assert_eq!(pen.stored().await, 5);
            assert!(reads.await.unwrap() >= 1);
            settles.await.unwrap();
            let told = pen.told();
            assert!(told.is_sorted() && told.last() == Some(&5), "{told:?}");
        });
    });
}

/// A run that is dropped with writes on their way: the thread is free only when they are done, and
/// whoever waits for that is told.
#[test]
fn model_a_thread_is_given_back_when_all_is_written() {
    explore("leaving", 2_000, || {
        shuttle::future::block_on(async {
            let mut pen = begin(mode(), 0).await;
            pen.add(What::Input).await.unwrap();
            let rival = {
                let store = pen.store.clone();
                shuttle::future::spawn(async move {
                    loop {
                        match store.claim(&id(), Take::IfFree).await {
                            Ok(claim) => return claim.next.get(),
                            Err(_) => others_run().await,
                        }
                    }
                })
            };
            let waits = {
                let queues = of_thread(&*pen.queue.0.store, &id());
                shuttle::future::spawn(async move { gone(&queues).await })
            };
            for _ in 0..below(4) {
                pen.add(What::Commit).await.unwrap();
            }
            let (accepted, epoch) = (pen.next, pen.epoch);
            pen.queue.release(&id(), epoch);
            drop(pen);
            assert_eq!(rival.await.unwrap(), accepted);
            waits.await.unwrap();
        });
    });
}

/// A store that fails at any write: everybody who waits is told, nothing is written afterwards, what
/// is there is a beginning of what was accepted, and the thread is given back.
#[test]
fn model_a_failure_is_told_to_everybody_who_waits() {
    explore("failing store", 2_000, || {
        shuttle::future::block_on(async {
            let mut pen = begin(mode(), 1 + below(3)).await;
            let mut accepted = 0;
            let what = [
                What::Input,
                What::Commit,
                What::Commit,
                What::Commit,
                What::Stopped,
            ];
            let mut failed = false;
            for what in what {
                failed = pen.add(what).await.is_err();
                if failed {
                    break;
                }
                accepted += 1;
            }
            let settled = pen.queue.settled().await;
            assert_eq!(settled.is_err(), failed || accepted < 5);
            assert!(pen.add(What::Commit).await.is_err() || !failed);
            let stored = pen.stored().await;
            assert!(stored <= 6);
            let told = pen.told();
            assert!(told.is_sorted() && told.iter().all(|seq| *seq <= stored));
            let (epoch, store) = (pen.epoch, pen.store.clone());
            pen.queue.release(&id(), epoch);
            let all = of_thread(&*pen.queue.0.store, &id());
            gone(&all).await;
            assert!(store.claim(&id(), Take::IfFree).await.is_ok());
        });
    });
}
