//! Station 6, commit: what a claimed thread writes.
//!
//! In come records of the run, out goes one atomic write for each boundary. It keeps what a writer
//! has to know (epoch, head, next seq, segments) and never decides what runs.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::RunError;
use super::base::Segments;
use super::durability::Durability;
use super::load::{self, Loaded};
use super::options::Busy;
use super::port::Listener;
use super::queue::{self, Queue};
use super::record::Unstorable;
use super::schema;
use super::stop::after;
use crate::graph::Graph;
use crate::ids::{Branch, RunId, Seq, ThreadId};
use crate::policy::now_ms;
use crate::state::State;
use crate::store::{
    BaseRecord, BranchRecord, CheckpointStore, Claim, CommitRecord, DiscardedRecord, Head,
    InputRecord, OutcomeRecord, QuestionRecord, Record, RunRow, StartedRecord, Status,
    StoppedRecord, StoreError, StoredBase, StoredChange, Take, Text, TimerRecord, Wish, WishKind,
    Write,
};

/// A claimed thread, for writing. Gives the claim back when it is dropped.
pub(crate) struct Log<S: State> {
    store: Arc<dyn CheckpointStore>,
    /// The same, where the run does not wait for each of its writes.
    queue: Option<Arc<Queue>>,
    graph: Graph<S>,
    thread: ThreadId,
    claim: Claim,
    head: Option<Head>,
    next: Seq,
    segments: Segments,
    since_base: u32,
    base_every: u32,
    /// Whether the next boundary must write the schema and a base.
    fresh: bool,
    /// The branch that the next write begins, and the head that it is begun from.
    begins: Option<(BranchRecord, Seq)>,
    row: Option<(RunId, RunRow)>,
    /// The timers that the next boundary writes before it.
    timers: Vec<TimerRecord>,
    /// The wish that the next write heeds.
    pub(crate) fulfils: Option<Wish>,
}

impl<S: State> Drop for Log<S> {
    fn drop(&mut self) {
        self.store.release(&self.thread, self.claim.epoch);
    }
}

impl<S: State> Log<S> {
    /// Claims a thread.
    pub(crate) async fn claim(
        store: Arc<dyn CheckpointStore>,
        graph: Graph<S>,
        thread: ThreadId,
        busy: Busy,
        base_every: u32,
        durability: Durability,
    ) -> Result<Self, StoreError> {
        let claim = match busy {
            Busy::Refuse => match store.claim(&thread, Take::IfFree).await {
                Err(StoreError::Busy { .. }) if queue::left(&*store, &thread).await => {
                    store.claim(&thread, Take::IfFree).await?
                }
                claimed => claimed?,
            },
            Busy::Replace => {
                queue::settle(&*store, &thread).await;
                store.claim(&thread, Take::Replace).await?
            }
            Busy::Wait(time) => wait(&*store, &thread, time).await?,
        };
        let queue = Queue::before(&store, &thread, claim.next, durability);
        let store = match &queue {
            Some(queue) => Arc::clone(queue) as Arc<dyn CheckpointStore>,
            None => store,
        };
        let (head, next) = (claim.head.clone(), claim.next);
        // What was to be drained was the call that held the thread then.
        let waited = claim.wishes.newest();
        let stale = waited.filter(|wish| wish.kind == WishKind::Drain);
        Ok(Self {
            store,
            queue,
            graph,
            thread,
            claim,
            head,
            next,
            segments: Segments::default(),
            since_base: 0,
            base_every,
            fresh: true,
            begins: None,
            row: None,
            timers: Vec::new(),
            fulfils: stale,
        })
    }

    /// The store that it is written to.
    pub(crate) fn store(&self) -> Arc<dyn CheckpointStore> {
        Arc::clone(&self.store)
    }

    /// Tells a listener what is durable, where that is not said by what else it hears.
    pub(crate) fn listen(&self, listener: &Listener) {
        if let Some(queue) = &self.queue {
            queue.listen(listener.clone(), self.claim.epoch);
        }
    }

    /// Says that whoever listens has heard of everything that was written.
    #[inline]
    pub(crate) fn told(&self) {
        if let Some(queue) = &self.queue {
            queue.told();
        }
    }

    /// Waits until everything that was written is durable.
    pub(crate) async fn settled(&self) -> Result<(), StoreError> {
        match &self.queue {
            Some(queue) => queue.settled().await,
            None => Ok(()),
        }
    }

    /// Has bases hold all values themselves: for a log that lies in another one.
    pub(crate) fn whole(mut self) -> Self {
        self.segments = Segments::whole();
        self
    }

    pub(crate) fn claimed(&self) -> &Claim {
        &self.claim
    }

