//! What the tasks of an open superstep have done before, and what they ask of the driver to keep.
//!
//! In come recorded steps and timers of a log, and new ones of running tasks; out go the recorded
//! ones to tasks that are run again, and the new ones to the driver, which alone writes. A task that
//! is retried, answered, or taken up by another process does not do again what is kept here.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::inner::InnerWrite;
use crate::node::{KeptStep, NodeError, Standing};
use crate::store::{StepRecord, TimerRecord};

/// Which task of which superstep.
pub(crate) type Key = (u64, u32, u32);

/// The task that a context stands for.
pub(crate) fn key(at: &Standing) -> Key {
    (at.step.get(), at.node, at.index)
}

/// What a task asks of the driver.
#[derive(Debug)]
pub(crate) enum Request {
    /// To record the result of a step.
    Step(Key, KeptStep, oneshot::Sender<()>),
    /// To record when a task is to go on.
    Timer(Key, String, u64, oneshot::Sender<()>),
    /// To record that the body of an irreversible task begins.
    Begun(Key, u64, oneshot::Sender<()>),
    /// To record what the subgraph of a task has written.
    Inner(InnerWrite),
}

/// The steps, timers and answers of an open superstep.
#[derive(Debug, Default)]
pub(crate) struct Recall {
    tasks: Mutex<HashMap<Key, Known>>,
    /// Whether anything is kept: most supersteps keep nothing, and pay no lock.
    any: AtomicBool,
    /// Whether a task waits for a time that is too long to hold its process.
    any_parked: AtomicBool,
    /// Whether an irreversible task has begun.
    any_begun: AtomicBool,
}

#[derive(Debug, Default)]
struct Known {
    answers: HashMap<String, Arc<[u8]>>,
    steps: HashMap<String, KeptStep>,
    timers: HashMap<String, u64>,
    /// Until when the task is to be let go.
    parked: Option<u64>,
    /// Without a store: the run of the graph inside, which did not come to its end.
    left: Option<Box<dyn Any + Send>>,
    /// Since when it is in its middle, if it is irreversible.
    begun: Option<u64>,
    /// The keys that the current try has used, and which try that is.
    used: (u32, Vec<String>),
}

impl Recall {
    fn with<T>(&self, task: Key, body: impl FnOnce(&mut Known) -> T) -> T {
        self.any.store(true, Ordering::SeqCst);
        let mut all = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        body(all.entry(task).or_default())
    }

    pub(crate) fn answer(&self, task: Key, key: &str) -> Option<Arc<[u8]>> {
        let all = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&task)?.answers.get(key).cloned()
    }

    pub(crate) fn put_answer(&self, task: Key, key: &str, answer: Arc<[u8]>) {
        self.with(task, |known| known.answers.insert(key.to_owned(), answer));
    }

    pub(crate) fn put_step(&self, task: Key, step: KeptStep) {
        self.with(task, |known| known.steps.insert(step.key.clone(), step));
    }

    pub(crate) fn put_timer(&self, task: Key, key: &str, due_ms: u64) {
        self.with(task, |known| known.timers.insert(key.to_owned(), due_ms));
    }

    pub(crate) fn timer(&self, task: Key, key: &str) -> Option<u64> {
        self.with(task, |known| known.timers.get(key).copied())
    }

    /// A recorded step; marks its key as used by this try.
    ///
    /// # Errors
    /// Another step of the same try has the key.
    pub(crate) fn step(&self, at: &Standing, name: &str) -> Result<Option<KeptStep>, NodeError> {
        self.with(key(at), |known| {
            if known.used.0 != at.attempt {
                known.used = (at.attempt, Vec::new());
            }
            if known.used.1.iter().any(|used| used == name) {
                let what =
                    format!("two steps of one task have the key \"{name}\": give each its own");
                return Err(NodeError::invalid(what));
            }
            known.used.1.push(name.to_owned());
            Ok(known.steps.get(name).cloned())
        })
    }

    /// Asks for a task to be let go until a time.
    pub(crate) fn park(&self, task: Key, due_ms: u64) {
        self.with(task, |known| known.parked = Some(due_ms));
        self.any_parked.store(true, Ordering::SeqCst);
    }

    /// Until when a task is to be let go, if it has just asked for that.
    #[inline]
    pub(crate) fn take_parked(&self, task: Key) -> Option<u64> {
        match self.any_parked.load(Ordering::Relaxed) {
            true => self.with(task, |known| known.parked.take()),
            false => None,
        }
    }

    /// Says that an irreversible task is in its middle.
    pub(crate) fn begin(&self, task: Key, at_ms: u64) {
        self.with(task, |known| known.begun = Some(at_ms));
        self.any_begun.store(true, Ordering::SeqCst);
    }

    /// Says that it is not, and that this is known.
    pub(crate) fn rest(&self, task: Key) {
        if self.any_begun() {
            self.with(task, |known| known.begun = None);
        }
    }

    /// Since when an irreversible task is in its middle.
    pub(crate) fn begun(&self, task: Key) -> Option<u64> {
        match self.any_begun() {
            true => self.with(task, |known| known.begun),
            false => None,
        }
    }

    #[inline]
    pub(crate) fn any_begun(&self) -> bool {
        self.any_begun.load(Ordering::SeqCst)
    }

    /// Keeps the run of the graph that a task runs, where there is no store to keep it. Kept by what
    /// lies around it, so that it goes with that.
    pub(crate) fn leave(&self, task: Key, run: Box<dyn Any + Send>) {
        self.with(task, |known| known.left = Some(run));
    }

    /// Gives back the run of the graph that a task runs.
    pub(crate) fn take_left(&self, task: Key) -> Option<Box<dyn Any + Send>> {
        match self.any.load(Ordering::SeqCst) {
            true => self.with(task, |known| known.left.take()),
            false => None,
        }
    }

    /// Says that the tasks are run again, in the same process: each may use its keys anew.
    pub(crate) fn again(&self) {
        if self.any.load(Ordering::SeqCst) {
            let mut all = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            all.values_mut().for_each(|known| known.used.1.clear());
        }
    }

    /// Forgets everything: the superstep is closed.
    #[inline]
    pub(crate) fn clear(&self) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        self.any.store(false, Ordering::SeqCst);
        self.any_parked.store(false, Ordering::SeqCst);
        self.any_begun.store(false, Ordering::SeqCst);
        self.tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

/// The way from the tasks to the driver.
pub(crate) fn requests() -> (
    mpsc::UnboundedSender<Request>,
    mpsc::UnboundedReceiver<Request>,
) {
    mpsc::unbounded_channel()
}

/// A step as its record keeps it.
pub(crate) fn step_record(task: String, step: &KeptStep) -> StepRecord {
    StepRecord {
        task,
        key: step.key.clone(),
        type_name: step.type_name.to_string(),
        shape: step.shape.clone(),
        value: step.value.clone(),
    }
}

/// A timer as its record keeps it.
pub(crate) fn timer_record(task: String, key: &str, due_ms: u64) -> TimerRecord {
    TimerRecord {
        task,
        key: key.to_owned(),
        due_ms,
    }
}
