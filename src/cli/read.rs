//! From a word or JSON to a value, as the shape of a field wants it.
//!
//! In come a shape and a text, out comes the value, or what is wrong with it and where. Numbers are
//! read from their own digits, so that none loses any.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::data::Data;
use super::form;
use super::wrong::Wrong;
use crate::{Shape, ShapeContent, ShapeField, ShapeVariant};

/// How deep a value may be: as deep as one can be shown again.
const MOST_LEVELS: usize = 120;

/// Reads a word of a command line. What is no scalar is JSON.
pub(super) fn word(shape: &Shape, text: &str) -> Result<Data, Wrong> {
    let other = || Wrong::Other {
        at: String::new(),
        expected: form::words(shape),
        found: format!("{text:?}"),
    };
    match form::plain(shape) {
        Shape::Option(_) if text == "null" => Ok(Data::Null),
        Shape::Option(inner) => word(inner, text),
        Shape::Text => Ok(Data::Text(text.to_owned())),
        Shape::Char => one_char(text).ok_or_else(other),
        Shape::Bool => text.parse().map(Data::Bool).map_err(|_| other()),
        Shape::Integer { signed, bits } => whole(text, *signed, *bits).ok_or_else(other),
        Shape::Float { bits } => float(text, *bits).ok_or_else(other),
        Shape::Enum(variants) if let Some(names) = form::names(variants) => {
            let known = names.contains(&text);
            known.then(|| Data::Text(text.to_owned())).ok_or_else(other)
        }
        // A case without content is a word, also where others have some.
        Shape::Enum(variants) if form::has(variants, text) => Ok(Data::Text(text.to_owned())),
        // No JSON of an enum is a bare word.
        Shape::Enum(_) if text.chars().all(|c| c.is_alphanumeric() || c == '_') => Err(other()),
        shape => json(shape, text),
    }
}

/// Reads JSON.
pub(super) fn json(shape: &Shape, text: &str) -> Result<Data, Wrong> {
    Reader::default().value(shape, whole_json(text)?)
}

/// Reads the fields of a JSON object as they stand there, each with its own JSON.
pub(super) fn object(text: &str) -> Result<Vec<(String, String)>, Wrong> {
    let raw = whole_json(text)?;
    let Some(entries) = Reader::default().entries(raw)? else {
        return Err(Wrong::Other {
            at: String::new(),
            expected: "an object of fields".to_owned(),
            found: found(raw),
        });
    };
    let entries = entries.into_iter();
    Ok(entries.map(|(name, raw)| (name, raw.to_owned())).collect())
}

/// Reads the JSON of one field.
pub(super) fn field(shape: &Shape, name: &str, raw: &str) -> Result<Data, Wrong> {
    let mut reader = Reader {
        path: name.to_owned(),
        ..Reader::default()
    };
    reader.value(shape, raw)
}

fn whole_json(text: &str) -> Result<&str, Wrong> {
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| Wrong::syntax(&error))?;
    Ok(raw.get())
}

#[derive(Default)]
struct Reader<'s> {
    /// The shapes with a name around the present place, outermost first.
    around: Vec<&'s Shape>,
    path: String,
    depth: usize,
}

impl<'s> Reader<'s> {
    fn value(&mut self, shape: &'s Shape, raw: &str) -> Result<Data, Wrong> {
        if self.depth > MOST_LEVELS {
            return Err(Wrong::Deep { most: MOST_LEVELS });
        }
        self.depth += 1;
        let value = self.value_here(shape, raw);
        self.depth -= 1;
        value
    }

