//! Milepost: an explicit state-graph execution engine.
//!
//! An agent is declared as a typed graph of nodes over one typed state. Reducers merge what nodes
//! return; exits, branches and fan-outs say what runs next; a driver walks the graph and leaves a
//! milepost, a durable checkpoint, at every node boundary, so that a killed process goes on from
//! the last finished node. The same graph is drawn as DOT.
//!
//! # A graph
//!
//! ```
//! use milepost::{Add, Append, Command, Context, End, Exits, Graph, NodeError, Runner, Snapshot, State, ThreadId};
//!
//! /// What the conversation knows.
//! #[derive(Clone, Debug, Default, State)]
//! pub struct Chat {
//!     /// Everything said so far, oldest first.
//!     #[reduce(Append)]
//!     pub messages: Vec<String>,
//!     /// Tokens spent.
//!     #[reduce(Add)]
//!     pub tokens: u64,
//!     /// No attribute: the last write replaces; two writers in one superstep are an error.
//!     pub answer: Option<String>,
//! }
//!
//! #[derive(Clone, Copy, Exits)]
//! pub enum AfterModel {
//!     CallTools,
//!     Answered,
//! }
//!
//! async fn model(chat: Snapshot<Chat>, _: Context) -> Result<(ChatUpdate, AfterModel), NodeError> {
//!     Ok(match chat.messages.last() {
//!         Some(seen) if seen.starts_with("tool:") => {
//!             (Chat::update().answer(Some(seen.clone())).tokens(7), AfterModel::Answered)
//!         }
//!         _ => (Chat::update().messages(vec!["call: clock".into()]).tokens(5), AfterModel::CallTools),
//!     })
//! }
//!
//! async fn tools(_: Snapshot<Chat>, _: Context) -> Result<ChatUpdate, NodeError> {
//!     Ok(Chat::update().messages(vec!["tool: it is noon".into()]))
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut g = Graph::builder("react");
//! let model = g.node("model", model);
//! let tools = g.node("tools", tools);
//! g.start(model);
//! g.wire(model, |exit| match exit {
//!     AfterModel::CallTools => tools.into(),
//!     AfterModel::Answered => End.into(),
//! });
//! g.edge(tools, model);
//! let runner = Runner::new(g.build()?);
//!
//! let thread = ThreadId::new("noon")?;
//! let start = Command::start(Chat::update().messages(vec!["what time is it?".into()]));
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
//! let report = runtime.block_on(runner.run(&thread, start))?;
//! assert_eq!(report.state.answer.as_deref(), Some("tool: it is noon"));
//! assert_eq!(report.state.tokens, 12);
//! # Ok(()) }
//! ```
//!
//! # The data path of one run
//!
//! ```text
//!      caller: run / stream / step (thread, command)        Command: start │ go on
//!                  │
//!  1 load      store: latest position of the thread ──────► Position { step, state, frontier, recorded }
//!                  │
//!  2 plan      engine::plan(position) ────────────────────► Superstep { before, tasks } │ Done
//!                  │
//!  3 execute   every task that is left, by its policies ──► outcomes │ stopped │ failed
//!                  │                                        recorded as each one ends
//!  4 reduce    engine::reduce(superstep, outcomes) ───────► Reduced { after, exits }
//!                  │
//!  5 route     engine::route(graph, reduced) ─────────────► Position { step + 1, state, frontier }
//!                  │
//!  6 commit    one atomic write: what changed, exits taken, next frontier, status
//!                  └────────────── next: back to 2 with that position
//! ```
//!
//! # What is promised
//!
//! - When a task's end has been reported ([`EventKind::TaskFinished`]), no crash makes it run
//!   again or takes its update away; where a run does not wait for its disk ([`Durability`]), that is
//!   so once [`EventKind::Durable`] says it. A node that is killed in its middle runs again: that is *at
//!   least once*, and [`Context::idempotency_key`] is the tool against doing an outside effect twice.
//!   One that is [`Effect::Irreversible`] does not: the thread pauses and asks whether it ran.
//! - The same graph, input and state give the same next state, whatever the timing, the number of
//!   threads, the crashes in between and the door used. Updates are merged in task-path order.
//! - What can be wrong is wrong early: at compile time, or in [`Builder::build`] with names.
//!
//! A panic of a node, reducer or branch becomes that task's error, for which programs must be
//! built with `panic = "unwind"`, the default.
//!
//! # Features
//!
//! | feature | brings | default |
//! | --- | --- | --- |
//! | `sled` | [`store::SledStore`], the durable store | yes |
//! | `fjall` | `store::FjallStore`, a second durable store | no |
//! | `window` | [`store::Window`] and [`store::Peer`]: a store in use is looked at (Unix) | yes |
//! | `conformance` | the suite that every store must pass, as a public module | no |
//! | `cli` | the commands, for a binary of one's own | no |
//! | `graphs` | the worked graphs of the `milepost` binary | no |

