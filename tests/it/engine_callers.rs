//! Many callers at once: of one thread, of many, from two processes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use milepost::store::{CheckpointStore, MemoryStore, SledStore, StoreError, Take};
use milepost::{
    Busy, Command, Context, End, Ended, Graph, Report, RunError, RunOptions, Runner, Snapshot,
    history,
};
use tokio::sync::Semaphore;

use crate::support::{Doc, on_both, thread, with};

/// Set for a child of a test: the folder that it opens.
const CHILD: &str = "MILEPOST_TEST_CALLER";

/// Reads n, waits for the gate, writes n + 1.
fn inc(gate: &Arc<Semaphore>) -> Graph<Doc> {
    let mut g = Graph::builder("inc");
    let inc = with(
        Arc::clone(gate),
        async |gate: Arc<Semaphore>, doc: Snapshot<Doc>, _: Context| {
            drop(gate.acquire().await?);
            Ok(Doc::update().n(doc.n + 1))
        },
    );
    let inc = g.node("inc", inc);
    g.start(inc);
    g.edge(inc, End);
    g.build().unwrap()
}

type Called = tokio::task::JoinHandle<Result<Report<Doc>, RunError>>;

fn call(store: &Arc<dyn CheckpointStore>, graph: &Graph<Doc>, name: &str) -> Called {
    let runner = Runner::new(graph.clone()).shared_store(Arc::clone(store));
    let t = thread(name);
    tokio::spawn(async move { runner.run(&t, Command::start(Doc::update())).await })
}

/// Waits for all; the reports of those that got the thread. Nobody else heard anything but `Busy`.
async fn outcomes(calls: Vec<Called>) -> Vec<Report<Doc>> {
    let mut well = Vec::new();
    for call in calls {
        match call.await.unwrap() {
            Ok(report) => well.push(report),
            Err(RunError::Store(StoreError::Busy { thread })) => assert_eq!(thread.as_str(), "one"),
            Err(other) => panic!("{other}"),
        }
    }
    well
}

/// The thread has counted them all, and its history is one line on which each of them lies.
async fn one_line(store: &Arc<dyn CheckpointStore>, well: &[Report<Doc>]) {
    let line = history(&**store, &thread("one")).await.unwrap();
    assert_eq!(line.len(), 2 * well.len());
    assert!(
        line.windows(2)
            .all(|two| two[0].seq < two[1].seq && two[0].step <= two[1].step)
    );
    let mut counted: Vec<_> = well.iter().map(|report| report.state.n).collect();
    counted.sort_unstable();
    assert_eq!(counted, (1..=well.len() as u64).collect::<Vec<_>>());
    for report in well {
        assert_eq!(report.ended, Ended::Finished);
        let at = line
            .iter()
            .find(|point| Some(point.seq) == report.seq)
            .unwrap();
        assert_eq!(at.step, report.step);
    }
}

fn stores() -> [(Option<tempfile::TempDir>, Arc<dyn CheckpointStore>); 2] {
    let dir = tempfile::tempdir().unwrap();
    let sled = SledStore::open(dir.path().join("s")).unwrap();
    [
        (None, Arc::new(MemoryStore::new())),
        (Some(dir), Arc::new(sled)),
    ]
}

/// C61, S043: while one of twenty holds the thread, nineteen are told so.
#[test]
fn while_one_of_twenty_callers_holds_the_thread_the_others_are_busy() {
    on_both(async || {
        for (_dir, store) in stores() {
            let gate = Arc::new(Semaphore::new(0));
            let graph = inc(&gate);
            let (done, mut told) = tokio::sync::mpsc::unbounded_channel();
            let calls: Vec<_> = (0..20)
                .map(|_| {
                    let (call, done) = (call(&store, &graph, "one"), done.clone());
                    tokio::spawn(async move {
                        let ended = call.await.unwrap();
                        done.send(()).unwrap();
                        ended
                    })
                })
                .collect();
            for _ in 0..19 {
                told.recv().await.unwrap();
            }
            gate.add_permits(1);
            let well = outcomes(calls).await;
            assert_eq!(well.len(), 1);
            one_line(&store, &well).await;
        }
    });
}

/// C61: whoever gets the thread counts, and nobody else does.
#[test]
fn of_twenty_callers_as_many_count_as_were_let_in() {
    on_both(async || {
        for (_dir, store) in stores() {
            let graph = inc(&Arc::new(Semaphore::new(1)));
            let mut well = Vec::new();
            for _ in 0..3 {
                let calls = (0..20).map(|_| call(&store, &graph, "one")).collect();
                let round = outcomes(calls).await;
                assert!(!round.is_empty());
                well.extend(round);
            }
            one_line(&store, &well).await;
        }
    });
}

