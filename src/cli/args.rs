//! The command line, as it is typed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::store::{Status, StoreEngine};
use crate::{Durability, RunId, ThreadId};

/// Runs typed state graphs, and takes them up again after a crash.
#[derive(Debug, Parser)]
#[command(
    version,
    arg_required_else_help = false,
    after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 waiting for an answer, 4 limit used up, \
                  5 waiting for a time, 6 stopped, 7 busy or locked, 8 damaged store"
)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) globals: Globals,
    #[command(subcommand)]
    pub(super) what: What,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "For every command")]
pub(super) struct Globals {
    /// One JSON value a line instead of text
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// The store's folder, or `memory` [default: ./mileposts, or what MILEPOST_STORE says]
    #[arg(long, global = true, value_name = "PATH|memory")]
    pub(super) store: Option<PathBuf>,
    /// What keeps a new store: sled or fjall [default: sled, or what MILEPOST_ENGINE says]
    #[arg(long, global = true, value_name = "ENGINE", value_parser = engine)]
    pub(super) engine: Option<StoreEngine>,
    /// How many supersteps this call may execute [default: 1000]
    #[arg(long, global = true, value_name = "N", value_parser = limit)]
    pub(super) step_limit: Option<u64>,
    /// How long this call may take: 90s, 500ms, 5m, 2h
    #[arg(long, global = true, value_name = "TIME", value_parser = duration)]
    pub(super) deadline: Option<Duration>,
    /// How many tasks may run at once [default: all of a superstep]
    #[arg(long, global = true, value_name = "N", value_parser = tasks)]
    pub(super) concurrency: Option<u16>,
    /// When a run waits for the disk: after each result, for what is more than a little behind, or
    /// only where it waits or ends [default: each]
    #[arg(long, global = true, value_name = "MODE", value_enum)]
    pub(super) durability: Option<Mode>,
    /// Go on with a thread only if this is the version of its graph that wrote it
    #[arg(long, global = true)]
    pub(super) pin: bool,
}

/// When a run waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// After each result, before anything that depends on it starts
    Each,
    /// Only for what is more than a little behind: a crash takes that little
    Background,
    /// Only where it waits or ends: a crash takes all since then
    AtEnd,
}

impl From<Mode> for Durability {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Each => Self::Each,
            Mode::Background => Self::Background,
            Mode::AtEnd => Self::AtEnd,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum What {
    /// List the graphs of this program, or show one
    Graphs(GraphsArgs),
    /// Start a run of a graph
    #[command(subcommand_value_name = "GRAPH", subcommand_help_heading = "Graphs")]
    Run,
    /// Go on with a thread where it stands
    Resume(ResumeArgs),
    /// Run tasks of the open superstep again, whatever they had brought, and go on with the thread
    Retry(RetryArgs),
    /// List the questions that wait for an answer
    Questions(QuestionsArgs),
    /// Answer a question, and go on with its thread
    Answer(AnswerArgs),
    /// Take up, again and again, what is due: what waited for a time, what a dead process has left
    Worker(WorkerArgs),
    /// Ask a run to stop, whichever process works on it
    Cancel(CancelArgs),
    /// List the threads of the store
    Threads(ThreadsArgs),
    /// Show where a thread stands, and its state
    Show(ShowArgs),
    /// List the checkpoints of a thread
    History(HistoryArgs),
    /// List what happened in a thread
    Events(EventsArgs),
    /// Show which fields differ between two checkpoints of a thread
    Diff(DiffArgs),
    /// Draw a graph, or a thread laid over its graph
    Dot(DotArgs),
    /// Go on from any checkpoint of a thread, on a branch of its own
    Fork(PointArgs),
    /// Go back to a checkpoint that led to where a thread stands, on a branch of its own
    Rewind(PointArgs),
    /// Go to where another branch of a thread stands
    Switch(SwitchArgs),
    /// Change the state of a thread by hand, as if a node had returned the change
    #[command(
        after_help = "Fields are given as to `run`: --FIELD VALUE, or --input JSON, @FILE or - for \
                            several. With --clear FIELD, a field is emptied first."
    )]
    Patch(PatchArgs),
    /// Merge and decide again what a thread has recorded, without running a node, and compare
    Replay(OneThread),
    /// Copy a thread, with its whole history, to another name
    Copy(CopyArgs),
    /// Drop the records of a thread that nothing needs any more: its older checkpoints
    Prune(OneThread),
    /// Give back what threads need no more: older checkpoints, what nothing refers to; smaller files
    Compact(CompactArgs),
    /// Delete a thread with all that belongs to it
    Delete(OneThread),
    /// Write threads as lines of JSON, to keep them or to move them to another store
    Export(ExportArgs),
    /// Read threads that `export` wrote
    Import(ImportArgs),
    /// Check the store: every record, every reference, and whether the graphs still fit
    Doctor(DoctorArgs),
    /// Write what a shell needs to complete the words of these commands
    Completions(CompletionsArgs),
    /// Write a small project with a graph, a test and a README
    New(NewArgs),
    /// Kill a run, resume it, and prove that nothing was lost or done twice
    Demo(DemoArgs),
}

