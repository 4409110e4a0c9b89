//! `doctor --repair`: whatever is sound of a damaged store, in a new one.
//!
//! The old store is copied and never written to. The new one is made beside its place and gets its
//! name when it is complete, so a repair that was killed is simply begun again.

use std::fs::{self, File};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::args::DoctorArgs;
use super::exit::{Exit, Failure, room};
use super::fit::fit;
use super::in_use;
use super::out::one_line;
use super::shell::{Shell, quoted};
use crate::store::{
    CheckpointStore, Finding, Owner, Salvage, Spot, StoreError, Wreck, check, salvage,
};
use crate::{Seq, ThreadId};

/// Says that a folder is one of ours, and may be removed.
const MARK: &str = "milepost-repair";

/// Saves what can be saved.
pub(super) async fn repair(
    shell: &mut Shell,
    args: &DoctorArgs,
    to: &Path,
) -> Result<Exit, Failure> {
    if shell.in_memory() {
        let what = "a store in memory is gone with its process";
        return Err(Failure::usage(what).next("name a folder with --store"));
    }
    shell.check_old()?;
    let bench = Bench::set_up(shell, to)?;
    let (old, new) = shell.engines()?;
    let open = |copy: &Path| in_use::open_once(copy, old);
    let wreck = match Wreck::open(&shell.place(), &bench.path("copy"), open) {
        Ok(wreck) => wreck,
        Err(error) if !matches!(error, StoreError::Corrupt { .. }) => return Err(error.into()),
        Err(error) => {
            let Failure { exit, what, .. } = error.into();
            let what = format!("nothing can be saved, for no copy of the store opens: {what}");
            return Err(Failure::new(exit, what).next("restore the store from a backup"));
        }
    };
    let mut repair = Repair {
        shell,
        whole: 0,
        part: 0,
        lost: 0,
        is_damaged: wreck.refused.is_some(),
        is_unsound: false,
    };
    repair.opened(&wreck);
    let new = in_use::open_once(&bench.path("store"), new)?;
    let owners = match &args.thread {
        Some(thread) => vec![Ok(Owner::Thread(thread.clone()))],
        None => wreck.store.owners().await?,
    };
    for owner in owners {
        match owner {
            Ok(owner) => match salvage(&*wreck.store, &*new, &owner).await {
                Ok(saved) if saved.is_nothing() => {
                    return Err(unknown(repair.shell, &saved.thread));
                }
                Ok(saved) => repair.thread(&new, &saved).await,
                // Two names cannot be one thread: this is the name that was made for a lost one.
                Err(error @ StoreError::Exists { .. }) => repair.unread(&error),
                Err(error) => return Err(error.into()),
            },
            Err(error) => repair.unread(&error),
        }
    }
    drop((wreck, new));
    let exit = repair.exit();
    let is_made = repair.whole + repair.part > 0;
    if is_made {
        bench.hand_over(to)?;
    }
    repair.sum_up(to, is_made, exit);
    Ok(exit)
}

fn unknown(shell: &Shell, thread: &ThreadId) -> Failure {
    let what = format!("there is no thread {thread}");
    Failure::usage(what).next(shell.again("doctor --repair --to NEW"))
}

/// What was done so far.
struct Repair<'r> {
    shell: &'r mut Shell,
    whole: u64,
    part: u64,
    lost: u64,
    is_damaged: bool,
    /// Whether something in the new store is not as it should be.
    is_unsound: bool,
}

