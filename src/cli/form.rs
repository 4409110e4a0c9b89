//! What a shape means for the one who types: in words, as the name of a value, as an example.
//!
//! In comes the shape of what a field is given, out goes text.

use crate::{Shape, ShapeContent, ShapeVariant};

/// The shape without what no codec writes.
pub(super) fn plain(shape: &Shape) -> &Shape {
    match shape {
        Shape::Wrapper(inner) => plain(inner),
        shape => shape,
    }
}

/// The shape of the value that is there, and whether there may be none.
pub(super) fn some(shape: &Shape) -> (&Shape, bool) {
    match plain(shape) {
        Shape::Option(inner) => (some(inner).0, true),
        shape => (shape, false),
    }
}

/// Whether one word says it: a text, a number, a yes or no, a name.
pub(super) fn is_word(shape: &Shape) -> bool {
    match some(shape).0 {
        Shape::Text | Shape::Char | Shape::Bool | Shape::Integer { .. } | Shape::Float { .. } => {
            true
        }
        Shape::Enum(variants) => names(variants).is_some(),
        _ => false,
    }
}

/// Whether a file's content is taken as it is.
pub(super) fn is_text(shape: &Shape) -> bool {
    matches!(some(shape).0, Shape::Text | Shape::Char)
}

/// The shape of the items, where a flag can be repeated: each time one item.
pub(super) fn item(shape: &Shape) -> Option<&Shape> {
    match some(shape).0 {
        Shape::List(item) if is_word(item) => Some(item),
        _ => None,
    }
}

/// The names of an enum's variants, if none carries anything.
pub(super) fn names(variants: &[ShapeVariant]) -> Option<Vec<&'static str>> {
    let all_are = !variants.is_empty() && variants.iter().all(|variant| is_unit(&variant));
    all_are.then(|| variants.iter().map(|variant| variant.name).collect())
}

/// Whether one of an enum's variants has this name and carries nothing.
pub(super) fn has(variants: &[ShapeVariant], name: &str) -> bool {
    variants
        .iter()
        .filter(is_unit)
        .any(|variant| variant.name == name)
}

fn is_unit(variant: &&ShapeVariant) -> bool {
    variant.content == ShapeContent::Unit
}

/// What stands for the value in a line of help.
pub(super) fn value_name(shape: &Shape) -> &'static str {
    match some(item(shape).unwrap_or(shape)).0 {
        Shape::Text | Shape::Char => "TEXT",
        Shape::Bool => "true|false",
        Shape::Integer { .. } => "N",
        Shape::Float { .. } => "NUMBER",
        Shape::Enum(variants) if names(variants).is_some() => "NAME",
        _ => "JSON",
    }
}

/// What is expected, in words.
pub(super) fn words(shape: &Shape) -> String {
    match shape {
        Shape::Any => "any JSON value".to_owned(),
        Shape::Outer(_) => "a value of the same kind again".to_owned(),
        Shape::Bool => "true or false".to_owned(),
        Shape::Integer { signed, bits } => {
            let (least, most) = range(*signed, *bits);
            format!("a whole number from {least} to {most}")
        }
        Shape::Float { .. } => "a number".to_owned(),
        Shape::Char => "a text of one character".to_owned(),
        Shape::Text => "a text".to_owned(),
        Shape::Bytes => r#"bytes, as in {"$bytes": "00ff"} or [0, 255]"#.to_owned(),
        Shape::Unit => "null".to_owned(),
        Shape::Option(inner) => format!("{}, or null", words(some(inner).0)),
        Shape::List(item) => format!("a list, each item {}", words(item)),
        Shape::Map(entry) => match plain(&entry.0) {
            Shape::Text => format!("an object, each value {}", words(&entry.1)),
            key => {
                let object = match is_word(key) {
                    true => "an object",
                    false => r#"{"$entries": [[key, value], …]}"#,
                };
                let (key, value) = (words(key), words(&entry.1));
                format!("{object}, each key {key}, each value {value}")
            }
        },
        Shape::Tuple(parts) => {
            let parts: Vec<_> = parts.iter().map(words).collect();
            match parts.as_slice() {
                [first, rest @ ..] if rest.iter().all(|part| part == first) => {
                    format!("a list of {}, each {first}", parts.len())
                }
                parts => format!("a list of {}: {}", parts.len(), parts.join("; ")),
            }
        }
        Shape::Struct(fields) => {
            let fields = fields.iter().filter(|field| !field.alias);
            let fields: Vec<_> = fields.map(|field| field.name).collect();
            format!("an object with {}", fields.join(", "))
        }
        Shape::Enum(variants) => {
            let variants = variants.iter().map(|variant| match variant.content {
                ShapeContent::Unit => format!("{:?}", variant.name),
                _ => format!("{{{:?}: …}}", variant.name),
            });
            format!("one of {}", variants.collect::<Vec<_>>().join(", "))
        }
        Shape::Wrapper(inner) => words(inner),
    }
}

