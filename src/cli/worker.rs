//! `worker`, and `resume --due`: threads that can go on by themselves go on.
//!
//! It looks at the store again and again, and takes up what is due: what waited for a time that has
//! come, what a dead process has left, what was answered and not taken up. Several run side by side.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use serde_json::json;
use tokio::task::JoinSet;

use super::args::WorkerArgs;
use super::ask::End;
use super::drive;
use super::entry::Known;
use super::exit::{Exit, Failure};
use super::out::one_line;
use super::shell::Shell;
use super::signal::Signals;
use crate::store::{CheckpointStore, StoreError};
use crate::{Cancel, Due, RunError, RunOptions, ThreadId, WhyDue, agenda};

type Ended = (ThreadId, Arc<dyn Known>, Result<End, RunError>);

/// Takes up what is due, until it is told to stop, or once.
pub(super) async fn work(shell: &mut Shell, args: &WorkerArgs) -> Result<Exit, Failure> {
    let store = shell.store()?;
    let cancel = Cancel::new();
    let options = drive::options(&shell.globals, &cancel);
    let mut signals = Signals::new();
    let mut running: JoinSet<Ended> = JoinSet::new();
    let mut held: HashSet<ThreadId> = HashSet::new();
    // What cannot be taken up is told once, and not tried again by this process.
    let mut given_up: HashSet<ThreadId> = HashSet::new();
    let mut worst = Exit::Done;
    shell.out.hint(&format!(
        "milepost: waking what is due, {} threads at a time; Ctrl-C stops",
        args.threads
    ));
    loop {
        let now = SystemTime::now();
        let plan = agenda(&*store, now).await?;
        if !cancel.is_draining() {
            for due in plan.due {
                let free = running.len() < usize::from(args.threads);
                if free && !held.contains(&due.thread) && !given_up.contains(&due.thread) {
                    start(
                        shell,
                        &store,
                        &options,
                        due,
                        &mut running,
                        &mut held,
                        &mut given_up,
                    );
                }
            }
        }
        if running.is_empty() && cancel.is_draining() {
            return Ok(worst.max(Exit::Cancelled));
        }
        if running.is_empty() && args.once {
            return Ok(worst);
        }
        let until_next = plan.next.and_then(|next| next.duration_since(now).ok());
        let wait = until_next.map_or(args.poll, |next| next.min(args.poll));
        tokio::select! {
            ended = running.join_next(), if !running.is_empty() => {
                let Some(Ok((thread, known, ended))) = ended else { continue };
                held.remove(&thread);
                match told(shell, &thread, &*known, ended) {
                    Some(exit) => worst = worst.max(exit),
                    // Another process has it: it is looked at again later.
                    None if args.once => { given_up.insert(thread); }
                    None => {}
                }
            }
            () = signals.next() => {
                // First nothing new begins, then what runs is told to end, then it is cut.
                if cancel.is_cancelled() {
                    return Ok(Exit::Cancelled);
                }
                if cancel.is_draining() {
                    cancel.cancel();
                    shell.out.hint("milepost: the running nodes are told to end");
                } else {
                    cancel.drain();
                    shell.out.hint("milepost: stopping when the running supersteps are closed");
                }
            }
            () = tokio::time::sleep(wait.max(Duration::from_millis(10))) => {}
        }
    }
}

/// Takes up one thread.
fn start(
    shell: &mut Shell,
    store: &Arc<dyn CheckpointStore>,
    options: &RunOptions,
    Due {
        thread, graph, why, ..
    }: Due,
    running: &mut JoinSet<Ended>,
    held: &mut HashSet<ThreadId>,
    given_up: &mut HashSet<ThreadId>,
) {
    let Some(known) = shell.find(&graph) else {
        shell.out.hint(&format!(
            "milepost: thread {thread} is due, and this program has no graph \"{graph}\""
        ));
        given_up.insert(thread);
        return;
    };
    let name = one_line(thread.as_str());
    let why = match why {
        WhyDue::Woken => "its time has come",
        WhyDue::Expired => "the time of its question is over",
        WhyDue::Answered => "it was answered",
        WhyDue::LeftBehind => "it was left in its middle",
        WhyDue::Drained => "another process gave it back",
        WhyDue::Asked => "it was asked to stop",
    };
    shell
        .out
        .value(&json!({"type": "due", "thread": thread.as_str(), "graph": graph, "why": why}));
    shell
        .out
        .say(format!("thread {name} of graph {graph} goes on: {why}"));
    held.insert(thread.clone());
    let mut live = known.go_on()(&thread, Arc::clone(store), options.clone());
    running.spawn(async move {
        while live.next().await.is_some() {}
        (thread, known, live.end().await)
    });
}

/// Tells how a thread ended; none if another call has it.
fn told(
    shell: &mut Shell,
    thread: &ThreadId,
    known: &dyn Known,
    ended: Result<End, RunError>,
) -> Option<Exit> {
    let name = one_line(thread.as_str());
    match ended {
        Ok(end) => {
            shell.out.say(format!("thread {name}"));
            let go_on = (!shell.in_memory()).then(|| shell.resume(thread));
            Some(drive::report(shell, thread, known, &end, go_on))
        }
        Err(RunError::Store(StoreError::Busy { .. } | StoreError::Fenced { .. })) => None,
        Err(error) => {
            let mut failure = Failure::from(error);
            failure.what = format!("thread {name}: {}", failure.what);
            if failure.exit == Exit::Failed {
                failure.next = shell.resume(thread);
            }
            shell.out.complain(&failure);
            Some(failure.exit)
        }
    }
}
