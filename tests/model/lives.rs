//! One call after the other on a thread, each with a door, options and an end of its own, until a
//! run has come to its end.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Waker, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::StreamExt;
use milepost::store::{CheckpointStore, StoreError};
use milepost::{
    Answers, Busy, Command, Durability, Ended, Event, OpenQuestion, Progress, Report, Run,
    RunError, RunId, RunOptions, Runner, Snapshot, ThreadId, questions,
};

use crate::book::{self, Book};
use crate::compiled;
use crate::interpreter::{InVain, join_name, node_name};
use crate::mortal::{Death, Mortal};
use crate::place::{Place, lasting};
use crate::plan::{Fails, Node};
use crate::tape::Tape;
use crate::world::{Query, World};

/// More calls than any run takes that gets anywhere.
const MANY: usize = 600;

/// When a call waits for its store. Cases that were kept before these have small numbers.
const MODES: [Durability; 4] = [
    Durability::Each,
    Durability::Background,
    Durability::AtEnd,
    Durability::Background,
];

/// A thread that is driven.
pub(crate) struct Lives<'c> {
    pub(crate) world: Arc<World>,
    pub(crate) tape: Tape<'c>,
    pub(crate) place: Place,
    pub(crate) thread: ThreadId,
    /// Who answers.
    pub(crate) salt: u64,
    /// What was heard, where everything was listened to.
    pub(crate) heard: Vec<Event>,
    /// Whether each call was a stream that was read to its end.
    pub(crate) heard_all: bool,
    pub(crate) store: Option<Arc<dyn CheckpointStore>>,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) enum End {
    Finished(Snapshot<Book>),
    InVain(InVain),
}

/// How a call ended.
enum Call {
    Ended(Box<Report<Book>>),
    Failed(RunError),
    /// It was dropped, or its store died.
    Killed,
}

/// A future that is dropped after so many turns.
struct Cut<F> {
    future: Option<Pin<Box<F>>>,
    turns: Option<usize>,
}

impl<F: Future> Future for Cut<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, waker: &mut Waker<'_>) -> Poll<Self::Output> {
        if let Some(turns) = &mut self.turns {
            if *turns == 0 {
                self.future = None;
                return Poll::Ready(None);
            }
            *turns -= 1;
        }
        let Some(future) = &mut self.future else {
            return Poll::Ready(None);
        };
        let polled = future.as_mut().poll(waker);
        if polled.is_pending() && self.turns == Some(0) {
            // Nothing else may wake it.
            waker.waker().wake_by_ref();
        }
        polled.map(Some)
    }
}

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis() as u64
}

async fn until(due_ms: u64) {
    while now_ms() < due_ms {
        std::thread::yield_now();
        tokio::task::yield_now().await;
    }
}

impl<'c> Lives<'c> {
    pub(crate) fn new(world: Arc<World>, tape: Tape<'c>, place: Place) -> Self {
        Self {
            store: place.open(),
            world,
            tape,
            place,
            thread: ThreadId::new("t").unwrap(),
            salt: 0,
            heard: Vec::new(),
            heard_all: true,
        }
    }

    /// A runner over the store itself.
    pub(crate) fn runner(&self) -> Runner<Book> {
        let runner = Runner::new(compiled::graph(&self.world).unwrap());
        match &self.store {
            Some(store) => runner.shared_store(Arc::clone(store)),
            None => runner,
        }
    }

    fn options(&mut self) -> RunOptions {
        let tape = &mut self.tape;
        let seed = tape.next();
        let mut options = RunOptions::new()
            .busy(Busy::Wait(Duration::from_secs(60)))
            .poison_limit(1_000)
            .shuffle(u64::from(seed))
            .durability(MODES[(seed / 1_000) as usize % MODES.len()])
            .base_every([64, 1, 2, 3][tape.below(4)])
            .park_after([Duration::from_secs(1), Duration::ZERO][tape.below(2)]);
        if let limit @ 1.. = tape.below(3) {
            options = options.concurrency(limit);
        }
        if tape.one_in(4) {
            options = options.step_limit(1 + tape.below(3) as u64);
        }
        if tape.one_in(5) {
            let node = node_name(tape.below(self.world.plan.nodes.len()));
            options = match tape.below(2) {
                0 => options.pause_before([node]),
                _ => options.pause_after([node]),
            };
        }
        options
    }

    /// Runs an input to its end.
    pub(crate) async fn input(
        &mut self,
        value: u64,
        run: &str,
        abandon: bool,
    ) -> Result<End, String> {
        let id = RunId::new(run).unwrap();
        let start = || {
            let start = Command::start(book::input(value).update()).run_id(id.clone());
            if abandon { start.abandon() } else { start }
        };
        self.until_the_end(&start, Some(&id)).await
    }

    /// Goes on where the thread stands.
    pub(crate) async fn go_on(&mut self) -> Result<End, String> {
        self.until_the_end(&Command::go_on, None).await
    }

