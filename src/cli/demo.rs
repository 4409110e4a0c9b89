//! `demo`: kill a run, resume it, and prove that nothing was lost or done twice.
//!
//! This process only watches. Each run is a process of its own, started with this very program and
//! ended by SIGKILL; what proves the promise is read from files: the store's records, and a tally
//! that a line is added to each time a node is run, which no store knows of.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::args::DemoArgs;
use super::entry::{Entry, Known, causes};
use super::exit::{Exit, Failure, room};
use super::shell::{Shell, quoted};
use crate::dot::Dot;
use crate::store::{CheckpointStore, StoreEngine};
use crate::{EventKind, ThreadId, events};

const THREAD: &str = "demo";
const STORE: &str = "mileposts";
const TALLY: &str = "tally";
/// So long each node waits before it works, so that one can watch, and a kill can hit it.
const PACE: &str = "60ms";

/// Runs the demo.
pub(super) async fn demo(shell: &mut Shell, args: DemoArgs) -> Result<Exit, Failure> {
    let (known, flags) = example(shell, &args)?;
    let seed = args.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(1, |now| u64::from(now.subsec_nanos()))
    });
    check_victim(shell, &*known, args.kill_at.as_deref())?;
    let dir = workplace(args.dir)?;
    let thread = ThreadId::new(THREAD)
        .map_err(|error| Failure::new(Exit::Failed, error.to_string()).next("report this"))?;
    let graph = known.view().name.clone();
    let mut start: Vec<OsString> = vec!["run".into(), graph.clone().into()];
    start.extend(["--thread".into(), THREAD.into()]);
    start.extend(flags);
    let killed = Place::new(dir.join("killed"))?;
    let calm = Place::new(dir.join("undisturbed"))?;

    shell.out.say(format!(
        "Graph {graph}, undisturbed, in a process and a store of its own."
    ));
    let quiet = calm.run(shell, &start, None, None)?;
    let calmly = calm.tally()?;
    let victim = victim(&calmly, args.kill_at.as_deref(), seed)?;
    shell
        .out
        .say("The same in another process and store, to be killed:");
    let died = killed.run(shell, &start, Some(PACE), Some(&victim))?;
    let before = killed.tally()?;
    let finished = killed.finished(&thread).await?;
    shell.out.say(format!(
        "        SIGKILL at {victim} (seed {seed}): {} of {} tasks had finished\nResumed, in a new process:",
        finished.len(),
        calmly.len()
    ));
    let resume = ["resume".into(), THREAD.into()];
    let resumed = killed.run(shell, &resume, Some(PACE), None)?;
    let after = killed.tally()?;

    let again: Vec<_> = finished
        .iter()
        .filter(|task| after.get(*task) != before.get(*task))
        .cloned()
        .collect();
    let twice: Vec<_> = after
        .iter()
        .filter(|(task, times)| **times > 1 && !finished.contains(*task))
        .map(|(task, _)| task.clone())
        .collect();
    let ran: BTreeSet<_> = after.keys().collect();
    let states = (
        killed.state(&*known, &thread).await?,
        calm.state(&*known, &thread).await?,
    );
    let files = (killed.files()?, calm.files()?);
    let checks = [
        ("the process was killed before it was done", died.is_none()),
        ("the resumed run finished", resumed == Some(0)),
        ("the undisturbed run finished", quiet == Some(0)),
        ("no finished task ran again", again.is_empty()),
        (
            "killed and resumed, every task of the undisturbed run ran, and no other",
            ran == calmly.keys().collect(),
        ),
        ("the final states are equal", states.0 == states.1),
        (
            "the files that the runs wrote are equal",
            files.0 == files.1,
        ),
    ];
    let picture = dir.join(format!("{graph}.dot"));
    let written = fs::write(&picture, Dot::new(known.view()).to_string());
    written.map_err(|error| cannot("written", &picture, &error))?;
    let holds = checks.iter().all(|(_, holds)| *holds);
    let exit = if holds { Exit::Done } else { Exit::Failed };
    let written: Vec<_> = files.0.keys().map(|name| killed.dir.join(name)).collect();
    shell.out.value(&json!({
        "graph": graph,
        "killed_at": victim,
        "seed": seed,
        "finished_before": finished,
        "ran_again": again,
        "in_the_middle": twice,
        "checks": checks.iter().map(|(what, holds)| json!({"what": what, "holds": holds})).collect::<Vec<_>>(),
        "written": written,
        "picture": picture,
        "exit": exit.code(),
    }));
    shell.out.say("");
    for (what, holds) in &checks {
        shell.out.say(format!(
            "  {}  {what}",
            if *holds { "ok    " } else { "FAILED" }
        ));
    }
    for task in &again {
        shell.out.say(format!("          {task} ran again"));
    }
    if !twice.is_empty() {
        shell.out.say(format!(
            "\nIn the middle when the process died, and so run again (at least once): {}",
            twice.join(", ")
        ));
    }
    for path in &written {
        shell.out.say(format!("written: {}", path.display()));
    }
    shell.out.say(format!("picture: {}", picture.display()));
    Ok(exit)
}

