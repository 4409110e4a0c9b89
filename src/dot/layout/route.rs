//! How high the layers are, and the ways of the wires through them.

use std::collections::BTreeMap;

use super::layers::{BESIDE, LOOP, Layers, What};
use super::{ARROW, At, Layout, Node, Part, Rim, Route, Wire};

/// The space around the picture.
const MARGIN: f64 = 8.0;

/// The least space between two bands.
const GAP: f64 = 30.0;

/// How deep the innermost turn of a wire is, and how much deeper each around it.
const TURN: f64 = 12.0;
const DEEPER: f64 = 7.0;

/// How far the ends of two wires at a node should be apart.
const PORT: f64 = 14.0;

/// The band of a layer, from its upper to its lower side.
#[derive(Debug, Clone, Copy, Default)]
struct Band {
    top: f64,
    bottom: f64,
}

/// A straight part of a wire, in the direction in which it is gone through.
#[derive(Debug, Clone, Copy)]
struct Column {
    x: f64,
    from: f64,
    to: f64,
}

/// Puts everything in its place.
pub(super) fn route(nodes: &[Node], wires: &[Wire], layers: &Layers, xs: Vec<f64>) -> Layout {
    let xs: Vec<f64> = xs.into_iter().map(|x| x + MARGIN).collect();
    let mut lines = Vec::with_capacity(wires.len());
    for (chain, port) in layers.chains.iter().zip(ports(nodes, layers, &xs)) {
        let mut line: Vec<f64> = chain.iter().map(|&item| xs[item]).collect();
        if let [first, .., last] = &mut line[..] {
            (*first, *last) = port;
        }
        lines.push(line);
    }
    let turns = turns(layers, &lines);
    let (bands, bottom) = bands(layers, &lines, &turns);
    let middle = |node: usize| {
        let Band { top, bottom } = bands[layers.items[node].layer].unwrap_or_default();
        At {
            x: xs[node],
            y: f64::midpoint(top, bottom),
        }
    };
    let middles: Vec<At> = (0..nodes.len()).map(middle).collect();
    let mut routes = Vec::with_capacity(wires.len());
    for (place, wire) in wires.iter().enumerate() {
        routes.push(if wire.from == wire.to {
            let own = |other: &&Wire| other.from == wire.from && other.to == wire.to;
            let slots = |wires: &[Wire]| wires.iter().filter(own).map(Wire::slot).sum::<f64>();
            let (above, all) = (slots(&wires[..place]), slots(wires));
            around(&nodes[wire.from], wire, (above, all), middles[wire.from])
        } else {
            let wire = (&layers.chains[place][..], &lines[place][..], turns[place]);
            way(nodes, &middles, layers, wire, &bands)
        });
    }
    let right = layers.items.iter().zip(&xs).map(|(item, x)| x + item.right);
    Layout {
        width: right.fold(0.0, f64::max) + MARGIN,
        height: bottom + MARGIN,
        nodes: middles,
        routes,
    }
}

/// Where each wire leaves its first node and enters its last.
fn ports(nodes: &[Node], layers: &Layers, xs: &[f64]) -> Vec<(f64, f64)> {
    let mut ports = vec![(0.0, 0.0); layers.chains.len()];
    // Per node the wires that end there, each with its order and the line that it comes from.
    let mut below = vec![Vec::new(); nodes.len()];
    let mut above = vec![Vec::new(); nodes.len()];
    for (wire, chain) in layers.chains.iter().enumerate() {
        let last = chain.len().saturating_sub(1);
        if last < 2 {
            continue;
        }
        // A turn has an order, but no line: there it is that of the column behind it. Turns to one
        // side lie in each other, so the farthest is the one next to the middle.
        let end = |node: usize, near: usize, behind: usize| match layers.items[near].what {
            What::Turn if xs[behind] < xs[node] => (wire, (0, -xs[behind]), xs[behind]),
            What::Turn => (wire, (2, -xs[behind]), xs[behind]),
            _ => (wire, (1, layers.spot[near] as f64), xs[near]),
        };
        below[chain[0]].push(end(chain[0], chain[1], chain[2]));
        above[chain[last]].push(end(chain[last], chain[last - 1], chain[last - 2]));
    }
    for (node, size) in nodes.iter().enumerate() {
        for (ends, is_below) in [(&mut below[node], true), (&mut above[node], false)] {
            ends.sort_by(
                |(one, (side, key), _), (other, (other_side, other_key), _)| {
                    let keys = key.total_cmp(other_key);
                    side.cmp(other_side).then(keys).then(one.cmp(other))
                },
            );
            let wanted: Vec<f64> = ends.iter().map(|&(.., line)| line).collect();
            let spread = spread(&wanted, xs[node], size.ports);
            for (&(wire, ..), x) in ends.iter().zip(spread) {
                if is_below {
                    ports[wire].0 = x;
                } else {
                    ports[wire].1 = x;
                }
            }
        }
    }
    ports
}

