//! A run that is given up for another one: with a question half answered, and with a task parked.

use std::time::Duration;

use milepost::{Context, End, Graph, Output, Question, Snapshot};

use super::{Amount, Does, adds, plain, says, step, worker};
use crate::diary::Diary;
use crate::script::{Call, Workload};
use crate::state::Work;

pub(super) const WORKLOAD: Workload = Workload {
    name: "abandoned",
    graph,
    options: plain,
    calls: &[
        Call::Start(0),
        Call::Answer(&[("1:call[1].a", 5)]),
        Call::Instead(1),
        Call::Answer(&[("2:call[1].a", 6)]),
        Call::Answer(&[("2:call[1].b", 7)]),
        Call::Instead(2),
        Call::Answer(&[("3:call[1].a", 1), ("3:call[1].b", 2)]),
        Call::Wake,
    ],
};

fn graph(diary: &Diary) -> Graph<Work> {
    let mut g = Graph::builder("abandoned");
    let call = g.worker(
        "call",
        worker(
            diary,
            async |diary: Diary, item: u64, work: Snapshot<Work>, cx: Context| -> Does {
                let kept = step(&diary, &cx, "kept", item * 100).await?;
                if item == 0 {
                    return Ok(Output::Done(says(&cx, &work, kept), ()));
                }
                let (Some(a), Some(b)) = (cx.answer::<Amount>("a")?, cx.answer::<Amount>("b")?)
                else {
                    return Ok(Output::ask_all(
                        ["a", "b"].map(|key| Question::new(key, Amount)),
                    ));
                };
                // The second run is given up while this waits.
                let time = if a == 6 { 3_600_000 } else { 1 };
                cx.sleep_for("nap", Duration::from_millis(time)).await?;
                Ok(Output::Done(says(&cx, &work, kept + a + b), ()))
            },
        ),
    );
    let last = g.node("last", adds(diary, 3));
    g.start(call.each(|_| vec![0, 1]));
    g.edge(call, last);
    g.edge(last, End);
    g.build().unwrap()
}
