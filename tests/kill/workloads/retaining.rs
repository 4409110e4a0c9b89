//! Threads of which only the newest checkpoints stay: with questions open, over several bases, in a
//! loop. The graphs are those of others.

use milepost::RunOptions;
use milepost::store::Retention;

use super::{asking, shapes};
use crate::script::Workload;

/// How many stay.
pub(crate) const NEWEST: u64 = 3;

/// With a base after each second commit, because only what lies before one is dropped.
fn few(options: RunOptions) -> RunOptions {
    options.base_every(2).retention(Retention::last(NEWEST))
}

pub(super) const ASKING: Workload = Workload {
    name: "asking, few",
    options: few,
    ..asking::WORKLOAD
};

pub(super) const CHAIN: Workload = Workload {
    name: "chain, few",
    options: few,
    ..shapes::CHAIN
};

pub(super) const LONG: Workload = Workload {
    name: "long, few",
    options: few,
    ..shapes::LONG
};
