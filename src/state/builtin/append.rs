//! A list that grows at its end.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::FROZEN;
use crate::state::{CodecError, ItemReader, ItemWriter, Layout, ReduceFault, Reducer, Updates};

/// Puts the written items at the end of a list. Fits `Vec<T>`; a node gives a `Vec<T>`.
///
/// The items of several tasks come in task-path order, whichever of them was done first.
#[derive(Debug, Clone, Copy)]
pub struct Append;

impl<T> Reducer<Vec<T>> for Append
where
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    type Update = Vec<T>;

    #[inline]
    fn reduce(value: &mut Vec<T>, updates: Updates<Vec<T>>) -> Result<(), ReduceFault> {
        for mut update in updates {
            if value.is_empty() && value.capacity() == 0 {
                *value = update;
            } else {
                value.append(&mut update);
            }
        }
        Ok(())
    }

    fn id() -> &'static str {
        "append"
    }

    fn version() -> Option<u32> {
        FROZEN
    }

    // Items are only moved, so nothing of theirs is called that could panic.
    const FALLIBLE: bool = false;
    const LAYOUT: Layout = Layout::List;

    fn write_items(
        value: &Vec<T>,
        skip: usize,
        writer: &mut ItemWriter<'_>,
    ) -> Result<(), CodecError> {
        value
            .iter()
            .skip(skip)
            .try_for_each(|item| writer.item(item))
    }

    fn read_items(value: &mut Vec<T>, reader: &mut ItemReader<'_>) -> Result<(), CodecError> {
        while let Some(item) = reader.item()? {
            value.push(item);
        }
        Ok(())
    }
}
