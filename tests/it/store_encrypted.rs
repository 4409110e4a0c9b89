//! Values at rest are encrypted where a store has keys: on the disk there is nothing of them, and
//! without the key there is a typed refusal.

use std::path::Path;

use milepost::cli::{self, Entry, Exit};
use milepost::store::conformance::check_reopened;
use milepost::store::{
    CheckpointStore, Keyring, SledOptions, SledStore, StoreError, Take, ThreadArchive,
};
use milepost::{
    Append, BuildError, Command, Context, End, Ended, Graph, NodeError, Runner, Seq, Snapshot,
    State,
};

use super::store_logs::{History, thread};

/// Nothing else in a store looks like this.
const SECRET: &str = "swordfish-under-the-bridge";

fn open(path: &Path, keys: Option<Keyring>) -> SledStore {
    let mut options = SledOptions::default();
    options.keys = keys;
    SledStore::open_with(path, options).unwrap()
}

/// Whether a text stands in any file below a folder.
fn stands(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => stands(&path, text),
            false => std::fs::read(&path).is_ok_and(|bytes| {
                let mut windows = bytes.windows(text.len());
                windows.any(|window| window == text.as_bytes())
            }),
        }
    })
}

#[derive(Clone, Debug, Default, State)]
struct Talk {
    #[reduce(Append)]
    said: Vec<String>,
}

fn graph() -> Result<Graph<Talk>, BuildError> {
    let mut g = Graph::builder("talk");
    let says = |text: &'static str| {
        move |_: Snapshot<Talk>, _: Context| {
            std::future::ready(Ok::<_, NodeError>(
                Talk::update().said(vec![text.to_owned()]),
            ))
        }
    };
    let first = g.node("first", says(SECRET));
    let second = g.node("second", says("and more"));
    g.start(first);
    g.edge(first, second);
    g.edge(second, End);
    g.build()
}

async fn run(store: &SledStore, name: &str) -> Result<Vec<String>, milepost::RunError> {
    let runner = Runner::new(graph().unwrap()).store(store.clone());
    let input = Command::start(Talk::update());
    let report = runner.run(&thread(name), input).await?;
    assert_eq!(report.ended, Ended::Finished);
    Ok(report.state.said.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_store_keeps_every_promise() {
    let folder = tempfile::tempdir().unwrap();
    let number = std::sync::atomic::AtomicUsize::new(0);
    let keys = Keyring::new(4, [9; 32]);
    let report = check_reopened(
        async || {
            let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            open(&folder.path().join(number.to_string()), Some(keys.clone()))
        },
        async |store: SledStore| {
            let path = store.path().to_owned();
            drop(store);
            open(&path, Some(keys.clone()))
        },
    )
    .await;
    assert!(report.passed(), "{report}");
}

#[tokio::test]
async fn nothing_of_a_value_stands_on_the_disk_and_ids_do() {
    let folder = tempfile::tempdir().unwrap();
    for (keys, in_clear) in [(None, true), (Some(Keyring::new(1, [3; 32])), false)] {
        let path = folder.path().join(in_clear.to_string());
        let store = open(&path, keys);
        assert_eq!(run(&store, "a-thread").await.unwrap()[0], SECRET);
        drop(store);
        assert_eq!(stands(&path, SECRET), in_clear);
        assert_eq!(
            stands(&path, "second"),
            in_clear,
            "names of nodes are in records"
        );
        assert!(stands(&path, "a-thread"), "ids are in clear");
    }
}

#[tokio::test]
async fn without_the_key_heads_are_read_and_values_are_a_typed_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let old = Keyring::new(1, [1; 32]);
    let store = open(folder.path(), Some(old.clone()));
    let mut history = History::new(&thread("t"));
    history.grow(&store, 3, 6000).await;
    drop(store);
    let other = Keyring::new(1, [2; 32]);
    let newer = Keyring::new(2, [1; 32]);
    for (keys, says) in [
        (None, "without keys"),
        (Some(other), "another one"),
        (Some(newer), "no key with this number"),
    ] {
        let store = open(folder.path(), keys);
        assert_eq!(store.head(&thread("t")).await.unwrap(), history.head);
        assert_eq!(store.threads(None, 9).await.unwrap().len(), 1);
        let told = store.records(&thread("t"), Seq::new(0), 9).await;
        let Err(error @ StoreError::Encrypted { key: 1, .. }) = told else {
            panic!("{told:?}");
        };
        assert!(error.to_string().contains(says), "{error}");
        // Nothing is copied that could not be read, and what is in the way can still be deleted.
        store
            .copy_thread(&thread("t"), &thread("u"))
            .await
            .unwrap_err();
        assert!(store.head(&thread("u")).await.unwrap().is_none());
    }
    let store = open(folder.path(), Some(old));
    history.check(&store).await;
}

/// A new key in front: what is there keeps its own, what comes has the new one, and a copy into
/// another store needs the new one alone.
#[tokio::test]
async fn keys_are_rotated_while_old_values_stay_readable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut history = History::new(&thread("t"));
    // First without any key.
    history.grow(&open(&path, None), 2, 100).await;
    let old = Keyring::new(1, [1; 32]);
    history.grow(&open(&path, Some(old.clone())), 2, 5000).await;
    let both = Keyring::new(2, [2; 32]).with(1, [1; 32]);
    let store = open(&path, Some(both));
    history.grow(&store, 2, 9000).await;
    history.check(&store).await;

    run(&store, "u").await.unwrap();
    let archive = ThreadArchive::read(&store, &thread("u")).await.unwrap();
    let fresh = open(&folder.path().join("fresh"), Some(Keyring::new(2, [2; 32])));
    fresh.restore(archive.unwrap()).await.unwrap();
    let copied = fresh.records(&thread("u"), Seq::new(0), 99).await.unwrap();
    assert_eq!(
        copied,
        store.records(&thread("u"), Seq::new(0), 99).await.unwrap()
    );
    drop(store);
    let store = open(&path, Some(old));
    let told = store.records(&thread("t"), Seq::new(0), 99).await;
    assert!(
        matches!(told, Err(StoreError::Encrypted { key: 2, .. })),
        "{told:?}"
    );
    assert!(store.claim(&thread("t"), Take::IfFree).await.is_ok());
}

/// A run goes on with the key, and is refused without it, through the library and the command.
#[test]
fn a_run_goes_on_with_its_key_alone() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let key = format!("1:{}", "07".repeat(32));
    let store = open(folder.path(), Some(Keyring::parse(&key).unwrap()));
    runtime.block_on(run(&store, "t")).unwrap();
    drop(store);
    let store = open(folder.path(), None);
    let told = runtime.block_on(run(&store, "t")).unwrap_err();
    assert!(told.to_string().contains("encrypted with key 1"), "{told}");
    drop(store);
    let path = folder.path().display().to_string();
    let shows = |words: &[&str]| {
        let first = ["talk", "--store", path.as_str()];
        cli::run(
            [Entry::of(graph())],
            first.into_iter().chain(words.iter().copied()),
        )
    };
    // This process has no keys in its environment.
    assert_eq!(shows(&["threads"]), Exit::Done);
    assert_eq!(shows(&["show", "t"]), Exit::Failed);
}
