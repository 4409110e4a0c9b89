//! Going back: a thread takes up an older checkpoint, is changed by hand, or goes to another branch.
//!
//! In come a claimed thread and a place in its log, out goes one atomic write that moves the head.
//! Nothing that was recorded is touched, and no node runs.

use std::sync::Arc;

use super::close::reduce_error;
use super::load::{self, Loaded};
use super::log::{Log, Written};
use super::record::{self, Unstorable};
use super::runner::not_found;
use super::{Durability, RunError, Runner, join};
use crate::engine::{
    Ended, Outcome, Outcomes, Planned, Position, Routed, Task, Unreduced, Via, plan, reduce, route,
};
use crate::graph::{Compiled, Out};
use crate::ids::{Branch, NodeName, RunId, Seq, Step, TaskPath, ThreadId};
use crate::policy::now_ms;
use crate::state::{MergeFault, State};
use crate::store::{
    BranchRecord, CheckpointStore, CommitRecord, Few, Head, OutcomeRef, Place, Record, RunRow,
    Status, StoppedRecord, StoreError, Tree, at_rest,
};

/// How many records are read at once.
const PAGE: usize = 256;

/// Where a thread stands after it was moved. Nothing runs until it is taken up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moved {
    /// The branch that it stands on now.
    pub branch: Branch,
    /// The branch that it stood on.
    pub from: Branch,
    /// The checkpoint that it stands at.
    pub seq: Seq,
    /// How many supersteps are closed there.
    pub step: Step,
    /// How it stands: paused where there is something to run.
    pub status: Status,
    /// What runs when it is taken up, with how many tasks each.
    pub next: Vec<(NodeName, u32)>,
}

/// The node that a patch stands for, and by which exit it is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsNode {
    node: String,
    exit: Option<String>,
}

impl AsNode {
    /// A node by name. One with several exits needs one of them, too.
    pub fn new(node: impl Into<String>) -> Self {
        Self {
            node: node.into(),
            exit: None,
        }
    }

    /// Leaves it by the exit with this label.
    #[must_use]
    pub fn exit(mut self, label: impl Into<String>) -> Self {
        self.exit = Some(label.into());
        self
    }
}

impl<S: State> Runner<S> {
    /// Goes on from any checkpoint, on a branch of its own: the head is that checkpoint, the old
    /// branch stays as it is. What was recorded after the checkpoint belongs to the old branch
    /// alone: its questions are asked again, its steps and tasks are done again.
    ///
    /// ```
    /// use milepost::{Command, Context, End, Graph, NodeError, Runner, Snapshot, State, ThreadId};
    /// use milepost::store::MemoryStore;
    ///
    /// #[derive(Clone, Debug, Default, State)]
    /// struct Count {
    ///     n: u64,
    /// }
    ///
    /// async fn increase(count: Snapshot<Count>, _: Context) -> Result<CountUpdate, NodeError> {
    ///     Ok(Count::update().n(count.n + 1))
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut g = Graph::builder("count");
    /// let increase = g.node("increase", increase);
    /// g.start(increase);
    /// g.edge(increase, End);
    ///
    /// let runner = Runner::new(g.build()?).store(MemoryStore::new());
    /// let thread = ThreadId::new("first")?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let first = runner.run(&thread, Command::start(Count::update().n(1))).await?;
    /// runner.run(&thread, Command::start(Count::update().n(5))).await?;
    /// let moved = runner.fork(&thread, first.seq.unwrap_or_default()).await?;
    /// assert_eq!(moved.branch.get(), 1);
    /// assert_eq!(runner.state(&thread).await?.n, 2);
    /// # Ok::<(), milepost::RunError>(()) })?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`RunError::NotFound`], [`RunError::NoCheckpoint`], [`RunError::Pruned`],
    /// [`RunError::OtherGraph`]; that the thread is busy; and what reading may find.
    pub async fn fork(&self, thread: &ThreadId, seq: Seq) -> Result<Moved, RunError> {
        self.go_back(thread, seq, false).await
    }

    /// Goes back to a checkpoint that led to where the thread stands. It is a
    /// [`fork`](Self::fork), because nothing recorded is ever taken back, but one that cannot land
    /// on a checkpoint of another past by mistake.
    ///
    /// # Errors
    /// As of a fork, and [`RunError::OtherLine`].
    pub async fn rewind(&self, thread: &ThreadId, seq: Seq) -> Result<Moved, RunError> {
        self.go_back(thread, seq, true).await
    }

