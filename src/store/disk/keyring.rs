//! The keys that values at rest are encrypted with.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use chacha20poly1305::XChaCha20Poly1305;
use chacha20poly1305::aead::KeyInit;

/// What a key is asked for by its number.
type Ask = dyn Fn(u32) -> Option<[u8; 32]> + Send + Sync;

/// Keys of a store, each with a number: one that writes are encrypted with, and any number of
/// older ones that what is there already can be read with.
///
/// Keys are rotated by adding a new one in front: what is written from then on has it, what is
/// there keeps its own, and a store that is [copied](crate::store::CheckpointStore::restore) into
/// another one, as `milepost compact --rewrite` does, is written with the new one throughout.
///
/// Neither the keys nor anything made from them is ever shown, stored or put into an error.
///
/// ```
/// use milepost::store::Keyring;
///
/// let old = [7; 32];
/// let new = [8; 32];
/// let keys = Keyring::new(2, new).with(1, old);
/// assert_eq!(keys.current(), 2);
/// ```
#[derive(Clone)]
pub struct Keyring {
    current: u32,
    /// The keys that are known so far.
    known: Arc<Mutex<BTreeMap<u32, Arc<XChaCha20Poly1305>>>>,
    ask: Arc<Ask>,
}

impl Keyring {
    /// Keys with one that has this number: 32 bytes that nobody can guess.
    pub fn new(number: u32, key: [u8; 32]) -> Self {
        Self::asking(number, |_| None).with(number, key)
    }

    /// The same with another key, for what was written with it. A number that is there already
    /// gets the new key.
    #[must_use]
    pub fn with(self, number: u32, key: [u8; 32]) -> Self {
        let mut known = self.known();
        known.insert(number, Arc::new(XChaCha20Poly1305::new(&key.into())));
        drop(known);
        self
    }

    /// Keys that a function knows, such as one that asks a key service. It is asked for a number
    /// when something needs that key, and not again once it had it; it may be called from the
    /// thread that writes, so it should not take long.
    pub fn asking(
        current: u32,
        ask: impl Fn(u32) -> Option<[u8; 32]> + Send + Sync + 'static,
    ) -> Self {
        Self {
            current,
            known: Arc::default(),
            ask: Arc::new(ask),
        }
    }

    /// Keys as text: `NUMBER:HEX` with 64 hex digits, several with commas between them, the current
    /// one first. This is what `MILEPOST_KEYS` holds for the commands.
    ///
    /// # Errors
    /// [`KeyError`] says which one is not written so, without saying what it is.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let mut keys: Option<Self> = None;
        for (place, part) in text.split(',').enumerate() {
            let fail = |found| KeyError {
                place: place + 1,
                found,
            };
            let (number, hex) = part
                .trim()
                .split_once(':')
                .ok_or_else(|| fail("it has no colon".to_owned()))?;
            let number = number.trim().parse().map_err(|_| {
                fail(format!(
                    "what stands before its colon is no number up to {}",
                    u32::MAX
                ))
            })?;
            let key = unhex(hex.trim()).map_err(fail)?;
            keys = Some(match keys {
                None => Self::new(number, key),
                Some(keys) if keys.known().contains_key(&number) => {
                    return Err(fail(format!("number {number} is there twice")));
                }
                Some(keys) => keys.with(number, key),
            });
        }
        keys.ok_or_else(|| KeyError {
            place: 1,
            found: "there is none".to_owned(),
        })
    }

    /// The number of the key that writes are encrypted with.
    pub fn current(&self) -> u32 {
        self.current
    }

    /// The key with this number, if it can be had.
    pub(super) fn key(&self, number: u32) -> Option<Arc<XChaCha20Poly1305>> {
        if let Some(key) = self.known().get(&number) {
            return Some(Arc::clone(key));
        }
        // Asked without the lock: it may take its time.
        let key = Arc::new(XChaCha20Poly1305::new(&(self.ask)(number)?.into()));
        Some(Arc::clone(self.known().entry(number).or_insert(key)))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, Arc<XChaCha20Poly1305>>> {
        // Nothing panics while the lock is held.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring")
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

/// Keys that are not written as they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "key {place}: {found}. Keys are written NUMBER:HEX with 64 hex digits, with commas between them, the current one first"
)]
pub struct KeyError {
    /// Which one it is, from 1 on.
    place: usize,
    found: String,
}

fn unhex(text: &str) -> Result<[u8; 32], String> {
    let digits: Vec<u8> = text
        .chars()
        .map(|digit| digit.to_digit(16).map(|value| value as u8))
        .collect::<Option<_>>()
        .ok_or("it has a character that is no hex digit")?;
    if digits.len() != 64 {
        return Err(format!("it has {} hex digits", digits.len()));
    }
    let mut key = [0; 32];
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Ok(key)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_text_with_the_current_one_first() {
        let text = format!("2:{}, 1:{}", "aB".repeat(32), "01".repeat(32));
        let keys = Keyring::parse(&text).unwrap();
        assert_eq!(keys.current(), 2);
        assert!(keys.key(1).is_some() && keys.key(2).is_some() && keys.key(3).is_none());
    }

    #[test]
    fn what_is_no_key_is_refused_without_being_shown() {
        let good = "5e".repeat(32);
        for (text, says) in [
            (String::new(), "no colon"),
            (good.clone(), "no colon"),
            (format!("x:{good}"), "no number"),
            (format!("1:{good},1:{good}"), "twice"),
            (format!("1:{good},"), "key 2"),
            (format!("1:{}", &good[1..]), "63 hex digits"),
            (format!("1:{}g", &good[1..]), "no hex digit"),
        ] {
            let told = Keyring::parse(&text).unwrap_err().to_string();
            assert!(told.contains(says), "{told}");
            assert!(!told.contains("5e5e"), "{told}");
        }
        assert!(!format!("{:?}", Keyring::new(1, [0x5e; 32])).contains("94"));
    }

    #[test]
    fn a_key_is_asked_for_once() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&asked);
        let keys = Keyring::asking(3, move |number| {
            theirs.lock().unwrap().push(number);
            (number == 3).then_some([1; 32])
        });
        assert!(keys.key(3).is_some() && keys.key(3).is_some() && keys.key(4).is_none());
        assert_eq!(*asked.lock().unwrap(), [3, 4]);
    }
}
