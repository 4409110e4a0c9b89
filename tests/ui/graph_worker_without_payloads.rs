//! An edge leads to a worker only with payloads.

use milepost::{Context, End, Graph, NodeError, Snapshot, State};

#[derive(Clone, Default, State)]
struct Chat {
    n: u64,
}

async fn plain(chat: Snapshot<Chat>, _: Context) -> Result<ChatUpdate, NodeError> {
    Ok(Chat::update().n(chat.n + 1))
}

async fn work(item: u64, _: Snapshot<Chat>, _: Context) -> Result<ChatUpdate, NodeError> {
    Ok(Chat::update().n(item))
}

fn main() {
    let mut g = Graph::<Chat>::builder("g");
    let a = g.node("a", plain);
    let w = g.worker("w", work);
    g.start(a);
    g.edge(a, w);
    g.edge(w, End);
}