/// C61: twenty threads run side by side: none of them could end before all have begun.
#[test]
fn twenty_threads_run_side_by_side() {
    on_both(async || {
        for (_dir, store) in stores() {
            let all = Arc::new(tokio::sync::Barrier::new(20));
            let mut g = Graph::builder("side by side");
            let node = with(
                all,
                async |all: Arc<tokio::sync::Barrier>, doc: Snapshot<Doc>, cx: Context| {
                    all.wait().await;
                    let own = cx.thread().as_str().to_owned();
                    Ok(Doc::update().n(doc.n + 1).log(vec![own]))
                },
            );
            let node = g.node("node", node);
            g.start(node);
            g.edge(node, End);
            let graph = g.build().unwrap();
            let names: Vec<_> = (0..20).map(|number| format!("t{number}")).collect();
            let calls: Vec<_> = names
                .iter()
                .map(|name| call(&store, &graph, name))
                .collect();
            for (call, name) in calls.into_iter().zip(&names) {
                let report = call.await.unwrap().unwrap();
                assert_eq!(
                    (report.state.n, &report.state.log[..]),
                    (1, &[name.clone()][..])
                );
            }
        }
    });
}

/// How many batches a store has acknowledged, by the words of `docs/format.md`.
fn batches(path: &Path) -> u64 {
    let file = std::fs::read(path.join("acknowledged")).unwrap();
    u64::from_le_bytes(file[..8].try_into().unwrap())
}

/// C61: what many threads write at once is gathered: fewer syncs than writes. One thread of the
/// runtime hands in all of them before it can hear of the first.
#[tokio::test]
async fn writes_of_many_threads_share_a_sync() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let store: Arc<dyn CheckpointStore> = Arc::new(SledStore::open(&path).unwrap());
    let graph = inc(&Arc::new(Semaphore::new(1)));
    call(&store, &graph, "first").await.unwrap().unwrap();
    let before = batches(&path);
    let calls: Vec<_> = (0..20)
        .map(|number| call(&store, &graph, &format!("t{number}")))
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    // An input and a commit each.
    let gathered = batches(&path) - before;
    assert!(gathered <= 20, "{gathered} syncs for 40 writes");
}

/// C61: two processes: the second is told who holds the store, the first goes on undisturbed; when
/// it has closed, the second gets what is there.
#[test]
fn a_second_process_is_told_and_gets_its_turn() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let gate = Arc::new(Semaphore::new(1));
    if let Ok(path) = std::env::var(CHILD) {
        match SledStore::open(path) {
            Err(StoreError::Locked { holder, .. }) => {
                assert_eq!(holder, Some(std::os::unix::process::parent_id()));
                std::process::exit(10);
            }
            opened => runtime.block_on(async {
                let runner = Runner::new(inc(&gate)).store(opened.unwrap());
                let report = runner
                    .run(&thread("one"), Command::start(Doc::update()))
                    .await;
                assert_eq!(report.unwrap().state.n, 2);
            }),
        }
        std::process::exit(20);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let child = || {
        let test = "engine_callers::a_second_process_is_told_and_gets_its_turn";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(CHILD, &path)
            .output()
            .unwrap();
        child.status.code()
    };
    let runner = Runner::new(inc(&gate))
        .options(RunOptions::new())
        .store(SledStore::open(&path).unwrap());
    runtime.block_on(async {
        let t = thread("one");
        let mut run = runner
            .open(&t, Command::start(Doc::update()))
            .await
            .unwrap();
        assert_eq!(child(), Some(10), "in the middle of a run");
        assert_eq!(run.finish().await.unwrap().state.n, 1);
        assert_eq!(child(), Some(10), "between two runs");
    });
    drop(runner);
    assert_eq!(child(), Some(20), "after the close");
    runtime.block_on(async {
        let runner = Runner::new(inc(&gate)).store(SledStore::open(&path).unwrap());
        assert_eq!(runner.state(&thread("one")).await.unwrap().n, 2);
    });
}

/// Nothing begins that nobody wants any more, also where it was only waiting for its turn.
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_dropped_while_it_waits_never_begins() {
    for waits in [false, true] {
        let store: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
        let gate = Arc::new(Semaphore::new(1));
        let options = RunOptions::new().busy(Busy::Wait(Duration::from_secs(60)));
        let runner = Runner::new(inc(&gate)).options(options);
        let runner = runner.shared_store(Arc::clone(&store));
        let t = thread("one");
        let holder = match waits {
            true => Some(
                runner
                    .open(&t, Command::start(Doc::update()))
                    .await
                    .unwrap(),
            ),
            false => None,
        };
        let stream = runner.stream(&t, Command::start(Doc::update()).abandon());
        if waits {
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        drop(stream);
        drop(holder);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let line = history(&*store, &t).await.unwrap();
        assert_eq!(line.len(), usize::from(waits));
        store.claim(&t, Take::IfFree).await.unwrap();
    }
}
