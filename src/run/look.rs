//! Looking back: what the records of a thread say, for people and for pictures.

use std::collections::HashMap;

use super::{OpenQuestion, ask, record};
use crate::event::{ErrorText, Event, EventKind};
use crate::ids::{Branch, NodeName, QuestionId, RunId, Seq, Step, TaskPath, ThreadId};
use crate::store::{
    Branches, CheckpointStore, InnerRecord, OutcomeRef, Record, Status, StoreError, Stored,
};

/// How many records are read at once.
const PAGE: usize = 256;

/// One checkpoint of a thread: an accepted input or a closed superstep.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Its address.
    pub seq: Seq,
    /// The checkpoint that it follows: on its branch, or where its branch leaves another one; none
    /// for the first, and where that one is pruned.
    pub parent: Option<Seq>,
    /// Its branch.
    pub branch: Branch,
    /// How many supersteps are closed with it.
    pub step: Step,
    /// The run that it begins, for an input; none for a superstep.
    pub input: Option<RunId>,
    /// When it was written, in milliseconds since 1970.
    pub at_ms: u64,
    /// The nodes that ran, in merge order, with how often each did.
    pub ran: Vec<(String, u32)>,
    /// The fields that were written, each once.
    pub wrote: Vec<String>,
    /// What runs next, with how many tasks each.
    pub next: Vec<(String, u32)>,
    /// How the thread stood then.
    pub status: Status,
    /// Whether it was written by [`Runner::patch`](crate::Runner::patch): no node ran.
    pub patched: bool,
}

/// The events of a thread, as its records tell them: what a listener heard, less what is live only.
/// They are those of one line, from the first input to where the thread stands; what happened on
/// other branches is left out.
///
/// # Errors
/// [`StoreError`] as reading the records gives it.
pub async fn events(
    store: &dyn CheckpointStore,
    thread: &ThreadId,
) -> Result<Vec<Event>, StoreError> {
    EventReader::new(thread.clone()).poll(store).await
}

/// The events of a line of a thread that leads to a checkpoint or any other record.
///
/// # Errors
/// [`StoreError`] as reading the records gives it.
pub async fn events_until(
    store: &dyn CheckpointStore,
    thread: &ThreadId,
    seq: Seq,
) -> Result<Vec<Event>, StoreError> {
    let mut reader = EventReader::new(thread.clone());
    reader.until = Some(seq);
    reader.poll(store).await
}

/// The events of a thread as they come: each poll reads only what was written since the last one.
///
/// The first poll tells the line that leads to where the thread stands. What comes later is told as
/// it comes, also when the thread goes to another branch ([`EventKind::Branched`]).
#[derive(Debug, Clone)]
pub struct EventReader {
    thread: ThreadId,
    next: Seq,
    /// The last record to tell, where it is not the last there is.
    until: Option<Seq>,
    branches: Branches,
    /// The inputs so far, with their runs.
    inputs: Vec<(Seq, Branch, RunId)>,
    /// The questions so far, by their records.
    asked: Vec<(u64, QuestionId)>,
    /// The tasks whose outcomes may still be discarded, by their records and branches.
    ended: Vec<(u64, Branch, TaskPath)>,
    /// What was read of the logs of subgraphs, by the task that runs each and its branch.
    inner: HashMap<(TaskPath, Branch), EventReader>,
}

impl EventReader {
    /// Begins with the first record that is still there.
    pub fn new(thread: ThreadId) -> Self {
        Self {
            thread,
            next: Seq::new(1),
            until: None,
            branches: Branches::default(),
            inputs: Vec::new(),
            asked: Vec::new(),
            ended: Vec::new(),
            inner: HashMap::new(),
        }
    }