    async fn go_back(
        &self,
        thread: &ThreadId,
        seq: Seq,
        same_line: bool,
    ) -> Result<Moved, RunError> {
        let (store, mut log, head) = self.claim(thread).await?;
        let tree = tree(&*store, thread).await?;
        let place = place(&tree, thread, seq, log.next())?;
        let line = tree.branches.line(head.branch, head.seq);
        if same_line && !line.has(place.branch, seq) {
            return Err(RunError::OtherLine {
                thread: thread.clone(),
                seq,
                branch: place.branch,
                head: head.branch,
            });
        }
        let begun = BranchRecord {
            branch: tree.branches.next().get(),
            parent: place.branch.get(),
            at: seq.get(),
        };
        let branch = Branch::new(begun.branch);
        let status = at_rest(place.status);
        let stands = stands(&head, &tree, thread, (branch, seq), (place, status))?;
        // What cannot be read must not become the head.
        let tables = self.graph.tables();
        let loaded = load::load(&*store, tables, thread, &stands, seq).await?;
        run_row(&mut log, &stands, &tree).await?;
        log.begin(begun, stands.clone());
        log.fork().await?;
        Ok(moved(tables, &head, &stands, &loaded.position))
    }

    /// Goes to where another branch stands: nothing is begun, and what is open there is open again.
    ///
    /// # Errors
    /// [`RunError::NotFound`], [`RunError::NoBranch`], [`RunError::Pruned`],
    /// [`RunError::OtherGraph`]; that the thread is busy; and what reading may find.
    pub async fn switch(&self, thread: &ThreadId, branch: Branch) -> Result<Moved, RunError> {
        let (store, mut log, head) = self.claim(thread).await?;
        let tree = tree(&*store, thread).await?;
        let Some(tip) = tree.tip(branch) else {
            return Err(RunError::NoBranch {
                thread: thread.clone(),
                branch,
                known: tree.tips().map(|(branch, _)| branch).collect(),
            });
        };
        let place = place(&tree, thread, tip.at, log.next())?;
        let stands = match branch == head.branch {
            true => head.clone(),
            false => {
                let status = at_rest(tip.status);
                stands(&head, &tree, thread, (branch, tip.at), (place, status))?
            }
        };
        let tables = self.graph.tables();
        let loaded = load::load(&*store, tables, thread, &stands, tip.at).await?;
        if branch != head.branch {
            let mut stopped = StoppedRecord {
                step: place.step + 1,
                at_ms: now_ms(),
                status: stands.status,
                error: None,
                failed: Vec::new(),
            };
            // Why it stands so is said again, by the last word on the branch.
            if let Some(at) = tip.stopped
                && let Some(last) = store.records(thread, at, 1).await?.first()
                && let Record::Stopped(last) = &*last.record
            {
                (stopped.error, stopped.failed) = (last.error.clone(), last.failed.clone());
            }
            run_row(&mut log, &stands, &tree).await?;
            log.switch(stopped, stands.clone()).await?;
        }
        Ok(moved(tables, &head, &stands, &loaded.position))
    }

