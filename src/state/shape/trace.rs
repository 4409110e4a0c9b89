//! What is kept from round to round, and the samples that types with demands are tried with.

use std::collections::HashMap;
use std::fmt;

use serde::de;

/// Strings that types with demands are tried with.
pub(super) const STRINGS: [&str; 12] = [
    "",
    "0",
    "a",
    "1970-01-01T00:00:00Z",
    "1970-01-01T00:00:00",
    "1970-01-01",
    "00:00:00",
    "00000000-0000-0000-0000-000000000000",
    "127.0.0.1",
    "127.0.0.1:1",
    "::1",
    "http://a/",
];

/// Numbers of zero bytes that types with demands are tried with.
pub(super) const BYTES: [usize; 6] = [0, 16, 4, 8, 32, 12];

/// Deeper than any type that is worth tracing; also stops a type that never ends.
pub(super) const DEEPEST: usize = 128;

/// What is known across rounds.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) learned: bool,
    pub(super) depth: usize,
    /// The structs and enums around the present place, outermost first.
    pub(super) around: Vec<&'static str>,
    /// Inside a value that only serves to get on, how deep.
    pub(super) idle: usize,
    /// Which sample a type with demands is to be given.
    pub(super) samples: HashMap<&'static str, usize>,
    /// A sample that all get at least, once nothing else helps.
    pub(super) least: usize,
    /// A variant that can be made without going in circles.
    pub(super) plain: HashMap<&'static str, u32>,
}

impl Trace {
    pub(super) fn begin(&mut self) {
        self.learned = false;
        self.depth = 0;
        self.around.clear();
        self.idle = 0;
    }

    pub(super) fn learned(&self) -> bool {
        self.learned
    }

    /// Has all types take the next sample: one that is refused later than when it is given (by a
    /// check of the whole) does not say which. Whether there is a next one.
    pub(super) fn next_samples(&mut self) -> bool {
        self.least += 1;
        self.least < STRINGS.len()
    }
}

/// Why a round ends early; nobody is told.
#[derive(Debug)]
pub(super) struct Stop;

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this round ends here")
    }
}

impl std::error::Error for Stop {}

impl de::Error for Stop {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}