/// The least and the greatest number of a width.
pub(super) fn range(signed: bool, bits: u32) -> (i128, u128) {
    let unused = 128_u32.saturating_sub(bits);
    match signed {
        true => (i128::MIN >> unused, (i128::MAX >> unused).unsigned_abs()),
        false => (0, u128::MAX >> unused),
    }
}

/// A value that would be taken, as it is typed behind a flag.
pub(super) fn example(shape: &Shape) -> String {
    let shape = item(shape).unwrap_or(shape);
    match some(shape).0 {
        Shape::Text => "text".to_owned(),
        Shape::Char => "a".to_owned(),
        Shape::Enum(variants) => match variants.iter().find(is_unit) {
            Some(variant) => variant.name.to_owned(),
            None => example_json(shape),
        },
        shape => example_json(shape),
    }
}

/// A value that would be taken, as JSON.
pub(super) fn example_json(shape: &Shape) -> String {
    match shape {
        Shape::Any => "{}".to_owned(),
        Shape::Outer(_) | Shape::Unit => "null".to_owned(),
        Shape::Bool => "true".to_owned(),
        Shape::Integer { .. } => "1".to_owned(),
        Shape::Float { .. } => "0.5".to_owned(),
        Shape::Char => "\"a\"".to_owned(),
        Shape::Text => "\"text\"".to_owned(),
        Shape::Bytes => r#"{"$bytes": "00ff"}"#.to_owned(),
        Shape::Option(inner) | Shape::Wrapper(inner) => example_json(inner),
        Shape::List(item) if matches!(plain(item), Shape::Outer(_)) => "[]".to_owned(),
        Shape::List(item) => format!("[{}]", example_json(item)),
        Shape::Map(entry) if !is_word(&entry.0) => {
            let (key, value) = (example_json(&entry.0), example_json(&entry.1));
            format!(r#"{{"$entries": [[{key}, {value}]]}}"#)
        }
        Shape::Map(entry) => {
            let key = example(&entry.0);
            format!("{{{key:?}: {}}}", example_json(&entry.1))
        }
        Shape::Tuple(parts) => {
            let parts: Vec<_> = parts.iter().map(example_json).collect();
            format!("[{}]", parts.join(", "))
        }
        Shape::Struct(fields) => {
            let fields = fields.iter().filter(|field| !field.alias);
            let fields = fields.map(|field| (field.name, &field.shape));
            object(fields)
        }
        Shape::Enum(variants) => {
            let variant = variants.iter().find(is_unit).or_else(|| variants.first());
            match variant.map(|variant| (variant.name, &variant.content)) {
                None => "null".to_owned(),
                Some((name, ShapeContent::Unit)) => format!("{name:?}"),
                Some((name, ShapeContent::One(shape))) => object([(name, shape)]),
                Some((name, ShapeContent::Fields(fields))) => {
                    let fields = fields.iter().map(|field| (field.name, &field.shape));
                    format!("{{{name:?}: {}}}", object(fields))
                }
            }
        }
    }
}

fn object<'a>(fields: impl IntoIterator<Item = (&'a str, &'a Shape)>) -> String {
    let fields = fields.into_iter();
    let fields = fields.map(|(name, shape)| format!("{name:?}: {}", example_json(shape)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}
