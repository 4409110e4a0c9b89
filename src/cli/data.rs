//! A value on its way from what was typed to the bytes of a field.

use serde::ser::{Serialize, SerializeMap, Serializer};

/// A value that says of itself what it is, as the shape of a field wants it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Data {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    /// Whole numbers of 128 bits, which codecs write in a way of their own.
    WideSigned(i128),
    WideUnsigned(u128),
    Single(f32),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Data>),
    Map(Vec<(Data, Data)>),
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Data::Null => serializer.serialize_unit(),
            Data::Bool(value) => serializer.serialize_bool(*value),
            Data::Signed(value) => serializer.serialize_i64(*value),
            Data::Unsigned(value) => serializer.serialize_u64(*value),
            Data::WideSigned(value) => serializer.serialize_i128(*value),
            Data::WideUnsigned(value) => serializer.serialize_u128(*value),
            Data::Single(value) => serializer.serialize_f32(*value),
            Data::Double(value) => serializer.serialize_f64(*value),
            Data::Text(text) => serializer.serialize_str(text),
            Data::Bytes(bytes) => serializer.serialize_bytes(bytes),
            Data::List(items) => items.serialize(serializer),
            Data::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}
