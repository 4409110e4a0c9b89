//! A node with exits has no plain edge: its exits lead on.

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

fn main() {
    let mut g = Graph::<Chat>::builder("g");
    let a = g.node("a", choosing);
    g.start(a);
    g.edge(a, End);
}
