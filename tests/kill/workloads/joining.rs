//! Joins of branches of unequal length in a loop, a quorum with a late member, and a gather behind a
//! question.

use milepost::{Context, End, Exits, Graph, Output, Snapshot};

use super::{Amount, Does, adds, node, plain, says};
use crate::diary::Diary;
use crate::script::{Call, Workload};
use crate::state::Work;

pub(super) const WORKLOAD: Workload = Workload {
    name: "joining",
    graph,
    options: plain,
    calls: &[
        Call::Start(0),
        Call::Answer(&[("3:slow[0].much", 4)]),
        Call::Answer(&[("8:slow[0].much", 5)]),
        Call::GoOn,
    ],
};

#[derive(Clone, Copy, Exits)]
enum Round {
    Again,
    Enough,
}

fn graph(diary: &Diary) -> Graph<Work> {
    let mut g = Graph::builder("joining");
    let plan = g.node("plan", adds(diary, 1));
    let short = g.node("short", adds(diary, 2));
    let long = g.node("long", adds(diary, 3));
    let longer = g.node("longer", adds(diary, 4));
    let slow = g.node(
        "slow",
        node(
            diary,
            async |_: Diary, work: Snapshot<Work>, cx: Context| -> Does {
                let Some(much) = cx.answer::<Amount>("much")? else {
                    return Ok(Output::ask("much", Amount));
                };
                Ok(Output::Done(says(&cx, &work, much), ()))
            },
        ),
    );
    let both = g.node("both", adds(diary, 5));
    let round = g.node(
        "round",
        node(
            diary,
            async |_: Diary, work: Snapshot<Work>, cx: Context| -> Does<Round> {
                let n = work.n + 1;
                let round = match n {
                    1 => Round::Again,
                    _ => Round::Enough,
                };
                Ok(Output::Done(says(&cx, &work, 6).n(n), round))
            },
        ),
    );
    g.start(plan);
    g.edge(plan, short.and(long));
    g.edge(long, longer.and(slow));
    let quorum = g.join([short, longer, slow], both).at_least(2).place();
    let all = g.gather((both, slow), round).place();
    g.edge(short, quorum);
    g.edge(longer, quorum);
    g.edge(slow, quorum.and(all));
    g.edge(both, all);
    g.wire(round, |exit| match exit {
        Round::Again => plan.into(),
        Round::Enough => End.into(),
    });
    g.build().unwrap()
}