// The derives name the crate by its public name, also in the crate's own tests.
#[allow(
    unused_extern_crates,
    reason = "used only where the crate itself derives"
)]
extern crate self as milepost;

pub mod agent;
#[cfg(feature = "cli")]
pub mod cli;
pub mod dot;
mod engine;
mod event;
mod graph;
mod ids;
mod node;
mod policy;
mod run;
mod state;
pub mod store;
mod sync;

pub use event::{ErrorText, Event, EventKind, FieldUpdate, TakenEdge, Try};
pub use graph::{
    AskView, BuildError, Builder, EdgeView, End, FieldView, Fields, Graph, GraphView, IntoHandler,
    IntoTarget, JoinRef, JoinView, Joining, Members, NodeKind, NodeRef, NodeView, OneWay, Place,
    Point, Problem, Settled, Target, Wiring, WorkerRef,
};
pub use ids::{
    Branch, Epoch, IdError, MAX_ID_BYTES, NodeName, QuestionId, RunId, Seq, Step, TaskLevel,
    TaskPath, ThreadId,
};
pub use milepost_derive::{Exits, State};
pub use node::{
    AfterCrash, Ask, Context, Effect, ErrorClass, Exits, Failure, IntoOutput, MayHaveRun,
    NoQuestion, Node, NodeError, Output, Policy, Question, Retry, RunContext, Unfinished,
    WhyUnfinished,
};
pub use policy::{CacheKey, Call, Layer, MemoryCache, Next, NodeCache};
pub use run::{
    Agenda, Answers, AsNode, Busy, Cancel, Checkpoint, Command, Difference, Due, Durability, Ended,
    EventReader, GraphChange, GraphPart, Moved, OpenQuestion, Progress, ReplayReport, Report, Run,
    RunError, RunOptions, RunStream, Runner, Siblings, WhyDue, agenda, cancel, drain, events,
    events_until, history, questions,
};
pub use state::{
    Add, Append, ByKey, Change, Codec, CodecError, Ephemeral, Field, Keep, KeepBest, KeepFirst,
    Keyed, Layout, Max, Merge, MergeFault, Min, Or, Ranked, ReduceFault, Reducer, Replace, Shape,
    ShapeContent, ShapeField, ShapeVariant, Snapshot, State, Union, Updates,
};

/// What the derives call. Not part of the public contract.
#[doc(hidden)]
pub mod plumbing {
    pub use crate::state::{
        Accessors, AnyField, Asked, Both, Comparable, EncodedBase, EncodedChange, Fitting,
        Incomparable, ItemReader, ItemWriter, MergeFault, Merges, MigrateFault, Older, ReducerInfo,
        Slot, Staged, fits, lift, settle, settle_field, show_update, stage, stage_field,
    };
}

/// The example in the README, as a test.
#[cfg(all(doctest, feature = "sled"))]
#[doc = include_str!("../README.md")]
#[derive(Debug)]
pub struct Readme;

/// The code in the guide, as tests.
#[cfg(all(doctest, feature = "sled", feature = "cli"))]
#[doc = include_str!("../docs/guide/src/first-graph.md")]
#[doc = include_str!("../docs/guide/src/state.md")]
#[doc = include_str!("../docs/guide/src/exits.md")]
#[doc = include_str!("../docs/guide/src/fan-out.md")]
#[doc = include_str!("../docs/guide/src/langgraph.md")]
#[doc = include_str!("../docs/guide/src/running.md")]
#[doc = include_str!("../docs/guide/src/questions.md")]
#[doc = include_str!("../docs/guide/src/joins.md")]
#[doc = include_str!("../docs/guide/src/inside.md")]
#[doc = include_str!("../docs/guide/src/failure.md")]
#[doc = include_str!("../docs/guide/src/subgraphs.md")]
#[derive(Debug)]
pub struct Guide;
