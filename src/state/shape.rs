//! The serde shape of a type, as text.

use serde::de::DeserializeOwned;

pub(crate) fn of<T: DeserializeOwned>() -> String {
    std::any::type_name::<T>().to_owned()
}
