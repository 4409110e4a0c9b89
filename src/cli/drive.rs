//! `run` and `resume`: a run while it happens.
//!
//! In come an opened run and signals, out go its events, its end, and the command that goes on.

use std::sync::Arc;
use std::time::Instant;

use clap::{ArgMatches, FromArgMatches};
use futures::StreamExt;
use serde_json::json;
use tokio::time::MissedTickBehavior;

use super::args::{Globals, Mode, Probes, ResumeArgs, StartArgs, WorkerArgs};
use super::ask::{End, Opening};
use super::entry::Known;
use super::exit::{Exit, Failure, room};
use super::lines::{Lines, SCHEMA, event_json};
use super::list::all_threads;
use super::live::{FRAME, LiveView, STOPPING};
use super::out::one_line;
use super::probe::Probe;
use super::shell::{Shell, quoted, unread};
use super::signal::Signals;
use super::when::date;
use super::{answer, worker};
use crate::store::{CheckpointStore, Head, Status, StoreError};
use crate::{Cancel, Ended, EventKind, GraphView, RunError, RunOptions, ThreadId};

/// Starts a run.
pub(super) async fn run(
    shell: &mut Shell,
    graph: &str,
    given: &ArgMatches,
) -> Result<Exit, Failure> {
    let known = shell.graph(graph)?;
    let start = StartArgs::from_arg_matches(given).map_err(|error| {
        let help = format!("{} run {} --help", shell.program(), quoted(graph));
        unread(&error, &help)
    })?;
    let probe = check_probes(shell, &*known, &start.probes)?;
    let opening = known.start(given, start.run_id, start.abandon);
    let opening = opening.map_err(|failure| {
        let next = shell.again(&failure.next);
        failure.next(next)
    })?;
    let thread = start.thread.unwrap_or_else(ThreadId::random);
    let store = shell.store()?;
    let watched = Watched {
        known: &*known,
        plain: start.plain,
        probe,
        probes: &start.probes,
    };
    drive(shell, &thread, store, opening, watched).await
}

/// Takes up one thread, or all that are unfinished.
pub(super) async fn resume(shell: &mut Shell, args: ResumeArgs) -> Result<Exit, Failure> {
    if args.due {
        let due = WorkerArgs::once();
        return worker::work(shell, &due).await;
    }
    let store = shell.old_store()?;
    let threads = match &args.thread {
        Some(thread) => vec![thread.clone()],
        None => {
            let mut open: Vec<_> = all_threads(&*store)
                .await?
                .into_iter()
                .filter(|(_, head)| head.status != Status::Finished)
                .map(|(thread, _)| thread)
                .collect();
            open.sort();
            if open.is_empty() {
                shell.out.say("Every thread is finished.");
                return Ok(Exit::Done);
            }
            if !args.all && open.len() > 1 {
                let names: Vec<_> = open
                    .iter()
                    .map(|thread| one_line(thread.as_str()))
                    .collect();
                let what = format!(
                    "{} threads are unfinished: {}",
                    names.len(),
                    names.join(", ")
                );
                let next = shell.again("resume THREAD, or resume --all");
                return Err(Failure::usage(what).next(next));
            }
            open
        }
    };
    let mut worst = Exit::Done;
    for thread in threads {
        let resumed = resume_one(shell, &thread, &store, &args).await;
        let exit = match resumed {
            Ok(exit) => exit,
            Err(failure) if args.all => {
                shell.out.complain(&failure);
                failure.exit
            }
            Err(failure) => return Err(failure),
        };
        worst = worst.max(exit);
        if exit == Exit::Cancelled {
            break;
        }
    }
    Ok(worst)
}

async fn resume_one(
    shell: &mut Shell,
    thread: &ThreadId,
    store: &Arc<dyn CheckpointStore>,
    args: &ResumeArgs,
) -> Result<Exit, Failure> {
    let head = super::list::head(shell, &**store, thread).await?;
    let known = graph_of(shell, thread, &head)?;
    let probe = check_probes(shell, &*known, &args.probes)?;
    let watched = Watched {
        known: &*known,
        plain: args.plain,
        probe,
        probes: &args.probes,
    };
    drive(shell, thread, Arc::clone(store), known.go_on(), watched).await
}

/// The graph of a thread that is to be taken up.
pub(super) fn graph_of(
    shell: &Shell,
    thread: &ThreadId,
    head: &Head,
) -> Result<Arc<dyn Known>, Failure> {
    shell.graph(&head.graph).map_err(|mut failure| {
        failure.what = format!("thread {thread} cannot be taken up: {}", failure.what);
        failure
    })
}

