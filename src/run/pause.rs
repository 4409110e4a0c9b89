//! A pause, which is a crash on purpose: what is asked is recorded, what is answered is checked and
//! recorded, and the superstep stays open.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::ask::{Asking, OpenQuestion};
use super::begun;
use super::close::Failed;
use super::command::Given;
use super::handle::{Progress, Run, Stage};
use super::load::Memory;
use super::recall::{self, Key, Request};
use super::{Ended, RunError};
use crate::event::EventKind;
use crate::ids::{QuestionId, Seq, TaskPath};
use crate::node::{AfterCrash, Asked, ErrorClass, NodeError};
use crate::policy::{Attempt, now_ms};
use crate::state::State;
use crate::store::{AnswerRecord, BegunRecord, QuestionRecord, Record, Status, Stored};

/// The most bytes that a question's key may have.
const KEY_BYTES: usize = 256;

/// What a task asks: its place, its questions, its tries.
pub(super) type Asks = (usize, Vec<Asked>, Vec<Attempt>);

impl<S: State> Run<S> {
    /// Records what tasks ask. A task that cannot ask what it asks has failed.
    pub(super) async fn ask(
        &mut self,
        asks: Vec<Asks>,
        failed: &mut Vec<Failed>,
    ) -> Result<(), RunError> {
        let mut fresh = Vec::new();
        let mut refused = Vec::new();
        for (place, asked, attempts) in asks {
            let path = self.path_of(place);
            match self.asking(place, &path, asked) {
                Ok(asking) => {
                    // It has ended, by asking.
                    if let Some(task) = self.task_at(place) {
                        self.shared.port.recall.rest(task);
                    }
                    fresh.extend(asking);
                }
                Err(why) => refused.push((path, NodeError::invalid(why), attempts)),
            }
        }
        failed.extend(self.catch(refused).await?);
        self.put_questions(fresh).await
    }

    /// Records questions, and tells of them.
    pub(super) async fn put_questions(&mut self, mut fresh: Vec<Asking>) -> Result<(), RunError> {
        if fresh.is_empty() {
            return Ok(());
        }
        if let Some(log) = &mut self.log {
            self.over = true;
            let first = log.questions(fresh.iter().map(record).collect()).await?;
            self.over = false;
            for (asking, seq) in fresh.iter_mut().zip(first.get()..) {
                asking.open.seq = Some(Seq::new(seq));
            }
        }
        for asking in &fresh {
            self.shared
                .port
                .report(asking.open.seq, || asked(&asking.open));
        }
        self.questions.0.extend(fresh);
        Ok(())
    }

    /// What a task asks, as it is kept; or why it cannot be asked.
    fn asking(
        &self,
        place: usize,
        path: &TaskPath,
        asked: Vec<Asked>,
    ) -> Result<Vec<Asking>, String> {
        if asked.is_empty() {
            return Err("it was left to ask, and asks nothing".to_owned());
        }
        let Stage::Open(superstep) = &self.stage else {
            unreachable!("the superstep is open")
        };
        let node = self.shared.graph.tables().node(superstep.tasks[place].node);
        let Some(codec) = &node.asks else {
            return Err("it asks, and its type says that it asks nothing".to_owned());
        };
        let now = now_ms();
        let mut all: Vec<Asking> = Vec::with_capacity(asked.len());
        for Asked {
            key,
            question,
            expires,
            default,
        } in asked
        {
            if key.is_empty() || key.len() > KEY_BYTES {
                let found = key.len();
                return Err(format!(
                    "a question's key has 1 to {KEY_BYTES} bytes, not {found}"
                ));
            }
            if AfterCrash::reserves(&key) {
                return Err(format!(
                    "the key \"{key}\" begins with @, as those of the engine's own questions do: \
                     give the question another one"
                ));
            }
            let id = QuestionId::new(path.clone(), key);
            if self.questions.find(&id).is_some() {
                return Err(format!(
                    "it asks \"{}\" again, which is answered: read it with `cx.answer`, or ask \
                     under another key",
                    id.key()
                ));
            }
            if all.iter().any(|other| other.open.id == id) {
                return Err(format!(
                    "it asks two questions under the key \"{}\"",
                    id.key()
                ));
            }
            let expires = expires.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
            all.push(Asking {
                place,
                open: OpenQuestion {
                    id,
                    type_name: codec.question.to_owned(),
                    question,
                    answer_shape: (codec.shape)(),
                    expires_ms: expires.map(|time| now.saturating_add(time)),
                    seq: None,
                },
                default,
                answer: None,
                expired: false,
                inside: None,
            });
        }
        Ok(all)
    }

