//! From words to one command with all it needs.
//!
//! In come the graphs and the words; out goes the exit code of the command that they name. Names of
//! graphs are looked up here and nowhere else.

use std::any::Any;
use std::cell::RefCell;
use std::env;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::Resettable;
use clap::{ArgMatches, Args as _, CommandFactory, FromArgMatches};
use serde_json::json;
use tracing_subscriber::EnvFilter;

use super::args::{AsArgs, Cli, Globals, GraphsWhat, StartArgs, What, engine, wants_json};
use super::entry::{Entry, Known};
use super::exit::{Exit, Failure, room};
use super::in_use::{Shown, Sight};
use super::out::Out;
use super::region::Above;
use super::{
    answer, cancel, compact, demo, diff, doctor, drive, export, follow, graph, history, import,
    in_use, keep, list, look, new, picture, retry, show, travel, worker,
};
use crate::ThreadId;
use crate::store::{CheckpointStore, MemoryStore, StoreEngine, StoreError};

/// What to do once the output can be written.
const AGAIN: &str = "try again";

/// The store's folder where nothing else is said.
const STORE: &str = "mileposts";

/// What a command works with.
pub(super) struct Shell {
    pub(super) entries: Vec<Entry>,
    pub(super) globals: Globals,
    pub(super) out: Out,
    /// The program's name, as the next command needs it.
    program: String,
    /// Lets others look at the store that this process has open.
    shown: RefCell<Option<Shown>>,
}

/// Runs a command line.
pub(super) fn run(entries: Vec<Entry>, words: Vec<OsString>) -> Exit {
    let json = wants_json(&words);
    // A panic of a node is that task's error and is told as such; one of our own is told below.
    // The words that Rust prints by itself would only come on top.
    std::panic::set_hook(Box::new(|panic| tracing::debug!(%panic, "a panic")));
    watch();
    let told = catch_unwind(AssertUnwindSafe(|| parse(entries, words)));
    let failure = match told {
        Ok(Ok(exit)) => return exit,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::new(
            Exit::Failed,
            format!("this program has a fault: {}", message(&*panic)),
        )
        .next("set MILEPOST_LOG=debug, try again, and report what it says; no acknowledged work is lost"),
    };
    Out::new(json).complain(&failure);
    failure.exit
}

fn parse(entries: Vec<Entry>, words: Vec<OsString>) -> Result<Exit, Failure> {
    let json = wants_json(&words);
    let program = words.first().map(PathBuf::from).unwrap_or_default();
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    let program = if name.is_empty() {
        "milepost".into()
    } else {
        name
    };
    let mut command = command(&entries)?.name(program.to_string());
    let given = match command.try_get_matches_from_mut(&words) {
        Ok(given) => given,
        Err(told) if told.use_stderr() => {
            return Err(unread(&told, &help(&command, &program, &words)));
        }
        Err(told) => {
            let mut out = Out::new(json);
            out.raw(&told.render().to_string());
            return Ok(out.settle(Exit::Done, AGAIN));
        }
    };
    let Cli { globals, what } = Cli::from_arg_matches(&given)
        .map_err(|error| unread(&error, &help(&command, &program, &words)))?;
    let mut shell = Shell {
        entries,
        out: Out::new(globals.json),
        globals,
        program: program.into_owned(),
        shown: RefCell::default(),
    };
    let run = given
        .subcommand_matches("run")
        .and_then(ArgMatches::subcommand);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            let what = format!("the system gives this program no threads: {error}");
            Failure::new(Exit::Failed, what).next("end other programs, and try again")
        })?;
    let after = match what {
        What::Copy(_) | What::Prune(_) | What::Compact(_) | What::Delete(_) | What::Import(_) => {
            format!("look at what was done: {}", shell.again("threads"))
        }
        _ => AGAIN.to_owned(),
    };
    let exit = runtime.block_on(async {
        match what {
            What::Graphs(args) => match args.what {
                Some(GraphsWhat::Show(one)) => graph::show(&mut shell, &one.graph),
                None => list::graphs(&mut shell),
            },
            What::Run => match run {
                Some((graph, given)) => drive::run(&mut shell, graph, given).await,
                None => Err(shell.no_graph(None)),
            },
            What::Resume(args) => drive::resume(&mut shell, args).await,
            What::Retry(args) => retry::retry(&mut shell, args).await,
            What::Questions(args) => answer::questions(&mut shell, &args).await,
            What::Answer(args) => answer::answer(&mut shell, &args).await,
            What::Worker(args) => worker::work(&mut shell, &args).await,
            What::Cancel(args) => cancel::cancel(&mut shell, &args).await,
            What::Threads(args) => list::threads(&mut shell, &args).await,
            What::Show(args) => show::show(&mut shell, &args).await,
            What::History(args) => history::history(&mut shell, &args).await,
            What::Events(args) if args.follow => follow::follow(&mut shell, &args.thread).await,
            What::Events(args) => look::events(&mut shell, &args.thread).await,
            What::Diff(args) => diff::diff(&mut shell, &args).await,
            What::Dot(args) => picture::dot(&mut shell, &args).await,
            What::Fork(args) => travel::fork(&mut shell, &args).await,
            What::Rewind(args) => travel::rewind(&mut shell, &args).await,
            What::Switch(args) => travel::switch(&mut shell, &args).await,
            What::Patch(args) => travel::patch(&mut shell, args).await,
            What::Replay(args) => travel::replay(&mut shell, &args.thread).await,
            What::Copy(args) => keep::copy(&mut shell, &args).await,
            What::Prune(args) => keep::prune(&mut shell, &args.thread).await,
            What::Compact(args) => compact::compact(&mut shell, &args).await,
            What::Delete(args) => keep::delete(&mut shell, &args.thread).await,
            What::Export(args) => export::export(&mut shell, &args).await,
            What::Import(args) => import::import(&mut shell, &args).await,
            What::Doctor(args) => doctor::doctor(&mut shell, &args).await,
            What::Completions(args) => shell.completions(args.shell),
            What::New(args) => new::new(&mut shell, &args),
            What::Demo(args) => demo::demo(&mut shell, args).await,
        }
    });
    // A node that does not end must not keep the program: what it does was not acknowledged.
    runtime.shutdown_background();
    let exit = exit.unwrap_or_else(|failure| {
        shell.out.complain(&failure);
        failure.exit
    });
    Ok(shell.out.settle(exit, &after))
}

