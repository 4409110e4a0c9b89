//! What can go on without anybody's doing: threads whose time has come, or whose process died.
//!
//! In come heads, and the records of open supersteps of those that wait; out comes a list, and the
//! moment at which there will be more. It resumes nothing and holds nothing, so that any number of
//! workers may ask: a claim decides who gets a thread.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::inner::InnerLogs;
use crate::ids::{Seq, ThreadId};
use crate::store::{CheckpointStore, Head, Record, Status, StoreError, WishKind};

/// How many threads or records are read at once.
const PAGE: usize = 256;

/// What a worker has to do now, and when to look again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Agenda {
    /// The threads that can go on, in the store's order.
    pub due: Vec<Due>,
    /// When the next one is due; none where no thread waits for a time.
    pub next: Option<SystemTime>,
}

/// A thread that can go on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Due {
    /// The thread.
    pub thread: ThreadId,
    /// Its graph's name.
    pub graph: String,
    /// Why it can go on.
    pub why: WhyDue,
}

/// Why a thread can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyDue {
    /// The time that it waited for has come.
    Woken,
    /// The time of a question is over.
    Expired,
    /// Everything that a task has asked is answered, and nobody has taken it up since.
    Answered,
    /// It says that it is running: a call works on it, or the process that did has died. A claim
    /// tells which.
    LeftBehind,
    /// Its process gave it back at a boundary, for another one to go on.
    Drained,
    /// It was asked to stop, and nobody works on it who would.
    Asked,
}

/// Reads what there is to do.
///
/// # Errors
/// [`StoreError`] as reading heads and records gives it.
pub async fn agenda(store: &dyn CheckpointStore, now: SystemTime) -> Result<Agenda, StoreError> {
    let now_ms = now
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    let now_ms = u64::try_from(now_ms).unwrap_or(u64::MAX);
    let mut agenda = Agenda::default();
    let mut last: Option<ThreadId> = None;
    loop {
        let page = store.threads(last.as_ref(), PAGE).await?;
        let is_last = page.len() < PAGE;
        last = page.last().map(|(thread, _)| thread.clone());
        for (thread, head) in page {
            let why = match head.status {
                Status::Running => Some(WhyDue::LeftBehind),
                Status::Finished | Status::Cancelled => None,
                _ if is_to_stop(store, &thread, &head).await? => Some(WhyDue::Asked),
                Status::Drained => Some(WhyDue::Drained),
                Status::Paused | Status::Parked => {
                    let open = Open::read(store, &thread, &head).await?;
                    let (why, next_ms) = open.due(head.step + 1, now_ms);
                    let next = next_ms.map(|ms| UNIX_EPOCH + Duration::from_millis(ms));
                    agenda.next = [agenda.next, next].into_iter().flatten().min();
                    why
                }
                _ => None,
            };
            let graph = head.graph.into();
            agenda.due.extend(why.map(|why| Due { thread, graph, why }));
        }
        if is_last {
            return Ok(agenda);
        }
    }
}

/// Whether a wish to cancel waits for whoever takes a thread up.
async fn is_to_stop(
    store: &dyn CheckpointStore,
    thread: &ThreadId,
    head: &Head,
) -> Result<bool, StoreError> {
    let wish = store.wished(thread).await?;
    Ok(wish.is_some_and(|wish| wish.kind == WishKind::Cancel && wish.run == head.run))
}

/// What the tasks of an open superstep wait for, by task path.
#[derive(Debug, Default)]
struct Open {
    tasks: HashMap<String, Task>,
    inner: InnerLogs,
}

#[derive(Debug, Default)]
struct Task {
    /// Questions by record: when each expires, and whether it is answered.
    questions: Vec<(Seq, Option<u64>, bool)>,
    /// Until when it waits, at the latest.
    until_ms: Option<u64>,
}

impl Open {
    async fn read(
        store: &dyn CheckpointStore,
        thread: &ThreadId,
        head: &Head,
    ) -> Result<Self, StoreError> {
        let mut open = Self::default();
        let mut from = head.seq.next();
        loop {
            let page = store.records(thread, from, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(open);
            };
            from = last.seq.next();
            for stored in &page {
                open.add(stored.seq, &stored.record);
            }
        }
    }

    fn add(&mut self, seq: Seq, record: &Record) {
        match record {
            // What cannot be read is found where the thread is loaded.
            Record::Inner(inner) => {
                if let Ok((path, stored)) = inner.open() {
                    self.inner.push(&path, seq, &stored);
                }
            }
            Record::Question(question) => {
                let task = self.tasks.entry(question.task.clone()).or_default();
                task.questions.push((seq, question.expires_ms, false));
            }
            Record::Answer(answer) => {
                let questions = self.tasks.values_mut().flat_map(|task| &mut task.questions);
                for (at, _, answered) in questions {
                    *answered |= at.get() == answer.question;
                }
            }
            Record::Timer(timer) => {
                let task = self.tasks.entry(timer.task.clone()).or_default();
                task.until_ms = task.until_ms.max(Some(timer.due_ms));
            }
            Record::Outcome(outcome) => {
                if let Ok(node) = crate::ids::NodeName::new(&outcome.node) {
                    let step = crate::ids::Step::new(outcome.step);
                    let path = crate::ids::TaskPath::new(step, node, outcome.index);
                    self.tasks.remove(&path.to_string());
                }
            }
            _ => {}
        }
    }

    /// Why one of the tasks can go on now, and when the next one can.
    fn due(&self, step: u64, now_ms: u64) -> (Option<WhyDue>, Option<u64>) {
        let mut why = None;
        let mut next: Option<u64> = None;
        let mut at = |reason: WhyDue, moment: Option<u64>| match moment {
            Some(moment) if moment > now_ms => {
                next = Some(next.map_or(moment, |next| next.min(moment)));
            }
            _ => why = why.or(Some(reason)),
        };
        for task in self.tasks.values() {
            let mut unanswered = task
                .questions
                .iter()
                .filter(|(.., answered)| !answered)
                .peekable();
            if unanswered.peek().is_some() {
                for (_, expires, _) in unanswered {
                    if expires.is_some() {
                        at(WhyDue::Expired, *expires);
                    }
                }
            } else if task.until_ms.is_some() {
                at(WhyDue::Woken, task.until_ms);
            } else {
                at(WhyDue::Answered, None);
            }
        }
        for task in self.inner.open(step) {
            let answered = task.questions.iter().all(|asked| asked.answered);
            match (task.due_ms(), answered, task.until_ms) {
                (Some(due), false, _) => at(WhyDue::Expired, Some(due)),
                (Some(due), true, Some(_)) => at(WhyDue::Woken, Some(due)),
                (Some(_), true, None) => at(WhyDue::Answered, None),
                (None, ..) => {}
            }
        }
        (why, next)
    }
}
