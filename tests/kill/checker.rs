//! What must be true after any number of kills, once the last child has come to its end.
//!
//! In come the diary and the store, out goes the first sentence that is broken. It returns an
//! error instead of panicking, because the controls expect one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use milepost::Command;
use milepost::store::{OutcomeRef, Record, Status, Stored};

use super::child::{Plan, runner};
use super::diary::{Effect, Task, recorded};
use super::reference::{Past, Reference, Remains};

/// How often one life may enter a task: as often as its policy tries it.
const TRIES: u32 = 2;

/// Checks all threads.
pub(crate) async fn check(
    remains: &Remains,
    plans: &[Plan],
    reference: Option<&Reference>,
) -> Result<(), String> {
    let diary = remains.diary.read();
    diary_is_sound(&diary)?;
    for (number, plan) in plans.iter().enumerate() {
        let about = |fault| format!("thread {}: {fault}", plan.thread);
        let records = remains.records(plan).await.map_err(about)?;
        log_is_sound(plan, &records).map_err(about)?;
        diary_is_kept(plan, &diary, &records).map_err(about)?;
        ends_are_right(remains, plan, &records)
            .await
            .map_err(about)?;
        if let Some(reference) = reference {
            let past = Past::of(remains, plan).await.map_err(about)?;
            past.compare(&reference.pasts[number]).map_err(about)?;
        }
        finished_is_finished(remains, plan, &records)
            .await
            .map_err(about)?;
    }
    let waste = remains.store.waste().await;
    let waste = waste.map_err(|error| error.to_string())?;
    if waste.values > 0 {
        return Err(format!("no thread has {waste:?}"));
    }
    match remains.diary.lines() == diary.len() {
        true => Ok(()),
        false => Err("a finished thread has run again".to_owned()),
    }
}

/// The order of what happened outside of the store.
fn diary_is_sound(diary: &[Effect]) -> Result<(), String> {
    let mut written: HashMap<&Task, u64> = HashMap::new();
    let mut closed: HashSet<(&str, u64)> = HashSet::new();
    let mut last: HashMap<&str, u64> = HashMap::new();
    let mut entered: HashMap<&Task, u32> = HashMap::new();
    for effect in diary {
        match effect {
            Effect::Life => entered.clear(),
            Effect::Enter(task) => {
                if written.contains_key(task) || closed.contains(&(&task.thread, task.step)) {
                    return Err(format!("task {task} was finished and ran again"));
                }
                let times = entered.entry(task).or_default();
                *times += 1;
                if *times > TRIES {
                    return Err(format!("task {task} ran {times} times in one life"));
                }
            }
            Effect::Written(task, seq) => {
                if written.insert(task, *seq).is_some() {
                    return Err(format!("task {task} was written twice"));
                }
            }
            Effect::Closed(thread, step, seq) => {
                if !closed.insert((thread, *step)) {
                    return Err(format!("superstep {step} was closed twice"));
                }
                if last.insert(thread, *seq).is_some_and(|last| last >= *seq) {
                    return Err(format!("superstep {step} went backwards to {seq}"));
                }
            }
            Effect::Finished(task, seq) => {
                if written.get(task) != Some(seq) {
                    return Err(format!("task {task} was told before it was written"));
                }
            }
            Effect::Committed(thread, step, _) => {
                if !closed.contains(&(thread.as_str(), *step)) {
                    return Err(format!("superstep {step} was told before it was written"));
                }
            }
            Effect::Asked(thread, step, _) => {
                if closed.contains(&(thread.as_str(), *step)) {
                    return Err(format!("superstep {step} was closed and decided again"));
                }
            }
            Effect::Failed(thread, class, text) => {
                return Err(format!("thread {thread} failed ({class}): {text}"));
            }
            Effect::End(..) | Effect::Stumbled(..) | Effect::Operations(_) => {}
            // Of scripts, which have a check of their own.
            Effect::Did(_) | Effect::Begun(_) | Effect::Kept(_) | Effect::Stored(..) => {}
        }
    }
    Ok(())
}

