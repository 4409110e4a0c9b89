//! What one step costs, by shape of graph and by store.
//!
//! `cargo bench --bench engine -- WORKLOAD STORE [N]` runs one workload once and prints one line of
//! JSON. Without arguments it runs all pairs, each in a process of its own, because the peak of
//! memory belongs to one run.
//!
//! - workloads: `seq` (N nodes in a row), `fan` (N workers and a reduce), `react` (N rounds of an
//!   agent and a tool), `cycle` (two nodes, N steps)
//! - stores: `none`, `mem`, `sled`
//! - `BENCH_DATA`: the folder for stores; default `target/bench-data`
//! - `BENCH_WARM_UP=0`: no run before the measured one
//! - `BENCH_RUNTIME=current`: the runtime of one thread instead of that of several

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, Instant};

use milepost::store::{MemoryStore, SledStore};
use milepost::{
    Append, Command, Context, End, Exits, Graph, NodeError, RunOptions, Runner, Snapshot, State,
    ThreadId,
};
use serde::Serialize;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Bytes of one message.
const MESSAGE_BYTES: usize = 200;
/// Elements of the small state's list.
const LIST_LEN: i64 = 16;

/// Workload, store, size. The long ones show whether a step costs more in a long run (`cycle`), or
/// in a large graph (`seq` with 100,000 nodes).
const ALL: &[(&str, &str, usize)] = &[
    ("seq", "none", 1_000),
    ("seq", "mem", 1_000),
    ("seq", "sled", 1_000),
    ("fan", "none", 1_000),
    ("fan", "mem", 1_000),
    ("fan", "sled", 1_000),
    ("react", "none", 100),
    ("react", "mem", 100),
    ("react", "sled", 100),
    ("cycle", "none", 1_000),
    ("cycle", "none", 100_000),
    ("cycle", "mem", 1_000),
    ("cycle", "mem", 100_000),
    ("seq", "none", 100_000),
    ("seq", "mem", 100_000),
];

/// What a message is made of.
const LETTERS: &[u8; 26] = b"abcdefghijklmnopqrstuvwxyz";

/// A counter and a short list.
#[derive(Clone, Debug, Default, State)]
struct Small {
    n: i64,
    #[reduce(Append)]
    v: Vec<i64>,
}

/// A conversation.
#[derive(Clone, Debug, Default, State)]
struct Chat {
    n: usize,
    #[reduce(Append)]
    messages: Vec<String>,
}

/// One measured run.
#[derive(Serialize)]
struct Line {
    peer: &'static str,
    version: &'static str,
    workload: String,
    store: String,
    steps: usize,
    micros_per_step: f64,
    total_ms: f64,
    peak_rss_kb: u64,
    disk_bytes: u64,
    note: String,
}

fn main() -> Outcome<()> {
    // Cargo adds `--bench` of its own.
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    match args.as_slice() {
        [] => all(),
        [workload, store] => one(workload, store, default_size(workload)?),
        [workload, store, n] => one(workload, store, n.parse()?),
        _ => Err("usage: engine [WORKLOAD STORE [N]]".into()),
    }
}

fn default_size(workload: &str) -> Outcome<usize> {
    match workload {
        "seq" | "fan" => Ok(1_000),
        "react" => Ok(100),
        "cycle" => Ok(100_000),
        other => Err(format!("no workload {other}: seq, fan, react, cycle").into()),
    }
}

fn all() -> Outcome<()> {
    let program = std::env::current_exe()?;
    for (workload, store, n) in ALL {
        let status = process::Command::new(&program)
            .args([*workload, *store, &n.to_string()])
            .status()?;
        if !status.success() {
            return Err(format!("{workload} {store} {n} failed: {status}").into());
        }
    }
    Ok(())
}

