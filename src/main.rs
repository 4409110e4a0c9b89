//! The `milepost` program: the commands over the worked graphs.

use std::process::ExitCode;

#[path = "../graphs/mod.rs"]
pub mod graphs;

fn main() -> ExitCode {
    milepost::cli::main(graphs::all())
}
