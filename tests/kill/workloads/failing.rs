//! Tasks that fail for good and go well in a later call, one that the graph tolerates, and siblings
//! that have finished.

use milepost::{Context, End, Graph, NodeError, Output, Snapshot};

use super::{Does, adds, plain, says, step, worker};
use crate::diary::{Diary, Effect};
use crate::script::{Call, Workload};
use crate::state::Work;

pub(super) const WORKLOAD: Workload = Workload {
    name: "failing",
    graph,
    options: plain,
    calls: &[Call::Fail(0), Call::Insist],
};

/// How often a task was entered, this time included.
fn entries(diary: &Diary, cx: &Context) -> usize {
    let task = cx.task().to_string();
    let is_one = |effect: &&Effect| matches!(effect, Effect::Begun(place) if place.what == task);
    diary.read().iter().filter(is_one).count()
}

fn graph(diary: &Diary) -> Graph<Work> {
    let mut g = Graph::builder("failing");
    let plan = g.node("plan", adds(diary, 1));
    let call = g.worker(
        "call",
        worker(
            diary,
            async |diary: Diary, item: u64, work: Snapshot<Work>, cx: Context| -> Does {
                let kept = step(&diary, &cx, "kept", item).await?;
                match item {
                    1 if entries(&diary, &cx) < 3 => Err(NodeError::permanent("not yet")),
                    _ => Ok(Output::Done(says(&cx, &work, kept), ())),
                }
            },
        ),
    );
    let beside = g.worker(
        "beside",
        worker(
            diary,
            async |_: Diary, item: u64, work: Snapshot<Work>, cx: Context| -> Does {
                match item {
                    0 => Err(NodeError::permanent("never")),
                    _ => Ok(Output::Done(says(&cx, &work, item), ())),
                }
            },
        ),
    );
    g.worker_error(beside, |item, _| {
        Work::update().log(vec![format!("no {item}")]).sum(100)
    });
    let last = g.node("last", adds(diary, 3));
    g.start(plan);
    g.edge(
        plan,
        beside
            .each(|_| vec![0, 1])
            .and(call.each(|_| vec![0, 1, 2])),
    );
    g.edge(call, last);
    g.edge(beside, last);
    g.edge(last, End);
    g.build().unwrap()
}
