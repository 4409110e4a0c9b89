//! The attributes of a state and of its fields.

use proc_macro2::Span;
use syn::ext::IdentExt as _;
use syn::parse::ParseStream;
use syn::spanned::Spanned as _;
use syn::{
    Attribute, Error, Expr, ExprLit, Ident, Lit, LitInt, LitStr, Meta, Path, Token, TypePath,
};

/// The variants of `milepost::Codec`.
const CODECS: [&str; 2] = ["MessagePack", "Bincode"];

/// What stands on one field.
#[derive(Default)]
pub(crate) struct FieldAttributes {
    /// The reducer's type path.
    pub(crate) reducer: Option<TypePath>,
    /// The codec's name.
    pub(crate) codec: Option<Ident>,
    /// Whether stored bytes and the first input must have the field.
    pub(crate) required: bool,
    /// The names under which older programs have stored it.
    pub(crate) aliases: Vec<Ident>,
    /// The field's own doc comment.
    pub(crate) docs: Vec<Attribute>,
}

impl FieldAttributes {
    pub(crate) fn read(attributes: &[Attribute]) -> Result<Self, Error> {
        let mut found = Self::default();
        for attribute in attributes {
            let path = attribute.path();
            if path.is_ident("doc") {
                found.docs.push(attribute.clone());
            } else if path.is_ident("reduce") {
                once(
                    attribute,
                    found.reducer.is_some(),
                    "a field has one reducer",
                )?;
                found.reducer = Some(reducer(attribute)?);
            } else if path.is_ident("codec") {
                once(attribute, found.codec.is_some(), "a field has one codec")?;
                found.codec = Some(codec(attribute)?);
            } else if path.is_ident("required") {
                once(attribute, found.required, "once is enough")?;
                if !matches!(attribute.meta, Meta::Path(_)) {
                    return Err(Error::new_spanned(
                        attribute,
                        "`#[required]` stands alone, it takes nothing",
                    ));
                }
                found.required = true;
            } else if path.is_ident("field") {
                aliases(attribute, &mut found.aliases)?;
            } else if path.is_ident("serde") {
                stored(attribute)?;
            } else if path.is_ident("state") {
                return Err(Error::new_spanned(
                    attribute,
                    "`#[state(..)]` belongs on the struct, not on a field",
                ));
            }
        }
        Ok(found)
    }
}

/// The text of doc comments, as people read it; empty if there are none.
pub(crate) fn text(docs: &[Attribute]) -> String {
    let lines = docs.iter().filter_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        let Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) = &pair.value
        else {
            return None;
        };
        let text = text.value();
        Some(text.strip_prefix(' ').unwrap_or(&text).to_owned())
    });
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// What stands on the struct.
#[derive(Default)]
pub(crate) struct StateAttributes {
    /// The declared version of the fields' types.
    pub(crate) version: Option<LitInt>,
    /// The function that lifts the version before.
    pub(crate) migrate: Option<Path>,
    /// The struct's own doc comment.
    pub(crate) docs: Vec<Attribute>,
}

impl StateAttributes {
    pub(crate) fn read(attributes: &[Attribute]) -> Result<Self, Error> {
        let mut found = Self::default();
        for attribute in attributes {
            let path = attribute.path();
            if path.is_ident("doc") {
                found.docs.push(attribute.clone());
            } else if path.is_ident("state") {
                found.read_keys(attribute)?;
            } else if ["reduce", "codec", "required", "field"]
                .iter()
                .any(|name| path.is_ident(name))
            {
                return Err(Error::new_spanned(
                    attribute,
                    "this attribute belongs on a field, not on the struct",
                ));
            }
        }
        found.check()?;
        Ok(found)
    }

    /// A lift leads from a lower version to this one.
    fn check(&self) -> Result<(), Error> {
        let Some(migrate) = &self.migrate else {
            return Ok(());
        };
        let version = self.version.as_ref();
        match version.map(LitInt::base10_parse::<u32>) {
            Some(Ok(2..)) => Ok(()),
            _ => Err(Error::new_spanned(
                migrate,
                "`migrate` lifts an older version to this one, so this one has a version of 2 or more: `#[state(version = 2, migrate = ..)]`",
            )),
        }
    }

