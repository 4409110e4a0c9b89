//! A struct is a node when it says so.

use milepost::{Graph, State};

#[derive(Clone, Default, State)]
struct Chat {
    n: u64,
}

struct Nothing;

fn main() {
    let mut g = Graph::<Chat>::builder("g");
    let a = g.object("a", Nothing);
    g.start(a);
}
