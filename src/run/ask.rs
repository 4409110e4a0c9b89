//! The questions of an open superstep: what waits for whom.
//!
//! In come what tasks ask and what people answer, out go which tasks wait and what the others may
//! read. It writes nothing, and reads no clock.

use std::sync::Arc;

use super::RunError;
use super::command::Answers as Given;
use super::inner::InnerLogs;
use super::record::task;
use crate::ids::{Branch, QuestionId, Seq, TaskPath, ThreadId};
use crate::node::Ask;
use crate::state::{Codec, CodecError};
use crate::store::{
    AnswerRecord, Branches, CheckpointStore, QuestionRecord, Record, StoreError, Stored,
};

/// How many records are read at once.
const PAGE: usize = 256;

/// A question that waits for its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenQuestion {
    /// Its id.
    pub id: QuestionId,
    /// The question's Rust type.
    pub type_name: String,
    /// The question, as MessagePack with names.
    pub question: Vec<u8>,
    /// The serde shape of the answer.
    pub answer_shape: String,
    /// When it expires, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
    /// Its record; none without a store.
    pub seq: Option<Seq>,
}

impl OpenQuestion {
    /// The question in its own type.
    ///
    /// # Errors
    /// [`CodecError`] if it is none of that type.
    pub fn read<Q: Ask>(&self) -> Result<Q, CodecError> {
        Codec::MessagePack.decode(&self.question)
    }
}

/// A question of the open superstep.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    /// The task, by place in the frontier.
    pub(crate) place: usize,
    pub(crate) open: OpenQuestion,
    /// What counts as its answer when its time is over.
    pub(crate) default: Option<Vec<u8>>,
    pub(crate) answer: Option<Arc<[u8]>>,
    /// Whether its time is over, and it has no answer.
    pub(crate) expired: bool,
    /// Where it stands, if a task inside of a subgraph asks.
    pub(crate) inside: Option<Inside>,
}

/// Where a question of a task inside of a subgraph stands.
#[derive(Debug, Clone)]
pub(crate) struct Inside {
    /// The task that runs the subgraph: it names the log.
    pub(crate) log: TaskPath,
    /// The question's record in that log; 0 without a store.
    pub(crate) seq: u64,
    /// Whether the task that runs the subgraph waits for it; if not, it is run again anyway.
    pub(crate) rests: bool,
}

impl Asking {
    fn waits(&self) -> bool {
        self.answer.is_none() && !self.expired
    }

    /// Makes it a question inside of the graph that a task runs: its id becomes whole, and `place`
    /// says where its record stands in the thread's log.
    pub(crate) fn enclose(&mut self, task: &TaskPath, place: impl Fn(Seq) -> Option<Seq>) {
        if self.inside.is_some() {
            return;
        }
        self.open.id = self.open.id.within(task);
        self.inside = Some(Inside {
            log: task.clone(),
            seq: self.open.seq.map_or(0, Seq::get),
            rests: true,
        });
        self.open.seq = self.open.seq.and_then(place);
    }
}

/// All questions of the open superstep, in the order in which they were asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Questions(pub(crate) Vec<Asking>);

impl Questions {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the task at a place waits for an answer. One that runs a graph does not wait any more
    /// when one of the tasks inside has all its answers.
    pub(crate) fn waits(&self, place: usize) -> bool {
        let of_place = || self.0.iter().filter(move |asking| asking.place == place);
        if of_place().any(|asking| asking.inside.is_none() && asking.waits()) {
            return true;
        }
        let mut inside = of_place()
            .filter(|asking| asking.inside.as_ref().is_some_and(|inside| inside.rests))
            .peekable();
        let waits = |asking: &Asking| {
            let of_task = of_place().filter(|other| other.open.id.task() == asking.open.id.task());
            of_task.into_iter().any(Asking::waits)
        };
        inside.peek().is_some() && inside.all(waits)
    }

    /// Forgets what tasks inside of the graph that the one at a place runs have asked.
    pub(crate) fn forget_inside(&mut self, place: usize) {
        self.0
            .retain(|asking| asking.place != place || asking.inside.is_none());
    }

    /// What waits for an answer, whole.
    pub(crate) fn waiting(&self) -> Vec<Asking> {
        self.unanswered().cloned().collect()
    }

