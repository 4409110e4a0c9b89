//! Station 1, load: from records to a position.
//!
//! In comes a thread's log, out comes the position at its head (or at an older checkpoint), with
//! what was recorded of the open superstep. Reads one base, its segments, and the records after it.

use std::sync::Arc;

use super::RunError;
use super::ask::{Asked, Questions};
use super::base::Segments;
use super::begun;
use super::lift::Lift;
use super::replay::Reader;
use super::retry::forget;
use super::schema::{OtherReducer, is_older};
use crate::engine::{Position, Task};
use crate::graph::Compiled;
use crate::ids::{Seq, Step, TaskPath, ThreadId};
use crate::node::KeptStep;
use crate::state::State;
use crate::store::{
    CheckpointStore, Few, Head, OutcomeRef, Record, SchemaRecord, StoreError, Stored, StoredBase,
    StoredChange, StoredTask,
};

/// How many records are read at once.
const PAGE: usize = 256;

/// A thread's position, and what the log needs to go on writing it.
pub(crate) struct Loaded<S: State> {
    pub(crate) position: Position<S>,
    pub(crate) segments: Segments,
    /// How many inputs and commits lie behind the newest base.
    pub(crate) since_base: u32,
    /// Whether what is written next begins anew, with a schema and a base: the program's schema is
    /// another one than the stored, or the head's branch has no position of its own yet.
    pub(crate) fresh: bool,
    /// The seqs of the outcomes in `position.recorded`, in the same order.
    pub(crate) recorded_seqs: Vec<u64>,
    /// How often the open superstep was taken over after a crash.
    pub(crate) takeovers: u32,
    /// The questions of the open superstep, with their answers.
    pub(crate) questions: Questions,
    /// The steps and timers of the open superstep.
    pub(crate) memory: Memory,
    /// The record with which the last call ended inside of it.
    pub(crate) stopped: Option<Arc<Record>>,
    /// Why nothing can go on from here, though the state can be seen.
    pub(crate) barred: Option<RunError>,
    /// The records of the subgraphs of the open superstep, with their places.
    pub(crate) inner: Vec<(Seq, Arc<Record>)>,
}

/// What tasks of the open superstep have noted of themselves, by place in the frontier.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) steps: Vec<(usize, KeptStep)>,
    /// With the key, and until when the task waits.
    pub(crate) timers: Vec<(usize, String, u64)>,
    /// That a body began, and when; or that it was left on purpose, to ask or to wait. In order.
    pub(crate) begun: Vec<(usize, Option<u64>)>,
}

impl Memory {
    fn add(&mut self, record: &Record, place: &impl Fn(&TaskPath) -> Option<usize>) {
        let found = |task: &str| place(&task.parse().ok()?);
        match record {
            Record::Step(step) => self.steps.extend(found(&step.task).map(|place| {
                let kept = KeptStep {
                    key: step.key.clone(),
                    type_name: step.type_name.as_str().into(),
                    shape: step.shape.clone(),
                    value: step.value.clone(),
                };
                (place, kept)
            })),
            Record::Timer(timer) => {
                let found = found(&timer.task);
                let due = |place| (place, timer.key.clone(), timer.due_ms);
                self.timers.extend(found.map(due));
                self.begun.extend(found.map(|place| (place, None)));
            }
            Record::Question(question) => {
                let found = found(&question.task);
                self.begun.extend(found.map(|place| (place, None)));
            }
            Record::Begun(begun) => {
                let found = found(&begun.task);
                self.begun
                    .extend(found.map(|place| (place, Some(begun.at_ms))));
            }
            _ => {}
        }
    }
}

