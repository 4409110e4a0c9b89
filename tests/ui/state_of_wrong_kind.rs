//! Only a struct with named fields and without parameters is a state.

use milepost::State;
use serde::{Deserialize, Serialize};

#[derive(Clone, Default, Serialize, Deserialize, State)]
enum Choice {
    #[default]
    One,
}

#[derive(Clone, Default, Serialize, Deserialize, State)]
struct Pair(u8, u8);

#[derive(Clone, Default, Serialize, Deserialize, State)]
struct Unit;

#[derive(Clone, Default, Serialize, Deserialize, State)]
struct Generic<T> {
    field: T,
}

fn main() {}
