//! Sums.

use super::FROZEN;
use crate::state::{ReduceFault, Reducer, Updates};

/// Adds the written numbers to a number. Fits all integers and floats; a node gives a number.
///
/// An integer sum that does not fit its type is refused: it neither wraps nor stops at the limit.
/// Only the sum of the superstep counts, so the order of its parts never decides. Floats are
/// added in task-path order, as rounding depends on it; infinities and NaN follow IEEE 754.
#[derive(Debug, Clone, Copy)]
pub struct Add;

macro_rules! integers {
    ($($number:ident)*) => {$(
        impl Reducer<$number> for Add {
            type Update = $number;

            #[inline]
            fn reduce(value: &mut $number, updates: Updates<$number>) -> Result<(), ReduceFault> {
                let mut sum = *value;
                // How often the sum has left the type's range at the top, less how often at the
                // bottom: only if it ends inside is it a number of the type.
                let mut rounds = 0_i64;
                let mut first = None;
                for update in updates {
                    let (next, left) = sum.overflowing_add(update);
                    if left {
                        first = first.or(Some((sum, update)));
                        // Past the bottom a sum comes back at the top.
                        rounds += if next > sum { -1 } else { 1 };
                    }
                    sum = next;
                }
                match first {
                    Some((before, update)) if rounds != 0 => Err(ReduceFault::new(format!(
                        "{before} + {update} does not fit into `{}`",
                        stringify!($number),
                    ))),
                    _ => {
                        *value = sum;
                        Ok(())
                    }
                }
            }

            fn id() -> &'static str {
                "add"
            }

            fn version() -> Option<u32> {
                FROZEN
            }
        }
    )*};
}

macro_rules! floats {
    ($($number:ident)*) => {$(
        impl Reducer<$number> for Add {
            type Update = $number;

            #[inline]
            fn reduce(value: &mut $number, updates: Updates<$number>) -> Result<(), ReduceFault> {
                for update in updates {
                    *value += update;
                }
                Ok(())
            }

            fn id() -> &'static str {
                "add"
            }

            fn version() -> Option<u32> {
                FROZEN
            }

            const FALLIBLE: bool = false;
        }
    )*};
}

integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);
floats!(f32 f64);
