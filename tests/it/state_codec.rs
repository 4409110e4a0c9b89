//! Values as bytes and back: exactly, or a typed error (C52, C53).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;

use milepost::{Codec, CodecError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const BOTH: [Codec; 2] = [Codec::MessagePack, Codec::Bincode];

/// What becomes of a value.
#[derive(Debug, PartialEq)]
enum Fate {
    Exact,
    Refused,
}

#[track_caller]
fn fates<T>(value: &T, expected: [Fate; 2])
where
    T: Serialize + DeserializeOwned + Debug,
{
    for (codec, expected) in BOTH.into_iter().zip(expected) {
        let found = match codec.check(value) {
            Ok(()) => Fate::Exact,
            Err(CodecError::Encode { .. } | CodecError::NotRoundTrip { .. }) => Fate::Refused,
            Err(other) => panic!("{codec:?} {value:?}: {other}"),
        };
        assert_eq!(found, expected, "{codec:?} {value:?}");
    }
}

#[track_caller]
fn exact<T: Serialize + DeserializeOwned + Debug>(value: &T) {
    fates(value, [Fate::Exact, Fate::Exact]);
}

#[test]
fn numbers_come_back_to_the_bit() {
    // C52.
    for float in [
        f64::NAN,
        -f64::NAN,
        f64::from_bits(0x7ff0_0000_0000_0001),
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        1e308,
        5e-324,
    ] {
        exact(&float);
        for codec in BOTH {
            let bytes = codec.encode(&float).expect("a float can be stored");
            let back: f64 = codec.decode(&bytes).expect("what was stored can be read");
            assert_eq!(back.to_bits(), float.to_bits());
        }
    }
    exact(&f32::NAN);
    exact(&u64::MAX);
    exact(&i64::MIN);
    exact(&((1_u64 << 53) + 1));
    exact(&u128::MAX);
    exact(&i128::MIN);
}

/// Bytes as serde's own kind.
#[derive(Debug)]
struct Raw(Vec<u8>);

impl Serialize for Raw {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Raw;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Raw, E> {
                Ok(Raw(bytes.to_vec()))
            }
            fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
                Ok(Raw(text.as_bytes().to_vec()))
            }
        }
        from.deserialize_byte_buf(Visitor)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
struct Place {
    x: u8,
    y: u8,
}

#[derive(Debug, Serialize, Deserialize)]
enum Plain {
    Unit,
    Newtype(u8),
    Tuple(u8, String),
    Struct { a: Option<u8> },
}

