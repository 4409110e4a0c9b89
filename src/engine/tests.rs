//! A position in, the next position out: no runtime, no store, no clock.

use std::sync::Arc;
use std::time::Duration;

use super::position::{Ended, OpenJoin, Outcome, Outcomes, Position};
use super::reduce::{Unreduced, reduce};
use super::route::{RouteFault, route, start};
use super::{Planned, Unsatisfied, joins_at_start, plan};
use crate::{Builder, Context, End, Exits, Graph, NodeError, NodeRef, Snapshot, State};

#[derive(Clone, Debug, Default, State)]
struct Doc {
    n: u64,
}

#[derive(Clone, Copy, Exits)]
enum Way {
    On,
    Off,
    Both,
}

async fn nothing(_: Snapshot<Doc>, _: Context) -> Result<DocUpdate, NodeError> {
    Ok(Doc::update())
}

async fn choosing(_: Snapshot<Doc>, _: Context) -> Result<(DocUpdate, Way), NodeError> {
    Ok((Doc::update(), Way::On))
}

/// A graph of the nodes a to f, each of which is led on by `wire`; then what it runs first.
fn described(wire: impl FnOnce(&mut Builder<Doc>, [NodeRef<Doc, ()>; 6])) -> Graph<Doc> {
    let mut g = Graph::builder("g");
    let nodes = ["a", "b", "c", "d", "e", "f"].map(|name| g.node(name, nothing));
    wire(&mut g, nodes);
    g.build().expect("it is a graph")
}

fn begun(graph: &Graph<Doc>) -> Position<Doc> {
    match start(graph.tables(), 0, Arc::new(Doc::default()), 0) {
        Ok(routed) => routed.position,
        Err(_) => panic!("it starts"),
    }
}

/// Runs all tasks of a position at this time, left by these exits, one for each.
fn next(
    graph: &Graph<Doc>,
    position: Position<Doc>,
    exits: &[u32],
    now_ms: u64,
) -> Result<Position<Doc>, Vec<Unsatisfied>> {
    let Planned::Run(superstep) = plan(position) else {
        panic!("nothing is left to run")
    };
    let ended =
        (0..superstep.tasks.len()).map(|place| Ended::Exit(exits.get(place).copied().unwrap_or(0)));
    let ended: Vec<_> = ended.collect();
    let updates = ended.iter().map(|_| Doc::update()).collect();
    let reduced = reduce(graph.tables(), superstep, Outcomes::Many(updates, ended));
    let Ok(reduced) = reduced else {
        panic!("it is merged")
    };
    match route(graph.tables(), reduced, false, now_ms) {
        Ok(routed) => Ok(routed.position),
        Err((_, RouteFault::Unsatisfied(waits))) => Err(waits),
        Err((_, RouteFault::Undecided(_, error))) => panic!("{error}"),
    }
}

fn names(graph: &Graph<Doc>, position: &Position<Doc>) -> String {
    let name = |task: &super::Task| graph.tables().place_name(task.node).to_string();
    position.frontier.iter().map(name).collect()
}

fn waiting(open: &[OpenJoin]) -> Vec<(u32, Vec<u32>, Option<Vec<u32>>)> {
    let of = |open: &OpenJoin| (open.join, open.arrived.clone(), open.late.clone());
    open.iter().map(of).collect()
}

#[test]
fn a_join_waits_over_supersteps_and_is_gone_when_it_has_gone_on() {
    let graph = described(|g, [a, b, c, d, e, f]| {
        g.start(a.and(b));
        g.edge(b, c);
        g.edge(c, d);
        g.join([a, d], e.and(f));
        g.edge(e, End);
        g.edge(f, End);
    });
    let mut position = begun(&graph);
    assert_eq!(names(&graph, &position), "ab");
    for expected in ["c", "d"] {
        position = next(&graph, position, &[], 0).expect("it goes on");
        assert_eq!(names(&graph, &position), expected);
        assert_eq!(waiting(&position.joins), [(0, vec![0], None)]);
        assert_eq!(position.joins[0].entry, 1);
    }
    position = next(&graph, position, &[], 0).expect("it goes on");
    assert_eq!(names(&graph, &position), "ef");
    assert_eq!(position.joins, []);
    position = next(&graph, position, &[], 0).expect("it goes on");
    assert!(matches!(plan(position), Planned::Done(_)));
}

#[test]
fn a_gather_waits_as_long_as_anything_can_reach_it() {
    let graph = described(|g, [a, b, c, d, e, f]| {
        g.start(a.and(b));
        g.branch(
            b,
            |_| Ok(Way::Off),
            |way| match way {
                Way::On => c.into(),
                Way::Off => d.into(),
                Way::Both => e.into(),
            },
        );
        g.edge(d, e);
        g.edge(e, End);
        g.gather([a, c], f);
        g.edge(f, End);
    });
    // b may still lead to c: but it has led to d, and from there nothing comes.
    let position = next(&graph, begun(&graph), &[], 0).expect("it goes on");
    assert_eq!(names(&graph, &position), "df");
    assert_eq!(position.joins, []);
}

/// A quorum that has gone on knows from where late ones may come, for as long as they may.
#[test]
fn late_ones_belong_to_the_round_that_is_over() {
    let graph = described(|g, [a, b, c, d, e, f]| {
        g.start(a.and(b).and(c));
        g.edge(c, d);
        g.join([a, b, d], e).at_least(2);
        g.edge(e, f);
        g.edge(f, End);
    });
    let position = next(&graph, begun(&graph), &[], 0).expect("it goes on");
    assert_eq!(names(&graph, &position), "de");
    assert_eq!(waiting(&position.joins), [(0, vec![0, 1], Some(vec![3]))]);
    let position = next(&graph, position, &[], 0).expect("it goes on");
    assert_eq!(names(&graph, &position), "f");
    assert_eq!(position.joins, []);
}

