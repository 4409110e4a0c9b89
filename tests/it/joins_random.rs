//! Random graphs with joins and gathers, against a small model that knows nothing of the engine.

use std::collections::BTreeSet;

use milepost::{
    Command, Context, End, Ended, Exits, Graph, Problem, RunError, RunOptions, Snapshot, Target,
};

use crate::support::{Doc, Place, line, on_both, thread, wander, with};

#[derive(Clone, Copy, Exits)]
enum Way {
    Left,
    Right,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum To {
    Node(usize),
    Join(usize),
}

/// A graph whose edges lead to nodes of higher numbers. Each node has one or two ways, of which
/// it always takes the same.
#[derive(Debug)]
struct Plan {
    ways: Vec<Vec<Vec<To>>>,
    takes: Vec<usize>,
    /// Whether it gathers, its members, the node that it leads to.
    joins: Vec<(bool, Vec<usize>, usize)>,
}

fn plan(seed: u64) -> Plan {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |n: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % n
    };
    // Small ones first, so that the first that fails is one of the smallest.
    let count = 3 + (seed as usize / 60).min(7);
    let mut ways: Vec<Vec<Vec<To>>> = (0..count).map(|_| vec![Vec::new(); 1 + below(2)]).collect();
    let takes = ways.iter().map(|ways| below(ways.len())).collect();
    let mut joins = Vec::new();
    for node in 1..count {
        if node > 1 && below(3) > 0 {
            let mut members: BTreeSet<usize> = BTreeSet::new();
            while members.len() < 2 {
                members.insert(below(node));
            }
            for member in &members {
                let way = below(ways[*member].len());
                ways[*member][way].push(To::Join(joins.len()));
            }
            joins.push((below(2) == 0, members.into_iter().collect(), node));
        }
        let led_to = joins.last().is_some_and(|(.., to)| *to == node);
        if !led_to || below(4) == 0 {
            let from = below(node);
            let way = below(ways[from].len());
            ways[from][way].push(To::Node(node));
        }
    }
    Plan { ways, takes, joins }
}

/// What should happen: the nodes in the order in which they are merged, the joins that went on, and
/// those that wait at the end.
fn model(plan: &Plan) -> (Vec<usize>, BTreeSet<usize>, Vec<usize>) {
    let reaches = |from: To, join: usize| {
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            match at {
                To::Join(other) if other == join => return true,
                To::Join(other) => open.push(To::Node(plan.joins[other].2)),
                To::Node(node) => open.extend(plan.ways[node].iter().flatten()),
            }
        }
        false
    };
    let (mut ran, mut went_on) = (Vec::new(), BTreeSet::new());
    let mut arrived: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); plan.joins.len()];
    let mut live = BTreeSet::from([0]);
    while !live.is_empty() {
        let mut next = BTreeSet::new();
        for node in std::mem::take(&mut live) {
            ran.push(node);
            for to in &plan.ways[node][plan.takes[node]] {
                match to {
                    To::Node(to) => drop(next.insert(*to)),
                    To::Join(join) => drop(arrived[*join].insert(node)),
                }
            }
        }
        loop {
            let is_ripe = |join: &usize| {
                let (gathers, members, _) = &plan.joins[*join];
                if !gathers {
                    return arrived[*join].len() == members.len();
                }
                let waits = |other: usize| {
                    other != *join && plan.joins[other].0 && !arrived[other].is_empty()
                };
                !arrived[*join].is_empty()
                    && !next.iter().any(|node| reaches(To::Node(*node), *join))
                    && !(0..plan.joins.len())
                        .any(|other| waits(other) && reaches(To::Node(plan.joins[other].2), *join))
            };
            let all = 0..plan.joins.len();
            let full = all
                .clone()
                .filter(|join| !plan.joins[*join].0)
                .find(is_ripe);
            let Some(join) = full.or_else(|| all.clone().find(is_ripe)) else {
                break;
            };
            arrived[join].clear();
            went_on.insert(join);
            next.insert(plan.joins[join].2);
        }
        live = next;
    }
    let waits = (0..plan.joins.len()).filter(|join| !arrived[*join].is_empty());
    (ran, went_on, waits.collect())
}

