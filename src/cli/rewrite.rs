//! `compact --rewrite`: all threads in a new store, as small as they are.
//!
//! The new store is made beside its place, in a folder that says of which store it is, and gets its
//! name when every thread in it was read back and checked. So one that was cut short is never taken for
//! a whole one, and the same words go on with it. The old store is only read.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::beside::{give_name, parent};
use super::compact::{Asked, names};
use super::doctor::size;
use super::exit::{Exit, Failure, room};
use super::in_use;
use super::out::one_line;
use super::shell::{Shell, quoted};
use crate::ThreadId;
use crate::store::{
    CheckpointStore, Finding, MemoryStore, ThreadArchive, Transferred, check, transfer,
};

/// Rewrites the store into a new folder.
pub(super) async fn rewrite(shell: &mut Shell, asked: &Asked, to: &Path) -> Result<Exit, Failure> {
    if shell.in_memory() {
        let what = "a store in memory is gone with its process, and has nothing to rewrite";
        return Err(Failure::usage(what).next("name a folder with --store"));
    }
    let (old, engine) = shell.store_to_rewrite()?;
    let bench = Bench::set_up(shell, to)?;
    let mut sum = Sum::default();
    {
        let new = in_use::open(&bench.store(), engine)?;
        let mut known = Vec::new();
        for name in names(&*old).await? {
            let thread = name.map_err(|error| damaged(shell, error.into()))?;
            let moved = one(&old, &new, &thread, asked).await;
            let moved = moved.map_err(|failure| damaged(shell, failure))?;
            sum.add(shell, &thread, moved);
            known.push(thread);
        }
        // What the old store has no more since a rewrite was cut short.
        for thread in new.thread_names().await? {
            let thread = thread?;
            if !known.contains(&thread) {
                new.delete_thread(&thread).await?;
            }
        }
    }
    bench.finish()?;
    sum.tell(shell, to);
    Ok(Exit::Done)
}

/// Puts one thread into the new store, and checks it there.
async fn one(
    old: &Arc<dyn CheckpointStore>,
    new: &Arc<dyn CheckpointStore>,
    thread: &ThreadId,
    asked: &Asked,
) -> Result<Transferred, Failure> {
    let moved = if asked.retention.keeps_all() {
        transfer(&**old, &**new, thread).await?
    } else {
        // What is not to stay is left out before anything is written.
        let between = MemoryStore::new();
        if let Some(archive) = ThreadArchive::read(&**old, thread).await? {
            between.restore(archive).await?;
            between.retain(asked.of_thread(thread)).await?;
        }
        transfer(&between, &**new, thread).await?
    };
    let checked = check(&**new, thread).await;
    match checked.findings.into_iter().find(Finding::is_error) {
        None => Ok(moved),
        Some(found) => {
            let what = format!("thread {thread}, {}: {}", found.place, found.what);
            Err(Failure::new(Exit::Corrupt, what).next(found.next))
        }
    }
}

/// A damaged thread is not left out in silence.
fn damaged(shell: &Shell, failure: Failure) -> Failure {
    if failure.exit != Exit::Corrupt && failure.exit != Exit::Failed {
        return failure;
    }
    let next = format!(
        "see what is wrong: {}; what was rewritten is kept for the next try",
        shell.again("doctor")
    );
    failure.next(next)
}

/// The folder in which a new store is made.
struct Bench {
    folder: PathBuf,
    to: PathBuf,
}

