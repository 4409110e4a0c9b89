//! Many threads at once, and a long thread that is taken up again.

use std::path::Path;

use milepost::{Command, Runner, ThreadId};
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::graphs::{self, Chat, Laps, Messages};
use crate::job::{Job, Outcome, Run};
use crate::stores::Kept;

/// Steps of each thread.
pub(crate) const STEPS: usize = 100;

/// Threads of 100 steps of `react`, as many as the job's size, all begun at once.
pub(crate) async fn at_once(job: &Job, folder: &Path) -> Outcome<Run> {
    let kept = Kept::open(&job.store, folder, STEPS)?;
    let graph = graphs::react(STEPS / 2, Messages::new(job.bytes), Laps::default())?;
    let runner = kept.runner(Runner::new(graph));
    let names = (0..job.size).map(|i| ThreadId::new(format!("t{i}")));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let mut running = JoinSet::new();
    let clock = Clock::start();
    for name in names {
        let runner = runner.clone();
        running.spawn(async move { runner.run(&name, Command::start(Chat::update())).await });
    }
    let mut finished = 0;
    while let Some(ended) = running.join_next().await {
        finished += usize::from(ended??.state.messages.len() == STEPS);
    }
    let spent = clock.stop();
    assert_eq!(finished, job.size, "not every thread came to its end");
    Ok(kept.told(Run::new(spent, job.size * STEPS)))
}

/// The state at the head of a thread of so many steps of `react`, from a store that was opened anew.
pub(crate) async fn resume(job: &Job, folder: &Path) -> Outcome<Run> {
    let rounds = job.size / 2;
    let graph = graphs::react(rounds, Messages::new(job.bytes), Laps::default())?;
    let runner = Runner::new(graph);
    let thread = ThreadId::new("measured")?;
    let mut kept = Kept::open(&job.store, folder, job.size)?;
    let before = kept.runner(runner.clone());
    before.run(&thread, Command::start(Chat::update())).await?;
    drop(before);
    if job.on_disk() {
        drop(kept);
        kept = Kept::open(&job.store, folder, job.size)?;
    }
    let runner = kept.runner(runner);
    let clock = Clock::start();
    let state = runner.state(&thread).await?;
    let spent = clock.stop();
    assert_eq!(state.messages.len(), 2 * rounds, "the result is wrong");
    Ok(Run::new(spent, 1))
}
