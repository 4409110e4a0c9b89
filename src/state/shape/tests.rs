use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Deserialize;

use super::of;

#[derive(Deserialize)]
#[expect(dead_code, reason = "only its serde code is of interest")]
struct Inner {
    a: u8,
    b: Option<String>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only its serde code is of interest")]
enum Choice {
    Nothing,
    One(Inner),
    Two(u8, f32),
    Named { left: bool, right: char },
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only its serde code is of interest")]
enum Tree {
    Both(Box<Tree>, u8, Box<Tree>),
    Leaf(i64),
    Many {
        all: Vec<Tree>,
        by_name: BTreeMap<String, Tree>,
    },
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only its serde code is of interest")]
struct Chain {
    value: i32,
    next: Option<Box<Chain>>,
}

#[derive(Deserialize)]
struct Wrapper<T>(T);

#[derive(Deserialize)]
#[serde(transparent)]
#[expect(dead_code, reason = "only its serde code is of interest")]
struct Endless(Vec<Endless>);

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Date;

impl TryFrom<String> for Date {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        if text.len() == 10 {
            Ok(Self)
        } else {
            Err(text)
        }
    }
}

#[test]
fn every_kind_has_its_own_text() {
    let table = [
        (of::<bool>(), "bool"),
        (of::<u8>(), "u8"),
        (of::<i128>(), "i128"),
        (of::<f32>(), "f32"),
        (of::<f64>(), "f64"),
        (of::<char>(), "char"),
        (of::<String>(), "str"),
        (of::<()>(), "unit"),
        (of::<std::num::NonZeroU16>(), "u16"),
        (of::<Option<Option<u8>>>(), "u8??"),
        (of::<Vec<Option<u8>>>(), "[u8?]"),
        (of::<HashSet<u8>>(), "[u8]"),
        (of::<HashMap<u16, Vec<String>>>(), "{u16: [str]}"),
        (of::<(u8,)>(), "(u8,)"),
        (of::<(u8, String)>(), "(u8, str)"),
        (of::<[u8; 32]>(), "(u8; 32)"),
        (of::<Wrapper<Wrapper<u8>>>(), "u8"),
        (of::<serde_json::Value>(), "any"),
        (of::<std::time::Duration>(), "struct{secs: u64, nanos: u32}"),
        (of::<Date>(), "str"),
        (of::<Inner>(), "struct{a: u8, b: str?}"),
        (
            of::<Vec<Choice>>(),
            "[enum{Nothing, One(struct{a: u8, b: str?}), Two(u8, f32), Named{left: bool, right: char}}]",
        ),
        (of::<Result<u8, String>>(), "enum{Ok(u8), Err(str)}"),
    ];
    for (found, expected) in table {
        assert_eq!(found, expected);
    }
}

#[test]
fn a_type_that_contains_itself_is_traced_to_its_end() {
    assert_eq!(of::<Chain>(), "struct{value: i32, next: ^1?}");
    assert_eq!(
        of::<Tree>(),
        "enum{Both(^1, u8, ^1), Leaf(i64), Many{all: [^1], by_name: {str: ^1}}}"
    );
    assert!(of::<Endless>().ends_with("Endless"));
}

#[test]
fn a_field_after_one_with_demands_is_still_traced() {
    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its serde code is of interest")]
    struct Dated {
        at: Date,
        #[serde(alias = "oldcount")]
        count: u8,
        tree: Vec<Tree>,
        last: bool,
    }
    assert_eq!(
        of::<Dated>(),
        "struct{at: str, count: u8, tree: [enum{Both(^1, u8, ^1), Leaf(i64), \
         Many{all: [^1], by_name: {str: ^1}}}], last: bool}"
    );
}

#[test]
fn what_cannot_be_traced_goes_by_its_name() {
    #[derive(Deserialize)]
    #[serde(tag = "kind")]
    #[expect(dead_code, reason = "only its serde code is of interest")]
    enum Tagged {
        A { a: u8 },
        B,
    }
    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its serde code is of interest")]
    struct Holder {
        first: u8,
        tagged: Tagged,
        after: u8,
    }
    assert_eq!(
        of::<Holder>(),
        format!(
            "struct{{first: u8, tagged: any, after: …}} as {}",
            std::any::type_name::<Holder>()
        )
    );
}

mod other {
    use serde::Deserialize;

    macro_rules! versions {
        ($($name:ident { $($body:tt)* })*) => {$(
            #[derive(Deserialize)]
            #[expect(dead_code, reason = "only its serde code is of interest")]
            pub(super) struct $name { $($body)* }
        )*};
    }

    versions! {
        First { a: u8, b: u8 }
        Reordered { b: u8, a: u8 }
        Renamed { a: u8, c: u8 }
        Added { a: u8, b: u8, c: u8 }
        Widened { a: u8, b: u16 }
        Optional { a: u8, b: Option<u8> }
    }

    #[derive(Deserialize)]
    pub(super) enum Kind {
        Old,
        Same,
    }

    #[derive(Deserialize)]
    pub(super) enum Kinds {
        New,
        Same,
    }
}

#[test]
fn every_change_of_a_type_changes_its_shape() {
    let shapes = [
        of::<other::First>(),
        of::<other::Reordered>(),
        of::<other::Renamed>(),
        of::<other::Added>(),
        of::<other::Widened>(),
        of::<other::Optional>(),
        of::<other::Kind>(),
        of::<other::Kinds>(),
    ];
    for (place, shape) in shapes.iter().enumerate() {
        assert!(!shapes[..place].contains(shape), "{shape} twice");
    }
}
