//! `fork`, `rewind`, `switch`, `patch`: a thread goes elsewhere. `replay`: whether it still would.
//!
//! In come a thread and where it is to go, out goes where it stands then, and what to type next.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args as _, FromArgMatches};
use serde_json::{Value, json};

use super::args::{AsArgs, PatchArgs, PointArgs, SwitchArgs, engine};
use super::entry::{Known, Way};
use super::exit::{Exit, Failure};
use super::json::value;
use super::list::head;
use super::look::checkpoint;
use super::out::{Out, one_line};
use super::shell::{Shell, unread};
use super::show::brief;
use crate::store::{CheckpointStore, Head, Status};
use crate::{AsNode, Branch, Difference, Moved, RunError, Seq, TakenEdge, ThreadId};

/// Goes on from any checkpoint.
pub(super) async fn fork(shell: &mut Shell, args: &PointArgs) -> Result<Exit, Failure> {
    go(shell, &args.thread, Way::Fork(Seq::new(args.seq))).await
}

/// Goes back on the line of the head.
pub(super) async fn rewind(shell: &mut Shell, args: &PointArgs) -> Result<Exit, Failure> {
    go(shell, &args.thread, Way::Rewind(Seq::new(args.seq))).await
}

/// Goes to the head of another branch.
pub(super) async fn switch(shell: &mut Shell, args: &SwitchArgs) -> Result<Exit, Failure> {
    go(shell, &args.thread, Way::Switch(Branch::new(args.branch))).await
}

async fn go(shell: &mut Shell, thread: &ThreadId, way: Way) -> Result<Exit, Failure> {
    let store = shell.old_store()?;
    let head = head(shell, &*store, thread).await?;
    let known = graph(shell, &head, thread)?;
    let done = known.travel(Arc::clone(&store), thread, way).await;
    let moved = match done {
        Ok(moved) => moved,
        Err(RunError::NoCheckpoint { seq, .. }) => {
            // It says which ones there are.
            checkpoint(shell, &*store, thread, seq).await?;
            let what = format!("thread {thread} has no checkpoint {seq}");
            return Err(Failure::usage(what).next(shell.on("history --all", thread)));
        }
        Err(error) => return Err(refused(shell, thread, error)),
    };
    say(shell, thread, &moved, "");
    Ok(Exit::Done)
}

fn refused(shell: &Shell, thread: &ThreadId, error: RunError) -> Failure {
    let next = match &error {
        RunError::Pruned { .. } | RunError::OtherLine { .. } | RunError::NoBranch { .. } => {
            Some(shell.on("history --tree", thread))
        }
        _ => None,
    };
    let mut failure = Failure::from(error);
    if let Some(next) = next {
        failure.next = next;
    }
    failure
}

fn graph(shell: &Shell, head: &Head, thread: &ThreadId) -> Result<Arc<dyn Known>, Failure> {
    shell.graph(&head.graph).map_err(|mut failure| {
        failure.what = format!("thread {thread} cannot be moved: {}", failure.what);
        failure
    })
}

/// Changes a thread by hand.
pub(super) async fn patch(shell: &mut Shell, args: PatchArgs) -> Result<Exit, Failure> {
    let PatchArgs { thread, words } = args;
    let words = globals(shell, words)?;
    let store = shell.old_store()?;
    let head = head(shell, &*store, &thread).await?;
    let known = graph(shell, &head, &thread)?;
    let help = || shell.on("patch", &thread) + " --help";
    let command = known.fields(clap::Command::new("patch").no_binary_name(true));
    let command = AsArgs::augment_args(command.override_usage("patch THREAD [OPTIONS]"));
    let given = match command.try_get_matches_from(words) {
        Ok(given) => given,
        Err(told) if told.use_stderr() => {
            let text = told.render().to_string();
            let text = text.trim_start_matches("error: ").trim_end();
            return Err(Failure::usage(text).next(help()));
        }
        Err(told) => {
            shell.out.raw(&told.render().to_string());
            return Ok(Exit::Done);
        }
    };
    let which = AsArgs::from_arg_matches(&given).map_err(|error| unread(&error, &help()))?;
    let (node, guessed) = match which.node {
        Some(node) => (node, false),
        None => (last(shell, &*store, &thread, &head).await?, true),
    };
    let mut as_node = AsNode::new(&node);
    if let Some(exit) = which.exit {
        as_node = as_node.exit(exit);
    }
    let opening = known.patch(&given, &which.clear, as_node);
    let opening = opening.map_err(|failure| failure.next(help()))?;
    let moved = opening(store, thread.clone()).await;
    let moved = moved.map_err(|error| match error {
        RunError::NoExit { .. } => {
            let next = format!("{} --as {node} --exit EXIT", shell.on("patch", &thread));
            Failure::from(error).next(next)
        }
        error => refused(shell, &thread, error),
    })?;
    let by = match guessed {
        true => format!("patched as {}, which ran last; ", one_line(&node)),
        false => format!("patched as {}; ", one_line(&node)),
    };
    say(shell, &thread, &moved, &by);
    Ok(Exit::Done)
}