#[derive(Debug, Args)]
pub(super) struct GraphsArgs {
    #[command(subcommand)]
    pub(super) what: Option<GraphsWhat>,
}

#[derive(Debug, Subcommand)]
pub(super) enum GraphsWhat {
    /// Show the nodes of a graph, where they lead, and the fields of its state
    Show(OneGraph),
}

#[derive(Debug, Args)]
pub(super) struct OneGraph {
    /// The graph
    pub(super) graph: String,
}

/// How a run is started; these flags stand beside those of the graph.
#[derive(Debug, Args)]
#[command(next_help_heading = "The run")]
pub(super) struct StartArgs {
    /// The thread [default: a new one]
    #[arg(long, value_name = "THREAD")]
    pub(super) thread: Option<ThreadId>,
    /// Name the run: started twice, it runs once [default: a new name]
    #[arg(long, value_name = "RUN")]
    pub(super) run_id: Option<RunId>,
    /// Give up what an earlier run has left open, and start anew
    #[arg(long)]
    pub(super) abandon: bool,
    /// Plain lines on a terminal, too, instead of a live view
    #[arg(long)]
    pub(super) plain: bool,
    #[command(flatten)]
    pub(super) probes: Probes,
}

/// How a run is disturbed and watched, to show what happens then.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "To try it out")]
pub(super) struct Probes {
    /// Kill this process right after NODE has finished for the first time
    #[arg(long, value_name = "NODE")]
    pub(super) crash_after: Option<String>,
    /// Write a line to FILE each time a node is run
    #[arg(long, value_name = "FILE")]
    pub(super) tally: Option<PathBuf>,
    /// Pause before NODE, wherever it is next; several with commas
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    pub(super) pause_before: Vec<String>,
    /// Pause after NODE has run; several with commas
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    pub(super) pause_after: Vec<String>,
    /// Wait this long after each node, so that one can watch
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) pace: Option<Duration>,
}

#[derive(Debug, Args)]
pub(super) struct ResumeArgs {
    /// The thread; not needed where only one is unfinished
    #[arg(conflicts_with = "all")]
    pub(super) thread: Option<ThreadId>,
    /// Every unfinished thread, one after another
    #[arg(long)]
    pub(super) all: bool,
    /// Every thread that can go on by itself now: whose time has come, whose process has died
    #[arg(long, conflicts_with_all = ["thread", "all"])]
    pub(super) due: bool,
    /// Plain lines on a terminal, too, instead of a live view
    #[arg(long)]
    pub(super) plain: bool,
    #[command(flatten)]
    pub(super) probes: Probes,
}

#[derive(Debug, Args)]
pub(super) struct RetryArgs {
    /// The thread
    pub(super) thread: ThreadId,
    /// The tasks: NODE, NODE[INDEX], or a path as `events` and errors name it
    #[arg(value_name = "TASK", required = true)]
    pub(super) tasks: Vec<String>,
    /// Plain lines on a terminal, too, instead of a live view
    #[arg(long)]
    pub(super) plain: bool,
    #[command(flatten)]
    pub(super) probes: Probes,
}