impl Bench {
    /// Makes it, or takes up the one that an earlier rewrite of the same store has left.
    fn set_up(shell: &Shell, to: &Path) -> Result<Self, Failure> {
        let mut name = to.as_os_str().to_owned();
        name.push(".unfinished");
        let bench = Self {
            folder: PathBuf::from(name),
            to: to.to_owned(),
        };
        let place = shell.place();
        let old = fs::canonicalize(&place).map_err(|error| unread(&place, &error))?;
        if to.symlink_metadata().is_ok() {
            let what = format!("{} is there already", to.display());
            return Err(Failure::usage(what).next("name a folder that is not there yet"));
        }
        let parent = parent(to);
        let parent = fs::canonicalize(parent).map_err(|error| unread(parent, &error))?;
        if parent.starts_with(&old) {
            let what = format!("{} lies in the store that is rewritten", to.display());
            return Err(Failure::usage(what).next("name a folder elsewhere"));
        }
        let mark = bench.mark();
        let said = old.to_string_lossy();
        match fs::read_to_string(&mark) {
            Ok(text) if text == said => {}
            Ok(text) => {
                let what = format!(
                    "{} is an unfinished rewrite of {}",
                    bench.folder.display(),
                    one_line(&text)
                );
                return Err(Failure::usage(what).next("name another folder, or remove that one"));
            }
            Err(_) if bench.folder.symlink_metadata().is_ok() && !bench.is_empty() => {
                let what = format!("{} is there, and is no rewrite", bench.folder.display());
                return Err(Failure::usage(what).next("name another folder, or remove that one"));
            }
            Err(_) => bench
                .begin(&said)
                .map_err(|error| unwritten(&bench.folder, &error))?,
        }
        Ok(bench)
    }

    /// Says of which store it is, before anything else is in it.
    fn begin(&self, old: &str) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let new = self.folder.join("of.new");
        fs::write(&new, old)?;
        File::open(&new)?.sync_all()?;
        fs::rename(new, self.mark())?;
        File::open(&self.folder)?.sync_all()
    }

    /// Whether nothing is in it but a mark that was not written to its end.
    fn is_empty(&self) -> bool {
        fs::read_dir(&self.folder)
            .is_ok_and(|entries| entries.flatten().all(|entry| entry.file_name() == "of.new"))
    }

    fn mark(&self) -> PathBuf {
        self.folder.join("of")
    }

    fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    /// Gives the new store its name.
    fn finish(self) -> Result<(), Failure> {
        let named = || {
            give_name(&self.store(), &self.to)?;
            fs::remove_dir_all(&self.folder)
        };
        named().map_err(|error| unwritten(&self.to, &error))
    }
}

fn unread(place: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("{} cannot be read: {error}", place.display()))
        .next("name a folder that can be read")
}

fn unwritten(place: &Path, error: &io::Error) -> Failure {
    let what = format!("{} cannot be written: {error}", place.display());
    match room(error) {
        Some(first) => Failure::new(Exit::Failed, what).next(format!("{first}, and try again")),
        None => Failure::usage(what).next("name a folder that can be written"),
    }
}

#[derive(Default)]
struct Sum {
    now: u64,
    before: u64,
}

impl Sum {
    fn add(&mut self, shell: &mut Shell, thread: &ThreadId, moved: Transferred) {
        let how = match moved {
            Transferred::Unknown => return,
            Transferred::Before => {
                self.before += 1;
                "was rewritten by an earlier try, and is as it should be"
            }
            _ => {
                self.now += 1;
                "is rewritten, read back and checked"
            }
        };
        shell.out.value(&json!({
            "type": "thread",
            "thread": thread.as_str(),
            "from_an_earlier_try": moved == Transferred::Before,
        }));
        let name = one_line(thread.as_str());
        shell.out.say(format!("thread {name} {how}"));
    }

    fn tell(&self, shell: &mut Shell, to: &Path) {
        let place = shell.place();
        let (before, after) = (size(&place), size(to));
        let threads = self.now + self.before;
        shell.out.value(&json!({
            "type": "rewritten",
            "store": place.to_string_lossy(),
            "new": to.to_string_lossy(),
            "threads": threads,
            "from_an_earlier_try": self.before,
            "disk_bytes": before,
            "new_disk_bytes": after,
        }));
        shell.out.say(format!(
            "{threads} threads are in {}: {after} bytes on disk, the old store has {before}",
            to.display()
        ));
        let new = quoted(&to.to_string_lossy());
        shell.out.say(format!(
            "  next: {} --store {new} doctor; the old store is as it was, and may be removed",
            shell.program()
        ));
    }
}
