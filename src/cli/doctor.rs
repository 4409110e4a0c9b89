//! `doctor`: what is wrong with a store, and what to do.
//!
//! Checks every thread, also behind damaged ones, and changes nothing. What the store says of
//! itself is checked by the store's own rules; here is added what the graphs at hand say.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use serde_json::json;

use super::args::DoctorArgs;
use super::exit::{Exit, Failure};
use super::fit::fit;
use super::list::head;
use super::out::one_line;
use super::repair::repair;
use super::shell::Shell;
use super::size::Size;
use crate::ThreadId;
use crate::store::{CheckpointStore, Finding, Severity, StoreError, check};

/// A finding as it is told.
pub(super) struct Told {
    pub(super) severity: Severity,
    pub(super) thread: Option<ThreadId>,
    /// Where in the thread, or which store.
    pub(super) place: String,
    pub(super) what: String,
    pub(super) next: String,
    /// Whether stored bytes are wrong, and not only the program another one.
    pub(super) is_damage: bool,
}

impl From<Finding> for Told {
    fn from(finding: Finding) -> Self {
        Self {
            is_damage: finding.is_error(),
            severity: finding.severity,
            thread: Some(finding.thread),
            place: finding.place.to_string(),
            what: finding.what,
            next: finding.next.to_owned(),
        }
    }
}

/// Checks a store, or saves what is sound of it.
pub(super) async fn doctor(shell: &mut Shell, args: &DoctorArgs) -> Result<Exit, Failure> {
    match &args.to {
        Some(to) => repair(shell, args, to).await,
        None => examine(shell, args).await,
    }
}

async fn examine(shell: &mut Shell, args: &DoctorArgs) -> Result<Exit, Failure> {
    let mut report = Report::default();
    let began = Instant::now();
    let store = match shell.look() {
        Ok(store) => store,
        // That it does not open is what was asked for.
        Err(failure) if matches!(failure.exit, Exit::Corrupt | Exit::Busy) => {
            report.tell(shell, of_store(&failure.what, failure.next));
            report.sum_up(shell, failure.exit);
            return Ok(failure.exit);
        }
        Err(failure) => return Err(failure),
    };
    report.open_ms = Some(began.elapsed().as_millis() as u64);
    let names = match &args.thread {
        Some(thread) => {
            match head(shell, &*store, thread).await {
                Err(failure) if failure.exit != Exit::Corrupt => return Err(failure),
                _ => {}
            }
            vec![Ok(thread.clone())]
        }
        None => match store.thread_names().await {
            Ok(names) => names,
            Err(error) => vec![Err(error)],
        },
    };
    let mut threads = Vec::new();
    for name in names {
        match name {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                report.threads += 1;
                report.tell(shell, unnamed(&error));
            }
        }
    }
    threads.sort();
    for thread in &threads {
        if shell.out.is_gone() {
            return Ok(Exit::Done);
        }
        let checked = check(&*store, thread).await;
        let is_sound = checked.is_sound();
        report.threads += 1;
        report.records += checked.records;
        report.segments += checked.segments;
        report.segment_bytes += checked.segment_bytes;
        for finding in checked.findings {
            report.tell(shell, finding.into());
        }
        let Some(head) = checked.head else { continue };
        *report.statuses.entry(head.status.to_string()).or_default() += 1;
        if !is_sound {
            continue;
        }
        report.value_bytes += Size::of(&*store, thread).await?.bytes;
        match shell.find(&head.graph) {
            Some(known) => {
                for told in fit(&*known, &store, thread, &head).await {
                    report.tell(shell, told);
                }
            }
            None => report.tell(
                shell,
                Told {
                    severity: Severity::Note,
                    thread: Some(thread.clone()),
                    place: "graph".to_owned(),
                    what: format!(
                        "this program has no graph \"{}\": its records were checked, its state \
                         was not",
                        head.graph
                    ),
                    next: "check it with the program that wrote it".to_owned(),
                    is_damage: false,
                },
            ),
        }
    }
    if args.thread.is_none() {
        report.waste(shell, &*store).await;
    }
    let exit = report.exit();
    report.sum_up(shell, exit);
    Ok(exit)
}

/// What keeps a whole store from being read.
fn of_store(what: &str, next: String) -> Told {
    Told {
        severity: Severity::Error,
        thread: None,
        place: "store".to_owned(),
        what: what.to_owned(),
        next,
        is_damage: true,
    }
}

fn unnamed(error: &StoreError) -> Told {
    let Failure { what, next, .. } = Failure::from(error.clone());
    of_store(&what, next)
}