    /// Reads what has come. After an error, the next poll begins where this one did.
    ///
    /// # Errors
    /// [`StoreError`] as reading the records gives it.
    pub async fn poll(&mut self, store: &dyn CheckpointStore) -> Result<Vec<Event>, StoreError> {
        let mut reader = self.clone();
        let is_first = reader.next == Seq::new(1);
        let mut read: Vec<Stored> = Vec::new();
        let until = self.until.unwrap_or(Seq::new(u64::MAX));
        loop {
            let mut page = store.records(&reader.thread, reader.next, PAGE).await?;
            page.retain(|stored| stored.seq <= until);
            let Some(last) = page.last() else { break };
            reader.next = last.seq.next();
            page.iter().for_each(|stored| reader.branches.see(stored));
            read.append(&mut page);
        }
        let mut events = Vec::new();
        // Who writes writes on the head's branch, so the last record is of it.
        if let Some(last) = read.last() {
            let line = reader.branches.line(last.branch, last.seq);
            for stored in &read {
                if !is_first || line.has(stored.branch, stored.seq) {
                    reader.tell(stored, &mut events);
                }
            }
        }
        *self = reader;
        Ok(events)
    }

    /// The run that a record belongs to.
    fn run(&self, stored: &Stored) -> Option<RunId> {
        let line = self.branches.line(stored.branch, stored.seq);
        let of_line = |(seq, branch, _): &&(Seq, Branch, RunId)| line.has(*branch, *seq);
        let input = self.inputs.iter().rfind(of_line);
        input.map(|(_, _, run)| run.clone())
    }

    /// The events of a record of a subgraph. One that cannot be read tells nothing: the doctor
    /// finds it.
    fn tell_inner(&mut self, stored: &Stored, inner: &InnerRecord, events: &mut Vec<Event>) {
        let Ok((path, inner)) = inner.open() else {
            return;
        };
        let key = (path, stored.branch);
        if inner.seq == Seq::new(1) {
            self.inner.remove(&key);
        }
        let reader = self.inner.entry(key.clone());
        let reader = reader.or_insert_with(|| EventReader::new(self.thread.clone()));
        reader.branches.see(&inner);
        let mut told = Vec::new();
        reader.tell(&inner, &mut told);
        events.extend(told.into_iter().map(|event| Event {
            seq: Some(stored.seq),
            epoch: stored.epoch,
            ..event.within(&key.0)
        }));
    }