#[derive(Debug, Args)]
pub(super) struct QuestionsArgs {
    /// The thread [default: all]
    pub(super) thread: Option<ThreadId>,
}

#[derive(Debug, Args)]
pub(super) struct AnswerArgs {
    /// The thread
    pub(super) thread: ThreadId,
    /// The question's key or id, where several are open, and the answer: a word, JSON, @FILE, or -
    /// for what is piped in. Without an answer, it is asked for on the terminal
    #[arg(value_name = "[QUESTION] ANSWER", num_args = 0..=2, allow_hyphen_values = true)]
    pub(super) words: Vec<String>,
    /// Plain lines also on a terminal
    #[arg(long)]
    pub(super) plain: bool,
    #[command(flatten)]
    pub(super) probes: Probes,
}

#[derive(Debug, Args)]
pub(super) struct CancelArgs {
    /// The thread
    pub(super) thread: ThreadId,
    /// Why, to be kept with the thread
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub(super) reason: Option<String>,
    /// Only at the next boundary: what is running is not told to end
    #[arg(long)]
    pub(super) drain: bool,
    /// Wait until it has stopped, at most as long as --deadline says
    #[arg(long)]
    pub(super) wait: bool,
}

#[derive(Debug, Args)]
pub(super) struct WorkerArgs {
    /// How many threads at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) threads: u16,
    /// How long to wait before looking again, where nothing is due before
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub(super) poll: Duration,
    /// Take up what is due now, and end
    #[arg(long)]
    pub(super) once: bool,
}

impl WorkerArgs {
    /// Takes up what is due now, and ends.
    pub(super) fn once() -> Self {
        Self {
            threads: 4,
            poll: Duration::from_secs(1),
            once: true,
        }
    }
}

/// Which threads; all of what is given must hold.
#[derive(Debug, Args)]
pub(super) struct ThreadsArgs {
    /// Only those that stand like this: running, failed, finished, …; several with commas
    #[arg(long, value_name = "STATUS", value_parser = status, value_delimiter = ',')]
    pub(super) status: Vec<Status>,
    /// Only those of this graph
    #[arg(long, value_name = "GRAPH")]
    pub(super) graph: Option<String>,
    /// Only those that were last written longer ago than this
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) older_than: Option<Duration>,
    /// Also count records and the bytes of their values, which reads all of them
    #[arg(long)]
    pub(super) sizes: bool,
}

#[derive(Debug, Args)]
pub(super) struct OneThread {
    /// The thread
    pub(super) thread: ThreadId,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The thread
    pub(super) thread: ThreadId,
    /// Only this part of the state, and nothing else: report, notes[3].title, /notes/3/title
    #[arg(long, value_name = "PATH")]
    pub(super) field: Option<String>,
    /// Cut nothing
    #[arg(long)]
    pub(super) full: bool,
    /// The thread as it was at this checkpoint [default: as it is now]
    #[arg(long, value_name = "SEQ", value_parser = seq, allow_negative_numbers = true)]
    pub(super) at: Option<u64>,
}

#[derive(Debug, Args)]
pub(super) struct HistoryArgs {
    /// The thread
    pub(super) thread: ThreadId,
    /// Also those of other branches than the one that the thread stands on
    #[arg(long)]
    pub(super) all: bool,
    /// Draw all branches as a tree
    #[arg(long)]
    pub(super) tree: bool,
}

#[derive(Debug, Args)]
pub(super) struct PointArgs {
    /// The thread
    pub(super) thread: ThreadId,
    /// The checkpoint, by its seq as `history` lists it
    #[arg(value_name = "SEQ")]
    pub(super) seq: u64,
}

#[derive(Debug, Args)]
pub(super) struct SwitchArgs {
    /// The thread
    pub(super) thread: ThreadId,
    /// The branch, by its number as `history --tree` lists it
    pub(super) branch: u32,
}

