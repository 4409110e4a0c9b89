//! Tasks of a fan-out of which some ask, beside one that does not; answered one by one and together,
//! and once more in a second round.

use milepost::{Context, End, Graph, Output, Question, Snapshot};

use super::{Amount, Does, adds, plain, says, step, worker};
use crate::diary::Diary;
use crate::script::{Call, Workload};
use crate::state::Work;

pub(super) const WORKLOAD: Workload = Workload {
    name: "asking",
    graph,
    options: plain,
    calls: &[
        Call::Start(0),
        Call::Answer(&[("2:call[1].b", 5)]),
        Call::GoOn,
        Call::Answer(&[("2:call[2].a", 20), ("2:call[1].a", 10)]),
        Call::Answer(&[("2:call[2].b", 7)]),
        Call::Answer(&[("2:call[2].again", 70)]),
        Call::Start(1),
        Call::Answer(&[
            ("5:call[1].a", 1),
            ("5:call[1].b", 2),
            ("5:call[2].b", 4),
            ("5:call[2].a", 3),
        ]),
        Call::Answer(&[("5:call[2].again", 5)]),
    ],
};

fn graph(diary: &Diary) -> Graph<Work> {
    let mut g = Graph::builder("asking");
    let plan = g.node("plan", adds(diary, 1));
    let call = g.worker(
        "call",
        worker(
            diary,
            async |diary: Diary, item: u64, work: Snapshot<Work>, cx: Context| -> Does {
                let looked = step(&diary, &cx, "look", item * 100).await?;
                if item == 0 {
                    return Ok(Output::Done(says(&cx, &work, looked), ()));
                }
                let (Some(a), Some(b)) = (cx.answer::<Amount>("a")?, cx.answer::<Amount>("b")?)
                else {
                    return Ok(Output::ask_all(
                        ["a", "b"].map(|key| Question::new(key, Amount)),
                    ));
                };
                let again = match item {
                    2 => match cx.answer::<Amount>("again")? {
                        None => return Ok(Output::ask("again", Amount)),
                        Some(again) => again,
                    },
                    _ => 0,
                };
                Ok(Output::Done(says(&cx, &work, looked + a + b + again), ()))
            },
        ),
    );
    let beside = g.node("beside", adds(diary, 2));
    let done = g.node("done", adds(diary, 3));
    g.start(plan);
    g.edge(plan, call.each(|_| vec![0, 1, 2]).and(beside));
    g.edge(call, done);
    g.edge(beside, done);
    g.edge(done, End);
    g.build().unwrap()
}
