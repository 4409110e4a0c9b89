//! Describing a graph.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::check;
use super::compiled::{Choose, Entry, Graph, Inside, Out, Tolerate};
use super::error::{BuildError, Problem};
use super::join::Draft;
use super::target::{At, Dest, IntoTarget, NodeRef, OneWay, Place, Target, WorkerRef};
use super::view::NodeKind;
use crate::ids::NodeName;
use crate::node::{
    AskCodec, Body, Context, Exits, FnBody, IntoOutput, Node, NodeBody, NodeError, PayloadCodec,
    Policy, WorkerBody,
};
use crate::state::{Snapshot, State};

/// Describes a graph: nodes, and what runs after what. [`build`](Self::build) checks it.
pub struct Builder<S: State> {
    pub(super) name: String,
    pub(super) id: u64,
    pub(super) nodes: Vec<Entry<S>>,
    pub(super) targets: Vec<Vec<Dest<S>>>,
    pub(super) start: Option<u32>,
    pub(super) joins: Vec<Draft>,
    pub(super) problems: Vec<Problem>,
}

impl<S: State> fmt::Debug for Builder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field(
                "nodes",
                &self.nodes.iter().map(|node| &node.name).collect::<Vec<_>>(),
            )
            .finish_non_exhaustive()
    }
}

