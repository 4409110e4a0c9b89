//! An exit leads to a worker only with payloads.

use milepost::{Context, End, Exits, Graph, NodeError, Snapshot, State};

#[derive(Clone, Default, State)]
struct Chat {
    n: u64,
}

#[derive(Clone, Copy, Exits)]
enum Way {
    On,
    Out,
}

async fn choosing(_: Snapshot<Chat>, _: Context) -> Result<(ChatUpdate, Way), NodeError> {
    Ok((Chat::update(), Way::On))
}

async fn work(item: u64, _: Snapshot<Chat>, _: Context) -> Result<ChatUpdate, NodeError> {
    Ok(Chat::update().n(item))
}

fn main() {
    let mut g = Graph::<Chat>::builder("g");
    let a = g.node("a", choosing);
    let w = g.worker("w", work);
    g.start(a);
    g.wire(a, |way| match way {
        Way::On => w.into(),
        Way::Out => End.into(),
    });
    g.edge(w, End);
}