    async fn until_the_end(
        &mut self,
        start: &dyn Fn() -> Command<Book>,
        id: Option<&RunId>,
    ) -> Result<End, String> {
        let mut begins = true;
        let mut answers: Option<Answers> = None;
        for _ in 0..MANY {
            let command = match &answers {
                Some(answers) => Command::answer(answers.clone()),
                None if begins => start(),
                None => Command::go_on(),
            };
            let was_start = begins && answers.is_none();
            let call = self.call(command).await;
            let told = answers.take();
            match call {
                Call::Killed => {
                    // Whoever called does not know what has become of it, and repeats it, or goes
                    // on with what there is.
                    match told {
                        Some(told) if self.tape.one_in(2) => answers = Some(told),
                        _ => begins = begins && !self.tape.one_in(3),
                    }
                }
                Call::Failed(RunError::NotFound { .. }) if !begins => begins = true,
                Call::Failed(RunError::Node { error, .. })
                    if error.to_string().contains("not in this call") && self.has_stuck() =>
                {
                    begins = false;
                }
                // That of the run before, because this one was not accepted yet.
                Call::Failed(RunError::UnsatisfiedJoin { .. })
                    if !was_start && !self.stands_at(id).await =>
                {
                    begins = true;
                }
                Call::Failed(RunError::UnsatisfiedJoin { join, others, .. }) => {
                    let names: Vec<_> = std::iter::once(&join)
                        .chain(&others)
                        .map(ToString::to_string)
                        .collect();
                    let all = 0..self.world.plan.joins.len();
                    let in_vain: Vec<usize> = all
                        .filter(|join| names.contains(&join_name(*join)))
                        .collect();
                    return match in_vain.len() == names.len() {
                        true => Ok(End::InVain(in_vain)),
                        false => Err(format!("unknown joins: {names:?}")),
                    };
                }
                Call::Failed(error) => return Err(format!("it fails: {error}")),
                Call::Ended(report) if id.is_some_and(|id| *id != report.run) => begins = true,
                Call::Ended(report) => {
                    begins = false;
                    match report.ended {
                        Ended::Finished => return Ok(End::Finished(report.state)),
                        Ended::Paused { questions: 0 }
                        | Ended::StepLimit { .. }
                        | Ended::Cancelled => {}
                        Ended::Paused { questions } => {
                            if questions != report.questions.len() {
                                return Err(format!("{questions} open: {:?}", report.questions));
                            }
                            self.are_listed(&report.questions).await?;
                            self.bad_calls(&report.questions).await?;
                            answers = self.answers(&report.questions);
                        }
                        Ended::Parked { due_ms } => until(due_ms).await,
                        other => return Err(format!("it ends: {other}")),
                    }
                }
            }
        }
        Err("it gets nowhere".to_owned())
    }

    /// Whether a run is the last that was accepted.
    async fn stands_at(&self, id: Option<&RunId>) -> bool {
        match (&self.store, id) {
            (Some(store), Some(id)) => {
                let head = store.head(&self.thread).await.unwrap();
                head.is_some_and(|head| head.run == id.as_str())
            }
            _ => true,
        }
    }

    fn has_stuck(&self) -> bool {
        let is_stuck = |node: &Node| matches!(node.does.fails, Fails::Calls(_));
        let mut nodes = self.world.plan.nodes.iter();
        nodes.any(|node| {
            let inner = node.inner.iter().flat_map(|inner| &inner.nodes);
            std::iter::once(node).chain(inner).any(is_stuck)
        })
    }

    /// One call, which may be cut anywhere.
    async fn call(&mut self, command: Command<Book>) -> Call {
        let Some(store) = self.store.take() else {
            return self.without_store(command).await;
        };
        let options = self.options();
        let end = self.tape.below(6);
        let at = 1 + match self.tape.below(2) {
            0 => self.tape.below(6),
            _ => self.tape.below(40),
        };
        let (turns, death) = match end {
            3 => (Some(at), Death::Never),
            4 => (None, Death::Before(at as u32)),
            5 => (None, Death::After(at as u32)),
            _ => (None, Death::Never),
        };
        // A new process opens its store anew, unless a dropped stream is still at work.
        let store = match (&self.place, Arc::strong_count(&store)) {
            (Place::Sled(_), 1) if self.tape.one_in(2) => {
                drop(store);
                self.place.open().unwrap()
            }
            _ => store,
        };
        let runner = Runner::new(compiled::graph(&self.world).unwrap())
            .options(options)
            .store(Mortal::new(Arc::clone(&store), &self.world, death));
        self.store = Some(store);
        let door = self.tape.below(3);
        let thread = self.thread.clone();
        let mut heard = Vec::new();
        let drive = async {
            match door {
                0 => {
                    let mut stream = runner.stream(&thread, command);
                    while let Some(event) = stream.next().await {
                        heard.push(event);
                    }
                    stream.report().await
                }
                1 => runner.run(&thread, command).await,
                _ => {
                    let mut run = runner.open(&thread, command).await?;
                    while !matches!(run.step().await?, Progress::Ended(_)) {}
                    run.finish().await
                }
            }
        };
        let ended = Cut {
            future: Some(Box::pin(drive)),
            turns,
        }
        .await;
        self.heard_all &= door == 0 && ended.is_some();
        self.heard.extend(lasting(&heard));
        match ended {
            None => Call::Killed,
            Some(Ok(report)) => Call::Ended(Box::new(report)),
            Some(Err(RunError::Store(StoreError::Io { .. }))) if death != Death::Never => {
                self.heard_all = false;
                Call::Killed
            }
            Some(Err(error)) => Call::Failed(error),
        }
    }

