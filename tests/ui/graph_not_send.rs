//! What a node holds while it waits can move to another thread.

use milepost::{Context, End, Graph, NodeError, Snapshot, State};

#[derive(Clone, Default, State)]
struct Chat {
    n: u64,
}

async fn stuck(_: Snapshot<Chat>, _: Context) -> Result<ChatUpdate, NodeError> {
    let held = std::rc::Rc::new(1);
    tokio::task::yield_now().await;
    Ok(Chat::update().n(*held))
}

fn main() {
    let mut g = Graph::<Chat>::builder("g");
    let a = g.node("a", stuck);
    g.start(a);
    g.edge(a, End);
}
