//! A field without its types: what the engine does with it.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::change::{Base, Change, Merges};
use super::codec::{Codec, CodecError, ItemReader, ItemWriter};
use super::reducer::{Layout, Reducer};
use super::shape::Shape;
use super::{Field, State, digest, shape};

/// A change of one field, as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedChange {
    /// What happens before the merges.
    pub base: EncodedBase,
    /// What the reducer is given, in order.
    pub merges: Merges<Vec<u8>>,
}

/// What a change does before anything is merged, as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EncodedBase {
    /// Nothing.
    Keep,
    /// Back to the default.
    Clear,
    /// Set to this value.
    Overwrite(Vec<u8>),
}

/// What is known of a field's reducer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReducerInfo {
    /// Its stored name.
    pub id: &'static str,
    /// Its version; none for one whose results are stored by value.
    pub version: Option<u32>,
    /// Whether two tasks of one superstep may both write.
    pub concurrent: bool,
    /// Whether the value is gone after one superstep.
    pub ephemeral: bool,
    /// How a base stores the value.
    pub layout: Layout,
}

/// A field without its type: what the engine does with it. Implemented by [`Field`] alone.
pub trait AnyField<S: State>: fmt::Debug + Send + Sync + sealed::Sealed {
    /// The field's name.
    fn name(&self) -> &'static str;
    /// The field's doc comment; empty if it has none.
    fn doc(&self) -> &'static str;
    /// Whether stored bytes and the first input must have it.
    fn required(&self) -> bool;
    /// The names under which older programs have stored it.
    fn aliases(&self) -> &'static [&'static str];
    /// Whether it is stored under this name, or was.
    fn is_called(&self, name: &str) -> bool {
        self.name() == name || self.aliases().contains(&name)
    }
    /// How values and updates become bytes.
    fn codec(&self) -> Codec;
    /// The value's Rust type.
    fn type_name(&self) -> &'static str;
    /// What is known of the reducer.
    fn reducer(&self) -> ReducerInfo;
    /// The serde shape of the value, as text; the type's name where it cannot be traced.
    fn shape(&self) -> String;
    /// The serde shape of what the reducer is given.
    fn update_shape(&self) -> Shape;
    /// Has the reducer merge what these bytes say: MessagePack, whatever the field's own codec.
    ///
    /// # Errors
    /// [`CodecError`] if the bytes do not decode to what the reducer is given.
    fn merge_named(&self, update: &mut S::Update, bytes: &[u8]) -> Result<(), CodecError>;
    /// Has the update set the field back to its default.
    fn clear(&self, update: &mut S::Update);
    /// Whether the update changes the field.
    fn written(&self, update: &S::Update) -> bool;
    /// The change as bytes; none if there is none.
    ///
    /// # Errors
    /// [`CodecError`] if the codec cannot carry the value.
    fn encode_change(&self, update: &S::Update) -> Result<Option<EncodedChange>, CodecError>;
    /// Puts a change that was read into an update.
    ///
    /// # Errors
    /// [`CodecError`] if the bytes do not decode to the field's types.
    fn decode_change(
        &self,
        update: &mut S::Update,
        change: &EncodedChange,
    ) -> Result<(), CodecError>;
    /// The value as bytes.
    ///
    /// # Errors
    /// [`CodecError`] if the codec cannot carry the value.
    fn encode_value(&self, state: &S) -> Result<Vec<u8>, CodecError>;
    /// Sets the value from bytes.
    ///
    /// # Errors
    /// [`CodecError`] if the bytes do not decode to the field's type.
    fn decode_value(&self, state: &mut S, bytes: &[u8]) -> Result<(), CodecError>;
    /// Writes the items from `skip` on.
    ///
    /// # Errors
    /// [`CodecError`] if the codec cannot carry an item.
    fn encode_items(
        &self,
        state: &S,
        skip: usize,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<(), CodecError>;
    /// Adds items that were written.
    ///
    /// # Errors
    /// [`CodecError`] if the bytes do not decode to `items` items.
    fn decode_items(&self, state: &mut S, bytes: &[u8], items: u64) -> Result<(), CodecError>;
    /// A hash of the value's data model: equal values, equal hashes, to the bit.
    fn digest_value(&self, state: &S) -> u128;
    /// Encodes and decodes the field's change and compares what comes back.
    ///
    /// # Errors
    /// [`CodecError::NotRoundTrip`] if another value comes back.
    fn check_change(&self, update: &S::Update) -> Result<(), CodecError>;
    /// Encodes and decodes the field's value and compares what comes back.
    ///
    /// # Errors
    /// [`CodecError::NotRoundTrip`] if another value comes back.
    fn check_value(&self, state: &S) -> Result<(), CodecError>;
}

mod sealed {
    pub trait Sealed {}
}

