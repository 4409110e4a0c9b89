//! A change to one field: what an update carries for it.

/// What an update does to one field: first the base, then the merges, in the order given.
///
/// The default changes nothing. `T` is the field's value, `U` what its reducer is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<T, U> {
    pub(crate) base: Base<T>,
    pub(crate) merges: Merges<U>,
}

/// What happens to the old value before anything is merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Base<T> {
    /// It stays.
    Keep,
    /// It becomes the default.
    Clear,
    /// It becomes this value, past the reducer.
    Overwrite(T),
}

/// What the reducer is given. Nearly always nothing or one value, so neither allocates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merges<U> {
    /// Nothing.
    None,
    /// One value.
    One(U),
    /// Several, in order.
    Many(Vec<U>),
}

impl<U> Merges<U> {
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, U> {
        match self {
            Merges::None => [].iter(),
            Merges::One(update) => std::slice::from_ref(update).iter(),
            Merges::Many(all) => all.iter(),
        }
    }
}

impl<T, U> Default for Change<T, U> {
    fn default() -> Self {
        Self {
            base: Base::Keep,
            merges: Merges::None,
        }
    }
}

impl<T, U> Change<T, U> {
    /// Adds a value for the reducer; a second one does not replace the first.
    #[inline]
    pub fn merge(&mut self, update: U) {
        self.merges = match std::mem::replace(&mut self.merges, Merges::None) {
            Merges::None => Merges::One(update),
            Merges::One(first) => Merges::Many(vec![first, update]),
            Merges::Many(mut all) => {
                all.push(update);
                Merges::Many(all)
            }
        };
    }

    /// Sets the value past the reducer, and drops what this update wanted merged so far.
    pub fn overwrite(&mut self, value: T) {
        *self = Self {
            base: Base::Overwrite(value),
            merges: Merges::None,
        };
    }

    /// Sets the value to its default, and drops what this update wanted merged so far.
    pub fn clear(&mut self) {
        *self = Self {
            base: Base::Clear,
            merges: Merges::None,
        };
    }

    /// Whether this changes nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        matches!((&self.base, &self.merges), (Base::Keep, Merges::None))
    }
}

/// The updates of one superstep for one field, in task-path order: what a [`Reducer`](super::Reducer) is given.
#[derive(Debug)]
pub struct Updates<U>(Source<U>);

#[derive(Debug)]
enum Source<U> {
    One(Option<U>),
    Many(std::vec::IntoIter<U>),
}

impl<U> Updates<U> {
    pub(crate) fn new(merges: Merges<U>) -> Self {
        Self(match merges {
            Merges::None => Source::One(None),
            Merges::One(update) => Source::One(Some(update)),
            Merges::Many(all) => Source::Many(all.into_iter()),
        })
    }
}

impl<U> From<Vec<U>> for Updates<U> {
    fn from(all: Vec<U>) -> Self {
        Self(Source::Many(all.into_iter()))
    }
}

impl<U> Iterator for Updates<U> {
    type Item = U;

    #[inline]
    fn next(&mut self) -> Option<U> {
        match &mut self.0 {
            Source::One(update) => update.take(),
            Source::Many(rest) => rest.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            Source::One(update) => usize::from(update.is_some()),
            Source::Many(rest) => rest.len(),
        };
        (left, Some(left))
    }
}

impl<U> ExactSizeIterator for Updates<U> {}
