//! Stored bytes as JSON.
//!
//! In come the bytes of a value, out goes a JSON value that shows it. JSON knows less than
//! MessagePack, so what it cannot say is said with a name that begins with `$`:
//!
//! - bytes: `{"$bytes": "00ff"}`
//! - a float that is not a number or not finite: `{"$float": "NaN"}`
//! - a map with keys that are not texts, or with one key twice: `{"$entries": [[key, value], ..]}`
//! - bytes that are no value: `{"$undecodable": "00ff"}`

use std::fmt;
use std::fmt::Write as _;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value, json};

use crate::{Codec, FieldUpdate};

/// How deep a value may be.
const MOST_LEVELS: usize = 120;

/// One encoded value.
pub(super) fn value(codec: u8, bytes: &[u8]) -> Value {
    match items(codec, bytes) {
        Value::Array(mut items) if items.len() == 1 => items.swap_remove(0),
        Value::Array(_) => json!({"$undecodable": hex(bytes)}),
        other => other,
    }
}

/// Encoded values that stand one behind the other.
pub(super) fn items(codec: u8, bytes: &[u8]) -> Value {
    // Other codecs do not say what is in their bytes.
    if codec != Codec::MessagePack.number() {
        return json!({"$bytes": hex(bytes)});
    }
    let mut rest = bytes;
    let mut values = Vec::new();
    while !rest.is_empty() {
        let mut reader = rmp_serde::Deserializer::new(&mut rest);
        // As deep as JSON readers go; deeper ones could exhaust the stack.
        reader.set_max_depth(MOST_LEVELS);
        match Plain::deserialize(&mut reader) {
            Ok(Plain(value)) => values.push(value),
            Err(_) => return json!({"$undecodable": hex(bytes)}),
        }
    }
    Value::Array(values)
}

/// The changes of an update, by field.
pub(super) fn update(changes: &[FieldUpdate]) -> Value {
    let changes = changes.iter().map(|change| {
        let merged: Vec<_> = change
            .merged
            .iter()
            .map(|bytes| value(change.codec, bytes))
            .collect();
        let mut shown = Map::new();
        if change.cleared {
            shown.insert("cleared".to_owned(), Value::Bool(true));
        }
        if let Some(bytes) = &change.overwritten {
            shown.insert("overwritten".to_owned(), value(change.codec, bytes));
        }
        shown.insert("merged".to_owned(), Value::Array(merged));
        (change.field.clone(), Value::Object(shown))
    });
    Value::Object(changes.collect())
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // A String takes every text.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Any value that says of itself what it is.
struct Plain(Value);

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Plain)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(match Number::from_f64(value) {
            Some(number) => Value::Number(number),
            None => json!({"$float": value.to_string()}),
        })
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Value, E> {
        Ok(json!({"$bytes": hex(value)}))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Value, D::Error> {
        inner.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Value, D::Error> {
        inner.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Plain(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some((Plain(key), Plain(value))) = entries.next_entry()? {
            pairs.push((key, value));
        }
        let mut map = Map::new();
        for (key, value) in &pairs {
            let text = key.as_str().map(str::to_owned);
            let fresh = text.is_some_and(|text| map.insert(text, value.clone()).is_none());
            if !fresh {
                let pairs: Vec<_> = pairs.into_iter().map(|(k, v)| json!([k, v])).collect();
                return Ok(json!({"$entries": pairs}));
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn shown<T: serde::Serialize>(value: &T) -> String {
        let bytes = Codec::MessagePack.encode(value).expect("it encodes");
        super::value(1, &bytes).to_string()
    }

    #[test]
    fn what_json_knows_is_shown_as_it_is() {
        assert_eq!(
            shown(&(1, -2, 2.5, "a", true, ())),
            r#"[1,-2,2.5,"a",true,null]"#
        );
        assert_eq!(shown(&BTreeMap::from([("a", Some(1))])), r#"{"a":1}"#);
        assert_eq!(shown(&u64::MAX), "18446744073709551615");
    }

    #[test]
    fn what_json_does_not_know_is_named() {
        assert_eq!(shown(&f64::NAN), r#"{"$float":"NaN"}"#);
        assert_eq!(shown(&f32::INFINITY), r#"{"$float":"inf"}"#);
        assert_eq!(
            shown(&BTreeMap::from([(1, "a"), (2, "b")])),
            r#"{"$entries":[[1,"a"],[2,"b"]]}"#
        );
        // A map with one key twice, and a blob.
        assert_eq!(
            value(1, &[0x82, 0xa1, b'a', 1, 0xa1, b'a', 2]).to_string(),
            r#"{"$entries":[["a",1],["a",2]]}"#
        );
        assert_eq!(
            value(1, &[0xc4, 2, 0, 255]).to_string(),
            r#"{"$bytes":"00ff"}"#
        );
    }

    #[test]
    fn bytes_that_are_no_value_are_shown_and_never_panic() {
        assert_eq!(value(1, &[0xc1]).to_string(), r#"{"$undecodable":"c1"}"#);
        assert_eq!(value(1, &[1, 2]).to_string(), r#"{"$undecodable":"0102"}"#);
        assert_eq!(value(1, &[]).to_string(), r#"{"$undecodable":""}"#);
        assert_eq!(value(2, &[7]).to_string(), r#"{"$bytes":"07"}"#);
        let deep = vec![0x91; 100_000];
        assert!(
            value(1, &deep)
                .to_string()
                .starts_with(r#"{"$undecodable""#)
        );
        for first in 0..=255_u8 {
            for second in 0..=255_u8 {
                let _ = value(1, &[first, second, 0xff, 0xd4, 1]);
            }
        }
    }
}
