//! The greatest and the least of what was written.

use super::FROZEN;
use crate::state::{ReduceFault, Reducer, Updates};

/// Keeps the greatest value. Fits integers, floats, `bool`, `char`, `String`, and an [`Option`] of
/// them; a node gives the value itself, also for an option.
///
/// A plain number starts from its default, so the greatest of negative numbers is 0; an option
/// starts from nothing. Floats are in the total order, in which -0.0 is below 0.0, except that a
/// NaN is no number: any number wins against it, and it stays only where nothing else was written.
#[derive(Debug, Clone, Copy)]
pub struct Max;

/// Keeps the least value. Fits the types that [`Max`] fits; a node gives the value itself.
///
/// A plain number starts from its default, so the least of positive numbers is 0: use an option.
/// A NaN is no number, as for [`Max`].
#[derive(Debug, Clone, Copy)]
pub struct Min;

macro_rules! extremes {
    ($better:ident: $($value:ty)*) => {$(
        extremes!(@one Max "max" $better $value);
        extremes!(@one Min "min" $better $value);
    )*};
    (@one $reducer:ident $id:literal $better:ident $value:ty) => {
        impl Reducer<$value> for $reducer {
            type Update = $value;

            #[inline]
            fn reduce(value: &mut $value, updates: Updates<$value>) -> Result<(), ReduceFault> {
                for update in updates {
                    if $reducer::$better(&update, value) {
                        *value = update;
                    }
                }
                Ok(())
            }

            fn id() -> &'static str {
                $id
            }

            fn version() -> Option<u32> {
                FROZEN
            }

            const FALLIBLE: bool = false;
        }

        impl Reducer<Option<$value>> for $reducer {
            type Update = $value;

            #[inline]
            fn reduce(
                value: &mut Option<$value>,
                updates: Updates<$value>,
            ) -> Result<(), ReduceFault> {
                for update in updates {
                    if value.as_ref().is_none_or(|old| $reducer::$better(&update, old)) {
                        *value = Some(update);
                    }
                }
                Ok(())
            }

            fn id() -> &'static str {
                $id
            }

            fn version() -> Option<u32> {
                FROZEN
            }

            const FALLIBLE: bool = false;
        }
    };
}

impl Max {
    fn ordered<T: Ord>(new: &T, old: &T) -> bool {
        new > old
    }

    fn single(new: &f32, old: &f32) -> bool {
        Self::double(&f64::from(*new), &f64::from(*old))
    }

    fn double(new: &f64, old: &f64) -> bool {
        // Between two NaNs the total order decides too, so that no order of tasks does.
        (new.is_nan(), old.is_nan()) == (false, true)
            || (new.is_nan() == old.is_nan() && new.total_cmp(old).is_gt())
    }
}

impl Min {
    fn ordered<T: Ord>(new: &T, old: &T) -> bool {
        new < old
    }

    fn single(new: &f32, old: &f32) -> bool {
        Self::double(&f64::from(*new), &f64::from(*old))
    }

    fn double(new: &f64, old: &f64) -> bool {
        (new.is_nan(), old.is_nan()) == (false, true)
            || (new.is_nan() == old.is_nan() && new.total_cmp(old).is_lt())
    }
}

extremes!(ordered: u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize bool char String);
extremes!(single: f32);
extremes!(double: f64);
