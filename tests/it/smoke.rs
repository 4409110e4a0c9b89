//! The engine at work, from the outside.

use milepost::store::{MemoryStore, SledStore};
use milepost::{
    Add, Append, Command, Context, End, Ended, Exits, Graph, RunOptions, Runner, Snapshot, State,
    ThreadId,
};

#[derive(Clone, Debug, Default, PartialEq, State)]
pub(crate) struct Log {
    #[reduce(Append)]
    log: Vec<String>,
    #[reduce(Add)]
    sum: u64,
    n: u64,
}

#[derive(Clone, Copy, Exits)]
enum Loop {
    Again,
    Enough,
}

fn round() -> Graph<Log> {
    let mut g = Graph::builder("round");
    let a = g.node("a", async |s: Snapshot<Log>, _: Context| {
        let exit = if s.n < 200 { Loop::Again } else { Loop::Enough };
        Ok((
            Log::update().n(s.n + 1).log(vec![format!("a{}", s.n)]),
            exit,
        ))
    });
    let b = g.node("b", async |_: Snapshot<Log>, _: Context| {
        Ok(Log::update().sum(1))
    });
    let w = g.worker("w", async |p: u32, _: Snapshot<Log>, _: Context| {
        Ok(Log::update().log(vec![format!("w{p}")]))
    });
    g.start(a);
    g.wire(a, |exit| match exit {
        Loop::Again => b.into(),
        Loop::Enough => w.each(|_| (0..100).collect()),
    });
    g.edge(b, a);
    g.edge(w, End);
    g.build().expect("it builds")
}

#[tokio::test]
async fn every_store_gives_the_same() {
    let thread = ThreadId::new("t").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let runner = Runner::new(round());
    let bare = runner
        .run(&thread, Command::start(Log::update()))
        .await
        .unwrap();
    assert_eq!(bare.ended, Ended::Finished);
    assert_eq!(bare.state.sum, 200);
    assert_eq!(bare.state.log.len(), 301);
    let memory = runner.clone().store(MemoryStore::new());
    let kept = memory
        .run(&thread, Command::start(Log::update()))
        .await
        .unwrap();
    assert_eq!(*kept.state, *bare.state);
    assert_eq!(*memory.state(&thread).await.unwrap(), *bare.state);
    let limited = RunOptions::new().step_limit(150);
    {
        let sled = Runner::new(round())
            .options(limited.clone())
            .store(SledStore::open(dir.path().join("s")).unwrap());
        let kept = sled
            .run(&thread, Command::start(Log::update()))
            .await
            .unwrap();
        assert_eq!(kept.ended, Ended::StepLimit { limit: 150 });
    }
    let sled = Runner::new(round()).store(SledStore::open(dir.path().join("s")).unwrap());
    let kept = sled.run(&thread, Command::go_on()).await.unwrap();
    assert_eq!(*kept.state, *bare.state);
    assert_eq!(*sled.state(&thread).await.unwrap(), *bare.state);
}
