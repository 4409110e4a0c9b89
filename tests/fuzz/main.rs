//! Every decoder of bytes from outside, given bytes that nobody wrote: it refuses with a typed error
//! or reads what would be written again as the same bytes; it never panics, and never takes more
//! memory than its input is worth.
//!
//! `tests/fuzz/corpus` has sound inputs by kind, and what once broke something. They are changed by
//! [`mutate`]; `MILEPOST_FUZZ_CASES` says how often (`docs/reliability.md`).
#![cfg(all(unix, feature = "sled"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(all(feature = "cli", feature = "graphs"))]
mod commands;
mod corpus;
mod frames;
mod lines;
mod memory;
mod mutate;
mod threads;
#[cfg(feature = "window")]
mod wire;
