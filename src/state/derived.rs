//! What only the code that the derive writes needs.

use std::fmt;
use std::marker::PhantomData;

/// A reducer that was asked before whether it fits its field.
///
/// The compiler reports a constant that does not compile once, and is silent about every type that
/// depends on it. So the derive asks once, in a constant placed at the attribute, and all hidden
/// mentions of the reducer go through here: one reducer that does not fit gives one error.
#[derive(Debug)]
pub struct Asked<R, const FITS: bool>(PhantomData<R>);

/// Gives the reducer back.
pub trait Fitting {
    /// The reducer itself.
    type Reducer;
}

impl<R> Fitting for Asked<R, true> {
    type Reducer = R;
}

/// The types of one field of an update, by the field's place; out of the update's own definition,
/// where the compiler would offer to make an unknown reducer a type parameter.
pub trait Slot<const PLACE: usize> {
    /// The field's reducer.
    type Reducer;
    /// What an update holds for the field.
    type Change;
}

/// Whether a reducer fits, given the type of its updates; where it does not, there is none.
pub const fn fits<U>() -> bool {
    true
}

/// Two values that are compared where their type allows it.
///
/// The method is that of [`Comparable`] for a type that can be compared, and that of
/// [`Incomparable`], which the compiler looks at later, for any other.
#[derive(Debug)]
pub struct Both<'v, T>(pub &'v T, pub &'v T);

/// Compares what can be compared.
pub trait Comparable {
    /// Whether the two are equal.
    fn same(&self) -> Option<bool>;
}

impl<T: PartialEq> Comparable for Both<'_, T> {
    fn same(&self) -> Option<bool> {
        Some(self.0 == self.1)
    }
}

/// Says that nothing can be said.
pub trait Incomparable {
    /// Nothing.
    fn same(&self) -> Option<bool>;
}

impl<T> Incomparable for &Both<'_, T> {
    fn same(&self) -> Option<bool> {
        None
    }
}

/// Writes an update as the names of the fields that it writes.
///
/// # Errors
/// As the formatter says.
pub fn show_update(f: &mut fmt::Formatter<'_>, name: &str, fields: &[(&str, bool)]) -> fmt::Result {
    let written = fields.iter().filter(|(_, written)| *written);
    write!(f, "{name} ")?;
    f.debug_set()
        .entries(written.map(|(field, _)| Bare(field)))
        .finish()
}

/// A name without quotes.
struct Bare<'a>(&'a str);

impl fmt::Debug for Bare<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
