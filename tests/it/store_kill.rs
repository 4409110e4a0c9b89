//! A process that is killed at any moment loses nothing that was acknowledged and leaves nothing
//! half.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use milepost::store::conformance::{one_of_each, sample_head};
use milepost::store::{CheckpointStore, Head, StoreEngine, Take, Write};
use milepost::{Branch, Seq};

use super::store_disk::{ENGINES, named};
use super::store_logs::{commit, thread};

/// Set for the child: the folder that it writes to, behind its engine.
const CHILD: &str = "MILEPOST_TEST_KILL";
const TASKS: usize = 4;
/// Records of one write.
const TOGETHER: u64 = 3;
const BYTES: usize = 3_000;
const ROUNDS: u64 = 20;

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_half_after_a_kill() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    if let Ok(child) = std::env::var(CHILD) {
        let (engine, path) = child.split_once(' ').unwrap();
        runtime.block_on(write_for_ever(named(engine), Path::new(path)));
        return;
    }
    for &engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let mut acknowledged = BTreeMap::new();
        for round in 0..ROUNDS {
            kill_after(
                Duration::from_millis(15 + round * 37 % 110),
                engine,
                folder.path(),
                &mut acknowledged,
            );
            runtime.block_on(verify(engine, folder.path(), &acknowledged));
        }
        assert_eq!(acknowledged.len(), TASKS, "every task wrote something");
    }
}

/// Lets a child write for a while, kills it, and notes what it was told.
fn kill_after(
    time: Duration,
    engine: StoreEngine,
    folder: &Path,
    acknowledged: &mut BTreeMap<usize, u64>,
) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--nocapture",
            "store_kill::nothing_acknowledged_is_lost_and_nothing_is_half_after_a_kill",
        ])
        .env(CHILD, format!("{engine} {}", folder.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The child is at work once it says so; from then on any moment will do.
    let begun = lines.by_ref().any(|line| line.unwrap() == "begun");
    assert!(begun, "the child did not begin");
    std::thread::sleep(time);
    child.kill().unwrap();
    child.wait().unwrap();
    for line in lines {
        // The last line may be cut.
        let Ok(line) = line else { break };
        let Some((task, seq)) = line.split_once(' ') else {
            continue;
        };
        let Some(seq) = seq.strip_suffix('.') else {
            continue;
        };
        acknowledged.insert(task.parse().unwrap(), seq.parse().unwrap());
    }
}

async fn verify(engine: StoreEngine, folder: &Path, acknowledged: &BTreeMap<usize, u64>) {
    let store = engine.open(folder).unwrap();
    for task in 0..TASKS {
        let id = thread(&format!("task-{task}"));
        let log = store.records(&id, Seq::new(0), usize::MAX).await.unwrap();
        let len = log.len() as u64;
        let told = acknowledged.get(&task).copied().unwrap_or(0);
        assert!(
            len >= told,
            "{id}: {told} was acknowledged, {len} are there"
        );
        assert_eq!(len % TOGETHER, 0, "{id}: half a write");
        for stored in &log[2.min(log.len())..] {
            assert_eq!(*stored.record, commit(stored.seq.get(), BYTES), "{id}");
        }
        let head = store.head(&id).await.unwrap();
        assert_eq!(head.map_or(0, |head| head.seq.get()), len, "{id}");
    }
}

async fn write_for_ever(engine: StoreEngine, folder: &Path) {
    let store = engine.open(folder).unwrap();
    say("begun\n");
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| tokio::spawn(write_thread(Arc::clone(&store), task)))
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

async fn write_thread(store: Arc<dyn CheckpointStore>, task: usize) {
    let id = thread(&format!("task-{task}"));
    let claim = store.claim(&id, Take::IfFree).await.unwrap();
    let mut expected = claim.head.map(|head| head.seq).unwrap_or_default();
    let mut first = claim.next.get();
    loop {
        let mut records: Vec<_> = (first..first + TOGETHER)
            .map(|seq| commit(seq, BYTES))
            .collect();
        if first == 1 {
            records.splice(..2, one_of_each().into_iter().take(2));
        }
        let last = Seq::new(first + TOGETHER - 1);
        let write = Write {
            fulfils: None,
            thread: id.clone(),
            epoch: claim.epoch,
            branch: Branch::new(0),
            expected,
            first: Seq::new(first),
            records,
            segments: Vec::new(),
            head: Head {
                seq: last,
                base: Seq::new(0),
                ..sample_head()
            },
            run: None,
        };
        store.append(write).await.unwrap();
        say(&format!("{task} {last}.\n"));
        expected = last;
        first += TOGETHER;
    }
}

/// One write of a whole line, so that a kill cuts no two lines.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).unwrap();
    out.flush().unwrap();
}
