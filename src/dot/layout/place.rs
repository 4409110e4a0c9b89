//! The place of each item from left to right, after Brandes and Köpf: the items are aligned in four
//! ways (from above and below, from left and right), and stand in the middle of the four.

use std::collections::BTreeSet;

use super::layers::{Layers, What};

/// The line of each item.
pub(super) fn place(layers: &Layers) -> Vec<f64> {
    let conflicts = conflicts(layers);
    let mut four = Vec::with_capacity(4);
    for from_below in [false, true] {
        for from_right in [false, true] {
            let blocks = align(layers, &conflicts, from_below, from_right);
            four.push(compact(layers, &blocks, from_right));
        }
    }
    balance(layers, &four)
}

/// Links that cross a straight part of a wire: they must not keep it from being straight.
fn conflicts(layers: &Layers) -> BTreeSet<(usize, usize)> {
    let is_inner = |upper: usize, lower: usize| {
        let passes = |item: usize| matches!(layers.items[item].what, What::Bend | What::Label);
        passes(upper) && passes(lower)
    };
    let mut conflicts = BTreeSet::new();
    for row in layers.rows.iter().skip(1) {
        let links = row.iter().flat_map(|&lower| {
            let ups = layers.up[lower].iter();
            ups.map(move |&upper| (upper, lower))
        });
        let (inner, outer): (Vec<_>, Vec<_>) =
            links.partition(|&(upper, lower)| is_inner(upper, lower));
        for &(upper, lower) in &outer {
            let crosses = |&(other_upper, other_lower): &(usize, usize)| {
                let above = layers.spot[upper].cmp(&layers.spot[other_upper]);
                let below = layers.spot[lower].cmp(&layers.spot[other_lower]);
                above.reverse() == below && above.is_ne()
            };
            if inner.iter().any(crosses) {
                conflicts.insert((upper, lower));
            }
        }
    }
    conflicts
}

/// For each item the first of the items that stand in line with it.
fn align(
    layers: &Layers,
    conflicts: &BTreeSet<(usize, usize)>,
    from_below: bool,
    from_right: bool,
) -> Vec<usize> {
    let mut root: Vec<usize> = (0..layers.items.len()).collect();
    let count = layers.rows.len();
    for step in 1..count {
        let layer = if from_below { count - 1 - step } else { step };
        let row = &layers.rows[layer];
        let near = if from_below { &layers.down } else { &layers.up };
        // The spot up to which the row before is used.
        let mut used: Option<usize> = None;
        for at in 0..row.len() {
            let item = row[if from_right { row.len() - 1 - at } else { at }];
            let mut linked = near[item].clone();
            linked.sort_unstable_by_key(|&item| layers.spot[item]);
            if from_right {
                linked.reverse();
            }
            let Some(last) = linked.len().checked_sub(1) else {
                continue;
            };
            for middle in [last / 2, last.div_ceil(2)] {
                let other = linked[middle];
                let spot = layers.spot[other];
                let is_free =
                    used.is_none_or(|used| if from_right { spot < used } else { spot > used });
                let pair = if from_below {
                    (item, other)
                } else {
                    (other, item)
                };
                if is_free && !conflicts.contains(&pair) {
                    root[item] = root[other];
                    used = Some(spot);
                    break;
                }
            }
        }
    }
    root
}

/// The lines of blocks of aligned items, packed to the left or the right.
fn compact(layers: &Layers, root: &[usize], from_right: bool) -> Vec<f64> {
    let count = layers.items.len();
    let mut after = vec![Vec::new(); count];
    let mut before = vec![0usize; count];
    for row in &layers.rows {
        for pair in row.windows(2) {
            let apart = layers.apart(pair[0], pair[1]);
            let (mut near, mut far) = (root[pair[0]], root[pair[1]]);
            if from_right {
                // The same in a mirror.
                std::mem::swap(&mut near, &mut far);
            }
            after[near].push((far, apart));
            before[far] += 1;
        }
    }
    let is_first = |&item: &usize| root[item] == item && before[item] == 0;
    let mut sorted: Vec<usize> = (0..count).filter(is_first).collect();
    let mut next = 0;
    while let Some(&block) = sorted.get(next) {
        next += 1;
        for &(far, _) in &after[block] {
            before[far] -= 1;
            if before[far] == 0 {
                sorted.push(far);
            }
        }
    }
    let mut x = vec![0.0f64; count];
    for &block in &sorted {
        for &(far, apart) in &after[block] {
            x[far] = x[far].max(x[block] + apart);
        }
    }
    // Back to where the neighbours are, where there is room.
    for &block in sorted.iter().rev() {
        let room = after[block].iter().map(|&(far, apart)| x[far] - apart);
        let room = room.fold(f64::INFINITY, f64::min);
        if room.is_finite() {
            x[block] = x[block].max(room);
        }
    }
    let side = if from_right { -1.0 } else { 1.0 };
    (0..count).map(|item| side * x[root[item]]).collect()
}

/// The middle of the four lines of each item, after all are brought to the narrowest.
fn balance(layers: &Layers, four: &[Vec<f64>]) -> Vec<f64> {
    let ends = |xs: &[f64]| {
        let items = || xs.iter().zip(&layers.items);
        let left = items().map(|(x, item)| x - item.left);
        let right = items().map(|(x, item)| x + item.right);
        (
            left.fold(f64::INFINITY, f64::min),
            right.fold(f64::NEG_INFINITY, f64::max),
        )
    };
    let narrowest = four.iter().map(|xs| ends(xs)).min_by(|one, other| {
        let (one, other) = (one.1 - one.0, other.1 - other.0);
        one.total_cmp(&other)
    });
    let Some((left, right)) = narrowest else {
        return Vec::new();
    };
    let shifts: Vec<f64> = four
        .iter()
        .enumerate()
        .map(|(place, xs)| {
            let own = ends(xs);
            // The odd ones are aligned from the right.
            if place % 2 == 0 {
                left - own.0
            } else {
                right - own.1
            }
        })
        .collect();
    let middle = |item: usize| {
        let mut lines: Vec<f64> = four
            .iter()
            .zip(&shifts)
            .map(|(xs, shift)| xs[item] + shift)
            .collect();
        lines.sort_by(f64::total_cmp);
        f64::midpoint(lines[1], lines[2])
    };
    let middles: Vec<f64> = (0..layers.items.len()).map(middle).collect();
    let (left, _) = ends(&middles);
    middles.into_iter().map(|x| x - left).collect()
}
