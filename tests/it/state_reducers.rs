//! Each built-in reducer, by table (S003–S008, C01, C02).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Debug;

use milepost::{
    Add, Append, ByKey, Ephemeral, KeepBest, KeepFirst, Keyed, Max, Merge, Min, Or, Ranked,
    Reducer, Replace, State, Union, Updates,
};
use serde::{Deserialize, Serialize};

/// The value after the updates of one superstep, or why there is none.
fn reduced<R, T>(mut value: T, updates: Vec<R::Update>) -> Result<T, String>
where
    R: Reducer<T>,
{
    R::reduce(&mut value, Updates::from(updates)).map_err(|fault| fault.to_string())?;
    Ok(value)
}

#[track_caller]
fn gives<R, T>(value: T, updates: Vec<R::Update>, expected: T)
where
    R: Reducer<T>,
    T: PartialEq + Debug,
{
    assert_eq!(reduced::<R, T>(value, updates), Ok(expected));
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn replace_takes_what_was_written() {
    gives::<Replace, u8>(1, vec![2], 2);
    gives::<Replace, Option<u8>>(Some(1), vec![None], None);
    gives::<Replace, u8>(1, vec![], 1);
    // C02.
    const { assert!(!<Replace as Reducer<u8>>::CONCURRENT) };
}

#[test]
fn append_puts_items_at_the_end_in_the_order_of_tasks() {
    // S008, C01.
    gives::<Append, Vec<String>>(
        texts(&["0"]),
        vec![texts(&["a", "b"]), vec![], texts(&["c"])],
        texts(&["0", "a", "b", "c"]),
    );
    gives::<Append, Vec<String>>(vec![], vec![texts(&["a"])], texts(&["a"]));
}

#[test]
fn add_sums_and_refuses_what_does_not_fit() {
    gives::<Add, u64>(1, vec![2, 3], 6);
    gives::<Add, i8>(-3, vec![1], -2);
    gives::<Add, f64>(0.5, vec![0.25], 0.75);
    gives::<Add, i128>(i128::MAX, vec![-1, 1], i128::MAX);
    assert_eq!(
        reduced::<Add, u64>(u64::MAX, vec![1]),
        Err("18446744073709551615 + 1 does not fit into `u64`".to_owned())
    );
    assert_eq!(
        reduced::<Add, i8>(-100, vec![-100]),
        Err("-100 + -100 does not fit into `i8`".to_owned())
    );
}

#[test]
fn add_looks_at_the_sum_and_not_at_the_way_to_it() {
    // 100 + 100 leaves the range and comes back: no order of the three may decide.
    for updates in [
        vec![100, 100, -100],
        vec![100, -100, 100],
        vec![-100, 100, 100],
    ] {
        gives::<Add, i8>(0, updates, 100);
    }
    for updates in [vec![-100, -100, 100], vec![100, -100, -100]] {
        gives::<Add, i8>(0, updates, -100);
    }
    assert!(reduced::<Add, i8>(127, vec![127, 127, -127]).is_err());
}

#[test]
fn max_and_min_keep_the_extreme() {
    gives::<Max, u8>(3, vec![1, 7, 2], 7);
    gives::<Min, i64>(3, vec![1, -7, 2], -7);
    gives::<Max, String>("b".to_owned(), texts(&["a", "c"]), "c".to_owned());
    gives::<Max, Option<i32>>(None, vec![-5, -9], Some(-5));
    gives::<Min, Option<String>>(None, texts(&["b", "a"]), Some("a".to_owned()));
    gives::<Min, Option<u8>>(Some(1), vec![], Some(1));
    gives::<Max, bool>(false, vec![true, false], true);
    gives::<Min, char>('b', vec!['a'], 'a');
}

#[test]
fn a_nan_is_no_extreme() {
    let nan = f64::NAN;
    gives::<Max, f64>(1.0, vec![nan], 1.0);
    gives::<Min, f64>(1.0, vec![nan], 1.0);
    gives::<Max, f64>(nan, vec![-1.0, nan], -1.0);
    gives::<Min, Option<f32>>(None, vec![f32::NAN, 2.0, f32::INFINITY], Some(2.0));
    let only = reduced::<Max, f64>(nan, vec![nan]).expect("a maximum never refuses");
    assert!(only.is_nan());
    let zero = reduced::<Max, f64>(-0.0, vec![0.0]).expect("a maximum never refuses");
    assert!(zero.is_sign_positive());
    let zero = reduced::<Min, f64>(0.0, vec![-0.0]).expect("a minimum never refuses");
    assert!(zero.is_sign_negative());
}

#[test]
fn or_raises_a_flag_and_never_lowers_it() {
    // S008.
    gives::<Or, bool>(false, vec![false, true, false], true);
    gives::<Or, bool>(true, vec![false], true);
    gives::<Or, bool>(false, vec![false], false);
}

#[test]
fn union_collects() {
    // S008.
    gives::<Union, _>(
        BTreeSet::from([1, 2]),
        vec![BTreeSet::from([2, 3]), BTreeSet::from([0])],
        BTreeSet::from([0, 1, 2, 3]),
    );
    gives::<Union, _>(
        HashSet::from([1]),
        vec![HashSet::from([2])],
        HashSet::from([1, 2]),
    );
}

#[test]
fn merge_is_shallow_and_the_right_side_wins() {
    // S005; an absent side is an empty map.
    gives::<Merge, BTreeMap<char, u8>>(
        BTreeMap::new(),
        vec![BTreeMap::from([('a', 1)])],
        BTreeMap::from([('a', 1)]),
    );
    gives::<Merge, BTreeMap<char, u8>>(
        BTreeMap::from([('a', 1), ('b', 2)]),
        vec![BTreeMap::from([('b', 3)])],
        BTreeMap::from([('a', 1), ('b', 3)]),
    );
    gives::<Merge, BTreeMap<char, u8>>(
        BTreeMap::from([('a', 1)]),
        vec![BTreeMap::new()],
        BTreeMap::from([('a', 1)]),
    );
    gives::<Merge, HashMap<String, Vec<u8>>>(
        HashMap::from([("a".to_owned(), vec![1])]),
        vec![HashMap::from([("a".to_owned(), vec![2])])],
        HashMap::from([("a".to_owned(), vec![2])]),
    );
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    url: String,
    worth: u8,
}

impl Keyed for Note {
    type Key = String;

    fn key(&self) -> String {
        let url = self.url.to_lowercase();
        url.split('#')
            .next()
            .unwrap_or_default()
            .trim_end_matches('/')
            .to_owned()
    }
}

impl Ranked for Note {
    fn better_than(&self, other: &Self) -> bool {
        self.worth > other.worth
    }
}

fn note(url: &str, worth: u8) -> Note {
    Note {
        url: url.to_owned(),
        worth,
    }
}

fn orders<T: Clone>(all: &[T; 3]) -> Vec<Vec<T>> {
    [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ]
    .iter()
    .map(|order| order.iter().map(|place| all[*place].clone()).collect())
    .collect()
}

#[test]
fn by_key_keeps_one_item_a_key_whatever_the_order() {
    // S007.
    let branches = [
        vec![note("http://x/a", 1)],
        vec![note("HTTP://X/a/#f", 3)],
        vec![note("http://x/b", 2)],
    ];
    for order in orders(&branches) {
        let best = reduced::<ByKey<KeepBest>, _>(BTreeMap::new(), order.clone());
        let expected = BTreeMap::from([
            ("http://x/a".to_owned(), note("HTTP://X/a/#f", 3)),
            ("http://x/b".to_owned(), note("http://x/b", 2)),
        ]);
        assert_eq!(best, Ok(expected));
        let first = reduced::<ByKey<KeepFirst>, BTreeMap<String, Note>>(BTreeMap::new(), order)
            .expect("nothing refuses");
        assert_eq!(first.len(), 2);
    }
}

#[test]
fn by_key_keeps_the_first_of_equals_and_what_was_there() {
    let there = || BTreeMap::from([("http://x/a".to_owned(), note("http://x/a", 5))]);
    gives::<ByKey<KeepFirst>, _>(there(), vec![vec![note("http://x/A", 9)]], there());
    gives::<ByKey<KeepBest>, _>(there(), vec![vec![note("http://x/A", 5)]], there());
    gives::<ByKey<KeepBest>, _>(
        there(),
        vec![vec![note("http://x/A", 6)]],
        BTreeMap::from([("http://x/a".to_owned(), note("http://x/A", 6))]),
    );
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, State)]
struct Word {
    #[reduce(Ephemeral)]
    said: Option<String>,
    #[reduce(Add)]
    steps: u64,
}