    fn path_of(&self, place: usize) -> TaskPath {
        let Stage::Open(superstep) = &self.stage else {
            unreachable!("the superstep is open")
        };
        let task = &superstep.tasks[place];
        self.shared.path(superstep.step, task.node, task.index)
    }

    /// Records what a running task asks for, and what others ask for by then.
    pub(super) async fn serve(&mut self, request: Request) -> Result<(), RunError> {
        let mut requests = vec![request];
        if let Some(waiting) = &mut self.requests {
            while let Ok(request) = waiting.try_recv() {
                requests.push(request);
            }
        }
        let path = |(step, node, index): Key| self.shared.path(step, node, index);
        let mut records = Vec::with_capacity(requests.len());
        for request in &mut requests {
            match request {
                Request::Step(task, step, _) => {
                    let step = recall::step_record(path(*task).to_string(), step);
                    records.push(Record::Step(step));
                }
                Request::Timer(task, key, due_ms, _) => {
                    let timer = recall::timer_record(path(*task).to_string(), key, *due_ms);
                    records.push(Record::Timer(timer));
                }
                Request::Begun(task, at_ms, _) => {
                    let (task, at_ms) = (path(*task).to_string(), *at_ms);
                    records.push(Record::Begun(BegunRecord { task, at_ms }));
                }
                Request::Inner(write) => {
                    records.extend(write.records.drain(..).map(Record::Inner));
                }
            }
        }
        let mut seq = None;
        if let Some(log) = &mut self.log {
            self.over = true;
            seq = Some(log.noted(records).await?.get());
            self.over = false;
        }
        let mut number = 0;
        for request in requests {
            let seq = seq.map(|seq| Seq::new(seq + number));
            number += match &request {
                Request::Inner(write) => write.stored.len() as u64,
                _ => 1,
            };
            let done = match request {
                Request::Inner(write) => {
                    self.written_inside(&write, seq.unwrap_or_default());
                    write.done
                }
                Request::Step(task, step, done) => {
                    self.shared.port.report(seq, || EventKind::StepFinished {
                        task: self.shared.path(task.0, task.1, task.2),
                        key: step.key,
                    });
                    done
                }
                Request::Timer(task, key, due_ms, done) => {
                    self.shared.port.report(seq, || EventKind::TimerSet {
                        task: self.shared.path(task.0, task.1, task.2),
                        key,
                        due_ms,
                    });
                    done
                }
                Request::Begun(task, at_ms, done) => {
                    self.shared.port.report(seq, || EventKind::Begun {
                        task: self.shared.path(task.0, task.1, task.2),
                        at_ms,
                    });
                    done
                }
            };
            // A task that was cut meanwhile does not wait for it any more.
            let _ = done.send(());
        }
        if let Some(log) = &self.log {
            log.told();
        }
        Ok(())
    }

    /// Whether the task at a place waits for an answer, or for a time to come.
    pub(super) fn waits(&self, place: usize) -> bool {
        self.questions.waits(place) || self.parked.iter().any(|(parked, _)| *parked == place)
    }

    /// How many tasks of the open superstep wait.
    pub(super) fn waiting(&self) -> usize {
        if self.questions.is_empty() && self.parked.is_empty() {
            return 0;
        }
        let Stage::Open(superstep) = &self.stage else {
            return 0;
        };
        (0..superstep.tasks.len())
            .filter(|place| self.waits(*place))
            .count()
    }

    /// Ends the call because tasks wait for answers, or for a time.
    pub(super) async fn paused(&mut self) -> Result<Progress, RunError> {
        self.ended(self.rests(), Vec::new()).await
    }

    /// How a call ends of which nothing can run now.
    fn rests(&self) -> Ended {
        let due = self.parked.iter().map(|(_, due_ms)| *due_ms).min();
        match (self.questions.open().len(), due) {
            (0, Some(due_ms)) => Ended::Parked { due_ms },
            (questions, _) => Ended::Paused { questions },
        }
    }

