//! Irreversible tasks that began and have no recorded end: nobody knows whether they did what they
//! do, so the engine asks, and does what it is told.
//!
//! In come the tasks of an open superstep that were left in their middle, out go questions; in come
//! their answers, out go outcomes of those that ran. The body of such a task is never run silently a
//! second time.

use std::sync::Arc;

use super::RunError;
use super::ask::{Asking, OpenQuestion};
use super::handle::{Run, Stage};
use super::port::RunPort;
use super::recall::{Key, Request};
use super::record;
use crate::engine::{Ended, Outcome};
use crate::event::EventKind;
use crate::graph::{Entry, Out};
use crate::ids::{NodeName, QuestionId, Step, TaskPath};
use crate::node::{AFTER_CRASH, AfterCrash, AskCodec, MayHaveRun, NodeError};
use crate::policy::now_ms;
use crate::state::{Codec, State};
use crate::store::{BegunRecord, DiscardedRecord, Record};

/// How the engine's own questions are answered.
pub(super) fn codec() -> Option<AskCodec> {
    AskCodec::of::<MayHaveRun>()
}

/// The key under which a task finds an answer: of the engine's own questions it finds the last one.
pub(super) fn known_as(id: &QuestionId) -> &str {
    match AfterCrash::answers(id) {
        true => AFTER_CRASH,
        false => id.key(),
    }
}

impl RunPort {
    /// Says that the body of an irreversible task begins or goes on; done when that is durable.
    pub(super) async fn begin(&self, task: Key) -> Result<(), NodeError> {
        let at_ms = now_ms();
        match &self.requests {
            Some(_) => {
                self.recorded(|done| Request::Begun(task, at_ms, done))
                    .await?;
            }
            None => self.report(None, || EventKind::Begun {
                task: self.path(task),
                at_ms,
            }),
        }
        self.recall.begin(task, at_ms);
        Ok(())
    }

    fn path(&self, (step, node, index): Key) -> TaskPath {
        let name = self.names[node as usize].clone();
        TaskPath::new(Step::new(step), name, index)
    }
}

/// Has irreversible tasks whose outcomes were discarded be asked about: they began.
pub(super) fn doubted(
    noted: &mut Vec<Arc<Record>>,
    open: &[(u64, Arc<Record>)],
    discarded: &DiscardedRecord,
) {
    let void = open
        .iter()
        .filter(|(seq, _)| discarded.outcomes.contains(seq));
    let tasks = void.filter_map(|(_, record)| match &**record {
        Record::Outcome(outcome) => record::task(outcome).map(|task| task.to_string()),
        _ => None,
    });
    for task in tasks.collect::<Vec<_>>() {
        let is_it =
            |record: &Arc<Record>| matches!(&**record, Record::Begun(begun) if begun.task == task);
        if noted.iter().any(is_it) {
            let at_ms = discarded.at_ms;
            noted.push(Arc::new(Record::Begun(BegunRecord { task, at_ms })));
        }
    }
}

/// Refuses an answer that says that a node ran, and not by which of its exits it is left.
///
/// # Errors
/// [`RunError::NoExit`] if it has none of that name, or several and none was named.
pub(super) fn check(asking: &Asking, answer: &[u8]) -> Result<(), RunError> {
    let (Ok(asked), Ok(answer)) = (
        asking.open.read::<MayHaveRun>(),
        Codec::MessagePack.decode(answer),
    ) else {
        return Ok(());
    };
    let node = &asking.open.id.task().task().node;
    exit(node, &asked.exits, &answer).map(|_| ())
}

/// The exit by which a node is left that has run; none for one that is to be run.
fn exit(node: &NodeName, exits: &[String], answer: &AfterCrash) -> Result<Option<u32>, RunError> {
    let named = match answer {
        AfterCrash::Ran => None,
        AfterCrash::RanBy(exit) => Some(exit),
        AfterCrash::DidNotRun | AfterCrash::Again => return Ok(None),
    };
    let found = match (exits, named) {
        ([] | [_], None) => Some(0),
        (exits, Some(label)) => exits.iter().position(|known| known == label),
        (_, None) => None,
    };
    match found {
        Some(exit) => Ok(Some(exit as u32)),
        None => Err(RunError::NoExit {
            node: node.clone(),
            exit: named.cloned(),
            exits: exits.to_vec(),
        }),
    }
}

