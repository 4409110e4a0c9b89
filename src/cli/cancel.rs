//! `cancel`: a run is asked to stop, whichever process works on it.
//!
//! In come a thread and how soon it is to stop, out goes whether it has, or who will see to it. Where
//! another process has the store open, it is asked through that one's window.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::args::CancelArgs;
use super::exit::{Exit, Failure};
use super::list::head;
use super::out::one_line;
use super::shell::Shell;
use super::when::ago;
use crate::store::{Asked, CheckpointStore, Head, Status, Wish, WishKind};

/// How long to wait between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Asks a thread to stop, and waits until it has, where that is wanted.
pub(super) async fn cancel(shell: &mut Shell, args: &CancelArgs) -> Result<Exit, Failure> {
    let thread = &args.thread;
    let store: Arc<dyn CheckpointStore> = Arc::new(shell.sight()?);
    let head = head(shell, &*store, thread).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let wish = Wish {
        run: head.run.to_string(),
        kind: match args.drain {
            true => WishKind::Drain,
            false => WishKind::Cancel,
        },
        at_ms: now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX)),
        reason: args.reason.clone().unwrap_or_default(),
    };
    let end = shell.globals.deadline.map(|time| Instant::now() + time);
    let mut waited = false;
    let asked = loop {
        // Asked again, it is the same wish; of a thread that was given back meanwhile, it is done here.
        let asked = store.ask_to_stop(thread, wish.clone()).await?;
        let asked = asked.unwrap_or(Asked::AtRest(head.status));
        let late = end.is_some_and(|end| Instant::now() >= end);
        if asked != Asked::Pending || !args.wait || late {
            break asked;
        }
        waited = true;
        tokio::time::sleep(LOOK).await;
    };
    let name = one_line(thread.as_str());
    let (status, told, next) = match asked {
        Asked::Stopped => (
            Status::Cancelled,
            format!("thread {name} is cancelled: no call worked on it"),
            shell.resume(thread),
        ),
        Asked::Pending => (
            Status::Running,
            format!(
                "thread {name} is asked to {}: the process that works on it sees it at its next \
                 superstep at the latest",
                wish.kind
            ),
            format!("{} --follow", shell.on("events", thread)),
        ),
        Asked::AtRest(status) => {
            let told = match (status, waited) {
                (Status::Finished, true) => format!("thread {name} has finished"),
                (Status::Finished, false) => {
                    format!("thread {name} is finished: there is nothing to stop")
                }
                (Status::Cancelled, true) => format!("thread {name} is cancelled"),
                (Status::Cancelled, false) => format!("thread {name} is cancelled already"),
                (status, true) => format!("thread {name} has stopped: it is {status}"),
                (Status::Running, false) => {
                    format!("no call works on thread {name}: the one that did has died")
                }
                (status, false) => format!("no call works on thread {name}: it is {status}"),
            };
            let next = match status {
                Status::Finished => shell.on("show", thread),
                _ => shell.resume(thread),
            };
            (status, told, next)
        }
    };
    shell.out.value(&json!({
        "thread": thread.as_str(),
        "run": head.run,
        "asked": wish.kind.to_string(),
        "pending": asked == Asked::Pending,
        "status": status.to_string(),
        "next": next,
    }));
    shell.out.say(format!("{told}\n  next: {next}"));
    Ok(match asked {
        Asked::Pending if args.wait => Exit::Limited,
        _ => Exit::Done,
    })
}

/// What is asked of a thread, and not heeded yet.
pub(super) async fn pending(
    store: &dyn CheckpointStore,
    thread: &crate::ThreadId,
    head: &Head,
) -> Result<Option<Wish>, Failure> {
    if matches!(head.status, Status::Finished | Status::Cancelled) {
        return Ok(None);
    }
    let wish = store.wished(thread).await?;
    Ok(wish.filter(|wish| {
        // To drain was asked of a call that has ended since, where none is at work.
        wish.run == head.run && (wish.kind == WishKind::Cancel || head.status == Status::Running)
    }))
}

/// A wish as JSON.
pub(super) fn json_of(wish: Option<&Wish>) -> Value {
    json!(wish.map(|wish| json!({
        "to": wish.kind.to_string(),
        "at_ms": wish.at_ms,
        "reason": wish.reason,
    })))
}

/// A wish for people.
pub(super) fn text_of(wish: &Wish) -> String {
    let reason = match wish.reason.as_str() {
        "" => String::new(),
        reason => format!(": {}", one_line(reason)),
    };
    format!("to {}, {}{reason}", wish.kind, ago(wish.at_ms))
}
