//! A merge or a decision that fails never poisons its thread: everything of it can be read, and
//! each way on is open.

use std::sync::Arc;

use milepost::store::{CheckpointStore, Status, ThreadArchive, check};
use milepost::{
    AsNode, Builder, Command, Context, End, Ended, Exits, Graph, NodeError, ReduceFault, Reducer,
    RunError, RunOptions, Seq, Snapshot, State, TaskPath, Updates, events, history,
};

use crate::support::{Calls, Place, on_both, thread, with};

/// Adds up, and panics where it is given 13.
#[derive(Debug)]
struct Unlucky;

impl Reducer<u64> for Unlucky {
    type Update = u64;
    fn reduce(value: &mut u64, updates: Updates<u64>) -> Result<(), ReduceFault> {
        for update in updates {
            assert!(update != 13, "thirteen");
            *value += update;
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Default, PartialEq, State)]
struct Tally {
    #[reduce(Unlucky)]
    sum: u64,
    last: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Cause {
    TwoWriters,
    ReducerPanics,
    RouterFails,
}

const CAUSES: [Cause; 3] = [Cause::TwoWriters, Cause::ReducerPanics, Cause::RouterFails];

#[derive(Clone, Copy, Exits)]
enum Way {
    On,
}

/// `before`, then `a` beside `b`, then `after`. The first time that they run, what they bring cannot
/// be merged or decided.
fn failing(cause: Cause, calls: &Calls) -> Graph<Tally> {
    let mut g = Graph::builder("failing");
    let add = async |_: Snapshot<Tally>, _: Context| Ok::<_, NodeError>(Tally::update().sum(1));
    let (before, after) = (g.node("before", add), g.node("after", add));
    let write = |name: &'static str| {
        let held = (calls.clone(), cause, name);
        with(held, async |(calls, cause, name), _, _| {
            let first = calls.hit(name) == 1;
            let update = Tally::update().sum(1);
            Ok(match cause {
                Cause::TwoWriters if first || name == "b" => update.last(Some(name.to_owned())),
                Cause::ReducerPanics if first && name == "a" => Tally::update().sum(13),
                _ => update,
            })
        })
    };
    let (a, b) = (g.node("a", write("a")), g.node("b", write("b")));
    wire(&mut g, calls, cause, [before, a, b, after]);
    g.build().unwrap()
}

fn wire(
    g: &mut Builder<Tally>,
    calls: &Calls,
    cause: Cause,
    [before, a, b, after]: [milepost::NodeRef<Tally, ()>; 4],
) {
    g.start(before);
    g.edge(before, a.and(b));
    g.edge(a, End);
    let calls = calls.clone();
    let choose = move |_: &Tally| match cause {
        Cause::RouterFails if calls.of("a") < 2 && calls.of("patched") == 0 => {
            Err(NodeError::permanent("where to?"))
        }
        _ => Ok(Way::On),
    };
    g.branch(b, choose, |way| match way {
        Way::On => after.into(),
    });
    g.edge(after, End);
}

/// What can still be read of a thread.
async fn is_readable(place: &Place, graph: Graph<Tally>, cause: Cause) -> Seq {
    let (runner, t) = (place.runner(graph, RunOptions::new()), thread("t"));
    assert_eq!(
        *runner.state(&t).await.unwrap(),
        Tally { sum: 1, last: None }
    );
    drop(runner);
    let store: Arc<dyn CheckpointStore> = place.open().unwrap();
    assert_eq!(history(&*store, &t).await.unwrap().len(), 2);
    assert!(events(&*store, &t).await.unwrap().len() > 4, "{cause:?}");
    let head = store.head(&t).await.unwrap().unwrap();
    assert_eq!((head.status, head.step), (Status::Failed, 1));
    let archive = ThreadArchive::read(&*store, &t).await.unwrap().unwrap();
    archive.check().unwrap();
    assert!(check(&*store, &t).await.is_sound());
    head.seq
}

/// How somebody gets such a thread going again.
#[derive(Clone, Copy, Debug)]
enum Onward {
    Patch,
    Retry,
    Rewind,
    Abandon,
}

/// C20, S042: each way on, after each failure, in a process of its own.
#[test]
fn whatever_failed_the_thread_is_read_and_goes_on_in_each_way() {
    on_both(async || {
        for cause in CAUSES {
            for way in [
                Onward::Patch,
                Onward::Retry,
                Onward::Rewind,
                Onward::Abandon,
            ] {
                for place in [Place::memory(), Place::sled()] {
                    let (calls, t) = (Calls::default(), thread("t"));
                    let start = Command::start(Tally::update());
                    let options = RunOptions::new();
                    let failed = place
                        .runner(failing(cause, &calls), options)
                        .run(&t, start)
                        .await;
                    let failed = failed.unwrap_err();
                    let is_it = match cause {
                        Cause::TwoWriters => matches!(failed, RunError::Conflict { .. }),
                        Cause::ReducerPanics => {
                            matches!(failed, RunError::Reduce { panicked: true, .. })
                        }
                        Cause::RouterFails => matches!(failed, RunError::Route { .. }),
                    };
                    assert!(is_it, "{cause:?}: {failed}");
                    assert_eq!((calls.of("a"), calls.of("b")), (1, 1));
                    is_readable(&place, failing(cause, &calls), cause).await;
                    // Going on alone fails the same way, and runs nothing again.
                    let options = RunOptions::new();
                    let runner = place.runner(failing(cause, &calls), options);
                    runner.run(&t, Command::go_on()).await.unwrap_err();
                    assert_eq!((calls.of("a"), calls.of("b")), (1, 1));
                    drop(runner);
                    let head = is_readable(&place, failing(cause, &calls), cause).await;

                    let runner = place.runner(failing(cause, &calls), RunOptions::new());
                    let report = match way {
                        Onward::Retry => {
                            let tasks: [TaskPath; 2] =
                                ["2:a[0]", "2:b[0]"].map(|path| path.parse().unwrap());
                            runner.retry(&t, tasks).await
                        }
                        Onward::Rewind => {
                            runner.rewind(&t, head).await.unwrap();
                            runner.run(&t, Command::go_on()).await
                        }
                        Onward::Patch => {
                            calls.hit("patched");
                            let update = Tally::update().sum(2).last(Some("b".to_owned()));
                            runner.patch(&t, update, AsNode::new("b")).await.unwrap();
                            runner.run(&t, Command::go_on()).await
                        }
                        Onward::Abandon => {
                            let anew = Command::start(Tally::update()).abandon();
                            runner.run(&t, anew).await
                        }
                    };
                    let report = report.unwrap_or_else(|why| panic!("{cause:?} {way:?}: {why}"));
                    assert_eq!(report.ended, Ended::Finished);
                    // A new input keeps what the old superstep had brought, where it can be merged.
                    let sum = match (way, cause) {
                        (Onward::Abandon, Cause::RouterFails) => 7,
                        (Onward::Abandon, _) => 5,
                        _ => 4,
                    };
                    assert_eq!(report.state.sum, sum, "{cause:?} {way:?}");
                    let state = (*report.state).clone();
                    drop((report, runner));
                    let again = place.runner(failing(cause, &calls), RunOptions::new());
                    assert_eq!(*again.state(&t).await.unwrap(), state);
                    assert_eq!(again.replay(&t).await.unwrap().differences, []);
                    drop(again);
                    assert!(check(&*place.open().unwrap(), &t).await.is_sound());
                }
            }
        }
    });
}
