//! What a node knows of the run it is in.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{AFTER_CRASH, AfterCrash, Ask, ErrorClass, NodeError, Pulse, RunContext};
use crate::event::{Event, EventKind};
use crate::ids::{Branch, Epoch, NodeName, RunId, Step, TaskPath, ThreadId};
use crate::state::{Codec, shape_of};

/// What a node knows of its run, and how it speaks to it. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    port: Arc<dyn Port>,
    step: Step,
    node: u32,
    index: u32,
    attempt: u32,
    remaining: u64,
    /// Where its signs of life are noted, if anybody looks.
    pulse: Option<Arc<Pulse>>,
}

/// What the driver lends to the contexts of its tasks.
pub(crate) trait Port: Any + Send + Sync {
    fn thread(&self) -> &ThreadId;
    fn run(&self) -> &RunId;
    fn branch(&self) -> Branch;
    fn epoch(&self) -> Epoch;
    fn name(&self, node: u32) -> &NodeName;
    /// The task that runs this graph; none for the outermost one.
    fn within(&self) -> Option<&TaskPath>;
    fn emit(&self, event: Event) -> BoxFuture<'_, ()>;
    fn listening(&self) -> bool;
    /// The answer to a question that a task has asked.
    fn answer(&self, at: &Standing, key: &str) -> Option<Arc<[u8]>>;
    /// A step that is recorded; an error if this try has used the key before.
    fn recall(&self, at: &Standing, key: &str) -> Result<Option<KeptStep>, NodeError>;
    /// Records a step; done when it is durable.
    fn keep(&self, at: &Standing, step: KeptStep) -> BoxFuture<'_, Result<(), NodeError>>;
    /// Waits until a time, which is recorded first. May never be done: then the task is let go.
    fn sleep(&self, at: &Standing, key: &str, until: Wake) -> BoxFuture<'_, Result<(), NodeError>>;
    /// What the caller gave for this call.
    fn given(&self) -> &RunContext;
    fn is_cancelled(&self) -> bool;
    fn cancelled(&self) -> BoxFuture<'_, ()>;
}

/// The result of a step, without its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptStep {
    pub(crate) key: String,
    pub(crate) type_name: Arc<str>,
    pub(crate) shape: String,
    /// The result, as MessagePack with names.
    pub(crate) value: Vec<u8>,
}

/// When a task is to go on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wake {
    /// After a time from now.
    After(Duration),
    /// At a moment.
    At(SystemTime),
}

/// Where a context stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) step: Step,
    pub(crate) node: u32,
    pub(crate) index: u32,
    pub(crate) attempt: u32,
    pub(crate) remaining: u64,
}

impl Context {
    #[inline]
    pub(crate) fn new(port: Arc<dyn Port>, at: Standing) -> Self {
        Self {
            port,
            step: at.step,
            node: at.node,
            index: at.index,
            attempt: at.attempt,
            remaining: at.remaining,
            pulse: None,
        }
    }

    /// The same, with its signs of life noted, if anybody looks.
    #[inline]
    pub(crate) fn watched(mut self, pulse: Option<Arc<Pulse>>) -> Self {
        self.pulse = pulse;
        self
    }

    pub(crate) fn pulse(&self) -> Option<Arc<Pulse>> {
        self.pulse.clone()
    }

    /// A context outside of any run, for the test of one node.
    pub fn detached(node: NodeName) -> Self {
        Self::detached_with(node, RunContext::new())
    }

    /// A context outside of any run, with what a caller would give.
    pub fn detached_with(node: NodeName, given: RunContext) -> Self {
        let port = Detached {
            thread: ThreadId::random(),
            run: RunId::random(),
            node,
            given,
        };
        let at = Standing {
            step: Step::new(1),
            node: 0,
            index: 0,
            attempt: 1,
            remaining: 1,
        };
        Self::new(Arc::new(port), at)
    }

    /// The thread.
    pub fn thread(&self) -> &ThreadId {
        self.port.thread()
    }

    /// The run: one input, kept over all resumes.
    pub fn run(&self) -> &RunId {
        self.port.run()
    }

    /// The superstep, counted over the thread's life: 1, 2, 3; a resume counts on.
    pub fn superstep(&self) -> Step {
        self.step
    }

    /// The name of this node.
    pub fn node(&self) -> &NodeName {
        self.port.name(self.node)
    }

    /// The place among the tasks of this node in this superstep; 0 for all but workers.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// How often this task was tried in this call, this time included; the first is 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// How many supersteps this call may still execute, this one included.
    pub fn remaining_steps(&self) -> u64 {
        self.remaining
    }

    /// The task's path, from the outermost graph in.
    pub fn task(&self) -> TaskPath {
        let task = TaskPath::new(self.step, self.node().clone(), self.index);
        match self.port.within() {
            Some(outer) => task.within(outer),
            None => task,
        }
    }

    /// What the driver has lent, for the driver itself.
    pub(crate) fn port(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::clone(&self.port) as Arc<dyn Any + Send + Sync>
    }

