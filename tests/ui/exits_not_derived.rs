//! An exit of a type that is no exit yet.

use milepost::{IntoOutput, State};
use serde::{Deserialize, Serialize};

#[derive(Clone, Default, Serialize, Deserialize, State)]
struct Chat {
    answer: Option<String>,
}

#[derive(Clone, Copy)]
enum AfterModel {
    Answered,
}

fn returned_by_a_chat_node(_: impl IntoOutput<Chat>) {}

fn main() {
    returned_by_a_chat_node((Chat::update(), AfterModel::Answered));
}
