//! A field that the state does not have, and a value of the wrong type (S002, C02).

use milepost::{Append, State};
use serde::{Deserialize, Serialize};

#[derive(Clone, Default, Serialize, Deserialize, State)]
struct Chat {
    #[reduce(Append)]
    messages: Vec<String>,
    answer: Option<String>,
}

fn main() {
    let _ = Chat::update().mesages(vec![]);
    let _ = Chat::update().messages("hello");
    let _ = Chat::update().overwrite(Chat::ANSWER, vec![1]);
}