    /// Changes the state as if a node had returned this update: it is merged by the reducers, the
    /// node's way out is taken, and that is what runs next, instead of what did. It counts as a
    /// superstep.
    ///
    /// It begins a branch at the head, so that what is open there (questions, results of other
    /// tasks) stays on the branch where it was; a branch on which nothing was done yet is used as
    /// it is. A finished thread goes on where the node leads.
    ///
    /// # Errors
    /// [`RunError::NotFound`], [`RunError::NoNode`], [`RunError::NoExit`]; [`RunError::Reduce`],
    /// [`RunError::Route`], [`RunError::Encode`] as where the node had run; that the thread is busy;
    /// and what reading may find. Then nothing is changed.
    pub async fn patch(
        &self,
        thread: &ThreadId,
        update: S::Update,
        node: AsNode,
    ) -> Result<Moved, RunError> {
        let (store, mut log, head) = self.claim(thread).await?;
        let tables = self.graph.tables();
        let (node, ended) = left(tables, node)?;
        let Loaded { position, .. } = log.load().await?.ok_or_else(|| not_found(thread))?;
        let check = self.options.check_round_trip;
        let step = position.step + 1;
        let path = TaskPath::new(Step::new(step), tables.node(node).name.clone(), 0);
        let unstorable = |origin: String, (field, error): Unstorable| RunError::Encode {
            thread: thread.clone(),
            step: Step::new(step),
            origin,
            field,
            error,
        };
        let task = Task {
            node,
            index: 0,
            via: Via {
                from: None,
                label: "",
            },
            payload: None,
        };
        let outcome = Outcome { update, ended };
        let stored = record::outcome(tables, step, &task, &outcome, &[], check)
            .map_err(|fault| unstorable(format!("the patch {path}"), fault))?;
        let by_value = record::by_value::<S>(std::iter::once(&outcome.update));
        let planned = plan(Position {
            frontier: vec![task],
            recorded: Vec::new(),
            ..position
        });
        let Planned::Run(superstep) = planned else {
            unreachable!("a superstep of one task is to be run")
        };
        let reduced =
            reduce(tables, superstep, Outcomes::One(outcome)).map_err(
                |(_, fault)| match fault {
                    Unreduced::Merge(MergeFault::Conflict { field, .. }) => RunError::Conflict {
                        thread: thread.clone(),
                        field,
                        first: path.clone(),
                        second: path.clone(),
                    },
                    Unreduced::Merge(fault) => reduce_error(thread.clone(), Step::new(step), fault),
                    Unreduced::Undeclared(_, field) => RunError::UndeclaredWrite {
                        thread: thread.clone(),
                        task: path.clone(),
                        field,
                        declared: tables.node(node).writes.clone().unwrap_or_default().into(),
                    },
                },
            )?;
        let routed = route(tables, reduced, true, join::clock(tables));
        let Routed {
            mut position,
            taken,
        } = routed
            .map_err(|(_, fault)| join::route_error(tables, thread, Step::new(step), fault))?;
        self.begin_patch(&*store, thread, &mut log, &head).await?;
        let (waiting, due): (Vec<_>, Vec<_>) = join::timers(tables, step, &position.joins)
            .into_iter()
            .unzip();
        if !due.is_empty() {
            let first = log.set(due).get();
            for (place, seq) in waiting.into_iter().zip(first..) {
                position.joins[place].timer = Some(seq);
            }
        }
        let (joins, timers) = join::stored(tables, &position.joins);
        let commit = CommitRecord {
            step,
            at_ms: now_ms(),
            values: record::values(&*position.state, &by_value)
                .map_err(|fault| unstorable("a reducer".to_owned(), fault))?,
            edges: record::edges(tables, &taken),
            frontier: record::frontier(tables, &position.frontier, check)
                .map_err(|fault| unstorable("a fan-out".to_owned(), fault))?,
            joins,
            timers,
            status: at_rest(self.options.status_at(tables, &position.frontier, &[])),
            outcomes: Few::one(OutcomeRef::Inline(stored.clone())),
        };
        stored.changes.iter().for_each(|change| log.touch(change));
        let state = Arc::clone(&position.state);
        let written = log.commit(commit, &state).await;
        written.map_err(|fault| match fault {
            Written::Store(error) => error.into(),
            Written::Unstorable(fault, _) => unstorable("the state".to_owned(), fault),
        })?;
        let stands = log.head().cloned().unwrap_or_else(|| head.clone());
        Ok(moved(tables, &head, &stands, &position))
    }

    /// Has a patch begin a branch, unless the head's was just begun.
    async fn begin_patch(
        &self,
        store: &dyn CheckpointStore,
        thread: &ThreadId,
        log: &mut Log<S>,
        head: &Head,
    ) -> Result<(), RunError> {
        let last = Seq::new(log.next().get() - 1);
        let last = store.records(thread, last, 1).await?;
        let last = last.first().map(|stored| &*stored.record);
        let untouched = matches!(last, Some(Record::Branch(_)));
        let tree = tree(store, thread).await?;
        run_row(log, head, &tree).await?;
        if !untouched {
            let begun = BranchRecord {
                branch: tree.branches.next().get(),
                parent: place(&tree, thread, head.seq, log.next())?.branch.get(),
                at: head.seq.get(),
            };
            let branch = Branch::new(begun.branch);
            log.begin(
                begun,
                Head {
                    branch,
                    ..head.clone()
                },
            );
        }
        Ok(())
    }

