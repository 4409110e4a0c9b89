//! What fjall says when it refuses, in our words.

use std::io::{self, ErrorKind};

use fjall::{Error, LsmError};

use super::super::super::contract::StoreError;
use super::super::engine::Place;

/// Turns a refusal of fjall into ours: an error of the system as the system gave it, and anything
/// else as damage.
pub(super) fn refusal(place: &Place, doing: &str, error: Error) -> StoreError {
    match error {
        Error::Io(source) | Error::Storage(LsmError::Io(source)) => match source.kind() {
            ErrorKind::NotFound => place.damaged("a file of it is missing".to_owned()),
            ErrorKind::UnexpectedEof => place.damaged("a file of it is too short".to_owned()),
            ErrorKind::InvalidData => {
                place.damaged("it has bytes that fjall did not write".to_owned())
            }
            _ => place.failed(doing, source),
        },
        Error::Locked => StoreError::Locked {
            path: place.path.clone(),
            holder: None,
        },
        // The first error was told when it came, unless it came in the background.
        Error::Poisoned => place.failed(
            doing,
            io::Error::other("an earlier write or a write in the background has failed"),
        ),
        Error::InvalidVersion(_) | Error::Storage(LsmError::InvalidVersion(_)) => {
            place.damaged("its format is not that of fjall 3".to_owned())
        }
        other => {
            tracing::debug!(%other, "fjall gave up");
            place.damaged("fjall has read bytes that it did not write".to_owned())
        }
    }
}
