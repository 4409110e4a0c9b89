//! `events`: what happened in a thread, and which checkpoints it has.

use super::exit::{Exit, Failure};
use super::lines::{Lines, event_json};
use super::list::head;
use super::out::one_line;
use super::shell::Shell;
use crate::store::CheckpointStore;
use crate::{Event, EventKind, Seq, ThreadId};

/// How many checkpoints an error names.
const NAMED: usize = 10;

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
            if let (
                EventKind::Ended {
                    status,
                    step,
                    error,
                    ..
                },
                None,
            ) = (&event.kind, &event.within)
            {
                self.rest(shell);
                // Why a run failed is told with its tasks.
                let reason = error.as_ref().filter(|error| error.class == "cancelled");
                let reason = reason.map(|error| format!(": {}", one_line(&error.message)));
                let reason = reason.unwrap_or_default();
                shell.out.say(format!("{step:>4}  {status}{reason}"));
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
    let name = one_line(thread.as_str());
    let what = format!("thread {name} has no checkpoint {at}; it has {named}");
    Err(Failure::usage(what).next(shell.on("history", thread)))
}
