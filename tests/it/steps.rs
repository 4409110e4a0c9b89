//! Durable steps and waits inside a node: what is recorded is not done again, whatever happens to
//! the process between.

use std::time::{Duration, SystemTime};

use milepost::store::{MemoryStore, Status};
use milepost::{
    Answers, Ask, Command, Context, End, Ended, ErrorClass, Graph, NodeError, Output, Policy,
    Retry, RunError, RunOptions, Runner, Snapshot, ThreadId, events,
};
use serde::{Deserialize, Serialize};

use crate::support::{
    Calls, Doc, DocUpdate, Place, Probe, When, fed, lasting, line, listen, on_both, says, thread,
    with,
};

/// A graph of one node.
fn alone<Fut, R>(node: impl Fn(Snapshot<Doc>, Context) -> Fut + Send + Sync + 'static) -> Graph<Doc>
where
    Fut: Future<Output = Result<R, NodeError>> + Send + 'static,
    R: milepost::IntoOutput<Doc, Exits = ()>,
{
    let mut g = Graph::builder("alone");
    let node = g.node("node", node);
    g.start(node);
    g.edge(node, End);
    g.build().unwrap()
}

/// A step that succeeded is not done again by a retry, also without a store.
#[test]
fn a_retry_does_not_repeat_a_step() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory(), Place::sled()] {
            let calls = Calls::default();
            let mut g = Graph::builder("retry");
            let node = with(
                calls.clone(),
                async |calls: Calls, _: Snapshot<Doc>, cx: Context| {
                    let pay = async {
                        calls.hit("pay");
                        Ok(17_u64)
                    };
                    let ship = async {
                        match calls.hit("ship") {
                            1 => Err(NodeError::transient("no van")),
                            n => Ok(n),
                        }
                    };
                    let paid = cx.step("pay", pay).await?;
                    let shipped = cx.step("ship", ship).await?;
                    Ok(Doc::update().n(paid).sum(u64::from(shipped)))
                },
            );
            let node = g.node("node", node);
            g.policy(node, Policy::default().retry(Retry::default()));
            g.start(node);
            g.edge(node, End);
            let runner = place.runner(g.build().unwrap(), RunOptions::new());
            let report = runner
                .run(&thread("t"), Command::start(Doc::update()))
                .await
                .unwrap();
            assert_eq!((report.state.n, report.state.sum), (17, 2));
            assert_eq!((calls.of("pay"), calls.of("ship")), (1, 2));
        }
    });
}

/// Several steps of one node side by side, each recorded as it ends.
#[test]
fn steps_may_run_side_by_side() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let calls = Calls::default();
            let graph = alone(with(
                calls.clone(),
                async |calls: Calls, _: Snapshot<Doc>, cx: Context| {
                    let one = |name: &'static str, key: &'static str| {
                        let (calls, cx) = (calls.clone(), cx.clone());
                        async move {
                            cx.step(key, async {
                                calls.hit(name);
                                tokio::task::yield_now().await;
                                Ok(name.to_owned())
                            })
                            .await
                        }
                    };
                    let all = [one("a", "1"), one("b", "2"), one("c", "3")];
                    let log = futures::future::try_join_all(all).await?;
                    if calls.hit("node") == 1 {
                        return Err(NodeError::permanent("once"));
                    }
                    Ok(Doc::update().log(log))
                },
            ));
            let t = thread("t");
            let runner = place.runner(graph.clone(), RunOptions::new());
            runner
                .run(&t, Command::start(Doc::update()))
                .await
                .unwrap_err();
            drop(runner);
            let runner = place.runner(graph, RunOptions::new());
            let report = runner.run(&t, Command::go_on()).await.unwrap();
            assert_eq!(report.state.log, ["a", "b", "c"]);
            assert_eq!((calls.of("a"), calls.of("b"), calls.of("node")), (1, 1, 2));
        }
    });
}

#[test]
fn a_step_under_a_used_key_or_of_another_type_is_refused() {
    on_both(async || {
        let twice = alone(async |_: Snapshot<Doc>, cx: Context| {
            cx.step("pay", async { Ok(1_u64) }).await?;
            cx.step("pay", async { Ok(1_u64) }).await?;
            Ok(Doc::update())
        });
        let runner = Runner::new(twice).store(MemoryStore::new());
        let refused = runner
            .run(&thread("t"), Command::start(Doc::update()))
            .await
            .unwrap_err();
        assert_eq!(refused.class(), ErrorClass::Invalid.name());
        assert!(refused.to_string().contains("the key \"pay\""), "{refused}");

        let calls = Calls::default();
        let other = alone(with(
            calls,
            async |calls: Calls, _: Snapshot<Doc>, cx: Context| {
                if calls.hit("node") == 1 {
                    cx.step("pay", async { Ok(1_u64) }).await?;
                    return Err(NodeError::permanent("once"));
                }
                cx.step("pay", async { Ok("one".to_owned()) }).await?;
                Ok(Doc::update())
            },
        ));
        let runner = Runner::new(other).store(MemoryStore::new());
        let t = thread("t");
        runner
            .run(&t, Command::start(Doc::update()))
            .await
            .unwrap_err();
        let refused = runner
            .run(&t, Command::go_on())
            .await
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("u64") && refused.contains("String"),
            "{refused}"
        );
    });
}