    fn value_here(&mut self, shape: &'s Shape, raw: &str) -> Result<Data, Wrong> {
        let raw = raw.trim();
        let read = match shape {
            Shape::Any => return self.any(raw),
            Shape::Bool => raw.parse().ok().map(Data::Bool),
            Shape::Integer { signed, bits } => whole(raw, *signed, *bits),
            Shape::Float { bits } => match text(raw) {
                // What JSON has no number for.
                Some(word) => unusual(&word, *bits),
                None if is_number(raw) => float(raw, *bits),
                None => self
                    .sole(raw, "$float")?
                    .and_then(text)
                    .and_then(|word| unusual(&word, *bits)),
            },
            Shape::Char => text(raw).and_then(|text| one_char(&text)),
            Shape::Text => text(raw).map(Data::Text),
            Shape::Bytes => match self.sole(raw, "$bytes")?.and_then(text) {
                Some(hex) => bytes(&hex).map(Data::Bytes),
                None => serde_json::from_str(raw).ok().map(Data::Bytes),
            },
            Shape::Unit => (raw == "null").then_some(Data::Null),
            Shape::Option(_) if raw == "null" => Some(Data::Null),
            Shape::Option(inner) => return self.value(inner, raw),
            Shape::List(item) => match items(raw)? {
                Some(items) => Some(self.list(items.into_iter().map(|raw| (&**item, raw)))?),
                None => None,
            },
            Shape::Tuple(parts) => match items(raw)? {
                Some(items) if items.len() == parts.len() => {
                    Some(self.list(parts.iter().zip(items))?)
                }
                _ => None,
            },
            Shape::Map(entry) => self.map(&entry.0, &entry.1, raw)?,
            Shape::Struct(fields) => self.inside(shape, |reader| reader.fields(fields, raw))?,
            Shape::Enum(variants) => self.inside(shape, |reader| reader.variant(variants, raw))?,
            Shape::Wrapper(inner) => {
                return self.inside(shape, |reader| reader.value(inner, raw));
            }
            Shape::Outer(levels) => return self.outer(*levels, raw),
        };
        read.ok_or_else(|| self.other(shape, raw))
    }

