//! Station 1, load: what single records mean to this program.
//!
//! In come records, out come values of the program's own types, or the typed error that shows both
//! sides. What does not fit is never guessed.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

use super::base::in_pieces;
use super::schema::OtherReducer;
use super::settle::by_task;
use super::{RunError, record};
use crate::engine::{Ended, Outcome, Task, Via, reduce_states};
use crate::graph::Compiled;
use crate::ids::{Seq, ThreadId};
use crate::state::{Layout, State, field_called};
use crate::store::{
    BaseField, BaseRecord, BaseValue, CheckpointStore, CommitRecord, InputRecord, OutcomeRecord,
    OutcomeRef, Record, StoreError, StoredChange, StoredTask, StoredValue,
};

/// Reads records of a thread for a state type; for a graph, too, unless they are only to give a
/// state of a version before the graph's own.
pub(super) struct Reader<'r, S: State, G = &'r Compiled<S>> {
    pub(super) store: &'r dyn CheckpointStore,
    pub(super) thread: &'r ThreadId,
    pub(super) graph: G,
    pub(super) at: Seq,
    /// Outcomes that commits refer to.
    pub(super) outcomes: HashMap<u64, Arc<Record>>,
    state: PhantomData<fn() -> S>,
}

impl<'r, S: State, G> Reader<'r, S, G> {
    pub(super) fn new(
        store: &'r dyn CheckpointStore,
        thread: &'r ThreadId,
        graph: G,
        at: Seq,
    ) -> Self {
        Self {
            store,
            thread,
            graph,
            at,
            outcomes: HashMap::new(),
            state: PhantomData,
        }
    }

    pub(super) fn corrupt(&self, seq: Seq, found: &str) -> RunError {
        RunError::Store(StoreError::Corrupt {
            place: format!("thread {}, record {seq}", self.thread),
            found: found.to_owned(),
            hint: "Restore the store from a copy, or fork the thread from an older checkpoint",
        })
    }

    pub(super) fn mismatch(&self, field: &str, stored: String, program: String) -> RunError {
        RunError::SchemaMismatch {
            thread: self.thread.clone(),
            at: self.at,
            field: field.to_owned(),
            stored,
            program,
        }
    }

    pub(super) async fn base(
        &self,
        base: &BaseRecord,
        reducers: &[OtherReducer],
    ) -> Result<S, RunError> {
        let mut state = S::default();
        for field in S::fields() {
            let Some(stored) = base
                .fields
                .iter()
                .find(|stored| field.is_called(&stored.field))
            else {
                continue;
            };
            let BaseField { value, .. } = stored;
            let fault = |why: crate::state::CodecError| {
                self.mismatch(field.name(), why.to_string(), field.type_name().to_owned())
            };
            let is_whole = field.reducer().layout == Layout::Whole;
            let other = reducers.iter().find(|old| old.field == field.name());
            if let (true, BaseValue::Items { sealed, .. }, Some(old)) = (is_whole, value, other)
                && !in_pieces(sealed)
            {
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
                    if in_pieces(sealed) {
                        let bytes = segments.concat();
                        field.decode_value(&mut state, &bytes).map_err(fault)?;
                        continue;
                    }
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

    pub(super) fn replay_input(
        &self,
        state: &mut S,
        input: &InputRecord,
        seq: Seq,
    ) -> Result<(), RunError> {
        if !input.closed.is_empty() {
            let mut updates = Vec::with_capacity(input.closed.len());
            for closed in &input.closed {
                updates.push(self.replayed(&self.recorded(*closed, seq)?.changes)?);
            }
            self.merge(state, &mut updates, seq)?;
        }
        if !input.settled.is_empty() {
            let settled = by_task(&input.settled).into_iter();
            let settled: Result<Vec<_>, _> = settled.map(|task| self.replayed(task)).collect();
            self.merge(state, &mut settled?, seq)?;
        }
        self.merge(state, &mut [self.replayed(&input.update)?], seq)?;
        self.values(state, &input.values)
    }

    pub(super) fn replay_commit(
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

    pub(super) fn recorded(&self, at: u64, by: Seq) -> Result<&OutcomeRecord, RunError> {
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

    pub(super) fn values(&self, state: &mut S, values: &[StoredValue]) -> Result<(), RunError> {
        for value in values {
            if let Some(field) = field_called::<S>(&value.field) {
                field.decode_value(state, &value.bytes).map_err(|why| {
                    self.mismatch(field.name(), why.to_string(), field.type_name().to_owned())
                })?;
            }
        }
        Ok(())
    }
}

impl<S: State> Reader<'_, S> {
    pub(super) fn frontier(&self, stored: &[StoredTask]) -> Result<Vec<Task>, RunError> {
        let task = |stored: &StoredTask| {
            let found = crate::ids::NodeName::new(&stored.node)
                .ok()
                .and_then(|name| self.graph.by_name.get(&name).copied());
            let Some(node) = found else {
                return Err(RunError::UnknownNode {
                    thread: self.thread.clone(),
                    at: self.at,
                    node: stored.node.to_string(),
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

    pub(super) fn place(&self, frontier: &[Task], outcome: &OutcomeRecord) -> Option<usize> {
        frontier.iter().position(|task| {
            task.index == outcome.index && self.graph.node(task.node).name.as_str() == outcome.node
        })
    }

    pub(super) fn outcome(
        &self,
        stored: &OutcomeRecord,
        seq: Seq,
    ) -> Result<Outcome<S::Update>, RunError> {
        let update = record::update::<S>(&stored.changes, false).map_err(|(field, why)| {
            self.mismatch(&field, why.to_string(), "an update of the field".to_owned())
        })?;
        let entry = crate::ids::NodeName::new(&stored.node)
            .ok()
            .and_then(|name| self.graph.by_name.get(&name))
            .map(|node| self.graph.node(*node));
        let ended = match (&stored.exit, entry) {
            _ if stored.tolerated => Ended::Tolerated,
            (_, entry) if let Some(error) = &stored.caught => {
                self.caught(stored, error, entry, seq)?
            }
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
                match exits.iter().position(|exit| *label == *exit) {
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