fn one(workload: &str, store: &str, n: usize) -> Outcome<()> {
    let current = std::env::var("BENCH_RUNTIME").is_ok_and(|name| name == "current");
    let mut runtime = if current {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let data = Data::new(workload, store)?;
    // As under `#[tokio::main]`: the run is awaited on the program's own thread.
    let (steps, elapsed) = runtime
        .enable_all()
        .build()?
        .block_on(measure(workload, store, n, &data))?;
    let line = Line {
        peer: "milepost",
        version: env!("CARGO_PKG_VERSION"),
        workload: workload.to_owned(),
        store: store.to_owned(),
        steps,
        micros_per_step: rounded(elapsed.as_secs_f64() * 1e6 / steps as f64),
        total_ms: rounded(elapsed.as_secs_f64() * 1e3),
        peak_rss_kb: peak_rss_kb(),
        disk_bytes: bytes_below(&data.0),
        note: note(store, current),
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(&line)?)?;
    Ok(())
}

fn note(store: &str, current: bool) -> String {
    let kept = match store {
        "none" => "nothing stored",
        "mem" => "every step kept as in a durable store, in memory",
        _ => "every step synced to disk before the next one starts",
    };
    let warm = if warm_up() { "warm" } else { "cold" };
    let runtime = if current { ", one thread" } else { "" };
    format!("{kept}; {warm}{runtime}")
}

/// The store's folder, which is removed with it.
struct Data(PathBuf);

impl Data {
    fn new(workload: &str, store: &str) -> Outcome<Self> {
        let root = std::env::var("BENCH_DATA").unwrap_or_else(|_| "target/bench-data".to_owned());
        let folder = Path::new(&root).join(format!("{workload}-{store}-{}", process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        // A folder that is left over harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn measure(workload: &str, store: &str, n: usize, data: &Data) -> Outcome<(usize, Duration)> {
    match workload {
        "seq" => {
            let input = || Small::update().n(0).v((0..LIST_LEN).collect());
            let check = |end: &Small| end.n == n as i64 && end.v.len() == LIST_LEN as usize;
            timed(seq(n)?, input, check, n, store, data).await
        }
        "fan" => {
            let check = |end: &Small| end.n == n as i64 && end.v.iter().copied().eq(0..n as i64);
            timed(fan(n)?, Small::update, check, n + 2, store, data).await
        }
        "react" => {
            let check = |end: &Chat| end.messages.len() == 2 * n;
            timed(react(n)?, Chat::update, check, 2 * n, store, data).await
        }
        "cycle" => {
            let steps = n & !1;
            let check = |end: &Small| end.n == steps as i64;
            timed(
                cycle(steps as i64)?,
                Small::update,
                check,
                steps,
                store,
                data,
            )
            .await
        }
        other => Err(format!("no workload {other}").into()),
    }
}

/// Runs a graph once without measuring and once with, each in a store of its own. Building the
/// graph, opening the store and closing it are outside the measured time; merging the input is
/// inside.
async fn timed<S: State>(
    graph: Graph<S>,
    input: impl Fn() -> S::Update,
    check: impl Fn(&S) -> bool,
    steps: usize,
    store: &str,
    data: &Data,
) -> Outcome<(usize, Duration)> {
    // What is written is not read back and compared here: others do not do that either.
    let options = RunOptions::new()
        .step_limit(steps as u64 + 2)
        .check_round_trip(false);
    let runner = Runner::new(graph).options(options);
    let thread = ThreadId::new("measured")?;
    if warm_up() {
        let runner = with_store(runner.clone(), store, &data.0.join("warm-up"))?;
        let report = runner.run(&thread, Command::start(input())).await?;
        assert!(check(&report.state), "the result of the warm-up is wrong");
        drop(runner);
        let _ = std::fs::remove_dir_all(data.0.join("warm-up"));
    }
    let runner = with_store(runner, store, &data.0.join("store"))?;
    let command = Command::start(input());
    let start = Instant::now();
    let report = runner.run(&thread, command).await?;
    let elapsed = start.elapsed();
    assert!(
        report.ended.is_finished(),
        "it ended early: {}",
        report.ended
    );
    assert!(check(&report.state), "the result is wrong");
    Ok((steps, elapsed))
}

fn with_store<S: State>(runner: Runner<S>, store: &str, folder: &Path) -> Outcome<Runner<S>> {
    Ok(match store {
        "none" => runner,
        "mem" => runner.store(MemoryStore::new()),
        "sled" => runner.store(SledStore::open(folder)?),
        #[cfg(feature = "fjall")]
        "fjall" => runner.store(milepost::store::FjallStore::open(folder)?),
        other => return Err(format!("no store {other}: none, mem, sled").into()),
    })
}

fn warm_up() -> bool {
    std::env::var("BENCH_WARM_UP").map_or(true, |set| set != "0")
}

async fn increase(small: Snapshot<Small>, _: Context) -> Result<SmallUpdate, NodeError> {
    Ok(Small::update().n(small.n + 1))
}

/// `n` nodes in a row; each adds 1.
fn seq(n: usize) -> Outcome<Graph<Small>> {
    let mut g = Graph::builder("seq");
    let mut last = g.node("n0", increase);
    g.start(last);
    for i in 1..n {
        let next = g.node(format!("n{i}"), increase);
        g.edge(last, next);
        last = next;
    }
    g.edge(last, End);
    Ok(g.build()?)
}

/// `n` tasks of one worker, each of which appends one value; then one node counts them.
fn fan(n: usize) -> Outcome<Graph<Small>> {
    let mut g = Graph::builder("fan");
    let source = g.node("source", async |_: Snapshot<Small>, _: Context| {
        Ok(Small::update())
    });
    let worker = g.worker("worker", async |i: i64, _: Snapshot<Small>, _: Context| {
        Ok(Small::update().v(vec![i]))
    });
    let reduce = g.node("reduce", async |small: Snapshot<Small>, _: Context| {
        Ok(Small::update().n(small.v.len() as i64))
    });
    g.start(source);
    g.edge(source, worker.each(move |_| (0..n as i64).collect()));
    g.edge(worker, reduce);
    g.edge(reduce, End);
    Ok(g.build()?)
}

#[derive(Clone, Copy, Exits)]
enum Loop {
    Again,
    Enough,
}

/// `n` rounds of an agent and a tool; each says one message.
fn react(n: usize) -> Outcome<Graph<Chat>> {
    let mut g = Graph::builder("react");
    let agent = g.node("agent", async |chat: Snapshot<Chat>, _: Context| {
        Ok(Chat::update()
            .n(chat.n + 1)
            .messages(vec![message(2 * chat.n)]))
    });
    let tool = g.node("tool", move |chat: Snapshot<Chat>, _: Context| async move {
        let exit = if chat.n < n {
            Loop::Again
        } else {
            Loop::Enough
        };
        let said = vec![message(2 * chat.n + 1)];
        Ok((Chat::update().messages(said), exit))
    });
    g.start(agent);
    g.edge(agent, tool);
    g.wire(tool, |exit| match exit {
        Loop::Again => agent.into(),
        Loop::Enough => End.into(),
    });
    Ok(g.build()?)
}

/// Two nodes that lead to each other, for `steps` steps.
fn cycle(steps: i64) -> Outcome<Graph<Small>> {
    let mut g = Graph::builder("cycle");
    let there = g.node("there", increase);
    let back = g.node(
        "back",
        move |small: Snapshot<Small>, _: Context| async move {
            let exit = if small.n + 1 < steps {
                Loop::Again
            } else {
                Loop::Enough
            };
            Ok((Small::update().n(small.n + 1), exit))
        },
    );
    g.start(there);
    g.edge(there, back);
    g.wire(back, |exit| match exit {
        Loop::Again => there.into(),
        Loop::Enough => End.into(),
    });
    Ok(g.build()?)
}

/// The text of a message, always as long. Letter by letter, so that the work inside a node is the
/// same as in the programs of the rivals.
fn message(number: usize) -> String {
    let mut text = format!("message {number:06} ");
    while text.len() < MESSAGE_BYTES {
        let place = text.len() % LETTERS.len();
        text.push(char::from(LETTERS[place]));
    }
    text
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// The peak of this process's resident memory, from the kernel; 0 where it does not say.
fn peak_rss_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => bytes_below(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}
