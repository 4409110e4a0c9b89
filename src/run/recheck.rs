//! Replaying a thread: what was recorded is merged and decided again, and compared.
//!
//! In come the records of the head's line, out goes what differs now: a reducer that is not pure, a
//! branch or a split that was changed. No node is run, nothing is written.

use std::sync::Arc;

use super::close::reduce_error;
use super::load;
use super::replay::Reader;
use super::runner::not_found;
use super::schema::is_older;
use super::settle::by_task;
use super::{RunError, Runner, join, record};
use crate::engine::{
    Outcomes, Planned, Position, RouteFault, Routed, Task, Unreduced, Via, plan, reduce,
    reduce_states, route, start,
};
use crate::event::TakenEdge;
use crate::ids::{Branch, NodeName, Seq, Step, ThreadId};
use crate::state::State;
use crate::store::{
    BaseRecord, Branches, CheckpointStore, CommitRecord, InputRecord, OutcomeRef, Record,
    SchemaRecord, StoreError, Stored, StoredEdge, StoredTask, StoredValue,
};

/// How many records are read at once.
const PAGE: usize = 256;

/// What a replay has found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayReport {
    /// The branch whose line was replayed.
    pub branch: Branch,
    /// How many checkpoints were merged and decided again.
    pub checkpoints: u64,
    /// How many were passed over, because an older version of the state has written them.
    pub older: u64,
    /// What differs, in the order of the log. After each of them the replay went on with what is
    /// recorded.
    pub differences: Vec<Difference>,
}

/// What is another now than it was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// The value of a field.
    Field {
        /// The checkpoint; for a base, the checkpoint that it is the state of.
        seq: Seq,
        /// The field.
        field: String,
        /// The codec of both values: 1 MessagePack with names, 2 bincode.
        codec: u8,
        /// The value that was recorded.
        recorded: Vec<u8>,
        /// The value as it is now.
        now: Vec<u8>,
    },
    /// The edges that were taken.
    Edges {
        /// The checkpoint.
        seq: Seq,
        /// Those that were recorded.
        recorded: Vec<TakenEdge>,
        /// Those that are taken now.
        now: Vec<TakenEdge>,
    },
    /// What runs next: its tasks, or their payloads.
    Next {
        /// The checkpoint.
        seq: Seq,
        /// The tasks that were recorded, in order: node and payload.
        recorded: Vec<(String, Option<Vec<u8>>)>,
        /// The tasks as they are now.
        now: Vec<(String, Option<Vec<u8>>)>,
    },
    /// A merge or a decision that was made is refused now.
    Refused {
        /// The checkpoint.
        seq: Seq,
        /// Why.
        why: String,
    },
}

impl Difference {
    /// The checkpoint where it was found.
    pub fn seq(&self) -> Seq {
        match self {
            Difference::Field { seq, .. }
            | Difference::Edges { seq, .. }
            | Difference::Next { seq, .. }
            | Difference::Refused { seq, .. } => *seq,
        }
    }
}

impl<S: State> Runner<S> {
    /// Merges and decides again what is recorded of a thread, without running a node, and says what
    /// differs: a reducer that does not give the same twice, or one, a branch or a split that was
    /// changed. It follows the line of the head from its first record or, where the log was pruned,
    /// from the oldest base of the head's branch. What an older version of the state has written is
    /// passed over.
    ///
    /// # Errors
    /// [`RunError::NotFound`], [`RunError::OtherGraph`], and what reading may find: a record that
    /// does not fit this program's types cannot be merged.
    pub async fn replay(&self, thread: &ThreadId) -> Result<ReplayReport, RunError> {
        let store = self.store.as_ref().ok_or_else(|| not_found(thread))?;
        let head = store.head(thread).await?.ok_or_else(|| not_found(thread))?;
        let tables = self.graph.tables();
        load::check_graph(tables, thread, &head)?;
        let (records, whole) = line(&**store, thread, head.branch, head.seq).await?;
        let reader = Reader::new(&**store, thread, tables, head.seq);
        let mut replay = Replay {
            reader,
            whole,
            now: None,
            schema: None,
            report: ReplayReport {
                branch: head.branch,
                checkpoints: 0,
                older: 0,
                differences: Vec::new(),
            },
        };
        for stored in &records {
            replay.see(stored).await?;
        }
        Ok(replay.report)
    }
}