/// What was found so far.
#[derive(Default)]
struct Report {
    /// How long the open took; none if it failed.
    open_ms: Option<u64>,
    threads: u64,
    statuses: BTreeMap<String, u64>,
    records: u64,
    segments: u64,
    segment_bytes: u64,
    value_bytes: u64,
    errors: u64,
    warnings: u64,
    notes: u64,
    is_damaged: bool,
}

impl Report {
    /// Tells a finding, and counts it.
    fn tell(&mut self, shell: &mut Shell, told: Told) {
        match told.severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            _ => self.notes += 1,
        }
        self.is_damaged |= told.is_damage;
        shell.out.value(&json!({
            "type": "finding",
            "severity": told.severity.to_string(),
            "thread": told.thread.as_ref().map(ThreadId::as_str),
            "place": told.place,
            "what": told.what,
            "next": told.next,
        }));
        let place = match &told.thread {
            Some(thread) if told.place == "thread" => format!("thread {thread}"),
            Some(thread) => format!("thread {thread}, {}", told.place),
            None => told.place,
        };
        shell.out.say(format!(
            "{:<8} {}: {} → {}",
            told.severity,
            one_line(&place),
            one_line(&told.what),
            one_line(&told.next)
        ));
    }

    /// Tells what is stored and of no thread.
    async fn waste(&mut self, shell: &mut Shell, store: &dyn CheckpointStore) {
        let told = match store.waste().await {
            Ok(waste) if waste.values == 0 => return,
            Ok(waste) => Told {
                severity: Severity::Note,
                thread: None,
                place: "store".to_owned(),
                what: format!(
                    "{} of {} bytes of no thread",
                    count(waste.values, "long value"),
                    waste.bytes
                ),
                next: format!("remove what no thread has: {}", shell.again("compact")),
                is_damage: false,
            },
            Err(error) => unnamed(&error),
        };
        self.tell(shell, told);
    }

    fn sum_up(&self, shell: &mut Shell, exit: Exit) {
        let place = shell.place();
        let is_damaged = self.is_damaged && exit == Exit::Corrupt;
        let repair = is_damaged.then(|| shell.again("doctor --repair --to NEW"));
        let disk = match shell.in_memory() {
            true => None,
            false => Some(size(&place)),
        };
        shell.out.value(&json!({
            "type": "summary",
            "store": place.to_string_lossy(),
            "open_ms": self.open_ms,
            "disk_bytes": disk,
            "value_bytes": self.value_bytes,
            "threads": self.threads,
            "statuses": self.statuses,
            "records": self.records,
            "segments": self.segments,
            "segment_bytes": self.segment_bytes,
            "errors": self.errors,
            "warnings": self.warnings,
            "notes": self.notes,
            "repair": repair,
            "exit": exit.code(),
        }));
        let repair = repair.map(|repair| format!("  next: save what is sound: {repair}"));
        let disk = disk.map_or(String::new(), |bytes| format!(", {bytes} bytes on disk"));
        let store = format!("store {}", place.display());
        let Some(open_ms) = self.open_ms else {
            shell.out.say(format!("{store}: not opened{disk}"));
            return repair.into_iter().for_each(|next| shell.out.say(next));
        };
        let statuses: Vec<_> = self
            .statuses
            .iter()
            .map(|(status, threads)| format!("{threads} {status}"))
            .collect();
        let statuses = match statuses.as_slice() {
            [] => String::new(),
            statuses => format!(" ({})", statuses.join(", ")),
        };
        let verdict = match self.errors {
            0 => "sound".to_owned(),
            errors => count(errors, "error"),
        };
        shell.out.say(format!(
            "{store}: opened in {open_ms} ms{disk}, {} bytes of values",
            self.value_bytes
        ));
        shell.out.say(format!(
            "{}{statuses}, {}, {} of {} bytes",
            count(self.threads, "thread"),
            count(self.records, "record"),
            count(self.segments, "segment"),
            self.segment_bytes
        ));
        shell.out.say(format!(
            "{verdict}, {}, {}",
            count(self.warnings, "warning"),
            count(self.notes, "note")
        ));
        repair.into_iter().for_each(|next| shell.out.say(next));
    }

    fn exit(&self) -> Exit {
        match self.errors {
            0 => Exit::Done,
            _ if self.is_damaged => Exit::Corrupt,
            // The store is sound, and this program cannot go on with all of it.
            _ => Exit::Failed,
        }
    }
}

fn count(number: u64, what: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {what}{end}")
}

/// How many bytes the files of a folder have. What cannot be read counts nothing.
pub(super) fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}
