//! Calls from places without a tokio runtime: an error that says so, never a panic.

use futures::{FutureExt, StreamExt};
use milepost::store::MemoryStore;
use milepost::{Command, End, Graph, RunError, Runner};

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
