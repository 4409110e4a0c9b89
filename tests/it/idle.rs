//! Idle timeouts: a try that shows no sign of life is ended, one that does may take its time.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use milepost::{
    Command, Context, End, ErrorClass, Graph, NodeError, Policy, Retry, RunError, RunOptions,
    Snapshot,
};
use tokio::sync::mpsc::UnboundedSender;

use crate::support::{Calls, Doc, DocUpdate, Place, line, thread, with};

const IDLE: Duration = Duration::from_secs(10);
/// Less than the idle timeout, and several of them are more.
const PART: Duration = Duration::from_secs(6);

fn paused(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(test);
}

fn graph<Fut>(
    policy: Policy,
    node: impl Fn(Snapshot<Doc>, Context) -> Fut + Send + Sync + 'static,
) -> Graph<Doc>
where
    Fut: Future<Output = Result<DocUpdate, NodeError>> + Send + 'static,
{
    let mut g = Graph::builder("idle");
    let node = g.node("node", node);
    g.policy(node, policy.idle_timeout(IDLE));
    g.start(node);
    g.edge(node, End);
    g.build().unwrap()
}

async fn refused(graph: Graph<Doc>) -> NodeError {
    let runner = Place::memory().runner(graph, RunOptions::new());
    let start = Command::start(Doc::update());
    match runner.run(&thread("t"), start).await {
        Err(RunError::Node { error, .. }) => error,
        other => panic!("{other:?}"),
    }
}

/// S029: idle is another thing than long, and said so.
#[test]
fn a_try_without_a_sign_of_life_fails_as_idle() {
    paused(async {
        let silent = graph(Policy::default(), async |_: Snapshot<Doc>, _: Context| {
            tokio::time::sleep(PART * 3).await;
            Ok(line("never"))
        });
        let began = tokio::time::Instant::now();
        let error = refused(silent).await;
        assert_eq!(began.elapsed().as_secs(), IDLE.as_secs());
        assert_eq!(error.class(), ErrorClass::Timeout);
        assert!(error.to_string().contains("idle timeout of 10s"), "{error}");
        // It counts from the last sign, not from the beginning.
        let twice = graph(Policy::default(), async |_: Snapshot<Doc>, cx: Context| {
            tokio::time::sleep(PART).await;
            cx.heartbeat();
            std::future::pending::<()>().await;
            Ok(line("never"))
        });
        let began = tokio::time::Instant::now();
        let error = refused(twice).await;
        assert_eq!(
            (error.class(), began.elapsed()),
            (ErrorClass::Timeout, PART + IDLE)
        );
    });
}

#[test]
fn every_sign_of_life_counts() {
    paused(async {
        for place in [Place::Nowhere, Place::memory()] {
            let alive = graph(Policy::default(), async |_: Snapshot<Doc>, cx: Context| {
                tokio::time::sleep(PART).await;
                cx.token("t").await;
                tokio::time::sleep(PART).await;
                cx.emit("progress", &1).await?;
                tokio::time::sleep(PART).await;
                cx.step("step", async { Ok(()) }).await?;
                tokio::time::sleep(PART).await;
                // From anywhere, by any copy.
                let copy = cx.clone();
                tokio::spawn(async move { copy.heartbeat() }).await?;
                tokio::time::sleep(PART).await;
                // A durable wait is no idleness, and after it the time begins anew.
                cx.sleep_for("nap", IDLE * 2).await?;
                tokio::time::sleep(PART).await;
                Ok(line("done"))
            });
            let options = RunOptions::new().park_after(IDLE * 9);
            let runner = place.runner(alive, options);
            // The clock of durable waits is the real one: none of them passes here.
            let start = Command::start(Doc::update());
            let done = runner.run(&thread("t"), start).await.unwrap();
            assert_eq!(done.state.log, ["done"]);
        }
    });
}