/// Words that make no command line, and the help that says more.
pub(super) fn unread(error: &clap::Error, help: &str) -> Failure {
    let text = error.render().to_string();
    let text = text.trim_start_matches("error: ");
    // Which help that is, is said below.
    let (text, _) = text
        .split_once("\n\nFor more information")
        .unwrap_or((text, ""));
    Failure::usage(text.trim_end()).next(help)
}

/// The help of the command that words begin to name.
fn help(command: &clap::Command, program: &str, words: &[OsString]) -> String {
    let (mut at, mut help) = (command, program.to_owned());
    for word in words.iter().skip(1) {
        if let Some(inner) = at.find_subcommand(word) {
            help = format!("{help} {}", quoted(inner.get_name()));
            at = inner;
        }
    }
    format!("{help} --help")
}

/// The whole command line: ours, and under `run` a command for each graph.
fn command(entries: &[Entry]) -> Result<clap::Command, Failure> {
    let mut command = Cli::command();
    let ours = reserved(StartArgs::augment_args(Cli::command()));
    let mut graphs: Vec<clap::Command> = Vec::new();
    for entry in entries {
        let known = entry.known()?;
        let name = known.view().name.clone();
        if graphs.iter().any(|graph| graph.get_name() == name) {
            let what = format!("two graphs of this program are called \"{name}\"");
            return Err(Failure::new(Exit::Failed, what).next("rename one, and build it again"));
        }
        let graph = known.flags(clap::Command::new(name.clone()));
        let taken = graph.get_arguments().flat_map(names);
        if let Some(taken) = taken.into_iter().find(|name| ours.contains(name)) {
            let what =
                format!("graph \"{name}\" has a flag \"{taken}\", which every run has already");
            return Err(Failure::new(Exit::Failed, what).next("rename it, and build it again"));
        }
        // What is said of the graph stays: the flags added here bring a sentence of their own.
        let (about, long) = (graph.get_about().cloned(), graph.get_long_about().cloned());
        graphs.push(
            StartArgs::augment_args(graph)
                .about(Resettable::from(about))
                .long_about(Resettable::from(long)),
        );
    }
    command = command.mut_subcommand("run", |run| {
        // The name of an unknown graph is taken too, to be refused with the list of known ones.
        run.subcommands(graphs)
            .allow_external_subcommands(true)
            .subcommand_value_name("GRAPH")
    });
    Ok(command)
}

