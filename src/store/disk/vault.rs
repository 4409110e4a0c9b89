//! Between frames and rows: here a frame is encrypted, if the store has keys, and cut.
//!
//! In come frames as the format makes them, out go rows, and the other way round. What tells threads
//! and records apart stays in clear: names, head, run and start rows, and the header of every frame.
//! What people and models said does not.

use super::super::contract::StoreError;
use super::super::frame::{FrameError, HEADER_BYTES, ThreadKey, unwrap};
#[cfg(feature = "encryption")]
use super::keyring::Keyring;
use super::keys::Slot;
use super::read::THREAD_HINT;
use super::writer::Row;

/// The codec of an encrypted body: the plain codec (1), the key's number (4), the nonce (24), then
/// the encrypted plain body, 16 bytes longer than it.
const CODEC_ENCRYPTED: u8 = 2;
/// Bytes before the encrypted ones.
const LEAD: usize = 29;
/// How much longer a body gets.
const MORE: usize = LEAD + 16;

/// The keys of a store, if it has any.
#[derive(Debug, Clone, Default)]
pub(super) struct Vault {
    #[cfg(feature = "encryption")]
    pub(super) keys: Option<Keyring>,
}

impl Vault {
    /// A frame as rows with their keys.
    pub(super) fn cut(&self, slot: &Slot, frame: Vec<u8>) -> Result<Vec<Row>, FrameError> {
        #[cfg(feature = "encryption")]
        if let Some(keys) = &self.keys
            && slot.holds_values()
        {
            return Ok(slot.cut(&lock(keys, slot.thread(), &frame)?));
        }
        Ok(slot.cut(&frame))
    }

    /// The frame that was cut, from what its rows have together.
    pub(super) fn open(
        &self,
        thread: ThreadKey,
        frame: Vec<u8>,
        place: &dyn Fn() -> String,
    ) -> Result<Vec<u8>, StoreError> {
        if !is_locked(&frame) {
            return Ok(frame);
        }
        let damaged = |error: FrameError| error.at(place(), THREAD_HINT);
        let (header, _, body) = unwrap(thread, &frame).map_err(damaged)?;
        let Some((lead, sealed)) = body.split_first_chunk::<LEAD>() else {
            return Err(damaged(FrameError::Corrupt(
                "an encrypted body is shorter than its own header".to_owned(),
            )));
        };
        let number = u32::from_le_bytes([lead[1], lead[2], lead[3], lead[4]]);
        let refused = |why| StoreError::Encrypted {
            place: place(),
            key: number,
            why,
        };
        #[cfg(feature = "encryption")]
        {
            let Some(keys) = &self.keys else {
                return Err(refused("this store was opened without keys"));
            };
            let key = keys
                .key(number)
                .ok_or_else(|| refused("no key with this number was given"))?;
            // The checksum was right, so it is not the bytes.
            unlock(&key, thread, header, lead, sealed)
                .ok_or_else(|| refused("the key that was given with this number is another one"))
        }
        #[cfg(not(feature = "encryption"))]
        {
            let _ = (header, sealed);
            Err(refused(
                "this program was built without the feature `encryption`",
            ))
        }
    }
}

/// How many bytes the plain body of a frame has that begins with this row and has this length.
pub(super) fn body_len(first: &[u8], frame: usize) -> usize {
    let body = frame.saturating_sub(HEADER_BYTES);
    if is_locked(first) {
        body.saturating_sub(MORE)
    } else {
        body
    }
}

fn is_locked(frame: &[u8]) -> bool {
    frame.get(5) == Some(&CODEC_ENCRYPTED)
}

#[cfg(feature = "encryption")]
use self::cipher::{lock, unlock};

#[cfg(feature = "encryption")]
mod cipher {
    use chacha20poly1305::aead::{Aead, Payload};
    use chacha20poly1305::{XChaCha20Poly1305, XNonce};

    use super::{
        CODEC_ENCRYPTED, FrameError, HEADER_BYTES, Keyring, LEAD, MORE, ThreadKey, unwrap,
    };
    use crate::store::frame::{FrameHeader, wrap};

    /// Encrypts the body of a frame. What the header says is sealed with it, and whose it is.
    pub(super) fn lock(
        keys: &Keyring,
        thread: ThreadKey,
        frame: &[u8],
    ) -> Result<Vec<u8>, FrameError> {
        let (header, codec, body) = unwrap(thread, frame)?;
        let number = keys.current();
        let key = keys
            .key(number)
            .ok_or_else(|| FrameError::Corrupt(format!("no key has number {number}")))?;
        let mut nonce = [0; 24];
        getrandom::fill(&mut nonce).map_err(|error| {
            FrameError::Corrupt(format!("the system gives no random bytes: {error}"))
        })?;
        let mut lead = [0; LEAD];
        lead[0] = codec;
        lead[1..5].copy_from_slice(&number.to_le_bytes());
        lead[5..].copy_from_slice(&nonce);
        let payload = Payload {
            msg: body,
            aad: &bound(thread, header, &lead),
        };
        let sealed = key
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| FrameError::TooLarge(body.len() as u64))?;
        let mut all = Vec::with_capacity(HEADER_BYTES + body.len() + MORE);
        all.resize(HEADER_BYTES, 0);
        all.extend_from_slice(&lead);
        all.extend_from_slice(&sealed);
        wrap(thread, header, CODEC_ENCRYPTED, all)
    }

    /// The plain frame; none if the key does not open it.
    pub(super) fn unlock(
        key: &XChaCha20Poly1305,
        thread: ThreadKey,
        header: FrameHeader,
        lead: &[u8; LEAD],
        sealed: &[u8],
    ) -> Option<Vec<u8>> {
        let mut nonce = [0; 24];
        nonce.copy_from_slice(&lead[5..]);
        let payload = Payload {
            msg: sealed,
            aad: &bound(thread, header, lead),
        };
        let body = key.decrypt(&XNonce::from(nonce), payload).ok()?;
        let mut all = Vec::with_capacity(HEADER_BYTES + body.len());
        all.resize(HEADER_BYTES, 0);
        all.extend_from_slice(&body);
        wrap(thread, header, lead[0], all).ok()
    }

    /// What is sealed with a body without being encrypted: an encrypted body that was moved to
    /// another place does not open there.
    fn bound(thread: ThreadKey, header: FrameHeader, lead: &[u8; LEAD]) -> Vec<u8> {
        let mut bound = thread.as_bytes().to_vec();
        bound.push(header.kind.number());
        bound.extend_from_slice(&header.seq.get().to_le_bytes());
        bound.extend_from_slice(&header.epoch.get().to_le_bytes());
        bound.extend_from_slice(&header.branch.get().to_le_bytes());
        bound.extend_from_slice(&lead[..5]);
        bound
    }
}
