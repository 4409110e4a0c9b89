//! A node returns an update of its own graph's state.

use milepost::{Context, End, Graph, NodeError, Snapshot, State};

#[derive(Clone, Default, State)]
struct Chat {
    n: u64,
}

#[derive(Clone, Default, State)]
struct Other {
    n: u64,
}

async fn foreign(_: Snapshot<Chat>, _: Context) -> Result<OtherUpdate, NodeError> {
    Ok(Other::update())
}

fn main() {
    let mut g = Graph::<Chat>::builder("g");
    let a = g.node("a", foreign);
    g.start(a);
    g.edge(a, End);
}
