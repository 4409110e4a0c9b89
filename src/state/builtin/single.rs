//! Reducers of a single value: the last write, a flag, a value for one superstep.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::FROZEN;
use crate::state::{ReduceFault, Reducer, Updates};

/// The written value replaces the old one; what a field without `#[reduce(..)]` does.
///
/// Fits every type that can be stored. Two tasks of one superstep that both write such a field
/// are an error that names both, even where they write the same value: which of them is right is
/// not for the engine to guess.
#[derive(Debug, Clone, Copy)]
pub struct Replace;

impl<T> Reducer<T> for Replace
where
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    type Update = T;

    #[inline]
    fn reduce(value: &mut T, updates: Updates<T>) -> Result<(), ReduceFault> {
        if let Some(last) = updates.last() {
            *value = last;
        }
        Ok(())
    }

    fn id() -> &'static str {
        "replace"
    }

    fn version() -> Option<u32> {
        FROZEN
    }

    const CONCURRENT: bool = false;
    const FALLIBLE: bool = false;
}

/// The written value is there for the next superstep and then gone.
///
/// Fits every type that can be stored. At every superstep the field goes back to its default
/// before anything is written, so it carries a word from one superstep to the next and cannot be
/// read by mistake later. It is stored like any other field and so survives a pause and a crash;
/// what must not be stored at all belongs into the context of the run. Two tasks of one superstep
/// that both write it are an error.
#[derive(Debug, Clone, Copy)]
pub struct Ephemeral;

impl<T> Reducer<T> for Ephemeral
where
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    type Update = T;

    #[inline]
    fn reduce(value: &mut T, updates: Updates<T>) -> Result<(), ReduceFault> {
        if let Some(last) = updates.last() {
            *value = last;
        }
        Ok(())
    }

    fn id() -> &'static str {
        "ephemeral"
    }

    fn version() -> Option<u32> {
        FROZEN
    }

    const CONCURRENT: bool = false;
    const FALLIBLE: bool = false;
    const EPHEMERAL: bool = true;
}

/// A flag that any task may raise. Fits `bool`.
///
/// Only an overwrite or a clear lowers it again.
#[derive(Debug, Clone, Copy)]
pub struct Or;

impl Reducer<bool> for Or {
    type Update = bool;

    #[inline]
    fn reduce(value: &mut bool, updates: Updates<bool>) -> Result<(), ReduceFault> {
        for update in updates {
            *value |= update;
        }
        Ok(())
    }

    fn id() -> &'static str {
        "or"
    }

    fn version() -> Option<u32> {
        FROZEN
    }

    const FALLIBLE: bool = false;
}