/// Takes the flags of every command out of the words of a patch.
fn globals(shell: &mut Shell, words: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let mut rest = Vec::with_capacity(words.len());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if text == "--json" {
            shell.globals.json = true;
            shell.out = Out::new(true);
        } else if text == "--store" {
            let Some(store) = words.next() else {
                let what = "--store names no folder";
                return Err(Failure::usage(what).next("name the store's folder behind it"));
            };
            shell.globals.store = Some(store.into());
        } else if let Some(store) = text.strip_prefix("--store=") {
            shell.globals.store = Some(PathBuf::from(store));
        } else if text == "--engine" || text.starts_with("--engine=") {
            let name = match text.strip_prefix("--engine=") {
                Some(name) => Some(name.to_owned()),
                None => words.next().map(|name| name.to_string_lossy().into_owned()),
            };
            let engine = engine(&name.unwrap_or_default()).map_err(|expected| {
                let what = format!("--engine names no engine: {expected}");
                Failure::usage(what).next("leave it out: the store's folder tells")
            })?;
            shell.globals.engine = Some(engine);
        } else {
            rest.push(word);
        }
    }
    Ok(rest)
}

/// The node that ran last, where it was one.
async fn last(
    shell: &Shell,
    store: &dyn CheckpointStore,
    thread: &ThreadId,
    head: &Head,
) -> Result<String, Failure> {
    let all = crate::history(store, thread).await?;
    let ran = all.iter().find(|at| at.seq == head.seq).map(|at| &at.ran);
    let ran = ran.map(Vec::as_slice).unwrap_or_default();
    if let [(node, _)] = ran {
        return Ok(node.clone());
    }
    let names: Vec<_> = ran.iter().map(|(node, _)| node.as_str()).collect();
    let what = match names.as_slice() {
        [] => "no node has run before, so the patch has to say as which node it is".to_owned(),
        names => format!(
            "{} ran last: as which of them is the patch?",
            names.join(" and ")
        ),
    };
    let next = format!("{} --as NODE", shell.on("patch", thread));
    Err(Failure::usage(what).next(next))
}

/// Says where a thread stands now, and what to type next.
fn say(shell: &mut Shell, thread: &ThreadId, moved: &Moved, by: &str) {
    let finished = moved.status == Status::Finished;
    let next = match finished {
        true => shell.on("show", thread),
        false => shell.resume(thread),
    };
    let nodes: Vec<_> = moved
        .next
        .iter()
        .map(|(node, tasks)| json!({"node": node.as_str(), "tasks": tasks}))
        .collect();
    shell.out.value(&json!({
        "thread": thread.as_str(),
        "branch": moved.branch.get(),
        "from": moved.from.get(),
        "seq": moved.seq.get(),
        "step": moved.step.get(),
        "status": moved.status.to_string(),
        "next": nodes,
        "resume": (!finished).then(|| next.clone()),
    }));
    let old = match moved.from == moved.branch {
        true => String::new(),
        false => format!("; branch {} stays as it is", moved.from),
    };
    let runs = moved.next.iter().map(|(node, tasks)| match tasks {
        1 => one_line(node.as_str()),
        n => format!("{} ×{n}", one_line(node.as_str())),
    });
    let runs: Vec<_> = runs.collect();
    let runs = match runs.as_slice() {
        [] => "nothing is left to run".to_owned(),
        runs => format!("to run: {}", runs.join(", ")),
    };
    let name = one_line(thread.as_str());
    shell.out.say(format!(
        "thread {name}: {by}it stands at checkpoint {} (superstep {}) on branch {}{old}\n  \
         {runs}\n  next: {next}",
        moved.seq, moved.step, moved.branch
    ));
}

