//! From a plan to a real graph.

use std::sync::Arc;
use std::time::Duration;

use milepost::{
    BuildError, Builder, Context, End, Exits, Graph, JoinRef, Joining, NodeRef, Policy, Retry,
    Snapshot, Target, WorkerRef,
};

use crate::book::{self, Book};
use crate::interpreter::{join_name, node_name};
use crate::plan::{Fails, Join, Out, Rule, Time, To};
use crate::world::World;

#[derive(Clone, Copy, Debug, Exits)]
enum Exit {
    A,
    B,
}

impl Exit {
    fn of(second: bool) -> Self {
        if second { Exit::B } else { Exit::A }
    }
}

/// A node of one of four types.
#[derive(Clone, Copy)]
enum Place {
    Node(NodeRef<Book, ()>),
    Exits(NodeRef<Book, Exit>),
    Worker(WorkerRef<Book, u64, ()>),
    WorkerExits(WorkerRef<Book, u64, Exit>),
}

/// Does the same with a place of whichever type.
macro_rules! with {
    ($place:expr, $name:ident => $body:expr) => {
        match $place {
            Place::Node($name) => $body,
            Place::Exits($name) => $body,
            Place::Worker($name) => $body,
            Place::WorkerExits($name) => $body,
        }
    };
}

pub(crate) fn graph(world: &Arc<World>) -> Result<Graph<Book>, BuildError> {
    let life = world.another_life();
    of_life(world, life)
}

fn of_life(world: &Arc<World>, life: u64) -> Result<Graph<Book>, BuildError> {
    let plan = &world.plan;
    let inner: Vec<_> = world
        .inner
        .iter()
        .map(|inner| inner.as_ref().map(|inner| of_life(inner, life)).transpose())
        .collect::<Result<_, _>>()?;
    let mut g = Graph::builder("plan");
    let places: Vec<Place> = (0..plan.nodes.len())
        .zip(inner)
        .map(|(node, inner)| match inner {
            Some(inner) => nested(&mut g, world, node, inner),
            None => declare(&mut g, world, life, node),
        })
        .collect();
    let mut joins: Vec<JoinRef<Book>> = Vec::new();
    for (number, join) in plan.joins.iter().enumerate() {
        let to = target(&places, &joins, &join.to);
        let joining = wait(&mut g, &places, join, to);
        joins.push(joining.named(join_name(number)).place());
    }
    g.start(target(&places, &joins, &plan.start));
    for (node, place) in plan.nodes.iter().zip(&places) {
        let to = |way: &[To]| target(&places, &joins, way);
        match (&node.out, *place) {
            (Out::Edge(way), Place::Node(from)) => g.edge(from, to(way)),
            (Out::Edge(way), Place::Worker(from)) => g.edge(from, to(way)),
            (Out::Branch { a, b, by }, Place::Node(from)) => {
                g.branch(from, choose(by), |exit| to(exit.way(a, b)));
            }
            (Out::Branch { a, b, by }, Place::Worker(from)) => {
                g.branch(from, choose(by), |exit| to(exit.way(a, b)));
            }
            (Out::Exits { a, b, .. }, Place::Exits(from)) => {
                g.wire(from, |exit| to(exit.way(a, b)));
            }
            (Out::Exits { a, b, empty, .. }, Place::WorkerExits(from)) => {
                g.wire(from, |exit| to(exit.way(a, b)))
                    .when_empty(to(empty));
            }
            _ => unreachable!("a place has the type of its node"),
        }
    }
    g.build()
}

impl Exit {
    fn way<'w>(self, a: &'w [To], b: &'w [To]) -> &'w [To] {
        match self {
            Exit::A => a,
            Exit::B => b,
        }
    }
}

fn choose(by: &Rule) -> impl Fn(&Book) -> Result<Exit, milepost::NodeError> + Send + Sync + use<> {
    let by = by.clone();
    move |state| Ok(Exit::of(book::is_second(&by, state, 0)))
}