/// Places in order around a middle, each as near to where it is wanted as its neighbours allow.
fn spread(wanted: &[f64], middle: f64, reach: f64) -> Vec<f64> {
    let more = wanted.len().saturating_sub(1) as f64;
    let apart = PORT.min(2.0 * reach / more.max(1.0));
    let (least, most) = (middle - reach, middle + reach - apart * more);
    // Without the space between them, neighbours that want to pass each other meet in the middle.
    let mut groups: Vec<(f64, f64)> = Vec::new();
    for (place, wanted) in wanted.iter().enumerate() {
        let wanted = wanted.clamp(middle - reach, middle + reach) - apart * place as f64;
        groups.push((wanted, 1.0));
        while let [.., (one, n), (other, m)] = groups[..]
            && one > other
        {
            groups.truncate(groups.len() - 2);
            groups.push(((one * n + other * m) / (n + m), n + m));
        }
    }
    let places = groups
        .into_iter()
        .flat_map(|(place, count)| std::iter::repeat_n(place, count as usize));
    places
        .enumerate()
        .map(|(number, place)| place.clamp(least, most.max(least)) + apart * number as f64)
        .collect()
}

/// The ends of a turn, from left to right, and its wire.
type Turn = (f64, f64, usize);

/// How deep each climbing wire turns below its first node and above its last: deeper than those
/// that turn inside of its turn.
fn turns(layers: &Layers, lines: &[Vec<f64>]) -> Vec<(f64, f64)> {
    let mut depths = vec![(0.0, 0.0); layers.chains.len()];
    // Per gap the turns there: their ends and their wires.
    let mut gaps: BTreeMap<(usize, bool), Vec<Turn>> = BTreeMap::new();
    for (wire, (chain, line)) in layers.chains.iter().zip(lines).enumerate() {
        if climbs(layers, chain) {
            let last = chain.len() - 1;
            for (node, column, is_below) in [(0, 2, true), (last, last - 2, false)] {
                let (one, other) = (line[node], line[column]);
                let gap = gaps.entry((layers.items[chain[node]].layer, is_below));
                gap.or_default()
                    .push((one.min(other), one.max(other), wire));
            }
        }
    }
    for ((_, is_below), mut turns) in gaps {
        turns.sort_by(|one, other| {
            let (span, other_span) = (one.1 - one.0, other.1 - other.0);
            span.total_cmp(&other_span).then(one.2.cmp(&other.2))
        });
        let mut placed: Vec<(f64, f64, u32)> = Vec::new();
        for (left, right, wire) in turns {
            let inside = placed
                .iter()
                .filter(|turn| turn.0 <= right && left <= turn.1);
            let level = inside.map(|turn| turn.2 + 1).max().unwrap_or(0);
            placed.push((left, right, level));
            let depth = TURN + DEEPER * f64::from(level);
            if is_below {
                depths[wire].0 = depth;
            } else {
                depths[wire].1 = depth;
            }
        }
    }
    depths
}

/// The bands from top to bottom, and the lower end of all.
fn bands(layers: &Layers, lines: &[Vec<f64>], turns: &[(f64, f64)]) -> (Vec<Option<Band>>, f64) {
    let count = layers.rows.len();
    let mut heights: Vec<Option<f64>> = vec![None; count];
    for item in &layers.items {
        if matches!(item.what, What::Node | What::Label) {
            let height = heights[item.layer].get_or_insert(0.0);
            *height = height.max(item.height);
        }
    }
    // How far wires go sideways below each band, and how deep they turn below and above it.
    let mut aside = vec![0.0f64; count];
    let (mut below, mut above) = (vec![0.0f64; count], vec![0.0f64; count]);
    for ((chain, line), turn) in layers.chains.iter().zip(lines).zip(turns) {
        let stops = chain.iter().zip(line);
        let stops: Vec<_> = stops
            .map(|(&item, x)| (layers.items[item].layer, *x))
            .filter(|&(layer, _)| heights[layer].is_some())
            .collect();
        for pair in stops.windows(2) {
            let ((one, from), (other, to)) = (pair[0], pair[1]);
            let upper = one.min(other);
            aside[upper] = aside[upper].max((from - to).abs());
        }
        if let (true, [first, .., last]) = (climbs(layers, chain), &chain[..]) {
            let (first, last) = (layers.items[*first].layer, layers.items[*last].layer);
            below[first] = below[first].max(turn.0);
            above[last] = above[last].max(turn.1);
        }
    }
    let used: Vec<usize> = (0..count)
        .filter(|&layer| heights[layer].is_some())
        .collect();
    let mut bands = vec![None; count];
    let mut y = MARGIN;
    if let Some(&first) = used.first()
        && above[first] > 0.0
    {
        y += above[first] + ARROW;
    }
    let mut end = y;
    for (place, &layer) in used.iter().enumerate() {
        let bottom = y + heights[layer].unwrap_or_default();
        bands[layer] = Some(Band { top: y, bottom });
        end = bottom + below[layer];
        let next = used.get(place + 1).map_or(0.0, |&next| above[next]);
        y = bottom + GAP + (aside[layer] * 0.1).min(44.0) + below[layer] + next;
    }
    (bands, end)
}

