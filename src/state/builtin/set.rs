//! Sets that grow.

use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher, Hash};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::FROZEN;
use crate::state::{CodecError, ItemReader, ItemWriter, Layout, ReduceFault, Reducer, Updates};

/// Puts the written items into a set. Fits `BTreeSet<T>` and `HashSet<T>`; a node gives a set of
/// the same kind.
///
/// Of two equal items the older one stays. Prefer the `BTreeSet`: it is written in order, so that
/// equal sets have equal bytes, and a large one is stored in pieces.
#[derive(Debug, Clone, Copy)]
pub struct Union;

impl<T> Reducer<BTreeSet<T>> for Union
where
    T: Ord + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    type Update = BTreeSet<T>;

    #[inline]
    fn reduce(value: &mut BTreeSet<T>, updates: Updates<BTreeSet<T>>) -> Result<(), ReduceFault> {
        for update in updates {
            value.extend(update);
        }
        Ok(())
    }

    fn rehearse<'u>(value: &BTreeSet<T>, updates: impl Iterator<Item = &'u BTreeSet<T>>) {
        let mut new = BTreeSet::new();
        for item in updates.flatten() {
            if !value.contains(item) {
                new.insert(item);
            }
        }
    }

    fn id() -> &'static str {
        "union"
    }

    fn version() -> Option<u32> {
        FROZEN
    }

    const FALLIBLE: bool = false;
    const REHEARSED: bool = true;
    const LAYOUT: Layout = Layout::Keyed;

    fn write_items(
        value: &BTreeSet<T>,
        skip: usize,
        writer: &mut ItemWriter<'_>,
    ) -> Result<(), CodecError> {
        value
            .iter()
            .skip(skip)
            .try_for_each(|item| writer.item(item))
    }

    fn read_items(value: &mut BTreeSet<T>, reader: &mut ItemReader<'_>) -> Result<(), CodecError> {
        while let Some(item) = reader.item()? {
            value.insert(item);
        }
        Ok(())
    }
}

impl<T, H> Reducer<HashSet<T, H>> for Union
where
    T: Eq + Hash + Serialize + DeserializeOwned + Send + Sync + 'static,
    H: BuildHasher + Default + Send + Sync + 'static,
{
    type Update = HashSet<T, H>;

    #[inline]
    fn reduce(
        value: &mut HashSet<T, H>,
        updates: Updates<HashSet<T, H>>,
    ) -> Result<(), ReduceFault> {
        for update in updates {
            value.extend(update);
        }
        Ok(())
    }

    fn rehearse<'u>(value: &HashSet<T, H>, updates: impl Iterator<Item = &'u HashSet<T, H>>) {
        let mut new = HashSet::<_, H>::default();
        for item in updates.flatten() {
            if !value.contains(item) {
                new.insert(item);
            }
        }
    }

    fn id() -> &'static str {
        "union"
    }

    fn version() -> Option<u32> {
        FROZEN
    }

    const FALLIBLE: bool = false;
    const REHEARSED: bool = true;
}
