//! An update of one state, applied to another or returned by a node of another.

use milepost::{IntoOutput, State};
use serde::{Deserialize, Serialize};

#[derive(Clone, Default, Serialize, Deserialize, State)]
struct Chat {
    answer: Option<String>,
}

#[derive(Clone, Default, Serialize, Deserialize, State)]
struct Order {
    total: u64,
}

fn returned_by_a_chat_node(_: impl IntoOutput<Chat>) {}

fn main() {
    let _ = Chat::default().apply(Order::update());
    returned_by_a_chat_node(Order::update());
    let _ = Chat::update().clear(Order::TOTAL);
}