#[test]
fn what_waits_in_vain_is_named_when_nothing_is_left() {
    let mut g = Graph::builder("vain");
    let r = g.node("r", choosing);
    let [a, b, j, k] = ["a", "b", "j", "k"].map(|name| g.node(name, nothing));
    g.start(r);
    g.wire(r, |way| match way {
        Way::On => a.into(),
        Way::Off => b.into(),
        Way::Both => a.and(b),
    });
    g.join([a, b], j);
    g.edge(j, k);
    g.edge(k, End);
    let graph = g.build().expect("it is a graph");
    for (exit, arrived) in [(0, vec![1]), (1, vec![2])] {
        let position = next(&graph, begun(&graph), &[exit], 0).expect("it goes on");
        let waits = next(&graph, position, &[], 0).err();
        assert_eq!(waits, Some(vec![Unsatisfied { join: 0, arrived }]));
    }
    let position = next(&graph, begun(&graph), &[2], 0).expect("it goes on");
    let position = next(&graph, position, &[], 0).expect("it goes on");
    assert_eq!(names(&graph, &position), "j");
}

#[test]
fn a_time_that_is_over_lets_a_join_go_on_with_who_is_there() {
    let graph = described(|g, [a, b, c, d, e, f]| {
        g.start(a.and(b));
        g.edge(b, c);
        g.edge(c, d);
        g.edge(d, e);
        g.join([a, e], f).timeout(Duration::from_millis(100));
        g.edge(f, End);
    });
    for (now, frontier) in [(1099, "d"), (1100, "df")] {
        let position = next(&graph, begun(&graph), &[], 1000).expect("it goes on");
        assert_eq!(position.joins[0].due_ms, Some(1100));
        let position = next(&graph, position, &[], now).expect("it goes on");
        assert_eq!(names(&graph, &position), frontier);
    }
}

/// Of two gathers that lead to each other the first one goes on; the other waits for it.
#[test]
fn gathers_that_lead_to_each_other_go_on_one_after_the_other() {
    let mut g = Graph::builder("each other");
    let [a, b] = ["a", "b"].map(|name| g.node(name, nothing));
    let [x, y] = ["x", "y"].map(|name| g.node(name, choosing));
    let to_x = g.gather((a, y), x).place();
    let to_y = g.gather((b, x), y).place();
    g.start(a.and(b));
    g.wire(x, |way| match way {
        Way::On | Way::Both => to_y.into(),
        Way::Off => End.into(),
    });
    g.wire(y, |way| match way {
        Way::On | Way::Both => to_x.into(),
        Way::Off => End.into(),
    });
    let graph = g.build().expect("it is a graph");
    let position = next(&graph, begun(&graph), &[], 0).expect("it goes on");
    assert_eq!(names(&graph, &position), "x");
    assert_eq!(waiting(&position.joins), [(1, vec![1], None)]);
    let position = next(&graph, position, &[0], 0).expect("it goes on");
    assert_eq!(names(&graph, &position), "y");
    let position = next(&graph, position, &[1], 0).expect("it goes on");
    assert!(matches!(plan(position), Planned::Done(_)));
}

/// What the edges of a start tell is what its position has.
#[test]
fn the_joins_of_a_start_are_told_by_its_edges() {
    let mut g = Graph::builder("start");
    let w = g.worker("w", async |_: u64, _: Snapshot<Doc>, _: Context| {
        Ok(Doc::update())
    });
    let v = g.worker("v", async |_: u64, _: Snapshot<Doc>, _: Context| {
        Ok(Doc::update())
    });
    let [a, j, k] = ["a", "j", "k"].map(|name| g.node(name, nothing));
    g.start(w.each(|_| vec![]).and(v.each(|_| vec![])).and(a));
    g.join((w, v, a), j).at_least(2);
    g.gather((w, a), k);
    g.edge(j, End);
    g.edge(k, End);
    let graph = g.build().expect("it is a graph");
    let Ok(routed) = start(graph.tables(), 4, Arc::new(Doc::default()), 7) else {
        panic!("it starts")
    };
    let position = routed.position;
    assert_eq!(names(&graph, &position), "aj");
    assert_eq!(position.joins.len(), 2);
    let edges: Vec<_> = routed
        .taken
        .iter()
        .map(|taken| (taken.from, taken.to))
        .collect();
    let told = joins_at_start(graph.tables(), (4, 7), &edges, &position.frontier);
    assert_eq!(told, position.joins);
}

#[test]
fn a_write_that_is_not_declared_is_found_before_anything_is_merged() {
    let graph = described(|g, [a, b, c, d, e, f]| {
        g.writes(b, ());
        g.start(a.and(b));
        g.edge(a, c.and(d));
        g.edge(d, e);
        g.join([b, c, e], f);
        g.edge(f, End);
    });
    let Planned::Run(superstep) = plan(begun(&graph)) else {
        panic!("something runs")
    };
    let updates = vec![Doc::update(), Doc::update().n(1)];
    let outcomes = Outcomes::Many(updates, vec![Ended::Exit(0); 2]);
    let Err((superstep, fault)) = reduce(graph.tables(), superstep, outcomes) else {
        panic!("it is refused")
    };
    assert!(matches!(fault, Unreduced::Undeclared(1, "n")));
    assert_eq!(superstep.before.n, 0);
    let one = Outcome {
        update: Doc::update(),
        ended: Ended::Exit(0),
    };
    assert!(reduce(graph.tables(), superstep, Outcomes::One(one)).is_ok());
}
