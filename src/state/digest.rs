//! A hash of a value's data model: what serde is told of it, not what a codec makes of that.
//!
//! In comes anything that can be serialised, out come 128 bits. Equal values have equal hashes, to
//! the bit: NaN is itself, 0.0 is not -0.0, `Some(None)` is not `None`. The order of maps and hash
//! sets does not count, the order of everything else does; an integer counts by its value, not by
//! its width. Nothing here is stored or read back.

use serde::ser::{
    self, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant,
};

/// The hash of a value. One whose own serde code refuses has the hash of a refusal.
pub(crate) fn of<T: Serialize + ?Sized>(value: &T) -> u128 {
    let mut hash = Hash::default();
    if value.serialize(&mut hash).is_err() {
        hash.kind(Kind::Refused);
    }
    u128::from_le_bytes(hash.finish())
}

/// The hash of a value that is to be a key; nothing for one whose own serde code refuses.
pub(crate) fn of_key<T: Serialize + ?Sized>(value: &T) -> Option<u128> {
    let mut hash = Hash::default();
    value.serialize(&mut hash).ok()?;
    Some(u128::from_le_bytes(hash.finish()))
}

/// What stands before each part, so that no two different values give the same bytes.
#[derive(Clone, Copy)]
enum Kind {
    Refused,
    Unit,
    None,
    Some,
    Bool,
    Natural,
    Negative,
    F32,
    F64,
    Char,
    Str,
    Bytes,
    Newtype,
    Items,
    Unordered,
    Map,
    Fields,
    Variant,
    End,
}

#[derive(Default)]
struct Hash(blake3::Hasher);

impl Hash {
    fn kind(&mut self, kind: Kind) {
        self.0.update(&[kind as u8]);
    }

    fn fixed(&mut self, kind: Kind, bytes: &[u8]) {
        self.kind(kind);
        self.0.update(bytes);
    }

    /// Bytes of any number, led by their number.
    fn text(&mut self, kind: Kind, bytes: &[u8]) {
        self.fixed(kind, &(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn finish(&self) -> [u8; 16] {
        let mut short = [0; 16];
        short.copy_from_slice(&self.0.finalize().as_bytes()[..16]);
        short
    }
}

#[derive(Debug)]
struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the value's own serde code refuses")
    }
}

impl std::error::Error for Refused {}

impl ser::Error for Refused {
    fn custom<T: std::fmt::Display>(_: T) -> Self {
        Self
    }
}

/// Parts in order.
struct Ordered<'h>(&'h mut Hash);

/// Parts in any order: each is hashed alone, and the hashes are sorted.
struct Unordered<'h> {
    to: &'h mut Hash,
    parts: Vec<[u8; 16]>,
    open: Hash,
}

impl<'h> Unordered<'h> {
    fn new(to: &'h mut Hash, kind: Kind) -> Self {
        to.kind(kind);
        Self {
            to,
            parts: Vec::new(),
            open: Hash::default(),
        }
    }

    fn close_part(&mut self) {
        self.parts.push(std::mem::take(&mut self.open).finish());
    }

    fn close(mut self) {
        self.parts.sort_unstable();
        self.to
            .text(Kind::End, &(self.parts.len() as u64).to_le_bytes());
        for part in &self.parts {
            self.to.0.update(part);
        }
    }
}

/// Whether a collection that serde takes for a sequence has no order of its own. serde has no sets;
/// only the collection's type tells, and there is no other way to ask for it.
fn is_hash_set<I>() -> bool {
    let path = std::any::type_name::<I>().trim_start_matches('&');
    let path = path.split('<').next().unwrap_or(path);
    path.ends_with("::HashSet")
}

macro_rules! integers {
    ($($method:ident $number:ty,)*) => {$(
        fn $method(self, value: $number) -> Result<(), Refused> {
            match u128::try_from(value) {
                Ok(value) => self.fixed(Kind::Natural, &value.to_le_bytes()),
                Err(_) => self.fixed(Kind::Negative, &(value as i128).to_le_bytes()),
            }
            Ok(())
        }
    )*};
}

impl<'h> ser::Serializer for &'h mut Hash {
    type Ok = ();
    type Error = Refused;
    type SerializeSeq = Ordered<'h>;
    type SerializeTuple = Ordered<'h>;
    type SerializeTupleStruct = Ordered<'h>;
    type SerializeTupleVariant = Ordered<'h>;
    type SerializeMap = Unordered<'h>;
    type SerializeStruct = Ordered<'h>;
    type SerializeStructVariant = Ordered<'h>;

    integers! {
        serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64,
        serialize_i128 i128, serialize_u8 u8, serialize_u16 u16, serialize_u32 u32,
        serialize_u64 u64, serialize_u128 u128,
    }

