//! Graphs as nodes: how a builder takes one.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::body::{Enter, Leave, Nested};
use crate::graph::{At, Builder, Graph, Inside, NodeRef, WorkerRef};
use crate::node::{
    Exits, IntoOutput, NoQuestion, NodeError, Output, Payload, PayloadCodec, Returned,
};
use crate::state::{Field, Reducer, State};

impl<S: State> Builder<S> {
    /// Adds a node that runs a graph with a state of its own.
    ///
    /// `enter` makes the inner graph's input of the state before; `leave` makes an update, or an
    /// update with an exit, of its last state. Both are asked once for each entry, so nothing that
    /// went in comes out twice. Each entry begins with a fresh inner state; see
    /// [`subgraph_kept`](Self::subgraph_kept) for one that stays.
    ///
    /// Questions, events, failures and cancellation of the inner graph are those of this run, under
    /// paths that name this node first: `3:check[0]/1:model[0]`. After a crash it goes on at its own
    /// last finished node. It may execute the smaller of [`Policy::step_limit`](crate::Policy) and of
    /// what remained of the call's supersteps when it was entered; for this graph it is one.
    ///
    /// ```
    /// use milepost::{Context, End, Graph, NodeError, Snapshot, State};
    ///
    /// #[derive(Clone, Default, State)]
    /// struct Draft {
    ///     text: String,
    /// }
    ///
    /// #[derive(Clone, Default, State)]
    /// struct Report {
    ///     title: String,
    ///     body: String,
    /// }
    ///
    /// async fn write(draft: Snapshot<Draft>, _: Context) -> Result<DraftUpdate, NodeError> {
    ///     Ok(Draft::update().text(format!("All about {}.", draft.text)))
    /// }
    ///
    /// let mut inner = Graph::builder("draft");
    /// let write = inner.node("write", write);
    /// inner.start(write);
    /// inner.edge(write, End);
    ///
    /// let mut g = Graph::builder("report");
    /// let draft = g.subgraph(
    ///     "draft",
    ///     inner.build()?,
    ///     |report: &Report| Draft::update().text(report.title.clone()),
    ///     |draft| Report::update().body(draft.text.clone()),
    /// );
    /// g.start(draft);
    /// g.edge(draft, End);
    /// let report = g.build()?;
    /// # let _ = report;
    /// # Ok::<(), milepost::BuildError>(())
    /// ```
    pub fn subgraph<I: State, R: IntoOutput<S, Question = NoQuestion>>(
        &mut self,
        name: impl AsRef<str>,
        graph: Graph<I>,
        enter: impl Fn(&S) -> I::Update + Send + Sync + 'static,
        leave: impl Fn(&I) -> R + Send + Sync + 'static,
    ) -> NodeRef<S, R::Exits> {
        let enter: Enter<S, I> = Box::new(move |_, state| Ok((I::default(), enter(state))));
        let leave: Leave<S, I> = Box::new(move |_, inner| left(leave(inner)));
        NodeRef::new(self.nest::<I, R>(name.as_ref(), graph, (enter, leave), None))
    }

    /// Adds a node that runs a graph whose state stays from one entry to the next, in a field of
    /// this graph's state: there it is seen, forked, patched and pruned like any other value.
    ///
    /// An entry begins with the field's value, into which the input that `enter` makes is merged.
    /// When the inner graph has come to its end, the field is set to its last state, beside what
    /// `leave` says.
    pub fn subgraph_kept<I, F, R>(
        &mut self,
        name: impl AsRef<str>,
        graph: Graph<I>,
        field: Field<S, I, F>,
        enter: impl Fn(&S) -> I::Update + Send + Sync + 'static,
        leave: impl Fn(&I) -> R + Send + Sync + 'static,
    ) -> NodeRef<S, R::Exits>
    where
        I: State,
        F: Reducer<I> + Send + Sync,
        R: IntoOutput<S, Question = NoQuestion>,
    {
        let enter: Enter<S, I> =
            Box::new(move |_, state| Ok((field.get(state).clone(), enter(state))));
        let leave: Leave<S, I> = Box::new(move |_, inner| {
            let mut returned = left(leave(inner))?;
            if let Returned::Done { update, .. } = &mut returned {
                field.overwrite(update, inner.clone());
            }
            Ok(returned)
        });
        NodeRef::new(self.nest::<I, R>(name.as_ref(), graph, (enter, leave), None))
    }

    /// Adds a worker that runs a graph: one instance for each payload, each with a state, a path and
    /// a log of its own, side by side. See [`subgraph`](Self::subgraph).
    pub fn subgraph_worker<P, I, R>(
        &mut self,
        name: impl AsRef<str>,
        graph: Graph<I>,
        enter: impl Fn(&P, &S) -> I::Update + Send + Sync + 'static,
        leave: impl Fn(&P, &I) -> R + Send + Sync + 'static,
    ) -> WorkerRef<S, P, R::Exits>
    where
        P: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
        I: State,
        R: IntoOutput<S, Question = NoQuestion>,
    {
        let enter: Enter<S, I> =
            Box::new(move |payload, state| Ok((I::default(), enter(typed::<P>(payload)?, state))));
        let leave: Leave<S, I> =
            Box::new(move |payload, inner| left(leave(typed::<P>(payload)?, inner)));
        let codec = Some(PayloadCodec::of::<P>());
        WorkerRef::new(self.nest::<I, R>(name.as_ref(), graph, (enter, leave), codec))
    }

    fn nest<I: State, R: IntoOutput<S>>(
        &mut self,
        name: &str,
        graph: Graph<I>,
        (enter, leave): (Enter<S, I>, Leave<S, I>),
        payload: Option<PayloadCodec>,
    ) -> At {
        let inside = Inside::of(graph.clone());
        let body = Arc::new(Nested::new(graph, enter, leave));
        self.add_inner::<R>(name, body, payload, inside)
    }
}

/// What comes of an entry, without its type.
fn left<S: State, R: IntoOutput<S, Question = NoQuestion>>(
    output: R,
) -> Result<Returned<S::Update>, NodeError> {
    match output.into_output() {
        Output::Done(update, exit) => Ok(Returned::Done {
            update,
            exit: exit.index() as u32,
        }),
        Output::Ask(_) => Err(NodeError::invalid(
            "a subgraph is left with an update: what is to be asked, a node inside asks",
        )),
    }
}

fn typed<P: 'static>(payload: Option<&Payload>) -> Result<&P, NodeError> {
    payload
        .and_then(Payload::get::<P>)
        .ok_or_else(|| NodeError::invalid("a worker was started without its payload"))
}