fn parks(calls: &Calls, until: SystemTime) -> Graph<Doc> {
    let mut g = Graph::builder("parks");
    let first = g.node("first", says(calls, "first"));
    let node = with(
        (calls.clone(), until),
        async |(calls, until): (Calls, SystemTime), _: Snapshot<Doc>, cx: Context| {
            calls.hit("before");
            cx.step("once", async {
                calls.hit("once");
                Ok(())
            })
            .await?;
            cx.sleep_until("nap", until).await?;
            calls.hit("after");
            assert!(SystemTime::now() >= until, "it went on early");
            Ok(line("slept"))
        },
    );
    let node = g.node("node", node);
    let beside = g.node("beside", says(calls, "beside"));
    let last = g.node("last", says(calls, "last"));
    g.start(first);
    g.edge(first, node.and(beside));
    g.edge(node, last);
    g.edge(beside, last);
    g.edge(last, End);
    g.build().unwrap()
}

/// A long wait frees the process: the call ends, an early call runs nothing, and a call after the
/// time goes on, once.
#[test]
fn a_long_wait_parks_the_thread_and_is_over_once() {
    for place in [Place::memory(), Place::sled()] {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let calls = Calls::default();
            let until = SystemTime::now() + Duration::from_millis(1500);
            let options = RunOptions::new().park_after(Duration::ZERO);
            let fresh = || place.runner(parks(&calls, until), options.clone());
            let t = thread("t");
            let mut report = fresh()
                .run(&t, Command::start(Doc::update()))
                .await
                .unwrap();
            let mut early = 0;
            while let Ended::Parked { due_ms } = report.ended {
                let since = until.duration_since(SystemTime::UNIX_EPOCH).unwrap();
                assert!(u128::from(due_ms) >= since.as_millis());
                let head = place.open().unwrap().head(&t).await.unwrap().unwrap();
                assert_eq!(head.status, Status::Parked);
                assert_eq!((calls.of("before"), calls.of("after")), (1, 0));
                early += 1;
                tokio::time::sleep(Duration::from_millis(10)).await;
                report = fresh().run(&t, Command::go_on()).await.unwrap();
            }
            assert!(early > 0);
            assert_eq!(report.ended, Ended::Finished);
            assert_eq!(report.state.log, ["first", "slept", "beside", "last"]);
            assert_eq!(
                (calls.of("before"), calls.of("once"), calls.of("after")),
                (2, 1, 1)
            );
            assert_eq!(
                (calls.of("first"), calls.of("beside"), calls.of("last")),
                (1, 1, 1)
            );
        });
    }
}

/// Parked tasks hold nothing: with one task at a time allowed, all of them get to their wait.
#[test]
fn a_parked_task_gives_its_place_to_others() {
    on_both(async || {
        let calls = Calls::default();
        let mut g = Graph::builder("many");
        let nap = fed(
            calls.clone(),
            async |calls: Calls, n: u64, _: Snapshot<Doc>, cx: Context| {
                calls.hit("nap");
                cx.sleep_for("nap", Duration::from_secs(3600)).await?;
                Ok(Doc::update().sum(n))
            },
        );
        let nap = g.worker("nap", nap);
        g.start(nap.each(|_| (0..10).collect()));
        g.edge(nap, End);
        let options = RunOptions::new().concurrency(1);
        let runner = Place::memory().runner(g.build().unwrap(), options);
        let report = runner
            .run(&thread("t"), Command::start(Doc::update()))
            .await
            .unwrap();
        assert!(
            matches!(report.ended, Ended::Parked { .. }),
            "{:?}",
            report.ended
        );
        assert_eq!(calls.of("nap"), 10);
    });
}

/// May this be done?
#[derive(Serialize, Deserialize)]
struct Allow;

impl Ask for Allow {
    type Answer = bool;
}

/// A fan-out whose tasks pay in a step, ask, and wait for a moment that is over.
fn shop(calls: &Calls) -> Graph<Doc> {
    let mut g = Graph::builder("shop");
    let plan = g.node("plan", says(calls, "plan"));
    let buy = fed(
        calls.clone(),
        async |calls: Calls, item: String, _: Snapshot<Doc>, cx: Context| {
            let price = cx
                .step("price", async {
                    calls.hit("price");
                    Ok(item.len() as u64)
                })
                .await?;
            if item == "b" {
                return Ok(Output::Done(line("b").sum(price), ()));
            }
            let Some(allowed) = cx.answer::<Allow>("allow")? else {
                return Ok(Output::ask("allow", Allow));
            };
            cx.sleep_for("nap", Duration::from_millis(1)).await?;
            let bought = line(format!("{item} {allowed}")).sum(price);
            Ok::<Output<DocUpdate, (), Allow>, NodeError>(Output::Done(bought, ()))
        },
    );
    let buy = g.worker("buy", buy);
    let done = g.node("done", says(calls, "done"));
    g.start(plan);
    g.edge(
        plan,
        buy.each(|_| ["a", "b", "cc"].map(str::to_owned).to_vec()),
    );
    g.edge(buy, done);
    g.edge(done, End);
    g.build().unwrap()
}