/// Merges and decides again.
pub(super) async fn replay(shell: &mut Shell, thread: &ThreadId) -> Result<Exit, Failure> {
    let store = shell.look()?;
    let head = head(shell, &*store, thread).await?;
    let known = graph(shell, &head, thread)?;
    let report = known.replay(store, thread).await?;
    let found = &report.differences;
    shell.out.value(&json!({
        "thread": thread.as_str(),
        "branch": report.branch.get(),
        "checkpoints": report.checkpoints,
        "older": report.older,
        "differences": found.iter().map(difference).collect::<Vec<_>>(),
    }));
    let name = one_line(thread.as_str());
    let mut all = format!(
        "{} checkpoints of branch {}",
        report.checkpoints, report.branch
    );
    if report.older > 0 {
        let older = report.older;
        all.push_str(&format!(
            " (and not {older} of an older version of the state)"
        ));
    }
    if found.is_empty() {
        let told = format!("thread {name}: {all} were merged and decided again: nothing differs");
        shell.out.say(told);
        return Ok(Exit::Done);
    }
    for one in found {
        let told = difference(one);
        let what = told["what"].as_str().unwrap_or_default();
        shell.out.say(format!("checkpoint {}: {what}", one.seq()));
        if !told["recorded"].is_null() {
            let lines =
                ["recorded", "now"].map(|side| format!("  {side:<9}{}", brief(&told[side])));
            shell.out.say(lines.join("\n"));
        }
    }
    let next = format!("{} {}", shell.on("show", thread), "--at SEQ");
    Err(Failure::new(
        Exit::Failed,
        format!(
            "thread {name}: {all} were merged and decided again, {} differ: a reducer does not \
             give the same twice, or it, a branch or a split was changed",
            found.len()
        ),
    )
    .next(next))
}

fn difference(one: &Difference) -> Value {
    let (what, recorded, now) = match one {
        Difference::Field {
            field,
            codec,
            recorded,
            now,
            ..
        } => {
            let what = format!("the value of {field}");
            (what, value(*codec, recorded), value(*codec, now))
        }
        Difference::Edges { recorded, now, .. } => {
            ("the edges taken".to_owned(), edges(recorded), edges(now))
        }
        Difference::Next { recorded, now, .. } => {
            ("what runs next".to_owned(), tasks(recorded), tasks(now))
        }
        Difference::Refused { why, .. } => {
            let what = format!("it is refused now: {why}");
            (what, Value::Null, Value::Null)
        }
    };
    json!({"seq": one.seq().get(), "what": what, "recorded": recorded, "now": now})
}

fn edges(edges: &[TakenEdge]) -> Value {
    let name = |node: &Option<crate::NodeName>, other: &str| {
        let name = node.as_ref().map(crate::NodeName::as_str);
        name.unwrap_or(other).to_owned()
    };
    let edge = |edge: &TakenEdge| {
        let (from, to) = (name(&edge.from, "start"), name(&edge.to, "end"));
        let label = match edge.label.as_str() {
            "" => String::new(),
            label => format!(" {label}"),
        };
        let tasks = match edge.tasks {
            1 => String::new(),
            n => format!(" ×{n}"),
        };
        json!(format!("{from}{label} → {to}{tasks}"))
    };
    Value::Array(edges.iter().map(edge).collect())
}

fn tasks(tasks: &[(String, Option<Vec<u8>>)]) -> Value {
    let task = |(node, payload): &(String, Option<Vec<u8>>)| match payload {
        Some(bytes) => json!({"node": node, "payload": value(1, bytes)}),
        None => json!({"node": node}),
    };
    Value::Array(tasks.iter().map(task).collect())
}
