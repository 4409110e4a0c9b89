//! The order of the items in each layer: few wires cross.

use std::collections::BTreeMap;
use std::ops::Range;

use super::layers::{Layers, What};

/// How often the layers are gone through; more changes little. Layers of very many items are gone
/// through less often, so that a picture nobody can read is not waited for.
fn sweeps(layers: &Layers) -> usize {
    (60_000 / layers.items.len().max(1)).clamp(2, 24)
}

/// How many links may be looked at to swap whole wires: enough for a picture of some forty nodes.
const EFFORT: usize = 2_000_000;

/// Orders every row.
pub(super) fn order(layers: &mut Layers) {
    let mut best = layers.rows.clone();
    let mut fewest = usize::MAX;
    for mirrored in [false, true] {
        begin(layers, mirrored);
        let mut idle = 0;
        for sweep in 0..sweeps(layers) {
            let count = crossings(layers, 0..layers.rows.len());
            idle += 1;
            if count < fewest {
                (fewest, idle) = (count, 0);
                best.clone_from(&layers.rows);
            }
            if fewest == 0 || idle == 6 {
                break;
            }
            by_median(layers, sweep % 2 == 0);
            swap_neighbours(layers);
        }
    }
    for (layer, row) in best.into_iter().enumerate() {
        layers.set_row(layer, row);
    }
    swap_wires(layers);
}

/// Swaps two wires in all layers that both pass, where that makes fewer crossings: one row at a
/// time it would first make more.
fn swap_wires(layers: &mut Layers) {
    let chains = layers.chains.clone();
    let mut effort = EFFORT;
    for _ in 0..4 {
        let mut better = false;
        for (place, one) in chains.iter().enumerate() {
            for other in &chains[place + 1..] {
                better |= swap_if_better(layers, one, other, &mut effort);
                if effort == 0 {
                    return;
                }
            }
        }
        if !better {
            break;
        }
    }
}

fn swap_if_better(layers: &mut Layers, one: &[usize], other: &[usize], effort: &mut usize) -> bool {
    let passes = |item: &&usize| layers.items[**item].what != What::Node;
    let mut there: BTreeMap<usize, usize> = BTreeMap::new();
    for item in other.iter().filter(passes) {
        there.entry(layers.items[*item].layer).or_insert(*item);
    }
    let pairs: Vec<(usize, usize)> = one
        .iter()
        .filter(passes)
        .filter_map(|item| Some((*item, *there.get(&layers.items[*item].layer)?)))
        .collect();
    let layer = |pair: &(usize, usize)| layers.items[pair.0].layer;
    let (Some(first), Some(last)) = (pairs.iter().map(layer).min(), pairs.iter().map(layer).max())
    else {
        return false;
    };
    let range = first..(last + 2).min(layers.rows.len());
    let links: usize = range.clone().map(|layer| layers.rows[layer].len()).sum();
    *effort = effort.saturating_sub(2 * links + one.len() + other.len() + 16);
    let before = crossings(layers, range.clone());
    let swap = |layers: &mut Layers| {
        for &(one, other) in &pairs {
            let layer = layers.items[one].layer;
            let (at, to) = (layers.spot[one], layers.spot[other]);
            layers.rows[layer].swap(at, to);
            (layers.spot[one], layers.spot[other]) = (to, at);
        }
    };
    swap(layers);
    let better = crossings(layers, range) < before;
    if !better {
        swap(layers);
    }
    better
}

/// The order in which a walk meets the items: what hangs together begins side by side.
fn begin(layers: &mut Layers, mirrored: bool) {
    let mut rows = vec![Vec::new(); layers.rows.len()];
    let mut seen = vec![false; layers.items.len()];
    let roots: Vec<usize> = layers.rows.iter().flatten().copied().collect();
    for root in roots {
        let mut walk = vec![root];
        while let Some(item) = walk.pop() {
            if std::mem::replace(&mut seen[item], true) {
                continue;
            }
            rows[layers.items[item].layer].push(item);
            walk.extend(layers.up[item].iter().rev());
            walk.extend(layers.down[item].iter().rev());
        }
    }
    for (layer, mut row) in rows.into_iter().enumerate() {
        if mirrored {
            row.reverse();
        }
        layers.set_row(layer, row);
    }
}

