//! Frames on the socket: a greeting, then lengths and bodies.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::super::frame::MAX_BODY_BYTES;

/// The version of what is said.
pub(super) const VERSION: u16 = 2;

/// The most bytes that a question may have.
pub(super) const MOST_ASKED: usize = 64 << 10;

/// The most bytes that an answer may have: those of the largest record, and what stands around it.
pub(super) const MOST_TOLD: usize = MAX_BODY_BYTES + (4 << 20);

const MAGIC: [u8; 4] = *b"MPWN";

/// Says who answers here.
pub(super) async fn greet(to: &mut (impl AsyncWrite + Unpin), pid: u32) -> io::Result<()> {
    let mut hello = MAGIC.to_vec();
    hello.extend_from_slice(&VERSION.to_le_bytes());
    hello.extend_from_slice(&pid.to_le_bytes());
    to.write_all(&hello).await?;
    to.flush().await
}

/// Hears who answers here: the version and the process.
pub(super) async fn greeted(from: &mut (impl AsyncRead + Unpin)) -> io::Result<(u16, u32)> {
    let mut magic = [0; MAGIC.len()];
    from.read_exact(&mut magic).await?;
    if magic != MAGIC {
        return Err(invalid("what answers there is no window of a store"));
    }
    Ok((from.read_u16_le().await?, from.read_u32_le().await?))
}

/// Writes a message.
pub(super) async fn send<T: Serialize>(
    to: &mut (impl AsyncWrite + Unpin),
    message: &T,
    most: usize,
) -> io::Result<()> {
    let body = rmp_serde::to_vec(message).map_err(io::Error::other)?;
    let length = u32::try_from(body.len()).ok();
    let Some(length) = length.filter(|_| body.len() <= most) else {
        return Err(too_long(body.len(), most));
    };
    to.write_all(&length.to_le_bytes()).await?;
    to.write_all(&body).await?;
    to.flush().await
}

/// Reads a message. A length is believed only as far as bytes come.
pub(super) async fn receive<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> io::Result<T> {
    let length = from.read_u32_le().await? as usize;
    if length > most {
        return Err(too_long(length, most));
    }
    let mut body = Vec::new();
    from.take(length as u64).read_to_end(&mut body).await?;
    if body.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    rmp_serde::from_slice(&body).map_err(invalid)
}

pub(super) fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn too_long(length: usize, most: usize) -> io::Error {
    invalid(format!("a message of {length} bytes; the most is {most}"))
}
