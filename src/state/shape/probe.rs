//! A deserialiser without bytes: it notes what it is asked for, and gives the plainest value.
//!
//! One round walks the type once, along whatever is not known yet; a type with choices (options,
//! variants) or with demands (a string that must be a date) takes several. Every round that ends
//! without a value has learned something, or is the last one.

use std::any::type_name;

use serde::de::{self, Deserializer, Visitor};

use super::node::{Content, Field, Node, Variant};
use super::parts::{Chosen, Entry, Items, Named};
use super::trace::{BYTES, DEEPEST, STRINGS, Stop, Trace};

/// One place of a type, in one round.
pub(super) struct Probe<'t> {
    node: &'t mut Node,
    trace: &'t mut Trace,
}

impl<'t> Probe<'t> {
    pub(super) fn new(node: &'t mut Node, trace: &'t mut Trace) -> Self {
        Self { node, trace }
    }

    /// A place that takes one of a few samples.
    fn scalar<'de, V: Visitor<'de>>(
        self,
        kind: &'static str,
        samples: usize,
        give: impl FnOnce(V, usize) -> Result<V::Value, Stop>,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        let name = type_name::<V::Value>();
        let sample = self.trace.samples.get(name).copied().unwrap_or(0);
        let sample = sample.max(self.trace.least.min(samples - 1));
        let given = give(visitor, sample);
        if given.is_ok() {
            self.trace.learned |= !self.node.is_complete();
            *self.node = Node::Scalar(kind, true);
        } else {
            if sample + 1 < samples {
                self.trace.samples.insert(name, sample + 1);
                self.trace.learned = true;
            }
            if !self.node.is_complete() {
                *self.node = Node::Scalar(kind, false);
            }
        }
        given
    }

    /// Goes into a type with a name. One that is inside itself is noted, and made only to get on.
    fn named<T>(
        self,
        name: &'static str,
        into: impl FnOnce(Probe<'_>) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let trace = self.trace;
        let outer = trace.around.iter().rposition(|other| *other == name);
        let mut idle = Node::Unknown;
        let node = match outer {
            None if trace.idle == 0 => self.node,
            None => &mut idle,
            Some(place) => {
                if trace.idle == 0 && !self.node.is_complete() {
                    *self.node = Node::Outer(trace.around.len() - place);
                    trace.learned = true;
                }
                &mut idle
            }
        };
        let idles = usize::from(outer.is_some());
        trace.idle += idles;
        if trace.depth >= DEEPEST {
            return Err(Stop);
        }
        trace.depth += 1;
        trace.around.push(name);
        let value = into(Probe { node, trace });
        trace.around.pop();
        trace.depth -= 1;
        trace.idle -= idles;
        value
    }

    /// Goes into a type with a name that no codec writes.
    fn wrapper<T>(
        self,
        name: &'static str,
        into: impl FnOnce(Probe<'_>) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        self.named(name, |probe| {
            if !matches!(probe.node, Node::Wrapper(_)) {
                *probe.node = Node::Wrapper(Box::default());
            }
            let Node::Wrapper(inner) = probe.node else {
                return Err(Stop);
            };
            into(Probe::new(inner, probe.trace))
        })
    }

    /// Whether an option, a sequence or a map should be given something inside.
    fn goes_in(&self, inner: &Node) -> bool {
        self.trace.idle == 0 && !inner.is_complete()
    }

