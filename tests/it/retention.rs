//! Old checkpoints go by themselves, whatever the door and the end of a call, and never anything else.

use std::sync::{Arc, Mutex};

use milepost::store::{CheckpointStore, MemoryStore, Retention, check};
use milepost::{
    Command, Context, End, Ended, Exits, Graph, NodeError, RunError, RunOptions, Runner, Seq,
    Siblings, Snapshot, ThreadId, history,
};

use crate::support::{
    Calls, DOORS, Doc, Place, Probe, When, drive, line, on_both, says, thread, with,
};

#[derive(Clone, Copy, Exits)]
enum Round {
    Again,
    Enough,
}

/// A node that counts to `n`, one superstep each.
fn rounds() -> Graph<Doc> {
    let mut g = Graph::builder("rounds");
    let one = g.node("one", async |doc: Snapshot<Doc>, _: Context| {
        let done = doc.sum + 1;
        let round = match done.is_multiple_of(doc.n) {
            true => Round::Enough,
            false => Round::Again,
        };
        Ok::<_, NodeError>((line(format!("round {done}")).sum(1), round))
    });
    g.start(one);
    g.wire(one, |round| match round {
        Round::Again => one.into(),
        Round::Enough => End.into(),
    });
    g.build().unwrap()
}

fn to(n: u64) -> Command<Doc> {
    Command::start(Doc::update().n(n))
}

