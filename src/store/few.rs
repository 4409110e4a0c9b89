//! A list that nearly always has one item, or none: then it allocates nothing.

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A list inside a record that has one item in the common case. It is read as a slice, made of a
/// vector, and stored as one.
#[derive(Clone)]
pub struct Few<T>(Inner<T>);

#[derive(Clone)]
enum Inner<T> {
    One(T),
    /// Any number, one included.
    Many(Vec<T>),
}

impl<T> Few<T> {
    /// A list of one item.
    pub const fn one(item: T) -> Self {
        Self(Inner::One(item))
    }

    /// A list of nothing.
    pub const fn new() -> Self {
        Self(Inner::Many(Vec::new()))
    }

    /// The items.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        match &self.0 {
            Inner::One(item) => std::slice::from_ref(item),
            Inner::Many(all) => all,
        }
    }

    /// Adds an item at the end.
    #[inline]
    pub fn push(&mut self, item: T) {
        match &mut self.0 {
            Inner::Many(all) if all.capacity() == 0 => self.0 = Inner::One(item),
            Inner::Many(all) => all.push(item),
            Inner::One(_) => {
                if let Inner::One(first) = std::mem::replace(&mut self.0, Inner::Many(Vec::new())) {
                    self.0 = Inner::Many(vec![first, item]);
                }
            }
        }
    }
}

impl<T> Few<T> {
    /// Keeps the first items, so many at most.
    pub fn truncate(&mut self, len: usize) {
        match &mut self.0 {
            Inner::One(_) if len > 0 => {}
            Inner::One(_) => *self = Self::new(),
            Inner::Many(all) => all.truncate(len),
        }
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        self.truncate(0);
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<T> DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Inner::One(item) => std::slice::from_mut(item),
            Inner::Many(all) => all,
        }
    }
}

impl<T> From<Vec<T>> for Few<T> {
    fn from(all: Vec<T>) -> Self {
        Self(Inner::Many(all))
    }
}

impl<T> From<Few<T>> for Vec<T> {
    fn from(few: Few<T>) -> Self {
        match few.0 {
            Inner::One(item) => vec![item],
            Inner::Many(all) => all,
        }
    }
}

impl<T> FromIterator<T> for Few<T> {
    #[inline]
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut few = Self::new();
        few.extend(items);
        few
    }
}

impl<T> Extend<T> for Few<T> {
    #[inline]
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

/// The items of a [`Few`], by value.
#[derive(Debug, Clone)]
pub struct IntoIter<T>(Rest<T>);

#[derive(Debug, Clone)]
enum Rest<T> {
    One(Option<T>),
    Many(std::vec::IntoIter<T>),
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match &mut self.0 {
            Rest::One(item) => item.take(),
            Rest::Many(rest) => rest.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            Rest::One(item) => usize::from(item.is_some()),
            Rest::Many(rest) => rest.len(),
        };
        (left, Some(left))
    }
}

impl<T> ExactSizeIterator for IntoIter<T> {}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter(match self.0 {
            Inner::One(item) => Rest::One(Some(item)),
            Inner::Many(all) => Rest::Many(all.into_iter()),
        })
    }
}

impl<'a, T> IntoIterator for &'a Few<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> std::slice::Iter<'a, T> {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut Few<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> std::slice::IterMut<'a, T> {
        self.iter_mut()
    }
}

impl<T: PartialEq> PartialEq for Few<T> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<T: Eq> Eq for Few<T> {}

impl<T: fmt::Debug> fmt::Debug for Few<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl<T: Serialize> Serialize for Few<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.as_slice().serialize(to)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut all = Vec::deserialize(from)?;
        Ok(match all.len() {
            1 => all.pop().into_iter().collect(),
            _ => Self::from(all),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_item_is_a_list_of_one_however_it_came_there() {
        let mut few = Few::new();
        assert!(few.is_empty());
        few.push(1);
        assert_eq!(few, Few::from(vec![1]));
        assert_eq!(few, Few::one(1));
        few.push(2);
        few.push(3);
        assert_eq!(few.as_slice(), [1, 2, 3]);
        assert_eq!(few.clone().into_iter().collect::<Few<_>>(), few);
        assert_eq!(Few::one(7).into_iter().len(), 1);
        few.truncate(2);
        assert_eq!(few.as_slice(), [1, 2]);
        few.clear();
        assert_eq!(few, Few::new());
        let mut one = Few::one(7);
        one.truncate(1);
        assert_eq!(Vec::from(one.clone()), [7]);
        one.clear();
        assert!(one.is_empty());
    }

    #[test]
    fn it_is_stored_as_a_vector_is() {
        for all in [vec![], vec![7u8], vec![7, 8]] {
            let bytes = bincode::serialize(&Few::from(all.clone())).expect("it is written");
            assert_eq!(bytes, bincode::serialize(&all).expect("it is written"));
            let back: Few<u8> = bincode::deserialize(&bytes).expect("it is read");
            assert_eq!(back.as_slice(), all);
        }
    }
}
