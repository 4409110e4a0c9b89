//! What an embedded database has to do for a store on disk: ordered rows, and batches that are
//! made durable in three calls.
//!
//! Everything a store promises is built on this in the files beside it, once for all engines. A test
//! puts something else in the place of a [`Disk`], to see in which order it is called and what becomes
//! of a store whose disk says no.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use super::super::contract::StoreError;
use super::read::STORE_HINT;
use super::vault::Vault;

/// Where a store lies and what keeps it: all that a message has to say of it.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// The engine's name.
    pub(super) engine: &'static str,
}

impl Place {
    /// Runs something that may panic inside the engine, which some do on damaged files.
    pub(super) fn guarded<T>(
        &self,
        body: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
            let said = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no message".to_owned());
            Err(self.damaged(format!("{} gave up: {}", self.engine, plain(&said))))
        })
    }

    /// The store as a whole is damaged.
    pub(super) fn damaged(&self, found: String) -> StoreError {
        StoreError::Corrupt {
            place: self.to_string(),
            found,
            hint: STORE_HINT,
        }
    }

    /// The operating system said no.
    pub(super) fn failed(&self, doing: &str, source: std::io::Error) -> StoreError {
        StoreError::Io {
            action: format!("{doing} the store {}", self.path.display()),
            source: Arc::new(source),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the store {}", self.path.display())
    }
}

/// What an engine said, for people: where it speaks of its own code, that alone is said.
pub(super) fn plain(said: &str) -> String {
    let line = said.lines().next().unwrap_or_default();
    if ["::", "unwrap", "Some(", "{ "]
        .iter()
        .any(|code| line.contains(code))
    {
        tracing::debug!(said, "an engine gave up");
        return "it found something that it did not write".to_owned();
    }
    line.to_owned()
}

/// Rows in the order of their keys, for reading.
pub(super) trait Tree: fmt::Debug + Send + Sync {
    /// The row with this key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// The keys from one on, up to another that does not belong to them, in order.
    fn keys(&self, from: &[u8], to: Option<&[u8]>) -> Keys<'_>;
}

/// Keys as they are read.
pub(super) type Keys<'a> = Box<dyn Iterator<Item = Result<Vec<u8>, StoreError>> + 'a>;

impl dyn Tree + '_ {
    /// The keys that begin like this.
    pub(super) fn beginning(&self, prefix: &[u8]) -> Keys<'_> {
        self.keys(prefix, after(prefix).as_deref())
    }
}

/// The first key after all that begin like this; none if there is none.
fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    Some(next)
}

/// Changes that are made together or not at all. Of several to one key the last counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Batch(pub(super) Vec<Change>);

/// A key with its new row; none where it goes.
pub(super) type Change = (Vec<u8>, Option<Vec<u8>>);

impl Batch {
    pub(super) fn insert(&mut self, key: Vec<u8>, row: Vec<u8>) {
        self.0.push((key, Some(row)));
    }

    pub(super) fn remove(&mut self, key: Vec<u8>) {
        self.0.push((key, None));
    }

    /// None where it changes nothing.
    pub(super) fn or_none(self) -> Option<Self> {
        (!self.0.is_empty()).then_some(self)
    }
}

/// What the writer does to the disk, in this order.
pub(super) trait Disk: Send {
    /// Puts a batch into the tree: visible to readers, not yet durable. All of it is there after a crash,
    /// or nothing.
    fn write(&mut self, batch: Batch) -> Result<(), StoreError>;

    /// How many bytes of rows of several writes go into one batch: a large one makes everyone in it
    /// wait. Default: 4 MiB.
    fn together(&self) -> usize {
        4 << 20
    }

    /// Hands what was written to the operating system.
    fn flush(&mut self) -> Result<(), StoreError>;

    /// Waits until the disk has it.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// Notes outside of the tree that this batch is durable.
    fn note(&mut self, batch: u64);
}

/// An open folder.
pub(super) struct Opened {
    pub(super) place: Place,
    pub(super) tree: Arc<dyn Tree>,
    pub(super) disk: Box<dyn Disk>,
    pub(super) vault: Vault,
    /// Values that are longer than this are kept once for all that have them.
    pub(super) over: usize,
    /// The number of the last batch in the tree.
    pub(super) batch: u64,
    /// Lets go of the folder, after everything above was dropped.
    pub(super) close: Box<dyn FnOnce() + Send>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_after_a_prefix_begin_where_its_own_end() {
        assert_eq!(after(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(after(&[1, 255, 255]), Some(vec![2]));
        assert_eq!(after(&[255, 255]), None);
        assert_eq!(after(&[]), None);
    }

    #[test]
    fn what_an_engine_says_of_its_own_code_is_not_told() {
        assert_eq!(plain("the log is short\nand more"), "the log is short");
        for said in [
            "called `Option::unwrap()` on a `None` value",
            "assertion failed: Some(3)",
        ] {
            assert!(!plain(said).contains("Some(") && !plain(said).contains("::"));
        }
    }
}
