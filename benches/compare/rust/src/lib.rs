//! What the programs of all rivals share: the job, the clocks, and the line of JSON.
//!
//! A program is called with `WORKLOAD STORE SIZE [BYTES]`, does the work in a process of its own, and
//! prints one line with the same names as those of `benches/engine`. As there, a small run before the
//! measured one warms up, a short one without a disk is measured several times, and building the graph
//! and opening the store are outside.

use std::error::Error;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What goes wrong in a program that is only ever looked at.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The size of the run that warms up, at most.
const WARM_UP: usize = 1_000;
/// A run of at most so many steps is repeated, unless it writes to a disk.
const SHORT: usize = 10_000;
/// How often.
const REPEATS: usize = 9;
/// Elements of the small state's list.
pub const LIST_LEN: i64 = 16;

/// What to run.
pub struct Job {
    /// The shape of the graph.
    pub workload: String,
    /// Where its steps are kept.
    pub store: String,
    /// How large it is: nodes, workers, rounds, steps.
    pub size: usize,
    /// Bytes of a message.
    pub bytes: usize,
    folder: PathBuf,
}

impl Job {
    /// A fresh folder for the store of one run.
    pub fn folder(&self) -> Outcome<&Path> {
        let _ = fs::remove_dir_all(&self.folder);
        fs::create_dir_all(&self.folder)?;
        Ok(&self.folder)
    }

    /// How many steps the work has.
    pub fn steps(&self) -> usize {
        match self.workload.as_str() {
            "fan" => self.size + 2,
            "react" => 2 * self.size,
            _ => self.size,
        }
    }

    fn on_disk(&self) -> bool {
        !matches!(self.store.as_str(), "none" | "mem")
    }
}

/// Makes the messages of a conversation: each as long, and cheap, for it is the engine that is measured.
#[derive(Clone)]
pub struct Messages {
    rest: String,
}

impl Messages {
    /// Messages of so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self {
            rest: "abcdefghijklmnopqrstuvwxyz".chars().cycle().take(bytes).collect(),
        }
    }

    /// The message with a number.
    pub fn get(&self, number: usize) -> String {
        let mut text = String::with_capacity(self.rest.len());
        text.push_str(&number.to_string());
        text.push_str(&self.rest[text.len()..]);
        text
    }
}

/// Both clocks, started.
pub struct Clock {
    wall: Instant,
    cpu: Duration,
}

impl Clock {
    /// Starts them.
    pub fn start() -> Self {
        Self {
            cpu: cpu(),
            wall: Instant::now(),
        }
    }

    /// What has passed.
    pub fn stop(self) -> Spent {
        let wall = self.wall.elapsed();
        let stopped = cpu();
        // What looking at the clock costs.
        let looking = cpu().saturating_sub(stopped);
        Spent {
            wall,
            cpu: stopped.saturating_sub(self.cpu + looking),
        }
    }
}

/// What one run took.
pub struct Spent {
    wall: Duration,
    cpu: Duration,
}

/// Measures one job of a rival and prints its line. `once` does the work once and says what it took,
/// or that the rival cannot do it.
pub async fn program<F>(peer: &str, version: &str, once: impl Fn(Job) -> F) -> Outcome<()>
where
    F: Future<Output = Outcome<Option<Spent>>>,
{
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [workload, store, size, more @ ..] = args.as_slice() else {
        return Err("usage: WORKLOAD STORE SIZE [BYTES]".into());
    };
    let root = std::env::var("BENCH_DATA").unwrap_or_else(|_| "target/bench-data".to_owned());
    let folder = Path::new(&root).join(format!("{peer}-{}", std::process::id()));
    let job = |size: usize| -> Outcome<Job> {
        Ok(Job {
            workload: workload.clone(),
            store: store.clone(),
            size,
            bytes: more.first().map_or(Ok(200), |bytes| bytes.parse())?,
            folder: folder.clone(),
        })
    };
    let asked = job(size.parse()?)?;
    let repeats = if asked.steps() > SHORT || asked.on_disk() { 1 } else { REPEATS };
    let mut spent = Vec::new();
    if once(job(asked.size.min(WARM_UP))?).await?.is_some() {
        for _ in 0..repeats {
            spent.extend(once(job(asked.size)?).await?);
        }
    }
    if spent.is_empty() {
        return Err(format!("{peer} has no {workload} with {store}").into());
    }
    spent.sort_by_key(|spent| spent.wall);
    let wall = spent[spent.len() / 2].wall;
    let cpu = spent.iter().map(|spent| spent.cpu).sum::<Duration>() / repeats as u32;
    let (apparent, allocated) = bytes_below(&folder);
    let line = serde_json::json!({
        "peer": peer,
        "version": version,
        "workload": workload,
        "store": store,
        "size": asked.size,
        "bytes": asked.bytes,
        "steps": asked.steps(),
        "wall_us": wall.as_secs_f64() * 1e6,
        "cpu_us": cpu.as_secs_f64() * 1e6,
        "peak_kb": peak_kb(),
        "disk_bytes": apparent,
        "disk_allocated": allocated,
    });
    let _ = fs::remove_dir_all(&folder);
    println!("{line}");
    Ok(())
}

/// Time on a processor of all threads that live. To the nanosecond; a thread that runs elsewhere at
/// this moment is counted up to the last tick.
fn cpu() -> Duration {
    // Reading this brings the count of the calling thread up to date.
    let _ = fs::read("/proc/self/stat");
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// The peak of this process's resident memory.
fn peak_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// The bytes of the files below a folder, as they say and as the disk has set aside.
fn bytes_below(folder: &Path) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    let mut sum = (0, 0);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(data) = entry.metadata() else { continue };
        let (apparent, allocated) = if data.is_dir() {
            bytes_below(&entry.path())
        } else {
            (data.len(), data.blocks() * 512)
        };
        sum = (sum.0 + apparent, sum.1 + allocated);
    }
    sum
}
