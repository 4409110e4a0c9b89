//! Station 3, execute, for several tasks: one queue, and runners that draw from it.
//!
//! In come the tasks of a superstep, out come their ends as they happen. A body that waits is moved
//! to a task of its own, so that it holds back nothing behind it. Nothing here records or decides.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use futures::future::BoxFuture;
use tokio::sync::mpsc;

use super::Cancel;
use super::execute::{Begun, Scene, Shared, TaskEnd, guarded, panicked};
use crate::engine::Task;
use crate::node::{NodeError, Payload};
use crate::state::State;

/// The tasks of a superstep that several runners draw from.
pub(crate) struct Queue<S: State> {
    shared: Arc<Shared<S>>,
    scene: Scene<S>,
    jobs: Vec<Job>,
    next: AtomicUsize,
    /// How many runners are still to be started; each starts the next one.
    runners: AtomicUsize,
    /// Set when nothing more may start: a task failed, or the run stops.
    closed: Cancel,
    /// Asked when what still runs is to be dropped.
    cut: Cancel,
}

/// A task to run, by its place in the superstep.
pub(crate) struct Job {
    place: usize,
    node: u32,
    index: u32,
    payload: Option<Payload>,
}

impl Job {
    pub(crate) fn new(place: usize, task: &Task) -> Self {
        Self {
            place,
            node: task.node,
            index: task.index,
            payload: task.payload.clone(),
        }
    }
}

/// Ends of tasks, by place.
pub(crate) type Ends<U> = Vec<(usize, TaskEnd<U>)>;

/// What has become of the next task.
pub(crate) enum Drawn<U> {
    /// It has ended.
    Ended(usize, TaskEnd<U>),
    /// It waits for something, in a task of its own.
    Waits,
    /// There is none that may start.
    Nothing,
}

type Sender<S> = mpsc::UnboundedSender<Ends<<S as State>::Update>>;

/// The running tasks of a superstep. Dropping it drops the tasks.
pub(crate) struct Crowd<S: State> {
    queue: Arc<Queue<S>>,
    ends: mpsc::UnboundedReceiver<Ends<S::Update>>,
    /// The driver's own, until it only collects.
    sender: Option<Sender<S>>,
}

impl<S: State> Drop for Crowd<S> {
    fn drop(&mut self) {
        self.close();
        self.queue.cut.cancel();
    }
}

impl<S: State> Crowd<S> {
    /// Starts the tasks.
    pub(crate) fn start(shared: Arc<Shared<S>>, scene: Scene<S>, jobs: Vec<Job>) -> Self {
        let (sender, ends) = mpsc::unbounded_channel();
        let workers = tokio::runtime::Handle::current().metrics().num_workers();
        let runners = jobs.len().min(2 * workers.max(1));
        let queue = Arc::new(Queue {
            shared,
            scene,
            jobs,
            next: AtomicUsize::new(0),
            runners: AtomicUsize::new(runners),
            closed: Cancel::new(),
            cut: Cancel::new(),
        });
        queue.one_more(&sender);
        Self {
            queue,
            ends,
            sender: Some(sender),
        }
    }

    /// Runs the next task, as one of the runners: for a driver that has nothing to write meanwhile.
    /// Tasks that never wait are so done before another thread has woken up.
    #[inline]
    pub(crate) fn draw(&self) -> Drawn<S::Update> {
        match &self.sender {
            Some(sender) => self.queue.draw_one(sender),
            None => Drawn::Nothing,
        }
    }

    /// Says that the driver only collects from now on.
    pub(crate) fn drawn(&mut self) {
        self.sender = None;
    }

    /// Lets nothing more start.
    pub(crate) fn close(&self) {
        self.queue.closed.cancel();
    }

    /// The next ends; none when nothing runs any more.
    pub(crate) async fn next(&mut self) -> Option<Ends<S::Update>> {
        let mut ends = self.ends.recv().await?;
        while let Ok(more) = self.ends.try_recv() {
            ends.extend(more);
        }
        Some(ends)
    }
}

