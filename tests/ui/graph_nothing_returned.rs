//! A node returns an update, also where nothing changes.

use milepost::{Context, End, Graph, NodeError, Snapshot, State};

#[derive(Clone, Default, State)]
struct Chat {
    n: u64,
}

async fn silent(_: Snapshot<Chat>, _: Context) -> Result<(), NodeError> {
    Ok(())
}

fn main() {
    let mut g = Graph::<Chat>::builder("g");
    let a = g.node("a", silent);
    g.start(a);
    g.edge(a, End);
}