/// The graph with an example, and the example's flags.
fn example(shell: &Shell, args: &DemoArgs) -> Result<(Arc<dyn Known>, Vec<OsString>), Failure> {
    if let Some(name) = &args.graph {
        shell.graph(name)?;
    }
    let docs = match &args.docs {
        // The runs work in folders of their own.
        Some(docs) => Some(
            docs.canonicalize()
                .map_err(|error| cannot("read", docs, &error))?,
        ),
        None => None,
    };
    let wanted = |entry: &&Entry| match (&args.graph, entry.known()) {
        (Some(name), Ok(known)) => known.view().name == *name,
        _ => true,
    };
    for entry in shell.entries.iter().filter(wanted) {
        if let Some(flags) = entry.flags_of_example(docs.as_deref()) {
            let flags = flags.map_err(|error| {
                let next = "name a folder of documents with --docs";
                Failure::usage(causes(&*error)).next(next)
            })?;
            return Ok((Arc::clone(entry.known()?), flags));
        }
    }
    let what = match &args.graph {
        Some(graph) => format!("graph {graph} has no example run to show"),
        None => "no graph of this program has an example run to show".to_owned(),
    };
    let others = shell.entries.iter().filter(|entry| entry.has_example());
    let others: Vec<_> = others.filter_map(|entry| entry.known().ok()).collect();
    Err(Failure::usage(what).next(match others.first() {
        Some(other) => format!("{} demo {}", shell.program(), quoted(&other.view().name)),
        None => "give the entry of a graph an example".to_owned(),
    }))
}

/// Refuses a node that the graph does not have, before anything is run.
fn check_victim(shell: &Shell, known: &dyn Known, asked: Option<&str>) -> Result<(), Failure> {
    let view = known.view();
    let is_known = |asked: &str| view.nodes.iter().any(|node| node.name.as_str() == asked);
    let asked = asked.filter(|node| *node != "random" && !is_known(node));
    let Some(node) = asked else { return Ok(()) };
    let names: Vec<_> = view.nodes.iter().map(|node| node.name.as_str()).collect();
    let graph = &view.name;
    let what = format!(
        "graph {graph} has no node \"{node}\" to kill the process at; it has {}",
        names.join(", ")
    );
    let next = format!("{} graphs show {}", shell.program(), quoted(graph));
    Err(Failure::usage(what).next(next))
}

/// The task at which the process is killed: one of those that the undisturbed run has run.
fn victim(ran: &BTreeMap<String, u32>, asked: Option<&str>, seed: u64) -> Result<String, Failure> {
    let node_of = |task: &String| {
        let name = task.split_once(':').map_or("", |(_, name)| name);
        name.rsplit_once('[')
            .map_or(name, |(name, _)| name)
            .to_owned()
    };
    let asked = asked.filter(|node| *node != "random");
    let tasks: Vec<_> = ran
        .keys()
        .filter(|task| asked.is_none_or(|node| node_of(task) == node))
        .collect();
    let late = match asked {
        // Of several tasks of a node one of the later half: then some have finished.
        Some(_) => tasks.len() / 2,
        None => 0,
    };
    let place = scatter(seed) % (tasks.len() - late).max(1) as u64;
    if let Some(task) = tasks.get(late + place as usize) {
        return Ok((*task).clone());
    }
    let nodes: BTreeSet<_> = ran.keys().map(node_of).collect();
    let nodes: Vec<_> = nodes.into_iter().collect();
    let what = match asked {
        Some(node) => format!(
            "the example does not come to a node \"{node}\"; it runs {}",
            nodes.join(", ")
        ),
        None => "the example runs no node".to_owned(),
    };
    Err(Failure::usage(what).next("name one of those with --kill-at, or none"))
}

/// A folder in which one thread is run, by one process after another.
struct Place {
    dir: PathBuf,
}

impl Place {
    fn new(dir: PathBuf) -> Result<Self, Failure> {
        fs::create_dir_all(&dir).map_err(|error| cannot("made", &dir, &error))?;
        Ok(Self { dir })
    }

