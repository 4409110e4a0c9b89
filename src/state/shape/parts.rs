//! What a type is given to look into: items, an entry, fields, a variant.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::node::{Content, Field, Node, Variant};
use super::probe::Probe;
use super::trace::{DEEPEST, Stop, Trace};

/// Goes in one place deeper.
fn probe<'de, S: DeserializeSeed<'de>>(
    seed: S,
    node: &mut Node,
    trace: &mut Trace,
) -> Result<S::Value, Stop> {
    if trace.depth >= DEEPEST {
        return Err(Stop);
    }
    trace.depth += 1;
    let value = seed.deserialize(Probe::new(node, &mut *trace));
    trace.depth -= 1;
    value
}

/// The items of a sequence or a tuple.
pub(super) struct Items<'t> {
    nodes: std::slice::IterMut<'t, Node>,
    trace: &'t mut Trace,
}

impl<'t> Items<'t> {
    pub(super) fn new(nodes: &'t mut [Node], trace: &'t mut Trace) -> Self {
        Self {
            nodes: nodes.iter_mut(),
            trace,
        }
    }
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Stop;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Stop> {
        self.nodes
            .next()
            .map(|node| probe(seed, node, self.trace))
            .transpose()
    }
}

/// The one entry of a map, or none.
pub(super) struct Entry<'t> {
    pub(super) key: Option<&'t mut Node>,
    pub(super) value: &'t mut Node,
    pub(super) trace: &'t mut Trace,
}

impl<'de> MapAccess<'de> for Entry<'_> {
    type Error = Stop;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Stop> {
        self.key
            .take()
            .map(|node| probe(seed, node, self.trace))
            .transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Stop> {
        probe(seed, self.value, self.trace)
    }
}

/// The fields of a struct, by name.
pub(super) struct Named<'t> {
    pub(super) fields: std::iter::Enumerate<std::slice::IterMut<'t, Field>>,
    pub(super) value: Option<&'t mut Node>,
    /// The field whose name was given and whose value was not asked for yet.
    pub(super) open: &'t mut Option<usize>,
    pub(super) trace: &'t mut Trace,
}

impl<'de> MapAccess<'de> for Named<'_> {
    type Error = Stop;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Stop> {
        let Some((place, field)) = self.fields.find(|(_, field)| !field.alias) else {
            return Ok(None);
        };
        *self.open = Some(place);
        self.value = Some(&mut field.node);
        seed.deserialize(BorrowedStrDeserializer::new(field.name))
            .map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Stop> {
        *self.open = None;
        let node = self.value.take().ok_or(Stop)?;
        probe(seed, node, self.trace)
    }
}

/// One variant of an enum.
pub(super) struct Chosen<'t> {
    pub(super) variant: &'t mut Variant,
    pub(super) trace: &'t mut Trace,
}

impl<'de> EnumAccess<'de> for Chosen<'_> {
    type Error = Stop;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Stop> {
        let name = seed.deserialize(BorrowedStrDeserializer::new(self.variant.name))?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for Chosen<'_> {
    type Error = Stop;

    fn unit_variant(self) -> Result<(), Stop> {
        self.variant.content = Content::Unit;
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Stop> {
        if !matches!(self.variant.content, Content::Newtype(_)) {
            self.variant.content = Content::Newtype(Node::Unknown);
        }
        let Content::Newtype(node) = &mut self.variant.content else {
            return Err(Stop);
        };
        probe(seed, node, self.trace)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Stop> {
        if !matches!(self.variant.content, Content::Tuple(_)) {
            self.variant.content = Content::Tuple((0..len).map(|_| Node::Unknown).collect());
        }
        let Content::Tuple(nodes) = &mut self.variant.content else {
            return Err(Stop);
        };
        visitor.visit_seq(Items::new(nodes, self.trace))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        if !matches!(self.variant.content, Content::Struct(_)) {
            self.variant.content = Content::Struct(Vec::new());
        }
        let Content::Struct(nodes) = &mut self.variant.content else {
            return Err(Stop);
        };
        Probe::fields(nodes, fields, self.trace, visitor)
    }
}
