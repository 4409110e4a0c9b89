//! Station 1, load: from records to a position.
//!
//! In comes a thread's log, out comes the position at its head (or at an older checkpoint), with
//! what was recorded of the open superstep. Reads one base, its segments, and the records after it.

use std::collections::HashMap;
use std::sync::Arc;

use super::RunError;
use super::base::Segments;
use super::record;
use crate::engine::{Ended, Outcome, Position, Task, Via, reduce_states};
use crate::graph::Compiled;
use crate::ids::{Seq, ThreadId};
use crate::state::{Layout, State};
use crate::store::{
    BaseField, BaseRecord, BaseValue, CheckpointStore, CommitRecord, FieldRecord, Head,
    InputRecord, OutcomeRecord, OutcomeRef, Record, SchemaRecord, StoreError, Stored, StoredBase,
    StoredChange, StoredTask, StoredValue,
};

/// How many records are read at once.
const PAGE: usize = 256;

/// A thread's position, and what the log needs to go on writing it.
pub(crate) struct Loaded<S: State> {
    pub(crate) position: Position<S>,
    pub(crate) segments: Segments,
    /// How many inputs and commits lie behind the newest base.
    pub(crate) since_base: u32,
    /// Whether the program's schema is another one than the stored.
    pub(crate) schema_changed: bool,
    /// The seqs of the outcomes in `position.recorded`, in the same order.
    pub(crate) recorded_seqs: Vec<u64>,
    /// How often the open superstep was taken over after a crash.
    pub(crate) takeovers: u32,
}

