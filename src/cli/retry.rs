//! `retry`: tasks of the open superstep run again, whatever they had brought.

use super::args::RetryArgs;
use super::drive::{Watched, check_probes, drive, graph_of};
use super::exit::{Exit, Failure};
use super::list::head;
use super::shell::Shell;
use crate::store::Head;
use crate::{NodeName, Step, TaskPath};

/// Discards what the tasks had brought, and goes on.
pub(super) async fn retry(shell: &mut Shell, args: RetryArgs) -> Result<Exit, Failure> {
    let store = shell.old_store()?;
    let head = head(shell, &*store, &args.thread).await?;
    let known = graph_of(shell, &args.thread, &head)?;
    let show = shell.on("show", &args.thread);
    let tasks = args.tasks.iter().map(|word| {
        let wrong = || Failure::usage(format!("{word:?} names no task")).next(show.clone());
        task(word, &head).ok_or_else(wrong)
    });
    let tasks: Vec<_> = tasks.collect::<Result<_, _>>()?;
    let probe = check_probes(shell, &*known, &args.probes)?;
    let watched = Watched {
        known: &*known,
        plain: args.plain,
        probe,
        probes: &args.probes,
    };
    drive(shell, &args.thread, store, known.retry(tasks), watched).await
}

/// A task of the open superstep: `write`, `study[2]`, or a whole path as `3:study[2]`.
fn task(word: &str, head: &Head) -> Option<TaskPath> {
    if let Ok(path) = word.parse() {
        return Some(path);
    }
    let open = Step::new(head.step + 1);
    if let Ok(path) = format!("{open}:{word}").parse() {
        return Some(path);
    }
    Some(TaskPath::new(open, NodeName::new(word).ok()?, 0))
}