    /// The events of one record.
    fn tell(&mut self, stored: &Stored, events: &mut Vec<Event>) {
        let seq = stored.seq;
        if let Record::Inner(inner) = &*stored.record {
            return self.tell_inner(stored, inner, events);
        }
        let mut add = |kind| {
            events.push(Event {
                epoch: stored.epoch,
                seq: Some(stored.seq),
                within: None,
                kind,
            });
        };
        match &*stored.record {
            Record::Input(input) => {
                self.ended.retain(|(_, branch, _)| *branch != stored.branch);
                let Ok(id) = RunId::new(&input.run) else {
                    return;
                };
                self.inputs.push((seq, stored.branch, id.clone()));
                add(record::started(
                    self.thread.clone(),
                    id,
                    input.at_ms,
                    &input.update,
                    &input.edges,
                ));
                end(&mut add, input.step, input.status, input.at_ms, None);
            }
            Record::Started(started) => {
                let Some(run) = self.run(stored) else { return };
                add(EventKind::Resumed {
                    thread: self.thread.clone(),
                    run,
                    at_ms: started.at_ms,
                    step: Step::new(started.step.saturating_sub(1)),
                    takeover: started.takeover,
                });
            }
            Record::Branch(begun) => add(EventKind::Branched {
                branch: Branch::new(begun.branch),
                parent: Branch::new(begun.parent),
                at: Seq::new(begun.at),
            }),
            Record::Outcome(outcome) => {
                let task = record::task(outcome);
                let ended = task.map(|task| (seq.get(), stored.branch, task));
                self.ended.extend(ended);
                add(record::task_finished(outcome));
            }
            Record::Discarded(discarded) => {
                let gone = |(seq, ..): &&(u64, Branch, TaskPath)| discarded.outcomes.contains(seq);
                let tasks = self.ended.iter().filter(gone);
                let mut tasks: Vec<_> = tasks.map(|(.., task)| task.clone()).collect();
                tasks.sort();
                let at_ms = discarded.at_ms;
                add(EventKind::Discarded { at_ms, tasks });
            }
            Record::Commit(commit) => {
                self.ended.retain(|(_, branch, _)| *branch != stored.branch);
                for outcome in &commit.outcomes {
                    if let OutcomeRef::Inline(outcome) = outcome {
                        add(record::task_finished(outcome));
                    }
                }
                add(record::committed(commit.step, commit.at_ms, &commit.edges));
                end(&mut add, commit.step, commit.status, commit.at_ms, None);
            }
            Record::Question(question) => {
                let Ok(task) = question.task.parse() else {
                    return;
                };
                let id = QuestionId::new(task, question.key.clone());
                self.asked.push((stored.seq.get(), id.clone()));
                add(EventKind::Asked {
                    id,
                    type_name: question.type_name.clone(),
                    question: question.value.clone(),
                    expires_ms: question.expires_ms,
                });
            }
            Record::Step(step) => {
                let Ok(task) = step.task.parse() else {
                    return;
                };
                let key = step.key.clone();
                add(EventKind::StepFinished { task, key });
            }
            Record::Timer(timer) => {
                let Ok(task) = timer.task.parse() else {
                    return;
                };
                let (key, due_ms) = (timer.key.clone(), timer.due_ms);
                add(EventKind::TimerSet { task, key, due_ms });
            }
            Record::Begun(begun) => {
                let Ok(task) = begun.task.parse() else {
                    return;
                };
                let at_ms = begun.at_ms;
                add(EventKind::Begun { task, at_ms });
            }
            Record::Answer(answer) => {
                let found = self.asked.iter().find(|(seq, _)| *seq == answer.question);
                let Some((_, id)) = found else { return };
                add(EventKind::Answered {
                    id: id.clone(),
                    answer: answer.value.clone(),
                });
            }
            Record::Stopped(stopped) => {
                for failed in &stopped.failed {
                    let Ok(node) = NodeName::new(&failed.node) else {
                        continue;
                    };
                    let last = failed
                        .attempts
                        .last()
                        .and_then(|attempt| attempt.error.as_ref());
                    let Some(error) = last.or(stopped.error.as_ref()) else {
                        continue;
                    };
                    add(EventKind::TaskFailed {
                        task: TaskPath::new(Step::new(stopped.step), node, failed.index),
                        attempts: u32::try_from(failed.attempts.len())
                            .unwrap_or(u32::MAX)
                            .max(1),
                        tries: failed.attempts.iter().map(record::tried).collect(),
                        error: record::error_text(error),
                        exit: None,
                    });
                }
                let error = stopped.error.as_ref().map(record::error_text);
                end(
                    &mut add,
                    stopped.step.saturating_sub(1),
                    stopped.status,
                    stopped.at_ms,
                    error,
                );
            }
            _ => {}
        }
    }
}

/// The event of a call's end, where a record says that it ended.
fn end(
    add: &mut impl FnMut(EventKind),
    step: u64,
    status: Status,
    at_ms: u64,
    error: Option<ErrorText>,
) {
    if status != Status::Running {
        add(EventKind::Ended {
            status: status.to_string(),
            at_ms,
            step: Step::new(step),
            error,
        });
    }
}

/// What waits for an answer in a thread, in the order in which it was asked. No graph is needed
/// for it.
///
/// # Errors
/// [`StoreError`] as reading the records gives it.
pub async fn questions(
    store: &dyn CheckpointStore,
    thread: &ThreadId,
) -> Result<Vec<OpenQuestion>, StoreError> {
    match store.head(thread).await? {
        Some(head) => {
            let asked = ask::read(store, thread, head.seq, Some(head.branch)).await?;
            Ok(asked.open(head.step + 1))
        }
        None => Ok(Vec::new()),
    }
}