impl Repair<'_> {
    /// Tells how the store was opened, where it did not open as it is.
    fn opened(&mut self, wreck: &Wreck) {
        let Some(refused) = &wreck.refused else {
            return;
        };
        let Failure { what, .. } = refused.clone().into();
        self.shell.out.value(&json!({
            "type": "store",
            "what": what,
            "left_out": wreck.left_out,
        }));
        let files: Vec<_> = wreck
            .left_out
            .iter()
            .map(|name| match name.strip_suffix('.') {
                Some(name) => format!("{name}.*"),
                None => (*name).to_owned(),
            })
            .collect();
        let files = files.join(", ");
        let line = format!("store: {what}; a copy without {files} opens, and is read");
        self.shell.out.say(one_line(&line));
    }

    /// Tells what was saved of a thread, and looks at it in the new store.
    async fn thread(&mut self, new: &Arc<dyn CheckpointStore>, saved: &Salvage) {
        match (&saved.archive, saved.is_whole()) {
            (Some(_), true) => self.whole += 1,
            (Some(_), false) => self.part += 1,
            (None, _) => self.lost += 1,
        }
        self.shell.out.value(&value(saved));
        for line in lines(saved) {
            self.shell.out.say(one_line(&line));
        }
        let Some(archive) = &saved.archive else {
            return;
        };
        let thread = &archive.thread;
        let found = check(&**new, thread).await.findings;
        for finding in found.into_iter().filter(Finding::is_error) {
            let place = finding.place.to_string();
            self.unsound(thread, &place, &finding.what);
        }
        if let Some(known) = self.shell.find(&archive.head.graph) {
            for told in fit(&*known, new, thread, &archive.head).await {
                if told.is_damage {
                    self.unsound(thread, &told.place, &told.what);
                }
            }
        }
    }

    fn unsound(&mut self, thread: &ThreadId, place: &str, what: &str) {
        self.is_unsound = true;
        self.shell.out.value(&json!({
            "type": "finding",
            "severity": "error",
            "thread": thread.as_str(),
            "place": place,
            "what": what,
            "next": "delete it in the new store",
        }));
        let line =
            format!("error    thread {thread}, {place}: {what} → delete it in the new store");
        self.shell.out.say(one_line(&line));
    }

    /// Tells of what not even the owner is known.
    fn unread(&mut self, error: &StoreError) {
        self.lost += 1;
        let Failure { what, .. } = error.clone().into();
        self.shell.out.value(&json!({
            "type": "thread",
            "thread": null,
            "saved": "nothing",
            "faults": [{"place": "store", "what": what}],
        }));
        let line = format!("a thread is lost: {what}");
        self.shell.out.say(one_line(&line));
    }

    fn exit(&self) -> Exit {
        match self.is_damaged || self.is_unsound || self.part + self.lost > 0 {
            true => Exit::Corrupt,
            false => Exit::Done,
        }
    }

    fn sum_up(&mut self, to: &Path, is_made: bool, exit: Exit) {
        let to = is_made.then(|| to.to_string_lossy());
        self.shell.out.value(&json!({
            "type": "summary",
            "store": self.shell.place().to_string_lossy(),
            "to": to,
            "whole": self.whole,
            "part": self.part,
            "lost": self.lost,
            "exit": exit.code(),
        }));
        self.shell.out.say(format!(
            "{} saved whole, {} in part, {} lost",
            self.whole, self.part, self.lost
        ));
        match to {
            Some(to) => {
                let program = self.shell.program().to_owned();
                let next = format!("{program} --store {} threads", quoted(&to));
                self.shell.out.say(format!("  next: {next}"));
            }
            None => self.shell.out.say("no new store was made"),
        }
    }
}

/// A thread for machines.
fn value(saved: &Salvage) -> Value {
    let pairs = |ranges: &[RangeInclusive<Seq>]| -> Vec<[u64; 2]> {
        let ends = |range: &RangeInclusive<Seq>| [range.start().get(), range.end().get()];
        ranges.iter().map(ends).collect()
    };
    let archive = saved.archive.as_ref();
    let head = archive.map(|archive| &archive.head);
    let segments = saved.segments.iter();
    let segments: Vec<_> = segments
        .map(|id| Spot::Segment(*id).to_string().replace("segment ", ""))
        .collect();
    let faults = saved.faults.iter();
    let faults: Vec<_> = faults
        .map(|(place, what)| json!({"place": place.to_string(), "what": what}))
        .collect();
    json!({
        "type": "thread",
        "thread": saved.thread.as_str(),
        "named": matches!(saved.owner, Owner::Thread(_)),
        "saved": state(saved),
        "records": archive.map(|archive| archive.records.len()),
        "until": saved.until().map(Seq::get),
        "seq": head.map(|head| head.seq.get()),
        "step": head.map(|head| head.step),
        "status": head.map(|head| head.status.to_string()),
        "stood_at": saved.stood.as_ref().map(|head| head.seq.get()),
        "missing": pairs(&saved.missing),
        "dropped": pairs(&saved.dropped),
        "branches": saved.branches.iter().map(|branch| branch.get()).collect::<Vec<_>>(),
        "runs": saved.runs.iter().map(|run| run.as_str()).collect::<Vec<_>>(),
        "segments": segments,
        "faults": faults,
    })
}

fn state(saved: &Salvage) -> &'static str {
    match (&saved.archive, saved.is_whole()) {
        (Some(_), true) => "whole",
        (Some(_), false) => "part",
        (None, _) => "nothing",
    }
}

