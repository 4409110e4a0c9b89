//! The code that `derive(State)` adds to a struct.
//!
//! A reducer is mentioned as little as can be, and every mention is placed at its attribute, so
//! that one that does not fit is reported there and once.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;

use crate::attributes::text;
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
    let places = 0..state.all.len();
    let doc = format!(
        " A change to any of the fields of [`{name}`]: one setter a field. The default changes nothing."
    );
    let title = update.unraw().to_string();
    quote! {
        #[doc = #doc]
        #[must_use = "an update changes nothing until a node returns it or a state applies it"]
        #[allow(unreachable_pub)]
        #visibility struct #update {
            #(#idents: <Self as ::milepost::plumbing::Slot<#places>>::Change,)*
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
                T: 'static,
                R: ::milepost::Reducer<T>,
            {
                field.overwrite(&mut self, value);
                self
            }

            /// Sets a field back to its default; what this update wanted merged into it so far is
            /// dropped.
            #visibility fn clear<T, R>(mut self, field: ::milepost::Field<#name, T, R>) -> Self
            where
                T: 'static,
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
    let hidden = state.all.iter().enumerate().map(|(place, field)| {
        let Field {
            ident,
            value,
            reducer,
            required,
            aliases,
            codec,
            docs,
            ..
        } = field;
        let named = &field.name;
        let doc = text(docs);
        let (fits, constant) = hidden_names(field);
        let given = update_of(field);
        let codec = codec
            .clone()
            .unwrap_or_else(|| format_ident!("MessagePack"));
        let slot = quote!(<Self as ::milepost::plumbing::Slot<#place>>);
        quote! {
            impl ::milepost::plumbing::Slot<#place> for #update {
                type Reducer = <
                    ::milepost::plumbing::Asked<#reducer, { #update::#fits }>
                    as ::milepost::plumbing::Fitting
                >::Reducer;
                type Change = ::milepost::Change<
                    #value,
                    <#slot::Reducer as ::milepost::Reducer<#value>>::Update
                >;
            }

            #[allow(non_upper_case_globals)]
            impl #update {
                const #fits: bool = ::milepost::plumbing::fits::<#given>();

                const #constant: ::milepost::Field<#name, #value, #slot::Reducer> =
                    ::milepost::Field::new(
                        #named,
                        #doc,
                        ::milepost::Codec::#codec,
                        #required,
                        &[#(#aliases),*],
                        &::milepost::plumbing::Accessors {
                            get: |state| &state.#ident,
                            get_mut: |state| &mut state.#ident,
                            change: |update| &update.#ident,
                            change_mut: |update| &mut update.#ident,
                            same: |one, other| {
                                #[allow(unused_imports)]
                                use ::milepost::plumbing::{Comparable as _, Incomparable as _};
                                (&::milepost::plumbing::Both(one, other)).same()
                            },
                        },
                    );
            }
        }
    });
    let public = state.all.iter().map(|field| {
        let Field {
            constant,
            visibility,
            value,
            reducer,
            docs,
            ..
        } = field;
        let (_, hidden) = hidden_names(field);
        let doc = doc_before(
            &format!("The field `{}`, by name and type.", field.name),
            docs,
        );
        quote! {
            #doc
            #(#docs)*
            #visibility const #constant: ::milepost::Field<Self, #value, #reducer> =
                #update::#hidden;
        }
    });
    quote! {
        #(#hidden)*

        #[allow(dead_code, unreachable_pub)]
        impl #name {
            #(#public)*

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
    let doc = text(&state.docs);
    let version = state.version.as_ref().map(|version| {
        quote! {
            const VERSION: u32 = #version;
        }
    });
    let older = state.migrate.as_ref().map(|migrate| {
        let span = migrate.span();
        let lift = quote_spanned!(span=> ::milepost::plumbing::lift(visitor, #migrate));
        quote! {
            fn older<V: ::milepost::plumbing::Older<Self>>(
                visitor: V,
            ) -> ::core::option::Option<V::Out> {
                ::core::option::Option::Some(#lift)
            }
        }
    });
    // Local names of our own, which no field can clash with.
    let updates = Ident::new("updates", Span::mixed_site());
    let mut table = Vec::new();
    let mut stages = Vec::new();
    let mut settles = Vec::new();
    for (place, field) in state.all.iter().enumerate() {
        let (_, hidden) = hidden_names(field);
        let staged = Ident::new(&format!("staged_{place}"), Span::mixed_site());
        // What the field's type must be able to do is reported at the type.
        let span = field.value_span;
        table.push(quote_spanned!(span=> &#update::#hidden));
        stages.push(quote_spanned! {span=>
            let #staged = ::milepost::plumbing::stage_field(&#update::#hidden, self, #updates)?;
        });
        settles.push(quote! {
            ::milepost::plumbing::settle_field(&#update::#hidden, #staged, self, #updates);
        });
    }
    quote! {
        #[automatically_derived]
        impl ::milepost::State for #name {
            type Update = #update;

            const NAME: &'static str = #title;
            const DOC: &'static str = #doc;
            #version
            #older

            fn fields() -> &'static [&'static dyn ::milepost::plumbing::AnyField<Self>] {
                const FIELDS: &[&dyn ::milepost::plumbing::AnyField<#name>] = &[#(#table),*];
                FIELDS
            }

            fn merge(
                &mut self,
                #updates: &mut [#update],
            ) -> ::core::result::Result<(), ::milepost::MergeFault> {
                #(#stages)*
                #(#settles)*
                ::core::result::Result::Ok(())
            }
        }

        #[automatically_derived]
        impl ::milepost::IntoOutput<#name> for #update {
            type Exits = ();
            type Question = ::milepost::NoQuestion;

            #[inline]
            fn into_output(self) -> ::milepost::Output<Self, ()> {
                ::milepost::Output::Done(self, ())
            }
        }
    }
}

/// The names of the constants that the update type has for itself: whether the reducer fits, and
/// the field with a reducer that was asked.
fn hidden_names(field: &Field) -> (Ident, Ident) {
    (
        format_ident!("__{}_fits", field.name),
        format_ident!("__{}", field.name),
    )
}

/// What a node gives for a field. From the first to the last token this lies exactly over the
/// reducer's path, so that the compiler reports the same thing at the same place wherever it
/// stumbles, and shows it once.
fn update_of(field: &Field) -> TokenStream {
    let Field {
        value,
        reducer,
        reducer_ends: (first, last),
        ..
    } = field;
    let open = quote_spanned!(*first=> <);
    let with = quote_spanned!(*first=> as ::milepost::Reducer);
    let close = quote_spanned!(*last=> ::Update);
    quote!(#open #reducer #with <#value> > #close)
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
