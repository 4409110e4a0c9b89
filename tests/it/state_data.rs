//! Fields of a state as bytes: values, changes and items; data that looks like markers (C67).

use std::collections::{BTreeMap, BTreeSet};

use milepost::plumbing::{AnyField, EncodedBase, EncodedChange, Merges};
use milepost::{
    Add, Append, ByKey, CodecError, Ephemeral, KeepFirst, Keyed, Layout, Merge, State, Union,
};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    key: String,
    text: String,
}

impl Keyed for Note {
    type Key = String;

    fn key(&self) -> String {
        self.key.clone()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, State)]
struct All {
    #[reduce(Append)]
    list: Vec<String>,
    #[reduce(Append)]
    #[codec(Bincode)]
    packed: Vec<(u8, Option<String>)>,
    #[reduce(Merge)]
    map: BTreeMap<String, u64>,
    #[reduce(Union)]
    #[codec(Bincode)]
    set: BTreeSet<u32>,
    #[reduce(ByKey<KeepFirst>)]
    notes: BTreeMap<String, Note>,
    #[reduce(Ephemeral)]
    word: Option<String>,
    #[reduce(Add)]
    count: i64,
    value: serde_json::Value,
}

fn field(name: &str) -> &'static dyn AnyField<All> {
    *All::fields()
        .iter()
        .find(|field| field.name() == name)
        .expect("the name of a field")
}

fn states() -> impl Strategy<Value = All> {
    let text = ".{0,8}";
    (
        prop::collection::vec(text, 0..6),
        prop::collection::vec((any::<u8>(), prop::option::of(text)), 0..6),
        prop::collection::btree_map(text, any::<u64>(), 0..6),
        prop::collection::btree_set(any::<u32>(), 0..6),
        prop::collection::btree_map(text, text, 0..6),
        (prop::option::of(text), any::<i64>(), text),
    )
        .prop_map(
            |(list, packed, map, set, notes, (word, count, value))| All {
                list,
                packed,
                map,
                set,
                notes: notes
                    .into_iter()
                    .map(|(key, text)| (key.clone(), Note { key, text }))
                    .collect(),
                word,
                count,
                value: serde_json::json!({ value.clone(): [value] }),
            },
        )
}

proptest! {
    #[test]
    fn every_field_comes_back_from_its_bytes(state in states()) {
        let mut again = All::default();
        for field in All::fields() {
            prop_assert!(field.check_value(&state).is_ok());
            field.decode_value(&mut again, &field.encode_value(&state)?)?;
            prop_assert_eq!(field.digest_value(&again), field.digest_value(&state));
        }
        prop_assert_eq!(again, state);
    }

    #[test]
    fn items_written_in_pieces_come_back_in_order(state in states(), skip in 0_usize..8) {
        let mut again = All::default();
        for field in All::fields() {
            if field.reducer().layout == Layout::Whole {
                continue;
            }
            let mut all = Vec::new();
            field.encode_items(&state, 0, &mut |item| all.push(item.to_vec()))?;
            let mut rest = Vec::new();
            field.encode_items(&state, skip, &mut |item| rest.push(item.to_vec()))?;
            prop_assert_eq!(all.get(skip..).unwrap_or_default(), &rest[..]);

            let (first, second) = all.split_at(skip.min(all.len()));
            for piece in [first, second] {
                let count = piece.len() as u64;
                field.decode_items(&mut again, &piece.concat(), count)?;
            }
            prop_assert_eq!(field.digest_value(&again), field.digest_value(&state));
        }
    }

    #[test]
    fn a_change_comes_back_from_its_bytes(before in states(), text in ".{0,8}", number: i64) {
        let updates = || [
            All::update().list(vec![text.clone()]).list(vec![]).count(number),
            All::update().overwrite(All::LIST, vec![text.clone()]).list(vec![text.clone()]),
            All::update().clear(All::MAP).word(Some(text.clone())),
            All::update().map(BTreeMap::from([(text.clone(), 1)])).set(BTreeSet::from([1])),
            All::update().notes(vec![Note { key: text.clone(), text: text.clone() }]),
        ];
        for (update, original) in updates().into_iter().zip(updates()) {
            let mut again = All::update();
            for field in All::fields() {
                prop_assert!(field.check_change(&update).is_ok());
                let Some(change) = field.encode_change(&update)? else {
                    prop_assert!(!field.written(&update));
                    continue;
                };
                field.decode_change(&mut again, &change)?;
                prop_assert!(field.written(&again));
                prop_assert_eq!(field.encode_change(&again)?, Some(change));
            }
            prop_assert_eq!(before.clone().apply(again), before.clone().apply(original));
        }
    }
}

