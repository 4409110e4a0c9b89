//! Tasks that wait for a time, parked, beside one that asks; a worker wakes them.

use std::time::Duration;

use milepost::{Context, End, Graph, Output, Snapshot};

use super::{Amount, Does, adds, node, plain, says, step, worker};
use crate::diary::Diary;
use crate::script::{Call, Workload};
use crate::state::Work;

pub(super) const WORKLOAD: Workload = Workload {
    name: "sleeping",
    graph,
    options: plain,
    calls: &[
        Call::Start(0),
        Call::Wake,
        Call::Answer(&[("2:ask[0].much", 9)]),
        Call::Wake,
    ],
};

fn graph(diary: &Diary) -> Graph<Work> {
    let mut g = Graph::builder("sleeping");
    let plan = g.node("plan", adds(diary, 1));
    let nap = g.worker(
        "nap",
        worker(
            diary,
            async |diary: Diary, item: u64, work: Snapshot<Work>, cx: Context| -> Does {
                let before = step(&diary, &cx, "before", item).await?;
                cx.sleep_for("nap", Duration::from_millis(2 + item)).await?;
                let after = step(&diary, &cx, "after", item * 10).await?;
                Ok(Output::Done(says(&cx, &work, before + after), ()))
            },
        ),
    );
    let ask = g.node(
        "ask",
        node(
            diary,
            async |_: Diary, work: Snapshot<Work>, cx: Context| -> Does {
                let Some(much) = cx.answer::<Amount>("much")? else {
                    return Ok(Output::ask("much", Amount));
                };
                cx.sleep_for("later", Duration::from_millis(2)).await?;
                Ok(Output::Done(says(&cx, &work, much), ()))
            },
        ),
    );
    let last = g.node("last", adds(diary, 3));
    g.start(plan);
    g.edge(plan, nap.each(|_| vec![0, 1]).and(ask));
    g.edge(nap, last);
    g.edge(ask, last);
    g.edge(last, End);
    g.build().unwrap()
}