/// A step that works is not alive by that alone; an idle try is tried again as any that timed out.
#[test]
fn an_idle_try_is_tried_again() {
    paused(async {
        let calls = Calls::default();
        let node = async |calls: Calls, _: Snapshot<Doc>, cx: Context| {
            let call = calls.hit("node");
            cx.step("step", async {
                if call == 1 {
                    std::future::pending::<()>().await;
                }
                Ok(())
            })
            .await?;
            Ok(line(format!("try {}", cx.attempt())))
        };
        let policy = Policy::default().retry(Retry::default());
        let graph = graph(policy, with(calls, node));
        let runner = Place::memory().runner(graph, RunOptions::new());
        let start = Command::start(Doc::update());
        let done = runner.run(&thread("t"), start).await.unwrap();
        assert_eq!(done.state.log, ["try 2"]);
    });
}

/// A body that blocks its thread cannot be stopped, but is given up all the same; and it shows that it
/// lives from where it blocks.
#[test]
fn a_blocking_body_is_idle_or_alive_as_any() {
    paused(async {
        let (order, orders) = std::sync::mpsc::channel::<()>();
        let (beaten, mut beats) = tokio::sync::mpsc::unbounded_channel::<()>();
        let held = (Arc::new(Mutex::new(orders)), beaten);
        type Held = (Arc<Mutex<Receiver<()>>>, UnboundedSender<()>);
        let node = async |(orders, beaten): Held, _: Snapshot<Doc>, cx: Context| {
            beaten.send(())?;
            while orders.lock().unwrap().recv().is_ok() {
                cx.heartbeat();
                beaten.send(())?;
            }
            Ok(line("too late"))
        };
        let graph = graph(Policy::default().blocking(), with(held, node));
        let run = tokio::spawn(refused(graph));
        beats.recv().await.unwrap();
        for _ in 0..4 {
            tokio::time::advance(PART).await;
            order.send(()).unwrap();
            beats.recv().await.unwrap();
        }
        assert!(!run.is_finished());
        tokio::time::advance(IDLE).await;
        let error = run.await.unwrap();
        assert_eq!(error.class(), ErrorClass::Timeout);
        assert!(error.to_string().contains("idle"), "{error}");
        drop(order);
    });
}

/// What lives inside of a subgraph is a sign of life of the node that runs it, on every level; and
/// where nothing does, that node is idle.
#[test]
fn a_subgraph_lives_as_long_as_something_inside_does() {
    paused(async {
        for (long, lives) in [(PART, true), (PART * 2, false)] {
            let mut inner = Graph::builder("inner");
            let slow = with(
                long,
                async |long: Duration, _: Snapshot<Doc>, _: Context| {
                    tokio::time::sleep(long).await;
                    Ok(line("slow"))
                },
            );
            let one = inner.node("one", slow);
            let beats = async |_: Snapshot<Doc>, cx: Context| {
                tokio::time::sleep(PART).await;
                cx.token("t").await;
                tokio::time::sleep(PART).await;
                Ok(line("beats"))
            };
            let two = inner.node("two", beats);
            inner.start(one);
            inner.edge(one, two);
            inner.edge(two, End);
            let mut middle = Graph::builder("middle");
            let all = |_: &Doc| Doc::update();
            let out = |inner: &Doc| Doc::update().log(inner.log.clone());
            let node = middle.subgraph("inner", inner.build().unwrap(), all, out);
            middle.start(node);
            middle.edge(node, End);
            let mut g = Graph::builder("outer");
            let node = g.subgraph("middle", middle.build().unwrap(), all, out);
            g.policy(node, Policy::default().idle_timeout(IDLE));
            g.start(node);
            g.edge(node, End);
            let graph = g.build().unwrap();
            if !lives {
                let error = refused(graph).await;
                assert!(error.to_string().contains("idle"), "{error}");
                continue;
            }
            for place in [Place::Nowhere, Place::memory()] {
                let runner = place.runner(graph.clone(), RunOptions::new());
                let start = Command::start(Doc::update());
                let done = runner.run(&thread("t"), start).await.unwrap();
                assert_eq!(done.state.log, ["slow", "beats"]);
            }
        }
    });
}
