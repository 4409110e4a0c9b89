//! `history` and `events`: what the records of a thread say.

use serde_json::json;

use super::exit::{Exit, Failure};
use super::lines::{Lines, event_json};
use super::list::head;
use super::shell::{Shell, quoted};
use crate::store::CheckpointStore;
use crate::{Event, EventKind, Seq, ThreadId};

/// How many checkpoints an error names.
const NAMED: usize = 10;

/// Lists the checkpoints of a thread.
pub(super) async fn history(shell: &mut Shell, thread: &ThreadId) -> Result<Exit, Failure> {
    let store = shell.look()?;
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
    let store = shell.look()?;
    head(shell, &*store, thread).await?;
    let mut telling = Telling::default();
    let events = crate::events(&*store, thread).await?;
    telling.tell(shell, &events);
    telling.rest(shell);
    Ok(Exit::Done)
}

/// Events as they are told, one after the other.
#[derive(Debug, Default)]
pub(super) struct Telling {
    lines: Lines,
}

impl Telling {
    pub(super) fn tell(&mut self, shell: &mut Shell, events: &[Event]) {
        for event in events {
            shell.out.value(&event_json(event));
            for line in self.lines.of(event) {
                shell.out.say(line);
            }
            if let EventKind::Ended { status, step, .. } = &event.kind {
                self.rest(shell);
                shell.out.say(format!("{step:>4}  {status}"));
            }
        }
    }

    /// Tells what still waits to share its line.
    pub(super) fn rest(&mut self, shell: &mut Shell) {
        for line in self.lines.rest() {
            shell.out.say(line);
        }
    }
}

/// Refuses a seq that is no checkpoint of a thread, with those that are.
pub(super) async fn checkpoint(
    shell: &Shell,
    store: &dyn CheckpointStore,
    thread: &ThreadId,
    at: Seq,
) -> Result<(), Failure> {
    let known: Vec<_> = crate::history(store, thread).await?;
    if known.iter().any(|known| known.seq == at) {
        return Ok(());
    }
    let older = known.len().saturating_sub(NAMED);
    let mut named: Vec<_> = known[older..]
        .iter()
        .map(|known| known.seq.to_string())
        .collect();
    if older > 0 {
        named.insert(0, format!("{older} older ones"));
    }
    let named = if named.is_empty() {
        "none".to_owned()
    } else {
        named.join(", ")
    };
    let what = format!("thread {thread} has no checkpoint {at}; it has {named}");
    let next = format!("history {}", quoted(thread.as_str()));
    Err(Failure::usage(what).next(shell.again(&next)))
}

fn nodes(nodes: &[(String, u32)]) -> String {
    let nodes = nodes.iter().map(|(node, tasks)| match tasks {
        1 => node.clone(),
        n => format!("{node} ×{n}"),
    });
    nodes.collect::<Vec<_>>().join(", ")
}
