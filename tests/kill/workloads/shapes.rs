//! The graphs that processes run (`graphs.rs`), as scripts.

use super::plain;
use crate::graphs::Shape;
use crate::script::{Call, Workload};

const RUNS: &[Call] = &[Call::Start(0), Call::Start(1)];

pub(super) const CHAIN: Workload = Workload {
    name: "chain again",
    graph: |diary| Shape::Chain.graph(diary),
    options: plain,
    calls: RUNS,
};

pub(super) const DIAMOND: Workload = Workload {
    name: "diamond again",
    graph: |diary| Shape::Diamond.graph(diary),
    options: plain,
    calls: RUNS,
};

pub(super) const FAN: Workload = Workload {
    name: "fan again",
    graph: |diary| Shape::Fan.graph(diary),
    options: plain,
    calls: RUNS,
};

pub(super) const EMPTY: Workload = Workload {
    name: "empty again",
    graph: |diary| Shape::Empty.graph(diary),
    options: plain,
    calls: RUNS,
};

pub(super) const LONG: Workload = Workload {
    name: "long again",
    graph: |diary| Shape::Long.graph(diary),
    options: |options| options.base_every(3),
    calls: RUNS,
};

pub(super) const MIXED: Workload = Workload {
    name: "mixed again",
    graph: |diary| Shape::Mixed.graph(diary),
    options: |options| options.base_every(2),
    calls: RUNS,
};
