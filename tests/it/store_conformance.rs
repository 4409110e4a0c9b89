//! Every store keeps the promises of a store.

use milepost::store::conformance::{check, check_reopened};
use milepost::store::{MemoryStore, SledStore};

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_store_keeps_every_promise() {
    let report = check(async || MemoryStore::new()).await;
    assert!(report.passed(), "{report}");
    assert!(report.checks > 40, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sled_store_keeps_every_promise() {
    let folder = tempfile::tempdir().unwrap();
    let number = std::sync::atomic::AtomicUsize::new(0);
    let report = check_reopened(
        async || {
            let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            SledStore::open(folder.path().join(number.to_string())).unwrap()
        },
        async |store: SledStore| {
            let path = store.path().to_owned();
            drop(store);
            SledStore::open(path).unwrap()
        },
    )
    .await;
    assert!(report.passed(), "{report}");
}