    /// The entries of an object, if it is one.
    fn entries<'r>(&self, raw: &'r str) -> Result<Option<Vec<(String, &'r str)>>, Wrong> {
        if !raw.starts_with('{') {
            return Ok(None);
        }
        let Entries(entries) = serde_json::from_str(raw).map_err(|error| Wrong::syntax(&error))?;
        let mut names = HashSet::with_capacity(entries.len());
        if let Some((name, _)) = entries.iter().find(|(name, _)| !names.insert(name)) {
            let (at, name) = (self.path.clone(), name.clone());
            return Err(Wrong::Twice { at, name });
        }
        Ok(Some(entries))
    }

    /// The value of an object's only entry, if it has this name.
    fn sole<'r>(&self, raw: &'r str, name: &str) -> Result<Option<&'r str>, Wrong> {
        let sole = exactly(self.entries(raw)?).filter(|[(key, _)]| key == name);
        Ok(sole.map(|[(_, value)]| value))
    }

    fn other(&self, shape: &Shape, raw: &str) -> Wrong {
        Wrong::Other {
            at: self.path.clone(),
            expected: form::words(shape),
            found: found(raw),
        }
    }

    fn inside<T>(
        &mut self,
        shape: &'s Shape,
        read: impl FnOnce(&mut Self) -> Result<T, Wrong>,
    ) -> Result<T, Wrong> {
        self.around.push(shape);
        let value = read(self);
        self.around.pop();
        value
    }

    /// Goes on with a shape further out.
    fn outer(&mut self, levels: usize, raw: &str) -> Result<Data, Wrong> {
        let place = self.around.len().saturating_sub(levels);
        let Some(shape) = self.around.get(place).copied() else {
            return self.any(raw);
        };
        let inner = self.around.split_off(place);
        let value = self.value(shape, raw);
        self.around.extend(inner);
        value
    }

    /// Goes on at a place further in.
    fn at(&mut self, part: &str, shape: &'s Shape, raw: &str) -> Result<Data, Wrong> {
        let here = self.path.len();
        self.path
            .push_str(part.trim_start_matches(|c| c == '.' && here == 0));
        let value = self.value(shape, raw);
        self.path.truncate(here);
        value
    }

    fn list<'r>(
        &mut self,
        items: impl Iterator<Item = (&'s Shape, &'r str)>,
    ) -> Result<Data, Wrong> {
        let items = items.enumerate();
        let items = items.map(|(place, (shape, raw))| self.at(&format!("[{place}]"), shape, raw));
        items.collect::<Result<_, _>>().map(Data::List)
    }

    fn map(&mut self, key: &'s Shape, value: &'s Shape, raw: &str) -> Result<Option<Data>, Wrong> {
        let by_text = form::is_text(key);
        let pairs = match self.sole(raw, "$entries")? {
            Some(pairs) if !by_text => items(pairs)?,
            _ => None,
        };
        let mut map = Vec::new();
        if let Some(pairs) = pairs {
            for (place, pair) in pairs.into_iter().enumerate() {
                let Some([first, second]) = exactly(items(pair)?) else {
                    return Ok(None);
                };
                let at = format!(".$entries[{place}]");
                map.push((self.at(&at, key, first)?, self.at(&at, value, second)?));
            }
            return Ok(Some(Data::Map(map)));
        }
        let Some(entries) = self.entries(raw)? else {
            return Ok(None);
        };
        for (name, raw) in entries {
            let at = format!(".{name}");
            let named = word(key, &name).map_err(|wrong| match wrong {
                Wrong::Other {
                    expected, found, ..
                } => Wrong::Other {
                    at: self.path.clone(),
                    expected: format!("as a key, {expected}"),
                    found,
                },
                wrong => wrong,
            })?;
            map.push((named, self.at(&at, value, raw)?));
        }
        Ok(Some(Data::Map(map)))
    }

    fn fields(&mut self, fields: &'s [ShapeField], raw: &str) -> Result<Option<Data>, Wrong> {
        let Some(entries) = self.entries(raw)? else {
            return Ok(None);
        };
        let mut map: Vec<(Data, Data)> = Vec::with_capacity(entries.len());
        for (name, raw) in entries {
            let Some(field) = fields.iter().find(|field| field.name == name) else {
                let real = fields.iter().filter(|field| !field.alias);
                let known = real.map(|field| field.name.to_owned()).collect();
                let at = self.path.clone();
                return Err(Wrong::Unknown { at, name, known });
            };
            let value = self.at(&format!(".{name}"), &field.shape, raw)?;
            map.push((Data::Text(name), value));
        }
        Ok(Some(Data::Map(map)))
    }

    fn variant(&mut self, variants: &'s [ShapeVariant], raw: &str) -> Result<Option<Data>, Wrong> {
        let find = |name: &str| variants.iter().find(|variant| variant.name == name);
        if let Some(name) = text(raw) {
            let known = find(&name);
            let is_whole = known.is_some_and(|known| known.content == ShapeContent::Unit);
            return Ok(is_whole.then_some(Data::Text(name)));
        }
        let Some([(name, raw)]) = exactly(self.entries(raw)?) else {
            return Ok(None);
        };
        let at = format!(".{name}");
        let content = match find(&name).map(|variant| &variant.content) {
            Some(ShapeContent::One(shape)) => self.at(&at, shape, raw)?,
            Some(ShapeContent::Fields(fields)) => {
                let here = self.path.len();
                self.path
                    .push_str(at.trim_start_matches(|c| c == '.' && here == 0));
                let content = self.fields(fields, raw);
                self.path.truncate(here);
                match content? {
                    Some(content) => content,
                    None => return Ok(None),
                }
            }
            Some(ShapeContent::Unit) | None => return Ok(None),
        };
        Ok(Some(Data::Map(vec![(Data::Text(name), content)])))
    }

    /// A value as it says itself.
    fn any(&mut self, raw: &str) -> Result<Data, Wrong> {
        const ANY: &Shape = &Shape::Any;
        let raw = raw.trim();
        if let Some(items) = items(raw)? {
            return self.list(items.into_iter().map(|raw| (ANY, raw)));
        }
        if let Some(entries) = self.entries(raw)? {
            let mut map = Vec::with_capacity(entries.len());
            for (name, raw) in entries {
                let value = self.at(&format!(".{name}"), ANY, raw)?;
                map.push((Data::Text(name), value));
            }
            return Ok(Data::Map(map));
        }
        let number = || {
            let whole = whole(raw, false, 64).or_else(|| whole(raw, true, 64));
            whole.or_else(|| float(raw, 64))
        };
        match raw {
            "null" => Some(Data::Null),
            "true" | "false" => Some(Data::Bool(raw == "true")),
            raw => text(raw).map(Data::Text).or_else(number),
        }
        .ok_or_else(|| self.other(ANY, raw))
    }
}