    /// A run without a store lives in its handle, which is what is called again and again.
    async fn without_store(&mut self, command: Command<Book>) -> Call {
        let mut options = self.options();
        options.step_limit = 1_000;
        let runner = Runner::new(compiled::graph(&self.world).unwrap()).options(options);
        let mut run = match runner.open(&self.thread, command).await {
            Ok(run) => run,
            Err(error) => return Call::Failed(error),
        };
        for _ in 0..MANY {
            match self.handled(&mut run).await {
                Ok(Some(report)) if !report.ended.is_finished() => {
                    if let Some(answers) = self.answers(&report.questions)
                        && let Err(error) = run.answer(answers).await
                    {
                        return Call::Failed(error);
                    }
                }
                Ok(Some(report)) => return Call::Ended(Box::new(report)),
                Ok(None) => {}
                Err(RunError::Node { error, .. })
                    if error.to_string().contains("not in this call") => {}
                Err(error) => return Call::Failed(error),
            }
        }
        Call::Failed(RunError::Over {
            thread: self.thread.clone(),
        })
    }

    async fn handled(&mut self, run: &mut Run<Book>) -> Result<Option<Report<Book>>, RunError> {
        if self.tape.one_in(2) && matches!(run.step().await?, Progress::Committed(_)) {
            return Ok(None);
        }
        run.finish().await.map(Some)
    }

    /// What waits is also what the store says that waits.
    async fn are_listed(&self, open: &[OpenQuestion]) -> Result<(), String> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        for question in open {
            let query = question
                .read::<Query>()
                .map_err(|error| error.to_string())?;
            if node_name(query.node) != question.id.task().task().node.as_str() {
                return Err(format!("{} asks {query:?}", question.id));
            }
        }
        let listed = questions(&**store, &self.thread).await;
        let listed = listed.map_err(|error| error.to_string())?;
        match listed == open {
            true => Ok(()),
            false => Err(format!("open: {open:?}, listed: {listed:?}")),
        }
    }

    /// Answers to some of what waits, in some order; none where all of it has a default.
    fn answers(&mut self, open: &[OpenQuestion]) -> Option<Answers> {
        let mut open: Vec<_> = open.iter().filter(|open| !is_over(open)).collect();
        if open.is_empty() || (self.store.is_some() && self.tape.one_in(12)) {
            return None;
        }
        if self.tape.one_in(2) {
            for place in 0..open.len() {
                let other = place + self.tape.below(open.len() - place);
                open.swap(place, other);
            }
            let left = 1 + self.tape.below(open.len());
            open.truncate(left);
        }
        let answer = |question: &OpenQuestion| {
            let id = question.id.clone();
            (id, book::answer(self.salt, &question.id.to_string()))
        };
        let (id, first) = answer(open[0]);
        let answers = open[1..].iter().map(|question| answer(question));
        let all = answers.fold(Answers::to(id, &first), |all, (id, answer)| {
            all.and(id, &answer)
        });
        Some(all)
    }

    /// Calls that are refused, and change nothing.
    async fn bad_calls(&mut self, open: &[OpenQuestion]) -> Result<(), String> {
        // One whose time is over is answered by whoever calls.
        if !self.tape.one_in(6) || self.store.is_none() || open.iter().any(is_over) {
            return Ok(());
        }
        self.heard_all = false;
        let runner = self
            .runner()
            .options(RunOptions::new().busy(Busy::Wait(Duration::from_secs(60))));
        let first = open[0].id.clone();
        let wrong = Command::answer(Answers::to(first.clone(), "text"));
        let refused = runner.run(&self.thread, wrong).await;
        if !matches!(refused, Err(RunError::WrongAnswer { .. })) {
            return Err(format!("a text for a number gives {refused:?}"));
        }
        let new = Command::start(Book::update());
        let refused = runner.run(&self.thread, new).await;
        if !matches!(refused, Err(RunError::PendingInterrupt { .. })) {
            return Err(format!("an input beside a question gives {refused:?}"));
        }
        if open.len() > 1 {
            let bare = Command::answer(Answers::only(&1_u64));
            let refused = runner.run(&self.thread, bare).await;
            if !matches!(refused, Err(RunError::AmbiguousAnswer { .. })) {
                return Err(format!("a bare answer to several gives {refused:?}"));
            }
        }
        self.are_listed(open).await
    }
}

/// Whether the time of a question is over, or nearly.
fn is_over(question: &OpenQuestion) -> bool {
    question.expires_ms.is_some_and(|ms| ms < now_ms() + 60_000)
}