    /// Runs a command in a process, shows what happens, and kills it where it is meant to be. Gives
    /// its exit code; none if it was killed.
    fn run(
        &self,
        shell: &mut Shell,
        words: &[OsString],
        pace: Option<&str>,
        victim: Option<&str>,
    ) -> Result<Option<i32>, Failure> {
        let failed = |error: std::io::Error| {
            let what = format!("this program cannot start itself: {error}");
            Failure::new(Exit::Failed, what).next("put that right, and try again")
        };
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command
            .current_dir(&self.dir)
            .args(words)
            .args(["--json", "--store", STORE, "--tally", TALLY])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if let Some(engine) = shell.globals.engine {
            command.args(["--engine", engine.name()]);
        }
        if let Some(pace) = pace {
            command.args(["--pace", pace]);
        }
        let mut child = command.spawn().map_err(failed)?;
        for line in child
            .stdout
            .take()
            .map(BufReader::new)
            .into_iter()
            .flat_map(BufRead::lines)
        {
            let Ok(event) = serde_json::from_str::<Value>(&line.map_err(failed)?) else {
                continue;
            };
            if pace.is_some()
                && let Some(line) = line_of(&event)
            {
                shell.out.say(line);
            }
            if event["type"] == "task_started" && event["task"]["path"].as_str() == victim {
                // SIGKILL: the process has no say in it.
                child.kill().map_err(failed)?;
                break;
            }
        }
        let status = child.wait().map_err(failed)?;
        Ok(status.code())
    }

    /// How often each task was run.
    fn tally(&self) -> Result<BTreeMap<String, u32>, Failure> {
        let path = self.dir.join(TALLY);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            // Killed before anything ran.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(cannot("read", &path, &error)),
        };
        let mut tally = BTreeMap::new();
        for task in text.lines() {
            *tally.entry(task.to_owned()).or_insert(0) += 1;
        }
        Ok(tally)
    }

    fn store(&self) -> Result<Arc<dyn CheckpointStore>, Failure> {
        let path = self.dir.join(STORE);
        let engine = StoreEngine::found(&path).unwrap_or(StoreEngine::Sled);
        Ok(engine.open(path)?)
    }

    /// The tasks whose end is on disk.
    async fn finished(&self, thread: &ThreadId) -> Result<BTreeSet<String>, Failure> {
        let store = self.store()?;
        let events = events(&*store, thread).await?;
        let finished = events.iter().filter_map(|event| match &event.kind {
            EventKind::TaskFinished { task, .. } => Some(task.to_string()),
            _ => None,
        });
        Ok(finished.collect())
    }

    async fn state(&self, known: &dyn Known, thread: &ThreadId) -> Result<Value, Failure> {
        Ok(known.state(self.store()?, thread).await?)
    }

    /// The files that the runs have written, by name.
    fn files(&self) -> Result<BTreeMap<OsString, Vec<u8>>, Failure> {
        let unread = |error: std::io::Error| cannot("read", &self.dir, &error);
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(&self.dir).map_err(unread)? {
            let entry = entry.map_err(unread)?;
            if entry.file_name() != TALLY && entry.file_type().map_err(unread)?.is_file() {
                files.insert(entry.file_name(), fs::read(entry.path()).map_err(unread)?);
            }
        }
        Ok(files)
    }
}

/// A line for an event of another process.
fn line_of(event: &Value) -> Option<String> {
    let task = &event["task"];
    let at = || {
        let node = task["node"].as_str().unwrap_or_default();
        let index = task["index"].as_u64().unwrap_or_default();
        format!(
            "{:>4}  {node}[{index}]",
            task["step"].as_u64().unwrap_or_default()
        )
    };
    match event["type"].as_str()? {
        "task_finished" => Some(format!("  {:<24} finished", at())),
        "task_failed" => Some(format!(
            "  {:<24} failed: {}",
            at(),
            event["error"]["message"]
        )),
        "resumed" => Some(format!(
            "  {:>4}  taken up after this superstep",
            event["step"]
        )),
        _ => None,
    }
}

/// An empty folder to work in: the one that was asked for, or a new one for temporary files.
fn workplace(asked: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let dir = match asked {
        Some(dir) => dir,
        None => {
            let name = format!("milepost-demo-{}", std::process::id());
            std::env::temp_dir().join(name)
        }
    };
    fs::create_dir_all(&dir).map_err(|error| cannot("made", &dir, &error))?;
    let mut entries = fs::read_dir(&dir).map_err(|error| cannot("read", &dir, &error))?;
    if entries.next().is_some() {
        let what = format!("{} is not empty", dir.display());
        return Err(Failure::usage(what).next("name another folder with --dir"));
    }
    dir.canonicalize()
        .map_err(|error| cannot("read", &dir, &error))
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    let what = format!("{} cannot be {what}: {error}", path.display());
    match room(error) {
        Some(first) => Failure::new(Exit::Failed, what).next(format!("{first}, and try again")),
        None => Failure::usage(what).next("name another folder with --dir or --docs"),
    }
}

/// Spreads the bits of a seed, so that neighbours are far apart.
fn scatter(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
