//! Why a text is not the value that is wanted.

use std::fmt;

use super::out::cut;

/// How much of what was found is repeated.
const SHOWN: usize = 60;

/// Why a text is not the value that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wrong {
    /// It is no JSON.
    NotJson {
        line: usize,
        column: usize,
        why: String,
    },
    /// It is something else.
    Other {
        /// Where in the JSON; empty for the whole.
        at: String,
        expected: String,
        found: String,
    },
    /// There is no such name.
    Unknown {
        at: String,
        name: String,
        known: Vec<String>,
    },
    /// A name stands there twice.
    Twice { at: String, name: String },
    /// It is deeper than any value may be.
    Deep { most: usize },
}

impl Wrong {
    /// JSON that does not begin to be a value.
    pub(super) fn syntax(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let (why, _) = text.rsplit_once(" at line").unwrap_or((&text, ""));
        let why = match why.strip_prefix("EOF while parsing") {
            Some(_) => "it ends too early".to_owned(),
            None => why.to_owned(),
        };
        Wrong::NotJson {
            line: error.line(),
            column: error.column(),
            why,
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::NotJson { line, column, why } => {
                write!(
                    f,
                    "this is not JSON: {why}, in line {line}, column {column}"
                )
            }
            Wrong::Other {
                at,
                expected,
                found,
            } => {
                place(f, at)?;
                write!(f, "{expected} is expected, found {}", cut(found, SHOWN))
            }
            Wrong::Unknown { at, name, known } => {
                place(f, at)?;
                write!(f, "there is no field {name:?}")?;
                if let Some(nearest) = nearest(name, known) {
                    write!(f, ": is {nearest:?} meant?")?;
                }
                write!(f, "; the fields are {}", known.join(", "))
            }
            Wrong::Twice { at, name } => {
                place(f, at)?;
                write!(f, "{name:?} stands there twice")
            }
            Wrong::Deep { most } => write!(f, "it is deeper than {most} levels"),
        }
    }
}

fn place(f: &mut fmt::Formatter<'_>, at: &str) -> fmt::Result {
    match at {
        "" => Ok(()),
        at => write!(f, "at {at}: "),
    }
}

/// The known name that is most like this one, if one is like it.
fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let most = 1 + name.chars().count() / 3;
    let distances = known.iter().map(|other| (distance(name, other), other));
    let best = distances.min_by_key(|(distance, _)| *distance);
    best.filter(|(distance, _)| *distance <= most)
        .map(|(_, other)| other.as_str())
}

/// How many letters have to be put in, left out or changed.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (place, letter) in one.chars().enumerate() {
        let mut diagonal = place;
        let mut left = place + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, wanted) in row.iter_mut().skip(1).zip(&other) {
            let changed = diagonal + usize::from(letter != *wanted);
            diagonal = *cell;
            left = changed.min(left + 1).min(diagonal + 1);
            *cell = left;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_one_that_is_like_it() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
        let known = ["question".to_owned(), "docs".to_owned()];
        assert_eq!(nearest("qestion", &known), Some("question"));
        assert_eq!(nearest("doc", &known), Some("docs"));
        assert_eq!(nearest("zzz", &known), None);
        assert_eq!(nearest("a", &[]), None);
    }
}
