//! What children note outside of the store: one line an effect, one write a line.
//!
//! Each line is one write to a file opened for appending, so lines do not mix, and what is in the
//! file has happened, whatever becomes of the process. Only the kill itself can cut a line: Linux
//! gives up a write between two pages when its process is being killed. Such a line lacks its mark,
//! and its thread of the system did nothing after it, so it is passed over.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use milepost::store::{OutcomeRecord, OutcomeRef, Record, Write};
use milepost::{Context, Event, EventKind, TaskPath};
use serde::{Deserialize, Serialize};

/// Stands at the end of a line that no kill has cut. JSON has no such character outside of texts.
const WHOLE: char = ';';

/// A task of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) thread: String,
    pub(crate) step: u64,
    pub(crate) node: String,
    pub(crate) index: u32,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            thread,
            step,
            node,
            index,
        } = self;
        write!(f, "{thread}/{step}:{node}:{index}")
    }
}

/// Something that happened in a child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Effect {
    /// A process begins.
    Life,
    /// A body was entered.
    Enter(Task),
    /// The store has answered that the end of a task is written.
    Written(Task, u64),
    /// The store has answered that a superstep is closed.
    Closed(String, u64, u64),
    /// The event `TaskFinished` was received.
    Finished(Task, u64),
    /// The event `Committed` was received.
    Committed(String, u64, u64),
    /// A decision on a merged state was asked for, in the superstep, with the answer.
    Asked(String, u64, String),
    /// A run came to its end.
    End(String, String),
    /// A run failed as its graph has it.
    Stumbled(String, String),
    /// A run failed, with the class and the text of its error.
    Failed(String, String, String),
    /// How many operations of the store the process has used.
    Operations(u64),
    /// A call of a script was answered.
    Did(usize),
    /// A body, or the work of a step, was entered.
    Begun(Place),
    /// The store has answered that an outcome, or a step, is written.
    Kept(Place),
    /// The store has answered that a record is written: its branch, seq and digest.
    Stored(u32, u64, String),
}

/// A task or step on a branch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) branch: u32,
    pub(crate) what: String,
}

impl Effect {
    /// Whether a task of this node was entered.
    pub(crate) fn is_entry_of(&self, node: &str) -> bool {
        matches!(self, Self::Enter(task) if task.node == node)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Diary {
    path: PathBuf,
    file: Arc<File>,
    /// The branch on which the thread of a script stands.
    branch: Arc<AtomicU32>,
}

impl Diary {
    pub(crate) fn open(folder: &Path) -> Self {
        let path = folder.join("diary");
        let file = OpenOptions::new().create(true).append(true).open(&path);
        Self {
            path,
            file: Arc::new(file.unwrap()),
            branch: Arc::default(),
        }
    }

    /// The thread stands on this branch now.
    pub(crate) fn on(&self, branch: u32) {
        self.branch.store(branch, Ordering::SeqCst);
    }

    /// A body of a script, or the work of a step in it, is entered.
    pub(crate) fn begin(&self, cx: &Context, step: Option<&str>) {
        let branch = self.branch.load(Ordering::SeqCst);
        let what = match step {
            None => cx.task().to_string(),
            Some(key) => format!("{}.{key}", cx.task()),
        };
        self.note(&Effect::Begun(Place { branch, what }));
    }

    pub(crate) fn note(&self, effect: &Effect) {
        // Begins a line of its own, also behind one that was cut.
        let line = format!("\n{}{WHOLE}", serde_json::to_string(effect).unwrap()).into_bytes();
        let written = (&*self.file).write(&line).unwrap();
        assert_eq!(written, line.len(), "a line is one write");
    }

    pub(crate) fn enter(&self, cx: &Context) {
        self.note(&Effect::Enter(task(cx.thread().as_str(), &cx.task())));
    }

    /// Notes what a write holds, once the store has answered.
    pub(crate) fn written(&self, write: &Write) {
        let thread = write.thread.as_str();
        for (record, seq) in write.records.iter().zip(write.first.get()..) {
            match record {
                Record::Outcome(outcome) => {
                    self.note(&Effect::Written(recorded(thread, outcome), seq));
                }
                Record::Commit(commit) => {
                    for outcome in &commit.outcomes {
                        if let OutcomeRef::Inline(outcome) = outcome {
                            self.note(&Effect::Written(recorded(thread, outcome), seq));
                        }
                    }
                    self.note(&Effect::Closed(thread.to_owned(), commit.step, seq));
                }
                _ => {}
            }
        }
    }

    pub(crate) fn event(&self, thread: &str, event: &Event) {
        let seq = || event.seq.unwrap().get();
        match &event.kind {
            EventKind::TaskFinished { task: path, .. } => {
                self.note(&Effect::Finished(task(thread, path), seq()));
            }
            EventKind::Committed { step, .. } => {
                let thread = thread.to_owned();
                self.note(&Effect::Committed(thread, step.get(), seq()));
            }
            _ => {}
        }
    }

    pub(crate) fn read(&self) -> Vec<Effect> {
        let bytes = std::fs::read(&self.path).unwrap();
        String::from_utf8_lossy(&bytes)
            .lines()
            .filter_map(|line| line.strip_suffix(WHOLE))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Counts the lines that come from now on.
    pub(crate) fn watch(&self) -> Watch {
        let mut file = File::open(&self.path).unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        Watch { file, lines: 0 }
    }

    /// How many lines there are.
    pub(crate) fn lines(&self) -> usize {
        let bytes = std::fs::read(&self.path).unwrap();
        bytes.iter().filter(|byte| **byte == b'\n').count()
    }
}

/// Counts lines without reading those again that it knows.
pub(crate) struct Watch {
    file: File,
    lines: usize,
}

impl Watch {
    /// How many lines have come.
    pub(crate) fn lines(&mut self) -> usize {
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes).unwrap();
        self.lines += bytes.iter().filter(|byte| **byte == b'\n').count();
        self.lines
    }
}

fn task(thread: &str, path: &TaskPath) -> Task {
    let level = path.task();
    Task {
        thread: thread.to_owned(),
        step: level.step.get(),
        node: level.node.as_str().to_owned(),
        index: level.index,
    }
}

/// The task whose end a record tells.
pub(crate) fn recorded(thread: &str, outcome: &OutcomeRecord) -> Task {
    Task {
        thread: thread.to_owned(),
        step: outcome.step,
        node: outcome.node.to_string(),
        index: outcome.index,
    }
}
