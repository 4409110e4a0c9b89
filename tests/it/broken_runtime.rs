//! Calls from places without a tokio runtime: an error that says so, never a panic.

use futures::{FutureExt, StreamExt};
use milepost::store::MemoryStore;
use milepost::{Command, End, Graph, Policy, Retry, RunError, RunOptions, Runner};

use crate::support::{Calls, Doc, says, thread};

fn runner() -> Runner<Doc> {
    let calls = Calls::default();
    let mut g = Graph::builder("plain");
    let (a, b) = (
        g.node("a", says(&calls, "a")),
        g.node("b", says(&calls, "b")),
    );
    g.start(a.and(b));
    g.edge(a, End);
    g.edge(b, End);
    Runner::new(g.build().unwrap())
}

#[test]
fn without_a_runtime_every_door_says_so() {
    for runner in [runner(), runner().store(MemoryStore::new())] {
        let t = thread("t");
        let start = || Command::start(Doc::update());
        let mut stream = runner.stream(&t, start());
        assert!(stream.next().now_or_never().unwrap().is_none());
        let told = [
            runner.run(&t, start()).now_or_never().unwrap().unwrap_err(),
            runner
                .open(&t, start())
                .now_or_never()
                .unwrap()
                .unwrap_err(),
            stream.report().now_or_never().unwrap().unwrap_err(),
        ];
        for error in told {
            assert!(matches!(error, RunError::NoRuntime { .. }), "{error}");
            assert!(error.to_string().contains("tokio runtime"), "{error}");
        }
        // Nothing was stored: the same call works where there is a runtime.
        let tokio = tokio::runtime::Runtime::new().unwrap();
        let report = tokio.block_on(runner.run(&t, start())).unwrap();
        assert_eq!(report.state.log, ["a", "b"]);
    }
}

#[test]
fn without_a_timer_what_needs_one_says_so_before_anything_is_stored() {
    let plain = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let second = std::time::Duration::from_secs(1);
    let with = |options| runner().store(MemoryStore::new()).options(options);
    let waiting = milepost::Busy::Wait(second);
    let needing = [
        with(RunOptions::new().deadline(second)),
        with(RunOptions::new().superstep_deadline(second)),
        with(RunOptions::new().cancel(milepost::Cancel::new())),
        with(RunOptions::new().busy(waiting)),
        careful(Policy::default().timeout(second)),
        careful(Policy::default().retry(Retry::default())),
    ];
    let t = thread("t");
    let start = || Command::start(Doc::update());
    for runner in needing {
        let told = plain.block_on(async {
            let streamed = runner.stream(&t, start()).report().await;
            let opened = runner.open(&t, start()).await;
            let ran = runner.run(&t, start()).await;
            [streamed.unwrap_err(), opened.unwrap_err(), ran.unwrap_err()]
        });
        for error in told {
            assert!(matches!(error, RunError::NoTimer { .. }), "{error}");
            assert!(error.to_string().contains("enable_time"), "{error}");
        }
        let state = plain.block_on(runner.state(&t));
        assert!(matches!(state, Err(RunError::NotFound { .. })));
    }
    // What waits for no time needs no timer, but whoever listens may stop listening.
    let simple = runner();
    let report = plain.block_on(simple.run(&t, start())).unwrap();
    assert_eq!(report.state.log, ["a", "b"]);
    let streamed = plain.block_on(async { simple.stream(&t, start()).report().await });
    assert!(matches!(streamed, Err(RunError::NoTimer { .. })));
}

fn careful(policy: Policy) -> Runner<Doc> {
    let mut g = Graph::builder("careful");
    let a = g.node("a", says(&Calls::default(), "a"));
    g.policy(a, policy);
    g.start(a);
    g.edge(a, End);
    Runner::new(g.build().unwrap()).store(MemoryStore::new())
}
