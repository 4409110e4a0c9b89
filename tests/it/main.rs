//! What the public surface promises, tested from outside.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "graphs")]
#[path = "../../graphs/mod.rs"]
pub mod graphs;

mod engine_cases;
mod engine_trouble;
mod graph_checks;
mod graph_orders;
#[cfg(feature = "graphs")]
mod research;
mod run_events;
mod run_schema;
mod run_stop;
mod smoke;
mod store_conformance;
#[cfg(feature = "sled")]
mod store_damage;
mod store_format;
#[cfg(feature = "sled")]
mod store_kill;
#[cfg(feature = "sled")]
mod store_logs;
#[cfg(feature = "sled")]
mod store_sled;
mod support;
mod ui;