    pub(crate) fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// How the thread stands; one that is to be cancelled counts as cancelled.
    pub(crate) fn status(&self) -> Option<Status> {
        let head = self.head.as_ref()?;
        let is_asked = |wish: Wish| wish.kind == WishKind::Cancel && wish.run == head.run;
        let open = head.status != Status::Finished;
        let cancelled = open && self.claim.wishes.newest().is_some_and(is_asked);
        Some(match cancelled {
            true => Status::Cancelled,
            false => head.status,
        })
    }

    pub(crate) fn seq(&self) -> Option<Seq> {
        self.head.as_ref().map(|head| head.seq)
    }

    /// The seq that the next record gets.
    pub(crate) fn next(&self) -> Seq {
        self.next
    }

    /// Reads the position at the head.
    pub(crate) async fn load(&mut self) -> Result<Option<Loaded<S>>, RunError> {
        let Some(head) = &self.head else {
            return Ok(None);
        };
        let mut loaded = load::load(
            &*self.store,
            self.graph.tables(),
            &self.thread,
            head,
            head.seq,
        )
        .await?;
        if head.fingerprint != self.graph.fingerprint() {
            tracing::warn!(
                thread = %self.thread,
                graph = %head.graph,
                stored = %hex(&head.fingerprint),
                program = %hex(&self.graph.fingerprint()),
                "the thread was written with another version of its graph"
            );
        }
        if let Some(error) = loaded.barred.take() {
            return Err(error);
        }
        if !self.segments.are_whole() {
            self.segments = std::mem::take(&mut loaded.segments);
        }
        self.since_base = loaded.since_base;
        self.fresh = loaded.fresh;
        Ok(Some(loaded))
    }

    pub(crate) async fn run_row(&self, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.store.run(&self.thread, run).await
    }

    /// Says under which run what follows is written, where it is one that goes on.
    pub(crate) fn go_on_with(&mut self, run: RunId, row: RunRow) {
        self.row = Some((run, row));
    }

    /// Writes an accepted input, which moves the head. Returns its seq.
    pub(crate) async fn input(
        &mut self,
        run: &RunId,
        input: InputRecord,
        state: &S,
    ) -> Result<Seq, Written> {
        let fresh = self.fresh;
        for change in input.settled.iter().chain(&input.update) {
            self.touch(change);
        }
        let seq = if fresh { self.next.next() } else { self.next };
        let (step, status, at_ms) = (input.step, input.status, input.at_ms);
        let end = (status == Status::Finished).then_some(seq);
        self.row = Some((
            run.clone(),
            RunRow {
                input: seq,
                end,
                status,
            },
        ));
        let run = Text::from(run);
        let input = vec![Record::Input(input)];
        let sheet = self.boundary(input, (step, status, at_ms), run, state)?;
        Ok(self.put(sheet).await?)
    }

    /// Writes a closed superstep, which moves the head. Returns its seq.
    pub(crate) async fn commit(&mut self, commit: CommitRecord, state: &S) -> Result<Seq, Written> {
        let sheet = self.sheet(commit, state)?;
        Ok(self.put(sheet).await?)
    }

    /// Prepares the write of a closed superstep, which moves the head.
    #[inline]
    pub(crate) fn sheet(&mut self, commit: CommitRecord, state: &S) -> Result<Sheet, Written> {
        let at = (commit.step, commit.status, commit.at_ms);
        let records = vec![Record::Commit(commit)];
        let run = self.head.as_ref().map(|head| head.run.clone());
        self.boundary(records, at, run.unwrap_or_default(), state)
    }

    async fn put(&mut self, sheet: Sheet) -> Result<Seq, StoreError> {
        let Sheet { write, after } = sheet;
        self.send(write).await?;
        Ok(self.sent(after))
    }