/// Checks how a run is to be disturbed and watched, before anything is stored.
pub(super) fn check_probes(
    shell: &Shell,
    known: &dyn Known,
    probes: &Probes,
) -> Result<Option<Probe>, Failure> {
    let names = names(known.view());
    let is_known = |asked: &String| names.contains(&asked.as_str());
    if let Some(node) = probes.crash_after.as_ref().filter(|node| !is_known(node)) {
        let graph = &known.view().name;
        let what = format!(
            "graph {graph} has no node \"{node}\" to crash after; it has {}",
            names.join(", ")
        );
        let next = format!("{} graphs show {}", shell.program(), quoted(graph));
        return Err(Failure::usage(what).next(next));
    }
    Probe::new(probes.tally.as_deref(), probes.pace)
}

/// The nodes of a graph, with those of the graphs that they run.
fn names(view: &GraphView) -> Vec<&str> {
    let mut all = Vec::new();
    for node in &view.nodes {
        all.push(node.name.as_str());
        all.extend(node.inner.as_deref().map_or_else(Vec::new, names));
    }
    all
}

/// How a run is watched.
pub(super) struct Watched<'a> {
    pub(super) known: &'a dyn Known,
    pub(super) plain: bool,
    pub(super) probe: Option<Probe>,
    /// How the run is disturbed.
    pub(super) probes: &'a Probes,
}

/// Drives a run to its end, and tells it.
pub(super) async fn drive(
    shell: &mut Shell,
    thread: &ThreadId,
    store: Arc<dyn CheckpointStore>,
    opening: Opening,
    watched: Watched<'_>,
) -> Result<Exit, Failure> {
    let cancel = Cancel::new();
    let probes = watched.probes;
    let mut options = options(&shell.globals, &cancel)
        .pause_before(&probes.pause_before)
        .pause_after(&probes.pause_after);
    if let Some(probe) = watched.probe {
        options = options.layer(probe);
    }
    let mut signals = Signals::new();
    let go_on = (!shell.in_memory()).then(|| shell.resume(thread));
    // Whether there is something to go on with, should the run fail.
    let mut is_there = matches!(store.head(thread).await, Ok(Some(_)));
    let mut live = opening(thread, store, options);
    let mut lines = Lines::default();
    let mut view = None;
    if !watched.plain && shell.out.go_live() {
        view = Some(LiveView::new(watched.known.view(), Instant::now()));
    }
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let event = tokio::select! {
            event = live.next() => event,
            () = signals.next() => {
                if cancel.is_cancelled() {
                    stop_at_once(shell, go_on.as_deref());
                }
                cancel.cancel();
                match &mut view {
                    Some(view) => view.stop(),
                    None => shell.out.hint(&format!("milepost: {STOPPING}")),
                }
                continue;
            }
            _ = frames.tick(), if view.is_some() => {
                let size = shell.out.size();
                let region = view.as_ref().map(|view| view.lines(size, Instant::now()));
                shell.out.frame(region.unwrap_or_default());
                continue;
            }
        };
        let Some(event) = event else { break };
        is_there |= event.seq.is_some();
        shell.out.value(&event_json(&event));
        for line in lines.of(&event) {
            shell.out.say(line);
        }
        if let Some(view) = &mut view {
            view.hear(&event, Instant::now());
        }
        if let (Some(after), EventKind::TaskFinished { task, .. }) =
            (&probes.crash_after, &event.kind)
            && task.task().node.as_str() == after
        {
            shell.out.go_still();
            // As sudden as a kill: no destructor runs, nothing is flushed.
            std::process::abort();
        }
        if shell.out.is_gone() {
            // Nobody reads on: the run stops as if it had been asked to.
            cancel.cancel();
        }
    }
    let ended = tokio::select! {
        ended = live.end() => ended,
        () = signals.next() => stop_at_once(shell, go_on.as_deref()),
    };
    shell.out.go_still();
    for line in lines.rest() {
        shell.out.say(line);
    }
    match ended {
        Ok(end) => Ok(report(shell, thread, watched.known, &end, go_on)),
        Err(error) => {
            let go_on = go_on.filter(|_| is_there);
            let next = next(shell, watched.known, thread, &error, go_on);
            let failure = Failure::from(error);
            Err(match next {
                Some(next) => failure.next(next),
                None => failure,
            })
        }
    }
}

