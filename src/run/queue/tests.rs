//! Queues and who looks for them.

use std::sync::{Arc, Mutex};

use super::{Durability, Queue, of_thread};
use crate::ids::{Seq, ThreadId};
use crate::store::{CheckpointStore, Layer, MemoryStore};

/// A store whose queue ends while it is asked which store it is.
#[derive(Debug)]
struct Ends(Arc<MemoryStore>, Mutex<Option<Arc<Queue>>>);

impl Layer for Ends {
    fn below(&self) -> Arc<dyn CheckpointStore> {
        drop(self.1.lock().unwrap().take());
        self.0.clone()
    }
}

/// It takes the lock that whoever looks for it would still hold.
#[tokio::test]
async fn a_queue_that_ends_while_it_is_looked_for_is_no_deadlock() {
    let store = Arc::new(Ends(Arc::default(), Mutex::default()));
    let dyn_store: Arc<dyn CheckpointStore> = store.clone();
    let thread = ThreadId::new("ends while it is looked for").unwrap();
    let queue = Queue::before(&dyn_store, &thread, Seq::new(1), Durability::Background);
    *store.1.lock().unwrap() = queue;
    assert!(of_thread(&MemoryStore::new(), &thread).is_empty());
    assert!(store.1.lock().unwrap().is_none());
}
