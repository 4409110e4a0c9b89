//! `events`: what happened in a thread, and which checkpoints it has.

use super::exit::{Exit, Failure};
use super::lines::{Lines, event_json};
use super::list::head;
use super::shell::{Shell, quoted};
use crate::store::CheckpointStore;
use crate::{EventKind, Seq, ThreadId};

/// How many checkpoints an error names.
const NAMED: usize = 10;

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
