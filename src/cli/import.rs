//! `import`: threads out of the lines that `export` has written.
//!
//! Nothing of a thread is stored before all of it was read and checked, and then all of it is. What
//! is wrong is told with its line; what was imported before stays, and is told too.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use serde_json::json;

use super::archive::{Header, MOST_BYTES, Sums, THREADS, VERSION, parse, text};
use super::args::ImportArgs;
use super::exit::{Exit, Failure};
use super::out::one_line;
use super::shell::{Shell, quoted};
use crate::ThreadId;
use crate::store::{CheckpointStore, DoneLine, EndLine, ExportLine, StoreError, ThreadArchive};

/// Imports threads.
pub(super) async fn import(shell: &mut Shell, args: &ImportArgs) -> Result<Exit, Failure> {
    if shell.in_memory() {
        let what = "a thread that is imported into memory is gone with this process";
        return Err(Failure::usage(what).next("name a folder with --store"));
    }
    let mut lines = Lines::open(args)?;
    lines.header()?;
    let mut import = Import {
        store: None,
        shell,
        args,
        imported: Vec::new(),
        skipped: 0,
    };
    match import.all(&mut lines).await {
        Ok(()) => {
            import.sum_up();
            Ok(Exit::Done)
        }
        Err(mut failure) => {
            if !import.imported.is_empty() {
                let names: Vec<_> = import
                    .imported
                    .iter()
                    .map(|id| one_line(id.as_str()))
                    .collect();
                let kept = format!("; imported before that, and kept: {}", names.join(", "));
                failure.what.push_str(&kept);
            }
            Err(failure)
        }
    }
}

struct Import<'i> {
    /// Opened with the first thread: what is no export makes no store.
    store: Option<Arc<dyn CheckpointStore>>,
    shell: &'i mut Shell,
    args: &'i ImportArgs,
    imported: Vec<ThreadId>,
    skipped: u64,
}

impl Import<'_> {
    async fn all(&mut self, lines: &mut Lines) -> Result<(), Failure> {
        let mut threads = 0;
        let mut open: Option<ThreadArchive> = None;
        // With another name: until it is known that the file has no second thread.
        let mut waiting: Option<ThreadArchive> = None;
        loop {
            let sums = (lines.sums.thread(), lines.sums.all());
            let line = lines.line()?;
            open = match (line, open) {
                (ExportLine::Thread(_), None) if waiting.is_some() => {
                    let what = "the file has more than one thread, and --as is the name of one";
                    return Err(lines.wrong(what));
                }
                (ExportLine::Thread(thread), None) => Some(thread.begin()),
                (ExportLine::Record(record), Some(mut thread)) if thread.segments.is_empty() => {
                    thread.records.push(record.into());
                    Some(thread)
                }
                (ExportLine::Segment(segment), Some(mut thread)) => {
                    thread.segments.push((segment.id, segment.bytes.into()));
                    Some(thread)
                }
                (ExportLine::End(end), Some(thread)) => {
                    is_whole(&thread, &end, &sums.0).map_err(|what| lines.wrong(&what))?;
                    threads += 1;
                    match &self.args.new {
                        Some(_) => waiting = Some(thread),
                        None => self.restore(thread, lines).await?,
                    }
                    None
                }
                (ExportLine::Done(done), None) => {
                    is_done(&done, threads, &sums.1).map_err(|what| lines.wrong(&what))?;
                    lines.end()?;
                    if let (Some(mut thread), Some(new)) = (waiting, &self.args.new) {
                        thread.thread = new.clone();
                        self.restore(thread, lines).await?;
                    }
                    return Ok(());
                }
                (line, open) => {
                    let expected = match open {
                        None => "thread or done",
                        Some(thread) if thread.segments.is_empty() => "record, segment or end",
                        Some(_) => "segment or end",
                    };
                    let what = format!("expected {expected}, found {}", line.name());
                    return Err(lines.wrong(&what));
                }
            };
        }
    }

    async fn restore(&mut self, archive: ThreadArchive, lines: &Lines) -> Result<(), Failure> {
        let thread = archive.thread.clone();
        let name = one_line(thread.as_str());
        let (records, segments) = (archive.records.len(), archive.segments.len());
        let head = archive.head.clone();
        let store = match &self.store {
            Some(store) => Arc::clone(store),
            None => Arc::clone(self.store.insert(self.shell.store()?)),
        };
        match store.restore(archive).await {
            Ok(()) => {}
            Err(StoreError::Exists { .. }) if self.args.skip_existing => {
                self.skipped += 1;
                let value = json!({"thread": thread.as_str(), "imported": false});
                self.shell.out.value(&value);
                let line = format!("thread {name} is skipped: it exists already");
                self.shell.out.say(line);
                return Ok(());
            }
            Err(error @ StoreError::Exists { .. }) => {
                let delete = self.shell.on("delete", &thread);
                let next = format!(
                    "{} with --skip-existing, or with --as NAME where the file has one thread, or \
                     first: {delete}",
                    self.shell.again(&format!("import {}", quoted(&lines.name)))
                );
                return Err(lines.wrong(&error.to_string()).next(next));
            }
            Err(error @ StoreError::Unsound { .. }) => return Err(lines.wrong(&error.to_string())),
            Err(error) => return Err(error.into()),
        }
        self.shell.out.value(&json!({
            "thread": thread.as_str(),
            "imported": true,
            "status": head.status.to_string(),
            "step": head.step,
            "seq": head.seq.get(),
            "records": records,
            "segments": segments,
        }));
        self.shell.out.say(format!(
            "thread {name} is imported: {records} records, {segments} segments; it stands at \
             superstep {}, {}",
            head.step, head.status
        ));
        self.imported.push(thread);
        Ok(())
    }

    fn sum_up(&mut self) {
        let line = match (self.imported.as_slice(), self.skipped) {
            ([], 0) => "  the file has no threads".to_owned(),
            ([], _) => return,
            ([one], _) => {
                let next = self.shell.on("show", one);
                format!("  next: {next}")
            }
            _ => format!("  next: {}", self.shell.again("threads")),
        };
        self.shell.out.say(line);
    }
}

