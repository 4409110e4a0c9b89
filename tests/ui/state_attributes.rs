//! Attributes that say nothing, say it twice, or say it in quotes: each is reported where it stands.

use milepost::State;
use serde::{Deserialize, Serialize};

#[derive(Clone, Default, Serialize, Deserialize, State)]
#[state(versoin = 2)]
struct Chat {
    #[reduce("Append")]
    quoted: Vec<String>,
    #[reduce]
    empty: Vec<String>,
    #[reduce(Append)]
    #[reduce(Add)]
    twice: Vec<String>,
    #[reduce(Append, Add)]
    both: Vec<String>,
    #[codec("Bincode")]
    codec: u8,
    #[required]
    #[required]
    required: u8,
    #[required(true)]
    very_required: u8,
    #[state(version = 2)]
    misplaced: u8,
    overwrite: u8,
    clear: u8,
}

#[derive(Clone, Default, Serialize, Deserialize, State)]
#[state(version = "2")]
struct Quoted {}

#[derive(Clone, Default, Serialize, Deserialize, State)]
#[state(version = 0)]
struct Nought {}

#[derive(Clone, Default, Serialize, Deserialize, State)]
#[state(version = 1, version = 2)]
struct Twice {}

#[derive(Clone, Default, Serialize, Deserialize, State)]
struct Unknown {
    #[codec(Bincod)]
    field: u8,
}

#[derive(Clone, Default, Serialize, Deserialize, State)]
#[state(version = 2, migrate = "from_v1")]
struct QuotedLift {}

#[derive(Clone, Default, Serialize, Deserialize, State)]
#[state(migrate = from_v1)]
struct LiftedToTheFirst {}

#[derive(Clone, Default, Serialize, Deserialize, State)]
struct Renamed {
    #[field(alias = "old")]
    quoted: u8,
    #[field(name = old)]
    other: u8,
    #[field]
    empty: u8,
    #[field(alias = other)]
    taken: u8,
    #[field(alias = before, alias = before)]
    twice: u8,
}

#[derive(Clone, Default, Serialize, Deserialize, State)]
struct Skipped {
    #[serde(default, skip)]
    secret: u8,
}

fn main() {}
