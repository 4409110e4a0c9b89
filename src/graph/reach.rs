//! Who can be reached from where: over nodes and joins, as sets of bits.

use super::compiled::Entry;
use super::join::Join;
use super::target::Dest;
use crate::state::State;

/// A set of places: nodes as they are declared, then joins.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reach(Vec<u64>);

impl Reach {
    fn of(places: usize) -> Self {
        Self(vec![0; places.div_ceil(64)])
    }

    pub(crate) fn has(&self, place: u32) -> bool {
        let word = self.0.get(place as usize / 64).copied().unwrap_or(0);
        word >> (place % 64) & 1 == 1
    }

    fn add(&mut self, place: u32) -> bool {
        let new = !self.has(place);
        self.0[place as usize / 64] |= 1 << (place % 64);
        new
    }
}

/// The places of a graph, with what leads to what.
pub(super) struct Places {
    /// Of each place those that it leads to, each once.
    pub(super) next: Vec<Vec<u32>>,
    before: Vec<Vec<u32>>,
    /// Whether what reaches a place may be past it in the same superstep: a worker that is fanned
    /// out to over nothing, a join that waits for nobody else.
    passes: Vec<bool>,
    /// Who leads to several places at once, and to which; none for the start.
    pub(super) forks: Vec<(Option<u32>, Vec<u32>)>,
}

impl Places {
    pub(super) fn of<S: State>(
        nodes: &[Entry<S>],
        targets: &[Vec<Dest<S>>],
        joins: &[Join],
        start: Option<u32>,
    ) -> Self {
        let count = nodes.len() + joins.len();
        let to = |target: u32| {
            let mut to: Vec<u32> = Vec::new();
            for dest in &targets[target as usize] {
                let place = match dest {
                    Dest::Node(node) | Dest::Each(node, _) | Dest::Caught(node) => *node,
                    Dest::Join(join) => nodes.len() as u32 + join,
                    Dest::End => continue,
                };
                if !to.contains(&place) {
                    to.push(place);
                }
            }
            to
        };
        let mut places = Self {
            next: Vec::with_capacity(count),
            before: vec![Vec::new(); count],
            passes: fanned_out(nodes.len(), targets),
            forks: Vec::new(),
        };
        if let Some(start) = start {
            places.fork(None, to(start));
        }
        for (place, node) in nodes.iter().enumerate() {
            let ways: Vec<_> = node.ways().into_iter().map(to).collect();
            let all = union(&ways);
            // The exits of a worker's tasks are taken together.
            if node.payload.is_some() {
                places.fork(Some(place as u32), all.clone());
            } else {
                for way in ways {
                    places.fork(Some(place as u32), way);
                }
            }
            places.next.push(all);
        }
        places.passes.resize(count, true);
        for (place, join) in joins.iter().enumerate() {
            let to = to(join.target);
            places.fork(Some((nodes.len() + place) as u32), to.clone());
            places.next.push(to);
        }
        for (from, next) in places.next.iter().enumerate() {
            for to in next {
                places.before[*to as usize].push(from as u32);
            }
        }
        places
    }

    fn fork(&mut self, from: Option<u32>, to: Vec<u32>) {
        if to.len() > 1 {
            self.forks.push((from, to));
        }
    }

    /// From where a place can be reached; from itself always, or only if it lies on a cycle.
    pub(super) fn to(&self, place: usize, itself: bool) -> Reach {
        let mut reach = Reach::of(self.next.len());
        let mut open = vec![place as u32];
        if itself {
            reach.add(place as u32);
        }
        while let Some(place) = open.pop() {
            for before in &self.before[place as usize] {
                if reach.add(*before) {
                    open.push(*before);
                }
            }
        }
        reach
    }

    /// The place whose ways part between two others: both can be reached from it, and from none
    /// that follows it.
    pub(super) fn parts(&self, one: &Reach, other: &Reach) -> Option<usize> {
        let both = |place: u32| one.has(place) && other.has(place);
        let parts = |place: &usize| {
            both(*place as u32) && !self.next[*place].iter().any(|next| both(*next))
        };
        (0..self.next.len()).find(parts)
    }

    /// The places at which one that comes to these may be in the same superstep.
    fn at(&self, to: &[u32]) -> Vec<u32> {
        let mut at = to.to_vec();
        let mut seen = 0;
        while seen < at.len() {
            let place = at[seen] as usize;
            seen += 1;
            if self.passes[place] {
                for next in &self.next[place] {
                    if !at.contains(next) {
                        at.push(*next);
                    }
                }
            }
        }
        at
    }

    /// Which pairs of nodes may run in one superstep: branches walk in step from where they fork,
    /// and may wait at joins, which are the places from `joins` on, as long as they like.
    pub(super) fn beside(&self, joins: u32) -> Reach {
        let waits = |place: u32| place >= joins;
        let count = self.next.len() as u32;
        let mut pairs = Reach::of(self.next.len() * self.next.len());
        let mut open = Vec::new();
        let add = |pairs: &mut Reach, open: &mut Vec<(u32, u32)>, a: u32, b: u32| {
            // A node that is reached twice in one superstep runs once.
            if (a != b || waits(a)) && pairs.add(a.min(b) * count + a.max(b)) {
                open.push((a, b));
            }
        };
        for (_, dests) in &self.forks {
            for (place, one) in dests.iter().enumerate() {
                for other in &dests[place + 1..] {
                    for a in self.at(&[*one]) {
                        for b in self.at(&[*other]) {
                            add(&mut pairs, &mut open, a, b);
                        }
                    }
                }
            }
        }
        while let Some((a, b)) = open.pop() {
            let steps = |place: u32| {
                let mut at = self.at(&self.next[place as usize]);
                at.extend(waits(place).then_some(place));
                at
            };
            let (to_a, to_b) = (steps(a), steps(b));
            for one in &to_a {
                for other in &to_b {
                    add(&mut pairs, &mut open, *one, *other);
                }
            }
        }
        pairs
    }

    /// Whether a pair is among those of [`beside`](Self::beside).
    pub(super) fn has_pair(&self, pairs: &Reach, a: u32, b: u32) -> bool {
        pairs.has(a.min(b) * self.next.len() as u32 + a.max(b))
    }
}

/// Of each node whether it is fanned out to: not every worker is, for some only handle failures.
pub(super) fn fanned_out<S: State>(nodes: usize, targets: &[Vec<Dest<S>>]) -> Vec<bool> {
    let mut is_fan = vec![false; nodes];
    for dest in targets.iter().flatten() {
        if let Dest::Each(worker, _) = dest {
            is_fan[*worker as usize] = true;
        }
    }
    is_fan
}

fn union(ways: &[Vec<u32>]) -> Vec<u32> {
    let mut all: Vec<u32> = Vec::new();
    for place in ways.iter().flatten() {
        if !all.contains(place) {
            all.push(*place);
        }
    }
    all
}
