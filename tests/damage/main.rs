//! Damaged stores and full disks: a typed error or exact recovery, and whatever is sound is saved.
//! `docs/reliability.md` says what is proven and how to run it.
#![cfg(all(unix, feature = "sled"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(all(feature = "cli", feature = "graphs"))]
#[path = "../it/cli_bin.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod cli_bin;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod full;
mod places;
#[cfg(all(feature = "cli", feature = "graphs"))]
mod repair;
mod salvage;