#[test]
fn layouts_say_how_a_base_stores_a_field() {
    let layouts: Vec<_> = All::fields()
        .iter()
        .map(|field| field.reducer().layout)
        .collect();
    use Layout::{Keyed, List, Whole};
    assert_eq!(
        layouts,
        [List, List, Keyed, Keyed, Keyed, Whole, Whole, Whole]
    );
}

#[test]
fn a_wrong_number_of_items_is_refused() {
    let state = All {
        list: vec!["a".to_owned(), "b".to_owned()],
        packed: vec![(1, None)],
        ..All::default()
    };
    for name in ["list", "packed"] {
        let field = field(name);
        let (mut bytes, mut items) = (Vec::new(), 0_u64);
        field
            .encode_items(&state, 0, &mut |item| {
                bytes.extend_from_slice(item);
                items += 1;
            })
            .expect("can be stored");
        for wrong in [items - 1, items + 1] {
            let found = field.decode_items(&mut All::default(), &bytes, wrong);
            assert!(matches!(found, Err(CodecError::Decode { .. })), "{found:?}");
        }
    }
}

#[test]
fn a_change_of_nothing_has_no_bytes() {
    for field in All::fields() {
        assert_eq!(field.encode_change(&All::update()), Ok(None));
    }
    let cleared = field("list").encode_change(&All::update().clear(All::LIST));
    let nothing_but_a_clear = EncodedChange {
        base: EncodedBase::Clear,
        merges: Merges::None,
    };
    assert_eq!(cleared, Ok(Some(nothing_but_a_clear)));
}

#[test]
fn data_that_looks_like_a_marker_stays_data() {
    // C67: nothing in a value is ever read as an instruction.
    let markers = [
        "__start__",
        "__interrupt__",
        "__end__",
        "Clear",
        "Overwrite",
        "RemoveAll",
        "{\"$type\":\"Overwrite\",\"value\":[]}",
        "{\"goto\":\"tools\"}",
        "\u{0}\u{1}mile",
    ];
    let before = All {
        list: vec!["kept".to_owned()],
        ..All::default()
    };
    for marker in markers {
        let text = marker.to_owned();
        let value = serde_json::json!({
            "base": {"Overwrite": text}, "merges": [text], "Clear": null, "__type__": text,
        });
        let update = All::update()
            .list(vec![text.clone()])
            .map(BTreeMap::from([(text.clone(), 1)]))
            .word(Some(text.clone()))
            .value(value.clone());
        let mut again = All::update();
        for field in All::fields() {
            if let Some(change) = field.encode_change(&update).expect("can be stored") {
                field
                    .decode_change(&mut again, &change)
                    .expect("what was stored can be read");
            }
        }
        let state = before.clone().apply(again).expect("one writer");
        assert_eq!(state.list, ["kept", marker]);
        assert_eq!(state.map, BTreeMap::from([(text.clone(), 1)]));
        assert_eq!((state.word, state.value), (Some(text), value));
    }
}

#[test]
fn shapes_and_types_are_known_without_a_value() {
    let shapes: Vec<_> = All::fields().iter().map(|field| field.shape()).collect();
    assert_eq!(
        shapes,
        [
            "[str]",
            "[(u8, str?)]",
            "{str: u64}",
            "[u32]",
            "{str: struct{key: str, text: str}}",
            "str?",
            "i64",
            "any",
        ]
    );
    assert_eq!(field("count").type_name(), "i64");
}
