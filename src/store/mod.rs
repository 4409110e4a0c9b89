//! Stores: where the mileposts of a thread are kept.
//!
//! In come records of names and bytes with a claim on a thread, out go the same records in order.
//! A store never meets a node, a graph or a state type, and never decides what runs.

mod contract;
mod guard;
mod memory;
mod record;
mod retain;

pub use contract::{CheckpointStore, Claim, Head, RunRow, StoreError, Stored, Take, Write};
pub use guard::segment_id;
pub use memory::MemoryStore;
pub use record::{
    AnswerRecord, BaseField, BaseRecord, BaseValue, BranchRecord, CommitRecord, CompensationRecord,
    FailedTask, FieldRecord, InnerRecord, InputRecord, OutcomeRecord, OutcomeRef, QuestionRecord,
    Record, SchemaRecord, SegmentRef, StartedRecord, Status, StepRecord, StoppedRecord,
    StoredAttempt, StoredBase, StoredChange, StoredEdge, StoredError, StoredJoin, StoredTask,
    StoredValue, TimerRecord,
};