    async fn claim(
        &self,
        thread: &ThreadId,
    ) -> Result<(Arc<dyn CheckpointStore>, Log<S>, Head), RunError> {
        let store = self.store.as_ref().ok_or_else(|| not_found(thread))?;
        let (graph, id) = (self.graph.clone(), thread.clone());
        let (busy, every) = (self.options.busy, self.options.base_every);
        let log = Log::claim(Arc::clone(store), graph, id, busy, every, Durability::Each).await?;
        let head = log.head().cloned().ok_or_else(|| not_found(thread))?;
        Ok((Arc::clone(store), log, head))
    }
}

/// Reads the whole log as a tree.
async fn tree(store: &dyn CheckpointStore, thread: &ThreadId) -> Result<Tree, StoreError> {
    let mut tree = Tree::default();
    let mut from = Seq::new(1);
    loop {
        let page = store.records(thread, from, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(tree);
        };
        from = last.seq.next();
        page.iter().for_each(|stored| tree.see(stored));
    }
}

/// A position of the log that can still be read.
fn place(tree: &Tree, thread: &ThreadId, seq: Seq, next: Seq) -> Result<Place, RunError> {
    let thread = thread.clone();
    match tree.places.get(&seq) {
        Some(place) if place.base.get() > 0 && place.schema.get() > 0 => Ok(*place),
        Some(_) => Err(RunError::Pruned { thread, seq }),
        None if seq < next && !tree.has(seq) && seq.get() > 0 => {
            Err(RunError::Pruned { thread, seq })
        }
        None => Err(RunError::NoCheckpoint { thread, seq }),
    }
}

/// The head row of a thread that stands on a branch at a position.
fn stands(
    head: &Head,
    tree: &Tree,
    thread: &ThreadId,
    (branch, seq): (Branch, Seq),
    (place, status): (Place, Status),
) -> Result<Head, RunError> {
    let Some((_, run)) = tree.input_of(seq) else {
        let thread = thread.clone();
        return Err(RunError::Pruned { thread, seq });
    };
    Ok(Head {
        run: run.into(),
        branch,
        seq,
        step: place.step,
        base: place.base,
        schema: place.schema,
        status,
        updated_ms: now_ms(),
        ..head.clone()
    })
}

/// Has the row of the run follow the head: it says how the run stands on the branch that the thread
/// is on.
async fn run_row<S: State>(log: &mut Log<S>, head: &Head, tree: &Tree) -> Result<(), RunError> {
    let (Ok(run), Some((input, _))) = (RunId::new(&head.run), tree.input_of(head.seq)) else {
        return Ok(());
    };
    let row = log.run_row(&run).await?.unwrap_or(RunRow {
        input,
        end: None,
        status: Status::Running,
    });
    log.go_on_with(run, row);
    Ok(())
}

/// The node that a patch stands for, and how it is left.
fn left<S: State>(graph: &Compiled<S>, named: AsNode) -> Result<(u32, Ended), RunError> {
    let AsNode { node, exit } = named;
    let found = NodeName::new(&node).ok();
    let Some(place) = found.and_then(|name| graph.by_name.get(&name).copied()) else {
        return Err(RunError::NoNode {
            graph: graph.view.name.clone(),
            node,
            known: graph.names().to_vec(),
        });
    };
    let entry = graph.node(place);
    let exits = match &entry.out {
        Some(Out::Exits(_)) => entry.exits.as_slice(),
        _ => &[],
    };
    let found = match (exits, &exit) {
        ([], None) | ([_], None) => Some(0),
        (exits, Some(label)) => exits.iter().position(|known| known == label),
        (_, None) => None,
    };
    match found {
        Some(exit) => Ok((place, Ended::Exit(exit as u32))),
        None => Err(RunError::NoExit {
            node: entry.name.clone(),
            exit,
            exits: exits.iter().map(|exit| (*exit).to_owned()).collect(),
        }),
    }
}

fn moved<S: State>(graph: &Compiled<S>, from: &Head, to: &Head, at: &Position<S>) -> Moved {
    let mut next: Vec<(NodeName, u32)> = Vec::new();
    for task in &at.frontier {
        let name = &graph.node(task.node).name;
        match next.last_mut() {
            Some((last, tasks)) if last == name => *tasks += 1,
            _ => next.push((name.clone(), 1)),
        }
    }
    Moved {
        branch: to.branch,
        from: from.branch,
        seq: to.seq,
        step: Step::new(to.step),
        status: to.status,
        next,
    }
}
