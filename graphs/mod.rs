//! Worked graphs: each a folder, each over the public API alone, each as useful as it stands.

pub mod research;