/// Reads the position at `at`: the head, or any checkpoint of any branch.
///
/// A branch begins with a schema and a base of its own, so what a position needs is all on its own
/// branch; records of others between are passed over.
pub(crate) async fn load<S: State>(
    store: &dyn CheckpointStore,
    graph: &Compiled<S>,
    thread: &ThreadId,
    head: &Head,
    at: Seq,
) -> Result<Loaded<S>, RunError> {
    check_graph(graph, thread, head)?;
    let is_head = at == head.seq;
    let (base_at, older_schema) = match is_head {
        true => (head.base, None),
        false => find_base(store, thread, head, at).await?,
    };
    let schema = match older_schema {
        Some(schema) => schema,
        None => schema_at(store, thread, head.schema).await?,
    };
    let mut reader = Reader::new(store, thread, graph, at);
    let first = store.records(thread, base_at, 1).await?;
    let Some((branch, Record::Base(base))) =
        first.first().map(|stored| (stored.branch, &*stored.record))
    else {
        return Err(reader.corrupt(base_at, "no base where the head row says one is"));
    };
    let other_branch = is_head && branch != head.branch;
    let replays = Seq::new(base.at) != at;
    let older = match is_older::<S>(&schema) {
        true => S::older(Lift {
            store,
            thread,
            schema: &schema,
            base,
            branch,
            at,
        }),
        false => None,
    };
    let is_lifted = older.is_some();
    let (schema_changed, reducers, mut state, mut segments) = match older {
        Some(older) => (true, Vec::new(), older.await?, Segments::default()),
        None => {
            let (changed, reducers) = reader.compare(&schema, replays)?;
            let state = reader.base(base, &reducers).await?;
            (changed, reducers, state, Segments::load::<S>(&base.fields))
        }
    };

    let mut from = Seq::new(base.at);
    let (mut since_base, mut step, mut takeovers) = (0, 0, 0);
    let mut frontier: Option<Few<StoredTask>> = None;
    let mut waits = None;
    let mut stopped = None;
    let mut open: Vec<(u64, Arc<Record>)> = Vec::new();
    let mut asked = Asked::default();
    let mut noted: Vec<Arc<Record>> = Vec::new();
    let mut inner = Vec::new();
    loop {
        let page = store.records(thread, from, PAGE).await?;
        for stored in &page {
            let Stored { seq, record, .. } = stored;
            let own = match *seq <= at {
                true => branch,
                false => head.branch,
            };
            if stored.branch != own {
                // They count all the same: each of them is read again by the next load.
                let passed = matches!(**record, Record::Input(_) | Record::Commit(_));
                since_base += u32::from(passed);
                continue;
            }
            let behind = seq.get() > base.at && *seq <= at;
            let replay = behind && !is_lifted;
            if seq.get() > base.at {
                touch::<S>(&mut segments, record);
            }
            match &**record {
                Record::Input(input) => {
                    if *seq > at {
                        break;
                    }
                    since_base += u32::from(behind);
                    if replay {
                        reader.replay_input(&mut state, input, *seq)?;
                    }
                    step = input.step;
                    frontier = (*seq == at).then(|| input.frontier.clone());
                    waits = (*seq == at).then(|| Arc::clone(record));
                }
                Record::Commit(commit) => {
                    if *seq > at {
                        break;
                    }
                    since_base += u32::from(behind);
                    if replay {
                        reader.replay_commit(&mut state, commit, *seq)?;
                    }
                    step = commit.step;
                    frontier = (*seq == at).then(|| commit.frontier.clone());
                    waits = (*seq == at).then(|| Arc::clone(record));
                }
                Record::Step(_) | Record::Timer(_) | Record::Begun(_) if *seq > at => {
                    noted.push(Arc::clone(record));
                }
                Record::Inner(_) if *seq > at => inner.push((*seq, Arc::clone(record))),
                Record::Outcome(_) if *seq > at => {
                    open.push((seq.get(), Arc::clone(record)));
                    asked.push(seq.get(), record);
                }
                Record::Discarded(discarded) if *seq > at => {
                    begun::doubted(&mut noted, &open, discarded);
                    forget(&mut open, &mut inner, discarded);
                    asked.push(seq.get(), record);
                }
                Record::Question(_) | Record::Answer(_) if *seq > at => {
                    asked.push(seq.get(), record);
                    noted.push(Arc::clone(record));
                }
                Record::Outcome(_) => {
                    reader.outcomes.insert(seq.get(), Arc::clone(record));
                }
                Record::Started(started) if *seq > at => {
                    stopped = None;
                    if started.takeover > 0 {
                        takeovers = started.takeover;
                    }
                }
                // A call that could say that it ends has not died of the superstep.
                Record::Stopped(_) if *seq > at => {
                    takeovers = 0;
                    stopped = Some(Arc::clone(record));
                }
                _ => {}
            }
        }
        match page.last() {
            // An older checkpoint has no open superstep: what follows it belongs to its successor.
            Some(last) if page.len() == PAGE && (last.seq < at || is_head) => {
                from = last.seq.next();
            }
            _ => break,
        }
    }
    let Some(frontier) = frontier else {
        return Err(RunError::NoCheckpoint {
            thread: thread.clone(),
            seq: at,
        });
    };
    reader.check_payloads(&schema, &frontier)?;
    let frontier = reader.frontier(&frontier)?;
    let joins = reader.joins(waits.as_deref(), &frontier).await?;
    let mut recorded = Vec::new();
    let mut recorded_seqs = Vec::new();
    let mut barred = None;
    if is_head {
        for (seq, record) in &open {
            let Record::Outcome(outcome) = &**record else {
                continue;
            };
            if outcome.step == step + 1
                && let Some(place) = reader.place(&frontier, outcome)
                && !recorded.iter().any(|(known, _)| *known == place)
            {
                if is_lifted {
                    // Meant for the old version, and not merged yet: no state to be lifted has it.
                    barred.get_or_insert_with(|| RunError::OlderOutcomes {
                        thread: thread.clone(),
                        at,
                        step: Step::new(step + 1),
                        task: TaskPath::new(
                            Step::new(step + 1),
                            graph.node(frontier[place].node).name.clone(),
                            outcome.index,
                        ),
                        stored: schema.version,
                        program: S::VERSION,
                    });
                    continue;
                }
                // Recorded for the old reducer, it would be merged by the new one.
                let meant = |old: &&OtherReducer| {
                    outcome
                        .changes
                        .iter()
                        .any(|change| change.field == old.stored_as)
                };
                if let Some(old) = reducers.iter().find(meant) {
                    let (stored, program) = (old.stored.clone(), old.program.clone());
                    return Err(reader.mismatch(old.field, stored, program));
                }
                recorded.push((place, reader.outcome(outcome, Seq::new(*seq))?));
                recorded_seqs.push(*seq);
            }
        }
    }
    let place = |path: &TaskPath| {
        let [level] = path.levels() else { return None };
        let is_it =
            |task: &Task| task.index == level.index && graph.node(task.node).name == level.node;
        let place = frontier.iter().position(is_it)?;
        (level.step.get() == step + 1).then_some(place)
    };
    let mut memory = Memory::default();
    let mut questions = Questions::default();
    if is_head {
        questions = asked.questions(place);
        noted.iter().for_each(|record| memory.add(record, &place));
    }
    let position = Position {
        step,
        state: Arc::new(state),
        frontier,
        joins,
        recorded,
        spare: Vec::new(),
    };
    Ok(Loaded {
        position,
        segments,
        since_base,
        fresh: schema_changed || other_branch,
        recorded_seqs,
        takeovers,
        questions,
        memory,
        stopped,
        barred,
        inner,
    })
}

