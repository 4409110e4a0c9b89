//! Who holds which thread, and the epochs that no write has stored yet.
//!
//! A claim costs no sync: epochs are stored with the writes that use them. A thread is listed here
//! while it is held, while an epoch was given out that the store does not know, or after it was
//! given back in the middle of its run: what is running and not listed was left by a process that
//! died.

use std::collections::HashMap;
use std::sync::PoisonError;

use super::super::contract::{StoreError, Take};
use super::super::frame::ThreadKey;
use super::super::wish::{Wish, WishSender};
use crate::ids::{Epoch, ThreadId};
use crate::sync::{Mutex, MutexGuard};

#[derive(Debug, Default)]
pub(super) struct Claims {
    claims: Mutex<HashMap<ThreadKey, Held>>,
}

#[derive(Debug)]
struct Held {
    epoch: Epoch,
    held: bool,
    /// Whether the store knows the epoch.
    stored: bool,
    /// Whether what was last written says that the thread is running.
    running: bool,
    /// The way to the holder.
    wishes: Option<WishSender>,
}

impl Held {
    /// Whether nothing would be forgotten with this: an epoch that the store knows, of a thread
    /// that nobody holds, and whose status says by itself that it was given back.
    fn is_spent(&self) -> bool {
        self.stored && !self.held && !self.running
    }
}

impl Claims {
    /// Takes a thread whose last stored epoch is this. Says also whether it was listed.
    pub(super) fn take(
        &self,
        thread: &ThreadId,
        stored: Epoch,
        how: Take,
    ) -> Result<(Epoch, bool), StoreError> {
        let mut claims = self.lock();
        let key = ThreadKey::of(thread);
        let listed = claims.contains_key(&key);
        let held = claims.entry(key).or_insert(Held {
            epoch: stored,
            held: false,
            stored: false,
            running: false,
            wishes: None,
        });
        if held.held && how == Take::IfFree {
            return Err(StoreError::Busy {
                thread: thread.clone(),
            });
        }
        *held = Held {
            epoch: held.epoch.max(stored).next(),
            held: true,
            stored: false,
            running: held.running,
            wishes: None,
        };
        Ok((held.epoch, listed))
    }

    /// Refuses if somebody else has the thread by now.
    pub(super) fn held_by(&self, thread: &ThreadId, epoch: Epoch) -> Result<(), StoreError> {
        match self.lock().get(&ThreadKey::of(thread)) {
            Some(held) if held.held && held.epoch == epoch => Ok(()),
            _ => Err(StoreError::Busy {
                thread: thread.clone(),
            }),
        }
    }

    /// Gives a thread back, if the epoch is still the holder's.
    pub(super) fn release(&self, thread: &ThreadId, epoch: Epoch) {
        let mut claims = self.lock();
        let key = ThreadKey::of(thread);
        if let Some(held) = claims.get_mut(&key)
            && held.epoch == epoch
        {
            held.held = false;
            held.wishes = None;
            if held.is_spent() {
                claims.remove(&key);
            }
        }
    }

    /// The thread's epoch, if the last stored one is this.
    pub(super) fn current(&self, thread: ThreadKey, stored: Epoch) -> Epoch {
        self.lock()
            .get(&thread)
            .map_or(stored, |held| held.epoch.max(stored))
    }

    /// Takes note that the store knows this epoch now, and whether the thread runs.
    pub(super) fn note(&self, thread: ThreadKey, epoch: Epoch, running: bool) {
        let mut claims = self.lock();
        if let Some(held) = claims.get_mut(&thread)
            && held.epoch == epoch
        {
            held.stored = true;
            held.running = running;
            if held.is_spent() {
                claims.remove(&thread);
            }
        }
    }

    /// Says at once that a thread is held.
    pub(super) fn free(&self, thread: &ThreadId) -> Result<(), StoreError> {
        match self.lock().get(&ThreadKey::of(thread)) {
            Some(held) if held.held => Err(StoreError::Busy {
                thread: thread.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Whether a call holds a thread.
    pub(super) fn is_held(&self, thread: ThreadKey) -> bool {
        self.lock().get(&thread).is_some_and(|held| held.held)
    }

    /// Says how to tell a holder of wishes.
    pub(super) fn hear(&self, thread: ThreadKey, epoch: Epoch, wishes: WishSender) {
        if let Some(held) = self.lock().get_mut(&thread)
            && held.epoch == epoch
        {
            held.wishes = Some(wishes);
        }
    }

    /// Tells whoever holds a thread now.
    pub(super) fn tell(&self, thread: ThreadKey, wish: Wish) {
        if let Some(Held {
            wishes: Some(wishes),
            ..
        }) = self.lock().get(&thread)
        {
            wishes.tell(wish);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadKey, Held>> {
        // Nothing panics while the lock is held.
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