    fn serialize_bool(self, value: bool) -> Result<(), Refused> {
        self.fixed(Kind::Bool, &[u8::from(value)]);
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), Refused> {
        self.fixed(Kind::F32, &value.to_bits().to_le_bytes());
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Result<(), Refused> {
        self.fixed(Kind::F64, &value.to_bits().to_le_bytes());
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Refused> {
        self.fixed(Kind::Char, &u32::from(value).to_le_bytes());
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<(), Refused> {
        self.text(Kind::Str, value.as_bytes());
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Refused> {
        self.text(Kind::Bytes, value);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Refused> {
        self.kind(Kind::None);
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Refused> {
        self.kind(Kind::Some);
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Refused> {
        self.kind(Kind::Unit);
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Refused> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Refused> {
        self.text(Kind::Variant, variant.as_bytes());
        self.kind(Kind::Unit);
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Refused> {
        self.kind(Kind::Newtype);
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Refused> {
        self.text(Kind::Variant, variant.as_bytes());
        self.kind(Kind::Newtype);
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Ordered<'h>, Refused> {
        self.kind(Kind::Items);
        Ok(Ordered(self))
    }

    fn serialize_tuple(self, _: usize) -> Result<Ordered<'h>, Refused> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Ordered<'h>, Refused> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Ordered<'h>, Refused> {
        self.text(Kind::Variant, variant.as_bytes());
        self.serialize_seq(None)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Unordered<'h>, Refused> {
        Ok(Unordered::new(self, Kind::Map))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Ordered<'h>, Refused> {
        self.kind(Kind::Fields);
        Ok(Ordered(self))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        fields: usize,
    ) -> Result<Ordered<'h>, Refused> {
        self.text(Kind::Variant, variant.as_bytes());
        self.serialize_struct(name, fields)
    }

    fn collect_seq<I>(self, items: I) -> Result<(), Refused>
    where
        I: IntoIterator,
        I::Item: Serialize,
    {
        if !is_hash_set::<I>() {
            let mut parts = self.serialize_seq(None)?;
            for item in items {
                SerializeSeq::serialize_element(&mut parts, &item)?;
            }
            return SerializeSeq::end(parts);
        }
        let mut parts = Unordered::new(self, Kind::Unordered);
        for item in items {
            item.serialize(&mut parts.open)?;
            parts.close_part();
        }
        parts.close();
        Ok(())
    }

    fn is_human_readable(&self) -> bool {
        // As the codecs are: a type may say different things to people and to machines.
        false
    }
}

macro_rules! ordered {
    ($($part:ident $method:ident,)*) => {$(
        impl $part for Ordered<'_> {
            type Ok = ();
            type Error = Refused;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
                value.serialize(&mut *self.0)
            }

            fn end(self) -> Result<(), Refused> {
                self.0.kind(Kind::End);
                Ok(())
            }
        }
    )*};
}

ordered! {
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field,
}

macro_rules! named {
    ($($part:ident)*) => {$(
        impl $part for Ordered<'_> {
            type Ok = ();
            type Error = Refused;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Refused> {
                self.0.text(Kind::Str, name.as_bytes());
                value.serialize(&mut *self.0)
            }

            fn end(self) -> Result<(), Refused> {
                self.0.kind(Kind::End);
                Ok(())
            }
        }
    )*};
}

named!(SerializeStruct SerializeStructVariant);

impl SerializeMap for Unordered<'_> {
    type Ok = ();
    type Error = Refused;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Refused> {
        key.serialize(&mut self.open)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        value.serialize(&mut self.open)?;
        self.close_part();
        Ok(())
    }

    fn end(self) -> Result<(), Refused> {
        self.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap, HashSet};

    use super::of;

    #[test]
    fn different_values_have_different_hashes() {
        let all = [
            of(&()),
            of(&None::<u8>),
            of(&Some(None::<u8>)),
            of(&Some(())),
            of(&Some(Some(()))),
            of(&false),
            of(&true),
            of(&0_u8),
            of(&-1_i8),
            of(&u64::MAX),
            of(&u128::MAX),
            of(&i128::MIN),
            of(&0.0_f64),
            of(&-0.0_f64),
            of(&f64::NAN),
            of(&-f64::NAN),
            of(&0.0_f32),
            of(&'a'),
            of("a"),
            of(""),
            of(&["a", "b"]),
            of(&["b", "a"]),
            of(&["ab"]),
            of(&[["a"], ["b"]]),
            of(&[vec!["a", "b"], vec![]]),
            of(&Ok::<u8, u8>(0)),
            of(&Err::<u8, u8>(0)),
            of(&BTreeMap::from([(1, 2)])),
            of(&BTreeMap::from([(2, 1)])),
            of(&BTreeMap::from([(1, 2), (2, 1)])),
            of(&BTreeMap::from([(1, 1), (2, 2)])),
            of(&BTreeMap::<u8, u8>::new()),
            of::<[u8]>(&[]),
        ];
        let different: HashSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }

    #[test]
    fn an_integer_counts_by_its_value() {
        assert_eq!(of(&5_u8), of(&5_i64));
        assert_eq!(of(&-5_i8), of(&-5_i128));
        assert_eq!(of(&u64::MAX), of(&u128::from(u64::MAX)));
    }

    #[test]
    fn the_order_inside_a_map_or_a_hash_set_does_not_count() {
        let forth: HashMap<_, _> = (0..50).map(|key| (key, [key; 2])).collect();
        let back: HashMap<_, _> = (0..50).rev().map(|key| (key, [key; 2])).collect();
        assert_eq!(of(&forth), of(&back));
        assert_eq!(of(&forth), of(&forth.iter().collect::<BTreeMap<_, _>>()));

        let forth: HashSet<_> = (0..50).collect();
        let back: HashSet<_> = (0..50).rev().collect();
        assert_eq!(of(&Some((1, &forth))), of(&Some((1, &back))));
        assert_ne!(of(&[1, 2]), of(&[2, 1]));
    }
}
