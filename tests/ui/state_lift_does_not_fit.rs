//! A lift that does not give this state, and one whose argument is no state.

use milepost::{NodeError, State};

#[derive(Clone, Default, State)]
struct ChatV1 {
    n: u8,
}

#[derive(Clone, Default, State)]
#[state(version = 2, migrate = to_another)]
struct Chat {
    n: u8,
}

fn to_another(old: ChatV1) -> Result<ChatV1, NodeError> {
    Ok(old)
}

#[derive(Clone, Default, State)]
#[state(version = 2, migrate = from_no_state)]
struct Other {
    n: u8,
}

fn from_no_state(n: u8) -> Result<Other, NodeError> {
    Ok(Other { n })
}

fn main() {}