/// Compares a thread with what its last line says.
fn is_whole(thread: &ThreadArchive, end: &EndLine, sum: &str) -> Result<(), String> {
    let (records, segments) = (thread.records.len() as u64, thread.segments.len() as u64);
    if end.id != thread.thread {
        return Err(format!(
            "thread {} ends as thread {}",
            thread.thread, end.id
        ));
    }
    if (end.records, end.segments) != (records, segments) {
        return Err(format!(
            "thread {} should have {} records and {} segments, the file has {records} and \
             {segments}: lines are missing",
            end.id, end.records, end.segments
        ));
    }
    if end.sum != sum {
        return Err(format!(
            "the lines of thread {} were altered: their checksum is {sum}, not {}",
            end.id, end.sum
        ));
    }
    Ok(())
}

fn is_done(done: &DoneLine, threads: u64, sum: &str) -> Result<(), String> {
    if done.threads != threads {
        return Err(format!(
            "the file should have {} threads, it has {threads}",
            done.threads
        ));
    }
    if done.sum != sum {
        return Err(format!(
            "the file was altered: its checksum is {sum}, not {}",
            done.sum
        ));
    }
    Ok(())
}

/// The lines of a file, summed up as they are read.
struct Lines {
    from: Box<dyn BufRead>,
    /// What was typed.
    name: String,
    number: u64,
    line: Vec<u8>,
    sums: Sums,
}

impl Lines {
    fn open(args: &ImportArgs) -> Result<Self, Failure> {
        let name = args.file.to_string_lossy().into_owned();
        let from: Box<dyn BufRead> = if name == "-" {
            Box::new(BufReader::new(io::stdin()))
        } else {
            let file = File::open(&args.file).map_err(|error| unreadable(&name, &error))?;
            Box::new(BufReader::new(file))
        };
        Ok(Self {
            from,
            name,
            number: 0,
            line: Vec::new(),
            sums: Sums::default(),
        })
    }

    /// Reads the next line with its end into `self.line`; false at the end of the file.
    fn read(&mut self) -> Result<bool, Failure> {
        self.line.clear();
        let most = MOST_BYTES as u64 + 1;
        let read = (&mut self.from)
            .take(most)
            .read_until(b'\n', &mut self.line);
        let read = read.map_err(|error| unreadable(&self.name, &error))?;
        if read == 0 {
            return Ok(false);
        }
        self.number += 1;
        if self.line.ends_with(b"\n") {
            return Ok(true);
        }
        Err(match read as u64 {
            read if read == most => self.wrong(&format!(
                "it is longer than the {MOST_BYTES} bytes of the longest line"
            )),
            _ => self.wrong("the file is cut off in this line"),
        })
    }

    /// Reads the first line.
    fn header(&mut self) -> Result<(), Failure> {
        const NONE: &str = "this is no export of threads";
        if !self.read()? {
            self.number = 1;
            return Err(self.wrong("the file is empty"));
        }
        let header: Header = serde_json::from_slice(&self.line).map_err(|_| self.wrong(NONE))?;
        if header.milepost != THREADS {
            return Err(self.wrong(NONE));
        }
        if header.version > VERSION {
            let what = format!(
                "the export has version {}, this program reads up to {VERSION}",
                header.version
            );
            return Err(self
                .wrong(&what)
                .next("import it with the program that wrote it"));
        }
        match text(&Header::ours()) {
            Ok(ours) if ours == self.line => {
                self.sums.add(&self.line);
                Ok(())
            }
            _ => Err(self.wrong("the first line was altered")),
        }
    }

    /// Reads a line that must be there.
    fn line(&mut self) -> Result<ExportLine, Failure> {
        if !self.read()? {
            self.number += 1;
            return Err(self.wrong("the file is cut off before this line: its end is missing"));
        }
        let text = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = parse(text).map_err(|what| self.wrong(&what))?;
        if let ExportLine::Thread(_) = line {
            self.sums.begin();
        }
        self.sums.add(&self.line);
        Ok(line)
    }

    /// Nothing may follow.
    fn end(&mut self) -> Result<(), Failure> {
        let mut more = [0];
        let read = self.from.read(&mut more);
        match read.map_err(|error| unreadable(&self.name, &error))? {
            0 => Ok(()),
            _ => {
                self.number += 1;
                Err(self.wrong("the export has ended before this line"))
            }
        }
    }

    fn wrong(&self, what: &str) -> Failure {
        let name = match self.name.as_str() {
            "-" => "the input",
            name => name,
        };
        let what = format!("{name}, line {}: {what}", self.number);
        Failure::usage(what).next("export once more, and import that with --skip-existing: what was imported before stays")
    }
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::usage(format!("{name} cannot be read: {error}"))
        .next("name a file that `export` wrote")
}