#[test]
fn ordinary_types_come_back() {
    exact(&Raw(vec![0, 159, 255]));
    exact(
        &BTreeMap::from([(1_u8, "a"), (2, "b")])
            .into_iter()
            .map(|(k, v)| (k, v.to_owned()))
            .collect::<BTreeMap<u8, String>>(),
    );
    exact(&BTreeMap::from([(Place { x: 1, y: 2 }, 3_u8)]));
    exact(&(0..100).map(|n| (n, n)).collect::<HashMap<u32, u32>>());
    exact(&(0..100).collect::<HashSet<u32>>());
    exact(&vec![
        Plain::Unit,
        Plain::Newtype(1),
        Plain::Tuple(1, "a".to_owned()),
        Plain::Struct { a: None },
    ]);
    exact(&('ß', String::from("\u{0}"), (), [1_u8; 32], Some(true)));
    exact(&Some(1_u8));
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Skips {
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<u8>,
    b: u8,
}

#[derive(Debug, Serialize, Deserialize)]
struct SkipsWithoutDefault {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    a: Vec<u8>,
    b: u8,
}

#[derive(Debug, Serialize, Deserialize)]
struct Flat {
    a: u8,
    #[serde(flatten)]
    rest: BTreeMap<String, u8>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(u8),
    Text(String),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind")]
enum Tagged {
    A { a: u8 },
}

#[test]
fn what_a_codec_cannot_carry_is_refused_and_never_changed() {
    use Fate::{Exact, Refused};
    // MessagePack has one nothing, so a nested one is lost: found by the digest.
    fates(&Some(None::<u8>), [Refused, Exact]);
    fates(&None::<Option<u8>>, [Exact, Exact]);
    fates(&Some(()), [Refused, Exact]);
    fates(&Skips::default(), [Exact, Refused]);
    fates(&SkipsWithoutDefault { a: vec![], b: 1 }, [Refused, Refused]);
    fates(
        &Flat {
            a: 1,
            rest: BTreeMap::from([("b".to_owned(), 2)]),
        },
        [Exact, Refused],
    );
    fates(&Untagged::Number(1), [Exact, Refused]);
    fates(&Untagged::Text("a".to_owned()), [Exact, Refused]);
    fates(&Tagged::A { a: 1 }, [Exact, Refused]);
    fates(
        &serde_json::json!({"a": [1, -1, 1.5, null, "x", {}]}),
        [Exact, Refused],
    );
    fates(&serde_json::json!(u64::MAX), [Exact, Refused]);
}

#[test]
fn a_refusal_names_the_type_and_says_what_to_do() {
    let why = Codec::MessagePack
        .check(&Some(None::<u8>))
        .expect_err("a nested nothing is lost");
    assert_eq!(
        why.to_string(),
        "a value of type core::option::Option<core::option::Option<u8>> does not survive being \
         stored: another value came back. Use another type, or another codec for the field"
    );
}

#[track_caller]
fn refused<T: DeserializeOwned + Debug>(bytes: &[u8]) {
    let found = Codec::MessagePack.decode::<T>(bytes);
    assert!(matches!(found, Err(CodecError::Decode { .. })), "{found:?}");
}

fn packed<T: Serialize>(value: T) -> Vec<u8> {
    Codec::MessagePack.encode(&value).expect("can be stored")
}

#[test]
fn a_scalar_of_another_kind_is_refused_and_not_converted() {
    // C53 (4), for what a comparison of shapes cannot see.
    refused::<f64>(&packed(5_u8));
    refused::<f32>(&packed(-5_i64));
    refused::<f32>(&packed(1.5_f64));
    refused::<f64>(&packed(1.5_f32));
    refused::<String>(&packed(Raw(vec![65])));
    refused::<Raw>(&packed("A"));
    refused::<u8>(&packed(1.0_f64));
    refused::<u8>(&packed(256_u16));
    refused::<u8>(&packed(-1_i8));
    refused::<u8>(&packed(true));
    refused::<bool>(&packed(1_u8));
    refused::<String>(&packed(1_u8));
    refused::<Vec<Option<(f64, u8)>>>(&packed(vec![Some((5_u8, 5_u8))]));
    refused::<BTreeMap<String, f64>>(&packed(BTreeMap::from([("a", 1_u8)])));
    refused::<Result<f64, u8>>(&packed(Ok::<u8, u8>(1)));
    // An integer counts by its value, whatever its width.
    assert_eq!(Codec::MessagePack.decode::<u64>(&packed(5_u8)), Ok(5));
    assert_eq!(Codec::MessagePack.decode::<i8>(&packed(5_u64)), Ok(5));
}

#[test]
fn fields_are_told_apart_by_name() {
    #[derive(Serialize)]
    struct Old {
        a: u8,
        gone: String,
        c: u8,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct New {
        c: u8,
        #[serde(default)]
        added: u16,
        a: u8,
    }
    let old = Old {
        a: 1,
        gone: "x".to_owned(),
        c: 3,
    };
    let new = Codec::MessagePack.decode(&packed(&old));
    assert_eq!(
        new,
        Ok(New {
            c: 3,
            added: 0,
            a: 1
        })
    );
}

#[test]
fn cut_and_padded_bytes_are_refused() {
    // C53 (7), below the checksum of the store.
    for codec in BOTH {
        let value = vec![("some text".to_owned(), 12_345_u32); 3];
        let bytes = codec.encode(&value).expect("can be stored");
        for cut in 0..bytes.len() {
            assert!(codec.decode::<Vec<(String, u32)>>(&bytes[..cut]).is_err());
        }
        let mut padded = bytes.clone();
        padded.push(0);
        assert!(codec.decode::<Vec<(String, u32)>>(&padded).is_err());
    }
    // A length that is not there asks for no memory.
    assert!(Codec::Bincode.decode::<Vec<u64>>(&[255; 8]).is_err());
    assert!(
        Codec::MessagePack
            .decode::<Vec<u64>>(&[0xdd, 255, 255, 255, 255])
            .is_err()
    );
}
