//! What is typed is what is stored: any update, by flags or as one JSON object.

use std::rc::Rc;

use milepost::cli::{self, Entry, Exit};
use milepost::store::SledStore;
use milepost::{Runner, State, ThreadId};
use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use super::state::{All, AllUpdate, Blob, Figure, Pace, Part, Wrapped, graph};

/// How a field is given.
#[derive(Clone, Copy, Debug)]
enum Way {
    Flag,
    FlagWithSign,
    Whole,
    Not,
}

/// One field of an update, in Rust and as it is typed.
struct Given {
    update: Box<dyn Fn(AllUpdate) -> AllUpdate>,
    field: &'static str,
    /// The values for the flag, where it can say it.
    words: Option<Vec<String>>,
    json: String,
}

impl std::fmt::Debug for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {:?} or {}", self.field, self.words, self.json)
    }
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![
        Just(Way::Flag),
        Just(Way::FlagWithSign),
        Just(Way::Whole),
        Just(Way::Not)
    ]
}

fn json_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

/// A text as a flag takes it.
fn word(text: &str) -> Option<String> {
    match text.chars().next() {
        _ if text == "-" => None,
        Some('@') => Some(format!("@{text}")),
        _ => Some(text.to_owned()),
    }
}

/// Each item by itself, where a flag can say each; else all as JSON.
fn items(items: &[String]) -> Option<Vec<String>> {
    let plain = |item: &String| word(item).filter(|_| !item.trim_start().starts_with('['));
    let each: Option<Vec<_>> = items.iter().map(plain).collect();
    let each = each.filter(|each| !each.is_empty());
    Some(each.unwrap_or_else(|| vec![json_of(&items)]))
}

macro_rules! field {
    ($all:ident, $setter:ident, $strategy:expr, $words:expr) => {
        let strategy = ($strategy, way()).prop_map(|(value, way)| {
            let words: Option<Vec<String>> = $words(&value);
            let json = json_of(&value);
            let given = Given {
                update: Box::new(move |update| update.$setter(value.clone())),
                field: stringify!($setter).trim_start_matches("r#"),
                words,
                json,
            };
            (Rc::new(given), way)
        });
        $all.push(strategy.boxed());
    };
}

fn finite() -> impl Strategy<Value = f64> {
    prop_oneof![
        prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO,
        Just(1.0),
        Just(-17.0)
    ]
}

fn finite32() -> impl Strategy<Value = f32> {
    prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL | prop::num::f32::ZERO
}

fn pace() -> impl Strategy<Value = Pace> {
    prop_oneof![Just(Pace::Slow), Just(Pace::Fast), Just(Pace::Any)]
}

fn figure() -> impl Strategy<Value = Figure> {
    let leaf = prop_oneof![
        Just(Figure::Nothing),
        finite32().prop_map(Figure::Circle),
        any::<(i8, u128)>().prop_map(|(a, b)| Figure::Line(a, b)),
        (finite(), prop::option::of(finite())).prop_map(|(wide, high)| Figure::Box { wide, high }),
    ];
    leaf.prop_recursive(4, 16, 2, |inner| {
        (inner.clone(), inner).prop_map(|(a, b)| Figure::Both(Box::new(a), Box::new(b)))
    })
}

