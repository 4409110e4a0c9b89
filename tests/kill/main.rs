//! Nothing finished is lost or done twice, at whatever instruction a process is killed.
//!
//! A parent starts children of this same program, lets them run graphs in a durable store, kills
//! them, starts others that go on, and at the end compares the store with that of an undisturbed
//! run and with a diary that the children kept outside of the store. `docs/reliability.md` says
//! what is proven and how to run it.
#![cfg(all(unix, feature = "sled"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
mod checker;
mod child;
mod controls;
mod diary;
mod disk;
mod every_operation;
mod failpoint;
mod faulty;
mod full;
mod graphs;
mod ledger;
mod long_values;
mod parent;
mod poison;
mod random;
mod reference;
mod retaining;
mod script;
mod state;
mod still;
mod trouble;
mod upkeep;
mod workloads;
