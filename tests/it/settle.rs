//! A superstep that is closed without all its outcomes: what finished is kept, what did not is settled
//! by its node's rule, once, and where a rule goes wrong nothing is lost.

use std::sync::Arc;

use milepost::store::{CheckpointStore, MemoryStore, Record, Status};
use milepost::{
    Answers, Ask, Command, Context, End, Ended, Graph, NodeError, Output, RunError, RunOptions,
    Runner, Seq, Snapshot, Unfinished, WhyUnfinished,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::support::{
    Calls, DOORS, Doc, DocUpdate, Place, Probe, When, drive, fed, line, says, thread, with,
};

fn start() -> Command<Doc> {
    Command::start(Doc::update())
}

fn anew() -> Command<Doc> {
    Command::start(Doc::update().n(1)).abandon()
}

/// May it be paid?
#[derive(Debug, Serialize, Deserialize)]
struct Pay;

impl Ask for Pay {
    type Answer = bool;
}

/// How the tasks of a worker end in a first run: by their payload.
const ENDS: [&str; 4] = ["well", "asks", "waits", "fails"];

/// `work` for each of some ends, and a plain node beside it; in a second run nothing of it.
fn desk(calls: &Calls, ends: &'static [&'static str], gate: &Arc<Semaphore>) -> Graph<Doc> {
    let mut g = Graph::builder("desk");
    let plain = g.node("plain", says(calls, "plain"));
    let work = fed(
        (calls.clone(), Arc::clone(gate)),
        async |(calls, gate): (Calls, Arc<Semaphore>),
               end: String,
               _: Snapshot<Doc>,
               cx: Context| {
            calls.hit(&end);
            let receipt: u64 = cx.step("charge", async { Ok(7) }).await?;
            match &*end {
                "asks" => Ok(Output::<DocUpdate, (), Pay>::ask("pay", Pay)),
                "fails" => Err(NodeError::permanent("no money")),
                "waits" => {
                    gate.acquire().await?.forget();
                    Ok(Output::Done(line("waited"), ()))
                }
                _ => Ok(Output::Done(line(format!("{end} {receipt}")), ())),
            }
        },
    );
    let work = g.worker("work", work);
    let second = g.node("second", says(calls, "second"));
    let hits = calls.clone();
    g.settle(work, move |before: &Doc, left: &Unfinished<'_, String>| {
        hits.hit("settle");
        let receipt: Option<u64> = left.step("charge")?;
        assert_eq!(left.step::<u64>("refund")?, None);
        assert!(left.step::<String>("charge").is_err() || receipt.is_none());
        let why = match left.why() {
            WhyUnfinished::Asked(ids) => format!("asked {}", ids[0]),
            WhyUnfinished::Failed(error) => format!("failed: {}", error.message),
            WhyUnfinished::Cancelled => "cancelled".to_owned(),
            WhyUnfinished::Left => "left".to_owned(),
            other => format!("{other:?}"),
        };
        let paid = receipt.map_or("unpaid".to_owned(), |receipt| format!("paid {receipt}"));
        Ok(line(format!(
            "{} of {} ({}): {why}, {paid}",
            left.task(),
            left.payload(),
            before.log.len()
        )))
    });
    let all = move |doc: &Doc| match doc.n {
        0 => ends.iter().map(|end| (*end).to_owned()).collect(),
        _ => vec!["well".to_owned()],
    };
    g.start(plain);
    g.edge(plain, work.each(all));
    g.edge(work, second);
    g.edge(second, End);
    g.build().unwrap()
}

/// What is in the log of a state after the new input, before anything of the new run.
async fn after_input(runner: &Runner<Doc>, store: &dyn CheckpointStore) -> Vec<String> {
    let t = thread("t");
    let line = milepost::history(store, &t).await.unwrap();
    let input = line.iter().rev().find(|at| at.input.is_some()).unwrap();
    runner.state_at(&t, input.seq).await.unwrap().log.clone()
}

