//! Scripts of calls on threads that ask, wait, sleep, go back and fail, killed at every operation of
//! their store, and compared with the same script left alone.
//!
//! In memory, a life is a runtime that is dropped whole while its store no longer answers: that is
//! quick enough to try each operation. On sled, a life is a process.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use milepost::store::{CheckpointStore, MemoryStore, Record, Severity, Stored, check};
use milepost::{RunError, Runner, Seq, history, questions};

use super::child::Script;
use super::diary::{Diary, Effect, Place};
use super::disk;
use super::failpoint::Moment;
use super::ledger::made;
use super::parent::{Family, block_on, play};
use super::script::{self, Workload, thread};
use super::state::Work;
use super::still::{Still, digest};
use super::workloads;

/// Where a process ends.
pub(crate) type Death = Option<(u64, Moment)>;

/// What a script leaves behind, less times and seqs.
#[derive(Debug, PartialEq)]
pub(crate) struct Left {
    checkpoints: Vec<String>,
    open: Vec<String>,
    head: String,
}

impl Left {
    async fn read(workload: &Workload, store: &Arc<dyn CheckpointStore>, diary: &Diary) -> Self {
        let runner = Runner::new((workload.graph)(diary)).shared_store(Arc::clone(store));
        let all = history(&**store, &thread()).await.unwrap();
        // How many are older depends on when a process was killed. What is there can be read, but for
        // inputs that stay because runs name them.
        let (older, all) = all.split_at(all.len().saturating_sub(workload.newest()));
        for at in older {
            match runner.state_at(&thread(), at.seq).await {
                Err(RunError::Pruned { .. }) if at.input.is_some() => {}
                state => drop(state.unwrap()),
            }
        }
        let mut checkpoints = Vec::new();
        for at in all {
            let state: Work = (*runner.state_at(&thread(), at.seq).await.unwrap()).clone();
            let parent = all.iter().position(|other| Some(other.seq) == at.parent);
            checkpoints.push(format!(
                "{} {parent:?} {} {:?} ran {:?} wrote {:?} next {:?} {} {} {state:?}",
                at.branch, at.step, at.input, at.ran, at.wrote, at.next, at.status, at.patched
            ));
        }
        let open = questions(&**store, &thread()).await.unwrap();
        let head = store.head(&thread()).await.unwrap().unwrap();
        Self {
            checkpoints,
            open: open.iter().map(|open| open.id.to_string()).collect(),
            head: format!("{} {} {} {}", head.branch, head.run, head.step, head.status),
        }
    }

    pub(crate) fn differs(&self, other: &Self) -> Option<String> {
        let mut both = self.checkpoints.iter().zip(&other.checkpoints);
        let checkpoints = both.find(|(one, other)| one != other);
        if let Some((one, other)) = checkpoints {
            return Some(format!("a checkpoint\n{one}\nundisturbed\n{other}"));
        }
        (self != other).then(|| format!("{self:?}\nundisturbed\n{other:?}"))
    }
}

/// What a life has done: how many operations of its store, and which of them were writes.
pub(crate) struct Done {
    pub(crate) operations: u64,
    writes: Vec<u64>,
}

/// One life of a script in memory. Returns what it has done, where it was not killed.
fn live(
    workload: &Workload,
    store: &MemoryStore,
    diary: &Diary,
    death: Death,
    orphan: bool,
) -> Result<Option<Done>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let still = Still::new(Arc::new(store.clone()), diary, death, (orphan, false));
    let ended = runtime.block_on(async {
        tokio::select! {
            biased;
            () = still.died() => Ok(None),
            played = script::play(workload, Arc::clone(&still) as _, diary) => {
                played.map(|()| Some(Done {
                    operations: still.operations(),
                    writes: still.writes(),
                }))
            }
        }
    });
    drop(runtime);
    ended
}

