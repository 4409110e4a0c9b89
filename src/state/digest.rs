//! A hash of a value's data model.

use serde::Serialize;

pub(crate) fn of<T: Serialize + ?Sized>(_: &T) -> u128 {
    0
}
