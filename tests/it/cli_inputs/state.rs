//! A state with fields of all sorts, and its graph.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use milepost::{
    Add, Append, BuildError, Context, End, Graph, Max, Merge, NodeError, Snapshot, State, Union,
};
use serde::de::{Deserialize, Deserializer, Visitor};
use serde::{Deserialize as DeserializeDerive, Serialize, Serializer};

/// How fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, DeserializeDerive)]
pub(super) enum Pace {
    #[default]
    Slow,
    Fast,
    #[serde(rename = "as it comes")]
    Any,
}

/// What can be drawn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, DeserializeDerive)]
pub(super) enum Figure {
    #[default]
    Nothing,
    Circle(f32),
    Line(i8, u128),
    Box {
        wide: f64,
        high: Option<f64>,
    },
    Both(Box<Figure>, Box<Figure>),
}

/// A part of a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, DeserializeDerive)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) size: f64,
    pub(super) inner: Vec<Wrapped>,
}

/// A part again, inside a type that no codec writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, DeserializeDerive)]
pub(super) struct Wrapped(pub(super) Option<Box<Part>>);

/// Cannot be traced: its own field says what it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, DeserializeDerive)]
#[serde(tag = "kind")]
pub(super) enum Tagged {
    A {
        size: f64,
    },
    #[default]
    B,
}

/// Has another name for one field, and does without the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, DeserializeDerive)]
pub(super) struct Loose {
    #[serde(default)]
    pub(super) a: u8,
    #[serde(alias = "old")]
    pub(super) b: f64,
}

/// Bytes as serde knows them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Blob(pub(super) Vec<u8>);

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Blob;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Blob, E> {
                Ok(Blob(bytes))
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Blob, E> {
                Ok(Blob(bytes.to_vec()))
            }
        }
        deserializer.deserialize_byte_buf(Bytes)
    }
}

/// Everything that can be given.
///
/// More about it stands here.
#[derive(Clone, Debug, PartialEq, State)]
pub(super) struct All {
    /// What is to be said.
    /// It has two lines.
    ///
    /// And a second paragraph.
    pub(super) text: String,
    pub(super) letter: char,
    /// A byte.
    pub(super) tiny: u8,
    pub(super) small: i16,
    pub(super) big: i64,
    /// Added to what is there.
    #[reduce(Add)]
    pub(super) sum: u64,
    pub(super) huge: u128,
    pub(super) deep: i128,
    pub(super) single: f32,
    pub(super) double: f64,
    pub(super) flag: bool,
    /// May be none.
    pub(super) maybe: Option<String>,
    pub(super) twice: Option<Option<i32>>,
    /// The greatest.
    #[reduce(Max)]
    pub(super) peak: Option<i64>,
    /// What was said, one after another.
    #[reduce(Append)]
    pub(super) said: Vec<String>,
    #[codec(Bincode)]
    pub(super) numbers: Vec<f64>,
    #[reduce(Union)]
    pub(super) paces: BTreeSet<u16>,
    /// How fast it is to go.
    pub(super) speed: Pace,
    #[reduce(Append)]
    pub(super) many_paces: Vec<Option<Pace>>,
    pub(super) figure: Figure,
    #[reduce(Merge)]
    pub(super) by_name: BTreeMap<String, Vec<u8>>,
    #[codec(Bincode)]
    pub(super) by_number: BTreeMap<i32, Option<String>>,
    pub(super) by_pair: BTreeMap<(u8, char), bool>,
    pub(super) pair: (u8, String),
    pub(super) fixed: [f32; 3],
    pub(super) part: Part,
    pub(super) value: serde_json::Value,
    pub(super) blob: Blob,
    pub(super) tagged: Tagged,
    pub(super) loose: Loose,
    /// A name that is a word of the language.
    pub(super) r#type: Option<u8>,
    /// A name that every run has.
    pub(super) thread: String,
    /// The name of the flag for all.
    pub(super) input: Option<bool>,
    /// What a thread cannot do without.
    #[required]
    pub(super) name: String,
}

impl Default for All {
    fn default() -> Self {
        Self {
            text: "hello".to_owned(),
            letter: 'x',
            tiny: 7,
            small: 0,
            big: 0,
            sum: 0,
            huge: 0,
            deep: 0,
            single: 0.0,
            double: 0.0,
            flag: false,
            maybe: None,
            twice: None,
            peak: None,
            said: Vec::new(),
            numbers: Vec::new(),
            paces: BTreeSet::new(),
            speed: Pace::default(),
            many_paces: Vec::new(),
            figure: Figure::default(),
            by_name: BTreeMap::new(),
            by_number: BTreeMap::new(),
            by_pair: BTreeMap::new(),
            pair: Default::default(),
            fixed: Default::default(),
            part: Part::default(),
            value: serde_json::Value::Null,
            blob: Blob::default(),
            tagged: Tagged::default(),
            loose: Loose::default(),
            r#type: None,
            thread: String::new(),
            input: None,
            name: String::new(),
        }
    }
}

/// Does nothing with it.
pub(super) fn graph() -> Result<Graph<All>, BuildError> {
    let mut g = Graph::builder("all");
    let idle = g.node("idle", async |_: Snapshot<All>, _: Context| {
        Ok::<_, NodeError>(All::update())
    });
    g.start(idle);
    g.edge(idle, End);
    g.build()
}