    fn read_keys(&mut self, attribute: &Attribute) -> Result<(), Error> {
        const KEYS: &str = "the keys of `#[state(..)]` are `version` and `migrate`, as in `#[state(version = 2, migrate = from_v1)]`";
        if !matches!(&attribute.meta, Meta::List(list) if !list.tokens.is_empty()) {
            return Err(Error::new_spanned(attribute, KEYS));
        }
        attribute.parse_nested_meta(|key| {
            if key.path.is_ident("migrate") {
                if self.migrate.is_some() {
                    return Err(Error::new_spanned(&key.path, "`migrate` is given twice"));
                }
                let why = "a lift is named by its path, as in `migrate = from_v1`";
                let path = key.value()?.parse::<Path>();
                self.migrate = Some(path.map_err(|error| Error::new(error.span(), why))?);
                return Ok(());
            }
            if !key.path.is_ident("version") {
                return Err(Error::new_spanned(&key.path, KEYS));
            }
            if self.version.is_some() {
                return Err(Error::new_spanned(&key.path, "`version` is given twice"));
            }
            let value = key.value()?;
            let version = value.parse::<LitInt>().map_err(|why| {
                Error::new(why.span(), "a version is a number, as in `version = 2`")
            })?;
            match version.base10_parse::<u32>() {
                Ok(1..) => self.version = Some(version),
                _ => {
                    return Err(Error::new(
                        version.span(),
                        "a version is a number from 1 to 4294967295",
                    ));
                }
            }
            Ok(())
        })
    }
}

/// The names in `#[field(alias = old_name)]`.
fn aliases(attribute: &Attribute, found: &mut Vec<Ident>) -> Result<(), Error> {
    const HOW: &str = "the key of `#[field(..)]` is `alias`, as in `#[field(alias = old_name)]`";
    if !matches!(&attribute.meta, Meta::List(list) if !list.tokens.is_empty()) {
        return Err(Error::new_spanned(attribute, HOW));
    }
    attribute.parse_nested_meta(|key| {
        if !key.path.is_ident("alias") {
            return Err(Error::new_spanned(&key.path, HOW));
        }
        let why = "an alias is the name that the field had, without quotes: `alias = old_name`";
        let name = Ident::parse_any(key.value()?);
        found.push(name.map_err(|error| Error::new(error.span(), why))?);
        Ok(())
    })
}

/// Every field of a state is stored, so none may look as if it were not.
fn stored(attribute: &Attribute) -> Result<(), Error> {
    let Meta::List(list) = &attribute.meta else {
        return Ok(());
    };
    let skips = |token: &proc_macro2::TokenTree| {
        matches!(token, proc_macro2::TokenTree::Ident(word)
            if ["skip", "skip_serializing", "skip_deserializing"].iter().any(|skip| word == skip))
    };
    match list.tokens.clone().into_iter().find(skips) {
        None => Ok(()),
        Some(skip) => Err(Error::new(
            skip.span(),
            "every field of a state is stored, whatever serde is told: what must not be stored belongs into the run context",
        )),
    }
}

fn once(attribute: &Attribute, seen: bool, why: &str) -> Result<(), Error> {
    if !seen {
        return Ok(());
    }
    let name = attribute
        .path()
        .get_ident()
        .map(Ident::to_string)
        .unwrap_or_default();
    Err(Error::new_spanned(
        attribute,
        format!("a second `#[{name}]` on one field: {why}"),
    ))
}

fn reducer(attribute: &Attribute) -> Result<TypePath, Error> {
    const HOW: &str = "a reducer is named by its type path, as in `#[reduce(Append)]`";
    list(attribute, HOW, |input| {
        if input.peek(LitStr) {
            return Err(input.error(format!("{HOW}, without quotes")));
        }
        input
            .parse::<TypePath>()
            .map_err(|why| Error::new(why.span(), HOW))
    })
}

fn codec(attribute: &Attribute) -> Result<Ident, Error> {
    const HOW: &str = "a codec is named as in `#[codec(Bincode)]`";
    list(attribute, HOW, |input| {
        if input.peek(LitStr) {
            return Err(input.error(format!("{HOW}, without quotes")));
        }
        let name = input
            .parse::<Ident>()
            .map_err(|why| Error::new(why.span(), HOW))?;
        if CODECS.iter().any(|codec| name == codec) {
            return Ok(name);
        }
        let known = CODECS.join("` or `");
        let why = format!("there is no codec `{name}`: a field is stored as `{known}`");
        Err(Error::new(name.span(), why))
    })
}

/// Parses the one thing in an attribute's parentheses.
fn list<T>(
    attribute: &Attribute,
    how: &str,
    parse: impl Fn(ParseStream<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let Meta::List(list) = &attribute.meta else {
        return Err(Error::new_spanned(attribute, how));
    };
    if list.tokens.is_empty() {
        return Err(Error::new_spanned(attribute, how));
    }
    list.parse_args_with(|input: ParseStream<'_>| {
        let found = parse(input)?;
        let _: Option<Token![,]> = input.parse()?;
        if input.is_empty() {
            return Ok(found);
        }
        let rest: Span = input.cursor().token_stream().span();
        Err(Error::new(
            rest,
            format!("there is something left over: {how}"),
        ))
    })
}
