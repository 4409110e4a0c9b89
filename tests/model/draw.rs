//! Draws a case from rows of numbers: the first row is the ride, the second says how many inputs
//! there are and in which order nodes are declared, each further one is a node.

use crate::plan::{Case, Count, Does, Fails, Join, Node, Out, Plan, Rule, Time, To, Wait};
use crate::tape::Tape;

pub(crate) fn case(rows: &[Vec<u32>]) -> Case {
    let row = |place: usize| rows.get(place).map_or(&[][..], Vec::as_slice);
    Case {
        plan: plan(row(1), rows.get(2..).unwrap_or_default(), false),
        ride: row(0).to_vec(),
    }
}

/// What of the nodes is drawn before their edges.
struct Draft {
    ways: Vec<Vec<To>>,
    out: usize,
    by: Rule,
    worker: bool,
    does: Does,
    inner: Option<Box<Plan>>,
}

/// A plan; of one inside of another, without joins, which may wait in vain, and with none inside.
fn plan(first: &[u32], rows: &[Vec<u32>], is_inner: bool) -> Plan {
    let mut tape = Tape::new(first);
    let inputs = (0..=tape.below(3)).map(|_| tape.below(7) as u64).collect();
    let mut nodes: Vec<Draft> = Vec::new();
    let mut joins: Vec<Join> = Vec::new();
    let mut has_sole = false;
    let count = rows.len().max(1);
    for place in 0..count {
        let row = rows.get(place).map_or(&[][..], Vec::as_slice);
        let mut tape = Tape::new(row);
        let worker = tape.one_in(3);
        let to = |tape: &mut Tape<'_>, node: usize, worker: bool| match worker {
            true => {
                let (base, sum) = (tape.below(4) as u64, tape.one_in(3));
                To::Each(node, Count { base, sum })
            }
            false => To::Node(node),
        };
        // How it is reached.
        let mut ways_in = 1 + usize::from(tape.one_in(4));
        if place == 0 {
            ways_in = 0;
        } else if place > 1 && tape.one_in(3) && !is_inner {
            let mut members = Vec::new();
            for _ in 0..2 + tape.below(2) {
                let member = tape.below(place);
                if !members.contains(&member) {
                    members.push(member);
                }
            }
            for member in &members {
                let from = &mut nodes[*member];
                let way = tape.below(from.ways.len());
                from.ways[way].push(To::Join(joins.len()));
            }
            let several = members.len() > 1;
            joins.push(Join {
                gathers: tape.one_in(2),
                at_least: (several && tape.one_in(3)).then(|| 1 + tape.below(members.len())),
                must: tape.one_in(5).then(|| members[tape.below(members.len())]),
                timeout: match tape.below(8) {
                    6 => Some(Time::None),
                    7 => Some(Time::Long),
                    _ => None,
                },
                to: vec![to(&mut tape, place, worker)],
                members,
            });
            ways_in -= 1;
        }
        for _ in 0..ways_in {
            let from = tape.below(place);
            let way = tape.below(nodes[from].ways.len());
            let to = to(&mut tape, place, worker);
            nodes[from].ways[way].push(to);
        }
        // How it is left.
        let out = tape.below(3);
        let by = match tape.below(5) {
            0 => Rule::A,
            1 => Rule::B,
            2 | 3 => Rule::Odd(tape.below(2) as u64),
            // A worker without tasks would lead back for ever: nobody counts its laps.
            _ if worker && out == 2 => Rule::A,
            _ => Rule::Laps(1 + tape.below(2) as u64),
        };
        let mut ways = match (out, worker) {
            (0, _) => vec![Vec::new()],
            (1, true) => vec![Vec::new(); 3],
            _ => vec![Vec::new(); 2],
        };
        if let (Rule::Laps(_), true) = (&by, ways.len() > 1) {
            let back = tape.below(place + 1);
            let is_worker = match back == place {
                true => worker,
                false => nodes[back].worker,
            };
            ways[1].push(to(&mut tape, back, is_worker));
        }
        let sole = !worker && !has_sole && tape.one_in(3);
        has_sole |= sole;
        let mut does = does(&mut tape, worker, sole);
        let inner = (tape.one_in(5) && !is_inner && out != 1).then(|| {
            does = Does {
                sole,
                ..Does::default()
            };
            let count = 1 + tape.below(3);
            let mut rows = (0..=count).map(|_| (0..20).map(|_| tape.next()).collect());
            let first: Vec<u32> = rows.next().unwrap_or_default();
            Box::new(plan(&first, &rows.collect::<Vec<_>>(), true))
        });
        nodes.push(Draft {
            ways,
            out,
            by,
            worker,
            does,
            inner,
        });
    }
    let start = match nodes[0].worker {
        true => vec![To::Each(
            0,
            Count {
                base: 2,
                sum: tape.one_in(3),
            },
        )],
        false => vec![To::Node(0)],
    };
    let nodes = nodes.into_iter().map(Draft::node).collect();
    let plan = Plan {
        nodes,
        joins,
        start,
        inputs,
    };
    declared(plan, &mut tape)
}

