//! The schema record: what a thread was written with, beside what this program has.
//!
//! In come a stored schema and a graph, out comes what differs: what is no harm, and the typed error
//! that shows both sides for what cannot be read. Compared are names and shapes, before any byte of a
//! value is decoded.

use std::fmt;

use super::RunError;
use super::replay::Reader;
use crate::graph::{Compiled, FieldView, GraphView, JoinView, NodeView};
use crate::ids::ThreadId;
use crate::state::{State, versions};
use crate::store::{
    CheckpointStore, FieldRecord, Head, JoinRecord, NodeRecord, Record, SchemaRecord, StoredTask,
};

/// One thing in which a graph is another than it was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphChange {
    /// The graph has it now.
    Added {
        /// What it is.
        part: GraphPart,
        /// Its name.
        name: String,
    },
    /// The graph had it.
    Dropped {
        /// What it was.
        part: GraphPart,
        /// Its name.
        name: String,
    },
    /// It is another one now.
    Changed {
        /// What it is.
        part: GraphPart,
        /// Its name.
        name: String,
        /// What it was.
        stored: String,
        /// What it is now.
        program: String,
    },
    /// All of these are as they were, but what leads where is not, or a graph inside of a node.
    Wiring,
}

/// What a graph is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GraphPart {
    /// A node.
    Node,
    /// A join.
    Join,
    /// A field of the state.
    Field,
}

impl fmt::Display for GraphPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GraphPart::Node => "node",
            GraphPart::Join => "join",
            GraphPart::Field => "field",
        })
    }
}

impl fmt::Display for GraphChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GraphChange::Added { part, name } => write!(f, "{part} \"{name}\" is new"),
            GraphChange::Dropped { part, name } => write!(f, "{part} \"{name}\" is gone"),
            GraphChange::Changed {
                part,
                name,
                stored,
                program,
            } => write!(f, "{part} \"{name}\" was {stored}, and is {program}"),
            GraphChange::Wiring => {
                f.write_str("the edges lead elsewhere, or a graph inside is another one")
            }
        }
    }
}

impl GraphChange {
    /// What is another now, given what a thread was written with and a graph of another fingerprint.
    pub fn between(stored: &SchemaRecord, graph: &GraphView) -> Vec<GraphChange> {
        let nodes: Vec<_> = graph.nodes.iter().map(node_record).collect();
        let joins = graph.joins.iter();
        let joins: Vec<_> = joins.map(|join| join_record(join, &graph.nodes)).collect();
        let fields: Vec<_> = graph.fields.iter().map(field_record).collect();
        let mut changes = Vec::new();
        let named = |node: &NodeRecord| (node.name.clone(), node_text(node));
        compare(GraphPart::Node, &stored.nodes, &nodes, named, &mut changes);
        let named = |join: &JoinRecord| (join.name.clone(), join_text(join));
        compare(GraphPart::Join, &stored.joins, &joins, named, &mut changes);
        let named = |field: &FieldRecord| (field.name.clone(), field_text(field));
        compare(
            GraphPart::Field,
            &stored.fields,
            &fields,
            named,
            &mut changes,
        );
        if changes.is_empty() {
            changes.push(GraphChange::Wiring);
        }
        changes
    }
}

/// Compares parts of one kind by their names and what is to be said of them.
fn compare<T>(
    part: GraphPart,
    stored: &[T],
    program: &[T],
    named: impl Fn(&T) -> (String, String),
    changes: &mut Vec<GraphChange>,
) {
    let mut left: std::collections::BTreeMap<_, _> = program.iter().map(&named).collect();
    for (name, stored) in stored.iter().map(&named) {
        match left.remove(&name) {
            None => changes.push(GraphChange::Dropped { part, name }),
            Some(program) if program == stored => {}
            Some(program) => changes.push(GraphChange::Changed {
                part,
                name,
                stored,
                program,
            }),
        }
    }
    let added = left.into_keys();
    changes.extend(added.map(|name| GraphChange::Added { part, name }));
}

fn node_text(node: &NodeRecord) -> String {
    let mut text = format!("a {} node", node.kind);
    if let Some(payload) = &node.payload {
        text.push_str(&format!(", a worker of {payload}"));
    }
    if !node.exits.is_empty() {
        text.push_str(&format!(", left by {}", node.exits.join(", ")));
    }
    if let Some(answer) = &node.answer {
        text.push_str(&format!(", answered with {answer}"));
    }
    text
}

fn join_text(join: &JoinRecord) -> String {
    format!("{} of {}", join.rule, join.members.join(", "))
}

fn field_text(field: &FieldRecord) -> String {
    let required = if field.required { "required, " } else { "" };
    format!(
        "{required}{} (codec {}), merged by {} version {}",
        field.shape, field.codec, field.reducer, field.reducer_version
    )
}

/// The program's schema, as it is stored.
pub(crate) fn schema<S: State>(graph: &Compiled<S>) -> SchemaRecord {
    let view = &graph.view;
    let joins = view.joins.iter();
    SchemaRecord {
        graph: view.name.clone(),
        fingerprint: graph.fingerprint,
        state: S::NAME.to_owned(),
        version: S::VERSION,
        fields: view.fields.iter().map(field_record).collect(),
        nodes: view.nodes.iter().map(node_record).collect(),
        joins: joins.map(|join| join_record(join, &view.nodes)).collect(),
    }
}

fn field_record(field: &FieldView) -> FieldRecord {
    FieldRecord {
        name: field.name.to_owned(),
        shape: field.shape.clone(),
        codec: field.codec,
        reducer: field.reducer.id.to_owned(),
        reducer_version: field.reducer.version.unwrap_or(0),
        required: field.required,
    }
}

