//! Graphs inside of a graph, two at once and one inside of one of them, which ask, do steps and sleep.

use std::time::Duration;

use milepost::{Context, End, Graph, Output, Snapshot};

use super::{Amount, Does, adds, node, plain, says, step};
use crate::diary::Diary;
use crate::script::{Call, Workload};
use crate::state::{Work, WorkUpdate};

pub(super) const WORKLOAD: Workload = Workload {
    name: "nested",
    graph,
    options: plain,
    calls: &[
        Call::Start(0),
        Call::Answer(&[("2:each[1]/2:ask[0].much", 5)]),
        Call::Answer(&[("2:each[0]/2:ask[0].much", 4)]),
        Call::Wake,
        Call::Answer(&[("3:deep[0]/1:inner[0]/2:ask[0].much", 9)]),
        Call::Wake,
    ],
};

/// `first` → `ask` → `nap`.
fn asking(diary: &Diary) -> Graph<Work> {
    let mut g = Graph::builder("asking");
    let first = g.node("first", adds(diary, 1));
    let ask = g.node(
        "ask",
        node(
            diary,
            async |diary: Diary, work: Snapshot<Work>, cx: Context| -> Does {
                let kept = step(&diary, &cx, "kept", 10).await?;
                let Some(much) = cx.answer::<Amount>("much")? else {
                    return Ok(Output::ask("much", Amount));
                };
                Ok(Output::Done(says(&cx, &work, kept + much), ()))
            },
        ),
    );
    let nap = g.node(
        "nap",
        node(
            diary,
            async |_: Diary, work: Snapshot<Work>, cx: Context| -> Does {
                cx.sleep_for("nap", Duration::from_millis(2)).await?;
                Ok(Output::Done(says(&cx, &work, 1), ()))
            },
        ),
    );
    g.start(first);
    g.edge(first, ask);
    g.edge(ask, nap);
    g.edge(nap, End);
    g.build().unwrap()
}

fn leave(inner: &Work) -> WorkUpdate {
    Work::update().log(inner.log.clone()).sum(inner.sum)
}

fn graph(diary: &Diary) -> Graph<Work> {
    let mut deep = Graph::builder("deep");
    let inner = deep.subgraph("inner", asking(diary), |_: &Work| Work::update(), leave);
    deep.start(inner);
    deep.edge(inner, End);
    let deep = deep.build().unwrap();

    let mut g = Graph::builder("inside");
    let plan = g.node("plan", adds(diary, 1));
    let each = g.subgraph_worker(
        "each",
        asking(diary),
        |item: &u64, _: &Work| Work::update().sum(*item),
        |_: &u64, inner: &Work| leave(inner),
    );
    let deep = g.subgraph(
        "deep",
        deep,
        |work: &Work| Work::update().sum(work.sum),
        leave,
    );
    g.start(plan);
    g.edge(plan, each.each(|_| vec![100, 200]));
    g.edge(each, deep);
    g.edge(deep, End);
    g.build().unwrap()
}