/// A task that waits for something, and whether its body was called where that is not sure.
type Waiting<U> = (BoxFuture<'static, TaskEnd<U>>, Option<Arc<AtomicBool>>);

impl<S: State> Queue<S> {
    /// Starts one more runner, if there is to be one. Each is started by the one before it, so
    /// that a superstep of short tasks wakes no thread that would find nothing to do.
    fn one_more(self: &Arc<Self>, sender: &Sender<S>) {
        let one_less = |left: usize| left.checked_sub(1);
        let order = Ordering::Relaxed;
        if self.runners.fetch_update(order, order, one_less).is_ok() {
            tokio::spawn(Arc::clone(self).draw(sender.clone()));
        }
    }

    async fn draw(self: Arc<Self>, sender: Sender<S>) {
        if self.next.load(Ordering::Relaxed) < self.jobs.len() {
            self.one_more(&sender);
        }
        let mut done = Vec::new();
        loop {
            match self.draw_one(&sender) {
                Drawn::Ended(place, end) => done.push((place, end)),
                Drawn::Waits => {}
                Drawn::Nothing => break,
            }
            // Where ends are recorded, each is reported at once; else all together.
            if self.shared.timed && !done.is_empty() {
                let _ = sender.send(std::mem::take(&mut done));
            }
            tokio::task::coop::consume_budget().await;
        }
        // The queue holds the state, and the driver goes on when the last sender is gone: let go of
        // the queue first, or the merge finds the state shared and clones it.
        drop(self);
        if !done.is_empty() {
            let _ = sender.send(done);
        }
    }

    /// Runs the next task to its end, or to where it waits for something.
    #[inline]
    fn draw_one(self: &Arc<Self>, sender: &Sender<S>) -> Drawn<S::Update> {
        if self.closed.is_cancelled() {
            return Drawn::Nothing;
        }
        let Some(job) = self.jobs.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
            return Drawn::Nothing;
        };
        match self.begin(job) {
            Ok(end) => {
                if end.result.is_err() && !self.shared.collects {
                    self.closed.cancel();
                }
                Drawn::Ended(job.place, end)
            }
            Err((waiting, begun)) => {
                let finish = Arc::clone(self).finish(job.place, waiting, begun, sender.clone());
                tokio::spawn(finish);
                Drawn::Waits
            }
        }
    }

    /// Starts a task; gives its end, or its future where it waits for something.
    #[inline]
    fn begin(self: &Arc<Self>, job: &Job) -> Result<TaskEnd<S::Update>, Waiting<S::Update>> {
        let shared = &self.shared;
        if !shared.plain(job.node) {
            let begun = Arc::new(AtomicBool::new(false));
            let run = Arc::clone(shared).run_task(
                self.scene.clone(),
                (job.node, job.index),
                job.payload.clone(),
                Arc::clone(&begun),
            );
            let mut run: BoxFuture<'static, _> = Box::pin(run);
            return match poll_once(&mut run) {
                Ok(Poll::Ready(end)) => Ok(end),
                Ok(Poll::Pending) => Err((run, Some(begun))),
                Err(panic) => Ok(TaskEnd {
                    result: Err(panic),
                    attempts: Vec::new(),
                }),
            };
        }
        let at = self.scene.standing(job.node, job.index, 1);
        let mut noop = std::task::Context::from_waker(std::task::Waker::noop());
        let begun = shared.begin(&self.scene.before, at, job.payload.as_ref(), &mut noop);
        let result = match begun {
            Ok(Begun::Ended(outcome)) => Ok(outcome),
            Err(error) => Err(error),
            Ok(Begun::Waits(call)) => {
                let (shared, payload) = (Arc::clone(shared), job.payload.clone());
                let end = async move {
                    let ended = guarded(call).await;
                    let result = shared.tolerated(&at, payload.as_ref(), ended, 1);
                    TaskEnd {
                        result,
                        attempts: Vec::new(),
                    }
                };
                return Err((Box::pin(end), None));
            }
        };
        Ok(TaskEnd {
            result,
            attempts: Vec::new(),
        })
    }

    async fn finish(
        self: Arc<Self>,
        place: usize,
        waiting: BoxFuture<'static, TaskEnd<S::Update>>,
        begun: Option<Arc<AtomicBool>>,
        sender: Sender<S>,
    ) {
        // A task that waits for a permit when nothing more may start never starts.
        let unbegun = async {
            match &begun {
                Some(begun) => {
                    self.closed.cancelled().await;
                    if begun.load(Ordering::SeqCst) {
                        std::future::pending::<()>().await;
                    }
                }
                None => std::future::pending().await,
            }
        };
        let end = tokio::select! {
            biased;
            () = unbegun => None,
            end = waiting => Some(end),
            () = self.cut.cancelled() => None,
        };
        let Some(end) = end else { return };
        if end.result.is_err() && !self.shared.collects {
            self.closed.cancel();
        }
        // As above: the queue first.
        drop(self);
        let _ = sender.send(vec![(place, end)]);
    }
}

/// Polls a future once, without a way to be woken: whoever gets the pending future polls it again.
fn poll_once<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Result<Poll<T>, NodeError> {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    catch_unwind(AssertUnwindSafe(|| Pin::new(future).poll(&mut cx)))
        .map_err(|panic| panicked(&*panic))
}