#[derive(Debug, Args)]
pub(super) struct PatchArgs {
    /// The thread
    pub(super) thread: ThreadId,
    /// [--as NODE] [--exit EXIT] [--clear FIELD]... [--FIELD VALUE]... [--input JSON]
    #[arg(
        value_name = "CHANGE",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(super) words: Vec<OsString>,
}

/// Which node a patch stands for; these flags stand beside those of the fields.
#[derive(Debug, Args)]
#[command(next_help_heading = "The patch")]
pub(super) struct AsArgs {
    /// The node that the change is as if of [default: the one that ran last]
    #[arg(long = "as", value_name = "NODE")]
    pub(super) node: Option<String>,
    /// By which exit it is left, where it has several
    #[arg(long, value_name = "EXIT")]
    pub(super) exit: Option<String>,
    /// Empty this field (0, no text, no items) before what is given for it
    #[arg(long, value_name = "FIELD")]
    pub(super) clear: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct EventsArgs {
    /// The thread
    pub(super) thread: ThreadId,
    /// Go on with what comes, until the thread ends
    #[arg(long, short)]
    pub(super) follow: bool,
}

#[derive(Debug, Args)]
pub(super) struct CopyArgs {
    /// The thread
    pub(super) thread: ThreadId,
    /// The name of the copy
    pub(super) new: ThreadId,
}

#[derive(Debug, Args)]
pub(super) struct CompactArgs {
    /// The thread [default: every thread of the store]
    pub(super) thread: Option<ThreadId>,
    /// Keep the newest N checkpoints of each branch, and drop older ones
    #[arg(long, value_name = "N", value_parser = limit)]
    pub(super) keep: Option<u64>,
    /// Drop checkpoints that are older than this: 30d, 12h. With --keep, what either keeps stays
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) older_than: Option<Duration>,
    /// Keep this checkpoint too, by its seq as `history` lists it; several with commas
    #[arg(long, value_name = "SEQ", value_parser = seq, value_delimiter = ',', requires = "thread")]
    pub(super) also: Vec<u64>,
    /// Only say what would be given back
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Put all threads, each checked, into a new store in this folder; this store is only read
    #[arg(long, value_name = "NEW", conflicts_with_all = ["thread", "dry_run"])]
    pub(super) rewrite: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The threads
    #[arg(value_name = "THREAD", required_unless_present = "all")]
    pub(super) threads: Vec<ThreadId>,
    /// Every thread of the store
    #[arg(long, conflicts_with = "threads")]
    pub(super) all: bool,
    /// Write to this file; it is replaced once the export is whole [default: the standard output]
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// A file that `export` wrote, or `-` for the standard input
    pub(super) file: PathBuf,
    /// Import under this name; only for a file with one thread
    #[arg(long = "as", value_name = "THREAD")]
    pub(super) new: Option<ThreadId>,
    /// Leave threads as they are that the store has already
    #[arg(long)]
    pub(super) skip_existing: bool,
}

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Only this thread
    #[arg(long, value_name = "THREAD")]
    pub(super) thread: Option<ThreadId>,
    /// Put whatever is sound into a new store, and list what is lost; this store is not touched
    #[arg(long, requires = "to")]
    pub(super) repair: bool,
    /// The folder of the new store; it must not be there yet
    #[arg(long, value_name = "FOLDER", requires = "repair")]
    pub(super) to: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// The thread
    pub(super) thread: ThreadId,
    /// The one checkpoint, by its seq as `history` lists it
    #[arg(value_name = "SEQ", value_parser = seq, allow_negative_numbers = true)]
    pub(super) from: u64,
    /// The other checkpoint
    #[arg(value_name = "SEQ", value_parser = seq, allow_negative_numbers = true)]
    pub(super) to: u64,
}