/// What to type after a run that failed, where it is known better than by the error alone.
fn next(
    shell: &Shell,
    known: &dyn Known,
    thread: &ThreadId,
    error: &RunError,
    go_on: Option<String>,
) -> Option<String> {
    match error {
        RunError::MissingInput { field } => Some(shell.again(&known.words_for(field))),
        RunError::Unfinished { .. } => {
            go_on.map(|go_on| format!("{go_on}, or run it with --abandon to start anew"))
        }
        RunError::OtherGraph { .. } => Some(format!(
            "{}, or name another thread with --thread",
            shell.on("show", thread)
        )),
        RunError::PendingInterrupt { .. } => Some(format!(
            "{}, or run it with --abandon to start anew",
            shell.on("questions", thread)
        )),
        RunError::NoQuestion { .. }
        | RunError::AmbiguousAnswer { .. }
        | RunError::WrongAnswer { .. }
        | RunError::AlreadyAnswered { .. } => Some(shell.on("questions", thread)),
        RunError::NoTask { .. } => Some(shell.on("events", thread)),
        RunError::NoPause { graph, .. } => {
            Some(shell.again(&format!("graphs show {}", quoted(graph))))
        }
        RunError::Superseded { .. } => Some(shell.on("history", thread)),
        RunError::Store(StoreError::Io { source, .. }) => {
            let first = room(source).unwrap_or("put that right");
            go_on.map(|go_on| format!("{first}, then {go_on}: nothing acknowledged is lost"))
        }
        RunError::Store(StoreError::Closed) => go_on,
        // The store knows better than the run what to do about it.
        RunError::Store(_) => None,
        // This program can only fail again.
        RunError::SchemaMismatch { .. }
        | RunError::UnknownNode { .. }
        | RunError::GraphVersionMismatch { .. }
        | RunError::OlderOutcomes { .. }
        | RunError::Migrate { .. } => None,
        _ => go_on.or_else(|| Some("put that right, and run it again".to_owned())),
    }
}

/// The options that every command takes.
pub(super) fn options(globals: &Globals, cancel: &Cancel) -> RunOptions {
    let mut options = RunOptions::new().cancel(cancel.clone());
    if let Some(limit) = globals.step_limit {
        options = options.step_limit(limit);
    }
    if let Some(time) = globals.deadline {
        options = options.deadline(time);
    }
    if let Some(tasks) = globals.concurrency {
        options = options.concurrency(tasks.into());
    }
    if let Some(mode) = globals.durability {
        options = options.durability(mode.into());
    }
    options.pin = globals.pin;
    options
}

/// Tells how a run ended, and what to do next.
pub(super) fn report(
    shell: &mut Shell,
    thread: &ThreadId,
    known: &dyn Known,
    end: &End,
    go_on: Option<String>,
) -> Exit {
    let exit = Exit::from(end.ended);
    let after = match (&go_on, end.ended.is_finished()) {
        (Some(_), true) => shell.on("show", thread),
        (Some(go_on), false) => go_on.clone(),
        (None, _) => "run it again".to_owned(),
    };
    let go_on = go_on.filter(|_| !end.ended.is_finished());
    let status = match end.ended {
        Ended::Finished => "finished",
        Ended::Cancelled => "cancelled",
        Ended::Drained => "drained",
        Ended::Paused { .. } => "paused",
        Ended::Parked { .. } => "parked",
        _ => "limited",
    };
    let open = &end.questions;
    let how = |question| answer::how(shell, thread, open, question, Some(known));
    let answers: Vec<_> = open.iter().map(how).collect();
    let questions: Vec<_> = end
        .questions
        .iter()
        .zip(&answers)
        .map(|(question, answer)| answer::question_json(question, answer))
        .collect();
    shell.out.value(&json!({
        "schema": SCHEMA,
        "type": "report",
        "thread": thread.as_str(),
        "run": end.run.as_str(),
        "status": status,
        "step": end.step.get(),
        "seq": end.seq.map(crate::Seq::get),
        "exit": exit.code(),
        "state": end.state,
        "resume": go_on,
        "questions": questions,
    }));
    let supersteps = match end.step.get() {
        1 => "1 superstep".to_owned(),
        n => format!("{n} supersteps"),
    };
    shell
        .out
        .say(format!("{}; the thread has closed {supersteps}", end.ended));
    for (question, how) in end.questions.iter().zip(&answers) {
        shell
            .out
            .say(format!("  {}\n  next: {how}", answer::asked(question)));
    }
    if let Ended::Parked { due_ms } = end.ended {
        shell.out.say(format!(
            "  until {}; `worker` and `resume --due` wake it",
            date(due_ms)
        ));
    }
    match (go_on, end.ended.is_finished()) {
        (Some(_), _) if !answers.is_empty() => {}
        (Some(go_on), _) => shell.out.say(format!("  next: {go_on}")),
        (None, false) => shell
            .out
            .say("  it was kept in memory only, and is gone with this process"),
        (None, true) => {}
    }
    if let Some(result) = &end.result {
        shell.out.say(format!("\n{result}"));
    }
    shell.out.settle(exit, &after)
}

/// Ends the process under the run: what was acknowledged is on disk, the rest runs again.
fn stop_at_once(shell: &mut Shell, go_on: Option<&str>) -> ! {
    shell.out.go_still();
    shell.out.hint(&match go_on {
        Some(go_on) => {
            let kept = match shell.globals.durability {
                None | Some(Mode::Each) => "every finished node is kept",
                Some(_) => "what was on disk is kept",
            };
            format!("milepost: stopped; {kept}\n  next: {go_on}")
        }
        None => "milepost: stopped".to_owned(),
    });
    std::process::exit(Exit::Cancelled.code().into())
}