/// The names of the flags that every run and every patch has.
pub(super) fn taken() -> Vec<String> {
    reserved(AsArgs::augment_args(
        StartArgs::augment_args(Cli::command()),
    ))
}

fn reserved(command: clap::Command) -> Vec<String> {
    let all = command.get_arguments().flat_map(names);
    all.chain(["help".to_owned()]).collect()
}

fn names(flag: &clap::Arg) -> Vec<String> {
    let long = flag.get_long().map(str::to_owned);
    long.into_iter()
        .chain([flag.get_id().to_string()])
        .collect()
}

impl Shell {
    /// A graph by name.
    pub(super) fn graph(&self, name: &str) -> Result<Arc<dyn Known>, Failure> {
        self.find(name).ok_or_else(|| self.no_graph(Some(name)))
    }

    /// A graph by name, if this program has it.
    pub(super) fn find(&self, name: &str) -> Option<Arc<dyn Known>> {
        let mut known = self.entries.iter().filter_map(|entry| entry.known().ok());
        known.find(|known| known.view().name == name).cloned()
    }

    fn no_graph(&self, name: Option<&str>) -> Failure {
        let known = self.entries.iter().filter_map(|entry| entry.known().ok());
        let known: Vec<_> = known.map(|known| known.view().name.as_str()).collect();
        let known = match known.as_slice() {
            [] => "this program has none".to_owned(),
            known => format!("this program has {}", known.join(", ")),
        };
        let what = match name {
            Some(name) => format!("there is no graph \"{name}\"; {known}"),
            None => format!("which graph? {known}"),
        };
        Failure::usage(what).next(format!("{} graphs", self.program))
    }

    /// A command of this program over this store, as it can be typed.
    pub(super) fn again(&self, words: &str) -> String {
        match &self.globals.store {
            Some(store) => {
                let store = store.to_string_lossy();
                // Behind a space it would be read as another flag.
                let between = if store.starts_with('-') { '=' } else { ' ' };
                let store = quoted(&store);
                format!("{} --store{between}{store} {words}", self.program)
            }
            None => format!("{} {words}", self.program),
        }
    }

    /// The program's name.
    pub(super) fn program(&self) -> &str {
        &self.program
    }

    /// The command that takes a thread up.
    pub(super) fn resume(&self, thread: &ThreadId) -> String {
        self.on("resume", thread)
    }

    /// A command on a thread.
    pub(super) fn on(&self, command: &str, thread: &ThreadId) -> String {
        let name = thread.as_str();
        // Quoting alone does not keep a name from being read as a flag.
        let end = if name.starts_with('-') { "-- " } else { "" };
        self.again(&format!("{command} {end}{}", quoted(name)))
    }

    /// Writes the completions of the whole command line, graphs and their flags included.
    fn completions(&mut self, shell: clap_complete::Shell) -> Result<Exit, Failure> {
        let mut text = Vec::new();
        let mut command = command(&self.entries)?;
        clap_complete::generate(shell, &mut command, &self.program, &mut text);
        let text = String::from_utf8_lossy(&text);
        if self.out.is_json() {
            let value = json!({"shell": shell.to_string(), "text": text});
            self.out.value(&value);
        } else {
            self.out.raw(&text);
        }
        Ok(Exit::Done)
    }

    /// Whether the store is gone with this process.
    pub(super) fn in_memory(&self) -> bool {
        self.place() == Path::new("memory")
    }

    /// The store's folder.
    pub(super) fn place(&self) -> PathBuf {
        let named = self.globals.store.clone();
        let named = named.or_else(|| env::var_os("MILEPOST_STORE").map(PathBuf::from));
        let named = named.filter(|path| !path.as_os_str().is_empty());
        named.unwrap_or_else(|| PathBuf::from(STORE))
    }

    /// Opens the store, and makes it where it is not there.
    pub(super) fn store(&self) -> Result<Arc<dyn CheckpointStore>, Failure> {
        if self.in_memory() {
            return Ok(Arc::new(MemoryStore::new()));
        }
        self.opened(self.engine(&self.place())?)
    }

    /// Opens a store that must be there, whatever keeps it, and says what is to keep one that is made of
    /// it: what was asked for, or else the same.
    pub(super) fn store_to_rewrite(
        &self,
    ) -> Result<(Arc<dyn CheckpointStore>, StoreEngine), Failure> {
        self.check_old()?;
        let (found, new) = self.engines()?;
        Ok((self.opened(found)?, new))
    }