/// One line of supersteps, each closed by exactly the tasks that it had.
fn log_is_sound(plan: &Plan, records: &[Stored]) -> Result<(), String> {
    let (mut step, mut open, mut boundary) = (0, true, 0);
    let mut frontier: Vec<Task> = Vec::new();
    let mut ends: HashMap<Task, u64> = HashMap::new();
    let mut epoch = records.first().map(|stored| stored.epoch);
    for (stored, expected) in records.iter().zip(1u64..) {
        let seq = stored.seq.get();
        let fault = |what: String| Err(format!("record {seq}: {what}"));
        if seq != expected {
            return fault(format!("record {expected} is missing before it"));
        }
        if epoch.replace(stored.epoch) > Some(stored.epoch) {
            return fault("an older writer wrote after a newer one".to_owned());
        }
        let (next, at) = match &*stored.record {
            Record::Input(input) => {
                if input.step != step || !frontier.is_empty() {
                    return fault(format!("an input inside superstep {}", step + 1));
                }
                (&input.frontier, seq)
            }
            Record::Outcome(outcome) => {
                let task = recorded(&plan.thread, outcome);
                if task.step != step + 1 || !frontier.contains(&task) {
                    return fault(format!("{task} is not a task of the open superstep"));
                }
                if ends.insert(task, seq).is_some() {
                    return fault("a task has ended twice".to_owned());
                }
                continue;
            }
            Record::Commit(commit) => {
                let closes: Vec<Option<Task>> = commit
                    .outcomes
                    .iter()
                    .map(|outcome| match outcome {
                        OutcomeRef::Inline(outcome) => Some(recorded(&plan.thread, outcome)),
                        OutcomeRef::At(at) => ends
                            .iter()
                            .find(|(_, seq)| *seq == at)
                            .map(|(task, _)| task.clone()),
                    })
                    .collect();
                let whole = closes
                    .iter()
                    .map(Option::as_ref)
                    .eq(frontier.iter().map(Some));
                if commit.step != step + 1 || !whole {
                    return fault(format!("half a commit: {closes:?} of {frontier:?}"));
                }
                step = commit.step;
                (&commit.frontier, seq)
            }
            Record::Base(base) if base.at != boundary => {
                return fault(format!("a base of record {}", base.at));
            }
            Record::Started(started) if started.step != step + 1 => {
                return fault(format!("superstep {} is taken over", started.step));
            }
            Record::Stopped(stopped) if plan.shape.fails() && stopped.step == step + 1 => continue,
            Record::Schema(_) | Record::Base(_) | Record::Started(_) => continue,
            other => return fault(format!("it should not be there: {other:?}")),
        };
        (boundary, open) = (at, !next.is_empty());
        ends.clear();
        frontier = next
            .iter()
            .map(|task| Task {
                thread: plan.thread.clone(),
                step: step + 1,
                node: task.node.to_string(),
                index: task.index,
            })
            .collect();
    }
    match open {
        true => Err("superstep after the last one is open".to_owned()),
        false => Ok(()),
    }
}

/// What was acknowledged is there, at its place.
fn diary_is_kept(plan: &Plan, diary: &[Effect], records: &[Stored]) -> Result<(), String> {
    let at = |seq: u64| {
        let found = records.iter().find(|stored| stored.seq.get() == seq);
        found.map(|stored| &*stored.record)
    };
    for effect in diary {
        match effect {
            Effect::Written(task, seq) | Effect::Finished(task, seq)
                if task.thread == plan.thread =>
            {
                let there = match at(*seq) {
                    Some(Record::Outcome(outcome)) => recorded(&plan.thread, outcome) == *task,
                    Some(Record::Commit(commit)) => commit.outcomes.iter().any(|outcome| {
                        matches!(outcome, OutcomeRef::Inline(outcome)
                            if recorded(&plan.thread, outcome) == *task)
                    }),
                    _ => false,
                };
                if !there {
                    return Err(format!("task {task}, acknowledged as {seq}, is lost"));
                }
            }
            Effect::Closed(thread, step, seq) | Effect::Committed(thread, step, seq)
                if *thread == plan.thread
                    && !matches!(at(*seq), Some(Record::Commit(commit)) if commit.step == *step) =>
            {
                return Err(format!("superstep {step}, closed as {seq}, is lost"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The head row and the run rows say what the log says.
async fn ends_are_right(remains: &Remains, plan: &Plan, records: &[Stored]) -> Result<(), String> {
    let thread = plan.id();
    let mut ends = Vec::new();
    for stored in records {
        match &*stored.record {
            Record::Input(_) => ends.push(stored.seq),
            Record::Commit(_) => *ends.last_mut().ok_or("no input")? = stored.seq,
            _ => {}
        }
    }
    if ends.len() != plan.runs as usize {
        return Err(format!("{} inputs for {} runs", ends.len(), plan.runs));
    }
    let head = remains.store.head(&thread).await;
    let head = head.map_err(|error| error.to_string())?.ok_or("no head")?;
    if Some(&head.seq) != ends.last() || head.status != Status::Finished {
        return Err(format!("the head is {} {}", head.seq, head.status));
    }
    for (run, end) in ends.iter().enumerate() {
        let row = remains.store.run(&thread, &Plan::run_id(run as u32)).await;
        let row = row
            .map_err(|error| error.to_string())?
            .ok_or("no run row")?;
        if row.end != Some(*end) || row.status != Status::Finished {
            return Err(format!("run {run} ended at {end}, its row is {row:?}"));
        }
    }
    Ok(())
}

/// Going on with a finished thread, and starting its last run again, changes nothing.
async fn finished_is_finished(
    remains: &Remains,
    plan: &Plan,
    records: &[Stored],
) -> Result<(), String> {
    let runner = runner(
        plan.shape,
        &remains.diary,
        Arc::clone(&remains.store),
        None,
        plan.mode,
    );
    let before = remains.state(plan).await?;
    for again in [
        Command::go_on(),
        Command::start(Default::default()).run_id(Plan::run_id(plan.runs - 1)),
    ] {
        let report = runner.run(&plan.id(), again).await;
        let report = report.map_err(|error| error.to_string())?;
        if !report.ended.is_finished() || report.state.bytes() != before {
            return Err(format!("a finished thread gives {report:?}"));
        }
    }
    match remains.records(plan).await? == records {
        true => Ok(()),
        false => Err("a finished thread was written".to_owned()),
    }
}
