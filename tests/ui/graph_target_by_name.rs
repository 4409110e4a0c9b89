//! A target is a node, never a name.

use milepost::{Context, Graph, NodeError, Snapshot, State};

#[derive(Clone, Default, State)]
struct Chat {
    n: u64,
}

async fn plain(chat: Snapshot<Chat>, _: Context) -> Result<ChatUpdate, NodeError> {
    Ok(Chat::update().n(chat.n + 1))
}

fn main() {
    let mut g = Graph::<Chat>::builder("g");
    let a = g.node("a", plain);
    g.start(a);
    g.edge(a, "b");
}