    /// The engine of the store, and that of a store which is made from it.
    pub(super) fn engines(&self) -> Result<(StoreEngine, StoreEngine), Failure> {
        let place = self.place();
        let found = match StoreEngine::found(&place) {
            Some(found) => found,
            None => self.engine(&place)?,
        };
        Ok((found, self.globals.engine.unwrap_or(found)))
    }

    fn opened(&self, engine: StoreEngine) -> Result<Arc<dyn CheckpointStore>, Failure> {
        let place = self.place();
        self.check(&place)?;
        match in_use::open(&place, engine) {
            Ok(store) => {
                self.shown.replace(Shown::open(&store, &place));
                Ok(store)
            }
            Err(StoreError::Locked { path, holder }) if in_use::is_shown(&place) => {
                let look = self.again("events THREAD --follow");
                Err(in_use::locked(&path, holder, Some(&look)))
            }
            Err(error) => Err(unopened(error, &place)),
        }
    }

    /// Opens a store that must be there, to write to it.
    pub(super) fn old_store(&self) -> Result<Arc<dyn CheckpointStore>, Failure> {
        self.check_old()?;
        self.store()
    }

    /// Opens a store that must be there, to read it; where another process has it open, it is read
    /// through that one.
    pub(super) fn look(&self) -> Result<Arc<dyn CheckpointStore>, Failure> {
        Ok(Arc::new(self.sight()?))
    }

    /// The same, for who wants to know whether another process has it open.
    pub(super) fn sight(&self) -> Result<Sight, Failure> {
        if self.in_memory() {
            return Ok(Sight::own(self.store()?));
        }
        self.check_old()?;
        let place = self.place();
        self.check(&place)?;
        Sight::find(&place, self.engine(&place)?).map_err(|error| {
            let silent = matches!(error, StoreError::Locked { .. }) && in_use::is_shown(&place);
            let mut failure = unopened(error, &place);
            if silent {
                failure
                    .what
                    .push_str("; it lets others look, but does not answer");
            }
            failure
        })
    }

    /// What keeps the store: what was asked for, what keeps it already, what a new one gets.
    fn engine(&self, place: &Path) -> Result<StoreEngine, Failure> {
        let known = self.globals.engine.or_else(|| StoreEngine::found(place));
        if let Some(known) = known {
            return Ok(known);
        }
        match env::var("MILEPOST_ENGINE") {
            Ok(name) if !name.is_empty() => engine(&name).map_err(|expected| {
                let what = format!("MILEPOST_ENGINE is {name:?}: {expected}");
                Failure::usage(what).next("set it to one of them, or leave it out")
            }),
            _ => Ok(StoreEngine::Sled),
        }
    }

    fn check(&self, place: &Path) -> Result<(), Failure> {
        if place.is_dir() && !is_store(place) && !is_empty(place) {
            let what = format!(
                "{} is a folder of other things, and no store",
                place.display()
            );
            return Err(Failure::usage(what).next("name another folder with --store"));
        }
        Ok(())
    }

    pub(super) fn check_old(&self) -> Result<(), Failure> {
        let place = self.place();
        if !self.in_memory() && (!place.exists() || is_empty(&place)) {
            let what = format!("there is no store at {} yet", place.display());
            return Err(Failure::usage(what).next(self.again("run GRAPH")));
        }
        Ok(())
    }
}

/// Why a store could not be opened.
fn unopened(error: StoreError, place: &Path) -> Failure {
    match error {
        // Nothing has run yet: it is the place that is wrong.
        StoreError::Io { ref source, .. } if room(source).is_none() => {
            Failure::usage(error.to_string()).next(match is_store(place) {
                true => "let it be written, or copy the folder and name the copy with --store",
                false => "name a folder that can be written with --store, or --store memory",
            })
        }
        error => error.into(),
    }
}

fn is_store(place: &Path) -> bool {
    place.join("holder").exists() || StoreEngine::found(place).is_some()
}

fn is_empty(place: &Path) -> bool {
    std::fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_none())
}

/// A word as a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// What the library traces, on the error channel: warnings, or what MILEPOST_LOG asks for.
fn watch() {
    let asked = env::var("MILEPOST_LOG").unwrap_or_else(|_| "warn".to_owned());
    // A second command in one process keeps what the first has set.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(asked))
        .with_writer(|| Above)
        .try_init();
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it gave no reason".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("a-b/c.d"), "a-b/c.d");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
