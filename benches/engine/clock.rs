//! What a run takes: time, processor time, memory, room on the disk.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Both clocks, started.
pub(crate) struct Clock {
    wall: Instant,
    cpu: Duration,
}

/// What has passed.
pub(crate) struct Spent {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            cpu: cpu(),
            wall: Instant::now(),
        }
    }

    pub(crate) fn stop(self) -> Spent {
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

/// Time on a processor of all threads that live. To the nanosecond; a thread that runs elsewhere at
/// this moment is counted up to the last tick.
fn cpu() -> Duration {
    // Reading this brings the count of the calling thread up to date.
    let _ = fs::read("/proc/self/stat");
    let threads = fs::read_dir("/proc/self/task").into_iter();
    let nanos = threads.flatten().flatten().filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// The peak of this process's resident memory, from the kernel; 0 where it does not say.
pub(crate) fn peak_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// The bytes of the files below a folder: as they say, and as the disk has set aside for them.
pub(crate) fn bytes_below(folder: &Path) -> (u64, u64) {
    let mut sum = (0, 0);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (apparent, allocated) = match entry.metadata() {
            Ok(data) if data.is_dir() => bytes_below(&entry.path()),
            Ok(data) => (data.len(), data.blocks() * 512),
            Err(_) => (0, 0),
        };
        sum = (sum.0 + apparent, sum.1 + allocated);
    }
    sum
}