/// The checkpoints of a thread, oldest first.
///
/// # Errors
/// [`StoreError`] as reading the records gives it.
pub async fn history(
    store: &dyn CheckpointStore,
    thread: &ThreadId,
) -> Result<Vec<Checkpoint>, StoreError> {
    let mut checkpoints = Vec::new();
    let mut branches = Branches::default();
    let mut outcomes: Vec<Stored> = Vec::new();
    // Where the last branch begins.
    let mut begun = Seq::default();
    for stored in all(store, thread).await? {
        let Stored { seq, branch, .. } = stored;
        let parent = before(&checkpoints, &branches, branch, seq);
        branches.see(&stored);
        match &*stored.record {
            Record::Outcome(_) => outcomes.push(stored),
            Record::Branch(_) => begun = seq,
            // A patch writes its schema and its timers with it.
            Record::Schema(_) | Record::Timer(_) if seq == begun.next() => begun = seq,
            Record::Input(input) => {
                outcomes.retain(|other| other.branch != branch);
                checkpoints.push(Checkpoint {
                    seq,
                    parent,
                    branch,
                    step: Step::new(input.step),
                    input: RunId::new(&input.run).ok(),
                    at_ms: input.at_ms,
                    ran: Vec::new(),
                    wrote: each_once(input.update.iter().map(|change| change.field.as_str())),
                    next: counted(input.frontier.iter().map(|task| task.node.as_str())),
                    status: input.status,
                    patched: false,
                });
            }
            Record::Commit(commit) => {
                let ended: Vec<_> = commit
                    .outcomes
                    .iter()
                    .filter_map(|outcome| match outcome {
                        OutcomeRef::Inline(outcome) => Some(outcome),
                        OutcomeRef::At(at) => {
                            let found = outcomes
                                .binary_search_by_key(at, |stored| stored.seq.get())
                                .ok()?;
                            match &*outcomes[found].record {
                                Record::Outcome(outcome) => Some(outcome),
                                _ => None,
                            }
                        }
                    })
                    .collect();
                let changes = ended.iter().flat_map(|outcome| &outcome.changes);
                checkpoints.push(Checkpoint {
                    seq,
                    parent,
                    branch,
                    step: Step::new(commit.step),
                    input: None,
                    at_ms: commit.at_ms,
                    ran: counted(ended.iter().map(|outcome| outcome.node.as_str())),
                    wrote: each_once(changes.map(|change| change.field.as_str())),
                    next: counted(commit.frontier.iter().map(|task| task.node.as_str())),
                    status: commit.status,
                    // A run would have said first that it takes the thread up.
                    patched: seq == begun.next(),
                });
                outcomes.retain(|other| other.branch != branch);
            }
            _ => {}
        }
    }
    Ok(checkpoints)
}

/// The newest checkpoint of a branch, or the one where it leaves another branch.
fn before(
    checkpoints: &[Checkpoint],
    branches: &Branches,
    branch: Branch,
    seq: Seq,
) -> Option<Seq> {
    branches
        .line(branch, seq)
        .parts()
        .find_map(|(branch, until)| {
            let found = checkpoints.iter().rev();
            let mut found = found.filter(|at| at.branch == branch && at.seq <= until);
            found.next().map(|at| at.seq)
        })
}

/// All records of a thread that are still there, in order.
async fn all(store: &dyn CheckpointStore, thread: &ThreadId) -> Result<Vec<Stored>, StoreError> {
    let mut all: Vec<Stored> = Vec::new();
    loop {
        let from = all.last().map_or(Seq::new(1), |last| last.seq.next());
        let page = store.records(thread, from, PAGE).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

fn each_once<'f>(names: impl Iterator<Item = &'f str>) -> Vec<String> {
    counted(names).into_iter().map(|(name, _)| name).collect()
}

fn counted<'n>(names: impl Iterator<Item = &'n str>) -> Vec<(String, u32)> {
    let mut counts: Vec<(String, u32)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name.to_owned(), 1)),
        }
    }
    counts
}
