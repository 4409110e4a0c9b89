//! What is made beside the place that it is meant for, and gets its name when it is whole.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Gives a folder that is whole its name, for good.
pub(super) fn give_name(made: &Path, to: &Path) -> io::Result<()> {
    fs::rename(made, to)?;
    // The name is an entry of the folder around it.
    File::open(parent(to))?.sync_all()
}

/// The folder around a place, also where the place is a bare name.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
