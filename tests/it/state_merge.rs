//! What an update does to a state, and that a merge that fails does nothing (C02, S002, S009).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use milepost::{
    Add, Append, ByKey, KeepFirst, Keyed, MergeFault, ReduceFault, Reducer, State, Union, Updates,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, State)]
struct Chat {
    #[reduce(Append)]
    log: Vec<String>,
    #[reduce(Add)]
    tokens: u64,
    answer: Option<String>,
    #[reduce(AtMost)]
    checked: u8,
}

/// A reducer of one's own: adds, up to a limit.
struct AtMost;

impl Reducer<u8> for AtMost {
    type Update = u8;

    fn reduce(value: &mut u8, updates: Updates<u8>) -> Result<(), ReduceFault> {
        for update in updates {
            assert_ne!(update, 13, "13 is not a number to check with");
            *value += update;
            if *value > 10 {
                return Err(ReduceFault::new(format!("{value} is more than 10")));
            }
        }
        Ok(())
    }
}

fn log(text: &str) -> ChatUpdate {
    Chat::update().log(vec![text.to_owned()])
}

fn merged(updates: Vec<ChatUpdate>) -> Result<Chat, MergeFault> {
    let mut chat = Chat {
        log: vec!["old".to_owned()],
        tokens: 5,
        answer: Some("old".to_owned()),
        checked: 1,
    };
    let mut updates = updates;
    chat.merge(&mut updates)?;
    Ok(chat)
}

#[test]
fn an_update_changes_only_the_fields_that_it_names() {
    // S002.
    let chat = merged(vec![log("new")]).expect("one writer");
    assert_eq!(chat.log, ["old", "new"]);
    assert_eq!((chat.tokens, chat.answer.as_deref()), (5, Some("old")));
    assert_eq!(merged(vec![Chat::update()]), merged(vec![]));
}

#[test]
fn a_setter_called_twice_has_both_values_merged() {
    let chat = merged(vec![log("a").log(vec!["b".to_owned()]).tokens(1).tokens(2)]);
    let chat = chat.expect("one writer");
    assert_eq!(chat.log, ["old", "a", "b"]);
    assert_eq!(chat.tokens, 8);
}

#[test]
fn an_overwrite_passes_the_reducer_and_comes_before_all_merges() {
    // Whichever task overwrites: what its siblings append is not lost.
    let overwrite = || Chat::update().overwrite(Chat::LOG, vec!["whole".to_owned()]);
    for updates in [
        vec![log("a"), overwrite(), log("b")],
        vec![overwrite(), log("a"), log("b")],
        vec![log("a"), log("b"), overwrite()],
    ] {
        let chat = merged(updates).expect("one overwrite");
        assert_eq!(chat.log, ["whole", "a", "b"]);
    }
}

#[test]
fn a_clear_goes_back_to_the_default_before_all_merges() {
    let chat = merged(vec![log("a"), Chat::update().clear(Chat::LOG)]).expect("one clear");
    assert_eq!(chat.log, ["a"]);
    let chat = merged(vec![Chat::update().clear(Chat::ANSWER)]).expect("one clear");
    assert_eq!(chat.answer, None);
}

#[test]
fn an_overwrite_drops_what_the_same_update_wanted_merged_before_it() {
    let update = log("lost").overwrite(Chat::LOG, vec!["whole".to_owned()]);
    let update = update.log(vec!["kept".to_owned()]);
    assert_eq!(
        merged(vec![update]).expect("one writer").log,
        ["whole", "kept"]
    );
}

#[test]
fn two_that_set_one_field_are_refused_by_name_and_place() {
    let sets = || Chat::update().overwrite(Chat::LOG, vec![]);
    let fault = merged(vec![log("a"), sets(), Chat::update().clear(Chat::LOG)]);
    assert_eq!(
        fault,
        Err(MergeFault::Conflict {
            field: "log",
            first: 1,
            second: 2
        })
    );
}

#[test]
fn two_writers_of_a_replaced_field_are_refused_even_with_the_same_value() {
    // C02 (1) and (2).
    for second in ["one", "two"] {
        let answer = |text: &str| Chat::update().answer(Some(text.to_owned()));
        let fault = merged(vec![answer("one"), log("a"), answer(second)]);
        assert_eq!(
            fault,
            Err(MergeFault::Conflict {
                field: "answer",
                first: 0,
                second: 2
            })
        );
    }
    // C02 (3): one that writes nothing there is no writer.
    assert!(merged(vec![log("a"), Chat::update(), log("b")]).is_ok());
}

