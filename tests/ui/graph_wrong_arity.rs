//! A node takes a snapshot and a context.

use milepost::{End, Graph, NodeError, Snapshot, State};

#[derive(Clone, Default, State)]
struct Chat {
    n: u64,
}

async fn short(_: Snapshot<Chat>) -> Result<ChatUpdate, NodeError> {
    Ok(Chat::update())
}

fn main() {
    let mut g = Graph::<Chat>::builder("g");
    let a = g.node("a", short);
    g.start(a);
    g.edge(a, End);
}
