//! C08: a node cannot name its successor beside an edge: it has exits, or an edge.

use milepost::{Context, End, Graph, NodeError, Snapshot, State};

#[derive(Clone, Default, State)]
struct Chat {
    n: u64,
}

async fn jumping(_: Snapshot<Chat>, _: Context) -> Result<(ChatUpdate, &'static str), NodeError> {
    Ok((Chat::update(), "c"))
}

fn main() {
    let mut g = Graph::<Chat>::builder("g");
    let a = g.node("a", jumping);
    g.start(a);
    g.edge(a, End);
}