/// The records of a line that leads to a position, with what stands directly behind that, and
/// whether nothing of the log was pruned. Of a pruned log it is what stands on the position's own
/// branch: that is whole from its oldest base on, and what came before it may have gaps.
async fn line(
    store: &dyn CheckpointStore,
    thread: &ThreadId,
    branch: Branch,
    at: Seq,
) -> Result<(Vec<Stored>, bool), StoreError> {
    let mut all: Vec<Stored> = Vec::new();
    let mut branches = Branches::default();
    let mut from = Seq::new(1);
    loop {
        let page = store.records(thread, from, PAGE).await?;
        let Some(last) = page.last() else { break };
        from = last.seq.next();
        page.iter().for_each(|stored| branches.see(stored));
        all.extend(page);
    }
    let numbered = (1..).map(Seq::new).zip(&all);
    let whole = { numbered }.all(|(seq, stored)| stored.seq == seq);
    let own = all.iter().find(|stored| stored.seq == at);
    let own = own.map_or(branch, |stored| stored.branch);
    let line = branches.line(branch, Seq::new(u64::MAX));
    all.retain(|stored| whole || stored.branch == own);
    // The base of the last position stands behind it.
    all.retain(|stored| stored.seq <= at.next() && line.has(stored.branch, stored.seq));
    Ok((all, whole))
}

struct Replay<'r, S: State> {
    reader: Reader<'r, S>,
    /// Whether nothing of the log was pruned.
    whole: bool,
    /// Where the replay stands; none before the first input or base that can be read.
    now: Option<Position<S>>,
    schema: Option<SchemaRecord>,
    report: ReplayReport,
}

