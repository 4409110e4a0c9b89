//! The serde shape of a type, as text: what its bytes look like, read off its `Deserialize` code.
//!
//! In comes a type, out comes one line: kinds and widths of scalars, names of fields and variants,
//! nesting. Two programs whose types give the same line read each other's bytes; the names of the
//! Rust types do not count. No value is needed and none is kept.
//!
//! | text | what |
//! |---|---|
//! | `u8` `f64` `bool` `char` `str` `bytes` `unit` | a scalar |
//! | `any` | whatever the bytes say, such as a JSON value |
//! | `[u8]` `{str: u8}` `u8?` | a sequence, a map, an option |
//! | `(u8, str)` `(u8; 4)` | a tuple, an array |
//! | `struct{a: u8}` `enum{A, B(u8), C{a: u8}}` | fields and variants in declaration order |
//! | `^1` | the struct or enum so many levels out: a type that contains itself |
//! | `… as path::Type` | could not be traced to its end; the type's name stands for the rest |

mod known;
mod node;
mod parts;
mod probe;
#[cfg(test)]
mod tests;
mod trace;

use serde::de::DeserializeOwned;

pub use known::{Shape, ShapeContent, ShapeField, ShapeVariant};
use node::Node;
use probe::Probe;
use trace::Trace;

/// More rounds than any type has nodes that are worth tracing.
const ROUNDS: usize = 10_000;

/// The shape of a type, as text.
pub(crate) fn of<T: DeserializeOwned>() -> String {
    let root = trace::<T>();
    if root.is_complete() {
        root.to_string()
    } else {
        format!("{root} as {}", std::any::type_name::<T>())
    }
}

impl Shape {
    /// The shape of a type, as a tree.
    pub(crate) fn of<T: DeserializeOwned>() -> Self {
        trace::<T>().into()
    }
}

fn trace<T: DeserializeOwned>() -> Node {
    let mut root = Node::Unknown;
    let mut trace = Trace::default();
    for _ in 0..ROUNDS {
        trace.begin();
        // The value is of no interest, nor is why there is none: the tree says what was learned.
        let _ = T::deserialize(Probe::new(&mut root, &mut trace));
        if root.is_complete() || !(trace.learned() || trace.next_samples()) {
            break;
        }
    }
    root
}
