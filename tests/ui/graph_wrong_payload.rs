//! The payloads of a fan-out are of the type that its worker takes.

use milepost::{Context, End, Graph, NodeError, Snapshot, State};

#[derive(Clone, Default, State)]
struct Chat {
    n: u64,
}

async fn work(item: u64, _: Snapshot<Chat>, _: Context) -> Result<ChatUpdate, NodeError> {
    Ok(Chat::update().n(item))
}

fn main() {
    let mut g = Graph::<Chat>::builder("g");
    let w = g.worker("w", work);
    g.start(w.each(|_| vec!["one".to_owned()]));
    g.edge(w, End);
}
