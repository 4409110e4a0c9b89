//! Starts children, kills them, and counts.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use milepost::store::StoreEngine;
use tempfile::TempDir;

use super::checker::check;
use super::child::{LIFE, Life, Plan};
use super::diary::Diary;
use super::disk;
use super::failpoint::Point;
use super::faulty::Fault;
use super::reference::{Reference, Remains};

/// How many families are there at once.
const SIDE_BY_SIDE: usize = 3;
/// SIGABRT, by which a failpoint ends its process, and SIGKILL, by which a parent does: neither
/// runs a destructor, and of neither is anything flushed.
const DEADLY: [i32; 2] = [6, 9];

/// Children that live one after the other on one folder.
pub(crate) struct Family {
    pub(crate) folder: TempDir,
    pub(crate) plans: Vec<Plan>,
    pub(crate) fault: Option<Fault>,
    pub(crate) poison_limit: Option<u32>,
    pub(crate) workers: usize,
    pub(crate) room: Option<u64>,
    pub(crate) kills: usize,
    lives: usize,
}

/// When a parent kills.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Strike {
    /// So long after the child has begun.
    Micros(u64),
    /// When the diary has got so many lines more.
    Lines(usize),
}

impl Family {
    pub(crate) fn new(plans: &[Plan]) -> Self {
        Self::on(disk::usual(), plans)
    }

    /// A family whose store has this engine.
    pub(crate) fn on(engine: StoreEngine, plans: &[Plan]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        disk::choose(folder.path(), engine);
        Self {
            folder,
            plans: plans.to_vec(),
            fault: None,
            // Most families are killed more often than a thread forgives.
            poison_limit: Some(10_000),
            workers: 0,
            room: None,
            kills: 0,
            lives: 0,
        }
    }

    /// The same family with a store that keeps long values apart from their records.
    pub(crate) fn apart(self) -> Self {
        disk::keep_apart(self.path());
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The next child, which goes on in one way or in the other.
    pub(crate) fn life(&self, point: Option<Point>) -> Life {
        Life {
            folder: self.path().to_owned(),
            plans: self.plans.clone(),
            chore: None,
            goes_on: self.lives % 2 == 1,
            point,
            fault: self.fault,
            poison_limit: self.poison_limit,
            script: None,
            workers: self.workers,
            room: self.room,
        }
    }

    /// Lets a child live. Says whether it was killed.
    pub(crate) fn live(&mut self, life: &Life) -> bool {
        let child = start(life);
        self.bury(child)
    }

    /// Lets a child live that ends at this point, if it comes to it.
    pub(crate) fn live_until(&mut self, point: Option<Point>) -> bool {
        let life = self.life(point);
        self.live(&life)
    }

    /// Lets a child live, and kills it from outside.
    pub(crate) fn strike(&mut self, life: &Life, strike: Strike) -> bool {
        let mut watch = Diary::open(self.path()).watch();
        let mut child = start(life);
        let lines = match strike {
            Strike::Micros(_) => 1,
            Strike::Lines(lines) => lines,
        };
        while watch.lines() < lines && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(150));
        }
        if let Strike::Micros(micros) = strike {
            std::thread::sleep(Duration::from_micros(micros));
        }
        child.kill().unwrap();
        self.bury(child)
    }

    fn bury(&mut self, child: Child) -> bool {
        let output = child.wait_with_output().unwrap();
        self.lives += 1;
        let killed = deadly(output.status);
        self.kills += usize::from(killed);
        assert!(
            killed || output.status.success(),
            "a child failed in {}: {}{}",
            PathBuf::from(self.path()).display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        killed
    }

    /// Checks what is left of it.
    pub(crate) fn check(&self, reference: Option<&Reference>) -> Result<(), String> {
        let remains = Remains::open(self.path())?;
        block_on(check(&remains, &self.plans, reference))
    }

    /// Lets a last child come to the end and checks everything. Returns how many were killed.
    pub(crate) fn end(
        mut self,
        reference: Option<&Reference>,
        what: &dyn std::fmt::Debug,
    ) -> usize {
        assert!(!self.live_until(None), "nobody killed it");
        if let Err(fault) = self.check(reference) {
            let kept = self.folder.keep();
            panic!("{fault}\nafter {what:?}, see {}", kept.display());
        }
        self.kills
    }
}

fn deadly(status: ExitStatus) -> bool {
    status
        .signal()
        .is_some_and(|signal| DEADLY.contains(&signal))
}

fn start(life: &Life) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(&program);
    if let Some(kib) = life.room {
        // Without the trap, the signal that comes with the error would end the child.
        let script = format!("trap '' XFSZ; ulimit -f {kib}; exec \"$@\"");
        command = Command::new("bash");
        command.args(["-c", &script, "bash"]).arg(&program);
    }
    command
        .args(["--exact", "child::a_child_lives_one_life", "--nocapture"])
        .env(LIFE, serde_json::to_string(life).unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs some plans without a kill.
pub(crate) fn undisturbed(plans: &[Plan]) -> Reference {
    let mut family = Family::new(plans);
    assert!(!family.live_until(None));
    let reference = block_on(Reference::read(family.path(), plans));
    family.check(Some(&reference)).unwrap();
    reference
}

pub(crate) fn block_on<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.unwrap().block_on(what)
}

/// Plays every case, a few side by side. Returns the sum of what they return.
pub(crate) fn play<C: Sync>(cases: &[C], case: impl Fn(&C) -> usize + Sync) -> usize {
    let (next, kills) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(this) = cases.get(next.fetch_add(1, Ordering::SeqCst)) {
                    kills.fetch_add(case(this), Ordering::SeqCst);
                }
            });
        }
    });
    kills.into_inner()
}
