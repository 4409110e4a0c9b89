//! What sled says when it refuses, in our words.
//!
//! In come sled's errors and panics, out go ours: an error of the system as the system gave it, and
//! anything else as damage. How sled is made is of no use to whoever reads a message.

use std::io;

use super::super::super::contract::StoreError;
use super::super::engine::{Place, plain};

/// Turns a refusal of sled into ours.
pub(super) fn refusal(place: &Place, doing: &str, error: sled::Error) -> StoreError {
    let found = match error {
        sled::Error::Io(source) => {
            return place.failed(doing, whole(source));
        }
        sled::Error::Corruption { .. } => "sled has read bytes that it did not write".to_owned(),
        other => plain(&other.to_string()),
    };
    place.damaged(found)
}

/// An error of the system as it was. sled passes its errors on as copies, and a copy has only the
/// kind and the debug text of the first one; the code in that text is believed where it fits the
/// kind.
fn whole(error: io::Error) -> io::Error {
    let Some(text) = error.get_ref().map(ToString::to_string) else {
        return error;
    };
    let kind = error.kind();
    let code = text.split_once("code: ").map(|(_, rest)| {
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..end].parse()
    });
    match code {
        Some(Ok(code)) if io::Error::from_raw_os_error(code).kind() == kind => {
            io::Error::from_raw_os_error(code)
        }
        Some(_) => kind.into(),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As sled passes its errors on.
    fn copied(error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{error:?}"))
    }

    #[test]
    fn a_copied_error_of_the_system_is_told_as_the_system_tells_it() {
        // No room, too large, a broken disk: the last has no kind of its own.
        for code in [28, 27, 5] {
            let first = io::Error::from_raw_os_error(code);
            for error in [copied(&first), copied(&copied(&first)), copied(&first)] {
                assert_eq!(whole(error).raw_os_error(), Some(code));
            }
        }
        let lies = io::Error::new(io::ErrorKind::StorageFull, "code: 2 of another error");
        let told = whole(lies);
        assert_eq!(told.kind(), io::ErrorKind::StorageFull);
        assert!(!told.to_string().contains("code"), "{told}");
        let plain = io::Error::other("two words");
        assert_eq!(whole(plain).to_string(), "two words");
    }
}
