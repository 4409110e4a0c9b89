//! What was saved of a thread and what is lost, for machines and for people.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use crate::Seq;
use crate::store::{Owner, Salvage, Spot};

/// A thread for machines.
pub(super) fn value(saved: &Salvage) -> Value {
    let pairs = |ranges: &[RangeInclusive<Seq>]| -> Vec<[u64; 2]> {
        let ends = |range: &RangeInclusive<Seq>| [range.start().get(), range.end().get()];
        ranges.iter().map(ends).collect()
    };
    let archive = saved.archive.as_ref();
    let head = archive.map(|archive| &archive.head);
    let segments = saved.segments.iter();
    let segments: Vec<_> = segments
        .map(|id| Spot::Segment(*id).to_string().replace("segment ", ""))
        .collect();
    let faults = saved.faults.iter();
    let faults: Vec<_> = faults
        .map(|(place, what)| json!({"place": place.to_string(), "what": what}))
        .collect();
    json!({
        "type": "thread",
        "thread": saved.thread.as_str(),
        "named": matches!(saved.owner, Owner::Thread(_)),
        "saved": state(saved),
        "records": archive.map(|archive| archive.records.len()),
        "until": saved.until().map(Seq::get),
        "seq": head.map(|head| head.seq.get()),
        "step": head.map(|head| head.step),
        "status": head.map(|head| head.status.to_string()),
        "stood_at": saved.stood.as_ref().map(|head| head.seq.get()),
        "missing": pairs(&saved.missing),
        "dropped": pairs(&saved.dropped),
        "branches": saved.branches.iter().map(|branch| branch.get()).collect::<Vec<_>>(),
        "runs": saved.runs.iter().map(|run| run.as_str()).collect::<Vec<_>>(),
        "segments": segments,
        "faults": faults,
    })
}

fn state(saved: &Salvage) -> &'static str {
    match (&saved.archive, saved.is_whole()) {
        (Some(_), true) => "whole",
        (Some(_), false) => "part",
        (None, _) => "nothing",
    }
}

/// A thread for people: a line of what is saved, and one for each kind of loss.
pub(super) fn lines(saved: &Salvage) -> Vec<String> {
    let name = &saved.thread;
    let mut lines = Vec::new();
    let Some(archive) = &saved.archive else {
        lines.push(format!("thread {name}: nothing can be saved"));
        losses(saved, &mut lines);
        return lines;
    };
    let head = &archive.head;
    let stands = format!(
        "{} records, it stands at superstep {}, {}",
        archive.records.len(),
        head.step,
        head.status
    );
    if saved.is_whole() {
        lines.push(format!("thread {name}: whole, {stands}"));
        return lines;
    }
    let until = archive.next.get() - 1;
    lines.push(format!(
        "thread {name}: saved up to record {until}, {stands}"
    ));
    if let Owner::Nameless(_) = saved.owner {
        lines.push("  its name is lost: this one was made for it".to_owned());
    }
    match &saved.stood {
        None => lines.push("  how it stood is lost: told by its records".to_owned()),
        Some(stood) if stood.seq != head.seq => lines.push(format!(
            "  it stood at record {}, superstep {}, {}",
            stood.seq, stood.step, stood.status
        )),
        Some(_) => {}
    }
    losses(saved, &mut lines);
    lines
}

fn losses(saved: &Salvage, lines: &mut Vec<String>) {
    for (place, what) in &saved.faults {
        lines.push(format!("  {place}: {what}"));
    }
    let mut list = |what: &str, all: Vec<String>| {
        if !all.is_empty() {
            lines.push(format!("  {what}: {}", all.join(", ")));
        }
    };
    list("records that cannot be read", shown(&saved.missing));
    list(
        "records that mean nothing without them, and are dropped",
        shown(&saved.dropped),
    );
    let branches = saved.branches.iter();
    list(
        "branches that are lost",
        branches.map(ToString::to_string).collect(),
    );
    let runs = saved.runs.iter();
    list(
        "runs that are lost",
        runs.map(ToString::to_string).collect(),
    );
    let segments = saved
        .segments
        .iter()
        .map(|id| Spot::Segment(*id).to_string());
    list("segments that are not kept", segments.collect());
}

fn shown(ranges: &[RangeInclusive<Seq>]) -> Vec<String> {
    let shown = |range: &RangeInclusive<Seq>| match range.start() == range.end() {
        true => range.start().to_string(),
        false => format!("{} to {}", range.start(), range.end()),
    };
    ranges.iter().map(shown).collect()
}
