//! A program over that graph, in a process of its own.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use milepost::cli::{self, Entry};

use super::state::graph;
use crate::cli_bin::Ran;

/// Set for the child: its words, a line each.
const WORDS: &str = "MILEPOST_TEST_WORDS";
/// Stands before what the program itself says.
const BEGIN: &str = "-- here the program begins --\n";

/// Not a test of its own: the program, where it was started as such.
#[test]
fn program() {
    let Ok(words) = std::env::var(WORDS) else {
        return;
    };
    let mut out = std::io::stdout();
    out.write_all(BEGIN.as_bytes()).unwrap();
    let words = ["try"].into_iter().chain(words.split('\u{1f}'));
    let exit = cli::run([Entry::of(graph())], words);
    std::process::exit(exit.code().into());
}

/// Runs the program in a folder; `piped` is what it is given on its standard input.
pub(super) fn ran(folder: &Path, words: &[&str], piped: &[u8]) -> Ran {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "cli_inputs::program::program"])
        .env(WORDS, words.join("\u{1f}"))
        .env_remove("MILEPOST_STORE")
        .env_remove("MILEPOST_LOG")
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that does not read is not made to.
    let _ = child.stdin.take().unwrap().write_all(piped);
    let mut ran = Ran::from(child.wait_with_output().unwrap());
    let (_, said) = ran.out.split_once(BEGIN).unwrap();
    ran.out = said.to_owned();
    ran
}
