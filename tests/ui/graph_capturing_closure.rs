//! An async closure that captures borrows from itself: clone into the future instead.

use milepost::{Context, End, Graph, Snapshot, State};

#[derive(Clone, Default, State)]
struct Chat {
    n: u64,
}

fn main() {
    let by = 2;
    let mut g = Graph::<Chat>::builder("g");
    let a = g.node("a", async move |chat: Snapshot<Chat>, _: Context| Ok(Chat::update().n(chat.n + by)));
    g.start(a);
    g.edge(a, End);
}
