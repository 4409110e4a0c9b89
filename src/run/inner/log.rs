//! The logs of subgraphs, as far as an open superstep needs them.
//!
//! In come their records with their places in the thread's log, out come how each log stands and
//! what its open tasks wait for. It reads no store, and holds no value of a state.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::ids::{Branch, NodeName, QuestionId, Seq, Step, TaskPath};
use crate::store::{Head, QuestionRecord, Record, SchemaRecord, Status, Stored, Text};

/// The log of one instance of a subgraph.
#[derive(Debug, Default)]
pub(crate) struct InnerLog {
    /// Where its records stand in the thread's log, in order.
    seqs: Vec<Seq>,
    schema: Option<SchemaRecord>,
    head: Option<Head>,
    /// The tasks of its open superstep that have noted something of themselves.
    open: BTreeMap<TaskPath, OpenTask>,
    /// The tasks of its open superstep that have ended.
    ended: HashSet<TaskPath>,
}

/// What a task inside waits for.
#[derive(Debug, Default)]
pub(crate) struct OpenTask {
    pub(crate) questions: Vec<AskedInside>,
    /// Until when it waits, at the latest, in milliseconds since 1970.
    pub(crate) until_ms: Option<u64>,
}

/// A question of a task inside.
#[derive(Debug, Clone)]
pub(crate) struct AskedInside {
    /// Its place in the log of the subgraph.
    pub(crate) seq: u64,
    /// Its place in the thread's log.
    pub(crate) at: Seq,
    pub(crate) record: QuestionRecord,
    pub(crate) answered: bool,
}

impl OpenTask {
    /// When the task can go on: at once for 0, never by itself for none.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let mut unanswered = self.questions.iter().filter(|asked| !asked.answered);
        match unanswered.next() {
            None => Some(self.until_ms.unwrap_or(0)),
            Some(first) => std::iter::once(first)
                .chain(unanswered)
                .filter_map(|asked| asked.record.expires_ms)
                .min(),
        }
    }
}

impl InnerLog {
    /// Where its records stand in the thread's log.
    pub(crate) fn seqs(&self) -> &[Seq] {
        &self.seqs
    }

    /// The seq that its next record gets.
    pub(crate) fn next(&self) -> Seq {
        Seq::new(self.seqs.len() as u64 + 1)
    }

    /// How it stands; none before its input.
    pub(crate) fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// Takes the next record, which stands at a place in the thread's log.
    fn push(&mut self, at: Seq, stored: &Stored) {
        if stored.seq == Seq::new(1) {
            *self = Self::default();
        }
        self.seqs.push(at);
        match &*stored.record {
            Record::Schema(schema) => self.schema = Some(schema.clone()),
            Record::Input(input) => {
                self.head = Some(Head {
                    graph: Text::default(),
                    fingerprint: [0; 16],
                    run: Text::from(&input.run),
                    branch: Branch::new(0),
                    seq: stored.seq,
                    step: input.step,
                    base: stored.seq,
                    schema: Seq::new(1),
                    status: input.status,
                    created_ms: input.at_ms,
                    updated_ms: input.at_ms,
                });
                if let (Some(head), Some(schema)) = (&mut self.head, &self.schema) {
                    head.graph = Text::from(&schema.graph);
                    head.fingerprint = schema.fingerprint;
                }
            }
            Record::Base(_) => self.stands(|head| head.base = stored.seq),
            Record::Commit(commit) => {
                self.open.clear();
                self.ended.clear();
                self.stands(|head| {
                    head.seq = stored.seq;
                    head.step = commit.step;
                    head.status = commit.status;
                    head.updated_ms = commit.at_ms;
                });
            }
            Record::Stopped(stopped) => self.stands(|head| head.status = stopped.status),
            Record::Started(_) => self.stands(|head| head.status = Status::Running),
            Record::Outcome(outcome) => {
                if let Ok(node) = NodeName::new(&outcome.node) {
                    let path = TaskPath::new(Step::new(outcome.step), node, outcome.index);
                    self.open.remove(&path);
                    self.ended.insert(path);
                }
            }
            Record::Question(question) => {
                if let Ok(task) = question.task.parse() {
                    let asked = AskedInside {
                        seq: stored.seq.get(),
                        at,
                        record: question.clone(),
                        answered: false,
                    };
                    self.open.entry(task).or_default().questions.push(asked);
                }
            }
            Record::Answer(answer) => {
                let tasks = self.open.values_mut();
                let mut asked = tasks.flat_map(|task| &mut task.questions);
                if let Some(asked) = asked.find(|asked| asked.seq == answer.question) {
                    asked.answered = true;
                }
            }
            Record::Timer(timer) => {
                if let Ok(task) = timer.task.parse() {
                    let task: &mut OpenTask = self.open.entry(task).or_default();
                    task.until_ms = task.until_ms.max(Some(timer.due_ms));
                }
            }
            _ => {}
        }
    }

