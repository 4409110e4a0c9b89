//! A field of a state, as a typed constant.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

use super::State;
use super::change::Change;
use super::codec::Codec;
use super::merge::{self, MergeFault, Staged};
use super::reducer::Reducer;

/// Names one field of a state: `Chat::MESSAGES`. The derive makes one for each field.
///
/// A node that is written over a field serves every state that has such a field:
///
/// ```
/// use milepost::{Append, Field, State};
///
/// fn say<S: State>(log: Field<S, Vec<String>, Append>, text: &str) -> S::Update {
///     let mut update = S::update();
///     log.merge(&mut update, vec![text.to_owned()]);
///     update
/// }
/// ```
pub struct Field<S, T, R> {
    name: &'static str,
    doc: &'static str,
    codec: Codec,
    required: bool,
    aliases: &'static [&'static str],
    /// An [`Accessors`]; without its type, because that can only be written where the reducer
    /// fits, and a field that names one that does not is reported at the attribute and not here.
    accessors: &'static (dyn Any + Send + Sync),
    types: Types<S, T, R>,
}

/// Only names the types: a field can be sent whatever they are.
type Types<S, T, R> = PhantomData<fn() -> (S, T, R)>;

/// Whether two changes are equal; nothing where their types cannot be compared.
type Same<T, U> = fn(&Change<T, U>, &Change<T, U>) -> Option<bool>;

/// How a field is found in a state and in an update; what the derive gives.
#[derive(Debug)]
pub struct Accessors<S: State, T: 'static, U: 'static> {
    /// In a state.
    pub get: fn(&S) -> &T,
    /// In a state, to change it.
    pub get_mut: fn(&mut S) -> &mut T,
    /// In an update.
    pub change: fn(&S::Update) -> &Change<T, U>,
    /// In an update, to change it.
    pub change_mut: fn(&mut S::Update) -> &mut Change<T, U>,
    /// Whether two changes are equal; nothing where their types cannot be compared.
    pub same: Same<T, U>,
}

impl<S, T, R> Clone for Field<S, T, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, T, R> Copy for Field<S, T, R> {}

impl<S: State, T, R> fmt::Debug for Field<S, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Field({}::{})", S::NAME, self.name)
    }
}

impl<S: State, T: 'static, R: Reducer<T>> Field<S, T, R> {
    /// What the derive calls.
    #[doc(hidden)]
    pub const fn new(
        name: &'static str,
        doc: &'static str,
        codec: Codec,
        required: bool,
        aliases: &'static [&'static str],
        accessors: &'static Accessors<S, T, R::Update>,
    ) -> Self {
        Self {
            name,
            doc,
            codec,
            required,
            aliases,
            accessors,
            types: PhantomData,
        }
    }

    #[inline]
    fn accessors(&self) -> &'static Accessors<S, T, R::Update> {
        self.accessors
            .downcast_ref()
            .expect("`new` is the only way to make a field and takes accessors of this type")
    }

    /// The field's name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The field's doc comment; empty if it has none.
    pub const fn doc(&self) -> &'static str {
        self.doc
    }

    /// How the field's values become bytes.
    pub const fn codec(&self) -> Codec {
        self.codec
    }

    /// Whether stored bytes and the first input must have the field.
    pub const fn required(&self) -> bool {
        self.required
    }

    /// The names under which older programs have stored the field.
    pub const fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }

    /// The field's value in a state.
    #[inline]
    pub fn get<'s>(&self, state: &'s S) -> &'s T {
        (self.accessors().get)(state)
    }

    /// Has the field's reducer merge `value` when the update is applied.
    pub fn merge(&self, update: &mut S::Update, value: R::Update) {
        self.change_mut(update).merge(value);
    }

    /// Has the update replace the field's value, past its reducer.
    pub fn overwrite(&self, update: &mut S::Update, value: T) {
        self.change_mut(update).overwrite(value);
    }

    /// Has the update set the field back to its default.
    pub fn clear(&self, update: &mut S::Update) {
        self.change_mut(update).clear();
    }

    #[inline]
    pub(super) fn get_mut<'s>(&self, state: &'s mut S) -> &'s mut T {
        (self.accessors().get_mut)(state)
    }

    #[inline]
    pub(super) fn change<'u>(&self, update: &'u S::Update) -> &'u Change<T, R::Update> {
        (self.accessors().change)(update)
    }

    /// Whether two changes are equal, as far as their types say: one that is not even equal to
    /// itself cannot be told from another.
    pub(super) fn differ(&self, one: &Change<T, R::Update>, other: &Change<T, R::Update>) -> bool {
        let same = self.accessors().same;
        same(one, other) == Some(false) && same(one, one) == Some(true)
    }

    #[inline]
    pub(super) fn change_mut<'u>(&self, update: &'u mut S::Update) -> &'u mut Change<T, R::Update> {
        (self.accessors().change_mut)(update)
    }
}

/// First phase of the merge of one field; what the derive calls.
///
/// # Errors
/// As [`merge::stage`].
#[inline]
pub fn stage_field<S: State, T: Clone + Default + 'static, R: Reducer<T>>(
    field: &Field<S, T, R>,
    state: &S,
    updates: &mut [S::Update],
) -> Result<Staged<T>, MergeFault> {
    merge::stage::<T, R, _>(
        field.name,
        field.get(state),
        updates,
        field.accessors().change_mut,
    )
}

/// Second phase of the merge of one field; what the derive calls.
#[inline]
pub fn settle_field<S: State, T: Default + 'static, R: Reducer<T>>(
    field: &Field<S, T, R>,
    staged: Staged<T>,
    state: &mut S,
    updates: &mut [S::Update],
) {
    merge::settle::<T, R, _>(
        staged,
        field.get_mut(state),
        updates,
        field.accessors().change_mut,
    );
}