fn part() -> impl Strategy<Value = Part> {
    let leaf = (".{0,6}", finite()).prop_map(|(name, size)| Part {
        name,
        size,
        inner: Vec::new(),
    });
    leaf.prop_recursive(4, 12, 3, |inner| {
        let inner = prop::option::of(inner.prop_map(Box::new)).prop_map(Wrapped);
        let inner = prop::collection::vec(inner, 0..3);
        (".{0,6}", finite(), inner).prop_map(|(name, size, inner)| Part { name, size, inner })
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        finite().prop_map(|number| json!(number)),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,4}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn one(value: &impl ToString) -> Option<Vec<String>> {
    Some(vec![value.to_string()])
}

fn or_null<T: ToString>(value: &Option<T>) -> Option<Vec<String>> {
    let word = value.as_ref().map_or("null".to_owned(), T::to_string);
    Some(vec![word])
}

fn as_json(value: &impl Serialize) -> Option<Vec<String>> {
    Some(vec![json_of(value)])
}

fn name(pace: &Pace) -> String {
    serde_json::to_value(pace)
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned()
}

type Rows = Vec<BoxedStrategy<(Rc<Given>, Way)>>;

fn fields() -> impl Strategy<Value = Vec<(Rc<Given>, Way)>> {
    let text = || "(@|-|\\[|null)?\\PC{0,8}";
    let mut all: Rows = Vec::new();
    field!(all, text, text(), |value: &String| Some(vec![word(value)?]));
    field!(
        all,
        letter,
        any::<char>().prop_filter("no nought ends a word", |c| *c != '\0'),
        |value: &char| { Some(vec![word(&value.to_string())?]) }
    );
    field!(all, tiny, any::<u8>(), one);
    field!(all, small, any::<i16>(), one);
    field!(all, big, any::<i64>(), one);
    field!(all, sum, any::<u32>().prop_map(u64::from), one);
    field!(all, huge, any::<u128>(), one);
    field!(all, deep, any::<i128>(), one);
    field!(all, single, finite32(), one);
    field!(all, double, finite(), one);
    field!(all, flag, any::<bool>(), one);
    field!(all, maybe, prop::option::of(text()), |value: &Option<
        String,
    >| {
        match value.as_deref() {
            None => Some(vec!["null".to_owned()]),
            Some("null") => None,
            Some(text) => Some(vec![word(text)?]),
        }
    });
    // That there is none inside is no more than that there is none, as it is stored.
    let twice = prop::option::of(any::<i32>().prop_map(Some));
    field!(all, twice, twice, |value: &Option<Option<i32>>| or_null(
        &value.flatten()
    ));
    field!(all, peak, any::<i64>(), one);
    field!(
        all,
        said,
        prop::collection::vec(text(), 0..4),
        |value: &Vec<String>| items(value)
    );
    field!(
        all,
        numbers,
        prop::collection::vec(finite(), 0..4),
        |value: &Vec<f64>| {
            let each: Vec<_> = value.iter().map(f64::to_string).collect();
            Some(each)
                .filter(|each| !each.is_empty())
                .or_else(|| as_json(value))
        }
    );
    field!(
        all,
        paces,
        prop::collection::btree_set(any::<u16>(), 0..4),
        as_json
    );
    field!(all, speed, pace(), |value: &Pace| Some(vec![name(value)]));
    let paces = prop::collection::vec(prop::option::of(pace()), 2..5);
    field!(all, many_paces, paces, |value: &Vec<Option<Pace>>| {
        let word = |pace: &Option<Pace>| pace.as_ref().map_or("null".to_owned(), name);
        Some(value.iter().map(word).collect())
    });
    field!(all, figure, figure(), as_json);
    let map = prop::collection::btree_map(".{0,4}", prop::collection::vec(any::<u8>(), 0..4), 0..4);
    field!(all, by_name, map, as_json);
    let map = prop::collection::btree_map(any::<i32>(), prop::option::of(".{0,4}"), 0..4);
    field!(all, by_number, map, as_json);
    field!(all, pair, (any::<u8>(), ".{0,6}"), as_json);
    field!(all, fixed, [finite32(), finite32(), finite32()], as_json);
    field!(all, part, part(), as_json);
    field!(all, value, value(), as_json);
    field!(
        all,
        blob,
        prop::collection::vec(any::<u8>(), 0..6).prop_map(Blob),
        as_json
    );
    field!(all, r#type, prop::option::of(any::<u8>()), or_null);
    field!(all, thread, ".{0,6}", |value: &String| Some(vec![word(
        value
    )?]));
    field!(all, input, prop::option::of(any::<bool>()), or_null);
    all
}

/// The words of a run with these fields, and the state after them.
fn typed(fields: &[(Rc<Given>, Way)]) -> (Vec<String>, All) {
    let mut update = All::update().name("n".to_owned());
    let (mut words, mut whole) = (vec!["--name=n".to_owned()], Vec::new());
    for (given, way) in fields {
        let flag = match given.field {
            "thread" => "--input-thread".to_owned(),
            "input" => "--input-input".to_owned(),
            name => format!("--{}", name.replace('_', "-")),
        };
        match (way, &given.words) {
            (Way::Not, _) => continue,
            (Way::Whole, _) | (_, None) => whole.push(format!("{:?}:{}", given.field, given.json)),
            (Way::Flag, Some(values)) => {
                for value in values {
                    let is_flag = value.starts_with('-') && value.parse::<f64>().is_err();
                    // A number may follow its flag whatever its sign.
                    match is_flag || value.starts_with('-') && given.field == "text" {
                        true => words.push(format!("{flag}={value}")),
                        false => words.extend([flag.clone(), value.clone()]),
                    }
                }
                // Beside it stands one that it wins over.
                whole.push(format!("{:?}:{}", given.field, given.json));
            }
            (Way::FlagWithSign, Some(values)) => {
                words.extend(values.iter().map(|value| format!("{flag}={value}")));
            }
        }
        update = (given.update)(update);
    }
    words.push(format!("--input={{{}}}", whole.join(",")));
    (words, All::default().apply(update).unwrap())
}

fn bytes(state: &All) -> Vec<(&'static str, Vec<u8>)> {
    let fields = All::fields().iter();
    fields
        .map(|field| (field.name(), field.encode_value(state).unwrap()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn what_is_typed_is_what_is_stored(fields in fields()) {
        let (given, expected) = typed(&fields);
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store").display().to_string();
        let words = ["try", "--store", &store, "run", "all", "--thread", "t"];
        let words = words.into_iter().map(str::to_owned).chain(given.clone());
        prop_assert_eq!(cli::run([Entry::of(graph())], words), Exit::Done, "{:?}", given);
        let runner = Runner::new(graph().unwrap()).store(SledStore::open(&store).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let state = runtime.block_on(runner.state(&ThreadId::new("t").unwrap())).unwrap();
        prop_assert_eq!(bytes(&state), bytes(&expected), "{:?}", given);
    }
}
