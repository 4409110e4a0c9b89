//! Which layer each node lies in.

use super::Wire;

/// The layers of the nodes, and which wires lead back.
pub(super) struct Ranks {
    /// The layer of each node, from 0, as many layers of labels between two as there are nodes.
    pub(super) of: Vec<usize>,
    /// Whether a wire leads back to a node above, against the others.
    pub(super) back: Vec<bool>,
}

/// Puts every node below those that lead to it, loops apart, and wires as short as is easily had.
pub(super) fn rank(nodes: usize, wires: &[Wire]) -> Ranks {
    let back = leading_back(nodes, wires);
    // Wires of a loop hold its nodes together also where they lead back.
    let mut spans: Vec<(usize, usize)> = Vec::with_capacity(wires.len());
    for (wire, back) in wires.iter().zip(&back) {
        if wire.from != wire.to {
            spans.push(if *back {
                (wire.to, wire.from)
            } else {
                (wire.from, wire.to)
            });
        }
    }
    let mut into = vec![Vec::new(); nodes];
    let mut out = vec![Vec::new(); nodes];
    for &(upper, lower) in &spans {
        out[upper].push(lower);
        into[lower].push(upper);
    }
    let sorted = sorted(&into, &out);
    let mut of = vec![0; nodes];
    for &node in &sorted {
        of[node] = into[node].iter().map(|&up| of[up] + 1).max().unwrap_or(0);
    }
    // A node moves to where its wires are shorter together; each move shortens them, so this ends.
    for _ in 0..nodes {
        let mut moved = false;
        for &node in sorted.iter().rev() {
            let below = out[node].iter().map(|&down| of[down] - 1).min();
            if let Some(below) = below
                && out[node].len() > into[node].len()
                && below > of[node]
            {
                of[node] = below;
                moved = true;
            }
        }
        for &node in &sorted {
            let above = into[node].iter().map(|&up| of[up] + 1).max();
            if let Some(above) = above
                && into[node].len() > out[node].len()
                && above < of[node]
            {
                of[node] = above;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    let top = of.iter().copied().min().unwrap_or(0);
    for rank in &mut of {
        *rank -= top;
    }
    Ranks { of, back }
}

/// The wires that lead back to where a walk has come from.
fn leading_back(nodes: usize, wires: &[Wire]) -> Vec<bool> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Not,
        On,
        Done,
    }
    let mut out = vec![Vec::new(); nodes];
    for (place, wire) in wires.iter().enumerate() {
        out[wire.from].push(place);
    }
    let mut seen = vec![Seen::Not; nodes];
    let mut back = vec![false; wires.len()];
    for root in 0..nodes {
        if seen[root] != Seen::Not {
            continue;
        }
        // A stack of our own: a graph may be deeper than that of the program.
        let mut walk = vec![(root, 0)];
        seen[root] = Seen::On;
        while let Some((node, next)) = walk.last_mut() {
            let Some(&place) = out[*node].get(*next) else {
                seen[*node] = Seen::Done;
                walk.pop();
                continue;
            };
            *next += 1;
            let to = wires[place].to;
            match seen[to] {
                Seen::Not => {
                    seen[to] = Seen::On;
                    walk.push((to, 0));
                }
                Seen::On => back[place] = true,
                Seen::Done => {}
            }
        }
    }
    back
}

/// The nodes, each after those that lead to it.
fn sorted(into: &[Vec<usize>], out: &[Vec<usize>]) -> Vec<usize> {
    let mut left: Vec<usize> = into.iter().map(Vec::len).collect();
    let mut sorted: Vec<usize> = (0..into.len()).filter(|&node| left[node] == 0).collect();
    let mut next = 0;
    while let Some(&node) = sorted.get(next) {
        next += 1;
        for &down in &out[node] {
            left[down] -= 1;
            if left[down] == 0 {
                sorted.push(down);
            }
        }
    }
    sorted
}
