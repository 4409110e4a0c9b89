//! One life of a child: opens the store, runs what is planned to its end, unless it ends before.

use std::path::PathBuf;
use std::sync::Arc;

use futures::StreamExt;
use milepost::store::{CheckpointStore, StoreError, ThreadArchive};
use milepost::{Command, Durability, Event, EventKind, RunError, RunId, Runner, ThreadId};
use serde::{Deserialize, Serialize};

use super::diary::{Diary, Effect};
use super::failpoint::{Failpoint, Moment, Point};
use super::faulty::{Fault, Faulty};
use super::graphs::Shape;
use super::state::Work;
use super::still::Still;
use super::{disk, script, workloads};

/// Set for a child: its [`Life`].
pub(crate) const LIFE: &str = "MILEPOST_TEST_LIFE";

/// What a child has to do, and where it ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Life {
    /// Where the store and the diary are.
    pub(crate) folder: PathBuf,
    pub(crate) plans: Vec<Plan>,
    pub(crate) chore: Option<Chore>,
    /// Whether it first goes on with what there is, instead of repeating the start.
    pub(crate) goes_on: bool,
    pub(crate) point: Option<Point>,
    pub(crate) fault: Option<Fault>,
    pub(crate) poison_limit: Option<u32>,
    /// A script to play instead of the plans.
    pub(crate) script: Option<Script>,
    /// How many threads of the system run the plans; 0 for the child's own alone.
    pub(crate) workers: usize,
    /// How many KiB a file may have, where the disk is full beyond that.
    pub(crate) room: Option<u64>,
}

/// When the runs wait for their store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Mode {
    Each,
    Background,
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

/// A workload by name, and where the process that plays it ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Script {
    pub(crate) workload: String,
    pub(crate) dies: Option<(u64, Moment)>,
}

/// A thread, and the runs on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) thread: String,
    pub(crate) shape: Shape,
    pub(crate) runs: u32,
    pub(crate) mode: Mode,
}

/// Upkeep that is done while the plans run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Chore {
    Delete,
    Copy,
    Prune,
    Restore,
}

/// The thread that a chore is about.
pub(crate) const OLD: &str = "old";
/// Where it is copied to.
pub(crate) const NEW: &str = "new";

impl Plan {
    pub(crate) fn new(thread: &str, shape: Shape, runs: u32) -> Self {
        Self {
            thread: thread.to_owned(),
            shape,
            runs,
            mode: Mode::Each,
        }
    }

    pub(crate) fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    pub(crate) fn id(&self) -> ThreadId {
        ThreadId::new(&self.thread).unwrap()
    }

    pub(crate) fn run_id(run: u32) -> RunId {
        RunId::new(format!("run-{run}")).unwrap()
    }
}

#[test]
fn a_child_lives_one_life() {
    let Ok(life) = std::env::var(LIFE) else {
        return;
    };
    let life: Life = serde_json::from_str(&life).unwrap();
    let runtime = match life.workers {
        0 => tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build(),
        workers => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .enable_time()
            .build(),
    };
    match life.script {
        Some(script) => runtime.unwrap().block_on(act(life.folder, script)),
        None => runtime.unwrap().block_on(live(life)),
    }
}

async fn live(life: Life) {
    let diary = Diary::open(&life.folder);
    let mut inner = match disk::open(&life.folder) {
        Err(StoreError::Io { .. }) if life.room.is_some() => return,
        opened => opened.unwrap(),
    };
    if let Some(fault) = life.fault {
        inner = Arc::new(Faulty::new(inner, fault));
    }
    let store = Failpoint::new(inner, diary.clone(), life.point);
    diary.note(&Effect::Life);
    let plans = life.plans.iter().map(|plan| {
        let runner = runner(
            plan.shape,
            &diary,
            Arc::clone(&store) as _,
            life.poison_limit,
            plan.mode,
        );
        let plan = plan.clone();
        let all = run_all(runner, diary.clone(), plan.clone(), life.goes_on);
        let (diary, is_full) = (diary.clone(), life.room.is_some());
        tokio::spawn(async move {
            match all.await {
                Ok(()) => {}
                // Once a write has failed, the store takes no more.
                Err(RunError::Store(error @ (StoreError::Io { .. } | StoreError::Closed)))
                    if is_full =>
                {
                    diary.note(&Effect::Stumbled(plan.thread, error.to_string()));
                }
                Err(error) => fail(&diary, &plan, &error),
            }
        })
    });
    let plans: Vec<_> = plans.collect();
    if let Some(chore) = life.chore {
        // So that the others are at work by then.
        tokio::task::yield_now().await;
        do_chore(&*store, chore).await;
    }
    for plan in plans {
        plan.await.unwrap();
    }
    diary.note(&Effect::Operations(store.operations()));
    if life.room.is_some() {
        return;
    }
    for plan in &life.plans {
        store.head(&plan.id()).await.unwrap();
    }
}