/// Reads the position at `at`, a checkpoint on the way to the head.
pub(crate) async fn load<S: State>(
    store: &dyn CheckpointStore,
    graph: &Compiled<S>,
    thread: &ThreadId,
    head: &Head,
    at: Seq,
) -> Result<Loaded<S>, RunError> {
    if head.graph != graph.view.name {
        return Err(RunError::OtherGraph {
            thread: thread.clone(),
            stored: head.graph.clone(),
            graph: graph.view.name.clone(),
        });
    }
    let (base_at, older_schema) = find_base(store, thread, head, at).await?;
    let schema = match older_schema {
        Some(schema) => schema,
        None => schema_at(store, thread, head.schema).await?,
    };
    let mut reader = Reader {
        store,
        thread,
        graph,
        at,
        outcomes: HashMap::new(),
    };
    let first = store.records(thread, base_at, 1).await?;
    let Some(Record::Base(base)) = first.first().map(|stored| &*stored.record) else {
        return Err(reader.corrupt(base_at, "no base where the head row says one is"));
    };
    let replays = Seq::new(base.at) != at;
    let (schema_changed, reducers) = reader.compare(&schema, replays)?;
    let mut state = reader.base(base, &reducers).await?;
    let mut segments = Segments::load::<S>(&base.fields);

    let mut from = Seq::new(base.at);
    let (mut since_base, mut step, mut takeovers) = (0, 0, 0);
    let mut frontier: Option<Vec<StoredTask>> = None;
    let mut open: Vec<(u64, Arc<Record>)> = Vec::new();
    loop {
        let page = store.records(thread, from, PAGE).await?;
        for Stored { seq, record, .. } in &page {
            let replay = seq.get() > base.at && *seq <= at;
            if seq.get() > base.at {
                touch::<S>(&mut segments, record);
            }
            match &**record {
                Record::Input(input) => {
                    if *seq > at {
                        break;
                    }
                    since_base += u32::from(replay);
                    if replay {
                        reader.replay_input(&mut state, input, *seq)?;
                    }
                    step = input.step;
                    frontier = (*seq == at).then(|| input.frontier.clone());
                }
                Record::Commit(commit) => {
                    if *seq > at {
                        break;
                    }
                    since_base += u32::from(replay);
                    if replay {
                        reader.replay_commit(&mut state, commit, *seq)?;
                    }
                    step = commit.step;
                    frontier = (*seq == at).then(|| commit.frontier.clone());
                }
                Record::Outcome(_) if *seq > at => open.push((seq.get(), Arc::clone(record))),
                Record::Outcome(_) => {
                    reader.outcomes.insert(seq.get(), Arc::clone(record));
                }
                Record::Started(started) if *seq > at && started.takeover > 0 => {
                    takeovers = started.takeover;
                }
                _ => {}
            }
        }
        match page.last() {
            // An older checkpoint has no open superstep: what follows it belongs to its successor.
            Some(last) if page.len() == PAGE && (last.seq < at || at == head.seq) => {
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
    let frontier = reader.frontier(&frontier)?;
    let mut recorded = Vec::new();
    let mut recorded_seqs = Vec::new();
    if at == head.seq {
        for (seq, record) in &open {
            let Record::Outcome(outcome) = &**record else {
                continue;
            };
            if outcome.step == step + 1
                && let Some(place) = reader.place(&frontier, outcome)
                && !recorded.iter().any(|(known, _)| *known == place)
            {
                // Recorded for the old reducer, it would be merged by the new one.
                let meant = |old: &&OtherReducer| {
                    outcome
                        .changes
                        .iter()
                        .any(|change| change.field == old.field)
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
    let position = Position {
        step,
        state: Arc::new(state),
        frontier,
        recorded,
        spare: Vec::new(),
    };
    Ok(Loaded {
        position,
        segments,
        since_base,
        schema_changed,
        recorded_seqs,
        takeovers,
    })
}

/// The newest base at or before a checkpoint; for an older one also the schema it was written
/// with, where that is not the head's.
async fn find_base(
    store: &dyn CheckpointStore,
    thread: &ThreadId,
    head: &Head,
    at: Seq,
) -> Result<(Seq, Option<SchemaRecord>), RunError> {
    // The base of a checkpoint is the record behind it.
    if head.base.get() <= at.get() + 1 {
        return Ok((head.base, None));
    }
    let mut base = None;
    let mut schema = None;
    let mut end = at.get() + 2;
    while base.is_none() || schema.is_none() {
        let from = end.saturating_sub(PAGE as u64).max(1);
        let page = store
            .records(thread, Seq::new(from), (end - from) as usize)
            .await?;
        for stored in page.iter().rev() {
            match &*stored.record {
                Record::Base(found) if base.is_none() && found.at <= at.get() => {
                    base = Some(stored.seq);
                }
                Record::Schema(found) if base.is_some() && schema.is_none() => {
                    schema = Some(found.clone());
                }
                _ => {}
            }
        }
        // The head's schema is the newest: where it is older than the base, it is the base's too.
        if let Some(base) = base.filter(|base| head.schema <= *base) {
            return Ok((base, None));
        }
        // What lies before was pruned, or there is nothing before.
        if from == 1 || page.len() < (end - from) as usize {
            break;
        }
        end = from;
    }
    match base {
        Some(base) => Ok((base, schema)),
        None => Err(RunError::NoCheckpoint {
            thread: thread.clone(),
            seq: at,
        }),
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

/// A field whose reducer is another one than when the schema was stored.
struct OtherReducer {
    field: &'static str,
    stored: String,
    program: String,
}

struct Reader<'r, S: State> {
    store: &'r dyn CheckpointStore,
    thread: &'r ThreadId,
    graph: &'r Compiled<S>,
    at: Seq,
    /// Outcomes that commits refer to.
    outcomes: HashMap<u64, Arc<Record>>,
}

impl<S: State> Reader<'_, S> {
    fn corrupt(&self, seq: Seq, found: &str) -> RunError {
        RunError::Store(StoreError::Corrupt {
            place: format!("thread {}, record {seq}", self.thread),
            found: found.to_owned(),
            hint: "Restore the store from a copy, or fork the thread from an older checkpoint",
        })
    }

    fn mismatch(&self, field: &str, stored: String, program: String) -> RunError {
        RunError::SchemaMismatch {
            thread: self.thread.clone(),
            at: self.at,
            field: field.to_owned(),
            stored,
            program,
        }
    }

    /// Compares the stored schema with the program's. A field that was added has its default, one
    /// that was dropped is ignored; anything else must be the same, except for reducers where no
    /// update is merged again. Returns whether they differ, and those reducers.
    fn compare(
        &self,
        stored: &SchemaRecord,
        replays: bool,
    ) -> Result<(bool, Vec<OtherReducer>), RunError> {
        let mut reducers = Vec::new();
        let mut changed = stored.fields.len() != S::fields().len()
            || stored.version != S::VERSION
            || stored.fingerprint != self.graph.fingerprint;
        for field in &self.graph.view.fields {
            let Some(old) = stored.fields.iter().find(|old| old.name == field.name) else {
                if field.required {
                    let program = format!("required, {}", field.shape);
                    return Err(self.mismatch(field.name, "no such field".to_owned(), program));
                }
                changed = true;
                continue;
            };
            let describe = |codec: u8, shape: &str| format!("{shape} (codec {codec})");
            if old.shape != field.shape || old.codec != field.codec {
                return Err(self.mismatch(
                    field.name,
                    format!(
                        "{}, version {}",
                        describe(old.codec, &old.shape),
                        stored.version
                    ),
                    format!(
                        "{}, version {}",
                        describe(field.codec, &field.shape),
                        S::VERSION
                    ),
                ));
            }
            let version = field.reducer.version.unwrap_or(0);
            if old.reducer != field.reducer.id || old.reducer_version != version {
                // Updates were recorded for the old reducer: they mean nothing to the new one.
                let stored = format!("reducer {} version {}", old.reducer, old.reducer_version);
                let program = format!("reducer {} version {version}", field.reducer.id);
                if replays {
                    return Err(self.mismatch(field.name, stored, program));
                }
                changed = true;
                reducers.push(OtherReducer {
                    field: field.name,
                    stored,
                    program,
                });
            }
        }
        Ok((changed, reducers))
    }

    async fn base(&self, base: &BaseRecord, reducers: &[OtherReducer]) -> Result<S, RunError> {
        let mut state = S::default();
        for field in S::fields() {
            let Some(stored) = base
                .fields
                .iter()
                .find(|stored| stored.field == field.name())
            else {
                continue;
            };
            let BaseField { value, .. } = stored;
            let fault = |why: crate::state::CodecError| {
                self.mismatch(field.name(), why.to_string(), field.type_name().to_owned())
            };
            let is_whole = field.reducer().layout == Layout::Whole;
            let other = reducers.iter().find(|old| old.field == field.name());
            if let (true, BaseValue::Items { .. }, Some(old)) = (is_whole, value, other) {
                let (stored, program) = (old.stored.clone(), old.program.clone());
                return Err(self.mismatch(old.field, stored, program));
            }
            match value {
                BaseValue::Whole(bytes) => field.decode_value(&mut state, bytes).map_err(fault)?,
                BaseValue::Items {
                    sealed,
                    tail,
                    tail_items,
                } => {
                    let ids: Vec<_> = sealed.iter().map(|segment| segment.id).collect();
                    let segments = self.store.segments(self.thread, &ids).await?;
                    for (bytes, segment) in segments.iter().zip(sealed) {
                        field
                            .decode_items(&mut state, bytes, segment.items)
                            .map_err(fault)?;
                    }
                    field
                        .decode_items(&mut state, tail, *tail_items)
                        .map_err(fault)?;
                }
            }
        }
        Ok(state)
    }

    fn replay_input(&self, state: &mut S, input: &InputRecord, seq: Seq) -> Result<(), RunError> {
        if !input.closed.is_empty() || !input.settled.is_empty() {
            let mut updates = Vec::with_capacity(input.closed.len() + 1);
            for closed in &input.closed {
                updates.push(self.replayed(&self.recorded(*closed, seq)?.changes)?);
            }
            updates.push(self.replayed(&input.settled)?);
            self.merge(state, &mut updates, seq)?;
        }
        self.merge(state, &mut [self.replayed(&input.update)?], seq)?;
        self.values(state, &input.values)
    }

    fn replay_commit(
        &self,
        state: &mut S,
        commit: &CommitRecord,
        seq: Seq,
    ) -> Result<(), RunError> {
        let mut updates = Vec::with_capacity(commit.outcomes.len());
        for outcome in &commit.outcomes {
            updates.push(match outcome {
                OutcomeRef::Inline(outcome) => self.replayed(&outcome.changes)?,
                OutcomeRef::At(at) => self.replayed(&self.recorded(*at, seq)?.changes)?,
            });
        }
        self.merge(state, &mut updates, seq)?;
        self.values(state, &commit.values)
    }

    fn recorded(&self, at: u64, by: Seq) -> Result<&OutcomeRecord, RunError> {
        match self.outcomes.get(&at).map(|record| &**record) {
            Some(Record::Outcome(outcome)) => Ok(outcome),
            _ => Err(self.corrupt(
                by,
                &format!("it refers to outcome {at}, which is not there"),
            )),
        }
    }

    fn replayed(&self, changes: &[StoredChange]) -> Result<S::Update, RunError> {
        record::update::<S>(changes, true).map_err(|(field, why)| {
            self.mismatch(&field, why.to_string(), "an update of the field".to_owned())
        })
    }

    fn merge(&self, state: &mut S, updates: &mut [S::Update], seq: Seq) -> Result<(), RunError> {
        let mut shared = Arc::new(std::mem::take(state));
        let merged = reduce_states(&mut shared, updates);
        *state = Arc::unwrap_or_clone(shared);
        merged.map_err(|fault| {
            self.corrupt(
                seq,
                &format!("its updates cannot be merged again: {fault:?}"),
            )
        })
    }

    fn values(&self, state: &mut S, values: &[StoredValue]) -> Result<(), RunError> {
        for value in values {
            if let Some(field) = S::fields().iter().find(|field| field.name() == value.field) {
                field.decode_value(state, &value.bytes).map_err(|why| {
                    self.mismatch(field.name(), why.to_string(), field.type_name().to_owned())
                })?;
            }
        }
        Ok(())
    }

    fn frontier(&self, stored: &[StoredTask]) -> Result<Vec<Task>, RunError> {
        let task = |stored: &StoredTask| {
            let found = crate::ids::NodeName::new(&stored.node)
                .ok()
                .and_then(|name| self.graph.by_name.get(&name).copied());
            let Some(node) = found else {
                return Err(RunError::UnknownNode {
                    thread: self.thread.clone(),
                    at: self.at,
                    node: stored.node.clone(),
                    known: self
                        .graph
                        .nodes
                        .iter()
                        .map(|node| node.name.clone())
                        .collect(),
                });
            };
            let payload = match (&self.graph.node(node).payload, &stored.payload) {
                (Some(codec), Some(bytes)) => Some(codec.decode(bytes).map_err(|why| {
                    self.mismatch(&stored.node, why.to_string(), codec.type_name.to_owned())
                })?),
                (None, None) => None,
                (Some(codec), None) => {
                    let program = format!("a worker of {}", codec.type_name);
                    return Err(self.mismatch(&stored.node, "a plain node".to_owned(), program));
                }
                (None, Some(_)) => {
                    let stored_as = "a worker with a payload".to_owned();
                    return Err(self.mismatch(&stored.node, stored_as, "a plain node".to_owned()));
                }
            };
            Ok(Task {
                node,
                index: stored.index,
                via: Via {
                    from: None,
                    label: "",
                },
                payload,
            })
        };
        stored.iter().map(task).collect()
    }

    fn place(&self, frontier: &[Task], outcome: &OutcomeRecord) -> Option<usize> {
        frontier.iter().position(|task| {
            task.index == outcome.index && self.graph.node(task.node).name.as_str() == outcome.node
        })
    }

    fn outcome(&self, stored: &OutcomeRecord, seq: Seq) -> Result<Outcome<S::Update>, RunError> {
        let update = record::update::<S>(&stored.changes, false).map_err(|(field, why)| {
            self.mismatch(&field, why.to_string(), "an update of the field".to_owned())
        })?;
        let entry = crate::ids::NodeName::new(&stored.node)
            .ok()
            .and_then(|name| self.graph.by_name.get(&name))
            .map(|node| self.graph.node(*node));
        let ended = match (&stored.exit, entry) {
            _ if stored.tolerated => Ended::Tolerated,
            (None, Some(entry)) if !entry.exits.is_empty() => {
                return Err(self.mismatch(
                    &stored.node,
                    format!("left by its only way out (record {seq})"),
                    format!("its exits are {:?}", entry.exits),
                ));
            }
            (None, _) => Ended::Exit(0),
            (Some(label), entry) => {
                let exits = entry
                    .map(|entry| entry.exits.as_slice())
                    .unwrap_or_default();
                match exits.iter().position(|exit| exit == label) {
                    Some(exit) => Ended::Exit(exit as u32),
                    None => {
                        return Err(self.mismatch(
                            &stored.node,
                            format!("left by exit {label:?} (record {seq})"),
                            format!("its exits are {exits:?}"),
                        ));
                    }
                }
            }
        };
        Ok(Outcome { update, ended })
    }
}

/// The program's schema, as it is stored.
pub(crate) fn schema<S: State>(graph: &Compiled<S>) -> SchemaRecord {
    let field = |field: &crate::graph::FieldView| FieldRecord {
        name: field.name.to_owned(),
        shape: field.shape.clone(),
        codec: field.codec,
        reducer: field.reducer.id.to_owned(),
        reducer_version: field.reducer.version.unwrap_or(0),
        required: field.required,
    };
    SchemaRecord {
        graph: graph.view.name.clone(),
        fingerprint: graph.fingerprint,
        state: S::NAME.to_owned(),
        version: S::VERSION,
        fields: graph.view.fields.iter().map(field).collect(),
    }
}
