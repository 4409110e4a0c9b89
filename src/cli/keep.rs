//! `copy`, `prune`, `delete`: what is kept of a thread.
//!
//! Each refuses a thread that a call holds, and says what it has done.

use serde_json::json;

use super::args::CopyArgs;
use super::exit::{Exit, Failure};
use super::list::head;
use super::out::one_line;
use super::shell::Shell;
use super::size::Size;
use crate::ThreadId;

/// Copies a thread.
pub(super) async fn copy(shell: &mut Shell, args: &CopyArgs) -> Result<Exit, Failure> {
    let CopyArgs { thread, new } = args;
    let store = shell.old_store()?;
    let head = head(shell, &*store, thread).await?;
    store.copy_thread(thread, new).await?;
    let size = Size::of(&*store, new).await?;
    shell.out.value(&json!({
        "thread": thread.as_str(),
        "copy": new.as_str(),
        "status": head.status.to_string(),
        "step": head.step,
        "seq": head.seq.get(),
        "records": size.records,
        "bytes": size.bytes,
    }));
    let next = shell.on("show", new);
    let (name, new) = (one_line(thread.as_str()), one_line(new.as_str()));
    shell.out.say(format!(
        "thread {name} is copied to {new}: {size}; it stands at superstep {}, {}\n  next: {next}",
        head.step, head.status
    ));
    Ok(Exit::Done)
}

/// Prunes a thread.
pub(super) async fn prune(shell: &mut Shell, thread: &ThreadId) -> Result<Exit, Failure> {
    let store = shell.old_store()?;
    head(shell, &*store, thread).await?;
    let before = Size::of(&*store, thread).await?;
    store.prune(thread).await?;
    let after = Size::of(&*store, thread).await?;
    let history = crate::history(&*store, thread).await?;
    // Inputs that a kept record needs stay, though their states can no longer be read.
    let oldest = history.iter().rev().take_while(|kept| kept.input.is_none());
    let oldest = oldest.last().or(history.last());
    let dropped = before.records.saturating_sub(after.records);
    shell.out.value(&json!({
        "thread": thread.as_str(),
        "dropped": dropped,
        "records": after.records,
        "bytes": after.bytes,
        "bytes_before": before.bytes,
        "oldest": oldest.map(|oldest| oldest.seq.get()),
    }));
    let name = one_line(thread.as_str());
    shell.out.say(match (dropped, oldest) {
        (0, _) | (_, None) => {
            format!("thread {name} is as it was: every one of its {after} is needed")
        }
        (dropped, Some(oldest)) => format!(
            "thread {name}: {dropped} records are dropped, {after} are kept; it stands where it \
             stood, and its oldest checkpoint is now {} (superstep {})",
            oldest.seq, oldest.step
        ),
    });
    Ok(Exit::Done)
}

/// Deletes a thread.
pub(super) async fn delete(shell: &mut Shell, thread: &ThreadId) -> Result<Exit, Failure> {
    let store = shell.old_store()?;
    match head(shell, &*store, thread).await {
        // A damaged thread is there, and deleting it is a way to go on without it.
        Err(failure) if failure.exit == Exit::Corrupt => {}
        told => drop(told?),
    }
    store.delete_thread(thread).await?;
    shell
        .out
        .value(&json!({"thread": thread.as_str(), "deleted": true}));
    let name = one_line(thread.as_str());
    shell.out.say(format!("thread {name} is deleted"));
    Ok(Exit::Done)
}