    fn unanswered(&self) -> impl Iterator<Item = &Asking> {
        self.0.iter().filter(|asking| asking.waits())
    }

    /// What waits for an answer, in the order in which it was asked.
    pub(crate) fn open(&self) -> Vec<OpenQuestion> {
        let open = self.unanswered().map(|asking| asking.open.clone());
        let mut open: Vec<_> = open.collect();
        // What is asked inside of subgraphs is told to this level later than it was asked.
        open.sort_by_key(|question| question.seq);
        open
    }

    pub(crate) fn find(&self, id: &QuestionId) -> Option<&Asking> {
        self.0.iter().find(|asking| asking.open.id == *id)
    }

    pub(crate) fn find_mut(&mut self, id: &QuestionId) -> Option<&mut Asking> {
        self.0.iter_mut().find(|asking| asking.open.id == *id)
    }
}

/// Questions and answers as they are read from a log, in order.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    all: Vec<AskedOne>,
    /// The logs of subgraphs, which say which of their questions are still open.
    inner: InnerLogs,
    /// The tasks that have ended, with the seqs of their outcomes.
    ended: Vec<(u64, TaskPath)>,
}

#[derive(Debug)]
struct AskedOne {
    id: QuestionId,
    /// The subgraph in whose log it stands; none for the thread's own.
    log: Option<TaskPath>,
    /// Its place in that log.
    seq: u64,
    question: QuestionRecord,
    answer: Option<AnswerRecord>,
}

impl OpenQuestion {
    /// The question of a record.
    pub(crate) fn of(id: QuestionId, seq: u64, question: &QuestionRecord) -> Self {
        Self {
            id,
            type_name: question.type_name.clone(),
            question: question.value.clone(),
            answer_shape: question.answer.clone(),
            expires_ms: question.expires_ms,
            seq: Some(Seq::new(seq)),
        }
    }
}

impl Asked {
    /// Takes a record; those of other kinds are nothing to it.
    pub(crate) fn push(&mut self, seq: u64, record: &Record) {
        match record {
            // What cannot be read is found where the thread is loaded.
            Record::Inner(inner) => {
                if let Ok((path, stored)) = inner.open() {
                    self.inner.push(&path, Seq::new(seq), &stored);
                    self.add(Some(&path), stored.seq.get(), &stored.record);
                }
            }
            record => self.add(None, seq, record),
        }
    }

    fn add(&mut self, log: Option<&TaskPath>, seq: u64, record: &Record) {
        match record {
            Record::Question(question) => {
                // A path that cannot be read names no task of this program.
                if let Ok(task) = question.task.parse::<TaskPath>() {
                    let id = QuestionId::new(task, question.key.clone());
                    self.all.push(AskedOne {
                        id: log.map_or(id.clone(), |log| id.within(log)),
                        log: log.cloned(),
                        seq,
                        question: question.clone(),
                        answer: None,
                    });
                }
            }
            Record::Answer(given) => {
                let is_it =
                    |one: &&mut AskedOne| one.log.as_ref() == log && one.seq == given.question;
                // The same numbers come again on another branch: the newest is meant.
                if let Some(one) = self.all.iter_mut().rev().find(is_it) {
                    one.answer = Some(given.clone());
                }
            }
            Record::Outcome(outcome) if log.is_none() => {
                self.ended.extend(task(outcome).map(|task| (seq, task)));
            }
            Record::Discarded(discarded) if log.is_none() => {
                let gone = |seq: &u64| discarded.outcomes.contains(seq);
                let (again, ended) = self.ended.drain(..).partition(|(seq, _)| gone(seq));
                self.ended = ended;
                let again: Vec<(u64, TaskPath)> = again;
                let is_again = |id: &QuestionId| again.iter().any(|(_, task)| task == id.task());
                // A task that runs again asks anew what nobody has answered.
                self.all
                    .retain(|one| one.answer.is_some() || !is_again(&one.id));
            }
            _ => {}
        }
    }

