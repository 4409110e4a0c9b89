//! What is killed at every operation of its store: a file for each kind of thing a thread can be in
//! the middle of. A file is a graph and the calls that are made on a thread of it.

mod abandoned;
mod asking;
mod expiring;
mod failing;
mod inside;
mod joining;
pub(crate) mod retaining;
mod shapes;
mod sleeping;
mod stepping;
mod travelling;

use std::time::Duration;

use milepost::{Ask, Context, NodeError, Output, RunOptions, Snapshot};
use serde::{Deserialize, Serialize};

use super::diary::Diary;
use super::script::Workload;
use super::state::{Work, WorkUpdate};

/// All of them.
pub(crate) const ALL: &[Workload] = &[
    abandoned::WORKLOAD,
    asking::WORKLOAD,
    expiring::WORKLOAD,
    failing::WORKLOAD,
    inside::WORKLOAD,
    joining::WORKLOAD,
    sleeping::WORKLOAD,
    stepping::WORKLOAD,
    travelling::WORKLOAD,
];

/// Those that other tests play as processes.
const OTHERS: &[Workload] = &[
    shapes::CHAIN,
    shapes::DIAMOND,
    shapes::EMPTY,
    shapes::FAN,
    shapes::LONG,
    shapes::MIXED,
    retaining::ASKING,
    retaining::CHAIN,
    retaining::LONG,
];

pub(crate) fn by_name(name: &str) -> &'static Workload {
    let mut all = ALL.iter().chain(OTHERS);
    all.find(|workload| workload.name == name).unwrap()
}

/// How much?
#[derive(Serialize, Deserialize)]
pub(crate) struct Amount;

impl Ask for Amount {
    type Answer = u64;
}

/// What nodes here return.
pub(crate) type Does<E = ()> = Result<Output<WorkUpdate, E, Amount>, NodeError>;

/// An update that says who ran and what it saw.
pub(crate) fn says(cx: &Context, work: &Work, more: u64) -> WorkUpdate {
    let line = format!("{}[{}] {} {more}", cx.node(), cx.index(), work.sum);
    Work::update().log(vec![line]).sum(more).fold(more)
}

/// A node that says so.
pub(crate) fn node<F, Fut>(
    diary: &Diary,
    body: F,
) -> impl Fn(Snapshot<Work>, Context) -> Fut + use<F, Fut>
where
    F: Fn(Diary, Snapshot<Work>, Context) -> Fut,
{
    let diary = diary.clone();
    move |work, cx| {
        diary.begin(&cx, None);
        body(diary.clone(), work, cx)
    }
}

/// A worker that says so.
pub(crate) fn worker<F, Fut>(
    diary: &Diary,
    body: F,
) -> impl Fn(u64, Snapshot<Work>, Context) -> Fut + use<F, Fut>
where
    F: Fn(Diary, u64, Snapshot<Work>, Context) -> Fut,
{
    let diary = diary.clone();
    move |payload, work, cx| {
        diary.begin(&cx, None);
        body(diary.clone(), payload, work, cx)
    }
}

/// A node that only adds a number.
pub(crate) fn adds(
    diary: &Diary,
    more: u64,
) -> impl Fn(Snapshot<Work>, Context) -> std::future::Ready<Does> + use<> {
    let diary = diary.clone();
    move |work, cx| {
        diary.begin(&cx, None);
        std::future::ready(Ok(Output::Done(says(&cx, &work, more), ())))
    }
}

/// A durable step that takes a moment.
pub(crate) async fn step(
    diary: &Diary,
    cx: &Context,
    key: &str,
    value: u64,
) -> Result<u64, NodeError> {
    let work = async {
        diary.begin(cx, Some(key));
        tokio::time::sleep(Duration::from_micros(200)).await;
        Ok(value)
    };
    cx.step(key, work).await
}

/// As they are.
pub(crate) fn plain(options: RunOptions) -> RunOptions {
    options
}