/// Goes on, answers and starts anew until the thread is finished; what fails is tried again.
async fn to_the_end(runner: &Runner<Doc>, t: &ThreadId) -> Result<Snapshot<Doc>, RunError> {
    for _ in 0..50 {
        let report = match runner.run(t, Command::go_on()).await {
            Err(RunError::NotFound { .. }) => runner.run(t, Command::start(Doc::update())).await?,
            report => report?,
        };
        match report.ended {
            Ended::Finished => return Ok(report.state),
            Ended::Paused { .. } => {
                // One of them, so that half of the answers are given at a time.
                assert!(!report.questions.is_empty(), "{report:?}");
                let question = report.questions[0].id.clone();
                let answers = Answers::to(question, &true);
                runner.run(t, Command::answer(answers)).await?;
            }
            _ => {}
        }
    }
    panic!("it does not come to an end");
}

/// S042: the store fails once, at any of its operations, with questions open, answers half given
/// and steps done; what comes after ends in the same state.
#[test]
fn a_store_that_fails_anywhere_loses_no_question_answer_or_step() {
    on_both(async || {
        let calls = Calls::default();
        let t = thread("t");
        let undisturbed = Runner::new(shop(&calls)).store(MemoryStore::new());
        let expected = to_the_end(&undisturbed, &t).await.unwrap();
        assert_eq!(calls.of("price"), 3);
        for when in [When::Before, When::After] {
            for at in 1.. {
                let memory = MemoryStore::new();
                let probe = Probe::new(memory.clone()).failing(at, when);
                let calls = Calls::default();
                let failing = Runner::new(shop(&calls)).store(probe.clone());
                let first = to_the_end(&failing, &t).await;
                let next = Runner::new(shop(&calls)).store(memory);
                let state = to_the_end(&next, &t).await.unwrap();
                assert_eq!(*state, *expected, "{when:?} {at}");
                // The work of a step whose record failed is done again, and no other.
                assert!(calls.of("price") <= 6, "{when:?} {at}");
                if first.is_ok() {
                    assert!(at > 20 && probe.operations() < at);
                    break;
                }
            }
        }
    });
}

/// What a listener hears of steps and waits is what the log tells.
#[test]
fn steps_and_waits_are_told() {
    on_both(async || {
        let calls = Calls::default();
        let place = Place::memory();
        let options = RunOptions::new().park_after(Duration::ZERO);
        let until = SystemTime::now() + Duration::from_secs(3600);
        let runner = place.runner(parks(&calls, until), options);
        let t = thread("t");
        let (heard, ended) = listen(&runner, &t, Command::start(Doc::update())).await;
        assert!(matches!(ended.unwrap().0, Ended::Parked { .. }));
        let told = events(&*place.open().unwrap(), &t).await.unwrap();
        assert_eq!(lasting(&heard), told);
        let said = format!("{told:?}");
        assert!(
            said.contains("StepFinished") && said.contains("TimerSet"),
            "{said}"
        );
    });
}

/// A handle that is driven on after a pause or a failure, in the same process, finds its steps
/// again: a key is used once in each run of the task, not once in its life.
#[test]
fn a_step_is_found_again_by_the_same_handle() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory(), Place::sled()] {
            let calls = Calls::default();
            let node = async |calls: Calls, _: Snapshot<Doc>, cx: Context| {
                let price = cx
                    .step("price", async {
                        calls.hit("price");
                        Ok(3_u64)
                    })
                    .await?;
                if calls.hit("node") == 1 {
                    return Err(NodeError::permanent("once"));
                }
                Ok(match cx.answer::<Allow>("allow")? {
                    Some(_) => Output::Done(Doc::update().n(price), ()),
                    None => Output::ask("allow", Allow),
                })
            };
            let runner = place.runner(alone(with(calls.clone(), node)), RunOptions::new());
            let start = Command::start(Doc::update());
            let mut run = runner.open(&thread("t"), start).await.unwrap();
            let failed = run.finish().await.unwrap_err();
            assert!(failed.to_string().contains("once"), "{failed}");
            let paused = run.finish().await.unwrap();
            assert_eq!(paused.ended, Ended::Paused { questions: 1 });
            run.answer(Answers::only(&true)).await.unwrap();
            assert_eq!(run.finish().await.unwrap().state.n, 3);
            assert_eq!((calls.of("price"), calls.of("node")), (1, 3));
        }
    });
}