impl<S: State> Replay<'_, S> {
    async fn see(&mut self, stored: &Stored) -> Result<(), RunError> {
        self.reader.at = stored.seq;
        let seq = stored.seq;
        match &*stored.record {
            Record::Schema(schema) if is_older::<S>(schema) => {
                // Its updates are meant for another type; the next base is of this one, or older.
                (self.now, self.schema) = (None, None);
            }
            Record::Input(_) | Record::Commit(_) if self.schema.is_none() => {
                self.report.older += 1;
            }
            Record::Schema(schema) => {
                self.reader.compare(schema, false)?;
                self.schema = Some(schema.clone());
            }
            Record::Outcome(_) => {
                let record = Arc::clone(&stored.record);
                self.reader.outcomes.insert(seq.get(), record);
            }
            Record::Base(base) => self.base(base).await?,
            Record::Input(input) => {
                self.input(seq, input)?;
                self.wait(&stored.record).await?;
            }
            Record::Commit(commit) => {
                self.commit(seq, commit)?;
                self.wait(&stored.record).await?;
            }
            _ => {}
        }
        Ok(())
    }

    fn input(&mut self, seq: Seq, input: &InputRecord) -> Result<(), RunError> {
        // Only the first input of a thread can be merged without what was before.
        let is_first = self.whole && seq.get() <= 2;
        let before = self.now.take();
        let mut state = match before {
            Some(position) => position.state,
            None if is_first => Arc::new(S::default()),
            None => return Ok(()),
        };
        let step = input.step;
        self.report.checkpoints += 1;
        let mut refused = None;
        for mut given_up in self.closed(input, seq)? {
            refused = reduce_states(&mut state, &mut given_up).err().or(refused);
        }
        let mut update = [self.update(&input.update)?];
        refused = reduce_states(&mut state, &mut update).err().or(refused);
        if let Some(fault) = refused {
            let why = reduce_error(self.reader.thread.clone(), Step::new(step), fault);
            self.refused(seq, why.to_string());
        }
        self.values(&mut state, &input.values, seq)?;
        let decided = start(self.reader.graph, step, Arc::clone(&state), input.at_ms);
        self.decided(seq, decided, &input.edges, &input.frontier)?;
        self.stand(step, state, &input.frontier)
    }

    fn commit(&mut self, seq: Seq, commit: &CommitRecord) -> Result<(), RunError> {
        let Some(mut position) = self.now.take() else {
            return Ok(());
        };
        self.report.checkpoints += 1;
        let mut updates = Vec::with_capacity(commit.outcomes.len());
        let mut ends = Vec::with_capacity(commit.outcomes.len());
        let mut tasks = Vec::with_capacity(commit.outcomes.len());
        for outcome in &commit.outcomes {
            let (at, record) = match outcome {
                OutcomeRef::Inline(outcome) => (seq, outcome),
                OutcomeRef::At(at) => (Seq::new(*at), self.reader.recorded(*at, seq)?),
            };
            let ended = self.reader.outcome(record, at)?;
            updates.push(ended.update);
            ends.push(ended.ended);
            tasks.push(self.task(&record.node, record.index)?);
        }
        // What ended is what there was to run, but for a patch, which stands for a node.
        position.frontier = tasks;
        let before = Arc::clone(&position.state);
        let Planned::Run(superstep) = plan(position) else {
            return self.stand(commit.step, before, &commit.frontier);
        };
        let state = match reduce(self.reader.graph, superstep, Outcomes::Many(updates, ends)) {
            Ok(mut reduced) => {
                self.values(&mut reduced.state, &commit.values, seq)?;
                let state = Arc::clone(&reduced.state);
                let routed = route(self.reader.graph, reduced, true, commit.at_ms);
                let decided = routed.map_err(|(_, fault)| fault);
                self.decided(seq, decided, &commit.edges, &commit.frontier)?;
                state
            }
            Err((superstep, fault)) => {
                let (thread, step) = (self.reader.thread.clone(), Step::new(commit.step));
                let why = match fault {
                    Unreduced::Merge(fault) => reduce_error(thread, step, fault).to_string(),
                    Unreduced::Undeclared(_, field) => {
                        format!("a node writes field \"{field}\", which it does not declare")
                    }
                };
                self.refused(seq, why);
                let mut state = superstep.before;
                self.set(&mut state, &commit.values)?;
                state
            }
        };
        self.stand(commit.step, state, &commit.frontier)
    }

    /// Compares a base with the state that it is of, and goes on with what it says.
    async fn base(&mut self, base: &BaseRecord) -> Result<(), RunError> {
        let reducers = match &self.schema {
            Some(schema) => self.reader.compare(schema, false)?.1,
            None => return Ok(()),
        };
        let recorded = self.reader.base(base, &reducers).await?;
        let Some(position) = &mut self.now else {
            // The oldest base of a pruned log: what is before it is not known.
            return self.begin(base, recorded).await;
        };
        let mut found = Vec::new();
        for field in S::fields() {
            let differs = field.digest_value(&position.state) != field.digest_value(&recorded);
            if differs
                && base
                    .fields
                    .iter()
                    .any(|stored| stored.field == field.name())
            {
                found.push(difference(
                    *field,
                    Seq::new(base.at),
                    &recorded,
                    &position.state,
                ));
            }
        }
        position.state = Arc::new(recorded);
        self.report.differences.extend(found);
        Ok(())
    }

    /// Begins at a base, with the frontier of its position.
    async fn begin(&mut self, base: &BaseRecord, state: S) -> Result<(), RunError> {
        let at = Seq::new(base.at);
        let stored = self.reader.store.records(self.reader.thread, at, 1).await?;
        let position = stored.first().map(|stored| &*stored.record);
        match position {
            Some(Record::Input(input)) => {
                self.stand(input.step, Arc::new(state), &input.frontier)?;
            }
            Some(Record::Commit(commit)) => {
                self.stand(commit.step, Arc::new(state), &commit.frontier)?;
            }
            _ => {
                let found = "it is no position, and a base says that it is";
                return Err(self.reader.corrupt(at, found));
            }
        }
        match position {
            Some(position) => self.wait(position).await,
            None => Ok(()),
        }
    }

    /// Goes on from a recorded frontier.
    fn stand(&mut self, step: u64, state: Arc<S>, next: &[StoredTask]) -> Result<(), RunError> {
        self.now = Some(Position {
            step,
            state,
            frontier: self.tasks(next)?,
            joins: Vec::new(),
            recorded: Vec::new(),
            spare: Vec::new(),
        });
        Ok(())
    }

    fn tasks(&self, next: &[StoredTask]) -> Result<Vec<Task>, RunError> {
        if let Some(schema) = &self.schema {
            self.reader.check_payloads(schema, next)?;
        }
        self.reader.frontier(next)
    }

    /// Has the joins wait that a record says wait there.
    async fn wait(&mut self, at: &Record) -> Result<(), RunError> {
        if let Some(mut position) = self.now.take() {
            position.joins = self.reader.joins(Some(at), &position.frontier).await?;
            self.now = Some(position);
        }
        Ok(())
    }

    fn task(&self, node: &str, index: u32) -> Result<Task, RunError> {
        let found = NodeName::new(node).ok();
        let found = found.and_then(|name| self.reader.graph.by_name.get(&name).copied());
        let Some(node) = found else {
            return Err(RunError::UnknownNode {
                thread: self.reader.thread.clone(),
                at: self.reader.at,
                node: node.to_owned(),
                known: self.reader.graph.names().to_vec(),
            });
        };
        Ok(Task {
            node,
            index,
            via: Via {
                from: None,
                label: "",
            },
            payload: None,
        })
    }

    /// What an input gave up before it was merged.
    fn closed(&self, input: &InputRecord, seq: Seq) -> Result<[Vec<S::Update>; 2], RunError> {
        let closed = input.closed.iter().map(|closed| {
            let outcome = self.reader.recorded(*closed, seq)?;
            self.update(&outcome.changes)
        });
        let closed: Result<Vec<_>, _> = closed.collect();
        let settled = by_task(&input.settled).into_iter();
        let settled: Result<Vec<_>, _> = settled.map(|task| self.update(task)).collect();
        Ok([closed?, settled?])
    }

    fn update(&self, changes: &[crate::store::StoredChange]) -> Result<S::Update, RunError> {
        record::update::<S>(changes, false).map_err(|(field, why)| {
            let program = "an update of the field".to_owned();
            self.reader.mismatch(&field, why.to_string(), program)
        })
    }

    /// Compares the values that were recorded, and takes them.
    fn values(
        &mut self,
        state: &mut Arc<S>,
        values: &[StoredValue],
        seq: Seq,
    ) -> Result<(), RunError> {
        let now = Arc::clone(state);
        self.set(state, values)?;
        for field in S::fields() {
            if field.digest_value(&now) != field.digest_value(state) {
                let found = difference(*field, seq, state, &now);
                self.report.differences.push(found);
            }
        }
        Ok(())
    }

    fn set(&self, state: &mut Arc<S>, values: &[StoredValue]) -> Result<(), RunError> {
        match values {
            [] => Ok(()),
            values => self.reader.values(Arc::make_mut(state), values),
        }
    }

    /// Compares what was decided.
    fn decided(
        &mut self,
        seq: Seq,
        decided: Result<Routed<S>, RouteFault>,
        edges: &[StoredEdge],
        frontier: &[StoredTask],
    ) -> Result<(), RunError> {
        let graph = self.reader.graph;
        let Routed { position, taken } = match decided {
            Ok(routed) => routed,
            Err(fault) => {
                let thread = self.reader.thread;
                let why = join::route_error(graph, thread, Step::new(0), fault);
                self.refused(seq, why.to_string());
                return Ok(());
            }
        };
        let now = record::edges(graph, &taken);
        if *now != *edges {
            self.report.differences.push(Difference::Edges {
                seq,
                recorded: edges.iter().map(record::taken_edge).collect(),
                now: now.iter().map(record::taken_edge).collect(),
            });
        }
        let now = match record::frontier(graph, &position.frontier, false) {
            Ok(now) => now,
            Err((worker, why)) => {
                self.refused(seq, format!("{worker}: {why}"));
                return Ok(());
            }
        };
        if *now != *frontier {
            let tasks = |tasks: &[StoredTask]| {
                let task = |task: &StoredTask| (task.node.to_string(), task.payload.clone());
                tasks.iter().map(task).collect()
            };
            self.report.differences.push(Difference::Next {
                seq,
                recorded: tasks(frontier),
                now: tasks(&now),
            });
        }
        Ok(())
    }

    fn refused(&mut self, seq: Seq, why: String) {
        let refused = Difference::Refused { seq, why };
        self.report.differences.push(refused);
    }
}

/// A field that has two values.
fn difference<S: State>(
    field: &'static dyn crate::state::AnyField<S>,
    seq: Seq,
    recorded: &S,
    now: &S,
) -> Difference {
    let bytes = |state| field.encode_value(state).unwrap_or_default();
    Difference::Field {
        seq,
        field: field.name().to_owned(),
        codec: field.codec().number(),
        recorded: bytes(recorded),
        now: bytes(now),
    }
}
