//! `derive(Exits)`: the table of an enum without data.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt as _;
use syn::{Data, DeriveInput, Error, Fields};

pub(crate) fn derive(item: &DeriveInput) -> Result<TokenStream, Error> {
    let name = &item.ident;
    let Data::Enum(data) = &item.data else {
        return Err(Error::new_spanned(
            name,
            format!("`{name}` must be an enum: each variant is one way to leave a node"),
        ));
    };
    if !item.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &item.generics,
            "an enum of exits has no generic parameters: its exits are a fixed list",
        ));
    }
    if data.variants.is_empty() {
        return Err(Error::new_spanned(
            name,
            format!(
                "`{name}` has no exits: a node that can be left in one way returns its update alone"
            ),
        ));
    }
    let mut wrong: Option<Error> = None;
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            let ident = &variant.ident;
            let why = Error::new_spanned(
                &variant.fields,
                format!(
                    "the exit `{ident}` carries data: an exit only says how a node was left, data goes into the update"
                ),
            );
            match &mut wrong {
                Some(all) => all.combine(why),
                None => wrong = Some(why),
            }
        }
    }
    if let Some(wrong) = wrong {
        return Err(wrong);
    }

    let variants: Vec<_> = data.variants.iter().map(|variant| &variant.ident).collect();
    let labels = variants.iter().map(|ident| ident.unraw().to_string());
    let places = 0..variants.len();
    Ok(quote! {
        #[automatically_derived]
        impl ::milepost::Exits for #name {
            const ALL: &'static [Self] = &[#(Self::#variants),*];

            #[inline]
            fn index(self) -> usize {
                match self {
                    #(Self::#variants => #places,)*
                }
            }

            fn label(self) -> &'static str {
                match self {
                    #(Self::#variants => #labels,)*
                }
            }
        }
    })
}
