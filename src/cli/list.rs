//! `graphs` and `threads`.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::args::ThreadsArgs;
use super::cancel;
use super::exit::{Exit, Failure, stands};
use super::graph::graph_json;
use super::out::{cut, one_line, shown};
use super::shell::Shell;
use super::size::Size;
use super::when::ago;
use crate::ThreadId;
use crate::store::{CheckpointStore, Head, Status, StoreError};

/// How many threads are read at once.
const PAGE: usize = 256;
/// How many threads an error names.
const NAMED: usize = 20;

/// Lists the graphs.
pub(super) fn graphs(shell: &mut Shell) -> Result<Exit, Failure> {
    for entry in &shell.entries {
        let view = entry.known()?.view();
        let names: Vec<_> = view.nodes.iter().map(|node| node.name.as_str()).collect();
        shell.out.value(&graph_json(view));
        shell
            .out
            .say(format!("{:<12} {}", view.name, names.join(", ")));
    }
    if shell.entries.is_empty() {
        shell.out.say("This program has no graphs.");
    }
    Ok(Exit::Done)
}

/// Lists the threads, sorted by name.
pub(super) async fn threads(shell: &mut Shell, which: &ThreadsArgs) -> Result<Exit, Failure> {
    let sight = shell.sight()?;
    let in_use = sight.is_in_use();
    let store: Arc<dyn CheckpointStore> = Arc::new(sight);
    let mut threads = all_threads(&*store).await?;
    threads.sort_by(|(left, _), (right, _)| left.cmp(right));
    if let Some(graph) = &which.graph
        && !threads.iter().any(|(_, head)| head.graph == *graph)
    {
        // A graph of another program may have threads here, a misspelt one has none.
        shell.graph(graph)?;
    }
    let all = threads.len();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    threads.retain(|(_, head)| is_one_of(head, which, now));
    match (threads.len(), all) {
        (0, 0) => shell.out.say("There is no thread yet."),
        (0, all) => shell
            .out
            .say(format!("No thread is like that; there are {all}.")),
        _ => {}
    }
    for (thread, head) in &threads {
        let mut value = head_json(thread, head);
        let mut line = format!(
            "{} {} {:<10} superstep {}",
            column(thread.as_str(), 36),
            column(&head.graph, 12),
            head.status,
            head.step,
        );
        if head.branch.get() > 0 {
            line.push_str(&format!(", branch {}", head.branch));
        }
        line.push_str(&format!(", {}", ago(head.updated_ms)));
        if head.status == Status::Running && !in_use {
            line.push_str(", its process has died");
        }
        let asked = cancel::pending(&*store, thread, head).await?;
        value["asked"] = cancel::json_of(asked.as_ref());
        if let Some(asked) = &asked {
            line.push_str(&format!(", asked to {}", asked.kind));
        }
        if which.sizes {
            let size = Size::of(&*store, thread).await?;
            (value["records"], value["bytes"]) = (json!(size.records), json!(size.bytes));
            line.push_str(&format!(", {size}"));
        }
        shell.out.value(&value);
        shell.out.say(line);
    }
    Ok(Exit::Done)
}

/// A name that takes so many columns, as it will be shown.
fn column(name: &str, width: usize) -> String {
    let name = cut(&shown(&one_line(name)), width);
    let pad = width.saturating_sub(name.width());
    name + &" ".repeat(pad)
}

fn is_one_of(head: &Head, which: &ThreadsArgs, now: Duration) -> bool {
    let written = Duration::from_millis(head.updated_ms);
    (which.status.is_empty() || which.status.contains(&head.status))
        && which
            .graph
            .as_ref()
            .is_none_or(|graph| *graph == head.graph)
        && which
            .older_than
            .is_none_or(|time| written.checked_add(time).is_some_and(|end| end < now))
}

/// How a thread stands; one that is not there is refused with those that are.
pub(super) async fn head(
    shell: &Shell,
    store: &dyn CheckpointStore,
    thread: &ThreadId,
) -> Result<Head, Failure> {
    if let Some(head) = store.head(thread).await? {
        return Ok(head);
    }
    // A damaged thread does not keep the others from being named.
    let known = store.thread_names().await?;
    let mut known: Vec<_> = known.into_iter().flatten().collect();
    known.sort();
    let mut names: Vec<_> = known
        .iter()
        .take(NAMED)
        .map(|thread| one_line(thread.as_str()))
        .collect();
    if known.len() > NAMED {
        names.push(format!("and {} more", known.len() - NAMED));
    }
    let known = match names.as_slice() {
        [] => "the store has none".to_owned(),
        names => format!("the store has {}", names.join(", ")),
    };
    let failure = Failure::usage(format!(
        "there is no thread {}; {known}",
        one_line(thread.as_str())
    ));
    Err(failure.next(shell.again("threads")))
}

/// All threads, in the store's order.
pub(super) async fn all_threads(
    store: &dyn CheckpointStore,
) -> Result<Vec<(ThreadId, Head)>, StoreError> {
    let mut all: Vec<(ThreadId, Head)> = Vec::new();
    loop {
        let page = store
            .threads(all.last().map(|(last, _)| last), PAGE)
            .await?;
        let done = page.len() < PAGE;
        all.extend(page);
        if done {
            return Ok(all);
        }
    }
}

/// A head as JSON.
pub(super) fn head_json(thread: &ThreadId, head: &Head) -> Value {
    json!({
        "thread": thread.as_str(),
        "graph": head.graph,
        "run": head.run,
        "status": head.status.to_string(),
        "stands": stands(head.status),
        "step": head.step,
        "seq": head.seq.get(),
        "branch": head.branch.get(),
        "created_ms": head.created_ms,
        "updated_ms": head.updated_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_as_wide_as_what_is_shown_in_it() {
        for name in ["t", "日本", "🚀", "\u{1b}[31mred", "a\nb", &"x".repeat(256)] {
            let column = column(name, 20);
            assert_eq!(
                (shown(&column).width(), column.width()),
                (20, 20),
                "{column:?}"
            );
        }
    }
}
