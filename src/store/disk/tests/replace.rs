//! Claims while the writer is in the middle of a change: what `model.rs` has found, played once.

use super::super::engine::{Keys, Tree};
use super::*;

/// What a tree does before it is read by the writer.
type Before = Box<dyn Fn(&[u8]) + Send + Sync>;

struct Watched {
    tree: Arc<dyn Tree>,
    before: Before,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

impl Watched {
    fn read(&self, key: &[u8]) {
        if std::thread::current().name() == Some("milepost-writer") {
            (self.before)(key);
        }
    }
}

impl Tree for Watched {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(key);
        self.tree.get(key)
    }

    fn keys(&self, from: &[u8], to: Option<&[u8]>) -> Keys<'_> {
        self.read(from);
        self.tree.keys(from, to)
    }
}

fn watched(engine: StoreEngine, path: &Path, before: Before) -> Store {
    let mut opened = engine.opened(path).unwrap();
    opened.tree = Arc::new(Watched {
        tree: opened.tree,
        before,
    });
    Store::start(opened).unwrap()
}

/// Says that the writer reads a row, and waits there to be let on; once.
fn stops_at(key: Vec<u8>) -> (Before, Receiver<()>, Sender<()>) {
    let (reached, there) = channel();
    let (let_on, waiting) = channel::<()>();
    let waiting = Mutex::new(Some(waiting));
    let before = move |read: &[u8]| {
        if read == key.as_slice()
            && let Some(waiting) = waiting.lock().unwrap().take()
        {
            let _ = reached.send(());
            let _ = waiting.recv();
        }
    };
    (Box::new(before), there, let_on)
}

/// A claim on a thread of its own, because it may have to wait for the writer.
fn replaces(store: &Store) -> Receiver<Claim> {
    let store = store.clone();
    let (claimed, claim) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let name = thread(0);
        let taken = runtime.block_on(store.claim(&name, Take::Replace));
        let _ = claimed.send(taken.unwrap());
    });
    claim
}

#[tokio::test]
async fn who_replaces_a_run_whose_write_was_admitted_goes_on_behind_it() {
    for &engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        // The last row that is read before a write is admitted.
        let wish = Slot::wish(ThreadKey::of(&thread(0))).row(0);
        let (before, there, let_on) = stops_at(wish);
        let store = watched(engine, folder.path(), before);
        let old = claim(&store, &thread(0)).await;
        let mut append = store.append(write(&thread(0), old, 1));
        assert!(futures::poll!(&mut append).is_pending());
        there.recv_timeout(PATIENCE).unwrap();
        let claimed = replaces(&store);
        // Only a claim that does not wait for the writer is here before it goes on.
        let early = claimed.recv_timeout(Duration::from_millis(200));
        drop(let_on);
        append.await.unwrap();
        let new = early.or_else(|_| claimed.recv_timeout(PATIENCE)).unwrap();
        assert_eq!((new.next, new.head.is_some()), (Seq::new(2), true));
        store.append(write(&thread(0), new.epoch, 2)).await.unwrap();
    }
}

#[tokio::test]
async fn a_deletion_gives_way_to_who_has_replaced_it() {
    for &engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let key = ThreadKey::of(&thread(0));
        let store = reopen(engine, folder.path());
        let old = claim(&store, &thread(0)).await;
        store.append(write(&thread(0), old, 1)).await.unwrap();
        drop(store);
        let (before, there, let_on) = stops_at(key.as_bytes().to_vec());
        let store = watched(engine, folder.path(), before);
        let name = thread(0);
        let mut deletes = store.delete_thread(&name);
        assert!(futures::poll!(&mut deletes).is_pending());
        there.recv_timeout(PATIENCE).unwrap();
        let new = replaces(&store).recv_timeout(PATIENCE).unwrap();
        drop(let_on);
        assert!(matches!(deletes.await, Err(StoreError::Busy { .. })));
        let next = new.next.get();
        assert_eq!(next, 2);
        store.append(write(&name, new.epoch, next)).await.unwrap();
        assert_eq!(count(&store, &name).await, 2);
    }
}

#[tokio::test]
async fn a_panic_while_writes_are_admitted_is_the_answer_to_all_of_them() {
    for &engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let wish = Slot::wish(ThreadKey::of(&thread(1))).row(0);
        let before = move |read: &[u8]| assert_ne!(read, wish.as_slice(), "a page has gone");
        let store = watched(engine, folder.path(), Box::new(before));
        let mut epochs = Vec::new();
        for number in 0..3 {
            epochs.push(claim(&store, &thread(number)).await);
        }
        let (trouble, behind) = futures::join!(
            store.append(write(&thread(1), epochs[1], 1)),
            store.append(write(&thread(2), epochs[2], 1))
        );
        assert!(
            matches!(trouble, Err(StoreError::Corrupt { .. })),
            "{trouble:?}"
        );
        assert!(
            matches!(behind, Err(StoreError::Corrupt { .. })),
            "{behind:?}"
        );
    }
}
