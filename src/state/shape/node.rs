//! The shape of a type as a tree, while it is learned and when it is known.

use std::fmt;

/// One place in the shape of a type.
#[derive(Debug, Default)]
pub(super) enum Node {
    /// Not reached yet.
    #[default]
    Unknown,
    /// A kind that was asked for, and whether the type has taken a value of it.
    Scalar(&'static str, bool),
    Option(Box<Node>),
    Seq(Box<Node>),
    Map(Box<(Node, Node)>),
    Tuple(Vec<Node>),
    Struct(Vec<Field>),
    Enum(Vec<Variant>),
    /// A newtype or a tuple struct: a level, though no codec writes it.
    Wrapper(Box<Node>),
    /// The type with a name so many levels out.
    Outer(usize),
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) node: Node,
    /// Another name of a field that was there already.
    pub(super) alias: bool,
}

#[derive(Debug)]
pub(super) struct Variant {
    pub(super) name: &'static str,
    pub(super) content: Content,
    /// How often it was tried; one that needs another variant to be known first comes later again.
    pub(super) tries: usize,
}

#[derive(Debug)]
pub(super) enum Content {
    Unknown,
    Unit,
    Newtype(Node),
    Tuple(Vec<Node>),
    Struct(Vec<Field>),
}

impl Node {
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Node::Unknown => false,
            Node::Scalar(_, taken) => *taken,
            Node::Option(inner) | Node::Seq(inner) | Node::Wrapper(inner) => inner.is_complete(),
            Node::Map(entry) => entry.0.is_complete() && entry.1.is_complete(),
            Node::Tuple(nodes) => nodes.iter().all(Node::is_complete),
            Node::Struct(fields) => all_complete(fields),
            Node::Enum(variants) => variants.iter().all(Variant::is_complete),
            Node::Outer(_) => true,
        }
    }
}

impl Variant {
    pub(super) fn is_complete(&self) -> bool {
        match &self.content {
            Content::Unknown => false,
            Content::Unit => true,
            Content::Newtype(node) => node.is_complete(),
            Content::Tuple(nodes) => nodes.iter().all(Node::is_complete),
            Content::Struct(fields) => all_complete(fields),
        }
    }
}

fn all_complete(fields: &[Field]) -> bool {
    fields
        .iter()
        .all(|field| field.alias || field.node.is_complete())
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Unknown => f.write_str("…"),
            Node::Scalar(kind, _) => f.write_str(kind),
            Node::Option(inner) => write!(f, "{inner}?"),
            Node::Seq(inner) => write!(f, "[{inner}]"),
            Node::Wrapper(inner) => inner.fmt(f),
            Node::Map(entry) => write!(f, "{{{}: {}}}", entry.0, entry.1),
            Node::Tuple(nodes) => tuple(f, nodes),
            Node::Struct(fields) => {
                f.write_str("struct")?;
                named(f, fields)
            }
            Node::Enum(variants) => {
                f.write_str("enum{")?;
                for (place, variant) in variants.iter().enumerate() {
                    write!(f, "{}{variant}", if place == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
            Node::Outer(levels) => write!(f, "^{levels}"),
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match &self.content {
            Content::Unknown => f.write_str("…"),
            Content::Unit => Ok(()),
            Content::Newtype(node) => write!(f, "({node})"),
            Content::Tuple(nodes) => tuple(f, nodes),
            Content::Struct(fields) => named(f, fields),
        }
    }
}

fn tuple(f: &mut fmt::Formatter<'_>, nodes: &[Node]) -> fmt::Result {
    let texts: Vec<String> = nodes.iter().map(Node::to_string).collect();
    match texts.as_slice() {
        [first, rest @ ..] if rest.len() > 1 && rest.iter().all(|text| text == first) => {
            write!(f, "({first}; {})", texts.len())
        }
        // The comma tells a tuple of one from a value in brackets.
        [only] => write!(f, "({only},)"),
        _ => write!(f, "({})", texts.join(", ")),
    }
}

fn named(f: &mut fmt::Formatter<'_>, fields: &[Field]) -> fmt::Result {
    f.write_str("{")?;
    let real = fields.iter().filter(|field| !field.alias);
    for (place, field) in real.enumerate() {
        let comma = if place == 0 { "" } else { ", " };
        write!(f, "{comma}{}: {}", field.name, field.node)?;
    }
    f.write_str("}")
}