    fn stands(&mut self, change: impl FnOnce(&mut Head)) {
        if let Some(head) = &mut self.head {
            change(head);
        }
    }
}

/// The logs of all subgraphs of an open superstep, by the task that runs each.
#[derive(Debug, Default)]
pub(crate) struct InnerLogs(HashMap<TaskPath, InnerLog>);

impl InnerLogs {
    pub(crate) fn push(&mut self, path: &TaskPath, at: Seq, stored: &Stored) {
        if !self.0.contains_key(path) {
            self.0.insert(path.clone(), InnerLog::default());
        }
        if let Some(log) = self.0.get_mut(path) {
            log.push(at, stored);
        }
    }

    pub(crate) fn get(&self, path: &TaskPath) -> Option<&InnerLog> {
        self.0.get(path)
    }

    /// Forgets the logs of a superstep of the graph that a task runs, or of the outermost one.
    pub(crate) fn forget(&mut self, within: Option<&TaskPath>, step: Step) {
        self.0.retain(|path, _| {
            let below = match within {
                Some(outer) => path.below(outer),
                None => Some(path.clone()),
            };
            below.is_none_or(|path| path.first().step != step)
        });
    }

    /// Forgets the logs of the graph that a task runs, and of all inside.
    pub(super) fn restart(&mut self, task: &TaskPath) {
        self.0
            .retain(|path, _| path != task && path.below(task).is_none());
    }

    /// What the tasks inside of a subgraph wait for, on all levels, with their whole paths; and
    /// whether it came to rest on all of them. None where it has no log.
    pub(crate) fn resting(&self, path: &TaskPath) -> Option<(bool, Vec<(TaskPath, &OpenTask)>)> {
        let log = self.0.get(path)?;
        let head = log.head()?;
        let mut rests = matches!(head.status, Status::Paused | Status::Parked);
        let mut tasks: Vec<_> = log
            .open
            .iter()
            .map(|(task, open)| (task.within(path), open))
            .collect();
        let below = self.0.keys().filter(|inner| {
            let here = inner.below(path).filter(|task| task.levels().len() == 1);
            here.is_some_and(|task| {
                task.first().step.get() == head.step + 1 && !log.ended.contains(&task)
            })
        });
        let mut below: Vec<_> = below.collect();
        below.sort();
        for inner in below {
            match self.resting(inner) {
                Some((all, inside)) => {
                    rests &= all;
                    tasks.extend(inside);
                }
                None => rests = false,
            }
        }
        Some((rests, tasks))
    }

    /// The tasks that wait inside of a superstep of the outermost graph, with their whole paths.
    fn waiting(&self, step: u64) -> impl Iterator<Item = (TaskPath, &OpenTask)> {
        let outermost = self.0.keys().filter(|path| path.levels().len() == 1);
        let of_step = outermost.filter(move |path| path.first().step.get() == step);
        let tasks = of_step.filter_map(|path| self.resting(path));
        tasks.flat_map(|(_, tasks)| tasks)
    }

    /// The same, without their paths.
    pub(crate) fn open(&self, step: u64) -> impl Iterator<Item = &OpenTask> {
        self.waiting(step).map(|(_, open)| open)
    }

    /// The questions in a superstep of the outermost graph that wait for an answer.
    pub(crate) fn questions(&self, step: u64) -> Vec<(QuestionId, &AskedInside)> {
        let asked = self.waiting(step).flat_map(|(task, open)| {
            let asked = open.questions.iter().filter(|asked| !asked.answered);
            asked.map(move |asked| (QuestionId::new(task.clone(), &asked.record.key), asked))
        });
        asked.collect()
    }
}
