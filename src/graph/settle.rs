//! Rules for tasks that never finish.

use std::sync::Arc;

use super::builder::Builder;
use super::target::{NodeRef, Place, WorkerRef};
use crate::ids::TaskPath;
use crate::node::{Exits, KeptStep, NodeError, Payload, Unfinished, WhyUnfinished};
use crate::state::State;

/// What is known of a task that never finished.
pub(crate) struct Leftover<'a> {
    pub(crate) task: &'a TaskPath,
    pub(crate) payload: Option<&'a Payload>,
    pub(crate) why: &'a WhyUnfinished,
    pub(crate) steps: &'a [KeptStep],
}

/// Makes an update of a state and a task that never finished; none if its payload is of another
/// type.
pub(crate) type Settle<S> =
    Arc<dyn Fn(&S, &Leftover<'_>) -> Option<Result<<S as State>::Update, NodeError>> + Send + Sync>;

/// A node or a worker, of which a task may never finish.
pub trait Settled<S>: Place<S> {
    /// What a task of it is given: a worker's payload, `()` for a plain node.
    type Payload: 'static;

    #[doc(hidden)]
    fn payload(payload: Option<Given<'_>>) -> Option<&Self::Payload>;
}

/// A payload, without its type.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Given<'a>(&'a Payload);

impl std::fmt::Debug for Given<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Given").finish_non_exhaustive()
    }
}

impl<S, E: Exits> Settled<S> for NodeRef<S, E> {
    type Payload = ();

    fn payload(_: Option<Given<'_>>) -> Option<&()> {
        Some(&())
    }
}

impl<S, P: 'static, E: Exits> Settled<S> for WorkerRef<S, P, E> {
    type Payload = P;

    fn payload(payload: Option<Given<'_>>) -> Option<&P> {
        payload?.0.get::<P>()
    }
}

impl<S: State> Builder<S> {
    /// Settles tasks of a node that never finish: where an input closes a superstep that a failed,
    /// cancelled or waiting run has left open, the outcomes of the finished tasks are merged, and for
    /// each unfinished one the update that `rule` makes of the state before and of the task. It is
    /// stored with the input, and `rule` is not asked again. Without a rule, nothing is left of such a
    /// task.
    ///
    /// The rule is a pure function. What it gives is merged after the finished outcomes, all of a
    /// superstep in one go. If it fails, panics, or gives what cannot be merged, the input is refused
    /// and nothing is changed.
    ///
    /// ```
    /// # use milepost::{Append, Context, End, Graph, NodeError, Snapshot, State, WhyUnfinished};
    /// #[derive(Clone, Debug, Default, State)]
    /// struct Notes {
    ///     #[reduce(Append)]
    ///     notes: Vec<String>,
    /// }
    ///
    /// # async fn read(topic: String, _: Snapshot<Notes>, _: Context) -> Result<NotesUpdate, NodeError> {
    /// #     Ok(Notes::update().notes(vec![topic]))
    /// # }
    /// let mut g = Graph::<Notes>::builder("notes");
    /// let read = g.worker("read", read);
    /// g.settle(read, |_, left| {
    ///     let why = match left.why() {
    ///         WhyUnfinished::Failed(error) => error.message.clone(),
    ///         _ => "it may or may not have been read".to_owned(),
    ///     };
    ///     Ok(Notes::update().notes(vec![format!("{}: {why}", left.payload())]))
    /// });
    /// # g.start(read.each(|_: &Notes| vec!["tides".to_owned()]));
    /// # g.edge(read, End);
    /// # g.build()?;
    /// # Ok::<(), milepost::BuildError>(())
    /// ```
    pub fn settle<N: Settled<S>>(
        &mut self,
        node: N,
        rule: impl Fn(&S, &Unfinished<'_, N::Payload>) -> Result<S::Update, NodeError>
        + Send
        + Sync
        + 'static,
    ) {
        let settle: Settle<S> = Arc::new(move |state, left| {
            let payload = N::payload(left.payload.map(Given))?;
            let unfinished = Unfinished::new(left.task, payload, left.why, left.steps);
            Some(rule(state, &unfinished))
        });
        if let Some(entry) = self.entry(node.at()) {
            entry.settle = Some(settle);
        }
    }
}
