//! A node of a graph over another state is no target.

use milepost::{Context, Graph, NodeError, Snapshot, State};

#[derive(Clone, Default, State)]
struct Chat {
    n: u64,
}

async fn plain(chat: Snapshot<Chat>, _: Context) -> Result<ChatUpdate, NodeError> {
    Ok(Chat::update().n(chat.n + 1))
}

#[derive(Clone, Default, State)]
struct Other {
    n: u64,
}

async fn elsewhere(_: Snapshot<Other>, _: Context) -> Result<OtherUpdate, NodeError> {
    Ok(Other::update())
}

fn main() {
    let mut other = Graph::<Other>::builder("other");
    let b = other.node("b", elsewhere);
    let mut g = Graph::<Chat>::builder("g");
    let a = g.node("a", plain);
    g.start(a);
    g.edge(a, b);
}
