//! Every store keeps the promises of a store, and a store that does not is told so.

use std::sync::Arc;

use async_trait::async_trait;
use milepost::store::conformance::check;
use milepost::store::{
    CheckpointStore, Claim, Extent, Head, MemoryStore, Retain, Retained, Retention, RunRow,
    StoreError, Stored, Take, ThreadArchive, Wish, Wished, Write,
};
use milepost::{Epoch, RunId, Seq, ThreadId};

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_store_keeps_every_promise() {
    let report = check(async || MemoryStore::new()).await;
    assert!(report.passed(), "{report}");
    assert!(report.checks > 40, "{report}");
}

/// Opens stores of a type, and opens them again.
#[cfg(any(feature = "sled", feature = "fjall"))]
macro_rules! keeps_every_promise {
    ($test:ident, $store:ident) => {
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            use milepost::store::conformance::check_reopened;
            use milepost::store::$store;

            let folder = tempfile::tempdir().unwrap();
            let number = std::sync::atomic::AtomicUsize::new(0);
            let report = check_reopened(
                async || {
                    let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    $store::open(folder.path().join(number.to_string())).unwrap()
                },
                async |store: $store| {
                    let path = store.path().to_owned();
                    drop(store);
                    $store::open(path).unwrap()
                },
            )
            .await;
            assert!(report.passed(), "{report}");
        }
    };
}

#[cfg(feature = "sled")]
keeps_every_promise!(the_sled_store_keeps_every_promise, SledStore);
#[cfg(feature = "fjall")]
keeps_every_promise!(the_fjall_store_keeps_every_promise, FjallStore);

/// A promise that a [`Broken`] store does not keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Promise {
    Fencing,
    Conflict,
    Busy,
    Isolation,
    Order,
    WholeWrites,
    Segments,
    Runs,
    Delete,
    Copy,
    OpenSuperstep,
    Retention,
    Extent,
    Restore,
    NoPanic,
}

/// A memory store with one fault.
#[derive(Debug)]
struct Broken {
    inner: MemoryStore,
    promise: Promise,
}

impl Broken {
    fn thread(&self, thread: &ThreadId) -> ThreadId {
        if self.promise != Promise::Isolation {
            return thread.clone();
        }
        let cut = thread.as_str().split(['|', '\0']).next().unwrap_or("");
        ThreadId::new(cut).unwrap_or_else(|_| thread.clone())
    }
}

#[async_trait]
impl CheckpointStore for Broken {
    async fn claim(&self, thread: &ThreadId, how: Take) -> Result<Claim, StoreError> {
        let how = match self.promise {
            Promise::Busy => Take::Replace,
            _ => how,
        };
        self.inner.claim(&self.thread(thread), how).await
    }

    fn release(&self, thread: &ThreadId, epoch: Epoch) {
        self.inner.release(&self.thread(thread), epoch);
    }

    async fn append(&self, mut write: Write) -> Result<(), StoreError> {
        write.thread = self.thread(&write.thread);
        match self.promise {
            Promise::Runs => write.run = None,
            Promise::WholeWrites if write.records.len() > 2 => {
                let mut first = write.clone();
                first.records.truncate(1);
                first.head.seq = first.first;
                write.records.remove(0);
                write.first = write.first.next();
                write.expected = first.head.seq;
                self.inner.append(first).await?;
                tokio::task::yield_now().await;
            }
            Promise::NoPanic if write.records.len() > 5 => panic!("too many"),
            _ => {}
        }
        match self.inner.append(write.clone()).await {
            Err(StoreError::Fenced { current, .. }) if self.promise == Promise::Fencing => {
                write.epoch = current;
                self.inner.append(write).await
            }
            Err(StoreError::Conflict { .. }) if self.promise == Promise::Conflict => Ok(()),
            told => told,
        }
    }

    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError> {
        self.inner.head(&self.thread(thread)).await
    }

    async fn records(
        &self,
        thread: &ThreadId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        let mut found = self
            .inner
            .records(&self.thread(thread), from, limit)
            .await?;
        if self.promise == Promise::Order {
            found.sort_by_key(|stored| stored.seq.to_string());
        }
        Ok(found)
    }

