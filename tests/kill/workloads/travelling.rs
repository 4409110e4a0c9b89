//! Forks, rewinds, patches and switches, with questions open on several branches.

use milepost::{Context, End, Exits, Graph, Output, RunOptions, Snapshot};

use super::{Amount, Does, adds, node, says, step};
use crate::diary::Diary;
use crate::script::{Call, Workload};
use crate::state::Work;

pub(super) const WORKLOAD: Workload = Workload {
    name: "travelling",
    graph,
    options,
    calls: &[
        Call::Start(0),
        Call::Answer(&[("2:ask[0].much", 5)]),
        // The other answer, on a branch of its own.
        Call::Fork {
            of: 0,
            step: 1,
            begins: 1,
        },
        Call::GoOn,
        Call::Answer(&[("2:ask[0].much", 50)]),
        // Back again, with the question left open.
        Call::Rewind {
            of: 1,
            step: 2,
            begins: 2,
        },
        Call::GoOn,
        Call::Rewind {
            of: 0,
            step: 1,
            begins: 3,
        },
        Call::GoOn,
        // As if it had been answered.
        Call::Patch {
            node: "ask",
            exit: Some("Go"),
            begins: 4,
        },
        Call::GoOn,
        Call::Switch(3),
        Call::Answer(&[("2:ask[0].much", 500)]),
        Call::Switch(0),
        Call::Start(1),
        Call::Answer(&[("5:ask[0].much", 1)]),
    ],
};

fn options(options: RunOptions) -> RunOptions {
    options.base_every(3)
}

#[derive(Clone, Copy, Exits)]
enum Way {
    Go,
    Stop,
}

fn graph(diary: &Diary) -> Graph<Work> {
    let mut g = Graph::builder("travelling");
    let plan = g.node("plan", adds(diary, 1));
    let ask = g.node(
        "ask",
        node(
            diary,
            async |diary: Diary, work: Snapshot<Work>, cx: Context| -> Does<Way> {
                let kept = step(&diary, &cx, "kept", 10).await?;
                let Some(much) = cx.answer::<Amount>("much")? else {
                    return Ok(Output::ask("much", Amount));
                };
                let way = if much == 0 { Way::Stop } else { Way::Go };
                Ok(Output::Done(says(&cx, &work, kept + much), way))
            },
        ),
    );
    let beside = g.node("beside", adds(diary, 2));
    let last = g.node("last", adds(diary, 3));
    g.start(plan);
    g.edge(plan, ask.and(beside));
    g.wire(ask, |way| match way {
        Way::Go => last.into(),
        Way::Stop => End.into(),
    });
    g.edge(beside, End);
    g.edge(last, End);
    g.build().unwrap()
}
