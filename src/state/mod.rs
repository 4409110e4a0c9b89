//! State: what the nodes of a graph share, and how their updates change it.
//!
//! In come updates in task-path order, out comes the next value of each field. A state is a plain
//! struct; the derive mirrors it in an update type and in one typed constant a field. Nothing
//! here runs a node, knows a graph, or stores anything: values only become bytes and back.

mod any_field;
mod builtin;
mod change;
mod codec;
mod derived;
mod digest;
mod field;
mod merge;
mod migrate;
mod reducer;
mod shape;
mod snapshot;
mod strict;

use std::fmt;

pub use any_field::{AnyField, EncodedBase, EncodedChange, ReducerInfo};
pub use builtin::{
    Add, Append, ByKey, Ephemeral, Keep, KeepBest, KeepFirst, Keyed, Max, Merge, Min, Or, Ranked,
    Replace, Union,
};
pub use change::{Change, Merges, Updates};
pub use codec::{Codec, CodecError, ItemReader, ItemWriter};
pub use derived::{Asked, Both, Comparable, Fitting, Incomparable, Slot, fits, show_update};
pub(crate) use digest::of_key as digest_of;
pub use field::{Accessors, Field, settle_field, stage_field};
pub(crate) use merge::panic_message;
pub use merge::{MergeFault, Staged, settle, stage};
pub use migrate::{MigrateFault, Older, lift};
pub(crate) use migrate::{field_called, versions};
pub use reducer::{Layout, ReduceFault, Reducer};
pub(crate) use shape::of as shape_of;
pub use shape::{Shape, ShapeContent, ShapeField, ShapeVariant};
pub use snapshot::Snapshot;

/// What all nodes of a graph share. Made by `#[derive(State)]` on a plain struct.
///
/// Each field names the reducer that merges what nodes return for it; without an attribute the
/// last write replaces, and two writers in one superstep are an error. The derive leaves the
/// struct alone and adds the update type (`ChatUpdate` for `Chat`), a setter a field on it, and a
/// [`Field`] constant a field (`Chat::MESSAGES`).
///
/// ```
/// use milepost::{Add, Append, State};
/// use serde::{Deserialize, Serialize};
///
/// /// What a conversation knows.
/// #[derive(Clone, Debug, Default, Serialize, Deserialize, State)]
/// pub struct Chat {
///     /// Everything said so far, oldest first.
///     #[reduce(Append)]
///     pub messages: Vec<String>,
///     /// Tokens spent.
///     #[reduce(Add)]
///     pub tokens: u64,
///     /// The final answer.
///     pub answer: Option<String>,
/// }
///
/// let update = Chat::update().messages(vec!["hello".to_owned()]).tokens(3);
/// let chat = Chat::default().apply(update).expect("one writer a field");
/// assert_eq!((chat.messages.len(), chat.tokens), (1, 3));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a state",
    label = "a graph needs a state here",
    note = "add `#[derive(Clone, Default, Serialize, Deserialize, State)]` to the struct"
)]
pub trait State: Clone + Default + Send + Sync + 'static {
    /// A change to any of the fields. The default changes nothing.
    type Update: Default + Send + Sync + fmt::Debug + 'static;

    /// The struct's name.
    const NAME: &'static str;

    /// The struct's doc comment; empty if it has none.
    const DOC: &'static str = "";

    /// The declared version of the fields' types; 1 unless the struct says otherwise.
    const VERSION: u32 = 1;

    /// An update that changes nothing yet.
    fn update() -> Self::Update {
        Self::Update::default()
    }

    /// Has a visitor do something with the version before this one, and the function that lifts it;
    /// nothing where the struct names none.
    #[doc(hidden)]
    fn older<V: Older<Self>>(_: V) -> Option<V::Out> {
        None
    }

    /// The fields in declaration order.
    #[doc(hidden)]
    fn fields() -> &'static [&'static dyn AnyField<Self>];

    /// Merges the updates of one superstep, given in task-path order.
    ///
    /// # Errors
    /// [`MergeFault`]; the state is then as it was.
    #[doc(hidden)]
    fn merge(&mut self, updates: &mut [Self::Update]) -> Result<(), MergeFault>;

    /// The state after one update, as a test of a node needs it.
    ///
    /// # Errors
    /// [`MergeFault`] if a reducer refuses.
    fn apply(mut self, update: Self::Update) -> Result<Self, MergeFault> {
        self.merge(&mut [update])?;
        Ok(self)
    }
}