/// C17: abandoned, failed, cancelled and left tasks beside a finished one.
#[tokio::test(start_paused = true)]
async fn what_never_finished_is_settled_and_what_finished_is_kept() {
    type Case = (&'static [&'static str], bool, &'static [&'static str]);
    let cases: [Case; 3] = [
        (
            &["well", "asks"],
            false,
            &[
                "plain",
                "well 7",
                "2:work[1] of asks (1): asked 2:work[1].pay, paid 7",
            ],
        ),
        (
            &["well", "fails"],
            false,
            &[
                "plain",
                "well 7",
                "2:work[1] of fails (1): failed: no money, paid 7",
            ],
        ),
        (
            &["waits", "well", "waits"],
            true,
            &[
                "plain",
                "well 7",
                "2:work[0] of waits (1): cancelled, paid 7",
                "2:work[2] of waits (1): cancelled, paid 7",
            ],
        ),
    ];
    assert_eq!(ENDS.len(), 4);
    for (ends, cancels, expected) in cases {
        for door in DOORS {
            for place in [Place::memory(), Place::sled()] {
                let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
                let store = place.open().unwrap();
                let runner =
                    Runner::new(desk(&calls, ends, &gate)).shared_store(Arc::clone(&store));
                let t = thread("t");
                let stopper = async {
                    while cancels && (calls.of("waits") < 2 || calls.of("well") < 1) {
                        tokio::task::yield_now().await;
                    }
                    if cancels {
                        runner.cancel(&t, "").await.unwrap();
                    }
                };
                let (_, ()) = tokio::join!(drive(door, &runner, &t, start()), stopper);
                let before = calls.all();
                let (ended, state) = drive(door, &runner, &t, anew()).await.unwrap();
                assert_eq!(ended, Ended::Finished);
                assert_eq!(after_input(&runner, &*store).await, expected);
                assert_eq!(state.log[..expected.len()], *expected);
                assert_eq!(
                    state.log[expected.len()..],
                    ["plain", "well 7", "second"].map(str::to_owned)
                );
                // Asked once for each, and not again by whoever reads it.
                let unfinished = expected
                    .iter()
                    .filter(|line| line.contains("work["))
                    .count();
                assert_eq!(calls.of("settle") as usize, unfinished);
                let hits = before.get("well").copied().unwrap_or(0);
                assert_eq!(calls.of("well"), hits + 1);
                let replayed = runner.replay(&t).await.unwrap();
                assert_eq!(replayed.differences, [], "{ends:?}");
                assert_eq!(milepost::questions(&*store, &t).await.unwrap().len(), 0);
            }
        }
    }
}

/// A run that was left in its middle: the task may or may not have begun.
#[tokio::test]
async fn a_task_that_was_left_is_settled_too() {
    let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
    let memory = MemoryStore::new();
    let runner = Runner::new(desk(&calls, &["well"], &gate)).store(memory.clone());
    let t = thread("t");
    let limited = runner.clone().options(RunOptions::new().step_limit(1));
    limited.run(&t, start()).await.unwrap();
    runner.run(&t, anew()).await.unwrap();
    let expected = ["plain", "2:work[0] of well (1): left, unpaid"];
    assert_eq!(after_input(&runner, &memory).await, expected);
}

/// What is settled is merged once more from the base behind it, and from the records alone.
#[tokio::test]
async fn what_was_settled_is_read_again_as_it_was() {
    for every in [1, 64] {
        let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
        let memory = MemoryStore::new();
        let options = RunOptions::new().base_every(every);
        let runner = Runner::new(desk(&calls, &["asks", "asks", "well"], &gate))
            .store(memory.clone())
            .options(options);
        let t = thread("t");
        runner.run(&t, start()).await.unwrap();
        let report = runner.run(&t, anew()).await.unwrap();
        assert_eq!(*runner.state(&t).await.unwrap(), *report.state);
        let records = memory.records(&t, Seq::new(1), 999).await.unwrap();
        let settled: Vec<_> = records
            .iter()
            .filter_map(|stored| match &*stored.record {
                Record::Input(input) => Some((input.closed.len(), input.settled.len())),
                _ => None,
            })
            .collect();
        assert_eq!(settled, [(0, 0), (1, 2)]);
        memory.prune(&t).await.unwrap();
        assert_eq!(*runner.state(&t).await.unwrap(), *report.state);
    }
}

