//! The folder in which a repair works: begun anew by each, removed with it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::super::beside::give_name;
use super::super::exit::{Exit, Failure, room};
use super::super::shell::Shell;

/// Says that a folder is one of ours, and may be removed.
const MARK: &str = "milepost-repair";

/// The folder in which the new store is made.
pub(super) struct Bench(PathBuf);

impl Bench {
    /// Makes it anew, beside the place of the new store.
    pub(super) fn set_up(shell: &Shell, to: &Path) -> Result<Self, Failure> {
        let is_empty =
            |folder: &Path| fs::read_dir(folder).is_ok_and(|mut all| all.next().is_none());
        if fs::symlink_metadata(to).is_ok() && !is_empty(to) {
            let what = format!("{} is there already", to.display());
            return Err(Failure::usage(what).next("name another folder with --to"));
        }
        let Some(name) = to.file_name() else {
            let what = format!("{} is no name for a folder", to.display());
            return Err(Failure::usage(what).next("name another folder with --to"));
        };
        let mut name = name.to_owned();
        name.push(".repair");
        let path = to.with_file_name(name);
        let is_there = fs::symlink_metadata(&path).is_ok();
        if is_there && !path.join(MARK).exists() && !is_empty(&path) {
            let what = format!(
                "{} is there already, and was not made by a repair",
                path.display()
            );
            return Err(Failure::usage(what).next("name another folder with --to"));
        }
        // From here on the folder is ours, and is removed when this is dropped.
        let bench = Self(path);
        if is_there {
            bench.clear()?;
        }
        let made = fs::create_dir(&bench.0).and_then(|()| fs::write(bench.path(MARK), ""));
        made.map_err(|error| match room(&error) {
            Some(_) => bench.failed("made", &error),
            None => {
                let what = format!("{} cannot be made: {error}", bench.0.display());
                let next = "name a folder whose parent can be written";
                let next = format!("{next}: {}", shell.again("doctor --repair --to FOLDER"));
                Failure::usage(what).next(next)
            }
        })?;
        Ok(bench)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Gives the new store its name.
    pub(super) fn hand_over(&self, to: &Path) -> Result<(), Failure> {
        let named = give_name(&self.path("store"), to);
        named.map_err(|error| self.failed("renamed", &error))
    }

    fn clear(&self) -> Result<(), Failure> {
        // The mark goes last: half of a folder is still known as ours.
        for name in ["copy", "store"] {
            match fs::remove_dir_all(self.path(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(self.failed("removed", &error));
                }
                _ => {}
            }
        }
        fs::remove_dir_all(&self.0).map_err(|error| self.failed("removed", &error))
    }

    fn failed(&self, done: &str, error: &io::Error) -> Failure {
        let what = format!("{} cannot be {done}: {error}", self.0.display());
        let first = room(error).unwrap_or("put that right");
        Failure::new(Exit::Failed, what).next(format!("{first}, and repair again"))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // What is left of it, the next repair removes.
        let _ = self.clear();
    }
}