fn node_record(node: &NodeView) -> NodeRecord {
    NodeRecord {
        name: node.name.as_str().to_owned(),
        kind: node.kind.name().to_owned(),
        exits: node.exits.iter().map(|exit| (*exit).to_owned()).collect(),
        payload: node.payload_shape.clone(),
        answer: node.asks.as_ref().map(|asks| asks.shape.clone()),
    }
}

fn join_record(join: &JoinView, nodes: &[NodeView]) -> JoinRecord {
    let member = |node: &usize| nodes[*node].name.as_str().to_owned();
    JoinRecord {
        name: join.name.as_str().to_owned(),
        members: join.members.iter().map(member).collect(),
        rule: join.rule.clone(),
    }
}

/// A field whose reducer is another one than when the schema was stored.
pub(super) struct OtherReducer {
    pub(super) field: &'static str,
    /// The name under which it is stored.
    pub(super) stored_as: String,
    pub(super) stored: String,
    pub(super) program: String,
}

/// Whether records of this schema are read with an older state type, and lifted.
pub(super) fn is_older<S: State>(schema: &SchemaRecord) -> bool {
    schema.version < S::VERSION && versions::<S>().len() > 1
}

impl<S: State> Reader<'_, S> {
    /// Compares the stored schema with the program's. Returns whether they differ, and the reducers
    /// that are others now.
    pub(super) fn compare(
        &self,
        stored: &SchemaRecord,
        replays: bool,
    ) -> Result<(bool, Vec<OtherReducer>), RunError> {
        let (changed, reducers) = self.compare_fields(stored, &self.graph.view.fields, replays)?;
        let changed = changed || stored.fingerprint != self.graph.fingerprint;
        Ok((changed, reducers))
    }

    /// Refuses tasks whose payloads have another shape than this program's: whether their bytes
    /// decode says little.
    pub(super) fn check_payloads(
        &self,
        stored: &SchemaRecord,
        frontier: &[StoredTask],
    ) -> Result<(), RunError> {
        let mut last = None;
        for task in frontier.iter().filter(|task| task.payload.is_some()) {
            // All tasks of one fan-out stand side by side.
            if last.replace(&task.node) == Some(&task.node) {
                continue;
            }
            let of_program = self.graph.view.nodes.iter();
            let mut of_program = of_program.filter(|node| node.name.as_str() == task.node);
            let program = of_program
                .next()
                .and_then(|node| node.payload_shape.as_ref());
            let mut of_store = stored.nodes.iter().filter(|node| node.name == task.node);
            let was = of_store.next().and_then(|node| node.payload.as_ref());
            if let (Some(program), Some(was)) = (program, was)
                && program != was
            {
                let (stored, program) = (payload_text(was), payload_text(program));
                return Err(self.mismatch(&task.node, stored, program));
            }
        }
        Ok(())
    }
}

fn payload_text(shape: &str) -> String {
    format!("a worker of {shape}")
}

impl<S: State, G> Reader<'_, S, G> {
    /// Compares stored fields with those of the state's type. A field that was added has its
    /// default, one that was dropped is ignored, one that was renamed is found under its old name;
    /// anything else must be the same, except for reducers where no update is merged again.
    pub(super) fn compare_fields(
        &self,
        stored: &SchemaRecord,
        fields: &[FieldView],
        replays: bool,
    ) -> Result<(bool, Vec<OtherReducer>), RunError> {
        if stored.version > S::VERSION {
            let (was, is) = (stored.version, S::VERSION);
            let (was, is) = (format!("version {was}"), format!("version {is}"));
            return Err(self.mismatch(S::NAME, was, is));
        }
        let mut reducers = Vec::new();
        let mut changed = stored.fields.len() != fields.len() || stored.version != S::VERSION;
        for field in fields {
            let is_called = |old: &&FieldRecord| {
                old.name == field.name || field.aliases.contains(&old.name.as_str())
            };
            let mut found = stored.fields.iter().filter(is_called);
            let Some(old) = found.next() else {
                if field.required {
                    let program = format!("required, {}", field.shape);
                    return Err(self.mismatch(field.name, "no such field".to_owned(), program));
                }
                changed = true;
                continue;
            };
            if let Some(second) = found.next() {
                let stored = format!("both \"{}\" and \"{}\"", old.name, second.name);
                let program = format!("one field, which was called {}", field.aliases.join(", "));
                return Err(self.mismatch(field.name, stored, program));
            }
            changed |= old.name != field.name;
            let describe = |codec: u8, shape: &str, version: u32| {
                format!("{shape} (codec {codec}), version {version}")
            };
            if old.shape != field.shape || old.codec != field.codec {
                return Err(self.mismatch(
                    field.name,
                    describe(old.codec, &old.shape, stored.version),
                    describe(field.codec, &field.shape, S::VERSION),
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
                    stored_as: old.name.clone(),
                    stored,
                    program,
                });
            }
        }
        Ok((changed, reducers))
    }
}

/// Refuses a thread that is to go on and was written with another version of its graph.
pub(super) async fn check_pin<S: State>(
    store: &dyn CheckpointStore,
    graph: &Compiled<S>,
    thread: &ThreadId,
    head: &Head,
) -> Result<(), RunError> {
    if head.fingerprint == graph.fingerprint {
        return Ok(());
    }
    let found = store.records(thread, head.schema, 1).await?;
    let changes = match found.first().map(|stored| &*stored.record) {
        Some(Record::Schema(schema)) => GraphChange::between(schema, &graph.view),
        _ => Vec::new(),
    };
    Err(RunError::GraphVersionMismatch {
        thread: thread.clone(),
        at: head.seq,
        stored: head.fingerprint,
        program: graph.fingerprint,
        changes,
    })
}
