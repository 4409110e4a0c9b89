//! The driver: the only room that spawns, waits and writes.
//!
//! In come a graph, a store and a command; out come events and a report. Its loop is the picture
//! of the data path: load, plan, execute, reduce, route, commit. It decides nothing that the engine
//! decides, and knows no byte of what a store keeps.

mod ask;
mod base;
mod batch;
mod begun;
mod cached;
mod cancel;
mod caught;
mod close;
mod command;
mod crowd;
mod due;
mod durability;
mod error;
mod execute;
mod handle;
mod inner;
mod join;
mod lift;
mod load;
mod log;
mod look;
mod options;
mod pause;
mod port;
mod queue;
mod recall;
mod recheck;
mod record;
mod recorded;
mod replay;
mod report;
mod retain;
mod retry;
mod runner;
mod schema;
mod settle;
mod short;
mod stop;
mod stream;
mod superstep;
mod travel;
mod wish;

pub use ask::OpenQuestion;
pub use cancel::Cancel;
pub use command::{Answers, Command};
pub use due::{Agenda, Due, WhyDue, agenda};
pub use durability::Durability;
pub use error::RunError;
pub use handle::{Progress, Run};
pub use look::{Checkpoint, EventReader, events, events_until, history, questions};
pub use options::{Busy, RunOptions, Siblings};
pub use recheck::{Difference, ReplayReport};
pub use report::{Ended, Report};
pub use runner::Runner;
pub use schema::{GraphChange, GraphPart};
pub use stream::RunStream;
pub use travel::{AsNode, Moved};
pub use wish::{cancel, drain};