async fn act(folder: PathBuf, script: Script) {
    let diary = Diary::open(&folder);
    let store = disk::open(&folder).unwrap();
    // A new process knows by itself that the one before has died.
    let still = Still::new(store, &diary, script.dies, (false, true));
    let workload = workloads::by_name(&script.workload);
    script::play(workload, Arc::clone(&still) as _, &diary)
        .await
        .unwrap();
    diary.note(&Effect::Operations(still.operations()));
}

pub(crate) fn runner(
    shape: Shape,
    diary: &Diary,
    store: Arc<dyn CheckpointStore>,
    poison_limit: Option<u32>,
    mode: Mode,
) -> Runner<Work> {
    let mut options = shape.options().durability(mode.into());
    if let Some(limit) = poison_limit {
        options = options.poison_limit(limit);
    }
    Runner::new(shape.graph(diary))
        .options(options)
        .shared_store(store)
}

async fn do_chore(store: &dyn CheckpointStore, chore: Chore) {
    let (old, new) = (ThreadId::new(OLD).unwrap(), ThreadId::new(NEW).unwrap());
    let done = match chore {
        Chore::Delete => store.delete_thread(&old).await,
        Chore::Copy => store.copy_thread(&old, &new).await,
        Chore::Prune => store.prune(&old).await,
        Chore::Restore => {
            let archive = ThreadArchive::read(store, &old).await.unwrap().unwrap();
            let thread = new;
            store.restore(ThreadArchive { thread, ..archive }).await
        }
    };
    done.unwrap();
}

/// Starts every run of a thread, as one that does not know what has happened before.
async fn run_all(
    runner: Runner<Work>,
    diary: Diary,
    plan: Plan,
    goes_on: bool,
) -> Result<(), RunError> {
    if goes_on {
        match run(&runner, &diary, &plan, Command::go_on()).await {
            Ok(()) | Err(RunError::NotFound { .. }) => {}
            Err(RunError::Node { .. } | RunError::Route { .. }) if plan.shape.fails() => {}
            Err(error) => return Err(error),
        }
    }
    for number in 0..plan.runs {
        while plan.shape.fails()
            && let Err(error @ (RunError::Node { .. } | RunError::Route { .. })) =
                run(&runner, &diary, &plan, start(number)).await
        {
            diary.note(&Effect::Stumbled(plan.thread.clone(), error.to_string()));
        }
        run(&runner, &diary, &plan, start(number)).await?;
    }
    Ok(())
}

/// The start of a run, the same each time.
fn start(number: u32) -> Command<Work> {
    let input = Work::update().log(vec![format!("input {number}")]);
    Command::start(input).run_id(Plan::run_id(number))
}

async fn run(
    runner: &Runner<Work>,
    diary: &Diary,
    plan: &Plan,
    command: Command<Work>,
) -> Result<(), RunError> {
    let mut events = runner.stream(&plan.id(), command);
    // Where a run does not wait for its store, only what is said to be durable is acknowledged.
    let mut accepted: Vec<Event> = Vec::new();
    let waits = plan.mode == Mode::Each;
    while let Some(event) = events.next().await {
        match &event.kind {
            _ if waits => diary.event(&plan.thread, &event),
            EventKind::Durable { up_to } => {
                let is_safe = |event: &mut Event| event.seq.is_some_and(|seq| seq <= *up_to);
                for event in accepted.extract_if(.., is_safe) {
                    diary.event(&plan.thread, &event);
                }
            }
            _ => accepted.push(event),
        }
    }
    let report = events.report().await?;
    let run = report.run.as_str().to_owned();
    diary.note(&Effect::End(plan.thread.clone(), run));
    Ok(())
}

fn fail(diary: &Diary, plan: &Plan, error: &RunError) {
    let (class, text) = (error.class().to_owned(), error.to_string());
    diary.note(&Effect::Failed(plan.thread.clone(), class, text));
}