    /// Has the store keep a write that is prepared.
    #[inline]
    pub(crate) fn send(&self, write: Write) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.append(write)
    }

    /// Takes up that a write is stored. Returns the seq of the head.
    #[inline]
    pub(crate) fn sent(&mut self, After { next, head, clean }: After) -> Seq {
        let seq = head.seq;
        self.next = next;
        self.head = Some(head);
        self.fresh &= !clean;
        seq
    }

    /// Notes what an update does to fields whose old items a base may refer to.
    pub(crate) fn touch(&mut self, change: &StoredChange) {
        if change.base != StoredBase::Keep {
            self.segments.touch::<S>(&change.field);
        }
    }

    /// Prepares the write of a boundary, whose record comes alone.
    #[inline]
    fn boundary(
        &mut self,
        mut records: Vec<Record>,
        (step, status, now): (u64, Status, u64),
        run: Text,
        state: &S,
    ) -> Result<Sheet, Written> {
        let mut schema = self.head.as_ref().map_or(self.next, |head| head.schema);
        let mut seq = match self.begins {
            Some(_) => self.next.next(),
            None => self.next,
        };
        if self.fresh {
            schema = seq;
            let record = Record::Schema(schema::schema(self.graph.tables()));
            records.insert(records.len() - 1, record);
            seq = seq.next();
        }
        for timer in std::mem::take(&mut self.timers) {
            records.insert(records.len() - 1, Record::Timer(timer));
            seq = seq.next();
        }
        let mut base = self.head.as_ref().map_or(seq, |head| head.base);
        let mut segments = Vec::new();
        self.since_base += 1;
        if self.fresh || self.since_base >= self.base_every {
            let (fields, fresh) = match self.segments.cut(state) {
                Ok(cut) => cut,
                Err(fault) => return Err(Written::Unstorable(fault, records.pop().map(Box::new))),
            };
            records.push(Record::Base(BaseRecord {
                at: seq.get(),
                fields,
            }));
            segments = fresh;
            base = seq.next();
            self.since_base = 0;
        }
        let graph = match &self.head {
            Some(head) if *head.graph == *self.graph.name() => head.graph.clone(),
            _ => Text::from(self.graph.name()),
        };
        let head = Head {
            graph,
            fingerprint: self.graph.fingerprint(),
            run,
            branch: self.branch(),
            seq,
            step,
            base,
            schema,
            status,
            created_ms: self.head.as_ref().map_or(now, |head| head.created_ms),
            updated_ms: now,
        };
        let row = self.end_of_run(&head);
        let mut sheet = self.write(records, segments, head, row);
        sheet.after.clean = true;
        Ok(sheet)
    }

    /// Has the next write begin a branch, which stands as this head says.
    pub(crate) fn begin(&mut self, branch: BranchRecord, head: Head) {
        self.begins = Some((branch, self.seq().unwrap_or_default()));
        self.head = Some(head);
        self.fresh = true;
    }

    /// Has the next boundary set timers in the same write. Returns the seq of the first.
    pub(crate) fn set(&mut self, timers: Vec<TimerRecord>) -> Seq {
        self.timers = timers;
        let before = u64::from(self.begins.is_some()) + u64::from(self.fresh);
        Seq::new(self.next.get() + before)
    }

    /// Writes a branch that was begun, and nothing else yet.
    pub(crate) async fn fork(&mut self) -> Result<(), StoreError> {
        let Some(head) = self.head.clone() else {
            return Ok(());
        };
        let row = self.end_of_run(&head);
        self.append(Vec::new(), Vec::new(), head, row).await
    }

    /// Moves the head to that of another branch, with the record that says how it stands.
    pub(crate) async fn switch(
        &mut self,
        stopped: StoppedRecord,
        head: Head,
    ) -> Result<(), StoreError> {
        let row = self.end_of_run(&head);
        let records = vec![Record::Stopped(stopped)];
        self.append(records, Vec::new(), head, row).await
    }

    /// Writes ends of tasks of the open superstep. Returns the seq of the first.
    pub(crate) async fn outcomes(
        &mut self,
        outcomes: Vec<OutcomeRecord>,
    ) -> Result<Seq, StoreError> {
        let first = self.next;
        for change in outcomes.iter().flat_map(|outcome| &outcome.changes) {
            self.touch(change);
        }
        let records = outcomes.into_iter().map(Record::Outcome).collect();
        self.inside(records, Status::Running).await?;
        Ok(first)
    }

    /// Writes that an open superstep is taken up again.
    pub(crate) async fn started(
        &mut self,
        step: u64,
        takeover: u32,
        at_ms: u64,
    ) -> Result<Seq, StoreError> {
        let seq = self.next;
        let started = StartedRecord {
            step,
            takeover,
            at_ms,
        };
        self.inside(vec![Record::Started(started)], Status::Running)
            .await?;
        Ok(seq)
    }

    /// Writes what tasks of the open superstep ask. Returns the seq of the first.
    pub(crate) async fn questions(
        &mut self,
        questions: Vec<QuestionRecord>,
    ) -> Result<Seq, StoreError> {
        let first = self.next;
        let records = questions.into_iter().map(Record::Question).collect();
        self.inside(records, Status::Running).await?;
        Ok(first)
    }

    /// Writes what tasks of the open superstep note of themselves: steps, timers. Returns the seq of
    /// the first.
    pub(crate) async fn noted(&mut self, records: Vec<Record>) -> Result<Seq, StoreError> {
        let first = self.next;
        self.inside(records, Status::Running).await?;
        Ok(first)
    }

    /// Writes answers; how the thread stands does not change by them. Returns the seq of the first.
    pub(crate) async fn answers(&mut self, records: Vec<Record>) -> Result<Seq, StoreError> {
        self.beside(records).await
    }

    /// Writes that outcomes of the open superstep are discarded; how the thread stands does not
    /// change by it. Returns its seq.
    pub(crate) async fn discarded(
        &mut self,
        discarded: DiscardedRecord,
    ) -> Result<Seq, StoreError> {
        self.beside(vec![Record::Discarded(discarded)]).await
    }

    /// Writes records that change nothing of how the thread stands. Returns the seq of the first.
    async fn beside(&mut self, records: Vec<Record>) -> Result<Seq, StoreError> {
        let first = self.next;
        let status = self
            .head
            .as_ref()
            .map_or(Status::Paused, |head| head.status);
        self.inside(records, status).await?;
        Ok(first)
    }

    /// Writes that the call ends inside a superstep, with an outcome that was not written yet.
    pub(crate) async fn stopped(
        &mut self,
        outcome: Option<OutcomeRecord>,
        stopped: StoppedRecord,
    ) -> Result<Seq, StoreError> {
        let mut records: Vec<Record> = outcome.into_iter().map(Record::Outcome).collect();
        let status = stopped.status;
        records.push(Record::Stopped(stopped));
        let seq = Seq::new(self.next.get() + records.len() as u64 - 1);
        self.inside(records, status).await?;
        Ok(seq)
    }

    /// Writes records that do not move the head.
    async fn inside(&mut self, records: Vec<Record>, status: Status) -> Result<(), StoreError> {
        let Some(head) = &self.head else {
            return Ok(());
        };
        let head = Head {
            status,
            updated_ms: now_ms(),
            ..head.clone()
        };
        let row = self.end_of_run(&head);
        self.append(records, Vec::new(), head, row).await
    }

    /// The run's row, where it changes: at its input, at its end, when it stops or goes on.
    fn end_of_run(&mut self, head: &Head) -> Option<(RunId, RunRow)> {
        let (run, row) = self.row.as_mut()?;
        let end = (head.status == Status::Finished).then_some(head.seq);
        let is_input = row.input == head.seq;
        if row.status == head.status && row.end == end && !is_input {
            return None;
        }
        row.status = head.status;
        row.end = end;
        Some((run.clone(), row.clone()))
    }

    async fn append(
        &mut self,
        records: Vec<Record>,
        segments: Vec<([u8; 16], Vec<u8>)>,
        head: Head,
        run: Option<(RunId, RunRow)>,
    ) -> Result<(), StoreError> {
        let sheet = self.write(records, segments, head, run);
        self.put(sheet).await?;
        Ok(())
    }

    #[inline]
    fn write(
        &mut self,
        mut records: Vec<Record>,
        segments: Vec<([u8; 16], Vec<u8>)>,
        head: Head,
        run: Option<(RunId, RunRow)>,
    ) -> Sheet {
        let mut expected = self.seq().unwrap_or_default();
        if let Some((branch, from)) = self.begins.take() {
            records.insert(0, Record::Branch(branch));
            expected = from;
        }
        let after = After {
            next: Seq::new(self.next.get() + records.len() as u64),
            head: head.clone(),
            clean: false,
        };
        let write = Write {
            fulfils: self.fulfils.take(),
            thread: self.thread.clone(),
            epoch: self.claim.epoch,
            branch: head.branch,
            expected,
            first: self.next,
            records,
            segments,
            head,
            run,
        };
        Sheet { write, after }
    }

    fn branch(&self) -> Branch {
        self.head
            .as_ref()
            .map(|head| head.branch)
            .unwrap_or_default()
    }
}

/// A fingerprint as people read it.
fn hex(fingerprint: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*fingerprint))
}

/// A write that is prepared, and how the log stands after it.
pub(crate) struct Sheet {
    pub(crate) write: Write,
    pub(crate) after: After,
}

/// How a log stands after a write.
pub(crate) struct After {
    next: Seq,
    head: Head,
    /// Whether it has a schema and a base then.
    clean: bool,
}

/// Why a boundary was not written.
pub(crate) enum Written {
    Store(StoreError),
    /// With the record that was to be written.
    Unstorable(Unstorable, Option<Box<Record>>),
}

impl From<StoreError> for Written {
    fn from(error: StoreError) -> Self {
        Written::Store(error)
    }
}

/// Waits for a thread that another call holds.
async fn wait(
    store: &dyn CheckpointStore,
    thread: &ThreadId,
    time: std::time::Duration,
) -> Result<Claim, StoreError> {
    let deadline = after(time);
    let mut pause = std::time::Duration::from_millis(1);
    loop {
        match store.claim(thread, Take::IfFree).await {
            Err(StoreError::Busy { .. }) if tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(std::time::Duration::from_millis(50));
            }
            claimed => return claimed,
        }
    }
}