/// Everything that has to hold of a log and a diary, at any moment.
async fn is_sound(
    workload: &Workload,
    store: &dyn CheckpointStore,
    diary: &Diary,
) -> Result<(), String> {
    let checked = check(store, &thread()).await;
    let worst = checked.findings.iter().map(|found| found.severity).max();
    if worst > Some(Severity::Note) {
        return Err(format!("it is not clean: {:?}", checked.findings));
    }
    let records = store.records(&thread(), Seq::new(1), usize::MAX).await;
    let records = records.map_err(|error| error.to_string())?;
    let is_checkpoint =
        |stored: &&Stored| matches!(*stored.record, Record::Input(_) | Record::Commit(_));
    let mut checkpoints = records.iter().rev().filter(is_checkpoint);
    let floor = checkpoints.nth(workload.newest() - 1);
    let floor = floor.map_or(0, |stored| stored.seq.get());
    is_kept(&diary.read(), &records, floor)
}

/// What was acknowledged is there from the record `floor` on, and was not begun again.
fn is_kept(effects: &[Effect], records: &[Stored], floor: u64) -> Result<(), String> {
    let mut kept: HashSet<&Place> = HashSet::new();
    for effect in effects {
        match effect {
            Effect::Begun(place) if kept.contains(place) => {
                return Err(format!("{place:?} was kept and begun again"));
            }
            Effect::Kept(place) if !kept.insert(place) => {
                return Err(format!("{place:?} was kept twice"));
            }
            Effect::Stored(branch, seq, was) if *seq >= floor => {
                let found = records.iter().find(|stored| stored.seq.get() == *seq);
                let is_it =
                    |found: &Stored| found.branch.get() == *branch && digest(&found.record) == *was;
                if !found.is_some_and(is_it) {
                    return Err(format!("record {seq}, acknowledged, is {found:?}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Plays a script in memory, with these deaths one after the other. Returns how often it was killed,
/// what it leaves, and what its last life has done.
pub(crate) fn lives(
    workload: &Workload,
    deaths: &[(u64, Moment)],
) -> Result<(usize, Left, Done), String> {
    let folder = tempfile::tempdir().unwrap();
    let (store, diary) = (MemoryStore::new(), Diary::open(folder.path()));
    let shared: Arc<dyn CheckpointStore> = Arc::new(store.clone());
    let (mut kills, mut orphan) = (0, false);
    for death in deaths.iter().copied().map(Some).chain([None]) {
        let lived = live(workload, &store, &diary, death, orphan)?;
        if store_has_log(&shared) {
            block_on(is_sound(workload, &*shared, &diary))?;
        }
        if let Some(done) = lived {
            let left = block_on(Left::read(workload, &shared, &diary));
            return Ok((kills, left, done));
        }
        (kills, orphan) = (kills + 1, true);
    }
    Err("nobody killed it, and it did not end".to_owned())
}

fn store_has_log(store: &Arc<dyn CheckpointStore>) -> bool {
    block_on(store.head(&thread())).unwrap().is_some()
}

/// Kills a script at every operation, and the next life at another one.
fn at_every_operation(workload: &Workload) -> usize {
    let (_, undisturbed, done) = lives(workload, &[]).unwrap();
    // After a read, everything is as it was before.
    let before = (1..=done.operations).map(|at| (at, Moment::Before));
    let after = done.writes.into_iter().map(|at| (at, Moment::After));
    let cases: Vec<_> = before.chain(after).collect();
    play(&cases, |(at, moment)| {
        let next = (at * 7 % 23 + 1, Moment::After);
        let later = (at % 11 + 1, Moment::Before);
        let deaths = [(*at, *moment), next, later];
        let played = lives(workload, &deaths);
        let wrong = match &played {
            Ok((_, left, _)) => left.differs(&undisturbed),
            Err(wrong) => Some(wrong.clone()),
        };
        if let Some(wrong) = wrong {
            panic!("{} after {deaths:?}: {wrong}", workload.name);
        }
        played.unwrap().0
    })
}

macro_rules! in_memory {
    ($($name:ident: $workload:literal;)+) => {$(
        #[test]
        fn $name() {
            let kills = at_every_operation(workloads::by_name($workload));
            made($workload, kills);
        }
    )+};
}

in_memory! {
    questions_half_answered_survive_a_kill_at_every_operation: "asking";
    steps_survive_a_kill_at_every_operation: "stepping";
    parked_tasks_survive_a_kill_at_every_operation: "sleeping";
    questions_that_expire_survive_a_kill_at_every_operation: "expiring";
    failures_survive_a_kill_at_every_operation: "failing";
    graphs_inside_survive_a_kill_at_every_operation: "nested";
    joins_survive_a_kill_at_every_operation: "joining";
    runs_that_are_given_up_survive_a_kill_at_every_operation: "abandoned";
    a_loop_dies_anywhere: "chain again";
    two_nodes_at_once_die_anywhere: "diamond again";
    fan_outs_over_nothing_die_anywhere: "empty again";
    workers_die_anywhere: "fan again";
    long_lists_die_anywhere: "long again";
    reducers_die_anywhere: "mixed again";
    branches_survive_a_kill_at_every_operation: "travelling";
    questions_of_a_thread_that_is_pruned_as_it_runs_survive: "asking, few";
    a_loop_that_is_pruned_as_it_runs_dies_anywhere: "chain, few";
    long_lists_that_are_pruned_as_they_grow_die_anywhere: "long, few";
}

/// One life of a script on a disk, as a process.
pub(crate) fn process(family: &mut Family, workload: &Workload, dies: Death) -> bool {
    let mut life = family.life(None);
    life.script = Some(Script {
        workload: workload.name.to_owned(),
        dies,
    });
    family.live(&life)
}

/// What a script leaves on a disk, if that is sound.
pub(crate) fn left_on_disk(workload: &Workload, folder: &Path) -> Result<Left, String> {
    let store = disk::open(folder).map_err(|error| error.to_string())?;
    let diary = Diary::open(folder);
    block_on(async {
        let waste = store.waste().await.map_err(|error| error.to_string())?;
        if waste.values > 0 {
            return Err(format!("no thread has {waste:?}"));
        }
        is_sound(workload, &*store, &diary).await?;
        Ok(Left::read(workload, &store, &diary).await)
    })
}

/// Every workload on a disk, in processes that die at some of its operations, before them, after them
/// and inside.
#[test]
fn every_script_survives_processes_that_die_on_a_disk() {
    let cases: Vec<_> = workloads::ALL
        .iter()
        .flat_map(|workload| {
            let (_, undisturbed, Done { operations, .. }) = lives(workload, &[]).unwrap();
            let undisturbed = Arc::new(undisturbed);
            (0..PROCESSES).map(move |number| {
                let at = 3 + number * (operations - 3) / PROCESSES;
                (workload, Arc::clone(&undisturbed), at)
            })
        })
        .collect();
    let kills = play(&cases, |(workload, undisturbed, at)| {
        let mut family = Family::new(&[]);
        let moments = [
            Moment::Before,
            Moment::After,
            Moment::During(at * 173 % 1_500),
        ];
        for (number, moment) in moments.into_iter().enumerate() {
            let at = if number == 0 { *at } else { at % 9 + 4 };
            process(&mut family, workload, Some((at, moment)));
        }
        assert!(!process(&mut family, workload, None), "nobody killed it");
        let left = left_on_disk(workload, family.path());
        let wrong = match &left {
            Ok(left) => left.differs(undisturbed),
            Err(wrong) => Some(wrong.clone()),
        };
        if let Some(wrong) = wrong {
            let kept = family.folder.keep();
            panic!("{} at {at}: {wrong}\nsee {}", workload.name, kept.display());
        }
        family.kills
    });
    made("scripts", kills);
}

/// At how many operations of each workload a process dies.
const PROCESSES: u64 = 5;