/// Whether a wire climbs: it turns around right after its first node.
fn climbs(layers: &Layers, chain: &[usize]) -> bool {
    let next = chain.get(1);
    next.is_some_and(|&item| layers.items[item].what == What::Turn)
}

/// The way of a wire from node to node: up or down in columns, sideways between them.
fn way(
    nodes: &[Node],
    middles: &[At],
    layers: &Layers,
    (chain, line, depths): (&[usize], &[f64], (f64, f64)),
    bands: &[Option<Band>],
) -> Route {
    let climbs = climbs(layers, chain);
    let mut columns: Vec<Column> = Vec::with_capacity(chain.len());
    let mut label = None;
    for (place, (&item, &x)) in chain.iter().zip(line).enumerate() {
        let item_here = &layers.items[item];
        let Some(band) = bands[item_here.layer] else {
            continue;
        };
        let side =
            |side: f64| middles[item].y + side * rim(&nodes[item], x - middles[item].x, side);
        let (from, to) = match item_here.what {
            What::Turn => continue,
            What::Node if place == 0 => (side(1.0), band.bottom),
            What::Node => (band.top - ARROW, side(-1.0)),
            What::Bend | What::Label if climbs => (band.bottom, band.top),
            What::Bend | What::Label => (band.top, band.bottom),
        };
        if item_here.what == What::Label {
            label = Some(At {
                x: x + BESIDE,
                y: f64::midpoint(band.top, band.bottom) - item_here.height / 2.0,
            });
        }
        columns.push(Column { x, from, to });
    }
    // The column beside the last node ends where the arrow begins.
    if let (true, [.., beside, last]) = (climbs, &mut columns[..]) {
        beside.to = last.from;
    }
    let mut parts = Vec::new();
    let pairs = columns.len() - 1;
    for (place, pair) in columns.windows(2).enumerate() {
        let leave = At {
            x: pair[0].x,
            y: pair[0].to,
        };
        let reach = At {
            x: pair[1].x,
            y: pair[1].from,
        };
        straight(&mut parts, pair[0]);
        if climbs && place == 0 {
            parts.push(turn(leave, reach, depths.0));
        } else if climbs && place + 1 == pairs {
            parts.push(turn(leave, reach, -depths.1));
        } else {
            let y = f64::midpoint(leave.y, reach.y);
            let (one, other) = (At { x: leave.x, y }, At { x: reach.x, y });
            parts.push(Part::Curve(one, other, reach));
        }
    }
    straight(&mut parts, columns[pairs]);
    Route {
        from: At {
            x: columns[0].x,
            y: columns[0].from,
        },
        parts,
        label,
    }
}

fn straight(parts: &mut Vec<Part>, column: Column) {
    if column.from != column.to {
        parts.push(Part::Line(At {
            x: column.x,
            y: column.to,
        }));
    }
}

/// A half turn between two columns that end at one height, so far below it.
fn turn(leave: At, reach: At, depth: f64) -> Part {
    // A cubic goes three quarters of the way to its points.
    let y = leave.y + depth / 0.75;
    Part::Curve(At { x: leave.x, y }, At { x: reach.x, y }, reach)
}

/// A loop at the right side of a node: below others of a height together, of all such a height.
fn around(node: &Node, wire: &Wire, (above, all): (f64, f64), middle: At) -> Route {
    let scale = node.height / all;
    let height = wire.slot() * scale;
    let y = middle.y - node.height / 2.0 + above * scale + height / 2.0;
    let side = |y: f64| middle.x + node.width / 2.0 - node.notch(y - middle.y);
    let high = (height * 0.22).min(14.0);
    let (upper, lower) = (y - high, y + high);
    let reach = middle.x + node.width / 2.0 + LOOP / 0.75;
    Route {
        from: At {
            x: side(upper),
            y: upper,
        },
        parts: vec![
            Part::Curve(
                At { x: reach, y: upper },
                At { x: reach, y: lower },
                At {
                    x: side(lower) + ARROW,
                    y: lower,
                },
            ),
            Part::Line(At {
                x: side(lower),
                y: lower,
            }),
        ],
        label: wire.label.map(|(_, height)| At {
            x: middle.x + node.width / 2.0 + LOOP + BESIDE,
            y: y - height / 2.0,
        }),
    }
}

/// How far above (-1) or below (1) its middle a node ends, so far from the middle line.
fn rim(node: &Node, x: f64, side: f64) -> f64 {
    let half = node.height / 2.0;
    match node.rim {
        Rim::Round => (half * half - x * x).max(0.0).sqrt(),
        Rim::Roof(height) if side < 0.0 => half - height * (x.abs() / (node.width / 2.0)).min(1.0),
        Rim::Level | Rim::Point(_) | Rim::Roof(_) => half,
    }
}
