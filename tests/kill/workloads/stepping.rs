//! Durable steps: one after the other, two side by side, in a loop, in a task that is retried.

use std::time::Duration;

use milepost::{Context, End, Exits, Graph, NodeError, Output, Policy, Retry, Snapshot};

use super::{Does, adds, node, plain, says, step};
use crate::diary::Diary;
use crate::script::{Call, Workload};
use crate::state::Work;

pub(super) const WORKLOAD: Workload = Workload {
    name: "stepping",
    graph,
    options: plain,
    calls: &[Call::Start(0), Call::Start(1)],
};

#[derive(Clone, Copy, Exits)]
enum Round {
    Again,
    Enough,
}

fn graph(diary: &Diary) -> Graph<Work> {
    let mut g = Graph::builder("stepping");
    let work = g.node(
        "work",
        node(
            diary,
            async |diary: Diary, work: Snapshot<Work>, cx: Context| -> Does<Round> {
                let first = step(&diary, &cx, "first", work.sum + 1).await?;
                let (left, right) = tokio::join!(
                    step(&diary, &cx, "left", first + 10),
                    step(&diary, &cx, "right", first + 20)
                );
                if cx.attempt() == 1 {
                    return Err(NodeError::transient("not the first time"));
                }
                let n = work.n + 1;
                let round = match n.is_multiple_of(2) {
                    true => Round::Enough,
                    false => Round::Again,
                };
                Ok(Output::Done(says(&cx, &work, left? + right?).n(n), round))
            },
        ),
    );
    let retry = Retry {
        first_wait: Duration::from_micros(100),
        ..Retry::default()
    };
    g.policy(work, Policy::default().retry(retry));
    let beside = g.node("beside", adds(diary, 1));
    g.start(work);
    g.wire(work, |round| match round {
        Round::Again => work.and(beside),
        Round::Enough => End.into(),
    });
    g.edge(beside, End);
    g.build().unwrap()
}
