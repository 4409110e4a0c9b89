//! Graphs whose nodes or decisions fail, or end their process.

use std::future::ready;
use std::time::Duration;

use milepost::{Context, End, Graph, NodeError, Policy, Retry, Snapshot};

use super::diary::{Diary, Effect};
use super::graphs::{Side, log, moment, node};
use super::state::Work;

pub(crate) fn fan(diary: &Diary) -> Graph<Work> {
    let mut g = Graph::builder("fan");
    let plan = g.node("plan", node(diary, |_: &Work| log("plan")));
    let theirs = diary.clone();
    let worker = g.worker(
        "worker",
        move |item: u64, _: Snapshot<Work>, cx: Context| {
            theirs.enter(&cx);
            async move {
                moment().await;
                match (item, cx.attempt()) {
                    (1, 1) => Err(NodeError::transient("not yet")),
                    (3, _) => Err(NodeError::permanent("never")),
                    _ => Ok(log(format!("worker {item}")).sum(item).fold(item)),
                }
            }
        },
    );
    let retry = Retry {
        max_attempts: 2,
        first_wait: Duration::from_millis(1),
        ..Retry::default()
    };
    g.policy(worker, Policy::default().retry(retry));
    g.worker_error(worker, |item, error| {
        log(format!("no {item}: {error}")).sum(1_000)
    });
    let gather = g.node(
        "gather",
        node(diary, |work: &Work| log("gather").n(work.sum)),
    );
    g.start(plan);
    g.edge(plan, worker.each(|_: &Work| (0..6).collect()));
    g.edge(worker, gather);
    g.edge(gather, End);
    g.build().unwrap()
}

pub(crate) fn stumble(diary: &Diary) -> Graph<Work> {
    let mut g = Graph::builder("stumble");
    let x = g.node("x", node(diary, |_: &Work| log("x").sum(1)));
    let theirs = diary.clone();
    let y = g.node("y", move |_: Snapshot<Work>, cx: Context| {
        let first = !theirs.read().iter().any(|effect| effect.is_entry_of("y"));
        theirs.enter(&cx);
        ready(match first {
            true => Err(NodeError::permanent("not the first time")),
            false => Ok(log("y").sum(2)),
        })
    });
    let slow = diary.clone();
    let z = g.node("z", move |_: Snapshot<Work>, cx: Context| {
        slow.enter(&cx);
        async {
            moment().await;
            Ok(log("z").sum(4))
        }
    });
    let meet = g.node("meet", node(diary, |work: &Work| log("meet").n(work.sum)));
    let last = g.node("last", node(diary, |_: &Work| log("last")));
    let theirs = diary.clone();
    let choose = move |_: &Work| {
        let asked = theirs.read();
        theirs.note(&Effect::Asked("main".to_owned(), 2, "left".to_owned()));
        match asked.iter().any(|line| matches!(line, Effect::Asked(..))) {
            true => Ok(Side::Left),
            false => Err(NodeError::permanent("not the first time")),
        }
    };
    g.start(x.and(y).and(z));
    g.edge(x, meet);
    g.edge(y, meet);
    g.edge(z, meet);
    g.branch(meet, choose, |side| match side {
        Side::Left => last.into(),
        Side::Right => End.into(),
    });
    g.edge(last, End);
    g.build().unwrap()
}

pub(crate) fn poison(diary: &Diary, deadly: bool) -> Graph<Work> {
    let mut g = Graph::builder("poison");
    let before = g.node("before", node(diary, |_: &Work| log("before")));
    let bite = g.node(
        "bite",
        node(diary, move |_: &Work| {
            if deadly {
                std::process::abort();
            }
            log("bite")
        }),
    );
    let side = g.node("side", node(diary, |_: &Work| log("side")));
    g.start(before);
    g.edge(before, bite.and(side));
    g.edge(bite, End);
    g.edge(side, End);
    g.build().unwrap()
}
