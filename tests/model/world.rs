//! What the nodes of a compiled plan do, and what is noted of it outside of any state: what was
//! acknowledged, what ran, and what must not have.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use milepost::store::{OutcomeRecord, OutcomeRef, Record, Write};
use milepost::{Ask, Context, NodeError, Output, Question, Snapshot};
use serde::{Deserialize, Serialize};

use crate::book::{self, Book, BookUpdate};
use crate::place::wander;
use crate::plan::{Fails, Node, Out, Plan, Wait};

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Query {
    pub(crate) node: usize,
    pub(crate) sum: u64,
}

impl Ask for Query {
    type Answer = u64;
}

/// How a task ended: its update, and which exit it would take.
pub(crate) enum Did {
    Done(Box<BookUpdate>, bool),
    Asks(Vec<Question<Query>>),
}

impl Did {
    pub(crate) fn output<E>(self, exit: impl Fn(bool) -> E) -> Output<BookUpdate, E, Query> {
        match self {
            Did::Done(update, second) => Output::Done(*update, exit(second)),
            Did::Asks(asks) => Output::Ask(asks),
        }
    }
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Arc<Plan>,
    /// The worlds of the graphs inside, by node.
    pub(crate) inner: Vec<Option<Arc<World>>>,
    /// For the delays.
    pub(crate) seed: u64,
    /// How many calls there were. A body of one that was dropped may be in the middle of its last
    /// turn on another thread, and counts no more.
    life: Arc<AtomicU64>,
    notes: Arc<Mutex<Notes>>,
}

#[derive(Debug, Default)]
struct Notes {
    /// The tasks and steps that are known to be stored.
    stored: HashSet<String>,
    /// How often each task was called that fails for good at first.
    calls: HashMap<String, u32>,
    wrong: Vec<String>,
}

impl World {
    pub(crate) fn new(plan: &Plan, seed: u64) -> Arc<Self> {
        Self::of(plan, seed, &Arc::default(), &Arc::default())
    }

    fn of(plan: &Plan, seed: u64, life: &Arc<AtomicU64>, notes: &Arc<Mutex<Notes>>) -> Arc<Self> {
        let inner = |node: &Node| {
            let inner = node.inner.as_ref();
            inner.map(|inner| Self::of(inner, seed, life, notes))
        };
        Arc::new(Self {
            plan: Arc::new(plan.clone()),
            inner: plan.nodes.iter().map(inner).collect(),
            seed,
            life: Arc::clone(life),
            notes: Arc::clone(notes),
        })
    }

    /// Another call begins. Returns its number.
    pub(crate) fn another_life(&self) -> u64 {
        self.life.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// What was done twice, or woken too early.
    pub(crate) fn wrong(&self) -> Vec<String> {
        self.notes.lock().unwrap().wrong.clone()
    }

    /// Another past begins, in which everything may be done again.
    pub(crate) fn forget(&self) {
        let mut notes = self.notes.lock().unwrap();
        notes.stored.clear();
        notes.calls.clear();
    }

    /// A store has answered that this is written.
    pub(crate) fn written(&self, write: &Write) {
        for record in &write.records {
            self.kept("", record);
        }
    }

    /// Notes the outcomes of a record, below the path of the graph that they are in.
    fn kept(&self, inside: &str, record: &Record) {
        let outcome = |outcome: &OutcomeRecord| {
            let (step, node, index) = (outcome.step, &outcome.node, outcome.index);
            let path = format!("{inside}{step}:{node}[{index}]");
            let mut notes = self.notes.lock().unwrap();
            if !notes.stored.insert(path.clone()) {
                notes.wrong.push(format!("{path} was written twice"));
            }
        };
        match record {
            Record::Outcome(ended) => outcome(ended),
            Record::Commit(commit) => commit.outcomes.iter().for_each(|ended| {
                if let OutcomeRef::Inline(ended) = ended {
                    outcome(ended);
                }
            }),
            Record::Inner(inner) => {
                let (path, stored) = inner.open().unwrap();
                self.kept(&format!("{inside}{path}/"), &stored.record);
            }
            _ => {}
        }
    }

    fn begins(&self, life: u64, what: &str) {
        if life != self.life.load(Ordering::SeqCst) {
            return;
        }
        let mut notes = self.notes.lock().unwrap();
        if notes.stored.contains(what) {
            notes
                .wrong
                .push(format!("{what} was done and is done again"));
        }
    }

    fn complain(&self, what: String) {
        self.notes.lock().unwrap().wrong.push(what);
    }

    /// How often a task was called, this time included.
    fn call(&self, path: &str) -> u32 {
        let mut notes = self.notes.lock().unwrap();
        let calls = notes.calls.entry(path.to_owned()).or_default();
        *calls += 1;
        *calls
    }

    /// The body of every node.
    pub(crate) async fn act(
        self: Arc<Self>,
        life: u64,
        node: usize,
        payload: u64,
        seen: Snapshot<Book>,
        cx: Context,
    ) -> Result<Did, NodeError> {
        let (plan, path) = (Arc::clone(&self.plan), cx.task().to_string());
        let does = &plan.nodes[node].does;
        self.begins(life, &path);
        let salt = book::mixed(&[node as u64, payload, cx.superstep().get()]);
        wander(self.seed, salt).await;
        let mut gets = Vec::new();
        for number in 0..does.steps {
            let (key, result) = (
                format!("s{number}"),
                book::step(node, payload, number, &seen),
            );
            let id = format!("{path}.{key}");
            let work = async {
                self.begins(life, &id);
                wander(self.seed, salt ^ u64::from(number)).await;
                Ok(result)
            };
            let got = cx.step(&key, work).await?;
            self.notes.lock().unwrap().stored.insert(id.clone());
            if got != result {
                self.complain(format!("{id} gave {got}, and gives {result}"));
            }
            gets.push(got);
        }
        if does.sleeps {
            cx.sleep_for("nap", Duration::from_millis(1 + payload % 2))
                .await?;
        }
        match does.fails {
            Fails::Tries(tries) if cx.attempt() <= tries => {
                return Err(NodeError::transient("not this time"));
            }
            Fails::Calls(calls) if self.call(&path) <= calls => {
                return Err(NodeError::permanent("not in this call"));
            }
            _ => {}
        }
        if book::is_tolerated(&plan, node, payload) {
            return Err(NodeError::permanent("never"));
        }
        for (round, waits) in book::rounds(&plan, node, &seen).iter().enumerate() {
            let mut asks = Vec::new();
            for (place, wait) in waits.iter().enumerate() {
                let key = book::key(round, place);
                match cx.answer::<Query>(&key)? {
                    Some(answer) => gets.push(answer),
                    None => {
                        let sum = seen.sum;
                        let question = Question::new(key, Query { node, sum });
                        asks.push(match wait {
                            Wait::Ever => question,
                            Wait::Long => question.expires(HOUR).or_else(&1),
                            Wait::None => question.expires(Duration::ZERO).or_else(&book::DEFAULT),
                        });
                    }
                }
            }
            if !asks.is_empty() {
                if asks.len() < waits.len() {
                    self.complain(format!("{path} was called before all was answered"));
                }
                return Ok(Did::Asks(asks));
            }
        }
        wander(self.seed, salt.rotate_left(7)).await;
        let effect = book::task(&plan, node, payload, &seen, &gets);
        let second = match &plan.nodes[node].out {
            Out::Exits { by, .. } => book::is_second(by, &seen, payload),
            _ => false,
        };
        Ok(Did::Done(Box::new(effect.update()), second))
    }
}

const HOUR: Duration = Duration::from_secs(3600);
