//! Station 1, load, for what a program with an older version of the state has written.
//!
//! In comes a base and the records after it, out comes a state of the present type: the records are
//! read and merged by the old type with its own reducers, and the state that they give is lifted as a
//! whole. Nothing is written, so the old program can still go on with the thread.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::future::BoxFuture;

use super::RunError;
use super::replay::Reader;
use crate::graph::field_view;
use crate::ids::{Branch, Seq, ThreadId};
use crate::node::{ErrorClass, NodeError};
use crate::state::{MigrateFault, Older, State, panic_message};
use crate::store::{BaseRecord, CheckpointStore, Record, SchemaRecord};

/// How many records are read at once.
const PAGE: usize = 256;

/// A position that was written with an older version.
#[derive(Clone, Copy)]
pub(super) struct Lift<'r> {
    pub(super) store: &'r dyn CheckpointStore,
    pub(super) thread: &'r ThreadId,
    pub(super) schema: &'r SchemaRecord,
    pub(super) base: &'r BaseRecord,
    pub(super) branch: Branch,
    pub(super) at: Seq,
}

impl<'r, S: State> Older<S> for Lift<'r> {
    type Out = BoxFuture<'r, Result<S, RunError>>;

    fn visit<O: State>(
        self,
        lift: impl Fn(O) -> Result<S, MigrateFault> + Send + Sync + 'static,
    ) -> Self::Out {
        Box::pin(async move {
            let old = self.read::<O>().await?;
            let lifted = catch_unwind(AssertUnwindSafe(|| lift(old)));
            let error = match lifted {
                Ok(Ok(state)) => return Ok(state),
                Ok(Err(fault)) => NodeError::permanent(fault),
                Err(panic) => {
                    let what = format!("it panicked: {}", panic_message(&*panic));
                    NodeError::new(ErrorClass::Panicked, what)
                }
            };
            Err(RunError::Migrate {
                thread: self.thread.clone(),
                at: self.at,
                state: S::NAME,
                from: O::VERSION,
                to: S::VERSION,
                error,
            })
        })
    }
}

impl Lift<'_> {
    /// The state at the position, of the type of its version or of one after it.
    async fn read<O: State>(self) -> Result<O, RunError> {
        if self.schema.version < O::VERSION
            && let Some(older) = O::older(self)
        {
            return older.await;
        }
        let mut reader = Reader::<O, ()>::new(self.store, self.thread, (), self.at);
        let fields: Vec<_> = O::fields().iter().map(|field| field_view(*field)).collect();
        let replays = Seq::new(self.base.at) != self.at;
        let (_, reducers) = reader.compare_fields(self.schema, &fields, replays)?;
        let mut state = reader.base(self.base, &reducers).await?;
        let mut from = Seq::new(self.base.at);
        while from <= self.at {
            let page = self.store.records(self.thread, from, PAGE).await?;
            let Some(last) = page.last() else { break };
            from = last.seq.next();
            let own = |stored: &&crate::store::Stored| {
                stored.branch == self.branch && stored.seq <= self.at
            };
            for stored in page.iter().filter(own) {
                let replay = stored.seq.get() > self.base.at;
                match &*stored.record {
                    Record::Outcome(_) => {
                        let record = std::sync::Arc::clone(&stored.record);
                        reader.outcomes.insert(stored.seq.get(), record);
                    }
                    Record::Input(input) if replay => {
                        reader.replay_input(&mut state, input, stored.seq)?;
                    }
                    Record::Commit(commit) if replay => {
                        reader.replay_commit(&mut state, commit, stored.seq)?;
                    }
                    _ => {}
                }
            }
        }
        Ok(state)
    }
}