    /// How the call ends before anything of the open superstep runs: nothing of it can, or the time
    /// of a question is over.
    pub(super) async fn waits_or_expired(&mut self) -> Option<Result<Progress, RunError>> {
        let now = now_ms();
        let due = self.parked.iter().filter(|(_, due_ms)| *due_ms <= now);
        for place in due.map(|(place, _)| *place).collect::<Vec<_>>() {
            self.wake(place);
        }
        if let Err(error) = self.expire().await {
            return Some(Err(error));
        }
        let expired = self.questions.0.iter().filter(|asking| asking.expired);
        let mut failed: Vec<Failed> = Vec::new();
        for asking in expired {
            let path = asking.open.id.task();
            if failed.iter().any(|(known, ..)| known == path) {
                continue;
            }
            let why = format!(
                "its question \"{}\" was not answered in time",
                asking.open.id.key()
            );
            let error = NodeError::new(ErrorClass::Expired, why);
            failed.push((path.clone(), error, Vec::new()));
        }
        match self.catch(failed).await {
            Ok(failed) if failed.is_empty() => {
                // What is left of them here was caught.
                self.questions.0.retain(|asking| !asking.expired);
            }
            Ok(failed) => return Some(self.failed(failed).await),
            Err(error) => return Some(Err(error)),
        }
        if !self.only_waits() {
            self.let_go_inside();
            return None;
        }
        let status = self
            .log
            .as_ref()
            .and_then(|log| log.head())
            .map(|head| head.status);
        if matches!(status, Some(Status::Paused | Status::Parked)) {
            return Some(Ok(Progress::Ended(self.rests())));
        }
        Some(self.paused().await)
    }

    /// Whether nothing can run before a question is answered.
    pub(super) fn only_waits(&self) -> bool {
        let (tasks, recorded) = match &self.stage {
            Stage::At(position) => (position.frontier.len(), &position.recorded),
            Stage::Open(superstep) => (superstep.tasks.len(), &superstep.recorded),
            Stage::Merged(_) | Stage::Between => return false,
        };
        let done = |place| recorded.iter().any(|(done, _)| *done == place);
        (0..tasks).any(|place| self.waits(place))
            && (0..tasks).all(|place| done(place) || self.waits(place))
    }

    /// Answers questions for which the time is over: by their default, or never.
    pub(super) async fn expire(&mut self) -> Result<(), RunError> {
        let now = now_ms();
        let mut defaults = Vec::new();
        let mut inside = Vec::new();
        for asking in &mut self.questions.0 {
            let over = asking.open.expires_ms.is_some_and(|expires| expires <= now);
            match &asking.default {
                _ if !over || asking.answer.is_some() => {}
                // It is for the graph inside to say what comes of that.
                _ if asking.inside.is_some() => inside.push(asking.place),
                Some(answer) => defaults.push((asking.open.id.clone(), answer.clone())),
                None => asking.expired = true,
            }
        }
        let is_over = |asking: &Asking| {
            asking.inside.is_some() && asking.open.expires_ms.is_some_and(|expires| expires <= now)
        };
        self.questions.0.retain(|asking| !is_over(asking));
        inside.into_iter().for_each(|place| self.wake(place));
        self.take(defaults).await
    }

    /// Tasks that run a graph and do not wait any more are run again, and say anew what they wait for.
    fn let_go_inside(&mut self) {
        let inside = self
            .questions
            .0
            .iter()
            .filter(|asking| asking.inside.is_some());
        let mut places: Vec<_> = inside.map(|asking| asking.place).collect();
        places.dedup();
        for place in places {
            if !self.waits(place) {
                self.wake(place);
            }
        }
    }

    /// Answers questions of the run: those that wait, each with a value of its own type. The next
    /// step, or the next call, runs the tasks whose questions are all answered.
    ///
    /// # Errors
    /// [`RunError::NoQuestion`], [`RunError::AmbiguousAnswer`], [`RunError::WrongAnswer`],
    /// [`RunError::AlreadyAnswered`]; then none of them is accepted. A repeated answer is accepted
    /// again.
    pub async fn answer(&mut self, answers: super::Answers) -> Result<(), RunError> {
        let mut taken: Vec<(QuestionId, Vec<u8>)> = Vec::new();
        for given in answers.given {
            let id = self.addressed(&given)?;
            let bytes = self.checked(&id, given)?;
            let before = taken.iter().find(|(known, _)| *known == id);
            let before = before.map(|(_, bytes)| bytes.as_slice()).or_else(|| {
                let asking = self.questions.find(&id);
                asking.and_then(|asking| asking.answer.as_deref())
            });
            match before {
                None => taken.push((id, bytes)),
                Some(same) if same == bytes => {}
                Some(_) => {
                    let thread = self.thread().clone();
                    return Err(RunError::AlreadyAnswered { thread, id });
                }
            }
        }
        self.take(taken).await
    }