#[test]
fn an_ephemeral_value_is_gone_after_one_superstep() {
    let word = Word::default()
        .apply(Word::update().said(Some("hello".to_owned())))
        .expect("one writer");
    assert_eq!(word.said.as_deref(), Some("hello"));

    // It is stored like any other field, so that a pause does not lose it.
    let field = Word::fields()[0];
    let bytes = field.encode_value(&word).expect("text can be stored");
    let mut again = Word::default();
    field
        .decode_value(&mut again, &bytes)
        .expect("what was stored can be read");
    assert_eq!(again.said, word.said);

    let word = word.apply(Word::update().steps(1)).expect("one writer");
    assert_eq!(
        word,
        Word {
            said: None,
            steps: 1
        }
    );

    let mut word = word;
    let two = || Word::update().said(Some("both".to_owned()));
    assert!(word.merge(&mut [two(), two()]).is_err());
}

#[test]
fn stored_names_and_versions_of_reducers_are_frozen() {
    fn stored<R: Reducer<T>, T>() -> (&'static str, Option<u32>) {
        (R::id(), R::version())
    }
    let table = [
        (stored::<Replace, u8>(), "replace"),
        (stored::<Append, Vec<u8>>(), "append"),
        (stored::<Add, u8>(), "add"),
        (stored::<Add, f32>(), "add"),
        (stored::<Max, u8>(), "max"),
        (stored::<Min, Option<f64>>(), "min"),
        (stored::<Or, bool>(), "or"),
        (stored::<Union, BTreeSet<u8>>(), "union"),
        (stored::<Merge, BTreeMap<u8, u8>>(), "merge"),
        (
            stored::<ByKey<KeepFirst>, BTreeMap<String, Note>>(),
            "by_key/keep_first",
        ),
        (
            stored::<ByKey<KeepBest>, BTreeMap<String, Note>>(),
            "by_key/keep_best",
        ),
        (stored::<Ephemeral, u8>(), "ephemeral"),
    ];
    for (found, id) in table {
        assert_eq!(found, (id, Some(1)));
    }
    assert_eq!(Word::SAID.name(), "said");
}
