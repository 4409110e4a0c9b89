//! What the public surface promises, tested from outside.

#[cfg(feature = "graphs")]
#[path = "../../graphs/mod.rs"]
pub mod graphs;

#[cfg(feature = "graphs")]
mod research;
mod smoke;
mod store_conformance;
mod store_damage;
mod store_format;
mod store_kill;
mod store_logs;
mod store_sled;