impl<S, T, R> sealed::Sealed for Field<S, T, R> {}

impl<S, T, R> AnyField<S> for Field<S, T, R>
where
    S: State,
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
    R: Reducer<T>,
{
    fn name(&self) -> &'static str {
        Field::name(self)
    }

    fn doc(&self) -> &'static str {
        Field::doc(self)
    }

    fn required(&self) -> bool {
        Field::required(self)
    }

    fn aliases(&self) -> &'static [&'static str] {
        Field::aliases(self)
    }

    fn codec(&self) -> Codec {
        Field::codec(self)
    }

    fn type_name(&self) -> &'static str {
        std::any::type_name::<T>()
    }

    fn reducer(&self) -> ReducerInfo {
        ReducerInfo {
            id: R::id(),
            version: R::version(),
            concurrent: R::CONCURRENT,
            ephemeral: R::EPHEMERAL,
            layout: R::LAYOUT,
        }
    }

    fn shape(&self) -> String {
        shape::of::<T>()
    }

    fn update_shape(&self) -> Shape {
        Shape::of::<R::Update>()
    }

    fn merge_named(&self, update: &mut S::Update, bytes: &[u8]) -> Result<(), CodecError> {
        self.merge(update, Codec::MessagePack.decode(bytes)?);
        Ok(())
    }

    fn clear(&self, update: &mut S::Update) {
        Field::clear(self, update);
    }

    fn written(&self, update: &S::Update) -> bool {
        !self.change(update).is_empty()
    }

    fn encode_change(&self, update: &S::Update) -> Result<Option<EncodedChange>, CodecError> {
        let change = self.change(update);
        if change.is_empty() {
            return Ok(None);
        }
        let base = match &change.base {
            Base::Keep => EncodedBase::Keep,
            Base::Clear => EncodedBase::Clear,
            Base::Overwrite(value) => EncodedBase::Overwrite(Field::codec(self).encode(value)?),
        };
        let merges = match &change.merges {
            Merges::None => Merges::None,
            Merges::One(update) => Merges::One(Field::codec(self).encode(update)?),
            Merges::Many(all) => {
                let all = all.iter().map(|update| Field::codec(self).encode(update));
                Merges::Many(all.collect::<Result<_, _>>()?)
            }
        };
        Ok(Some(EncodedChange { base, merges }))
    }

    fn decode_change(
        &self,
        update: &mut S::Update,
        change: &EncodedChange,
    ) -> Result<(), CodecError> {
        let slot = self.change_mut(update);
        match &change.base {
            EncodedBase::Keep => {}
            EncodedBase::Clear => slot.clear(),
            EncodedBase::Overwrite(bytes) => slot.overwrite(Field::codec(self).decode(bytes)?),
        }
        for bytes in change.merges.iter() {
            slot.merge(Field::codec(self).decode(bytes)?);
        }
        Ok(())
    }

    fn encode_value(&self, state: &S) -> Result<Vec<u8>, CodecError> {
        Field::codec(self).encode(self.get(state))
    }

    fn decode_value(&self, state: &mut S, bytes: &[u8]) -> Result<(), CodecError> {
        *self.get_mut(state) = Field::codec(self).decode(bytes)?;
        Ok(())
    }

    fn encode_items(
        &self,
        state: &S,
        skip: usize,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<(), CodecError> {
        R::write_items(
            self.get(state),
            skip,
            &mut ItemWriter::new(Field::codec(self), sink),
        )
    }

    fn decode_items(&self, state: &mut S, bytes: &[u8], items: u64) -> Result<(), CodecError> {
        let mut reader = ItemReader::new(Field::codec(self), bytes, items);
        R::read_items(self.get_mut(state), &mut reader)?;
        reader.finish()
    }

    fn digest_value(&self, state: &S) -> u128 {
        digest::of(self.get(state))
    }

    fn check_change(&self, update: &S::Update) -> Result<(), CodecError> {
        let (change, codec) = (self.change(update), Field::codec(self));
        if change.is_empty() {
            return Ok(());
        }
        let mut back = Change::default();
        match &change.base {
            Base::Keep => {}
            Base::Clear => back.clear(),
            Base::Overwrite(value) => back.overwrite(codec.checked(value)?),
        }
        for update in change.merges.iter() {
            back.merge(codec.checked(update)?);
        }
        match self.differ(change, &back) {
            false => Ok(()),
            true => Err(CodecError::NotRoundTrip {
                type_name: std::any::type_name::<T>(),
                reason: "what comes back is not equal to it, so a part of it is not stored, as \
                         `#[serde(skip)]` says"
                    .to_owned(),
            }),
        }
    }

    fn check_value(&self, state: &S) -> Result<(), CodecError> {
        Field::codec(self).check(self.get(state))
    }
}
