//! What one step costs, by shape of graph and by store.
//!
//! `cargo bench --bench engine -- WORKLOAD STORE SIZE [BYTES]` does one thing and prints one line of
//! JSON. Without arguments it does a list of them, each in a process of its own, because the peak of
//! memory belongs to one run.
//!
//! - workloads: `seq` (SIZE nodes in a row), `cycle` (two nodes, SIZE steps), `fan` (SIZE workers and a
//!   node that counts), `react` (SIZE rounds of an agent and a tool, messages of BYTES), `subgraph` (a
//!   fan-out of SIZE graphs of 12 steps), `threads` (SIZE threads of 100 steps at once), `resume` (the
//!   head of a thread of SIZE steps)
//! - stores: `none`, `mem`, `sled`; with `+counted` also the bytes that the store is given; with `+batch`
//!   (of sled, flushed and synced) or `+append` (to a file, synced) also the time of the same bytes,
//!   written bare after each write of the store
//! - `BENCH_DATA`: the folder for stores; default `target/bench-data`
//! - `BENCH_COLD=1`: no run before the measured one, and no repeats
//! - `BENCH_RUNTIME=current`: the runtime of one thread instead of that of several

mod bare;
mod clock;
mod counted;
mod graphs;
mod job;
mod nested;
mod stores;
mod threads;

use std::path::Path;
use std::process;

use self::graphs::{Chat, Laps, Messages, Small};
use self::job::{Job, Outcome, Run};

/// Workload, store, size, bytes of a message: what is done without arguments.
const ALL: &[(&str, &str, usize, usize)] = &[
    ("seq", "none", 1_000, 0),
    ("seq", "none", 100_000, 0),
    ("seq", "mem", 1_000, 0),
    ("seq", "mem", 100_000, 0),
    ("seq", "sled", 1_000, 0),
    ("cycle", "none", 1_000_000, 0),
    ("cycle", "mem", 100_000, 0),
    ("fan", "none", 1_000, 0),
    ("fan", "none", 100_000, 0),
    ("fan", "mem", 1_000, 0),
    ("fan", "mem", 100_000, 0),
    ("fan", "sled", 1_000, 0),
    ("react", "none", 100, 200),
    ("react", "none", 10_000, 200),
    ("react", "mem", 100, 200),
    ("react", "mem", 10_000, 200),
    ("react", "mem+counted", 10_000, 200),
    ("react", "sled", 100, 200),
    ("react", "sled+batch", 100, 200),
    ("subgraph", "none", 100, 0),
    ("subgraph", "mem", 100, 0),
    ("threads", "none", 1_000, 0),
    ("threads", "mem", 1_000, 0),
    ("threads", "sled", 64, 0),
    ("resume", "mem", 10_000, 0),
    ("resume", "sled", 10_000, 0),
];

fn main() -> Outcome<()> {
    match Job::from_args()? {
        Some(job) => job.measure(once),
        None => all(),
    }
}

fn all() -> Outcome<()> {
    let program = std::env::current_exe()?;
    for (workload, store, size, bytes) in ALL {
        let status = process::Command::new(&program)
            .args([*workload, *store, &size.to_string(), &bytes.to_string()])
            .status()?;
        if !status.success() {
            return Err(format!("{workload} {store} {size} failed: {status}").into());
        }
    }
    Ok(())
}

/// Does the work once, in a fresh store.
async fn once(job: &Job, folder: &Path) -> Outcome<Run> {
    let n = job.size;
    let counts_to = |end: &Small| end.n == n as i64;
    match job.workload.as_str() {
        "seq" => {
            let graph = graphs::seq(n)?;
            job.drive(graph, n, Small::start(), counts_to, folder).await
        }
        "cycle" => {
            let graph = graphs::cycle(n as i64)?;
            job.drive(graph, n, Small::start(), counts_to, folder).await
        }
        "fan" => {
            let check = |end: &Small| counts_to(end) && end.v.iter().copied().eq(0..n as i64);
            job.drive(graphs::fan(n)?, n + 2, Small::update(), check, folder)
                .await
        }
        "react" => {
            let laps = Laps::default();
            let graph = graphs::react(n, Messages::new(job.bytes), laps.clone())?;
            let check = |end: &Chat| end.messages.len() == 2 * n;
            let run = job
                .drive(graph, 2 * n, Chat::update(), check, folder)
                .await?;
            Ok(Run {
                ends: laps.ends(),
                ..run
            })
        }
        "subgraph" => {
            let check = |end: &nested::Jokes| end.jokes.len() == n;
            let steps = nested::STEPS * n;
            job.drive(nested::jokes()?, steps, nested::start(n), check, folder)
                .await
        }
        "threads" => threads::at_once(job, folder).await,
        "resume" => threads::resume(job, folder).await,
        other => Err(format!("no workload {other}: benches/engine/main.rs lists them").into()),
    }
}