#[derive(Debug, Args)]
pub(super) struct DotArgs {
    /// The graph; with --run, that of the thread
    pub(super) graph: Option<String>,
    /// As what; timeline and flame are of a thread
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    /// Lay this thread over the graph: what ran how often, what failed, what is left
    #[arg(long, value_name = "THREAD")]
    pub(super) run: Option<ThreadId>,
    /// The thread as it was at this checkpoint [default: as it is now]
    #[arg(long, value_name = "SEQ", requires = "run", value_parser = seq)]
    pub(super) at: Option<u64>,
    /// Say how long each node took the last time
    #[arg(long, requires = "run")]
    pub(super) times: bool,
}

/// A language of pictures.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(super) enum Format {
    /// Graphviz
    #[default]
    Dot,
    /// Mermaid
    Mermaid,
    /// A picture for browsers, laid out without Graphviz
    Svg,
    /// SVG: who ran when, in which superstep, and what it waited for
    Timeline,
    /// SVG: a flame graph of where the time went
    Flame,
}

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(super) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// The project's folder, which must not be there yet; its last part is the project's name
    #[arg(value_name = "NAME")]
    pub(super) path: PathBuf,
    /// The sources of milepost that the project is built with [default: the checkout that this
    /// program was built in, or the published version]
    #[arg(long, value_name = "FOLDER")]
    pub(super) milepost: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// The graph [default: the first that has an example]
    pub(super) graph: Option<String>,
    /// Kill the process while it is at this node [default: random]
    #[arg(long, value_name = "NODE|random")]
    pub(super) kill_at: Option<String>,
    /// Repeat the random choice of another demo
    #[arg(long, value_name = "N", value_parser = seed)]
    pub(super) seed: Option<u64>,
    /// The folder that the example reads [default: the docs of the clone]
    #[arg(long, value_name = "FOLDER")]
    pub(super) docs: Option<PathBuf>,
    /// Where the demo works [default: a new folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub(super) dir: Option<PathBuf>,
}

/// Every status that a thread can have.
const STATUSES: [Status; 8] = [
    Status::Running,
    Status::Paused,
    Status::Parked,
    Status::Failed,
    Status::Finished,
    Status::Cancelled,
    Status::Limited,
    Status::Drained,
];

fn status(text: &str) -> Result<Status, String> {
    let found = STATUSES.into_iter().find(|known| known.to_string() == text);
    found.ok_or_else(|| {
        let known: Vec<_> = STATUSES.iter().map(Status::to_string).collect();
        format!("a thread is one of {}", known.join(", "))
    })
}

fn reason(text: &str) -> Result<String, &'static str> {
    match text.len() {
        0..=1024 => Ok(text.to_owned()),
        _ => Err("a reason has at most 1024 bytes"),
    }
}

fn seq(text: &str) -> Result<u64, &'static str> {
    text.parse()
        .map_err(|_| "a checkpoint is a whole number, as history lists them")
}

fn limit(text: &str) -> Result<u64, &'static str> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or("a whole number from 1 on is expected")
}

/// The name of an engine.
pub(super) fn engine(text: &str) -> Result<StoreEngine, &'static str> {
    let engine = StoreEngine::ALL
        .into_iter()
        .find(|engine| engine.name() == text);
    engine.ok_or("sled or fjall is expected")
}

fn tasks(text: &str) -> Result<u16, &'static str> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or("a whole number from 1 to 65535 is expected")
}

fn seed(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "a whole number is expected")
}

/// Reads `90s`, `500ms`, `5m`, `2h`, `30d`; a number alone is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let number_ends = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(number_ends);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err("a time is a number with ms, s, m, h or d, as in 90s".to_owned()),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| "a time begins with a number, as in 90s".to_owned())?;
    Duration::try_from_secs_f64(number * seconds)
        .map_err(|_| "that is longer than any time can be".to_owned())
}

/// Whether JSON was asked for, in words that could not be understood otherwise.
pub(super) fn wants_json(words: &[OsString]) -> bool {
    words
        .iter()
        .take_while(|word| *word != "--")
        .any(|word| word == "--json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(duration("30d"), Ok(Duration::from_secs(2_592_000)));
        for wrong in [
            "",
            "s",
            "-1s",
            "1w",
            "1e400",
            "..",
            "9999999999999999999999h",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
