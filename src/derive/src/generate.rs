//! The code that `derive(State)` adds to a struct.
//!
//! A reducer is mentioned as little as can be, and every mention is placed at its attribute, so
//! that one that does not fit is reported there and once.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;

use crate::state::{Field, Fields};

/// Everything for one state.
pub(crate) fn code(state: &Fields) -> TokenStream {
    let update = format_ident!("{}Update", state.name.unraw(), span = state.name.span());
    let parts = [
        update_type(state, &update),
        setters(state, &update),
        constants(state, &update),
        state_impl(state, &update),
    ];
    quote!(#(#parts)*)
}

fn update_type(state: &Fields, update: &Ident) -> TokenStream {
    let visibility = &state.visibility;
    let name = &state.name;
    let idents: Vec<_> = state.all.iter().map(|field| &field.ident).collect();
    let names: Vec<_> = state.all.iter().map(|field| &field.name).collect();
    let changes = state.all.iter().map(|field| {
        let value = &field.value;
        let given = update_of(field);
        quote!(::milepost::Change<#value, #given>)
    });
    let doc = format!(
        "A change to any of the fields of [`{name}`]: one setter a field. The default changes nothing."
    );
    let title = update.to_string();
    quote! {
        #[doc = #doc]
        #[must_use = "an update changes nothing until a node returns it or a state applies it"]
        #[allow(unreachable_pub)]
        #visibility struct #update {
            #(#idents: #changes,)*
        }

        #[automatically_derived]
        impl ::core::default::Default for #update {
            #[inline]
            fn default() -> Self {
                Self {
                    #(#idents: ::core::default::Default::default(),)*
                }
            }
        }

        #[automatically_derived]
        impl ::core::fmt::Debug for #update {
            /// Names the fields that are written; their values may be large or secret.
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::milepost::plumbing::show_update(
                    f,
                    #title,
                    &[#((#names, !self.#idents.is_empty()),)*],
                )
            }
        }
    }
}

fn setters(state: &Fields, update: &Ident) -> TokenStream {
    let name = &state.name;
    let visibility = &state.visibility;
    let setters = state.all.iter().map(|field| {
        let Field {
            ident,
            visibility,
            docs,
            ..
        } = field;
        let given = update_of(field);
        let doc = format!("Has the reducer of `{}` merge `value`.", field.name);
        let doc = doc_before(&doc, docs);
        quote! {
            #doc
            #(#docs)*
            #[inline]
            #visibility fn #ident(mut self, value: #given) -> Self {
                self.#ident.merge(value);
                self
            }
        }
    });
    quote! {
        #[allow(dead_code, unreachable_pub)]
        impl #update {
            #(#setters)*

            /// Sets a field to `value`, past its reducer; what this update wanted merged into it
            /// so far is dropped.
            #visibility fn overwrite<T, R>(
                mut self,
                field: ::milepost::Field<#name, T, R>,
                value: T,
            ) -> Self
            where
                R: ::milepost::Reducer<T>,
            {
                field.overwrite(&mut self, value);
                self
            }

            /// Sets a field back to its default; what this update wanted merged into it so far is
            /// dropped.
            #visibility fn clear<T, R>(mut self, field: ::milepost::Field<#name, T, R>) -> Self
            where
                R: ::milepost::Reducer<T>,
            {
                field.clear(&mut self);
                self
            }
        }
    }
}

fn constants(state: &Fields, update: &Ident) -> TokenStream {
    let name = &state.name;
    let visibility = &state.visibility;
    let constants = state.all.iter().map(|field| {
        let Field {
            ident,
            constant,
            visibility,
            value,
            required,
            docs,
            ..
        } = field;
        let named = &field.name;
        let codec = field
            .codec
            .clone()
            .unwrap_or_else(|| format_ident!("MessagePack"));
        let doc = doc_before(&format!("The field `{named}`, by name and type."), docs);
        let reducer = &field.reducer;
        quote! {
            #doc
            #(#docs)*
            #visibility const #constant: ::milepost::Field<Self, #value, #reducer> =
                ::milepost::Field::new(
                    #named,
                    ::milepost::Codec::#codec,
                    #required,
                    |state| &state.#ident,
                    |state| &mut state.#ident,
                    |update| &update.#ident,
                    |update| &mut update.#ident,
                );
        }
    });
    quote! {
        #[allow(dead_code, unreachable_pub)]
        impl #name {
            #(#constants)*

            /// An update that changes nothing yet.
            #[inline]
            #visibility fn update() -> #update {
                ::core::default::Default::default()
            }
        }
    }
}

fn state_impl(state: &Fields, update: &Ident) -> TokenStream {
    let name = &state.name;
    let title = name.unraw().to_string();
    let version = state.version.as_ref().map(|version| {
        quote! {
            const VERSION: u32 = #version;
        }
    });
    let constants: Vec<_> = state.all.iter().map(|field| &field.constant).collect();
    // Names of our own, which no field can clash with.
    let staged: Vec<_> = (0..constants.len())
        .map(|place| Ident::new(&format!("staged_{place}"), Span::mixed_site()))
        .collect();
    let updates = Ident::new("updates", Span::mixed_site());
    quote! {
        #[automatically_derived]
        impl ::milepost::State for #name {
            type Update = #update;

            const NAME: &'static str = #title;
            #version

            fn fields() -> &'static [&'static dyn ::milepost::plumbing::AnyField<Self>] {
                const FIELDS: &[&dyn ::milepost::plumbing::AnyField<#name>] =
                    &[#(&#name::#constants),*];
                FIELDS
            }

            fn merge(
                &mut self,
                #updates: &mut [#update],
            ) -> ::core::result::Result<(), ::milepost::MergeFault> {
                #(let #staged = Self::#constants.stage(self, #updates)?;)*
                #(Self::#constants.settle(#staged, self, #updates);)*
                ::core::result::Result::Ok(())
            }
        }

        #[automatically_derived]
        impl ::milepost::IntoOutput<#name> for #update {
            type Exits = ();

            #[inline]
            fn into_output(self) -> ::milepost::Output<Self, ()> {
                ::milepost::Output::Done(self, ())
            }
        }
    }
}

/// What a node gives for a field.
fn update_of(field: &Field) -> TokenStream {
    let Field { value, reducer, .. } = field;
    quote_spanned!(field.reducer_span=> <#reducer as ::milepost::Reducer<#value>>::Update)
}

/// A sentence of ours, then the field's own comment as a paragraph of its own.
fn doc_before(sentence: &str, docs: &[syn::Attribute]) -> TokenStream {
    let space = (!docs.is_empty()).then(|| quote!(#[doc = ""]));
    let sentence = format!(" {sentence}");
    quote! {
        #[doc = #sentence]
        #space
    }
}