/// The names of a node's exits; none where it has one way out.
fn exits<S: State>(entry: &Entry<S>) -> Vec<String> {
    match &entry.out {
        Some(Out::Exits(_)) => entry.exits.iter().map(|exit| (*exit).to_owned()).collect(),
        _ => Vec::new(),
    }
}

impl<S: State> Run<S> {
    /// Asks for each task of the open superstep that was left in its middle, and takes those for
    /// done that ran, as was answered.
    pub(super) async fn settle_begun(&mut self) -> Result<(), RunError> {
        self.ask_begun().await?;
        self.take_ran().await
    }

    async fn ask_begun(&mut self) -> Result<(), RunError> {
        if !self.shared.port.recall.any_begun() {
            return Ok(());
        }
        let left = self.left_open();
        let tables = self.shared.graph.tables();
        let mut fresh = Vec::new();
        let mut asked: Vec<Key> = Vec::new();
        for (place, task) in left {
            let Some(began_ms) = self.shared.port.recall.begun(task) else {
                continue;
            };
            let entry = tables.node(task.1);
            let question = Codec::MessagePack.encode(&MayHaveRun {
                node: entry.name.as_str().to_owned(),
                exits: exits(entry),
                began_ms,
            });
            // Each time it is another question: the answer to the last one is no answer to this.
            let key = match self.own(place).count() {
                0 => AFTER_CRASH.to_owned(),
                before => format!("{AFTER_CRASH}_{}", before + 1),
            };
            let codec = codec().expect("it is a question");
            let path = self.shared.path(task.0, task.1, task.2);
            asked.push(task);
            fresh.push(Asking {
                place,
                open: OpenQuestion {
                    id: QuestionId::new(path, key),
                    type_name: codec.question.to_owned(),
                    question: question.expect("it has only texts and a number"),
                    answer_shape: (codec.shape)(),
                    expires_ms: None,
                    seq: None,
                },
                default: None,
                answer: None,
                expired: false,
                inside: None,
            });
        }
        self.put_questions(fresh).await?;
        for task in asked {
            self.shared.port.recall.rest(task);
        }
        Ok(())
    }

    async fn take_ran(&mut self) -> Result<(), RunError> {
        if self.questions.is_empty() {
            return Ok(());
        }
        let tables = self.shared.graph.tables();
        let mut done = Vec::new();
        for (place, (step, node, _)) in self.left_open() {
            let last = self.own(place).last();
            let answer = last.and_then(|asking| asking.answer.as_deref());
            let Some(answer) = answer.and_then(|bytes| Codec::MessagePack.decode(bytes).ok())
            else {
                continue;
            };
            let entry = tables.node(node);
            match exit(&entry.name, &exits(entry), &answer) {
                Ok(None) => {}
                Ok(Some(exit)) => {
                    let outcome = Outcome {
                        update: S::update(),
                        ended: Ended::Exit(exit),
                    };
                    done.push((place, outcome, Vec::new()));
                }
                // The graph has changed since it was answered.
                Err(error) => return Err(self.broke(None, step, error).await),
            }
        }
        match done.is_empty() {
            true => Ok(()),
            false => self.take_outcomes(done).await,
        }
    }

    /// Has a task be asked about that began, and whose outcome is discarded.
    pub(super) fn doubt(&self, place: usize, task: Key, at_ms: u64) {
        let recall = &self.shared.port.recall;
        if recall.begun(task).is_some() || self.own(place).next().is_some() {
            recall.begin(task, at_ms);
        }
    }

    /// What the engine has asked of a task of this graph, in order.
    fn own(&self, place: usize) -> impl Iterator<Item = &Asking> {
        let asked = self.questions.0.iter();
        asked.filter(move |asking| {
            asking.place == place && asking.inside.is_none() && AfterCrash::answers(&asking.open.id)
        })
    }

    /// The tasks of the open superstep that have not ended and do not wait.
    fn left_open(&self) -> Vec<(usize, Key)> {
        let Stage::Open(superstep) = &self.stage else {
            return Vec::new();
        };
        let task = |place: usize| {
            let task = &superstep.tasks[place];
            (place, (superstep.step, task.node, task.index))
        };
        self.left(superstep).into_iter().map(task).collect()
    }
}