    /// Which question an answer is for.
    fn addressed(&self, given: &Given) -> Result<QuestionId, RunError> {
        let thread = self.thread().clone();
        let unanswered = self
            .questions
            .0
            .iter()
            .filter(|asking| asking.answer.is_none());
        let open: Vec<_> = unanswered.map(|asking| asking.open.id.clone()).collect();
        match (&given.id, open.as_slice()) {
            (Some(id), _) if self.questions.find(id).is_some() => Ok(id.clone()),
            (None, [only]) => Ok(only.clone()),
            (None, [_, ..]) => Err(RunError::AmbiguousAnswer { thread, open }),
            (id, _) => {
                let id = id.clone();
                Err(RunError::NoQuestion { thread, id, open })
            }
        }
    }

    /// The bytes of an answer, if they are one.
    fn checked(&self, id: &QuestionId, given: Given) -> Result<Vec<u8>, RunError> {
        let asking = self.questions.find(id);
        let node = asking.map(|asking| match &self.stage {
            Stage::Open(superstep) => superstep.tasks[asking.place].node,
            Stage::At(position) => position.frontier[asking.place].node,
            Stage::Merged(_) | Stage::Between => unreachable!("a question has an open superstep"),
        });
        let tables = self.shared.graph.tables();
        let codec = match asking {
            _ if AfterCrash::answers(id) => begun::codec(),
            Some(asking) if asking.inside.is_some() => tables.asks(id.task().levels()),
            _ => node.and_then(|node| tables.node(node).asks),
        };
        let expected = match &codec {
            Some(codec) => format!("{} ({})", codec.answer, (codec.shape)()),
            None => "nothing: the node does not ask any more".to_owned(),
        };
        let checked = given.answer.and_then(|bytes| match &codec {
            Some(codec) => codec.check(&bytes).map(|()| bytes),
            None => Ok(bytes),
        });
        let checked = checked.map_err(|error| RunError::WrongAnswer {
            thread: self.thread().clone(),
            id: id.clone(),
            expected,
            error: Box::new(error),
        })?;
        if AfterCrash::answers(id)
            && let Some(asking) = asking
        {
            begun::check(asking, &checked)?;
        }
        Ok(checked)
    }

    /// Records answers, and lets the tasks read them.
    async fn take(&mut self, answers: Vec<(QuestionId, Vec<u8>)>) -> Result<(), RunError> {
        if answers.is_empty() {
            return Ok(());
        }
        let at_ms = now_ms();
        let mut first = None;
        let mut inside: Vec<(TaskPath, u64, Stored)> = Vec::new();
        if let Some(log) = &mut self.log {
            let mut records = Vec::with_capacity(answers.len());
            for (id, value) in &answers {
                let asking = self.questions.find(id);
                let within = asking.and_then(|asking| asking.inside.clone());
                let question = match (&within, asking) {
                    (Some(inside), _) => inside.seq,
                    (None, asking) => asking
                        .and_then(|asking| asking.open.seq)
                        .unwrap_or_default()
                        .get(),
                };
                let answer = Record::Answer(AnswerRecord {
                    question,
                    value: value.clone(),
                    at_ms,
                });
                records.push(match within {
                    None => answer,
                    Some(within) => {
                        let port = &self.shared.port;
                        let before = inside.iter().filter(|(path, ..)| *path == within.log);
                        let before = before.count() as u64;
                        let (stored, inner) = port
                            .inners
                            .answer(&within.log, port.epoch, answer, before)
                            .map_err(|why| {
                                let place = format!("an answer to {id}");
                                RunError::Store(why.at(place, "Give a shorter answer"))
                            })?;
                        inside.push((within.log, records.len() as u64, stored));
                        Record::Inner(inner)
                    }
                });
            }
            self.over = true;
            first = Some(log.answers(records).await?.get());
            self.over = false;
        }
        for (path, number, stored) in &inside {
            let at = Seq::new(first.unwrap_or_default() + number);
            self.shared.port.inners.written(path, at, stored);
        }
        for (number, (id, answer)) in answers.into_iter().enumerate() {
            let seq = first.map(|first| Seq::new(first + number as u64));
            let port = &self.shared.port;
            let told = || EventKind::Answered {
                id: id.clone(),
                answer: answer.clone(),
            };
            let asking = self.questions.find(&id);
            match asking.and_then(|asking| asking.inside.as_ref()) {
                Some(inside) => port.report_inside(&inside.log, seq, told),
                None => port.report(seq, told),
            }
            if let Some(asking) = self.questions.find_mut(&id) {
                let answer: Arc<[u8]> = answer.into();
                if asking.inside.is_some() && self.log.is_none() {
                    let inners = &self.shared.port.inners;
                    inners.put_answer(id, Arc::clone(&answer));
                }
                asking.answer = Some(answer);
                asking.expired = false;
                let place = asking.place;
                if asking.inside.is_some() && !self.questions.waits(place) {
                    self.parked.retain(|(parked, _)| *parked != place);
                }
            }
        }
        self.share_answers();
        Ok(())
    }