async fn sound(store: &dyn CheckpointStore, t: &ThreadId) {
    let checked = check(store, t).await;
    let bad: Vec<_> = checked
        .findings
        .iter()
        .filter(|found| found.is_error())
        .collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

async fn records(store: &dyn CheckpointStore, t: &ThreadId) -> usize {
    let all = store.records(t, Seq::new(0), usize::MAX).await;
    all.unwrap().len()
}

#[test]
fn the_newest_checkpoints_stay_whatever_the_door() {
    on_both(async || {
        for (door, place) in DOORS
            .into_iter()
            .flat_map(|door| [Place::memory(), Place::sled()].map(|place| (door, place)))
        {
            let t = thread("t");
            let options = RunOptions::new()
                .base_every(4)
                .retention(Retention::last(3));
            for call in 1..=8_u64 {
                // A new process each time, where a folder is opened.
                let store = place.open().unwrap();
                let runner = Runner::new(rounds())
                    .options(options.clone())
                    .shared_store(Arc::clone(&store));
                let (ended, state) = drive(door, &runner, &t, to(5)).await.unwrap();
                assert_eq!(ended, Ended::Finished);
                assert_eq!((state.sum, state.log.len() as u64), (5 * call, 5 * call));
                let left = records(&*store, &t).await;
                assert!(left < 30, "{left} records after {call} calls by {door:?}");
                // Every checkpoint that was asked for has the state that it had.
                for (back, at) in history(&*store, &t)
                    .await
                    .unwrap()
                    .iter()
                    .rev()
                    .take(3)
                    .enumerate()
                {
                    let state = runner.state_at(&t, at.seq).await.unwrap();
                    assert_eq!(state.sum, 5 * call - back as u64, "{door:?} at {}", at.seq);
                    assert_eq!(state.log.len() as u64, state.sum);
                }
                sound(&*store, &t).await;
            }
        }
    });
}

/// A long call gives back on its way, not at its end alone, and goes on under its own claim.
#[test]
fn a_long_call_does_not_pile_up_checkpoints() {
    on_both(async || {
        let (store, t) = (MemoryStore::new(), thread("t"));
        let most = Arc::new(Mutex::new(0));
        let mut g = Graph::builder("long");
        let held = (store.clone(), Arc::clone(&most));
        let one = g.node(
            "one",
            with(
                held,
                async |(store, most): (MemoryStore, Arc<Mutex<u64>>),
                       doc: Snapshot<Doc>,
                       cx: Context| {
                    let extent = store.extent(cx.thread()).await?.unwrap();
                    let there = extent.seqs().count() as u64;
                    let mut most = most.lock().unwrap();
                    *most = there.max(*most);
                    Ok::<_, NodeError>((
                        Doc::update().sum(1),
                        match doc.sum < 5_000 {
                            true => Round::Again,
                            false => Round::Enough,
                        },
                    ))
                },
            ),
        );
        g.start(one);
        g.wire(one, |round| match round {
            Round::Again => one.into(),
            Round::Enough => End.into(),
        });
        let options = RunOptions::new()
            .step_limit(10_000)
            .retention(Retention::last(1));
        let runner = Runner::new(g.build().unwrap())
            .store(store.clone())
            .options(options);
        let report = runner.run(&t, to(1)).await.unwrap();
        assert_eq!((report.ended, report.state.sum), (Ended::Finished, 5_001));
        let most = *most.lock().unwrap();
        assert!((1_000..1_400).contains(&most), "{most} records at once");
        assert!(records(&store, &t).await < 100);
        sound(&store, &t).await;
    });
}

/// What keeps checkpoints from being dropped is not how a run has ended.
#[test]
fn a_run_ends_as_it_does_where_nothing_can_be_dropped() {
    on_both(async || {
        let options = || RunOptions::new().base_every(2);
        let plain = Probe::new(MemoryStore::new());
        let runner = Runner::new(rounds())
            .store(plain.clone())
            .options(options());
        runner.run(&thread("t"), to(5)).await.unwrap();
        let retains = plain.operations() + 1;
        for when in [When::Before, When::After] {
            let store = Probe::new(MemoryStore::new()).failing(retains, when);
            let options = options().retention(Retention::last(1));
            let runner = Runner::new(rounds()).store(store.clone()).options(options);
            let report = runner.run(&thread("t"), to(5)).await.unwrap();
            assert_eq!((report.ended, report.state.sum), (Ended::Finished, 5));
            assert_eq!(store.operations(), retains, "it was tried");
            let again = runner.run(&thread("t"), to(5)).await.unwrap();
            assert_eq!(again.state.sum, 10);
            assert!(records(&store, &thread("t")).await < 12);
            sound(&store, &thread("t")).await;
        }
    });
}

/// A call that fails leaves a superstep open, with the steps and outcomes that it has recorded.
#[test]
fn what_is_open_stays_with_all_that_it_needs() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let (t, calls) = (thread("t"), Calls::default());
            let graph = || {
                let mut g = Graph::builder("pays");
                let one = g.node("one", async |doc: Snapshot<Doc>, _: Context| {
                    let round = match doc.sum < 8 {
                        true => Round::Again,
                        false => Round::Enough,
                    };
                    Ok::<_, NodeError>((Doc::update().sum(1), round))
                });
                let beside = g.node("beside", says(&calls, "beside"));
                let pay = async |calls: Calls, doc: Snapshot<Doc>, cx: Context| {
                    let paid = cx.step("pay", async { Ok(u64::from(calls.hit("pay")) + doc.sum) });
                    let paid = paid.await?;
                    match calls.hit("end") {
                        1 => Err(NodeError::permanent("not today")),
                        _ => Ok(line(format!("paid {paid}"))),
                    }
                };
                let pay = g.node("pay", with(calls.clone(), pay));
                g.start(one);
                g.wire(one, |round| match round {
                    Round::Again => one.into(),
                    Round::Enough => beside.and(pay),
                });
                g.edge(beside, End);
                g.edge(pay, End);
                g.build().unwrap()
            };
            let options = RunOptions::new()
                .base_every(2)
                .siblings(Siblings::Collect)
                .retention(Retention::last(1));
            // The folder is let go of for the next process.
            let failed = async { place.runner(graph(), options.clone()).run(&t, to(1)).await };
            let failed = failed.await;
            assert!(matches!(failed, Err(RunError::Node { .. })), "{failed:?}");
            let store = place.open().unwrap();
            let runner = Runner::new(graph())
                .options(options)
                .shared_store(Arc::clone(&store));
            let before = history(&*store, &t).await.unwrap();
            assert!(before.len() < 5, "{} checkpoints were kept", before.len());
            let report = runner.run(&t, Command::go_on()).await.unwrap();
            assert_eq!(report.state.log, ["beside", "paid 10"]);
            assert_eq!((calls.of("pay"), calls.of("beside")), (1, 1), "done again");
        }
    });
}
