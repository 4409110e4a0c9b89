//! What is called on a thread, in order, by somebody who may die in the middle of any call and does
//! not know afterwards what has become of it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use milepost::store::{CheckpointStore, Record};
use milepost::{
    Answers, AsNode, Branch, Busy, Command, Ended, Graph, RunError, RunOptions, Runner, Seq,
    ThreadId, agenda, history,
};

use super::child::Plan;
use super::diary::{Diary, Effect};
use super::state::Work;
use super::workloads::retaining;

/// A graph, and what is called on a thread of it. A new one is one file of `workloads`.
#[derive(Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) graph: fn(&Diary) -> Graph<Work>,
    pub(crate) calls: &'static [Call],
    pub(crate) options: fn(RunOptions) -> RunOptions,
}

impl Workload {
    /// How many checkpoints stay at least, the newest ones.
    pub(crate) fn newest(&self) -> usize {
        let retention = (self.options)(RunOptions::new()).retention;
        match retention.keeps_all() {
            true => usize::MAX,
            false => retaining::NEWEST as usize,
        }
    }
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    /// Starts this run.
    Start(u32),
    /// Starts this run, in which a node fails.
    Fail(u32),
    /// Starts this run, and gives up what is open.
    Instead(u32),
    GoOn,
    /// Answers these questions, by id.
    Answer(&'static [(&'static str, u64)]),
    /// Goes on as often as a worker says that the thread is due, until it finishes.
    Wake,
    /// Goes on until it no longer fails: nodes that fail at first.
    Insist,
    /// Forks from the checkpoint that closes this superstep of this branch, which begins the branch.
    Fork {
        of: u32,
        step: u64,
        begins: u32,
    },
    /// The same, and only back.
    Rewind {
        of: u32,
        step: u64,
        begins: u32,
    },
    /// Patches the sum as this node, which begins the branch.
    Patch {
        node: &'static str,
        exit: Option<&'static str>,
        begins: u32,
    },
    /// Goes to a branch.
    Switch(u32),
}

pub(crate) fn thread() -> ThreadId {
    ThreadId::new("main").unwrap()
}

/// Does all calls that are not known to be done.
pub(crate) async fn play(
    workload: &Workload,
    store: Arc<dyn CheckpointStore>,
    diary: &Diary,
) -> Result<(), String> {
    let done = diary.read();
    let done = done
        .iter()
        .filter(|effect| matches!(effect, Effect::Did(_)));
    let options = RunOptions::new()
        // Whoever held the thread is dead, and did not give it back.
        .busy(Busy::Replace)
        .poison_limit(10_000)
        .park_after(Duration::ZERO);
    let runner = Runner::new((workload.graph)(diary))
        .options((workload.options)(options))
        .shared_store(Arc::clone(&store));
    for (number, call) in workload.calls.iter().enumerate().skip(done.count()) {
        let ended = call.make(&runner, &*store).await;
        ended.map_err(|error| format!("call {number}, {call:?}: {error}"))?;
        diary.note(&Effect::Did(number));
    }
    Ok(())
}

impl Call {
    async fn make(
        self,
        runner: &Runner<Work>,
        store: &dyn CheckpointStore,
    ) -> Result<(), RunError> {
        let (t, run) = (thread(), |command| async {
            runner.run(&thread(), command).await
        });
        let start = |number: u32| {
            let input = Work::update().log(vec![format!("input {number}")]);
            Command::start(input).run_id(Plan::run_id(number))
        };
        match self {
            Call::Start(number) => drop(run(start(number)).await?),
            Call::Fail(number) => match run(start(number)).await {
                Ok(_) | Err(RunError::Node { .. }) => {}
                Err(error) => return Err(error),
            },
            Call::Instead(number) => drop(run(start(number).abandon()).await?),
            Call::GoOn => drop(run(Command::go_on()).await?),
            Call::Answer(answers) => {
                let mut answers = answers
                    .iter()
                    .map(|(id, answer)| (id.parse().unwrap(), answer));
                let (id, answer) = answers.next().unwrap();
                let all = answers.fold(Answers::to(id, answer), |all, (id, answer)| {
                    all.and(id, answer)
                });
                drop(run(Command::answer(all)).await?);
            }
            Call::Wake => loop {
                let agenda = agenda(store, SystemTime::now()).await?;
                if agenda.due.iter().any(|due| due.thread == t) {
                    run(Command::go_on()).await?;
                } else if agenda.next.is_none() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            },
            Call::Insist => loop {
                match run(Command::go_on()).await {
                    Ok(report) if report.ended == Ended::Finished => break,
                    Ok(_) | Err(RunError::Node { .. }) => {}
                    Err(error) => return Err(error),
                }
            },
            Call::Fork { of, step, begins } => {
                if !has_branch(store, begins).await? {
                    runner.fork(&t, closed(store, of, step).await?).await?;
                }
            }
            Call::Rewind { of, step, begins } => {
                if !has_branch(store, begins).await? {
                    runner.rewind(&t, closed(store, of, step).await?).await?;
                }
            }
            Call::Patch { node, exit, begins } => {
                if !has_branch(store, begins).await? {
                    let node = AsNode::new(node);
                    let node = match exit {
                        Some(exit) => node.exit(exit),
                        None => node,
                    };
                    let update = Work::update().log(vec!["patch".to_owned()]).sum(1_000);
                    runner.patch(&t, update, node).await?;
                }
            }
            Call::Switch(branch) => drop(runner.switch(&t, Branch::new(branch)).await?),
        }
        Ok(())
    }
}

/// Whether a branch was begun.
async fn has_branch(store: &dyn CheckpointStore, branch: u32) -> Result<bool, RunError> {
    let records = store.records(&thread(), Seq::new(1), usize::MAX).await?;
    let begun = |record: &Record| matches!(record, Record::Branch(begun) if begun.branch == branch);
    Ok(records.iter().any(|stored| begun(&stored.record)))
}

/// The checkpoint that closes a superstep of a branch.
async fn closed(store: &dyn CheckpointStore, branch: u32, step: u64) -> Result<Seq, RunError> {
    let all = history(store, &thread()).await?;
    let found = all
        .iter()
        .rfind(|at| at.branch.get() == branch && at.step.get() == step);
    Ok(found.unwrap().seq)
}
