//! The promises of the crate, one module each.

#[cfg(feature = "graphs")]
#[path = "../../graphs/mod.rs"]
pub mod graphs;
#[cfg(feature = "graphs")]
mod research;
