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
use milepost::{Command, Durability, EventKind, RunId, RunOptions, Runner, ThreadId};

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

/// When a run waits for the disk.
fn durability(mode: &str) -> Outcome<Durability> {
    match mode {
        "each" => Ok(Durability::Each),
        "background" => Ok(Durability::Background),
        "at-end" => Ok(Durability::AtEnd),
        other => Err(format!("no mode {other}: each, background, at-end").into()),
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
    let durability = durability(mode)?;
    let options = RunOptions::new().base_every(16).durability(durability);
    let mut tasks = Vec::new();
    for number in 0..threads.parse()? {
        let runner = runner(&store, options.clone())?;
        let work = work(Arc::clone(&store), runner, durability, number);
        tasks.push(tokio::spawn(work));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// Runs one thread over and over, and now and then prunes it, copies it, and deletes the older copy.
async fn work(
    store: Arc<dyn CheckpointStore>,
    runner: Runner<Work>,
    durability: Durability,
    number: u32,
) -> Outcome<()> {
    let thread = ThreadId::new(format!("thread-{number}"))?;
    for round in 0_u64.. {
        let run = RunId::new(format!("run-{round}"))?;
        let mut events = runner.stream(&thread, Command::start(Work::update()).run_id(run));
        let mut last = None;
        while let Some(event) = events.next().await {
            last = event.seq.or(last);
            // What has a place in the log is durable when it is told, where a run waits for that.
            let told = match event.kind {
                EventKind::Durable { up_to } => Some(up_to),
                _ if durability == Durability::Each => event.seq,
                _ => None,
            };
            if let Some(seq) = told {
                say(&format!("A {thread} {seq}"));
            }
        }
        events.report().await?;
        // The end of a call is waited for in every mode.
        if let Some(seq) = last {
            say(&format!("A {thread} {seq}"));
        }
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
        if let Err(error) = sound(&runner, &thread).await {
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
async fn sound(runner: &Runner<Work>, thread: &ThreadId) -> Outcome<()> {
    runner.state(thread).await?.is_whole()?;
    if thread.as_str().starts_with("thread") {
        let report = runner.run(thread, Command::go_on()).await?;
        report.state.is_whole()?;
    }
    Ok(())
}
