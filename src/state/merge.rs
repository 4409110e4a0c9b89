//! Applying the updates of a superstep to one field, in two phases.
//!
//! In come the old value and the updates in task-path order. The first phase finds everything
//! that can go wrong and changes nothing; the second cannot fail. So a superstep whose merge is
//! refused leaves the state as it was. Called from code that the derive writes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::change::{Base, Change, Merges, Updates};
use super::reducer::{ReduceFault, Reducer};

/// What the first phase found for a field.
#[derive(Debug)]
pub enum Staged<T> {
    /// Nothing to do.
    Same,
    /// To be reduced in place; cannot fail.
    InPlace,
    /// The new value, already reduced.
    Ready(T),
}

/// Why the updates of a superstep cannot be merged; tasks are given by their place in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeFault {
    /// Two tasks write a field that takes one writer.
    Conflict {
        /// The field.
        field: &'static str,
        /// The first writer.
        first: usize,
        /// The second writer.
        second: usize,
    },
    /// The reducer refused.
    Refused {
        /// The field.
        field: &'static str,
        /// Why.
        fault: ReduceFault,
    },
    /// The reducer panicked.
    Panicked {
        /// The field.
        field: &'static str,
        /// The panic's message.
        message: String,
    },
}

/// First phase: refuses what cannot be merged, and reduces what might fail on a copy.
///
/// # Errors
/// [`MergeFault`] names the field and the cause.
#[inline]
pub fn stage<T, R, U>(
    field: &'static str,
    value: &T,
    updates: &mut [U],
    change: fn(&mut U) -> &mut Change<T, R::Update>,
) -> Result<Staged<T>, MergeFault>
where
    T: Clone + Default,
    R: Reducer<T>,
{
    let mut writer = None;
    let mut setter = None;
    for (place, update) in updates.iter_mut().enumerate() {
        let change = change(update);
        if change.is_empty() {
            continue;
        }
        let sets = !matches!(change.base, Base::Keep);
        let other = if R::CONCURRENT {
            setter.filter(|_| sets)
        } else {
            writer
        };
        if let Some(first) = other {
            return Err(MergeFault::Conflict {
                field,
                first,
                second: place,
            });
        }
        writer = writer.or(Some(place));
        setter = setter.or(Some(place).filter(|_| sets));
    }
    if writer.is_none() {
        return Ok(if R::EPHEMERAL {
            Staged::InPlace
        } else {
            Staged::Same
        });
    }
    if !R::FALLIBLE && !R::REHEARSED {
        return Ok(Staged::InPlace);
    }
    if !R::FALLIBLE {
        return match catch_unwind(AssertUnwindSafe(|| {
            rehearse::<T, R, U>(value, updates, change);
        })) {
            Ok(()) => Ok(Staged::InPlace),
            Err(panic) => Err(MergeFault::Panicked {
                field,
                message: panic_message(&*panic),
            }),
        };
    }
    let reduced = catch_unwind(AssertUnwindSafe(|| {
        // What is set anew, or gone anyway, need not be copied.
        let mut next = if setter.is_some() || R::EPHEMERAL {
            T::default()
        } else {
            value.clone()
        };
        reduce::<T, R, U>(&mut next, updates, change).map(|()| next)
    }));
    match reduced {
        Ok(Ok(next)) => Ok(Staged::Ready(next)),
        Ok(Err(fault)) => Err(MergeFault::Refused { field, fault }),
        Err(panic) => Err(MergeFault::Panicked {
            field,
            message: panic_message(&*panic),
        }),
    }
}

/// What will be reduced in place is asked once before, on the value that the reducer will see.
#[inline]
fn rehearse<T, R, U>(value: &T, updates: &mut [U], change: fn(&mut U) -> &mut Change<T, R::Update>)
where
    T: Default,
    R: Reducer<T>,
{
    let changes: Vec<_> = updates.iter_mut().map(|update| &*change(update)).collect();
    let merges = changes.iter().flat_map(|change| change.merges.iter());
    let base = changes.iter().rev().find_map(|change| match &change.base {
        Base::Keep => None,
        other => Some(other),
    });
    match base {
        None | Some(Base::Keep) => R::rehearse(value, merges),
        Some(Base::Clear) => R::rehearse(&T::default(), merges),
        Some(Base::Overwrite(new)) => R::rehearse(new, merges),
    }
}

/// Second phase: puts the new value in place.
#[inline]
pub fn settle<T, R, U>(
    staged: Staged<T>,
    value: &mut T,
    updates: &mut [U],
    change: fn(&mut U) -> &mut Change<T, R::Update>,
) where
    T: Default,
    R: Reducer<T>,
{
    match staged {
        Staged::Same => {}
        Staged::Ready(next) => *value = next,
        Staged::InPlace => {
            let reduced = reduce::<T, R, U>(value, updates, change);
            debug_assert!(
                reduced.is_ok(),
                "a reducer that is not fallible has refused"
            );
        }
    }
}

/// A base that sets the value comes before all merges, whichever task it is of: so no sibling's
/// merge is lost.
#[inline]
fn reduce<T, R, U>(
    value: &mut T,
    updates: &mut [U],
    change: fn(&mut U) -> &mut Change<T, R::Update>,
) -> Result<(), ReduceFault>
where
    T: Default,
    R: Reducer<T>,
{
    if R::EPHEMERAL {
        *value = T::default();
    }
    if let [only] = updates {
        let only = std::mem::take(change(only));
        rebase(value, only.base);
        return match only.merges {
            Merges::None => Ok(()),
            merges => R::reduce(value, Updates::new(merges)),
        };
    }
    let mut all = Vec::new();
    for update in updates {
        let one = std::mem::take(change(update));
        rebase(value, one.base);
        match one.merges {
            Merges::None => {}
            Merges::One(merge) => all.push(merge),
            Merges::Many(more) => all.extend(more),
        }
    }
    if all.is_empty() {
        return Ok(());
    }
    R::reduce(value, Updates::from(all))
}

fn rebase<T: Default>(value: &mut T, base: Base<T>) {
    match base {
        Base::Keep => {}
        Base::Clear => *value = T::default(),
        Base::Overwrite(new) => *value = new,
    }
}

/// What a panic said, whatever it was thrown with.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a text".to_owned()
    }
}
