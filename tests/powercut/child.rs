//! What the power is cut under, and what looks at the remains.
//!
//! `write ENGINE MODE FOLDER THREADS SYNC` runs graphs on many threads for ever and prints a line for
//! all that it is told; `verify ENGINE FOLDER ACKNOWLEDGED` opens what is left and compares. They are
//! started by `cut.py`.

mod work;

use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use futures::StreamExt;
use milepost::store::conformance::without_sync;
use milepost::store::{CheckpointStore, StoreEngine, StoreError, check};
use milepost::{Command, EventKind, RunId, RunOptions, Runner, Seq, ThreadId};

use self::work::{Work, graph};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build();
    let done = match (runtime, words.as_slice()) {
        (Err(error), _) => Err(error.into()),
        (Ok(runtime), ["write", engine, mode, folder, threads, sync]) => {
            runtime.block_on(write(engine, mode, Path::new(folder), threads, sync))
        }
        (Ok(runtime), ["verify", engine, folder, acknowledged]) => {
            runtime.block_on(verify(engine, Path::new(folder), Path::new(acknowledged)))
        }
        _ => Err("write ENGINE MODE FOLDER THREADS SYNC, or verify ENGINE FOLDER FILE".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("E {}", error.to_string().replace('\n', " ")));
            ExitCode::FAILURE
        }
    }
}

/// A line, out at once.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Whoever listened has gone: then this process is not needed.
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

fn engine(name: &str) -> Outcome<StoreEngine> {
    let found = StoreEngine::ALL.into_iter().find(|it| it.name() == name);
    found.ok_or_else(|| format!("no engine {name}").into())
}

/// What a run does about durability. `each` is the only mode so far.
fn options(mode: &str) -> Outcome<RunOptions> {
    match mode {
        "each" => Ok(RunOptions::new().base_every(16)),
        other => Err(format!("no mode {other}").into()),
    }
}

fn runner(store: &Arc<dyn CheckpointStore>, options: RunOptions) -> Outcome<Runner<Work>> {
    let runner = Runner::new(graph()?).options(options);
    Ok(runner.shared_store(Arc::clone(store)))
}

async fn write(name: &str, mode: &str, folder: &Path, threads: &str, sync: &str) -> Outcome<()> {
    let store = match sync {
        "sync" => engine(name)?.open(folder)?,
        _ => without_sync(engine(name)?, folder)?,
    };
    say("begun");
    let mut tasks = Vec::new();
    for number in 0..threads.parse()? {
        let runner = runner(&store, options(mode)?)?;
        tasks.push(tokio::spawn(work(Arc::clone(&store), runner, number)));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// Runs one thread over and over, and now and then prunes it, copies it, and deletes the older copy.
async fn work(store: Arc<dyn CheckpointStore>, runner: Runner<Work>, number: u32) -> Outcome<()> {
    let thread = ThreadId::new(format!("thread-{number}"))?;
    for round in 0_u64.. {
        let run = RunId::new(format!("run-{round}"))?;
        let mut events = runner.stream(&thread, Command::start(Work::update()).run_id(run));
        while let Some(event) = events.next().await {
            let is_told = matches!(
                event.kind,
                EventKind::Started { .. }
                    | EventKind::TaskFinished { .. }
                    | EventKind::Committed { .. }
            );
            if let (true, Some(seq)) = (is_told, event.seq) {
                say(&format!("A {thread} {seq}"));
            }
        }
        events.report().await?;
        if round % 3 == 2 {
            store.prune(&thread).await?;
            let copy = |round| ThreadId::new(format!("copy-{number}-{round}"));
            store.copy_thread(&thread, &copy(round)?).await?;
            say(&format!("C {}", copy(round)?));
            if round > 3 {
                let old = copy(round - 3)?;
                say(&format!("W {old}"));
                store.delete_thread(&old).await?;
                say(&format!("D {old}"));
            }
        }
    }
    Ok(())
}

/// What was acknowledged of a thread.
enum Owed {
    /// Its records up to this one.
    UpTo(u64),
    /// The whole of it.
    There,
    /// Nothing: it may be there or not.
    Either,
    Gone,
}

async fn verify(name: &str, folder: &Path, acknowledged: &Path) -> Outcome<()> {
    let store = match engine(name)?.open(folder) {
        Ok(store) => store,
        Err(error @ StoreError::Corrupt { .. }) => {
            say(&format!("corrupt {error}"));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let mut owed: HashMap<String, Owed> = HashMap::new();
    for line in std::fs::read_to_string(acknowledged)?.lines() {
        let mut words = line.split(' ');
        let (Some(what), Some(thread)) = (words.next(), words.next()) else {
            continue;
        };
        let due = match what {
            "A" => Owed::UpTo(words.next().unwrap_or_default().parse()?),
            "C" => Owed::There,
            "W" => Owed::Either,
            _ => Owed::Gone,
        };
        match (owed.get(thread), &due) {
            (Some(Owed::UpTo(old)), Owed::UpTo(new)) if old > new => {}
            _ => drop(owed.insert(thread.to_owned(), due)),
        }
    }
    let (mut lost, mut wrong) = (0, Vec::new());
    for (thread, owed) in &owed {
        let extent = store.extent(&ThreadId::new(thread)?).await;
        let last = match extent {
            Ok(extent) => extent.map_or(0, |extent| extent.next.get() - 1),
            Err(error) => {
                wrong.push(error.to_string());
                continue;
            }
        };
        lost += match owed {
            Owed::UpTo(seq) => seq.saturating_sub(last),
            Owed::There => u64::from(last == 0),
            Owed::Gone => u64::from(last > 0),
            Owed::Either => 0,
        };
    }
    let (mut threads, mut records) = (0, 0);
    let runner = runner(&store, RunOptions::new())?;
    for thread in store.thread_names().await? {
        let thread = match thread {
            Ok(thread) => thread,
            Err(error) => {
                wrong.push(error.to_string());
                continue;
            }
        };
        let checked = check(&*store, &thread).await;
        (threads, records) = (threads + 1, records + checked.records);
        let found = checked.findings.iter().filter(|finding| finding.is_error());
        wrong.extend(found.map(|finding| format!("{thread}: {finding:?}")));
        if let Err(error) = sound(&runner, &*store, &thread).await {
            wrong.push(format!("{thread}: {error}"));
        }
    }
    say(&format!(
        "left lost {lost} wrong {} threads {threads} records {records}",
        wrong.len()
    ));
    for wrong in wrong.iter().take(3) {
        say(&format!("wrong {wrong}"));
    }
    Ok(())
}

/// The state is one that the graph comes to, and the thread goes on from it to another one.
async fn sound(
    runner: &Runner<Work>,
    store: &dyn CheckpointStore,
    thread: &ThreadId,
) -> Outcome<()> {
    runner.state(thread).await?.is_whole()?;
    if thread.as_str().starts_with("thread") {
        let report = runner.run(thread, Command::go_on()).await?;
        report.state.is_whole()?;
        let all = milepost::history(store, thread).await?;
        if all.iter().any(|at| at.seq == Seq::new(0)) {
            return Err("a checkpoint has no place".into());
        }
    }
    Ok(())
}