#[test]
fn a_refused_merge_leaves_every_field_as_it_was() {
    let before = merged(vec![]).expect("nothing to merge");
    let all = |checked| log("new").tokens(1).answer(None).checked(checked);

    let mut chat = before.clone();
    assert_eq!(
        chat.merge(&mut [all(20)]),
        Err(MergeFault::Refused {
            field: "checked",
            fault: ReduceFault::new("21 is more than 10")
        })
    );
    assert_eq!(chat, before);

    let fault = chat.merge(&mut [all(13)]);
    assert!(
        matches!(&fault, Err(MergeFault::Panicked { field: "checked", message })
            if message.contains("13 is not a number")),
        "{fault:?}"
    );
    assert_eq!(chat, before);

    let mut full = Chat {
        tokens: u64::MAX,
        ..before.clone()
    };
    assert!(matches!(
        full.merge(&mut [all(1)]),
        Err(MergeFault::Refused {
            field: "tokens",
            ..
        })
    ));
    assert_eq!(
        full,
        Chat {
            tokens: u64::MAX,
            ..before
        }
    );
}

#[test]
fn a_reducer_of_ones_own_is_stored_by_value() {
    let info = Chat::fields()[3].reducer();
    assert_eq!(info.version, None);
    assert!(info.id.ends_with("AtMost"), "{}", info.id);
    assert!(info.concurrent && !info.ephemeral);
}

/// A key whose comparison goes wrong for one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Touchy(u8);

impl PartialOrd for Touchy {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Touchy {
    fn cmp(&self, other: &Self) -> Ordering {
        assert!(self.0 != 13 && other.0 != 13, "13 cannot be compared");
        self.0.cmp(&other.0)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Item(u8);

impl Keyed for Item {
    type Key = u8;

    fn key(&self) -> u8 {
        assert_ne!(self.0, 13, "13 has no key");
        self.0
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, State)]
struct Sets {
    #[reduce(Append)]
    log: Vec<u8>,
    #[reduce(Union)]
    touchy: BTreeSet<Touchy>,
    #[reduce(ByKey<KeepFirst>)]
    items: BTreeMap<u8, Item>,
}

#[test]
fn a_panic_in_an_order_or_a_key_is_found_before_anything_has_changed() {
    let mut sets = Sets::default();
    let good = Sets::update()
        .touchy(BTreeSet::from([Touchy(1), Touchy(2)]))
        .items(vec![Item(1)]);
    sets.merge(&mut [good]).expect("nothing goes wrong");

    // A set of one compares nothing, so it can be made at all.
    let bad_order = || {
        Sets::update()
            .log(vec![1])
            .touchy(BTreeSet::from([Touchy(13)]))
    };
    let bad_key = || Sets::update().log(vec![1]).items(vec![Item(2), Item(13)]);
    let overwritten = || {
        bad_key()
            .overwrite(Sets::ITEMS, BTreeMap::new())
            .items(vec![Item(13)])
    };
    for (bad, name) in [
        (bad_order(), "touchy"),
        (bad_key(), "items"),
        (overwritten(), "items"),
    ] {
        let fault = sets.merge(&mut [bad]);
        assert!(
            matches!(&fault, Err(MergeFault::Panicked { field, .. }) if *field == name),
            "{fault:?}"
        );
        assert_eq!(
            (sets.log.len(), sets.touchy.len(), sets.items.len()),
            (0, 2, 1)
        );
    }
}

#[test]
fn an_update_shows_the_names_of_what_it_writes_and_no_values() {
    let update = log("secret").tokens(1);
    assert_eq!(format!("{update:?}"), "ChatUpdate {log, tokens}");
    assert_eq!(format!("{:?}", Chat::update()), "ChatUpdate {}");
    assert_eq!(format!("{:?}", Chat::LOG), "Field(Chat::log)");
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, State)]
#[state(version = 3)]
struct Odd {
    r#type: u8,
    #[required]
    #[codec(Bincode)]
    updates: Vec<Self>,
    state: u8,
    f: u8,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, State)]
struct Nothing {}

#[test]
fn odd_names_of_fields_are_no_trouble() {
    let odd = Odd::update()
        .r#type(1)
        .state(2)
        .f(3)
        .overwrite(Odd::UPDATES, vec![Odd::default()]);
    let odd = Odd::default().apply(odd).expect("one writer");
    assert_eq!(
        (odd.r#type, odd.state, odd.f, odd.updates.len()),
        (1, 2, 3, 1)
    );
    assert_eq!(Odd::TYPE.name(), "type");
    assert_eq!((Odd::VERSION, Chat::VERSION, Odd::NAME), (3, 1, "Odd"));
    let facts: Vec<_> = Odd::fields()
        .iter()
        .map(|field| (field.name(), field.required(), field.codec().number()))
        .collect();
    assert_eq!(
        facts,
        [
            ("type", false, 1),
            ("updates", true, 2),
            ("state", false, 1),
            ("f", false, 1)
        ]
    );
    assert!(Nothing::fields().is_empty());
    assert!(Nothing::default().apply(Nothing::update()).is_ok());
}