/// Refuses a thread of another graph.
pub(crate) fn check_graph<S: State>(
    graph: &Compiled<S>,
    thread: &ThreadId,
    head: &Head,
) -> Result<(), RunError> {
    match head.graph == graph.view.name {
        true => Ok(()),
        false => Err(RunError::OtherGraph {
            thread: thread.clone(),
            stored: head.graph.to_string(),
            graph: graph.view.name.clone(),
        }),
    }
}

/// The newest base at or before a checkpoint that is not the head, on its branch; and the schema it
/// was written with, where that is not the head's.
async fn find_base(
    store: &dyn CheckpointStore,
    thread: &ThreadId,
    head: &Head,
    at: Seq,
) -> Result<(Seq, Option<SchemaRecord>), RunError> {
    let pruned = || RunError::Pruned {
        thread: thread.clone(),
        seq: at,
    };
    let position = store.records(thread, at, 1).await?;
    let branch = match position.first().map(|stored| (stored, &*stored.record)) {
        Some((stored, Record::Input(_) | Record::Commit(_))) if stored.seq == at => stored.branch,
        // Seqs have no gaps but those that a prune leaves.
        Some((stored, _)) if stored.seq > at && at.get() > 0 => return Err(pruned()),
        _ => {
            let thread = thread.clone();
            return Err(RunError::NoCheckpoint { thread, seq: at });
        }
    };
    // The base of a checkpoint is the record behind it.
    if head.base.get() <= at.get() + 1 {
        let base = store.records(thread, head.base, 1).await?;
        if base.first().is_some_and(|base| base.branch == branch) {
            return Ok((head.base, None));
        }
    }
    let mut base = None;
    let mut end = at.get() + 2;
    let mut size = PAGE as u64;
    loop {
        let from = end.saturating_sub(size).max(1);
        let mut page = store
            .records(thread, Seq::new(from), (end - from) as usize)
            .await?;
        page.retain(|stored| stored.seq.get() < end);
        for stored in page.iter().rev().filter(|stored| stored.branch == branch) {
            match (&*stored.record, base) {
                (Record::Base(found), None) if found.at <= at.get() => base = Some(stored.seq),
                (Record::Schema(found), Some(base)) => return Ok((base, Some(found.clone()))),
                _ => {}
            }
        }
        // The head's schema is the newest: where it is older than the base, it is the base's too.
        if let Some(base) = base
            && branch == head.branch
            && head.schema <= base
        {
            return Ok((base, None));
        }
        if from == 1 {
            return Err(pruned());
        }
        // Where a prune has dropped much, there is little to read.
        if page.is_empty() {
            size = size.saturating_mul(2);
        }
        end = from;
    }
}

async fn schema_at(
    store: &dyn CheckpointStore,
    thread: &ThreadId,
    at: Seq,
) -> Result<SchemaRecord, RunError> {
    let stored = store.records(thread, at, 1).await?;
    match stored.first().map(|stored| (stored.seq, &*stored.record)) {
        Some((seq, Record::Schema(schema))) if seq == at => Ok(schema.clone()),
        _ => Err(StoreError::Corrupt {
            place: format!("thread {thread}, record {at}"),
            found: "expected the schema record that the head row names".to_owned(),
            hint: "Restore the store from a copy",
        }
        .into()),
    }
}

/// Notes what a record behind the base does to fields whose items the base refers to.
fn touch<S: State>(segments: &mut Segments, record: &Record) {
    let mut touch = |changes: &[StoredChange]| {
        for change in changes
            .iter()
            .filter(|change| change.base != StoredBase::Keep)
        {
            segments.touch::<S>(&change.field);
        }
    };
    match record {
        Record::Input(input) => {
            touch(&input.settled);
            touch(&input.update);
        }
        Record::Outcome(outcome) => touch(&outcome.changes),
        Record::Commit(commit) => {
            for outcome in &commit.outcomes {
                if let OutcomeRef::Inline(outcome) = outcome {
                    touch(&outcome.changes);
                }
            }
        }
        _ => {}
    }
}
