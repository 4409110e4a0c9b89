//! What a reducer is.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::change::Updates;
use super::codec::{CodecError, ItemReader, ItemWriter};

/// Merges what the nodes of one superstep return for one field into the field's value.
///
/// A reducer is a unit struct, named by its type path: `#[reduce(Append)]`. It gets all updates of
/// a superstep in one call, in task-path order, and must depend on nothing else: no clock, no
/// randomness, no outside state. A reducer of one's own that gives no [`version`](Self::version)
/// has its results stored by value; one that does promises that the same updates will give the
/// same value in every later program, and is replayed.
///
/// ```
/// use milepost::{ReduceFault, Reducer, Updates};
///
/// /// Keeps the longest text.
/// struct Longest;
///
/// impl Reducer<String> for Longest {
///     type Update = String;
///     fn reduce(value: &mut String, updates: Updates<String>) -> Result<(), ReduceFault> {
///         for update in updates {
///             if update.len() > value.len() {
///                 *value = update;
///             }
///         }
///         Ok(())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no reducer for a field of type `{T}`",
    label = "this reducer does not fit the field's type",
    note = "look at the list of built-in reducers for the types each one fits, or implement `Reducer<{T}>`"
)]
pub trait Reducer<T>: 'static {
    /// What a node gives for the field; may differ from the field's own type.
    type Update: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Merges. A refusal (or a panic) fails the superstep and changes nothing.
    ///
    /// # Errors
    /// A [`ReduceFault`] says why the updates cannot be merged.
    fn reduce(value: &mut T, updates: Updates<Self::Update>) -> Result<(), ReduceFault>;

    /// Whether [`rehearse`](Self::rehearse) has something to do.
    #[doc(hidden)]
    const REHEARSED: bool = false;

    /// Calls on the old value and the updates whatever user code [`reduce`](Self::reduce) will
    /// call, and changes nothing. For reducers of large values that cannot refuse but do call such
    /// code (an order, a key): so a panic of it is found while nothing has changed, without a copy.
    #[doc(hidden)]
    fn rehearse<'u>(_: &T, _: impl Iterator<Item = &'u Self::Update>) {}

    /// The stored name of the reducer. Default: the type's path.
    fn id() -> &'static str {
        std::any::type_name::<Self>()
    }

    /// The version of its meaning; none (the default) has results stored by value.
    fn version() -> Option<u32> {
        None
    }

    /// Whether two tasks of one superstep may both write the field. Default: yes.
    const CONCURRENT: bool = true;

    /// Whether [`reduce`](Self::reduce) may refuse or panic, so that it must work on a copy.
    /// Default: yes. Only reducers that can do neither say no.
    const FALLIBLE: bool = true;

    /// Whether the value goes back to its default at every superstep before anything is merged.
    const EPHEMERAL: bool = false;

    /// How a base stores the value. Default: whole.
    const LAYOUT: Layout = Layout::Whole;

    /// Writes the items from `skip` on, one call of the writer an item; only for layouts with items.
    #[doc(hidden)]
    fn write_items(_: &T, _skip: usize, _: &mut ItemWriter<'_>) -> Result<(), CodecError> {
        Ok(())
    }

    /// Reads items into the value, in the order in which they were written.
    #[doc(hidden)]
    fn read_items(_: &mut T, _: &mut ItemReader<'_>) -> Result<(), CodecError> {
        Ok(())
    }
}

/// How a base stores the value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// As one value.
    Whole,
    /// As a list that mostly grows at its end: sealed segments are found by count.
    List,
    /// As entries in key order: segments are cut by content and found by hash.
    Keyed,
}

/// Why updates cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ReduceFault {
    reason: String,
}

impl ReduceFault {
    /// Says why, in a sentence for the reader of the error.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }
}
