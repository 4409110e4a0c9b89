//! `history` and `events`: what the records of a thread say.

use serde_json::json;

use super::exit::{Exit, Failure};
use super::lines::{Lines, event_json};
use super::list::head;
use super::shell::Shell;
use crate::{EventKind, ThreadId};

/// Lists the checkpoints of a thread.
pub(super) async fn history(shell: &mut Shell, thread: &ThreadId) -> Result<Exit, Failure> {
    let store = shell.old_store()?;
    head(shell, &*store, thread).await?;
    for at in crate::history(&*store, thread).await? {
        let counts = |nodes: &[(String, u32)]| -> Vec<_> {
            nodes
                .iter()
                .map(|(node, tasks)| json!({"node": node, "tasks": tasks}))
                .collect()
        };
        shell.out.value(&json!({
            "seq": at.seq.get(),
            "branch": at.branch.get(),
            "step": at.step.get(),
            "input": at.input.as_ref().map(crate::RunId::as_str),
            "at_ms": at.at_ms,
            "ran": counts(&at.ran),
            "wrote": at.wrote,
            "next": counts(&at.next),
            "status": at.status.to_string(),
        }));
        let what = match &at.input {
            Some(run) => format!("input of run {run}"),
            None => nodes(&at.ran),
        };
        let next = match at.next.as_slice() {
            [] => "end".to_owned(),
            next => nodes(next),
        };
        let wrote = match at.wrote.as_slice() {
            [] => "nothing".to_owned(),
            wrote => wrote.join(", "),
        };
        shell.out.say(format!(
            "{:>6}  superstep {:<5} {what}  wrote {wrote}  → {next}",
            at.seq, at.step
        ));
    }
    Ok(Exit::Done)
}

/// Lists what happened in a thread.
pub(super) async fn events(shell: &mut Shell, thread: &ThreadId) -> Result<Exit, Failure> {
    let store = shell.old_store()?;
    head(shell, &*store, thread).await?;
    let mut lines = Lines::default();
    for event in crate::events(&*store, thread).await? {
        shell.out.value(&event_json(&event));
        for line in lines.of(&event) {
            shell.out.say(line);
        }
        if let EventKind::Ended { status, step, .. } = &event.kind {
            for line in lines.rest() {
                shell.out.say(line);
            }
            shell.out.say(format!("{step:>4}  {status}"));
        }
    }
    for line in lines.rest() {
        shell.out.say(line);
    }
    Ok(Exit::Done)
}

fn nodes(nodes: &[(String, u32)]) -> String {
    let nodes = nodes.iter().map(|(node, tasks)| match tasks {
        1 => node.clone(),
        n => format!("{node} ×{n}"),
    });
    nodes.collect::<Vec<_>>().join(", ")
}
