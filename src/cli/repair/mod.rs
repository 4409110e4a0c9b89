//! `doctor --repair`: whatever is sound of a damaged store, in a new one.
//!
//! The old store is copied and never written to. The new one is made beside its place and gets its
//! name when it is complete, so a repair that was killed is simply begun again.

mod bench;
mod told;

use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use self::bench::Bench;
use self::told::{lines, value};
use super::args::DoctorArgs;
use super::exit::{Exit, Failure};
use super::fit::fit;
use super::in_use;
use super::out::one_line;
use super::shell::{Shell, quoted};
use crate::ThreadId;
use crate::store::{CheckpointStore, Finding, Owner, Salvage, StoreError, Wreck, check, salvage};

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