    /// A key for one outside effect of this task: the same over retries, resumes and machines,
    /// another one in each round of a loop and after a fork. 32 hexadecimal digits.
    ///
    /// Hand it to whatever makes the effect (a payment service, a mail gateway), so that an effect
    /// whose result was lost in a crash is not made twice.
    pub fn idempotency_key(&self, key: &str) -> String {
        let mut hash = blake3::Hasher::new();
        for part in [self.thread().as_str(), &self.task().to_string(), key] {
            hash.update(&(part.len() as u64).to_le_bytes())
                .update(part.as_bytes());
        }
        hash.update(&self.port.branch().get().to_le_bytes());
        hash.finalize().to_hex()[..32].to_owned()
    }

    /// The value of a type that the caller gave for this call: a user, a tenant, credentials. It is
    /// given by [`Command::context`](crate::Command::context) or, for all calls of a runner, by
    /// [`RunOptions::context`](crate::RunOptions::context), and never stored: a call that goes on with
    /// the thread gives it again.
    ///
    /// # Errors
    /// [`NodeError`] of the class [`MissingContext`](ErrorClass::MissingContext) if this call gave
    /// none. It is not tried again.
    pub fn run_context<T: Any + Send + Sync>(&self) -> Result<Arc<T>, NodeError> {
        self.port.given().get::<T>().ok_or_else(|| {
            let what = format!(
                "node \"{}\" needs a {} from its caller, and this call gave none: give it with \
                 `Command::context(value)`, or with `RunOptions::context(value)` for every call",
                self.node(),
                std::any::type_name::<T>()
            );
            NodeError::new(ErrorClass::MissingContext, what)
        })
    }

    /// Why this task is run although it began before and has no recorded end: what was answered to
    /// the question [`MayHaveRun`](super::MayHaveRun). None where it is run for the first time, or is
    /// not [`Irreversible`](super::Effect::Irreversible).
    pub fn after_crash(&self) -> Option<AfterCrash> {
        let bytes = self.port.answer(&self.standing(), AFTER_CRASH)?;
        Codec::MessagePack.decode(&bytes).ok()
    }

    /// Shows that the task lives: its [`idle_timeout`](super::Policy::idle_timeout) counts anew. May
    /// be called from any thread, and as often as one likes.
    pub fn heartbeat(&self) {
        if let Some(pulse) = &self.pulse {
            pulse.beat();
        }
    }

    /// The answer to the question that this task has asked under a key; none before it is asked
    /// and answered. A task is run again when all that it has asked is answered.
    ///
    /// # Errors
    /// [`NodeError`] of the class `invalid` if the question under that key was another one.
    pub fn answer<Q: Ask>(&self, key: &str) -> Result<Option<Q::Answer>, NodeError> {
        let Some(bytes) = self.port.answer(&self.standing(), key) else {
            return Ok(None);
        };
        let answer = Codec::MessagePack.decode(&bytes);
        answer.map(Some).map_err(|error| {
            let expected = std::any::type_name::<Q::Answer>();
            let what = format!("the answer to \"{key}\" is no {expected}: {error}");
            NodeError::invalid(what)
        })
    }

    /// Does a piece of work once: when it has succeeded, its result is recorded, and a task that is
    /// run again (retried, answered, or taken up after a crash) gets the recorded result instead of
    /// doing the work again. A failed one is not recorded. Several may run side by side.
    ///
    /// The work is at-least-once where the process dies between its effect and the record; hand
    /// [`idempotency_key`](Self::idempotency_key) to whoever makes the effect.
    ///
    /// ```
    /// # use milepost::{Context, NodeError, NodeName};
    /// # async fn charge(_key: &str) -> Result<u64, NodeError> { Ok(7) }
    /// # async fn pay(cx: Context) -> Result<u64, NodeError> {
    /// let receipt = cx.step("charge", charge(&cx.idempotency_key("charge"))).await?;
    /// # Ok(receipt) }
    /// # let cx = Context::detached(NodeName::new("pay")?);
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # assert_eq!(runtime.block_on(pay(cx)).unwrap(), 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The work's own; [`NodeError`] of the class `invalid` if two steps of one try have the same
    /// key, if the recorded result has another type, or if the result cannot be encoded.
    pub async fn step<T, F>(&self, key: &str, work: F) -> Result<T, NodeError>
    where
        T: Serialize + DeserializeOwned + 'static,
        F: Future<Output = Result<T, NodeError>>,
    {
        let at = self.standing();
        let shape = shape_of::<T>();
        let type_name = std::any::type_name::<T>();
        if let Some(kept) = self.port.recall(&at, key)? {
            let decoded = match kept.shape == shape {
                true => Codec::MessagePack
                    .decode(&kept.value)
                    .map_err(|why| why.to_string()),
                false => Err("another shape".to_owned()),
            };
            return decoded.map_err(|why| {
                NodeError::invalid(format!(
                    "step \"{key}\" was recorded as {} ({}), and is now asked for as {type_name} \
                     ({shape}): {why}. Give the new step another key",
                    kept.type_name, kept.shape
                ))
            });
        }
        let value = work.await?;
        let bytes = Codec::MessagePack
            .encode(&value)
            .map_err(NodeError::invalid)?;
        let step = KeptStep {
            key: key.to_owned(),
            type_name: type_name.into(),
            shape,
            value: bytes,
        };
        self.port.keep(&at, step).await?;
        self.heartbeat();
        Ok(value)
    }