    /// The questions of the tasks that have a place.
    pub(crate) fn questions(self, place: impl Fn(&TaskPath) -> Option<usize>) -> Questions {
        let ended = self.ended;
        let own = self.all.into_iter().filter(|one| one.log.is_none());
        let asking = own.filter_map(|one| {
            if one.answer.is_none() && has_ended(&ended, &one.id) {
                return None;
            }
            Some(Asking {
                place: place(one.id.task())?,
                open: OpenQuestion::of(one.id, one.seq, &one.question),
                default: one.question.default,
                answer: one.answer.map(|answer| answer.value.into()),
                expired: false,
                inside: None,
            })
        });
        Questions(asking.collect())
    }

    /// What is not answered, in the superstep that is open.
    pub(crate) fn open(&self, step: u64) -> Vec<OpenQuestion> {
        let own = self.all.iter().filter(|one| one.log.is_none());
        let own = own.filter(|one| one.answer.is_none());
        let own = own.map(|one| OpenQuestion::of(one.id.clone(), one.seq, &one.question));
        let inside = self.inner.questions(step).into_iter();
        let inside = inside.map(|(id, asked)| OpenQuestion::of(id, asked.at.get(), &asked.record));
        let mut open: Vec<_> = own.chain(inside).collect();
        open.retain(|question| !has_ended(&self.ended, &question.id));
        open.sort_by_key(|question| question.seq);
        open
    }
}

/// Whether the task that asks, or the one whose graph it is in, has ended: with a failure, which an
/// error exit took on.
fn has_ended(ended: &[(u64, TaskPath)], id: &QuestionId) -> bool {
    let outer = id.task().levels().first();
    ended.iter().any(|(_, task)| task.levels().first() == outer)
}

/// What waits for an answer inside of subgraphs of an open superstep.
pub(crate) fn questions_inside(records: &[(Seq, Arc<Record>)], step: u64) -> Vec<OpenQuestion> {
    let mut asked = Asked::default();
    for (at, record) in records {
        asked.push(at.get(), record);
    }
    asked.open(step)
}

/// The answers that are not taken yet. One that repeats what was answered in a superstep that is
/// closed by now is left out: it gets the same reply.
pub(crate) async fn answered(
    store: &dyn CheckpointStore,
    thread: &ThreadId,
    mut answers: Given,
    open: &Questions,
) -> Result<Given, RunError> {
    let is_known = |id: &Option<QuestionId>| id.as_ref().is_none_or(|id| open.find(id).is_some());
    if answers.given.iter().all(|given| is_known(&given.id)) {
        return Ok(answers);
    }
    let log = read(store, thread, Seq::new(1), None).await?;
    let mut fresh = Vec::new();
    for given in answers.given {
        let id = given.id.as_ref().filter(|id| open.find(id).is_none());
        let before = id.and_then(|id| {
            let asked = log.all.iter().rfind(|one| one.id == *id)?;
            asked.answer.as_ref().map(|answer| (id, &answer.value))
        });
        match (before, &given.answer) {
            (None, _) => fresh.push(given),
            (Some((_, value)), Ok(bytes)) if value == bytes => {}
            (Some((id, _)), _) => {
                return Err(RunError::AlreadyAnswered {
                    thread: thread.clone(),
                    id: id.clone(),
                });
            }
        }
    }
    answers.given = fresh;
    Ok(answers)
}

/// The questions and answers of the head's line from a seq on, or those of one branch.
pub(crate) async fn read(
    store: &dyn CheckpointStore,
    thread: &ThreadId,
    mut from: Seq,
    only: Option<Branch>,
) -> Result<Asked, StoreError> {
    let mut found: Vec<Stored> = Vec::new();
    let mut branches = Branches::default();
    let mut end = None;
    loop {
        let page = store.records(thread, from, PAGE).await?;
        let Some(last) = page.last() else { break };
        from = last.seq.next();
        // Who writes writes on the head's branch.
        end = Some((last.branch, last.seq));
        for stored in page {
            branches.see(&stored);
            if let Record::Question(_)
            | Record::Answer(_)
            | Record::Inner(_)
            | Record::Outcome(_)
            | Record::Discarded(_) = &*stored.record
            {
                found.push(stored);
            }
        }
    }
    let mut asked = Asked::default();
    if let Some((branch, last)) = end {
        let line = branches.line(branch, last);
        for Stored {
            seq,
            branch,
            record,
            ..
        } in &found
        {
            if only.map_or_else(|| line.has(*branch, *seq), |only| only == *branch) {
                asked.push(seq.get(), record);
            }
        }
    }
    Ok(asked)
}