impl<S: State> Builder<S> {
    pub(super) fn new(name: String) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut problems = Vec::new();
        if name.is_empty() {
            problems.push(Problem::NoName);
        }
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            name,
            id,
            nodes: Vec::new(),
            targets: Vec::new(),
            start: None,
            joins: Vec::new(),
            problems,
        }
    }

    /// Adds a node: an async function of a snapshot and a context that returns an update, or an
    /// update with an exit.
    ///
    /// A closure that holds something clones it for each call, since a call may outlive it:
    /// `move |state, cx| { let client = client.clone(); async move { .. } }`. A struct that
    /// implements [`Node`] holds it without that: see [`object`](Self::object).
    pub fn node<F, Fut, R>(&mut self, name: impl AsRef<str>, node: F) -> NodeRef<S, R::Exits>
    where
        F: Fn(Snapshot<S>, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, NodeError>> + Send + 'static,
        R: IntoOutput<S>,
    {
        NodeRef::new(self.add::<R>(name.as_ref(), Arc::new(FnBody(node)), None))
    }

    /// Adds a struct that is a node.
    pub fn object<N: Node<S>>(
        &mut self,
        name: impl AsRef<str>,
        node: N,
    ) -> NodeRef<S, <N::Output as IntoOutput<S>>::Exits> {
        let body = Arc::new(NodeBody(Arc::new(node)));
        NodeRef::new(self.add::<N::Output>(name.as_ref(), body, None))
    }

    /// Adds a worker: an async function of a payload, a snapshot and a context. One task runs for
    /// each payload; see [`WorkerRef::each`].
    pub fn worker<P, F, Fut, R>(
        &mut self,
        name: impl AsRef<str>,
        worker: F,
    ) -> WorkerRef<S, P, R::Exits>
    where
        P: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
        F: Fn(P, Snapshot<S>, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, NodeError>> + Send + 'static,
        R: IntoOutput<S>,
    {
        let body = Arc::new(WorkerBody::<P, F>(worker, PhantomData));
        let codec = PayloadCodec::of::<P>();
        WorkerRef::new(self.add::<R>(name.as_ref(), body, Some(codec)))
    }

    /// Says what a node is for; pictures show it. Default: [`NodeKind::Human`] for one that asks,
    /// [`NodeKind::Function`] for the others.
    pub fn kind(&mut self, node: impl Place<S>, kind: NodeKind) {
        if let Some(entry) = self.entry(node.at()) {
            entry.kind = kind;
        }
    }

    /// Sets a node's policy: retry, timeout, concurrency, blocking.
    pub fn policy(&mut self, node: impl Place<S>, policy: Policy) {
        if let Some(entry) = self.entry(node.at()) {
            entry.policy = policy;
        }
    }

    /// Tolerates failing tasks of a worker: after its last try, a failed one counts as finished
    /// with the update that `tolerate` makes of its payload and error. It takes no exit.
    pub fn worker_error<P: 'static, E: Exits>(
        &mut self,
        worker: WorkerRef<S, P, E>,
        tolerate: impl Fn(&P, &NodeError) -> S::Update + Send + Sync + 'static,
    ) {
        let tolerate: Tolerate<S> = Arc::new(move |payload, error| {
            payload.get::<P>().map(|payload| tolerate(payload, error))
        });
        if let Some(entry) = self.entry(worker.at) {
            entry.tolerate = Some(tolerate);
        }
    }

    /// Says what runs first.
    pub fn start(&mut self, to: impl IntoTarget<S>) {
        let target = self.target(to.into_target());
        if self.start.replace(target).is_some() {
            self.problems.push(Problem::TwoStarts);
        }
    }

    /// Leads from a node without exits to a target. Out of a worker, the edge is taken once, after
    /// all its tasks.
    pub fn edge(&mut self, from: impl OneWay<S>, to: impl IntoTarget<S>) {
        let target = self.target(to.into_target());
        self.leave(from.at(), Out::Edge(target));
    }

    /// Leads from each exit of a node to a target. `to` is asked once for each exit, now: the
    /// picture has every edge, and a missing arm of its `match` does not compile. Out of a worker,
    /// the targets of all its tasks are taken together, each node once.
    pub fn wire<E: Exits>(
        &mut self,
        from: impl Place<S, Exits = E>,
        to: impl Fn(E) -> Target<S>,
    ) -> Wiring<'_, S> {
        let targets = E::ALL.iter().map(|exit| self.target(to(*exit))).collect();
        self.leave(from.at(), Out::Exits(targets));
        Wiring {
            at: from.at(),
            builder: self,
        }
    }

    /// Leads from a node without exits to where `choose` says, which is asked once for each
    /// execution of the node, on the merged state of its superstep. Its answer is stored with the
    /// commit: no crash and no new program makes it answer again for the same superstep.
    pub fn branch<E: Exits>(
        &mut self,
        from: impl OneWay<S>,
        choose: impl Fn(&S) -> Result<E, NodeError> + Send + Sync + 'static,
        to: impl Fn(E) -> Target<S>,
    ) {
        if let Some(entry) = self.entry(from.at()) {
            let name = entry.name.clone();
            self.check_exits::<E>(&name);
        }
        let targets = E::ALL.iter().map(|exit| self.target(to(*exit))).collect();
        let labels = E::ALL.iter().map(|exit| exit.label()).collect();
        let choose: Choose<S> = Arc::new(move |state| choose(state).map(Exits::index));
        self.leave(
            from.at(),
            Out::Branch {
                choose,
                labels,
                targets,
            },
        );
    }

    /// Checks the description and compiles it.
    ///
    /// # Errors
    /// [`BuildError`] lists everything that is wrong, with names.
    pub fn build(self) -> Result<Graph<S>, BuildError> {
        check::compile(self)
    }

    /// Adds a node that runs a graph.
    pub(crate) fn add_inner<R: IntoOutput<S>>(
        &mut self,
        name: &str,
        body: Arc<dyn Body<S>>,
        payload: Option<PayloadCodec>,
        inner: Inside,
    ) -> At {
        let at = self.add::<R>(name, body, payload);
        if let Some(entry) = self.entry(at) {
            entry.kind = NodeKind::Subgraph;
            entry.inner = Some(inner);
        }
        at
    }

    fn add<R: IntoOutput<S>>(
        &mut self,
        name: &str,
        body: Arc<dyn Body<S>>,
        payload: Option<PayloadCodec>,
    ) -> At {
        let name = NodeName::new(name).unwrap_or_else(|why| {
            self.problems.push(Problem::Name {
                graph: self.name.clone(),
                why,
            });
            let place = format!("node number {}", self.nodes.len() + 1);
            NodeName::new(place).expect("it is short and not empty")
        });
        let node = self.nodes.len() as u32;
        self.check_exits::<R::Exits>(&name);
        let exits: Vec<_> = R::Exits::ALL.iter().map(|exit| exit.label()).collect();
        let exits = if exits == [""] { Vec::new() } else { exits };
        let asks = AskCodec::of::<R::Question>();
        self.nodes.push(Entry {
            name,
            // What it is for is plain, unless its author says otherwise.
            kind: match asks {
                Some(_) => NodeKind::Human,
                None => NodeKind::default(),
            },
            body,
            payload,
            asks,
            inner: None,
            exits,
            policy: Policy::default(),
            tolerate: None,
            cache: None,
            settle: None,
            catches: Vec::new(),
            out: None,
            empty: None,
            reads: None,
            writes: None,
        });
        At {
            node,
            builder: self.id,
        }
    }

    /// Exits are nearly always derived; those written by hand are checked here.
    fn check_exits<E: Exits>(&mut self, node: &NodeName) {
        let all = E::ALL;
        let reason = if all.is_empty() {
            "there is none, so it could never be left"
        } else if all
            .iter()
            .enumerate()
            .any(|(place, exit)| exit.index() != place)
        {
            "`index` is not the place in `ALL`"
        } else if all.len() > 1 && all.iter().any(|exit| exit.label().is_empty()) {
            "one has no label"
        } else if (1..all.len())
            .any(|end| all[..end].iter().any(|one| one.label() == all[end].label()))
        {
            "two have the same label"
        } else {
            return;
        };
        let node = node.clone();
        self.problems.push(Problem::Exits { node, reason });
    }

    pub(super) fn entry(&mut self, at: At) -> Option<&mut Entry<S>> {
        if at.builder != self.id {
            self.problems.push(Problem::Foreign);
            return None;
        }
        self.nodes.get_mut(at.node as usize)
    }

    pub(super) fn target(&mut self, target: Target<S>) -> u32 {
        let mut dests = Vec::with_capacity(target.dests.len());
        for (builder, dest) in target.dests {
            match builder {
                Some(builder) if builder != self.id => self.problems.push(Problem::Foreign),
                _ => dests.push(dest),
            }
        }
        self.targets.push(dests);
        self.targets.len() as u32 - 1
    }

    fn leave(&mut self, from: At, out: Out<S>) {
        let Some(entry) = self.entry(from) else {
            return;
        };
        if entry.out.replace(out).is_some() {
            let node = entry.name.clone();
            self.problems.push(Problem::WiredTwice { node });
        }
    }
}

/// A wiring that was just made.
#[derive(Debug)]
pub struct Wiring<'b, S: State> {
    builder: &'b mut Builder<S>,
    at: At,
}

impl<S: State> Wiring<'_, S> {
    /// Says where a worker leads when none of its tasks has taken an exit: a fan-out over nothing,
    /// or one whose tasks have all failed and were tolerated.
    pub fn when_empty(self, to: impl IntoTarget<S>) {
        let target = self.builder.target(to.into_target());
        if let Some(entry) = self.builder.entry(self.at) {
            entry.empty = Some(target);
        }
    }
}
