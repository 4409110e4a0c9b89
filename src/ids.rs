//! Identity: the newtypes for everything that has a name, a number or a place.
//!
//! In come texts that people typed and numbers that a store handed out; out go values that are
//! parsed once and then trusted. No id has arithmetic, none contains a clock, and none decides
//! anything by its text.

mod task;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use task::{QuestionId, TaskLevel, TaskPath};

/// The most bytes that a thread id, a run id or a node name may have.
pub const MAX_ID_BYTES: usize = 256;

/// Says why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The text is empty.
    #[error("a {what} must not be empty")]
    Empty {
        /// What the text was to be: "thread id", "run id" or "node name".
        what: &'static str,
    },
    /// The text has more than [`MAX_ID_BYTES`] bytes.
    #[error("a {what} has at most {MAX_ID_BYTES} bytes, this one has {found}")]
    TooLong {
        /// What the text was to be.
        what: &'static str,
        /// How many bytes it has.
        found: usize,
    },
    /// The text does not have the parts of such an id.
    #[error("\"{found}\" is no {what}: one looks like {expected}")]
    Malformed {
        /// What the text was to be.
        what: &'static str,
        /// The text.
        found: String,
        /// An example.
        expected: &'static str,
    },
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes a text of 1 to 256 bytes.
            ///
            /// # Errors
            /// [`IdError`] if the text is empty or too long.
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                let text = text.as_ref();
                match text.len() {
                    0 => Err(IdError::Empty { what: $what }),
                    found if found > MAX_ID_BYTES => Err(IdError::TooLong { what: $what, found }),
                    _ => Ok(Self(text.into())),
                }
            }

            /// The text as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The text itself, without a copy of it.
            #[inline]
            #[allow(dead_code, reason = "not every kind of id is part of a record")]
            pub(crate) fn shared(&self) -> Arc<str> {
                Arc::clone(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

text_id!(
    /// Names a thread: one log of one conversation, order, job, kept over all its runs.
    ThreadId,
    "thread id"
);
text_id!(
    /// Names a run: one input and all that came of it, kept over every resume.
    ///
    /// A caller that gives its own run id can repeat the start: the same run comes back.
    RunId,
    "run id"
);
text_id!(
    /// Names a node of a graph; printed in pictures, stored in frontiers.
    NodeName,
    "node name"
);

impl ThreadId {
    /// Makes an id that no other thread has.
    pub fn random() -> Self {
        Self(uuid::Uuid::now_v7().to_string().into())
    }
}

impl RunId {
    /// Makes an id that no other run has.
    pub fn random() -> Self {
        Self(uuid::Uuid::now_v7().to_string().into())
    }
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name($inner);

        impl $name {
            /// Takes the number as it stands in a record or was typed.
            pub const fn new(number: $inner) -> Self {
                Self(number)
            }

            /// The number.
            pub const fn get(self) -> $inner {
                self.0
            }

            /// The one after this.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = std::num::ParseIntError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

number_id!(
    /// Counts supersteps of a branch; the first one is 1, and a resume counts on.
    Step,
    u64
);
number_id!(
    /// The place of a record in its thread's log; the first one is 1. Addresses a checkpoint.
    Seq,
    u64
);
number_id!(
    /// Counts the claims of a thread. A writer with an old epoch is fenced off.
    Epoch,
    u64
);
number_id!(
    /// Names a branch of a thread's log; 0 is the one it was begun on.
    Branch,
    u32
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_1_to_256_bytes() {
        assert_eq!(ThreadId::new(""), Err(IdError::Empty { what: "thread id" }));
        assert!(ThreadId::new("x".repeat(256)).is_ok());
        assert_eq!(
            RunId::new("é".repeat(129)),
            Err(IdError::TooLong {
                what: "run id",
                found: 258
            })
        );
        assert_eq!(
            ThreadId::new("a|b:c/%\0").expect("any text").as_str(),
            "a|b:c/%\0"
        );
    }
}
