//! Sound inputs by kind, as files; and how many cases are played.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use crate::memory::Memory;
use crate::mutate::{Dice, mutate};

/// The inputs of a kind, in the order of their names.
pub(crate) fn of(kind: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder(kind)).unwrap_or_else(|why| panic!("{kind}: {why}"));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let all: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(!all.is_empty(), "there is nothing of kind {kind}");
    all
}

/// Sees that a kind has these inputs, or with `MILEPOST_BLESS` that it has them from now on.
pub(crate) fn keep(kind: &str, inputs: &[(String, Vec<u8>)]) {
    for (name, bytes) in inputs {
        let path = folder(kind).join(name);
        if std::env::var_os("MILEPOST_BLESS").is_some() {
            fs::create_dir_all(folder(kind)).unwrap();
            fs::write(&path, bytes).unwrap();
        }
        let kept = fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        assert!(kept == *bytes, "{} is another", path.display());
    }
}

fn folder(kind: &str) -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.join("tests/fuzz/corpus").join(kind)
}

/// How many cases are played where nothing is said: `usual`, or `MILEPOST_FUZZ_CASES`.
fn cases(usual: u64) -> u64 {
    let asked = std::env::var("MILEPOST_FUZZ_CASES");
    asked.map_or(usual, |number| number.parse().unwrap())
}

/// Plays every input of a kind as it is, and then changed. What `body` panics on is shown as it can
/// be kept in the corpus.
pub(crate) fn play(kind: &str, usual: u64, mut body: impl FnMut(&[u8])) {
    let inputs = of(kind);
    let memory = Memory::watch();
    let mut try_one = |bytes: &[u8], what: String| {
        if catch_unwind(AssertUnwindSafe(|| body(bytes))).is_err() {
            let kept = std::env::temp_dir().join(format!("fuzz-{kind}-{}", bytes.len()));
            fs::write(&kept, bytes).unwrap();
            panic!(
                "{what} broke something; its bytes are in {}",
                kept.display()
            );
        }
    };
    for (number, input) in inputs.iter().enumerate() {
        try_one(input, format!("{kind} input {number}"));
    }
    for case in 0..cases(usual) {
        let mut dice = Dice::new(case + 1);
        let (input, other) = (dice.one(&inputs).clone(), dice.one(&inputs).clone());
        let bytes = mutate(&mut dice, &input, &other);
        try_one(&bytes, format!("{kind} case {case}"));
    }
    memory.check();
}
