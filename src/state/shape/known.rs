//! The shape of a type as a tree, for whoever makes a value of it from something else.

use super::node::{Content, Field, Node, Variant};

/// What the bytes of a type look like, read off its serde code.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// Whatever the bytes say; also what could not be traced.
    Any,
    /// A yes or no.
    Bool,
    /// A whole number.
    Integer {
        /// Whether it can be below nought.
        signed: bool,
        /// Its width.
        bits: u32,
    },
    /// A number.
    Float {
        /// Its width.
        bits: u32,
    },
    /// One character.
    Char,
    /// A text.
    Text,
    /// Bytes.
    Bytes,
    /// Nothing.
    Unit,
    /// A value or none.
    Option(Box<Shape>),
    /// Any number of values.
    List(Box<Shape>),
    /// Keys with values.
    Map(Box<(Shape, Shape)>),
    /// So many values.
    Tuple(Vec<Shape>),
    /// Values by name.
    Struct(Vec<ShapeField>),
    /// One of several.
    Enum(Vec<ShapeVariant>),
    /// A type around another that counts as a level and is not in the bytes.
    Wrapper(Box<Shape>),
    /// The struct, enum or wrapper so many levels out.
    Outer(usize),
}

/// A field of a struct in a [`Shape`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeField {
    /// Its name in the bytes.
    pub name: &'static str,
    /// Its shape.
    pub shape: Shape,
    /// Whether this is another name of a field that stands before it.
    pub alias: bool,
}

/// A variant of an enum in a [`Shape`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeVariant {
    /// Its name in the bytes.
    pub name: &'static str,
    /// What it carries.
    pub content: ShapeContent,
}

/// What a variant in a [`Shape`] carries.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeContent {
    /// Nothing: its name is all.
    Unit,
    /// A value.
    One(Shape),
    /// Values by name; no level of its own.
    Fields(Vec<ShapeField>),
}

impl From<Node> for Shape {
    fn from(node: Node) -> Self {
        match node {
            Node::Unknown => Shape::Any,
            Node::Scalar(kind, _) => scalar(kind),
            Node::Option(inner) => Shape::Option(boxed(*inner)),
            Node::Seq(inner) => Shape::List(boxed(*inner)),
            Node::Map(entry) => Shape::Map(Box::new((entry.0.into(), entry.1.into()))),
            Node::Tuple(nodes) => tuple(nodes),
            Node::Struct(fields) => Shape::Struct(named(fields)),
            Node::Enum(variants) => Shape::Enum(variants.into_iter().map(Into::into).collect()),
            Node::Wrapper(inner) => Shape::Wrapper(boxed(*inner)),
            Node::Outer(levels) => Shape::Outer(levels),
        }
    }
}

impl From<Variant> for ShapeVariant {
    fn from(variant: Variant) -> Self {
        let content = match variant.content {
            Content::Unit => ShapeContent::Unit,
            Content::Unknown => ShapeContent::One(Shape::Any),
            Content::Newtype(node) => ShapeContent::One(node.into()),
            Content::Tuple(nodes) => ShapeContent::One(tuple(nodes)),
            Content::Struct(fields) => ShapeContent::Fields(named(fields)),
        };
        Self {
            name: variant.name,
            content,
        }
    }
}

fn boxed(node: Node) -> Box<Shape> {
    Box::new(node.into())
}

fn tuple(nodes: Vec<Node>) -> Shape {
    Shape::Tuple(nodes.into_iter().map(Into::into).collect())
}

fn named(fields: Vec<Field>) -> Vec<ShapeField> {
    let fields = fields.into_iter().map(|field| ShapeField {
        name: field.name,
        shape: field.node.into(),
        alias: field.alias,
    });
    fields.collect()
}

fn scalar(kind: &str) -> Shape {
    let bits = || kind.get(1..).and_then(|bits| bits.parse().ok());
    match (kind, kind.chars().next(), bits()) {
        ("bool", ..) => Shape::Bool,
        ("char", ..) => Shape::Char,
        ("str", ..) => Shape::Text,
        ("bytes", ..) => Shape::Bytes,
        ("unit", ..) => Shape::Unit,
        (_, Some('f'), Some(bits)) => Shape::Float { bits },
        (_, Some(sign @ ('i' | 'u')), Some(bits)) => Shape::Integer {
            signed: sign == 'i',
            bits,
        },
        _ => Shape::Any,
    }
}
