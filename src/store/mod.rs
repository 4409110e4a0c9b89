//! Stores: where the mileposts of a thread are kept.
//!
//! In come records of names and bytes with a claim on a thread, out go the same records in order.
//! A store never meets a node, a graph or a state type, and never decides what runs.

mod archive;
mod base64;
mod branches;
mod bytes;
mod check;
#[cfg(feature = "conformance")]
pub mod conformance;
mod contract;
#[cfg(any(feature = "sled", feature = "fjall"))]
mod disk;
mod few;
mod finding;
mod frame;
mod guard;
mod inner;
mod kind;
mod layer;
mod line;
mod memory;
mod record;
mod remains;
mod retain;
mod retention;
#[cfg(any(feature = "sled", feature = "fjall"))]
mod rows;
mod rules;
mod salvage;
#[cfg(any(feature = "sled", feature = "fjall"))]
mod split;
mod text;
mod transfer;
#[cfg(all(feature = "window", unix))]
mod window;
mod wish;
#[cfg(any(feature = "sled", feature = "fjall"))]
mod wreck;

#[cfg(any(feature = "sled", feature = "fjall"))]
pub use self::disk::{DiskStore, StoreEngine};
#[cfg(feature = "fjall")]
pub use self::disk::{Fjall, FjallOptions, FjallStore};
#[cfg(all(feature = "encryption", any(feature = "sled", feature = "fjall")))]
pub use self::disk::{KeyError, Keyring};
#[cfg(feature = "sled")]
pub use self::disk::{Sled, SledOptions, SledStore};
#[cfg(all(feature = "window", unix))]
pub use self::window::{Peer, Window};
pub use archive::{Extent, SegmentSize, ThreadArchive};
pub(crate) use branches::{Branches, Place, Tree, at_rest};
pub use check::{Checked, check};
pub use contract::{CheckpointStore, Claim, Head, RunRow, StoreError, Stored, Take, Write};
pub use few::Few;
pub use finding::{Finding, Severity, Spot, Waste};
pub(crate) use frame::body_len;
pub use frame::{
    FORMAT_VERSION, FrameError, FrameHeader, HEADER_BYTES, MAX_BODY_BYTES, ThreadKey,
    decode_record, decode_row, decode_segment, encode_record, encode_row, encode_segment,
    frame_len, reframe,
};
pub use guard::segment_id;
pub use kind::FrameKind;
pub use layer::{Layer, Operation};
pub use line::{DoneLine, EndLine, ExportLine, RecordLine, RunLine, SegmentLine, ThreadLine};
pub use memory::MemoryStore;
pub use record::{
    AnswerRecord, BaseField, BaseRecord, BaseValue, BegunRecord, BranchRecord, CommitRecord,
    CompensationRecord, DiscardedRecord, FailedTask, FieldRecord, InnerRecord, InputRecord,
    JoinRecord, NodeRecord, OutcomeRecord, OutcomeRef, QuestionRecord, Record, SchemaRecord,
    SegmentRef, StartedRecord, Status, StepRecord, StoppedRecord, StoredAttempt, StoredBase,
    StoredChange, StoredEdge, StoredError, StoredJoin, StoredTask, StoredValue, TimerRecord,
};
pub use remains::{Owner, Remains};
pub use retention::{Retain, Retained, Retention, Surplus};
pub use salvage::{Salvage, salvage};
pub use text::Text;
pub use transfer::{Transferred, transfer};
pub use wish::{Asked, Wish, WishKind, WishSender, Wished, Wishes};
#[cfg(any(feature = "sled", feature = "fjall"))]
pub use wreck::Wreck;
