//! A name or a label inside a record: shared with whoever else has it, never copied.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ids::{NodeName, RunId};

/// A text in a record that many records have: the name of a node, a field, a run, the label of an
/// exit. A copy shares it. It is read as a `str`, and stored as one.
#[derive(Clone)]
pub struct Text(Inner);

#[derive(Clone)]
enum Inner {
    Fixed(&'static str),
    Shared(Arc<str>),
}

impl Text {
    /// A text that is part of the program.
    pub const fn fixed(text: &'static str) -> Self {
        Self(Inner::Fixed(text))
    }

    /// The text.
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Inner::Fixed(text) => text,
            Inner::Shared(text) => text,
        }
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::fixed("")
    }
}

impl Deref for Text {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        match text {
            "" => Self::default(),
            text => Self(Inner::Shared(text.into())),
        }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&NodeName> for Text {
    #[inline]
    fn from(name: &NodeName) -> Self {
        Self(Inner::Shared(name.shared()))
    }
}

impl From<&RunId> for Text {
    fn from(run: &RunId) -> Self {
        Self(Inner::Shared(run.shared()))
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.as_str().to_owned()
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for Text {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<Text> for &str {
    fn eq(&self, other: &Text) -> bool {
        *self == other.as_str()
    }
}

impl PartialEq<Text> for String {
    fn eq(&self, other: &Text) -> bool {
        self == other.as_str()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_the_same_wherever_it_came_from() {
        let name = NodeName::new("plan").expect("a name");
        let texts = [
            Text::fixed("plan"),
            Text::from("plan"),
            Text::from(String::from("plan")),
            Text::from(&name),
        ];
        for text in &texts {
            assert_eq!(*text, texts[0]);
            assert_eq!(text, "plan");
            let bytes = bincode::serialize(text).expect("it is written");
            assert_eq!(bytes, bincode::serialize("plan").expect("it is written"));
            let back: Text = bincode::deserialize(&bytes).expect("it is read");
            assert_eq!(back, *text);
        }
        assert_eq!(Text::default(), Text::from(""));
    }
}
