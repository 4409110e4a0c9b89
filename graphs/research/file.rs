//! Writes a file that a crash cannot halve.
//!
//! In come a path and its whole text; afterwards the path has the old text or the new one, whatever
//! happens in between. It never appends.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file whole: beside its place first, then on disk, then under its name.
///
/// # Errors
/// What the system says, with the path.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let said = |error: io::Error| {
        let said = format!("{} cannot be written: {error}", path.display());
        io::Error::new(error.kind(), said)
    };
    let temporary = beside(path)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "this is no file name"))
        .map_err(said)?;
    let written = File::create(&temporary)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| sync_folder(path));
    if written.is_err() {
        // It may not even have been made.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(said)
}

/// The same name always: what a killed process left is overwritten, not piled up.
fn beside(path: &Path) -> Option<PathBuf> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name()?);
    name.push(".part");
    Some(path.with_file_name(name))
}

/// The new name is an entry of the folder, which is synced on its own.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let folder = path.parent().filter(|parent| *parent != Path::new(""));
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.md");
        write_whole(&path, "one").unwrap();
        fs::write(beside(&path).unwrap(), "what a killed process left").unwrap();
        write_whole(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_path_that_cannot_be_written_is_named() {
        let error = write_whole(Path::new("/no/such/folder/a.md"), "x").unwrap_err();
        assert!(
            error.to_string().contains("/no/such/folder/a.md"),
            "{error}"
        );
    }
}