fn declare(g: &mut Builder<Book>, world: &Arc<World>, life: u64, number: usize) -> Place {
    let node = &world.plan.nodes[number];
    let (name, has_exits) = (node_name(number), matches!(node.out, Out::Exits { .. }));
    macro_rules! node {
        ($exit:expr) => {{
            let world = Arc::clone(world);
            g.node(name, move |seen: Snapshot<Book>, cx: Context| {
                let did = Arc::clone(&world).act(life, number, 0, seen, cx);
                async move { Ok(did.await?.output($exit)) }
            })
        }};
    }
    macro_rules! worker {
        ($exit:expr) => {{
            let held = Arc::clone(world);
            let worker = g.worker(
                name,
                move |payload: u64, seen: Snapshot<Book>, cx: Context| {
                    let did = Arc::clone(&held).act(life, number, payload, seen, cx);
                    async move { Ok(did.await?.output($exit)) }
                },
            );
            if node.does.tolerated {
                g.worker_error(worker, move |payload, _| {
                    book::tolerated(number, *payload).update()
                });
            }
            worker
        }};
    }
    let place = match (node.worker, has_exits) {
        (false, false) => Place::Node(node!(|_| ())),
        (false, true) => Place::Exits(node!(Exit::of)),
        (true, false) => Place::Worker(worker!(|_| ())),
        (true, true) => Place::WorkerExits(worker!(Exit::of)),
    };
    if let Fails::Tries(tries) = node.does.fails {
        let policy = Policy::default().retry(Retry {
            max_attempts: tries + 1,
            first_wait: Duration::from_millis(1),
            ..Retry::default()
        });
        with!(place, place => g.policy(place, policy));
    }
    place
}

/// A node that runs a graph.
fn nested(g: &mut Builder<Book>, world: &Arc<World>, node: usize, inner: Graph<Book>) -> Place {
    let (plan, name) = (Arc::clone(&world.plan), node_name(node));
    let enter = |payload: u64, seen: &Book| book::input(book::enter(seen, payload)).update();
    let leave = move |payload: u64, inner: &Book| book::leave(&plan, node, payload, inner).update();
    match world.plan.nodes[node].worker {
        false => Place::Node(g.subgraph(
            name,
            inner,
            move |seen: &Book| enter(0, seen),
            move |inner: &Book| leave(0, inner),
        )),
        true => Place::Worker(g.subgraph_worker(
            name,
            inner,
            move |payload: &u64, seen: &Book| enter(*payload, seen),
            move |payload: &u64, inner: &Book| leave(*payload, inner),
        )),
    }
}

fn target(places: &[Place], joins: &[JoinRef<Book>], way: &[To]) -> Target<Book> {
    let to = |to: &To| match to {
        To::Join(join) => Target::from(joins[*join]),
        To::Node(node) => match places[*node] {
            Place::Node(node) => Target::from(node),
            Place::Exits(node) => Target::from(node),
            _ => unreachable!("a worker has payloads"),
        },
        To::Each(node, count) => {
            let count = count.clone();
            let payloads = move |state: &Book| book::payloads(&count, state);
            match places[*node] {
                Place::Worker(worker) => worker.each(payloads),
                Place::WorkerExits(worker) => worker.each(payloads),
                _ => unreachable!("only a worker has payloads"),
            }
        }
    };
    let mut all = way.iter().map(to);
    match all.next() {
        None => End.into(),
        Some(first) => all.fold(first, Target::and),
    }
}

fn wait<'b>(
    g: &'b mut Builder<Book>,
    places: &[Place],
    join: &Join,
    to: Target<Book>,
) -> Joining<'b, Book> {
    macro_rules! wait {
        ($members:expr) => {
            match join.gathers {
                true => g.gather($members, to),
                false => g.join($members, to),
            }
        };
    }
    let member = |place: usize| places[join.members[place]];
    let mut joining = match join.members.len() {
        1 => with!(member(0), a => wait!((a,))),
        2 => with!(member(0), a => with!(member(1), b => wait!((a, b)))),
        _ => with!(member(0), a => with!(member(1), b => with!(member(2), c => wait!((a, b, c))))),
    };
    if let Some(members) = join.at_least {
        joining = joining.at_least(members);
    }
    if let Some(must) = join.must {
        joining = with!(places[must], a => joining.must((a,)));
    }
    match join.timeout {
        Some(Time::None) => joining.timeout(Duration::ZERO),
        Some(Time::Long) => joining.timeout(Duration::from_secs(3600)),
        None => joining,
    }
}