fn does(tape: &mut Tape<'_>, worker: bool, sole: bool) -> Does {
    let mut asks = Vec::new();
    if tape.one_in(4) {
        for _ in 0..=tape.below(2) {
            let wait = |tape: &mut Tape<'_>| match tape.below(5) {
                3 => Wait::Long,
                4 => Wait::None,
                _ => Wait::Ever,
            };
            asks.push((0..=tape.below(2)).map(|_| wait(tape)).collect());
        }
    }
    let tolerated = worker && tape.one_in(4);
    Does {
        asks,
        asks_if_odd: tape.one_in(3),
        steps: [0, 0, 0, 1, 2][tape.below(5)],
        sleeps: tape.one_in(10),
        fails: match tape.below(8) {
            5 => Fails::Tries(1),
            6 => Fails::Tries(2),
            7 if !tolerated => Fails::Calls(1 + tape.below(2) as u32),
            _ => Fails::Never,
        },
        tolerated,
        sole,
    }
}

impl Draft {
    fn node(self) -> Node {
        let mut ways = self.ways.into_iter();
        let mut way = || ways.next().unwrap_or_default();
        let by = self.by;
        Node {
            worker: self.worker,
            out: match self.out {
                0 => Out::Edge(way()),
                1 => Out::Exits {
                    a: way(),
                    b: way(),
                    by,
                    empty: way(),
                },
                _ => Out::Branch {
                    a: way(),
                    b: way(),
                    by,
                },
            },
            does: self.does,
            inner: self.inner,
        }
    }
}

/// The same plan, with its nodes and joins declared in another order.
fn declared(mut plan: Plan, tape: &mut Tape<'_>) -> Plan {
    fn order(count: usize, tape: &mut Tape<'_>) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for place in 0..count {
            let other = place + tape.below(count - place);
            order.swap(place, other);
        }
        order
    }
    let nodes = order(plan.nodes.len(), tape);
    let joins = order(plan.joins.len(), tape);
    let sorted = |all: &mut [To]| {
        for to in all {
            match to {
                To::Node(node) | To::Each(node, _) => *node = nodes[*node],
                To::Join(join) => *join = joins[*join],
            }
        }
    };
    sorted(&mut plan.start);
    for node in &mut plan.nodes {
        match &mut node.out {
            Out::Edge(way) => sorted(way),
            Out::Exits { a, b, empty, .. } => {
                [a, b, empty].map(|way| sorted(way)).into_iter().collect()
            }
            Out::Branch { a, b, .. } => [a, b].map(|way| sorted(way)).into_iter().collect(),
        }
    }
    for join in &mut plan.joins {
        sorted(&mut join.to);
        for member in join.members.iter_mut().chain(&mut join.must) {
            *member = nodes[*member];
        }
    }
    let place = |all: Vec<usize>| move |(from, _): &(usize, Node)| all[*from];
    let mut placed: Vec<_> = plan.nodes.into_iter().enumerate().collect();
    placed.sort_by_key(place(nodes));
    plan.nodes = placed.into_iter().map(|(_, node)| node).collect();
    let mut placed: Vec<_> = plan.joins.into_iter().enumerate().collect();
    placed.sort_by_key(|(from, _)| joins[*from]);
    plan.joins = placed.into_iter().map(|(_, join)| join).collect();
    plan
}