    async fn segments(
        &self,
        thread: &ThreadId,
        ids: &[[u8; 16]],
    ) -> Result<Vec<Arc<[u8]>>, StoreError> {
        let mut ids = ids.to_vec();
        if self.promise == Promise::Segments {
            ids.sort_unstable();
        }
        self.inner.segments(&self.thread(thread), &ids).await
    }

    async fn run(&self, thread: &ThreadId, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.inner.run(&self.thread(thread), run).await
    }

    async fn threads(
        &self,
        after: Option<&ThreadId>,
        limit: usize,
    ) -> Result<Vec<(ThreadId, Head)>, StoreError> {
        self.inner.threads(after, limit).await
    }

    async fn extent(&self, thread: &ThreadId) -> Result<Option<Extent>, StoreError> {
        let mut extent = self.inner.extent(&self.thread(thread)).await?;
        if self.promise == Promise::Extent
            && let Some(extent) = &mut extent
        {
            (extent.floor, extent.older) = (Seq::new(1), Vec::new());
        }
        Ok(extent)
    }

    async fn wish(&self, thread: &ThreadId, wish: Wish) -> Result<Wished, StoreError> {
        self.inner.wish(&self.thread(thread), wish).await
    }

    async fn wished(&self, thread: &ThreadId) -> Result<Option<Wish>, StoreError> {
        self.inner.wished(&self.thread(thread)).await
    }

    async fn restore(&self, archive: ThreadArchive) -> Result<(), StoreError> {
        if self.promise == Promise::Restore {
            self.inner.delete_thread(&archive.thread).await?;
        }
        let thread = self.thread(&archive.thread);
        self.inner
            .restore(ThreadArchive { thread, ..archive })
            .await
    }

    async fn delete_thread(&self, thread: &ThreadId) -> Result<(), StoreError> {
        if self.promise == Promise::Delete {
            return Ok(());
        }
        self.inner.delete_thread(&self.thread(thread)).await
    }

    async fn copy_thread(&self, from: &ThreadId, to: &ThreadId) -> Result<(), StoreError> {
        if self.promise == Promise::Copy {
            self.inner.delete_thread(to).await?;
        }
        self.inner.copy_thread(from, to).await
    }

    async fn retain(&self, what: Retain) -> Result<Retained, StoreError> {
        if self.promise == Promise::OpenSuperstep {
            let gone = self.inner.delete_thread(&what.thread).await;
            return gone.map(|()| Retained::default());
        }
        let mut what = what;
        if self.promise == Promise::Retention {
            what.retention = Retention::last(1);
        }
        self.inner.retain(what).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_breaks_a_promise_is_told_which() {
    for (promise, expected) in [
        (Promise::Fencing, "a_replaced_writer_is_fenced_off"),
        (Promise::Conflict, "a_write_on_a_stale_head_is_a_conflict"),
        (Promise::Busy, "a_held_thread_is_busy_until_it_is_released"),
        (Promise::Isolation, "threads_with_awkward_names_stay_apart"),
        (Promise::Order, "records_come_in_the_order_of_their_seq"),
        (Promise::WholeWrites, "a_reader_never_sees_half_a_write"),
        (
            Promise::Segments,
            "a_segment_is_kept_once_and_read_in_the_order_asked_for",
        ),
        (Promise::Runs, "a_run_row_is_kept_and_moves_on"),
        (Promise::Delete, "a_deleted_thread_is_gone_and_others_stay"),
        (Promise::Copy, "a_copy_onto_a_thread_with_a_log_is_refused"),
        (
            Promise::OpenSuperstep,
            "a_prune_keeps_an_open_superstep_and_the_runs",
        ),
        (
            Promise::Retention,
            "a_policy_keeps_what_it_names_and_what_that_needs",
        ),
        (Promise::Extent, "an_extent_says_what_a_prune_has_left"),
        (
            Promise::Restore,
            "a_restore_onto_a_thread_with_a_log_is_refused",
        ),
        (Promise::NoPanic, "a_record_of_every_kind_comes_back_equal"),
    ] {
        let report = check(async || Broken {
            inner: MemoryStore::new(),
            promise,
        })
        .await;
        assert!(
            report
                .failures
                .iter()
                .any(|failure| failure.check == expected),
            "{promise:?}: {report}"
        );
        assert!(
            report.failures.len() < report.checks,
            "{promise:?} fails everything"
        );
    }
}