/// Two plain nodes that ask, and what their rules do.
fn two(
    one: impl Fn(&Doc, &Unfinished<'_>) -> Result<DocUpdate, NodeError> + Send + Sync + 'static,
    other: impl Fn(&Doc, &Unfinished<'_>) -> Result<DocUpdate, NodeError> + Send + Sync + 'static,
) -> Graph<Doc> {
    let ask = |n: u64| {
        with(n, async |n: u64, doc: Snapshot<Doc>, cx: Context| {
            if doc.n == 1 {
                return Ok(Output::<DocUpdate, (), Pay>::Done(DocUpdate::default(), ()));
            }
            Ok(match cx.answer::<Pay>("pay")? {
                Some(_) => Output::Done(line(format!("paid {n}")), ()),
                None => Output::ask("pay", Pay),
            })
        })
    };
    let mut g = Graph::builder("two");
    let a = g.node("a", ask(1));
    let b = g.node("b", ask(2));
    g.settle(a, one);
    g.settle(b, other);
    g.start(a.and(b));
    g.edge(a, End);
    g.edge(b, End);
    g.build().unwrap()
}

/// The input is refused, nothing is changed, and the thread goes on as if it had not come.
#[tokio::test]
async fn a_rule_that_goes_wrong_loses_nothing() {
    let fine = |_: &Doc, _: &Unfinished<'_>| Ok(line("settled"));
    let sets = |_: &Doc, _: &Unfinished<'_>| Ok(Doc::update().n(9));
    let graphs = [
        two(fine, |_, _| panic!("a fault of the rule")),
        two(fine, |_, _| Err(NodeError::invalid("no rule for this"))),
        two(sets, sets),
    ];
    for (number, graph) in graphs.into_iter().enumerate() {
        for place in [Place::memory(), Place::sled()] {
            let store = place.open().unwrap();
            let runner = Runner::new(graph.clone()).shared_store(Arc::clone(&store));
            let t = thread("t");
            let report = runner.run(&t, start()).await.unwrap();
            assert_eq!(report.ended, Ended::Paused { questions: 2 });
            let before = store.extent(&t).await.unwrap().unwrap();
            let error = runner.run(&t, anew()).await.unwrap_err();
            match (number, &error) {
                (0, RunError::Settle { task, error, .. }) => {
                    assert_eq!(task.to_string(), "1:b[0]");
                    assert!(error.to_string().contains("a fault of the rule"), "{error}");
                }
                (1, RunError::Settle { task, .. }) => assert_eq!(task.to_string(), "1:b[0]"),
                (2, RunError::Conflict { first, second, .. }) => {
                    let both = (first.to_string(), second.to_string());
                    assert_eq!(both, ("1:a[0]".to_owned(), "1:b[0]".to_owned()));
                }
                (_, other) => panic!("{other:?}"),
            }
            assert!(error.to_string().contains("thread t"), "{error}");
            assert_eq!(store.extent(&t).await.unwrap().unwrap().next, before.next);
            let open = milepost::questions(&*store, &t).await.unwrap();
            assert_eq!(open.len(), 2);
            let answers = Answers::to(open[0].id.clone(), &true).and(open[1].id.clone(), &true);
            let report = runner.run(&t, Command::answer(answers)).await.unwrap();
            assert_eq!(report.state.log, ["paid 1", "paid 2"]);
        }
    }
}

/// A rule writes what its node says it writes.
#[tokio::test]
async fn a_rule_is_bound_by_what_its_node_declares() {
    let mut g = Graph::builder("declared");
    let a = g.node("a", async |_: Snapshot<Doc>, cx: Context| {
        Ok::<_, NodeError>(match cx.answer::<Pay>("pay")? {
            Some(_) => Output::<DocUpdate, (), Pay>::Done(line("paid"), ()),
            None => Output::ask("pay", Pay),
        })
    });
    g.writes(a, [Doc::LOG]);
    g.settle(a, |_, _| Ok(Doc::update().n(9)));
    g.start(a);
    g.edge(a, End);
    let place = Place::memory();
    let runner = place.runner(g.build().unwrap(), RunOptions::new());
    runner.run(&thread("t"), start()).await.unwrap();
    let refused = runner.run(&thread("t"), anew()).await;
    assert!(
        matches!(refused, Err(RunError::UndeclaredWrite { field: "n", .. })),
        "{refused:?}"
    );
}

/// Outcomes that cannot be merged must not keep a thread from starting anew; what is settled stays.
#[tokio::test]
async fn what_is_settled_stays_where_the_outcomes_cannot_be_merged() {
    let mut g = Graph::builder("clash");
    let sets = fed(
        (),
        async |(): (), n: u64, doc: Snapshot<Doc>, cx: Context| {
            if doc.n == 1 {
                return Ok(Output::<DocUpdate, (), Pay>::Done(DocUpdate::default(), ()));
            }
            match (n, cx.answer::<Pay>("pay")?) {
                (0, None) => Ok(Output::ask("pay", Pay)),
                _ => Ok(Output::Done(Doc::update().n(n + 5), ())),
            }
        },
    );
    let w = g.worker("w", sets);
    g.settle(w, |_, left| {
        Ok(line(format!("{} is settled", left.payload())))
    });
    g.start(w.each(|_| vec![0, 1, 2]));
    g.edge(w, End);
    let memory = MemoryStore::new();
    let runner = Runner::new(g.build().unwrap()).store(memory.clone());
    let t = thread("t");
    runner.run(&t, start()).await.unwrap();
    let report = runner.run(&t, anew()).await.unwrap();
    assert_eq!(report.state.log, ["0 is settled"]);
    assert_eq!(*runner.state(&t).await.unwrap(), *report.state);
    assert_eq!(
        memory.head(&t).await.unwrap().unwrap().status,
        Status::Finished
    );
}

/// The store fails once at any operation of the call that abandons: done again, all is as it should be.
#[tokio::test]
async fn a_settled_superstep_survives_a_failure_of_the_store_at_any_operation() {
    for when in [When::Before, When::After] {
        for at in 1.. {
            let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
            let memory = MemoryStore::new();
            let graph = desk(&calls, &["well", "asks"], &gate);
            let runner = Runner::new(graph.clone()).store(memory.clone());
            let t = thread("t");
            runner.run(&t, start()).await.unwrap();
            let probe = Probe::new(memory.clone()).failing(at, when);
            let id = milepost::RunId::new("second").unwrap();
            let again = || anew().run_id(id.clone());
            let _ = Runner::new(graph)
                .store(probe.clone())
                .run(&t, again())
                .await;
            let report = runner.run(&t, again()).await.unwrap();
            let expected = [
                "plain",
                "well 7",
                "2:work[1] of asks (1): asked 2:work[1].pay, paid 7",
                "plain",
                "well 7",
                "second",
            ];
            assert_eq!(report.state.log, expected, "{when:?} {at}");
            assert_eq!(runner.replay(&t).await.unwrap().differences, []);
            if probe.operations() < at {
                assert!(at > 6);
                break;
            }
        }
    }
}
