//! C35 as far as it needs no agent: what comes in time counts, what comes late is never recorded, not
//! even in part; and a holder that was presumed dead changes nothing any more. C65 with a question.

use std::sync::Arc;
use std::time::Duration;

use milepost::store::{Record, StoreError};
use milepost::{
    Answers, Ask, Busy, Cancel, Command, Context, End, Ended, EventKind, Graph, NodeError, Output,
    Policy, Retry, RunError, RunOptions, Runner, Seq, Snapshot, events,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::support::{Calls, DOORS, Doc, DocUpdate, Place, drive, fed, line, says, thread, with};

const MS: Duration = Duration::from_millis(1);

fn start() -> Command<Doc> {
    Command::start(Doc::update())
}

/// C35 (1): the tool takes 300 ms the first time and is given 100 ms: it is tried again, its late
/// effect never happens, and one result is in the state.
#[tokio::test(start_paused = true)]
async fn a_slow_tool_that_comes_back_late_has_one_result() {
    for door in DOORS {
        let (calls, place) = (Calls::default(), Place::memory());
        let mut g = Graph::builder("tool");
        let tool = with(calls.clone(), async |calls: Calls, _, cx: Context| {
            calls.hit("begun");
            if cx.attempt() == 1 {
                tokio::time::sleep(300 * MS).await;
            }
            calls.hit("effect");
            Ok(line(format!("try {}", cx.attempt())))
        });
        let tool = g.node("tool", tool);
        let retry = Retry {
            max_attempts: 2,
            first_wait: MS,
            jitter: 0.0,
            ..Retry::default()
        };
        g.policy(tool, Policy::default().timeout(100 * MS).retry(retry));
        g.start(tool);
        g.edge(tool, End);
        let runner = place.runner(g.build().unwrap(), RunOptions::new());
        let t = thread("t");
        let (_, state) = drive(door, &runner, &t, start()).await.unwrap();
        assert_eq!(state.log, ["try 2"]);
        tokio::time::sleep(1000 * MS).await;
        assert_eq!((calls.of("begun"), calls.of("effect")), (2, 1));
        let told = events(&*place.open().unwrap(), &t).await.unwrap();
        let attempts = told.iter().find_map(|event| match &event.kind {
            EventKind::TaskFinished { attempts, .. } => Some(*attempts),
            _ => None,
        });
        assert_eq!(attempts, Some(2));
    }
}

/// C35 (2): the holder is presumed dead and replaced; when it wakes, it is told so, and everything is
/// as the other one has left it.
#[tokio::test]
async fn a_holder_that_was_presumed_dead_changes_nothing() {
    for siblings in [1, 3] {
        for place in [Place::memory(), Place::sled()] {
            let (calls, gate) = (Calls::default(), Arc::new(Semaphore::new(0)));
            let mut g = Graph::builder("takeover");
            let w = fed(
                (calls.clone(), Arc::clone(&gate)),
                async |(calls, gate): (Calls, Arc<Semaphore>), item: u64, _, _| {
                    if calls.hit(&format!("w{item}")) == 1 {
                        gate.acquire().await?.forget();
                    }
                    Ok(line(format!("w{item}")))
                },
            );
            let w = g.worker("w", w);
            let z = g.node("z", says(&calls, "z"));
            g.start(w.each(move |_| (0..siblings).collect()));
            g.edge(w, z);
            g.edge(z, End);
            let store = place.open().unwrap();
            let runner = Runner::new(g.build().unwrap()).shared_store(Arc::clone(&store));
            let t = thread("t");
            let first = tokio::spawn({
                let (runner, t) = (runner.clone(), t.clone());
                async move { runner.run(&t, start()).await }
            });
            while (0..siblings).any(|item| calls.of(&format!("w{item}")) == 0) {
                tokio::task::yield_now().await;
            }
            let second = runner
                .clone()
                .options(RunOptions::new().busy(Busy::Replace));
            let report = second.run(&t, Command::go_on()).await.unwrap();
            let expected: Vec<_> = (0..siblings).map(|item| format!("w{item}")).collect();
            assert_eq!(report.state.log, [expected, vec!["z".to_owned()]].concat());
            let before = events(&*store, &t).await.unwrap();
            gate.add_permits(9);
            let late = first.await.unwrap();
            assert!(
                matches!(
                    late,
                    Err(RunError::Store(
                        StoreError::Fenced { .. } | StoreError::Conflict { .. }
                    ))
                ),
                "{late:?}"
            );
            assert_eq!(events(&*store, &t).await.unwrap(), before);
            assert_eq!(*runner.state(&t).await.unwrap(), *report.state);
            assert_eq!(calls.of("z"), 1);
        }
    }
}

/// Of three tasks that are told to end, one does in time and is recorded whole; one comes too late,
/// and one leaves work behind that goes on without it: nothing of theirs is recorded afterwards.
#[tokio::test(start_paused = true)]
async fn what_ends_in_its_grace_time_is_recorded_whole_and_what_comes_later_not_at_all() {
    for door in DOORS {
        let (calls, place, cancel) = (Calls::default(), Place::memory(), Cancel::new());
        let mut g = Graph::builder("grace");
        let w = fed(
            (calls.clone(), cancel.clone()),
            async |(calls, cancel): (Calls, Cancel), item: u64, _, cx: Context| {
                calls.hit("begun");
                if calls.of("again") > 0 {
                    return Ok(line(format!("w{item}")));
                }
                while calls.of("begun") < 3 {
                    tokio::task::yield_now().await;
                }
                if item == 2 {
                    let (cx, calls) = (cx.clone(), calls.clone());
                    tokio::spawn(async move {
                        tokio::time::sleep(9000 * MS).await;
                        let late = cx.step("late", async { Ok(1_u64) }).await;
                        calls.hit(if late.is_err() { "refused" } else { "kept" });
                    });
                }
                cancel.cancel();
                cx.cancelled().await;
                let time = [500, 3000, 3000][item as usize];
                tokio::time::sleep(time * MS).await;
                calls.hit("ended");
                Ok(line(format!("w{item}")))
            },
        );
        let w = g.worker("w", w);
        g.start(w.each(|_| vec![0, 1, 2]));
        g.edge(w, End);
        let graph = g.build().unwrap();
        let options = RunOptions::new().cancel(cancel).grace(1000 * MS);
        let runner = place.runner(graph.clone(), options);
        let t = thread("t");
        let (ended, _) = drive(door, &runner, &t, start()).await.unwrap();
        assert_eq!(ended, Ended::Cancelled);
        let store = place.open().unwrap();
        let records = async || store.records(&t, Seq::new(1), 99).await.unwrap();
        let before = records().await;
        let outcomes: Vec<_> = before
            .iter()
            .filter_map(|stored| match &*stored.record {
                Record::Outcome(outcome) => Some((outcome.index, outcome.changes.len())),
                _ => None,
            })
            .collect();
        assert_eq!(outcomes, [(0, 1)]);
        tokio::time::sleep(60_000 * MS).await;
        assert_eq!(records().await, before, "{door:?}");
        assert_eq!((calls.of("ended"), calls.of("kept")), (1, 0));
        assert_eq!(calls.of("refused"), 1);
        calls.hit("again");
        let next = place.runner(graph, RunOptions::new());
        let (_, state) = drive(door, &next, &t, Command::go_on()).await.unwrap();
        assert_eq!(state.log, ["w0", "w1", "w2"]);
        assert_eq!(calls.of("begun"), 5);
    }
}

/// May it go on?
#[derive(Debug, Serialize, Deserialize)]
struct Fine;

impl Ask for Fine {
    type Answer = bool;
}

/// C65 (2): with a limit of 5, a run that asks in its third superstep goes on for four more with the
/// answer: a call has its own budget, whichever door it comes by.
#[tokio::test]
async fn an_answer_has_a_budget_of_its_own() {
    for door in DOORS {
        for place in [Place::memory(), Place::sled()] {
            let calls = Calls::default();
            let mut g = Graph::builder("budget");
            let ask = with((), async |(): (), _: Snapshot<Doc>, cx: Context| {
                let left = Doc::update().seen(vec![cx.remaining_steps()]);
                Ok::<_, NodeError>(match cx.answer::<Fine>("fine")? {
                    Some(_) => Output::<DocUpdate, (), Fine>::Done(left, ()),
                    None => Output::ask("fine", Fine),
                })
            });
            let names = ["a", "b", "c", "d", "e", "f"];
            let nodes = names.map(|name| g.node(name, says(&calls, name)));
            let ask = g.node("ask", ask);
            g.start(nodes[0]);
            g.edge(nodes[0], nodes[1]);
            g.edge(nodes[1], ask);
            g.edge(ask, nodes[2]);
            g.edge(nodes[2], nodes[3]);
            g.edge(nodes[3], nodes[4]);
            g.edge(nodes[4], nodes[5]);
            g.edge(nodes[5], End);
            let runner = place.runner(g.build().unwrap(), RunOptions::new().step_limit(5));
            let t = thread("t");
            let (ended, _) = drive(door, &runner, &t, start()).await.unwrap();
            assert_eq!(ended, Ended::Paused { questions: 1 });
            let answer = Command::answer(Answers::only(&true));
            let (ended, state) = drive(door, &runner, &t, answer).await.unwrap();
            assert_eq!(
                (ended, &state.log.join("")[..]),
                (Ended::Finished, "abcdef")
            );
            assert_eq!(state.seen, [5], "the first of its own budget");
        }
    }
}
