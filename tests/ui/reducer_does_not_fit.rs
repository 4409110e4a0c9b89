//! One reducer that does not fit its field: one error, at the attribute.

use milepost::{Add, State};
use serde::{Deserialize, Serialize};

#[derive(Clone, Default, Serialize, Deserialize, State)]
struct Chat {
    #[reduce(Add)]
    messages: Vec<String>,
    #[reduce(Add)]
    tokens: u64,
}

fn main() {
    let _ = Chat::update().tokens(1);
}
