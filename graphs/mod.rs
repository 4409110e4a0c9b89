//! Worked graphs: each a folder, each over the public API alone, each as useful as it stands.

#![allow(
    clippy::unwrap_used,
    reason = "a worked graph shows its own lines, not the handling of what its tests set up"
)]

pub mod research;
