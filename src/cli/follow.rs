//! `events --follow`: what happens in a thread, until nothing more will.
//!
//! It looks through the window of the process that has the store open. Where that one goes, another
//! one may come; where none comes, the store is free, and its records tell how the thread stands.

use std::time::Duration;

use super::exit::{Exit, Failure};
use super::in_use::{Sight, meaning};
use super::list::head;
use super::look::Telling;
use super::out::one_line;
use super::shell::Shell;
use super::signal::Signals;
use crate::store::{CheckpointStore, Head, Status, StoreError};
use crate::{Event, EventReader, ThreadId};

/// How long to wait before looking again, where something has just come.
const SOON: Duration = Duration::from_millis(100);
/// The same where nothing has come for a while.
const LATER: Duration = Duration::from_millis(400);

/// Tells what is there, then what comes.
pub(super) async fn follow(shell: &mut Shell, thread: &ThreadId) -> Result<Exit, Failure> {
    let sight = shell.sight()?;
    head(shell, &sight, thread).await?;
    let mut signals = Signals::new();
    let mut reader = EventReader::new(thread.clone());
    let mut telling = Telling::default();
    let mut pause = SOON;
    loop {
        // Asked first: what is read from now on is all there is, where nobody else writes.
        let in_use = sight.is_in_use();
        let (events, head) = tokio::select! {
            looked = look(&mut reader, &sight, thread) => looked?,
            () = signals.next() => return Ok(left(shell, thread)),
        };
        telling.tell(shell, &events);
        if shell.out.is_gone() {
            return Ok(Exit::Done);
        }
        let Some(head) = head else {
            telling.rest(shell);
            let what = format!("thread {thread} was deleted while it was followed");
            return Err(Failure::usage(what).next(shell.again("threads")));
        };
        let ended = head.status != Status::Running;
        if !in_use || (ended && events.is_empty()) {
            telling.rest(shell);
            return Ok(end(shell, thread, head.status));
        }
        // An end that was just told may have been followed by more.
        if ended {
            continue;
        }
        pause = if events.is_empty() {
            (pause * 3 / 2).min(LATER)
        } else {
            SOON
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = signals.next() => return Ok(left(shell, thread)),
        }
    }
}

/// What has come, and how the thread stands.
async fn look(
    reader: &mut EventReader,
    sight: &Sight,
    thread: &ThreadId,
) -> Result<(Vec<Event>, Option<Head>), StoreError> {
    // The head is read first: an end that it tells is among the events.
    let head = sight.head(thread).await?;
    Ok((reader.poll(sight).await?, head))
}

/// Says how the thread stands. This goes beside the events, which are those of `events` alone.
fn end(shell: &Shell, thread: &ThreadId, status: Status) -> Exit {
    let name = one_line(thread.as_str());
    let next = match status {
        Status::Finished => String::new(),
        _ => format!("\n  next: {}", shell.resume(thread)),
    };
    // With another process at work, it would still be followed.
    let meaning = meaning(status, false);
    shell.out.hint(&format!(
        "milepost: thread {name} is {status}: {meaning}{next}"
    ));
    Exit::Done
}

/// Ends at the wish of who follows; the thread goes on.
fn left(shell: &Shell, thread: &ThreadId) -> Exit {
    let name = one_line(thread.as_str());
    shell.out.hint(&format!(
        "milepost: thread {name} is no longer followed; it goes on"
    ));
    Exit::Done
}