    /// Waits for a time, durably: when the task is to go on is recorded under the key, and a task
    /// that is run again does not wait anew.
    ///
    /// A long wait ([`RunOptions::park_after`](crate::RunOptions::park_after)) frees the process: the
    /// task is dropped here, the call ends with [`Ended::Parked`](crate::Ended::Parked) when nothing
    /// else runs, and the task is run again from its beginning when a later call finds the time
    /// over. So do nothing else beside it, and put what must not be done twice into a
    /// [`step`](Self::step).
    ///
    /// # Errors
    /// [`NodeError`] if the time cannot be recorded.
    pub async fn sleep_for(&self, key: &str, time: Duration) -> Result<(), NodeError> {
        self.sleep(key, Wake::After(time)).await
    }

    /// Waits until a moment, as [`sleep_for`](Self::sleep_for) does. One that is over is no wait.
    ///
    /// # Errors
    /// As there.
    pub async fn sleep_until(&self, key: &str, moment: SystemTime) -> Result<(), NodeError> {
        self.sleep(key, Wake::At(moment)).await
    }

    async fn sleep(&self, key: &str, until: Wake) -> Result<(), NodeError> {
        let _waits = self.pulse.as_ref().map(|pulse| pulse.wait());
        self.port.sleep(&self.standing(), key, until).await
    }

    pub(crate) fn standing(&self) -> Standing {
        Standing {
            step: self.step,
            node: self.node,
            index: self.index,
            attempt: self.attempt,
            remaining: self.remaining,
        }
    }

    /// Whether the run is to stop. A node that ends within the grace time is recorded.
    pub fn is_cancelled(&self) -> bool {
        self.port.is_cancelled()
    }

    /// Waits until the run is to stop.
    pub async fn cancelled(&self) {
        self.port.cancelled().await;
    }

    /// Sends an event of one's own to whoever listens. Not stored: a re-run sends it again.
    ///
    /// # Errors
    /// [`NodeError`] if the value cannot be encoded.
    pub async fn emit<T: Serialize + ?Sized>(
        &self,
        name: &str,
        value: &T,
    ) -> Result<(), NodeError> {
        self.heartbeat();
        if !self.port.listening() {
            return Ok(());
        }
        let value = rmp_serde::to_vec_named(value).map_err(NodeError::invalid)?;
        self.send(EventKind::Custom {
            task: self.task(),
            name: name.to_owned(),
            value,
        })
        .await;
        Ok(())
    }

    /// Sends a piece of text as it is made: a token of a model's answer. Not stored.
    pub async fn token(&self, text: &str) {
        self.heartbeat();
        if self.port.listening() {
            self.send(EventKind::Token {
                task: self.task(),
                text: text.to_owned(),
            })
            .await;
        }
    }

    async fn send(&self, kind: EventKind) {
        let event = Event {
            epoch: self.port.epoch(),
            seq: None,
            within: self.port.within().cloned(),
            kind,
        };
        self.port.emit(event).await;
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("thread", self.thread())
            .field("task", &self.task())
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

struct Detached {
    thread: ThreadId,
    run: RunId,
    node: NodeName,
    given: RunContext,
}

impl Port for Detached {
    fn thread(&self) -> &ThreadId {
        &self.thread
    }
    fn run(&self) -> &RunId {
        &self.run
    }
    fn branch(&self) -> Branch {
        Branch::new(0)
    }
    fn epoch(&self) -> Epoch {
        Epoch::new(0)
    }
    fn name(&self, _: u32) -> &NodeName {
        &self.node
    }
    fn within(&self) -> Option<&TaskPath> {
        None
    }
    fn emit(&self, _: Event) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
    fn listening(&self) -> bool {
        false
    }
    fn answer(&self, _: &Standing, _: &str) -> Option<Arc<[u8]>> {
        None
    }
    fn recall(&self, _: &Standing, _: &str) -> Result<Option<KeptStep>, NodeError> {
        Ok(None)
    }
    fn keep(&self, _: &Standing, _: KeptStep) -> BoxFuture<'_, Result<(), NodeError>> {
        Box::pin(std::future::ready(Ok(())))
    }
    fn sleep(&self, _: &Standing, _: &str, _: Wake) -> BoxFuture<'_, Result<(), NodeError>> {
        Box::pin(std::future::ready(Ok(())))
    }
    fn given(&self) -> &RunContext {
        &self.given
    }
    fn is_cancelled(&self) -> bool {
        false
    }
    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}
