//! What `derive(State)` reads from a struct, and what it refuses.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{Attribute, Data, DeriveInput, Error, Fields as Shape, Ident, LitInt, Path, Visibility};

use crate::attributes::{FieldAttributes, StateAttributes};

/// Names that the update type has for itself.
const TAKEN: [&str; 2] = ["overwrite", "clear"];

/// A struct that can be a state.
pub(crate) struct Fields {
    pub(crate) name: Ident,
    pub(crate) visibility: Visibility,
    pub(crate) version: Option<LitInt>,
    pub(crate) migrate: Option<Path>,
    pub(crate) docs: Vec<Attribute>,
    pub(crate) all: Vec<Field>,
}

/// One field of it.
pub(crate) struct Field {
    pub(crate) ident: Ident,
    /// The name as people and records have it, without `r#`.
    pub(crate) name: String,
    /// The name of the typed constant.
    pub(crate) constant: Ident,
    pub(crate) visibility: Visibility,
    pub(crate) value: TokenStream,
    pub(crate) reducer: TokenStream,
    /// The first and the last token of the reducer's path, where one that does not fit is reported.
    pub(crate) reducer_ends: (Span, Span),
    /// Where a type that lacks something is reported.
    pub(crate) value_span: Span,
    pub(crate) codec: Option<Ident>,
    pub(crate) required: bool,
    /// The names that it had before.
    pub(crate) aliases: Vec<String>,
    pub(crate) docs: Vec<Attribute>,
}

impl Fields {
    pub(crate) fn read(item: &DeriveInput) -> Result<Self, Error> {
        let name = &item.ident;
        let Data::Struct(data) = &item.data else {
            return Err(Error::new_spanned(
                name,
                format!("`{name}` must be a struct with named fields to be a state"),
            ));
        };
        let Shape::Named(named) = &data.fields else {
            return Err(Error::new_spanned(
                name,
                format!(
                    "the fields of `{name}` need names: updates, reducers and stored values go by field name"
                ),
            ));
        };
        if !item.generics.params.is_empty() {
            return Err(Error::new_spanned(
                &item.generics,
                "a state has no generic parameters: each stored field has one type. Write one struct a case",
            ));
        }
        let mut wrong = Wrong::default();
        let attributes = wrong
            .keep(StateAttributes::read(&item.attrs))
            .unwrap_or_default();
        let mut names: Vec<String> = named.named.iter().filter_map(own_name).collect();
        let all = named
            .named
            .iter()
            .filter_map(|field| wrong.keep(Field::read(field, item, &mut names)))
            .collect();
        wrong.finish()?;
        Ok(Self {
            name: name.clone(),
            visibility: item.vis.clone(),
            version: attributes.version,
            migrate: attributes.migrate,
            docs: attributes.docs,
            all,
        })
    }
}

impl Field {
    /// Reads a field; `names` are those that are taken.
    fn read(
        field: &syn::Field,
        state: &DeriveInput,
        names: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let Some(ident) = field.ident.clone() else {
            return Err(Error::new_spanned(field, "a field of a state needs a name"));
        };
        let name = ident.unraw().to_string();
        if TAKEN.contains(&name.as_str()) {
            return Err(Error::new_spanned(
                &ident,
                format!(
                    "a field cannot be named `{name}`: the update type has a method of that name. Choose another name"
                ),
            ));
        }
        let attributes = FieldAttributes::read(&field.attrs)?;
        let mut aliases = Vec::new();
        for alias in &attributes.aliases {
            let old = alias.unraw().to_string();
            if names.contains(&old) {
                let why = format!("`{old}` is another field's name already, or this one's own");
                return Err(Error::new_spanned(alias, why));
            }
            names.push(old.clone());
            aliases.push(old);
        }
        let value = without_self(field.ty.to_token_stream(), &state.ident);
        let (reducer, reducer_ends) = match attributes.reducer {
            Some(path) => {
                let path = path.into_token_stream();
                let ends = ends(&path);
                (without_self(path, &state.ident), ends)
            }
            None => {
                let ends = ends(&value);
                let path = quote::quote_spanned!(ends.0=> ::milepost::Replace);
                (path, ends)
            }
        };
        Ok(Self {
            constant: Ident::new(&name.to_uppercase(), ident.span()),
            visibility: narrower(&field.vis, &state.vis),
            ident,
            name,
            value,
            reducer,
            reducer_ends,
            value_span: field.ty.span(),
            codec: attributes.codec,
            required: attributes.required,
            aliases,
            docs: attributes.docs,
        })
    }
}

fn own_name(field: &syn::Field) -> Option<String> {
    Some(field.ident.as_ref()?.unraw().to_string())
}

/// A `pub` field of a struct that is not public is as visible as the struct.
fn narrower(field: &Visibility, state: &Visibility) -> Visibility {
    match field {
        Visibility::Public(_) => state.clone(),
        other => other.clone(),
    }
}

fn ends(tokens: &TokenStream) -> (Span, Span) {
    let mut spans = tokens.clone().into_iter().map(|token| token.span());
    let first = spans.next().unwrap_or_else(Span::call_site);
    (first, spans.last().unwrap_or(first))
}

/// Types are repeated where `Self` would be the update.
fn without_self(tokens: TokenStream, state: &Ident) -> TokenStream {
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Ident(ident) if ident == "Self" => {
                TokenTree::Ident(Ident::new(&state.unraw().to_string(), ident.span()))
            }
            TokenTree::Group(group) => {
                let mut new = Group::new(group.delimiter(), without_self(group.stream(), state));
                new.set_span(group.span());
                TokenTree::Group(new)
            }
            other => other,
        })
        .collect()
}

/// Everything that is wrong, so that all of it is seen in one compilation.
#[derive(Default)]
struct Wrong(Option<Error>);

impl Wrong {
    fn keep<T>(&mut self, read: Result<T, Error>) -> Option<T> {
        match read {
            Ok(found) => Some(found),
            Err(why) => {
                match &mut self.0 {
                    Some(all) => all.combine(why),
                    None => self.0 = Some(why),
                }
                None
            }
        }
    }

    fn finish(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), Err)
    }
}
