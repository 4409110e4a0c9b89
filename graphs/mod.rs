//! Worked graphs: each a folder, each over the public API alone, each as useful as it stands.

#![allow(
    clippy::unwrap_used,
    reason = "a worked graph shows its own lines, not the handling of what its tests set up"
)]

pub mod count;
pub mod research;
pub mod review;

/// Every worked graph, with its flags, as the commands take them.
#[cfg(feature = "cli")]
pub fn all() -> Vec<milepost::cli::Entry> {
    use milepost::cli::Entry;

    vec![
        count::entry(),
        Entry::new::<research::ResearchArgs>(research::research()).example(research::example),
        Entry::new::<review::ReviewArgs>(review::review()),
    ]
}
