//! The real program in a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder in which the program is run.
pub(crate) struct Desk {
    dir: TempDir,
}

/// What a run of the program gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// Asserts the exit code.
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    /// The values on the lines of its output.
    pub(crate) fn values(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{line}: {why}"));
        self.out.lines().map(parse).collect()
    }

    /// The one value of its output.
    pub(crate) fn value(&self) -> Value {
        let values = self.values();
        assert_eq!(values.len(), 1, "{}", self.out);
        values[0].clone()
    }
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The program, with these words.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_milepost"));
        command
            .args(words)
            .current_dir(self.dir.path())
            .env_remove("MILEPOST_STORE")
            .env_remove("MILEPOST_ENGINE")
            .env_remove("MILEPOST_LOG")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        self.command(words).output().unwrap().into()
    }

    pub(crate) fn start(&self, words: &[&str]) -> Child {
        let mut command = self.command(words);
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        piped.spawn().unwrap()
    }

    /// How often each task was run, by the tally of the runs.
    pub(crate) fn tally(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("tally")).unwrap_or_default();
        let mut tasks: Vec<_> = text.lines().map(str::to_owned).collect();
        tasks.sort();
        tasks
    }
}

/// The documents of the tests.
pub(crate) fn bakery() -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/docs");
    docs.display().to_string()
}