fn graph(plan: &Plan, seed: u64) -> Result<Graph<Doc>, milepost::BuildError> {
    let mut g = Graph::builder("random");
    let nodes: Vec<_> = (0..plan.ways.len())
        .map(|number| {
            let node = with(
                (number, seed),
                async |(number, seed): (usize, u64), _: Snapshot<Doc>, _: Context| {
                    wander(seed, number as u64).await;
                    Ok(line(number.to_string()))
                },
            );
            g.node(format!("n{number}"), node)
        })
        .collect();
    let mut joins = Vec::new();
    for (number, (gathers, members, to)) in plan.joins.iter().enumerate() {
        let members: Vec<_> = members.iter().map(|member| nodes[*member]).collect();
        let joining = match gathers {
            true => g.gather(members, nodes[*to]),
            false => g.join(members, nodes[*to]),
        };
        joins.push(joining.named(format!("j{number}")).place());
    }
    let target = |way: &[To]| {
        way.iter().fold(Target::from(End), |all, to| match to {
            To::Node(node) => all.and(nodes[*node]),
            To::Join(join) => all.and(joins[*join]),
        })
    };
    g.start(nodes[0]);
    for (number, ways) in plan.ways.iter().enumerate() {
        match (ways.as_slice(), plan.takes[number]) {
            ([way], _) => g.edge(nodes[number], target(way)),
            ([left, right], takes) => g.branch(
                nodes[number],
                move |_| Ok(if takes == 0 { Way::Left } else { Way::Right }),
                |way| match way {
                    Way::Left => target(left),
                    Way::Right => target(right),
                },
            ),
            _ => unreachable!(),
        }
    }
    g.build()
}

/// C11, C01: whatever the graph, the delays and the places where it is taken up again, what runs and
/// what waits in vain is what the definition says.
#[test]
fn random_graphs_with_joins_run_as_the_model_says() {
    let (mut well, mut in_vain, mut refused, mut waited) = (0, 0, 0, 0);
    for seed in 0..600 {
        let plan = plan(seed);
        let (ran, went_on, waits) = model(&plan);
        if let Err(error) = graph(&plan, seed) {
            refused += 1;
            for problem in &error.problems {
                let Problem::NeverMet { join, .. } = problem else {
                    panic!("{seed} {plan:?} {error}")
                };
                let join: usize = join.as_str()[1..].parse().unwrap();
                assert!(!went_on.contains(&join), "{seed} {plan:?} {error}");
            }
            continue;
        }
        let log: Vec<_> = ran.iter().map(ToString::to_string).collect();
        let check = |result: Result<Vec<String>, RunError>| match result {
            Ok(found) => assert_eq!(
                (found, &waits),
                (log.clone(), &Vec::new()),
                "{seed} {plan:?}"
            ),
            Err(RunError::UnsatisfiedJoin { join, others, .. }) => {
                let names: Vec<_> = std::iter::once(&join)
                    .chain(&others)
                    .map(ToString::to_string)
                    .collect();
                let expected: Vec<_> = waits.iter().map(|join| format!("j{join}")).collect();
                assert_eq!(names, expected, "{seed} {plan:?}");
            }
            Err(error) => panic!("{seed} {plan:?} {error}"),
        };
        well += u32::from(waits.is_empty());
        in_vain += u32::from(!waits.is_empty());
        waited += u32::from(went_on.len() > 1);
        on_both(async || {
            let t = thread("t");
            let runner =
                Place::Nowhere.runner(graph(&plan, seed).unwrap(), RunOptions::new().shuffle(seed));
            let report = runner.run(&t, Command::start(Doc::update())).await;
            check(report.map(|report| report.state.log.clone()));
            let place = Place::memory();
            let options = RunOptions::new().step_limit(1).shuffle(seed + 1);
            let fresh = || place.runner(graph(&plan, seed + 2).unwrap(), options.clone());
            let mut report = fresh().run(&t, Command::start(Doc::update())).await;
            while matches!(&report, Ok(report) if report.ended != Ended::Finished) {
                report = fresh().run(&t, Command::go_on()).await;
            }
            check(report.map(|report| report.state.log.clone()));
        });
    }
    assert!(
        well > 100 && in_vain > 50 && refused > 10 && waited > 50,
        "{well} {in_vain} {refused} {waited}"
    );
}