/// A thread for people: a line of what is saved, and one for each kind of loss.
fn lines(saved: &Salvage) -> Vec<String> {
    let name = &saved.thread;
    let mut lines = Vec::new();
    let Some(archive) = &saved.archive else {
        lines.push(format!("thread {name}: nothing can be saved"));
        losses(saved, &mut lines);
        return lines;
    };
    let head = &archive.head;
    let stands = format!(
        "{} records, it stands at superstep {}, {}",
        archive.records.len(),
        head.step,
        head.status
    );
    if saved.is_whole() {
        lines.push(format!("thread {name}: whole, {stands}"));
        return lines;
    }
    let until = archive.next.get() - 1;
    lines.push(format!(
        "thread {name}: saved up to record {until}, {stands}"
    ));
    if let Owner::Nameless(_) = saved.owner {
        lines.push("  its name is lost: this one was made for it".to_owned());
    }
    match &saved.stood {
        None => lines.push("  how it stood is lost: told by its records".to_owned()),
        Some(stood) if stood.seq != head.seq => lines.push(format!(
            "  it stood at record {}, superstep {}, {}",
            stood.seq, stood.step, stood.status
        )),
        Some(_) => {}
    }
    losses(saved, &mut lines);
    lines
}

fn losses(saved: &Salvage, lines: &mut Vec<String>) {
    for (place, what) in &saved.faults {
        lines.push(format!("  {place}: {what}"));
    }
    let mut list = |what: &str, all: Vec<String>| {
        if !all.is_empty() {
            lines.push(format!("  {what}: {}", all.join(", ")));
        }
    };
    list("records that cannot be read", shown(&saved.missing));
    list(
        "records that mean nothing without them, and are dropped",
        shown(&saved.dropped),
    );
    let branches = saved.branches.iter();
    list(
        "branches that are lost",
        branches.map(ToString::to_string).collect(),
    );
    let runs = saved.runs.iter();
    list(
        "runs that are lost",
        runs.map(ToString::to_string).collect(),
    );
    let segments = saved
        .segments
        .iter()
        .map(|id| Spot::Segment(*id).to_string());
    list("segments that are not kept", segments.collect());
}

fn shown(ranges: &[RangeInclusive<Seq>]) -> Vec<String> {
    let shown = |range: &RangeInclusive<Seq>| match range.start() == range.end() {
        true => range.start().to_string(),
        false => format!("{} to {}", range.start(), range.end()),
    };
    ranges.iter().map(shown).collect()
}

/// The folder in which the new store is made.
struct Bench(PathBuf);

impl Bench {
    /// Makes it anew, beside the place of the new store.
    fn set_up(shell: &Shell, to: &Path) -> Result<Self, Failure> {
        let is_empty =
            |folder: &Path| fs::read_dir(folder).is_ok_and(|mut all| all.next().is_none());
        if fs::symlink_metadata(to).is_ok() && !is_empty(to) {
            let what = format!("{} is there already", to.display());
            return Err(Failure::usage(what).next("name another folder with --to"));
        }
        let Some(name) = to.file_name() else {
            let what = format!("{} is no name for a folder", to.display());
            return Err(Failure::usage(what).next("name another folder with --to"));
        };
        let mut name = name.to_owned();
        name.push(".repair");
        let path = to.with_file_name(name);
        let is_there = fs::symlink_metadata(&path).is_ok();
        if is_there && !path.join(MARK).exists() && !is_empty(&path) {
            let what = format!(
                "{} is there already, and was not made by a repair",
                path.display()
            );
            return Err(Failure::usage(what).next("name another folder with --to"));
        }
        // From here on the folder is ours, and is removed when this is dropped.
        let bench = Self(path);
        if is_there {
            bench.clear()?;
        }
        let made = fs::create_dir(&bench.0).and_then(|()| fs::write(bench.path(MARK), ""));
        made.map_err(|error| match room(&error) {
            Some(_) => bench.failed("made", &error),
            None => {
                let what = format!("{} cannot be made: {error}", bench.0.display());
                let next = "name a folder whose parent can be written";
                let next = format!("{next}: {}", shell.again("doctor --repair --to FOLDER"));
                Failure::usage(what).next(next)
            }
        })?;
        Ok(bench)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Gives the new store its name.
    fn hand_over(&self, to: &Path) -> Result<(), Failure> {
        let parent = match to.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let named = fs::rename(self.path("store"), to)
            // The name is an entry of the folder around it.
            .and_then(|()| File::open(parent))
            .and_then(|parent| parent.sync_all());
        named.map_err(|error| self.failed("renamed", &error))
    }

    fn clear(&self) -> Result<(), Failure> {
        // The mark goes last: half of a folder is still known as ours.
        for name in ["copy", "store"] {
            match fs::remove_dir_all(self.path(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(self.failed("removed", &error));
                }
                _ => {}
            }
        }
        fs::remove_dir_all(&self.0).map_err(|error| self.failed("removed", &error))
    }

    fn failed(&self, done: &str, error: &io::Error) -> Failure {
        let what = format!("{} cannot be {done}: {error}", self.0.display());
        let first = room(error).unwrap_or("put that right");
        Failure::new(Exit::Failed, what).next(format!("{first}, and repair again"))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // What is left of it, the next repair removes.
        let _ = self.clear();
    }
}
