//! A store that a process has open, looked at from another process.
//!
//! One process holds a store. With a [`Window`] it answers the reads of others, over a Unix socket
//! in the store's folder; a [`Peer`] is the other end, a store that can be read and not written. So
//! whatever looks at a store works while a run writes it. One thing more can be asked for: that a run
//! stops.
//!
//! In come requests of the same user on the same machine, out go records in their stored frames.
//! Nothing here writes to the store but that wish, and nothing else that a client does holds a run up:
//! all of it happens on a thread of its own, a bounded number of clients at a time.
//!
//! # What is said
//!
//! What goes over the socket is between two programs of one version, and no contract:
//!
//! - The holder begins with `MPWN`, the protocol's version (2 bytes) and its process id (4 bytes),
//!   little-endian. Another version is refused as [`StoreError::OtherWindow`](super::StoreError).
//! - Then the client asks and the holder answers, in turn. Either is a length (4 bytes,
//!   little-endian) and that many bytes of MessagePack. A question has at most 64 KiB, an answer at
//!   most what one record can have and a little more.
//! - Long answers come in pages of about a megabyte; an empty page is the end.
//!
//! Whatever breaks these rules ends the connection.

mod ask;
mod peer;
mod place;
mod serve;
mod wire;

pub use peer::Peer;
pub use serve::Window;
