//! Reading without conversions: a scalar must have been written as the kind that is asked for.
//!
//! In comes a deserialiser of a self-describing format, out comes one that differs in one thing:
//! where serde would quietly turn one kind into another (an integer or the other width into a
//! float, bytes into a string, a string into bytes) it refuses. It does not tell widths of
//! integers apart, as MessagePack does not write them, nor look behind `deserialize_any`, where a
//! type has not said what it wants; both are for the comparison of shapes when a thread is loaded.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};

/// A deserialiser, a part of one, or a seed, without conversions.
pub(super) struct Strict<D>(pub(super) D);

/// What was asked for, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Other,
    F32,
    F64,
    Str,
    Bytes,
}

/// A visitor that takes only what was asked for.
struct Checked<V> {
    visitor: V,
    asked: Asked,
}

impl<V> Checked<V> {
    fn other(visitor: V) -> Self {
        Self {
            visitor,
            asked: Asked::Other,
        }
    }

    fn refuse<E: Error>(&self, refused: &[Asked], found: Unexpected<'_>) -> Result<(), E> {
        if !refused.contains(&self.asked) {
            return Ok(());
        }
        let asked = match self.asked {
            Asked::F32 => "a float of 32 bits",
            Asked::F64 => "a float of 64 bits",
            Asked::Str => "a string",
            Asked::Bytes => "bytes",
            Asked::Other => return Ok(()),
        };
        Err(E::custom(format_args!(
            "{asked} is expected, found {found}"
        )))
    }
}

macro_rules! forward {
    ($($method:ident ($($name:ident: $kind:ty),*) $asked:ident,)*) => {$(
        fn $method<V: Visitor<'de>>(self, $($name: $kind,)* visitor: V) -> Result<V::Value, D::Error> {
            let asked = Asked::$asked;
            self.0.$method($($name,)* Checked { visitor, asked })
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    forward! {
        deserialize_any() Other, deserialize_bool() Other,
        deserialize_i8() Other, deserialize_i16() Other, deserialize_i32() Other,
        deserialize_i64() Other, deserialize_i128() Other,
        deserialize_u8() Other, deserialize_u16() Other, deserialize_u32() Other,
        deserialize_u64() Other, deserialize_u128() Other,
        deserialize_f32() F32, deserialize_f64() F64,
        deserialize_char() Other, deserialize_str() Str, deserialize_string() Str,
        deserialize_bytes() Bytes, deserialize_byte_buf() Bytes,
        deserialize_option() Other, deserialize_unit() Other,
        deserialize_unit_struct(name: &'static str) Other,
        deserialize_newtype_struct(name: &'static str) Other,
        deserialize_seq() Other, deserialize_tuple(len: usize) Other,
        deserialize_tuple_struct(name: &'static str, len: usize) Other,
        deserialize_map() Other,
        deserialize_struct(name: &'static str, fields: &'static [&'static str]) Other,
        deserialize_enum(name: &'static str, variants: &'static [&'static str]) Other,
        deserialize_identifier() Other, deserialize_ignored_any() Other,
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! visits {
    ($($method:ident $value:ty, [$($refused:ident),*] $found:expr;)*) => {$(
        fn $method<E: Error>(self, value: $value) -> Result<V::Value, E> {
            self.refuse(&[$(Asked::$refused),*], $found(&value))?;
            self.visitor.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Checked<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    visits! {
        visit_bool bool, [] |value: &bool| Unexpected::Bool(*value);
        visit_i8 i8, [F32, F64] |value: &i8| Unexpected::Signed(i64::from(*value));
        visit_i16 i16, [F32, F64] |value: &i16| Unexpected::Signed(i64::from(*value));
        visit_i32 i32, [F32, F64] |value: &i32| Unexpected::Signed(i64::from(*value));
        visit_i64 i64, [F32, F64] |value: &i64| Unexpected::Signed(*value);
        visit_i128 i128, [F32, F64] |_: &i128| Unexpected::Other("an integer");
        visit_u8 u8, [F32, F64] |value: &u8| Unexpected::Unsigned(u64::from(*value));
        visit_u16 u16, [F32, F64] |value: &u16| Unexpected::Unsigned(u64::from(*value));
        visit_u32 u32, [F32, F64] |value: &u32| Unexpected::Unsigned(u64::from(*value));
        visit_u64 u64, [F32, F64] |value: &u64| Unexpected::Unsigned(*value);
        visit_u128 u128, [F32, F64] |_: &u128| Unexpected::Other("an integer");
        visit_f32 f32, [F64] |_: &f32| Unexpected::Other("a float of 32 bits");
        visit_f64 f64, [F32] |_: &f64| Unexpected::Other("a float of 64 bits");
        visit_char char, [] |value: &char| Unexpected::Char(*value);
        visit_str &str, [Bytes] |_: &&str| Unexpected::Other("a string");
        visit_borrowed_str &'de str, [Bytes] |_: &&str| Unexpected::Other("a string");
        visit_string String, [Bytes] |_: &String| Unexpected::Other("a string");
        visit_bytes &[u8], [Str] |_: &&[u8]| Unexpected::Other("bytes");
        visit_borrowed_bytes &'de [u8], [Str] |_: &&[u8]| Unexpected::Other("bytes");
        visit_byte_buf Vec<u8>, [Str] |_: &Vec<u8>| Unexpected::Other("bytes");
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(Strict(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(Strict(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_seq(Strict(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(Strict(entries))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(Strict(variant))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Strict<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Strict(from))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(Strict(seed))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Strict(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Strict<A> {
    type Error = A::Error;
    type Variant = Strict<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let (name, content) = self.0.variant_seed(Strict(seed))?;
        Ok((name, Strict(content)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Strict<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Strict(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, Checked::other(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Checked::other(visitor))
    }
}
