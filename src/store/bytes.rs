//! Byte vectors inside records, written and read at once and not byte for byte.
//!
//! The stored bytes are the same as those of a vector of `u8`: a length, then the bytes. Only the
//! time differs, and for a record of a hundred kilobytes it differs a lot. In a format for people,
//! as that of exports, they are one text: base64 for bytes, hex digits for hashes.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::base64;
use super::few::Few;
use super::memory::hex;

pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    if to.is_human_readable() {
        return to.serialize_str(&base64::encode(bytes));
    }
    to.serialize_bytes(bytes)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    if from.is_human_readable() {
        return from.deserialize_str(Bytes);
    }
    from.deserialize_byte_buf(Bytes)
}

/// A vector of byte vectors.
pub(super) mod many {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        many: &[Vec<u8>],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(many.iter().map(|bytes| Borrowed(bytes)))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Few<Vec<u8>>, D::Error> {
        let many = Few::<Owned>::deserialize(from)?;
        Ok(many.into_iter().map(|bytes| bytes.0).collect())
    }
}

/// A byte vector that may be missing.
pub(super) mod maybe {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.as_deref().map(Borrowed).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        Ok(Option::<Owned>::deserialize(from)?.map(|bytes| bytes.0))
    }
}

/// The sixteen bytes of a hash.
pub(super) mod short {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        bytes: &[u8; 16],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            return to.serialize_str(&hex(bytes));
        }
        bytes.serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<[u8; 16], D::Error> {
        if !from.is_human_readable() {
            return <[u8; 16]>::deserialize(from);
        }
        let text = String::deserialize(from)?;
        let number = u128::from_str_radix(&text, 16).map(u128::to_be_bytes).ok();
        // One way to write it: no sign, no capitals, no fewer digits.
        number
            .filter(|bytes| hex(bytes) == text)
            .ok_or_else(|| D::Error::custom("expected 32 hex digits"))
    }
}

struct Borrowed<'a>(&'a [u8]);

impl Serialize for Borrowed<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        serialize(self.0, to)
    }
}

struct Owned(Vec<u8>);

impl<'de> Deserialize<'de> for Owned {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        deserialize(from).map(Self)
    }
}

struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(bytes)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
        base64::decode(text).ok_or_else(|| E::custom("expected base64"))
    }

    /// Some formats have no bytes and write numbers.
    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = numbers.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes)
    }
}