/// Orders each row by the middle of what its items are linked with in the row before.
fn by_median(layers: &mut Layers, down: bool) {
    let count = layers.rows.len();
    for step in 1..count {
        let layer = if down { step } else { count - 1 - step };
        let row = layers.rows[layer].clone();
        let key = |&item: &usize| {
            let near = if down {
                &layers.up[item]
            } else {
                &layers.down[item]
            };
            let spots: Vec<usize> = near.iter().map(|&item| layers.spot[item]).collect();
            median(spots)
        };
        let keys: Vec<Option<f64>> = row.iter().map(key).collect();
        // What is linked with nothing there keeps its place; the others go around it.
        let mut moving: Vec<usize> = (0..row.len()).filter(|&at| keys[at].is_some()).collect();
        moving.sort_by(|&one, &other| {
            let (one, other) = (keys[one].unwrap_or(0.0), keys[other].unwrap_or(0.0));
            one.total_cmp(&other)
        });
        let mut moving = moving.into_iter();
        let placed = (0..row.len()).map(|at| match keys[at] {
            Some(_) => row[moving.next().unwrap_or(at)],
            None => row[at],
        });
        let placed = placed.collect();
        layers.set_row(layer, placed);
    }
}

/// The middle of some spots; with two middles, nearer to where they are denser.
fn median(mut spots: Vec<usize>) -> Option<f64> {
    spots.sort_unstable();
    let spots: Vec<f64> = spots.into_iter().map(|spot| spot as f64).collect();
    let middle = spots.len() / 2;
    match spots.as_slice() {
        [] => None,
        [one, other] => Some(f64::midpoint(*one, *other)),
        all if all.len() % 2 == 1 => Some(all[middle]),
        all => {
            let left = all[middle - 1] - all[0];
            let right = all[all.len() - 1] - all[middle];
            let sum = left + right;
            Some(if sum == 0.0 {
                all[middle]
            } else {
                (all[middle - 1] * right + all[middle] * left) / sum
            })
        }
    }
}

/// Swaps neighbours as long as that makes fewer crossings.
fn swap_neighbours(layers: &mut Layers) {
    for _ in 0..sweeps(layers).min(8) {
        let mut better = false;
        for layer in 0..layers.rows.len() {
            for at in 1..layers.rows[layer].len() {
                let (left, right) = (layers.rows[layer][at - 1], layers.rows[layer][at]);
                if crossed(layers, left, right) > crossed(layers, right, left) {
                    layers.rows[layer].swap(at - 1, at);
                    layers.spot[left] = at;
                    layers.spot[right] = at - 1;
                    better = true;
                }
            }
        }
        if !better {
            break;
        }
    }
}

/// How many links of two neighbours cross if they stand in this order.
fn crossed(layers: &Layers, left: usize, right: usize) -> usize {
    let count = |of: &[Vec<usize>]| -> usize {
        let crossing = |&one: &usize| {
            let spot = layers.spot[one];
            let others = of[right].iter();
            others.filter(|&&other| layers.spot[other] < spot).count()
        };
        of[left].iter().map(crossing).sum()
    };
    count(&layers.up) + count(&layers.down)
}

/// How many links cross that lead down to one of these layers.
fn crossings(layers: &Layers, range: Range<usize>) -> usize {
    let mut count = 0;
    for layer in range.start.max(1)..range.end {
        let row = &layers.rows[layer];
        // For each link, those that begin before it and end behind it: counted by a tree of sums.
        let width = layers.rows[layer - 1].len();
        let mut sums = vec![0usize; width + 1];
        let mut links = 0;
        for &item in row {
            let mut spots: Vec<usize> = layers.up[item].iter().map(|&up| layers.spot[up]).collect();
            spots.sort_unstable();
            for &spot in &spots {
                let mut at = spot + 1;
                let mut before = 0;
                while at > 0 {
                    before += sums[at];
                    at -= at & at.wrapping_neg();
                }
                count += links - before;
            }
            for spot in spots {
                let mut at = spot + 1;
                while at <= width {
                    sums[at] += 1;
                    at += at & at.wrapping_neg();
                }
                links += 1;
            }
        }
    }
    count
}