    pub(super) fn fields<'de, V: Visitor<'de>>(
        nodes: &mut Vec<Field>,
        names: &'static [&'static str],
        trace: &mut Trace,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        if nodes.len() != names.len() {
            *nodes = names
                .iter()
                .map(|name| Field {
                    name,
                    node: Node::Unknown,
                    alias: false,
                })
                .collect();
        }
        let mut open = None;
        let value = visitor.visit_map(Named {
            fields: nodes.iter_mut().enumerate(),
            value: None,
            open: &mut open,
            trace,
        });
        // A name that was refused before its value was asked for is another name of a field that
        // has been given.
        if let (Err(_), Some(place)) = (&value, open)
            && let Some(field) = nodes.get_mut(place)
            && !field.node.is_complete()
        {
            field.alias = true;
            trace.learned = true;
        }
        value
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $kind:ident,)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
            // A type may refuse nought, and take one.
            let give = |visitor: V, sample| visitor.$visit(if sample == 0 { 0 as $kind } else { 1 as $kind });
            self.scalar(stringify!($kind), 2, give, visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Stop;

    numbers! {
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16,
        deserialize_i32 visit_i32 i32, deserialize_i64 visit_i64 i64,
        deserialize_i128 visit_i128 i128,
        deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64,
        deserialize_u128 visit_u128 u128,
        deserialize_f32 visit_f32 f32, deserialize_f64 visit_f64 f64,
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        let give = |visitor: V, sample| match sample {
            0 => visitor.visit_unit(),
            1 => visitor.visit_bool(false),
            2 => visitor.visit_u64(0),
            3 => visitor.visit_borrowed_str(""),
            4 => visitor.visit_seq(Items::new(&mut [], &mut Trace::default())),
            _ => visitor.visit_map(de::value::MapDeserializer::new(std::iter::empty::<(
                &str,
                &str,
            )>())),
        };
        self.scalar("any", 6, give, visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.scalar(
            "bool",
            2,
            |visitor, sample| visitor.visit_bool(sample != 0),
            visitor,
        )
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.scalar("char", 1, |visitor, _| visitor.visit_char('a'), visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        let give = |visitor: V, sample: usize| {
            visitor.visit_borrowed_str(STRINGS.get(sample).copied().unwrap_or_default())
        };
        self.scalar("str", STRINGS.len(), give, visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        let give = |visitor: V, sample: usize| {
            visitor.visit_byte_buf(vec![0; BYTES.get(sample).copied().unwrap_or_default()])
        };
        self.scalar("bytes", BYTES.len(), give, visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.scalar("unit", 1, |visitor, _| visitor.visit_unit(), visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.deserialize_str(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.scalar("any", 1, |visitor, _| visitor.visit_unit(), visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        if !matches!(self.node, Node::Option(_)) {
            *self.node = Node::Option(Box::default());
        }
        match &*self.node {
            Node::Option(inner) if !self.goes_in(inner) => return visitor.visit_none(),
            _ => {}
        }
        let Node::Option(inner) = self.node else {
            return Err(Stop);
        };
        self.trace.depth += 1;
        if self.trace.depth >= DEEPEST {
            return Err(Stop);
        }
        let value = visitor.visit_some(Probe::new(inner, &mut *self.trace));
        self.trace.depth -= 1;
        value
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        // No codec writes the wrapper. It counts as a level, since a type can be inside itself
        // through it.
        self.wrapper(type_name::<V::Value>(), |probe| {
            visitor.visit_newtype_struct(probe)
        })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        if !matches!(self.node, Node::Seq(_)) {
            *self.node = Node::Seq(Box::default());
        }
        let goes_in = matches!(&*self.node, Node::Seq(inner) if self.goes_in(inner));
        let Node::Seq(inner) = self.node else {
            return Err(Stop);
        };
        let items = if goes_in {
            std::slice::from_mut(&mut **inner)
        } else {
            &mut []
        };
        visitor.visit_seq(Items::new(items, self.trace))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Stop> {
        if !matches!(self.node, Node::Tuple(_)) {
            *self.node = Node::Tuple((0..len).map(|_| Node::Unknown).collect());
        }
        let Node::Tuple(nodes) = self.node else {
            return Err(Stop);
        };
        visitor.visit_seq(Items::new(nodes, self.trace))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.wrapper(type_name::<V::Value>(), |probe| {
            probe.deserialize_tuple(len, visitor)
        })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        if !matches!(self.node, Node::Map(_)) {
            *self.node = Node::Map(Box::default());
        }
        let goes_in = matches!(
            &*self.node,
            Node::Map(entry) if self.goes_in(&entry.0) || self.goes_in(&entry.1)
        );
        let Node::Map(entry) = self.node else {
            return Err(Stop);
        };
        let (key, value) = &mut **entry;
        visitor.visit_map(Entry {
            key: goes_in.then_some(key),
            value,
            trace: self.trace,
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.named(type_name::<V::Value>(), |probe| {
            if !matches!(probe.node, Node::Struct(_)) {
                *probe.node = Node::Struct(Vec::new());
            }
            let Node::Struct(nodes) = probe.node else {
                return Err(Stop);
            };
            Probe::fields(nodes, fields, probe.trace, visitor)
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        let name = type_name::<V::Value>();
        self.named(name, |probe| {
            if !matches!(probe.node, Node::Enum(_)) {
                let variants = names.iter().map(|name| Variant {
                    name,
                    content: Content::Unknown,
                    tries: 0,
                });
                *probe.node = Node::Enum(variants.collect());
            }
            let Node::Enum(variants) = probe.node else {
                return Err(Stop);
            };
            let trace = probe.trace;
            let plain = trace.plain.get(name).copied();
            let next = variants
                .iter()
                .zip(0_u32..)
                .filter(|(variant, _)| trace.idle == 0 && !variant.is_complete())
                .min_by_key(|(variant, _)| variant.tries)
                .map(|(_, place)| place);
            // In a value that only serves to get on, only a variant that is known to end will do.
            let place = match (next, plain) {
                (Some(next), _) => next,
                (None, Some(plain)) => plain,
                (None, None) if trace.idle == 0 => 0,
                (None, None) => return Err(Stop),
            };
            let variant = variants.get_mut(place as usize).ok_or(Stop)?;
            variant.tries += 1;
            let known = variant.is_complete();
            let value = visitor.visit_enum(Chosen {
                variant: &mut *variant,
                trace: &mut *trace,
            });
            if value.is_ok() {
                trace.plain.entry(name).or_insert(place);
                trace.learned |= !known && trace.idle == 0;
            }
            value
        })
    }
}
