//! The state of all graphs here: a field for each way in which values are stored.

use std::collections::BTreeMap;

use milepost::{Add, Append, Ephemeral, Merge, ReduceFault, Reducer, State, Updates};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, State)]
pub(crate) struct Work {
    /// What happened, in merge order.
    #[reduce(Append)]
    pub(crate) log: Vec<String>,
    /// A long list, which crosses segments and bases.
    #[reduce(Append)]
    pub(crate) texts: Vec<String>,
    #[reduce(Add)]
    pub(crate) sum: u64,
    pub(crate) n: u64,
    /// There for one superstep.
    #[reduce(Ephemeral)]
    pub(crate) word: String,
    /// Stored by value.
    #[reduce(Fold)]
    pub(crate) fold: u64,
    /// Stored as updates, and replayed.
    #[reduce(Braid)]
    pub(crate) braid: String,
    #[reduce(Merge)]
    pub(crate) map: BTreeMap<String, u64>,
}

impl Work {
    /// The bytes of every field.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        rmp_serde::to_vec_named(self).unwrap()
    }
}

/// A number that depends on every update and on their order.
pub(crate) struct Fold;

impl Reducer<u64> for Fold {
    type Update = u64;
    fn reduce(value: &mut u64, updates: Updates<u64>) -> Result<(), ReduceFault> {
        for update in updates {
            *value = value.wrapping_mul(31).wrapping_add(update);
        }
        Ok(())
    }
}

/// The same with text, and with a version: its updates are replayed.
pub(crate) struct Braid;

impl Reducer<String> for Braid {
    type Update = String;
    fn reduce(value: &mut String, updates: Updates<String>) -> Result<(), ReduceFault> {
        for update in updates {
            value.push_str(&update);
            value.push('/');
        }
        Ok(())
    }
    fn version() -> Option<u32> {
        Some(1)
    }
}
