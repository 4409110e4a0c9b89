//! Questions whose time is over, with a default, beside one that is answered.

use std::time::Duration;

use milepost::{Context, End, Graph, Output, Question, Snapshot};

use super::{Amount, Does, adds, plain, says, worker};
use crate::diary::Diary;
use crate::script::{Call, Workload};
use crate::state::Work;

pub(super) const WORKLOAD: Workload = Workload {
    name: "expiring",
    graph,
    options: plain,
    calls: &[
        Call::Start(0),
        Call::Wake,
        Call::Answer(&[("1:call[1].much", 3)]),
        Call::GoOn,
    ],
};

fn graph(diary: &Diary) -> Graph<Work> {
    let mut g = Graph::builder("expiring");
    let call = g.worker(
        "call",
        worker(
            diary,
            async |_: Diary, item: u64, work: Snapshot<Work>, cx: Context| -> Does {
                let Some(much) = cx.answer::<Amount>("much")? else {
                    let question = Question::new("much", Amount);
                    let question = match item {
                        1 => question,
                        _ => question.expires(Duration::from_millis(item)).or_else(&7),
                    };
                    return Ok(Output::ask_all([question]));
                };
                Ok(Output::Done(says(&cx, &work, much), ()))
            },
        ),
    );
    let last = g.node("last", adds(diary, 3));
    g.start(call.each(|_| vec![0, 1, 2]));
    g.edge(call, last);
    g.edge(last, End);
    g.build().unwrap()
}
