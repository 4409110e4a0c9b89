//! What a caller gives for one call: values by type.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

/// Values that a caller gives for one call, by type: who asks, for which tenant, with which
/// credentials, in which language. Cheap to clone.
///
/// They are read by [`Context::run_context`](super::Context::run_context), never stored, and never
/// shown: not by `Debug`, not in events, errors or pictures. A call that goes on with a thread gets
/// none of those that an earlier call was given.
///
/// ```
/// use milepost::{Context, NodeName, RunContext};
///
/// struct Tenant(u64);
///
/// let given = RunContext::new().and(Tenant(7)).and("de".to_owned());
/// let cx = Context::detached_with(NodeName::new("bill")?, given);
/// assert_eq!(cx.run_context::<Tenant>().unwrap().0, 7);
/// # Ok::<(), milepost::IdError>(())
/// ```
#[derive(Clone, Default)]
pub struct RunContext {
    /// Shared, so that everything inside of a run has the same values.
    values: Arc<[(TypeId, Arc<dyn Any + Send + Sync>)]>,
}

impl RunContext {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value, or replaces that of the same type.
    #[must_use]
    pub fn and<T: Any + Send + Sync>(self, value: T) -> Self {
        let one: (TypeId, Arc<dyn Any + Send + Sync>) = (TypeId::of::<T>(), Arc::new(value));
        self.over([one].into_iter())
    }

    /// The value of a type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let wanted = TypeId::of::<T>();
        let (_, found) = self.values.iter().find(|(known, _)| *known == wanted)?;
        Arc::clone(found).downcast().ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// These, overridden by those of another one.
    pub(crate) fn overridden_by(&self, other: &Self) -> Self {
        self.clone().over(other.values.iter().cloned())
    }

    fn over(
        self,
        fresh: impl Iterator<Item = (TypeId, Arc<dyn Any + Send + Sync>)> + Clone,
    ) -> Self {
        let stays = |known: &TypeId| !fresh.clone().any(|(fresh, _)| fresh == *known);
        let kept = self.values.iter().filter(|(known, _)| stays(known));
        let values = kept.cloned().chain(fresh.clone()).collect();
        Self { values }
    }
}

impl fmt::Debug for RunContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunContext({} values)", self.values.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_type_and_the_last_one_wins() {
        let base = RunContext::new().and(1_u8).and(String::from("a")).and(2_u8);
        let call = RunContext::new().and(String::from("b"));
        let both = base.overridden_by(&call);
        assert_eq!(both.get::<u8>().as_deref(), Some(&2));
        assert_eq!(both.get::<String>().as_deref(), Some(&"b".to_owned()));
        assert_eq!(base.get::<String>().as_deref(), Some(&"a".to_owned()));
        assert!(both.get::<u16>().is_none());
        assert_eq!(format!("{both:?}"), "RunContext(2 values)");
    }
}
