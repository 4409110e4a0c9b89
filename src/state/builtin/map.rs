//! Maps that are written key by key.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::FROZEN;
use crate::state::{CodecError, ItemReader, ItemWriter, Layout, ReduceFault, Reducer, Updates};

/// Puts the written entries into a map; where both have a key, the written value wins. Fits
/// `BTreeMap<K, V>` and `HashMap<K, V>`; a node gives a map of the same kind.
///
/// The merge is shallow: a value that is a map itself is replaced, not merged. Two tasks may write
/// one key, and the later one by task path wins. Prefer the `BTreeMap`: it is written in order, so
/// that equal maps have equal bytes, and a large one is stored in pieces.
#[derive(Debug, Clone, Copy)]
pub struct Merge;

impl<K, V> Reducer<BTreeMap<K, V>> for Merge
where
    K: Ord + Serialize + DeserializeOwned + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    type Update = BTreeMap<K, V>;

    #[inline]
    fn reduce(
        value: &mut BTreeMap<K, V>,
        updates: Updates<BTreeMap<K, V>>,
    ) -> Result<(), ReduceFault> {
        for update in updates {
            value.extend(update);
        }
        Ok(())
    }

    fn rehearse<'u>(value: &BTreeMap<K, V>, updates: impl Iterator<Item = &'u BTreeMap<K, V>>) {
        let mut new = std::collections::BTreeSet::new();
        for key in updates.flat_map(BTreeMap::keys) {
            if !value.contains_key(key) {
                new.insert(key);
            }
        }
    }

    fn id() -> &'static str {
        "merge"
    }

    fn version() -> Option<u32> {
        FROZEN
    }

    const FALLIBLE: bool = false;
    const REHEARSED: bool = true;
    const LAYOUT: Layout = Layout::Keyed;

    fn write_items(
        value: &BTreeMap<K, V>,
        skip: usize,
        writer: &mut ItemWriter<'_>,
    ) -> Result<(), CodecError> {
        value
            .iter()
            .skip(skip)
            .try_for_each(|entry| writer.item(&entry))
    }

    fn read_items(
        value: &mut BTreeMap<K, V>,
        reader: &mut ItemReader<'_>,
    ) -> Result<(), CodecError> {
        while let Some((key, item)) = reader.item()? {
            value.insert(key, item);
        }
        Ok(())
    }
}

impl<K, V, H> Reducer<HashMap<K, V, H>> for Merge
where
    K: Eq + Hash + Serialize + DeserializeOwned + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
    H: BuildHasher + Default + Send + Sync + 'static,
{
    type Update = HashMap<K, V, H>;

    #[inline]
    fn reduce(
        value: &mut HashMap<K, V, H>,
        updates: Updates<HashMap<K, V, H>>,
    ) -> Result<(), ReduceFault> {
        for update in updates {
            value.extend(update);
        }
        Ok(())
    }

    fn rehearse<'u>(value: &HashMap<K, V, H>, updates: impl Iterator<Item = &'u HashMap<K, V, H>>) {
        let mut new = std::collections::HashSet::<_, H>::default();
        for key in updates.flat_map(HashMap::keys) {
            if !value.contains_key(key) {
                new.insert(key);
            }
        }
    }

    fn id() -> &'static str {
        "merge"
    }

    fn version() -> Option<u32> {
        FROZEN
    }

    const FALLIBLE: bool = false;
    const REHEARSED: bool = true;
}
