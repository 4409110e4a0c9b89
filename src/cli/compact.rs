//! `compact`: what the threads of a store need no more, given back.
//!
//! Each thread is one atomic batch, so a kill leaves every thread as it was or compacted, and the same
//! words go on. A thread that a call holds is passed over and named, and so is a damaged one.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::args::CompactArgs;
use super::exit::{Exit, Failure};
use super::list::head;
use super::out::one_line;
use super::rewrite::rewrite;
use super::shell::Shell;
use super::size::Size;
use crate::store::{CheckpointStore, Retain, Retention, StoreError, Surplus};
use crate::{Seq, ThreadId};

/// Compacts threads, or the whole store into a new one.
pub(super) async fn compact(shell: &mut Shell, args: &CompactArgs) -> Result<Exit, Failure> {
    let asked = Asked::of(args);
    if let Some(to) = &args.rewrite {
        return rewrite(shell, &asked, to).await;
    }
    let store = match args.dry_run {
        true => shell.look()?,
        false => shell.old_store()?,
    };
    let names = match &args.thread {
        Some(thread) => {
            head(shell, &*store, thread).await?;
            vec![Ok(thread.clone())]
        }
        None => names(&*store).await?,
    };
    let mut sum = Sum::default();
    for name in names {
        if shell.out.is_gone() {
            return Ok(Exit::Done);
        }
        let told = match name {
            Ok(thread) => {
                let told = one(&*store, &thread, &asked, args.dry_run).await;
                told.map(|gain| sum.add(shell, &thread, gain, args.dry_run))
                    .map_err(|error| (Some(thread), error))
            }
            Err(error) => Err((None, error)),
        };
        if let Err((thread, error)) = told {
            sum.pass_over(shell, thread.as_ref(), error)?;
        }
    }
    let exit = sum.exit;
    sum.tell(shell, &asked, args.dry_run);
    Ok(exit)
}

/// What is to stay, counted from now.
pub(super) struct Asked {
    pub(super) retention: Retention,
    pub(super) now_ms: u64,
}

impl Asked {
    fn of(args: &CompactArgs) -> Self {
        let parts = [
            args.keep.map(Retention::last),
            args.older_than.map(Retention::younger_than),
            (!args.also.is_empty())
                .then(|| Retention::pinned(args.also.iter().copied().map(Seq::new))),
        ];
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_millis();
        Self {
            retention: parts
                .into_iter()
                .flatten()
                .reduce(Retention::or)
                .unwrap_or_default(),
            now_ms: u64::try_from(now).unwrap_or(u64::MAX),
        }
    }

    pub(super) fn of_thread(&self, thread: &ThreadId) -> Retain {
        Retain {
            thread: thread.clone(),
            retention: self.retention.clone(),
            now_ms: self.now_ms,
            holder: None,
        }
    }
}

/// The threads of a store by name, in order; those whose names cannot be read last.
pub(super) async fn names(
    store: &dyn CheckpointStore,
) -> Result<Vec<Result<ThreadId, StoreError>>, StoreError> {
    let mut names = store.thread_names().await?;
    names.sort_by(|one, other| match (one, other) {
        (Ok(one), Ok(other)) => one.cmp(other),
        (one, other) => one.is_err().cmp(&other.is_err()),
    });
    Ok(names)
}

/// What a thread gives back.
#[derive(Debug, Default)]
struct Gain {
    records: u64,
    bytes: u64,
    kept: u64,
    kept_bytes: u64,
}

async fn one(
    store: &dyn CheckpointStore,
    thread: &ThreadId,
    asked: &Asked,
    dry_run: bool,
) -> Result<Gain, StoreError> {
    let Asked { retention, now_ms } = asked;
    let surplus = Surplus::of(store, thread, retention, *now_ms).await?;
    let before = Size::of(store, thread).await?;
    let after = Size::without(store, thread, &surplus.records).await?;
    if !dry_run {
        store.retain(asked.of_thread(thread)).await?;
    }
    Ok(Gain {
        records: surplus.records.len() as u64,
        bytes: before.bytes.saturating_sub(after.bytes),
        kept: after.records,
        kept_bytes: after.bytes,
    })
}

/// What all threads give back.
#[derive(Default)]
struct Sum {
    threads: u64,
    gain: Gain,
    passed_over: u64,
    exit: Exit,
}

impl Sum {
    fn add(&mut self, shell: &mut Shell, thread: &ThreadId, gain: Gain, dry_run: bool) {
        self.threads += 1;
        shell.out.value(&json!({
            "type": "thread",
            "thread": thread.as_str(),
            "dropped": gain.records,
            "bytes": gain.bytes,
            "records": gain.kept,
            "bytes_kept": gain.kept_bytes,
            "dry_run": dry_run,
        }));
        let name = one_line(thread.as_str());
        shell.out.say(match gain.records {
            0 => format!(
                "thread {name}: every one of its {} records stays",
                gain.kept
            ),
            records => format!(
                "thread {name}: {records} records, {} bytes of values {}, {} records stay",
                gain.bytes,
                verb(dry_run),
                gain.kept
            ),
        });
        self.gain.records += gain.records;
        self.gain.bytes += gain.bytes;
        self.gain.kept += gain.kept;
        self.gain.kept_bytes += gain.kept_bytes;
    }

    /// Names a thread that is left as it is; gives up where the store itself is at fault.
    fn pass_over(
        &mut self,
        shell: &mut Shell,
        thread: Option<&ThreadId>,
        error: StoreError,
    ) -> Result<(), Failure> {
        let failure = Failure::from(error);
        if !matches!(failure.exit, Exit::Busy | Exit::Corrupt) {
            return Err(failure);
        }
        self.passed_over += 1;
        self.exit = self.exit.max(failure.exit);
        shell.out.value(&json!({
            "type": "skipped",
            "thread": thread.map(ThreadId::as_str),
            "what": failure.what,
            "next": failure.next,
        }));
        let name = thread.map_or("a thread".to_owned(), |thread| {
            format!("thread {}", one_line(thread.as_str()))
        });
        shell.out.say(format!(
            "{name} is left as it is: {} → {}",
            one_line(&failure.what),
            one_line(&failure.next)
        ));
        Ok(())
    }

    fn tell(self, shell: &mut Shell, asked: &Asked, dry_run: bool) {
        shell.out.value(&json!({
            "type": "summary",
            "threads": self.threads,
            "dropped": self.gain.records,
            "bytes": self.gain.bytes,
            "records": self.gain.kept,
            "bytes_kept": self.gain.kept_bytes,
            "skipped": self.passed_over,
            "dry_run": dry_run,
            "exit": self.exit.code(),
        }));
        shell.out.say(format!(
            "{} threads: {} records, {} bytes of values {}; {} records, {} bytes stay",
            self.threads,
            self.gain.records,
            self.gain.bytes,
            verb(dry_run),
            self.gain.kept,
            self.gain.kept_bytes
        ));
        if asked.retention.keeps_all() {
            shell
                .out
                .say("  next: say which checkpoints stay: --keep 10, --older-than 30d, or both");
        } else if !dry_run && self.gain.records > 0 {
            let next = shell.again("compact --rewrite NEW");
            shell.out.say(format!(
                "  next: the files keep their size, and what comes uses the room; for smaller files: {next}"
            ));
        }
    }
}

fn verb(dry_run: bool) -> &'static str {
    match dry_run {
        true => "would be given back",
        false => "are given back",
    }
}
