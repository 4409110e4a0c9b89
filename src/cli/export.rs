//! `export`: threads as lines of JSON.
//!
//! A thread is read whole and checked before anything of it is written, so what an export has can
//! be imported; what is damaged is named and left out. A file is written beside its name and put in
//! place when it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;

use super::archive::{Header, Sums, text};
use super::args::ExportArgs;
use super::exit::{Exit, Failure, room};
use super::list::head;
use super::out::one_line;
use super::shell::{Shell, quoted};
use crate::ThreadId;
use crate::store::{CheckpointStore, DoneLine, EndLine, ExportLine, StoreError, ThreadArchive};

/// Exports threads.
pub(super) async fn export(shell: &mut Shell, args: &ExportArgs) -> Result<Exit, Failure> {
    let store = shell.look()?;
    let (threads, mut refused) = which(shell, &*store, args).await?;
    let mut sink = Sink::open(args.out.as_deref())?;
    let mut done: Vec<(ThreadId, u64)> = Vec::new();
    for thread in threads {
        let read = ThreadArchive::read(&*store, &thread).await;
        let archive = match read.and_then(|found| {
            found.iter().try_for_each(ThreadArchive::check)?;
            Ok(found)
        }) {
            Ok(Some(archive)) => archive,
            // Deleted since it was listed.
            Ok(None) => continue,
            Err(
                error @ (StoreError::Corrupt { .. }
                | StoreError::Newer { .. }
                | StoreError::Unsound { .. }),
            ) => {
                refused.push(error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        sink.thread(&archive)?;
        done.push((thread, archive.records.len() as u64));
        if sink.is_gone {
            return Ok(Exit::Done);
        }
    }
    if done.is_empty() && !refused.is_empty() {
        return Err(left_out(shell, &refused, "nothing was exported"));
    }
    let bytes = sink.finish(done.len() as u64)?;
    if let Some(path) = &args.out {
        let threads: Vec<_> = done
            .iter()
            .map(|(thread, records)| json!({"thread": thread.as_str(), "records": records}))
            .collect();
        let file = path.to_string_lossy();
        shell
            .out
            .value(&json!({"file": file, "bytes": bytes, "threads": threads}));
        let count = match done.as_slice() {
            [(thread, _)] => format!("thread {} is", one_line(thread.as_str())),
            all => format!("{} threads are", all.len()),
        };
        shell.out.say(format!(
            "{count} exported to {file}: {bytes} bytes\n  next: {} import {}",
            shell.program(),
            quoted(&file)
        ));
    }
    if refused.is_empty() {
        return Ok(Exit::Done);
    }
    Err(left_out(shell, &refused, "the others were exported"))
}

/// The threads that are asked for, and what keeps some from being listed.
async fn which(
    shell: &Shell,
    store: &dyn CheckpointStore,
    args: &ExportArgs,
) -> Result<(Vec<ThreadId>, Vec<StoreError>), Failure> {
    let mut threads: Vec<ThreadId> = Vec::new();
    let mut refused = Vec::new();
    if args.all {
        for name in store.thread_names().await? {
            match name {
                Ok(thread) => threads.push(thread),
                Err(error) => refused.push(error),
            }
        }
        threads.sort();
    }
    for thread in &args.threads {
        if !threads.contains(thread) {
            match head(shell, store, thread).await {
                Ok(_) => threads.push(thread.clone()),
                // It is there, and told with the others that are damaged.
                Err(failure) if failure.exit == Exit::Corrupt => threads.push(thread.clone()),
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok((threads, refused))
}

fn left_out(shell: &Shell, refused: &[StoreError], others: &str) -> Failure {
    let said: Vec<_> = refused.iter().map(StoreError::to_string).collect();
    let what = format!(
        "what cannot be read was left out, {others}: {}",
        said.join("; ")
    );
    Failure::new(Exit::Corrupt, what).next(shell.again("doctor"))
}

/// Where the lines go.
struct Sink {
    to: To,
    sums: Sums,
    bytes: u64,
    /// Whether nobody reads any more.
    is_gone: bool,
}

enum To {
    Out(BufWriter<io::Stdout>),
    File(Part),
}

/// A file that is not whole yet. It is removed again if it never is.
struct Part {
    file: Option<BufWriter<File>>,
    beside: PathBuf,
    path: PathBuf,
}

impl Sink {
    fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let to = match path {
            None => To::Out(BufWriter::new(io::stdout())),
            Some(path) => To::File(Part::open(path).map_err(|error| unwritable(path, &error))?),
        };
        Ok(Self {
            to,
            sums: Sums::default(),
            bytes: 0,
            is_gone: false,
        })
    }

    fn line<T: Serialize>(&mut self, line: &T) -> Result<(), Failure> {
        let text = text(line).map_err(|error| {
            let what = format!("a line cannot be written as JSON: {error}");
            Failure::new(Exit::Failed, what).next("report this: the program has a fault")
        })?;
        self.sums.add(&text);
        self.bytes += text.len() as u64;
        self.write(|to| to.write_all(&text))
    }

    /// Writes the first line before anything else.
    fn begin(&mut self) -> Result<(), Failure> {
        match self.bytes {
            0 => self.line(&Header::ours()),
            _ => Ok(()),
        }
    }

    fn thread(&mut self, archive: &ThreadArchive) -> Result<(), Failure> {
        self.begin()?;
        self.sums.begin();
        for line in ExportLine::of(archive) {
            self.line(&line)?;
        }
        let end = EndLine {
            id: archive.thread.clone(),
            records: archive.records.len() as u64,
            segments: archive.segments.len() as u64,
            sum: self.sums.thread(),
        };
        self.line(&ExportLine::End(end))?;
        self.write(|to| to.flush())
    }

    /// Writes the last line. Returns how many bytes were written.
    fn finish(mut self, threads: u64) -> Result<u64, Failure> {
        self.begin()?;
        let done = DoneLine {
            threads,
            sum: self.sums.all(),
        };
        self.line(&ExportLine::Done(done))?;
        self.write(|to| to.flush())?;
        if let To::File(part) = self.to {
            let path = part.path.clone();
            part.put().map_err(|error| unwritable(&path, &error))?;
        }
        Ok(self.bytes)
    }

    fn write(
        &mut self,
        body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        if self.is_gone {
            return Ok(());
        }
        match &mut self.to {
            To::Out(out) => match body(out) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    self.is_gone = true;
                    Ok(())
                }
                Err(error) => Err(unwritable(Path::new("the output"), &error)),
                Ok(()) => Ok(()),
            },
            To::File(part) => match &mut part.file {
                Some(file) => body(file).map_err(|error| unwritable(&part.path, &error)),
                None => Ok(()),
            },
        }
    }
}

impl Part {
    fn open(path: &Path) -> io::Result<Self> {
        if path.is_dir() {
            return Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder"));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let beside = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&beside)?;
        Ok(Self {
            file: Some(BufWriter::new(file)),
            beside,
            path: path.to_owned(),
        })
    }

    /// Puts the file in its place.
    fn put(mut self) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            let placed = file
                .into_inner()
                .map_err(io::IntoInnerError::into_error)
                .and_then(|file| file.sync_all())
                .and_then(|()| fs::rename(&self.beside, &self.path));
            if placed.is_err() {
                // What is left beside is of no use.
                let _ = fs::remove_file(&self.beside);
            }
            placed?;
        }
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.beside);
        }
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let what = format!("{} cannot be written: {error}", path.display());
    match room(error) {
        Some(first) => Failure::new(Exit::Failed, what).next(format!("{first}, and try again")),
        None => Failure::usage(what).next("name a file that can be written with --out"),
    }
}
