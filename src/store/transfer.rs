//! A thread on its way from one store into another.
//!
//! In come two stores and a thread of the first, out comes the same thread in the second, read back
//! and compared. The first is only read.

use super::archive::ThreadArchive;
use super::contract::{CheckpointStore, StoreError};
use crate::ids::ThreadId;

/// What became of a thread that was to be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transferred {
    /// It is in the other store now.
    Now,
    /// It was there before, as it is here.
    Before,
    /// There is no such thread.
    Unknown,
}

/// Puts a thread into another store, whole, and reads it back. One that is there already, as it is
/// here, is left alone; one that is there as it was at another time is replaced, so that a transfer
/// that was cut short is simply done again.
///
/// # Errors
/// As reading and restoring give them; [`StoreError::Unsound`] if it does not hold together, here or
/// there.
pub async fn transfer(
    from: &dyn CheckpointStore,
    to: &dyn CheckpointStore,
    thread: &ThreadId,
) -> Result<Transferred, StoreError> {
    let Some(archive) = ThreadArchive::read(from, thread).await? else {
        return Ok(Transferred::Unknown);
    };
    if to.head(thread).await?.is_some() {
        let there = ThreadArchive::read(to, thread).await?;
        if there.as_ref() == Some(&archive) {
            return Ok(Transferred::Before);
        }
        to.delete_thread(thread).await?;
    }
    to.restore(archive.clone()).await?;
    match ThreadArchive::read(to, thread).await? {
        Some(there) if there == archive => Ok(Transferred::Now),
        _ => Err(StoreError::Unsound {
            thread: thread.clone(),
            found: "what was read back is not what was written".to_owned(),
        }),
    }
}
