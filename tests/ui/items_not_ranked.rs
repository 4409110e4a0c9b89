//! A policy that asks more of the items than they have.

use std::collections::BTreeMap;

use milepost::{ByKey, KeepBest, Keyed, State};
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Note {
    url: String,
}

impl Keyed for Note {
    type Key = String;
    fn key(&self) -> String {
        self.url.clone()
    }
}

#[derive(Clone, Default, Serialize, Deserialize, State)]
struct Report {
    #[reduce(ByKey<KeepBest>)]
    notes: BTreeMap<String, Note>,
}

fn main() {}
