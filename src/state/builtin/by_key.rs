//! One item a key: what several branches found, without doubles.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::FROZEN;
use crate::state::{CodecError, ItemReader, ItemWriter, Layout, ReduceFault, Reducer, Updates};

/// An item that knows what it is the same as.
///
/// The key is the canonical one: an address without its fragment and in lower case, say. Two items
/// with equal keys are one item found twice.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say by which key it is found",
    label = "this item has no key",
    note = "implement `Keyed` for `{Self}`: its `key` is what makes two finds the same"
)]
pub trait Keyed {
    /// The type of the key, which is the map's.
    type Key;

    /// The item's key. Two calls give the same.
    fn key(&self) -> Self::Key;
}

/// An item that knows when it is better than another with the same key.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which of two is better",
    label = "these items cannot be ranked",
    note = "implement `Ranked` for `{Self}`, or use `ByKey<KeepFirst>`"
)]
pub trait Ranked: Keyed {
    /// Whether this one replaces `other`. Of two that are equally good neither does.
    fn better_than(&self, other: &Self) -> bool;
}

/// Keeps one item a key. Fits `BTreeMap<K, T>` where `T` is [`Keyed`] by `K`; a node gives a
/// `Vec<T>` and need not know what is there already.
///
/// - `ByKey<KeepFirst>`: the item that came first stays.
/// - `ByKey<KeepBest>`: the better one stays, as [`Ranked`] says; of two that are equally good the
///   first. Where no two different items are equally good, the order does not matter at all.
///
/// First is by task path, never by the clock.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use milepost::{ByKey, KeepFirst, Keyed, State};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, Serialize, Deserialize)]
/// struct Note {
///     url: String,
///     text: String,
/// }
///
/// impl Keyed for Note {
///     type Key = String;
///     fn key(&self) -> String {
///         self.url.to_lowercase()
///     }
/// }
///
/// #[derive(Clone, Default, Serialize, Deserialize, State)]
/// struct Report {
///     #[reduce(ByKey<KeepFirst>)]
///     notes: BTreeMap<String, Note>,
/// }
///
/// let note = |url: &str| Note { url: url.to_owned(), text: String::new() };
/// let update = Report::update().notes(vec![note("http://x/a"), note("HTTP://X/a")]);
/// let report = Report::default().apply(update).expect("notes can be merged");
/// assert_eq!(report.notes.len(), 1);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ByKey<P>(PhantomData<fn() -> P>);

/// The policy of [`ByKey`] that keeps the item that came first.
#[derive(Debug, Clone, Copy)]
pub struct KeepFirst;

/// The policy of [`ByKey`] that keeps the better item.
#[derive(Debug, Clone, Copy)]
pub struct KeepBest;

/// Which of two items with one key stays: [`KeepFirst`] or [`KeepBest`].
pub trait Keep<T>: sealed::Sealed + 'static {
    /// The stored name of the reducer with this policy.
    #[doc(hidden)]
    const ID: &'static str;

    /// Whether `new` replaces `old`.
    #[doc(hidden)]
    fn replaces(new: &T, old: &T) -> bool;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::KeepFirst {}
    impl Sealed for super::KeepBest {}
}

impl<T> Keep<T> for KeepFirst {
    const ID: &'static str = "by_key/keep_first";

    fn replaces(_: &T, _: &T) -> bool {
        false
    }
}

impl<T: Ranked> Keep<T> for KeepBest {
    const ID: &'static str = "by_key/keep_best";

    fn replaces(new: &T, old: &T) -> bool {
        new.better_than(old)
    }
}

impl<K, T, P> Reducer<BTreeMap<K, T>> for ByKey<P>
where
    K: Ord + Serialize + DeserializeOwned + Send + Sync + 'static,
    T: Keyed<Key = K> + Serialize + DeserializeOwned + Send + Sync + 'static,
    P: Keep<T>,
{
    type Update = Vec<T>;

    fn reduce(value: &mut BTreeMap<K, T>, updates: Updates<Vec<T>>) -> Result<(), ReduceFault> {
        use std::collections::btree_map::Entry;

        for item in updates.flatten() {
            match value.entry(item.key()) {
                Entry::Vacant(place) => {
                    place.insert(item);
                }
                Entry::Occupied(mut place) => {
                    if P::replaces(&item, place.get()) {
                        place.insert(item);
                    }
                }
            }
        }
        Ok(())
    }

    fn rehearse<'u>(value: &BTreeMap<K, T>, updates: impl Iterator<Item = &'u Vec<T>>) {
        // The same questions in the same order as above.
        let mut new = BTreeMap::new();
        for item in updates.flatten() {
            let key = item.key();
            let old = new.get(&key).copied().or_else(|| value.get(&key));
            if old.is_none_or(|old| P::replaces(item, old)) {
                new.insert(key, item);
            }
        }
    }

    fn id() -> &'static str {
        P::ID
    }

    fn version() -> Option<u32> {
        FROZEN
    }

    const FALLIBLE: bool = false;
    const REHEARSED: bool = true;
    const LAYOUT: Layout = Layout::Keyed;

    fn write_items(
        value: &BTreeMap<K, T>,
        skip: usize,
        writer: &mut ItemWriter<'_>,
    ) -> Result<(), CodecError> {
        value
            .iter()
            .skip(skip)
            .try_for_each(|entry| writer.item(&entry))
    }

    fn read_items(
        value: &mut BTreeMap<K, T>,
        reader: &mut ItemReader<'_>,
    ) -> Result<(), CodecError> {
        while let Some((key, item)) = reader.item()? {
            value.insert(key, item);
        }
        Ok(())
    }
}