    /// Puts the answers where the tasks read them.
    pub(super) fn share_answers(&self) {
        let own = |asking: &&Asking| asking.inside.is_none();
        for asking in self.questions.0.iter().filter(own) {
            if let (Some(answer), Some(task)) = (&asking.answer, self.task_at(asking.place)) {
                let key = begun::known_as(&asking.open.id);
                self.shared
                    .port
                    .recall
                    .put_answer(task, key, Arc::clone(answer));
            }
        }
    }

    /// Which task of the open superstep has a place.
    fn task_at(&self, place: usize) -> Option<Key> {
        let (step, tasks) = match &self.stage {
            Stage::At(position) => (position.step + 1, &position.frontier),
            Stage::Open(superstep) => (superstep.step, &superstep.tasks),
            Stage::Merged(_) | Stage::Between => return None,
        };
        tasks.get(place).map(|task| (step, task.node, task.index))
    }

    /// Lets the tasks of an open superstep find what was recorded of them. Those that wait for a
    /// time that is not over are not run.
    pub(super) fn remember(&mut self, memory: Memory) {
        self.share_answers();
        let now = now_ms();
        for (place, step) in memory.steps {
            if let Some(task) = self.task_at(place) {
                self.shared.port.recall.put_step(task, step);
            }
        }
        for (place, since) in memory.begun {
            let recall = &self.shared.port.recall;
            match (self.task_at(place), since) {
                (Some(task), Some(at_ms)) => recall.begin(task, at_ms),
                (Some(task), None) => recall.rest(task),
                (None, _) => {}
            }
        }
        for (place, key, due_ms) in memory.timers {
            if let Some(task) = self.task_at(place) {
                self.shared.port.recall.put_timer(task, &key, due_ms);
            }
            // One that has ended has waited enough.
            let ended = self.recorded.iter().any(|(ended, _)| *ended == place);
            if due_ms > now && !ended {
                self.parked.push((place, due_ms));
            }
        }
    }
}

/// The next request of a running task; never, where nothing is recorded.
pub(super) async fn asked_for(requests: &mut Option<mpsc::UnboundedReceiver<Request>>) -> Request {
    let request = match requests {
        Some(requests) => requests.recv().await,
        None => None,
    };
    match request {
        Some(request) => request,
        None => std::future::pending().await,
    }
}

fn record(asking: &Asking) -> QuestionRecord {
    let open = &asking.open;
    QuestionRecord {
        task: open.id.task().to_string(),
        key: open.id.key().to_owned(),
        type_name: open.type_name.clone(),
        answer: open.answer_shape.clone(),
        value: open.question.clone(),
        expires_ms: open.expires_ms,
        default: asking.default.clone(),
    }
}

/// The event of a question.
fn asked(open: &OpenQuestion) -> EventKind {
    EventKind::Asked {
        id: open.id.clone(),
        type_name: open.type_name.clone(),
        question: open.question.clone(),
        expires_ms: open.expires_ms,
    }
}
