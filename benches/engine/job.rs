//! One thing to do, done several times, and the line of JSON about it.

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use milepost::{Command, Graph, Runner, State, ThreadId};

use crate::clock::{self, Clock, Spent};
use crate::counted::Handed;
use crate::stores::{Data, Kept};

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The size of the run that warms up, at most; and that of one whose store is on a disk.
const WARM_UP: usize = 1_000;
const WARM_UP_DISK: usize = 100;
/// A run of at most so many steps is repeated, unless it writes to a disk.
const SHORT: usize = 10_000;
/// How often.
const REPEATS: usize = 9;
/// Bytes of a message, unless the call says otherwise.
const MESSAGE: usize = 200;

/// What to do.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) workload: String,
    pub(crate) store: String,
    pub(crate) size: usize,
    /// Of a message.
    pub(crate) bytes: usize,
}

/// One measured run.
pub(crate) struct Run {
    pub(crate) spent: Spent,
    /// How many steps were measured.
    pub(crate) steps: usize,
    /// The bytes of each write to the store, where they are counted.
    pub(crate) handed: Vec<Handed>,
    /// How long the same bytes took without an engine, where they are written.
    pub(crate) bare: Option<Duration>,
    /// How long the first hundred rounds took and the last hundred, where that is looked at.
    pub(crate) ends: Option<(Duration, Duration)>,
}

impl Run {
    pub(crate) fn new(spent: Spent, steps: usize) -> Self {
        Self {
            spent,
            steps,
            handed: Vec::new(),
            bare: None,
            ends: None,
        }
    }
}

impl Job {
    /// Takes WORKLOAD STORE SIZE [BYTES] from the command line; none if nothing is there.
    pub(crate) fn from_args() -> Outcome<Option<Self>> {
        // Cargo adds `--bench` of its own.
        let args: Vec<String> = std::env::args()
            .skip(1)
            .filter(|arg| !arg.starts_with("--"))
            .collect();
        match args.as_slice() {
            [] => Ok(None),
            [workload, store, size, more @ ..] if more.len() < 2 => Ok(Some(Self {
                workload: workload.clone(),
                store: store.clone(),
                size: size.parse()?,
                bytes: more.first().map_or(Ok(MESSAGE), |bytes| bytes.parse())?,
            })),
            _ => Err("usage: WORKLOAD STORE SIZE [BYTES]".into()),
        }
    }

    pub(crate) fn on_disk(&self) -> bool {
        !matches!(self.store.as_str(), "none" | "mem" | "mem+counted")
    }

    /// The same, small.
    fn warm_up(&self) -> Self {
        let most = match self.workload.as_str() {
            // Another width is another type.
            "wide" => self.size,
            "threads" | "resume" => WARM_UP_DISK,
            _ if self.on_disk() => WARM_UP_DISK,
            _ => WARM_UP,
        };
        Self {
            size: self.size.min(most),
            ..self.clone()
        }
    }

    /// Measures it, each time in a fresh folder, and prints the line.
    pub(crate) fn measure(&self, once: impl AsyncFn(&Self, &Path) -> Outcome<Run>) -> Outcome<()> {
        let set = |name, value| std::env::var(name).is_ok_and(|found| found == value);
        let mut runtime = if set("BENCH_RUNTIME", "current") {
            tokio::runtime::Builder::new_current_thread()
        } else {
            tokio::runtime::Builder::new_multi_thread()
        };
        // As under `#[tokio::main]`: the run is awaited on the program's own thread.
        let runtime = runtime.enable_all().build()?;
        let data = Data::new(&self.workload, &self.store)?;
        let once = |job: &Self| {
            let folder: PathBuf = data.fresh()?;
            runtime.block_on(once(job, &folder))
        };
        let cold = set("BENCH_COLD", "1");
        if !cold {
            once(&self.warm_up())?;
        }
        let mut runs = vec![once(self)?];
        if !cold && !self.on_disk() && runs[0].steps <= SHORT {
            for _ in 1..REPEATS {
                runs.push(once(self)?);
            }
        }
        let cpu = runs.iter().map(|run| run.spent.cpu).sum::<Duration>() / runs.len() as u32;
        runs.sort_by_key(|run| run.spent.wall);
        let run = runs.swap_remove(runs.len() / 2);
        let line = self.line(&run, cpu, data.folder());
        writeln!(std::io::stdout().lock(), "{line}")?;
        Ok(())
    }

    fn line(&self, run: &Run, cpu: Duration, folder: &Path) -> serde_json::Value {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let (apparent, allocated) = clock::bytes_below(folder);
        let mut line = serde_json::json!({
            "peer": "milepost",
            "version": env!("CARGO_PKG_VERSION"),
            "workload": self.workload,
            "store": self.store,
            "size": self.size,
            "bytes": self.bytes,
            "steps": run.steps,
            "wall_us": micros(run.spent.wall),
            "cpu_us": micros(cpu),
            "peak_kb": clock::peak_kb(),
            "disk_bytes": apparent,
            "disk_allocated": allocated,
        });
        if !run.handed.is_empty() {
            let sum = |part: fn(&Handed) -> usize| run.handed.iter().map(part).sum::<usize>();
            line["writes"] = run.handed.len().into();
            line["handed_bytes"] = sum(Handed::total).into();
            line["record_bytes"] = sum(|handed| handed.records).into();
            line["segment_bytes"] = sum(|handed| handed.segments).into();
        }
        if let Some(bare) = run.bare {
            line["bare_us"] = micros(bare).into();
        }
        if let Some((first, last)) = run.ends {
            line["first_us"] = micros(first).into();
            line["last_us"] = micros(last).into();
        }
        line
    }

    /// Runs one thread of a graph from its start to its end. Building the graph, opening the store
    /// and closing it are outside of the measured time; merging the input is inside.
    pub(crate) async fn drive<S: State>(
        &self,
        graph: Graph<S>,
        steps: usize,
        input: S::Update,
        check: impl Fn(&S) -> bool,
        folder: &Path,
    ) -> Outcome<Run> {
        let kept = Kept::open(&self.store, folder, steps)?;
        let runner = kept.runner(Runner::new(graph));
        let thread = ThreadId::new("measured")?;
        let command = Command::start(input);
        let clock = Clock::start();
        let report = runner.run(&thread, command).await?;
        let spent = clock.stop();
        let ended = report.ended;
        assert!(ended.is_finished(), "it ended early: {ended}");
        assert!(check(&report.state), "the result is wrong");
        Ok(kept.told(Run::new(spent, steps)))
    }
}
