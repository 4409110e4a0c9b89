//! The commands, for our own program and for a program of one's own.
//!
//! In come the words of a command line and a list of graphs; out go lines for people or JSON for
//! machines, and an exit code. A name is parsed once, here. This room uses what any program could
//! use: it decides nothing about a run, and knows no graph but those it is given.
//!
//! A program of one's own has all commands for its graphs in three lines. It needs the feature `cli`
//! and no more: each field of a state is a flag of `run`, with the field's comment as its help.
//!
//! ```
//! use milepost::cli::{self, Entry};
//! use milepost::{BuildError, Context, End, Graph, NodeError, Snapshot, State};
//!
//! /// What is known.
//! #[derive(Clone, Debug, Default, State)]
//! struct Count {
//!     /// Where to begin.
//!     from: u64,
//! }
//!
//! fn count() -> Result<Graph<Count>, BuildError> {
//!     let mut g = Graph::builder("count");
//!     let one = g.node("one", async |count: Snapshot<Count>, _: Context| {
//!         Ok::<_, NodeError>(Count::update().from(count.from + 1))
//!     });
//!     g.start(one);
//!     g.edge(one, End);
//!     g.build()
//! }
//!
//! let words = ["program", "--store", "memory", "run", "count", "--from", "4"];
//! let exit = cli::run([Entry::of(count())], words);
//! assert_eq!(exit, cli::Exit::Done);
//! ```
//!
//! An input that needs checks or work of its own is made from flags of one's own. For those the
//! program depends on clap 4 with its `derive` itself:
//!
//! ```
//! # use milepost::cli::{self, Entry, Input, InputError};
//! # use milepost::{BuildError, Context, End, Graph, NodeError, Snapshot, State};
//! # #[derive(Clone, Debug, Default, State)]
//! # struct Count {
//! #     from: u64,
//! # }
//! # fn count() -> Result<Graph<Count>, BuildError> {
//! #     let mut g = Graph::builder("count");
//! #     let one = g.node("one", async |count: Snapshot<Count>, _: Context| {
//! #         Ok::<_, NodeError>(Count::update().from(count.from + 1))
//! #     });
//! #     g.start(one);
//! #     g.edge(one, End);
//! #     g.build()
//! # }
//! /// Counts one further.
//! #[derive(clap::Args)]
//! struct CountArgs {
//!     /// The file that says where to begin.
//!     #[arg(long)]
//!     from: std::path::PathBuf,
//! }
//!
//! impl Input for CountArgs {
//!     type State = Count;
//!     fn input(self) -> Result<CountUpdate, InputError> {
//!         let number = std::fs::read_to_string(self.from)?;
//!         Ok(Count::update().from(number.trim().parse()?))
//!     }
//! }
//!
//! let words = ["program", "--store", "memory", "run", "count", "--from", "nosuch"];
//! let exit = cli::run([Entry::new::<CountArgs>(count())], words);
//! assert_eq!(exit, cli::Exit::Usage);
//! ```

mod answer;
mod archive;
mod args;
mod ask;
mod beside;
mod cancel;
mod compact;
mod data;
mod demo;
mod diff;
mod doctor;
mod drive;
mod entry;
mod exit;
mod export;
mod fit;
mod flags;
mod follow;
mod form;
mod graph;
mod history;
mod import;
mod in_use;
mod inside;
mod json;
mod keep;
mod laid;
mod line;
mod lines;
mod list;
mod live;
mod look;
mod new;
mod out;
mod path;
mod picture;
mod probe;
mod read;
mod region;
mod repair;
mod retry;
mod rewrite;
mod shell;
mod show;
mod signal;
mod size;
mod source;
mod travel;
mod unknown;
mod when;
mod worker;
mod wrong;

use std::ffi::OsString;
use std::process::ExitCode;

pub use entry::{Entry, Input, InputError};
pub use exit::Exit;

/// The whole `main` of a program: the commands over these graphs, for this process's own words.
pub fn main(entries: impl IntoIterator<Item = Entry>) -> ExitCode {
    run(entries, std::env::args_os()).into()
}

/// Runs one command line; the first word is the program's name. No panic leaves it.
pub fn run<I, W>(entries: impl IntoIterator<Item = Entry>, words: I) -> Exit
where
    I: IntoIterator<Item = W>,
    W: Into<OsString>,
{
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    shell::run(entries.into_iter().collect(), words)
}
