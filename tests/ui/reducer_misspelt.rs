//! A reducer that does not exist: one error, at the attribute, with the right name.

use milepost::State;
use serde::{Deserialize, Serialize};

#[derive(Clone, Default, Serialize, Deserialize, State)]
struct Chat {
    #[reduce(milepost::Apend)]
    messages: Vec<String>,
}

fn main() {}
