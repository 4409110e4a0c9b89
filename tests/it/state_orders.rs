//! What depends on the order of tasks, and what does not (C01).

use std::collections::{BTreeMap, BTreeSet};

use milepost::{Add, Append, ByKey, KeepBest, Keyed, Max, Min, Ranked, State, Union};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Find {
    key: u8,
    worth: u8,
}

impl Keyed for Find {
    type Key = u8;

    fn key(&self) -> u8 {
        self.key
    }
}

impl Ranked for Find {
    fn better_than(&self, other: &Self) -> bool {
        self.worth > other.worth
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, State)]
struct All {
    #[reduce(Append)]
    list: Vec<u8>,
    #[reduce(Add)]
    sum: i16,
    #[reduce(Max)]
    most: Option<f64>,
    #[reduce(Min)]
    least: Option<f64>,
    #[reduce(Union)]
    set: BTreeSet<u8>,
    #[reduce(ByKey<KeepBest>)]
    finds: BTreeMap<u8, Find>,
}

type Written = (Vec<u8>, i16, f64, BTreeSet<u8>, Vec<(u8, u8)>);

fn update(written: &Written) -> AllUpdate {
    let (list, sum, float, set, finds) = written.clone();
    let finds = finds.into_iter().map(|(key, worth)| Find { key, worth });
    All::update()
        .list(list)
        .sum(sum)
        .most(float)
        .least(float)
        .set(set)
        .finds(finds.collect())
}

/// The state after one superstep, its floats as bits; none where a sum does not fit.
fn merged(tasks: &[Written]) -> Option<(All, [Option<u64>; 2])> {
    let mut state = All::default();
    let mut updates: Vec<_> = tasks.iter().map(update).collect();
    state.merge(&mut updates).ok()?;
    let bits = [state.most, state.least].map(|float| float.map(f64::to_bits));
    (state.most, state.least) = (None, None);
    Some((state, bits))
}

fn tasks() -> impl Strategy<Value = Vec<Written>> {
    let floats = prop_oneof![
        any::<f64>(),
        Just(f64::NAN),
        Just(-f64::NAN),
        Just(0.0),
        Just(-0.0),
        Just(f64::NEG_INFINITY),
    ];
    let one = (
        prop::collection::vec(any::<u8>(), 0..4),
        any::<i16>(),
        floats,
        prop::collection::btree_set(any::<u8>(), 0..4),
        prop::collection::vec((0_u8..4, any::<u8>()), 0..4),
    );
    prop::collection::vec(one, 1..6)
}

proptest! {
    #[test]
    fn only_a_list_depends_on_the_order_of_tasks(
        (given, shuffled) in tasks().prop_flat_map(|tasks| {
            (Just(tasks.clone()), Just(tasks).prop_shuffle())
        }),
    ) {
        let list = |tasks: &[Written]| -> Vec<u8> {
            tasks.iter().flat_map(|task| task.0.clone()).collect()
        };
        match (merged(&given), merged(&shuffled)) {
            (Some((mut one, bits)), Some((mut other, other_bits))) => {
                prop_assert_eq!(std::mem::take(&mut one.list), list(&given));
                prop_assert_eq!(std::mem::take(&mut other.list), list(&shuffled));
                prop_assert_eq!(one, other);
                prop_assert_eq!(bits, other_bits);
            }
            (one, other) => prop_assert_eq!(one.is_none(), other.is_none()),
        }
    }

    #[test]
    fn a_sum_is_refused_exactly_when_it_does_not_fit(start: i16, parts: Vec<i16>) {
        let exact: i64 = parts.iter().map(|part| i64::from(*part)).sum::<i64>() + i64::from(start);
        let mut state = All { sum: start, ..All::default() };
        let mut updates: Vec<_> = parts.iter().map(|part| All::update().sum(*part)).collect();
        let merged = state.merge(&mut updates);
        match i16::try_from(exact) {
            Ok(sum) => {
                prop_assert!(merged.is_ok());
                prop_assert_eq!(state.sum, sum);
            }
            Err(_) => {
                prop_assert!(merged.is_err());
                prop_assert_eq!(state.sum, start);
            }
        }
    }
}
