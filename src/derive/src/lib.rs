//! The derives of milepost: `State` for the struct that nodes share, `Exits` for the enum that
//! says how a node can be left.
//!
//! In comes one item, out comes code that names the crate by absolute paths. Nothing here decides
//! how values are merged or where an exit leads: that is ordinary code of the crate itself. Use
//! the derives through `milepost`, which re-exports them beside the traits of the same names.

mod attributes;
mod exits;
mod generate;
mod state;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct the state of a graph: an update type, a setter and a typed constant a field.
///
/// On a field: `#[reduce(Append)]` names the reducer by its type path (without it the last write
/// replaces), `#[required]` marks a field that stored bytes and the first input must have,
/// `#[codec(Bincode)]` chooses how its values become bytes, `#[field(alias = old_name)]` finds it in
/// what was stored under the name that it had before. On the struct:
/// `#[state(version = 2, migrate = from_v1)]`, where `from_v1` makes a value of this type of one of
/// the type before, which is kept as a state of its own.
#[proc_macro_derive(State, attributes(reduce, required, codec, field, state))]
pub fn derive_state(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    state::Fields::read(&item)
        .map_or_else(
            |why| why.into_compile_error(),
            |fields| generate::code(&fields),
        )
        .into()
}

/// Makes an enum without data the exits of a node.
#[proc_macro_derive(Exits)]
pub fn derive_exits(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    exits::derive(&item)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