/// What was found, in few words.
fn found(raw: &str) -> String {
    match raw.trim().chars().next() {
        Some('[') => format!("a list: {raw}"),
        Some('{') => format!("an object: {raw}"),
        Some('"') => format!("the text {raw}"),
        _ if is_number(raw) => format!("the number {raw}"),
        _ => raw.to_owned(),
    }
}

fn is_number(raw: &str) -> bool {
    raw.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

fn one_char(text: &str) -> Option<Data> {
    let mut chars = text.chars();
    let one = chars.next().is_some() && chars.next().is_none();
    one.then(|| Data::Text(text.to_owned()))
}

fn whole(text: &str, signed: bool, bits: u32) -> Option<Data> {
    let (least, most) = form::range(signed, bits);
    let negative: Option<i128> = text.parse().ok();
    let positive: Option<u128> = text.parse().ok();
    let fits = negative.is_some_and(|number| number >= least && number < 0)
        || positive.is_some_and(|number| number <= most)
        || negative == Some(0);
    if !fits {
        return None;
    }
    Some(match (signed, bits) {
        (true, 128) => Data::WideSigned(negative?),
        (false, 128) => Data::WideUnsigned(positive.unwrap_or(0)),
        (true, _) => Data::Signed(negative?.try_into().ok()?),
        (false, _) => Data::Unsigned(positive.unwrap_or(0).try_into().ok()?),
    })
}

/// A number; one that is finite as it is written must be so as it is kept.
fn float(text: &str, bits: u32) -> Option<Data> {
    let finite = text.contains(|c: char| c.is_ascii_digit());
    if bits == 32 {
        let number: f32 = text.parse().ok()?;
        (number.is_finite() || !finite).then_some(Data::Single(number))
    } else {
        let number: f64 = text.parse().ok()?;
        (number.is_finite() || !finite).then_some(Data::Double(number))
    }
}

/// What is no number, or not finite.
fn unusual(word: &str, bits: u32) -> Option<Data> {
    ["NaN", "inf", "-inf"]
        .contains(&word)
        .then(|| float(word, bits))
        .flatten()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = hex
        .chars()
        .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let pairs = digits.filter(|digits| digits.len() % 2 == 0)?;
    let pairs = pairs.chunks_exact(2);
    Some(
        pairs
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect(),
    )
}

fn text(raw: &str) -> Option<String> {
    serde_json::from_str(raw).ok()
}

/// The items of a list, if it is one.
fn items(raw: &str) -> Result<Option<Vec<&str>>, Wrong> {
    if !raw.starts_with('[') {
        return Ok(None);
    }
    let items: Vec<&RawValue> = serde_json::from_str(raw).map_err(|error| Wrong::syntax(&error))?;
    Ok(Some(items.into_iter().map(RawValue::get).collect()))
}

/// So many parts, if they are that many.
fn exactly<T, const N: usize>(parts: Option<Vec<T>>) -> Option<[T; N]> {
    parts?.try_into().ok()
}

struct Entries<'a>(Vec<(String, &'a str)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Vec<(String, &'de str)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some((key, value)) = map.next_entry::<Cow<'de, str>, &RawValue>()? {
                    entries.push((key.into_owned(), value.get()));
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_map(Read).map(Entries)
    }
}
