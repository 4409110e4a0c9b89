//! How field values and updates become bytes.

use bincode::Options as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::digest;
use super::strict::Strict;

/// The most bytes of one encoded value or update: 256 MiB, so that a damaged length cannot ask
/// for all memory.
const MAX_BYTES: u64 = 256 << 20;

/// How a field's values become bytes. Stored with each field as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codec {
    /// MessagePack with field names: added, dropped and reordered fields are told apart. The default.
    MessagePack,
    /// bincode, strict: smaller and faster, but every change of the type is a new type.
    Bincode,
}

impl Codec {
    /// The number under which the codec is stored.
    pub const fn number(self) -> u8 {
        match self {
            Codec::MessagePack => 1,
            Codec::Bincode => 2,
        }
    }

    /// The codec of a stored number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Codec::MessagePack),
            2 => Some(Codec::Bincode),
            _ => None,
        }
    }

    /// Encodes a value.
    ///
    /// # Errors
    /// [`CodecError::Encode`] if the value cannot be carried.
    pub fn encode<T: Serialize + ?Sized>(self, value: &T) -> Result<Vec<u8>, CodecError> {
        match self {
            Codec::MessagePack => {
                let mut bytes = Exact::default();
                rmp_serde::encode::write_named(&mut bytes, value).map_err(|why| {
                    CodecError::Encode {
                        reason: why.to_string(),
                    }
                })?;
                Ok(bytes.finish())
            }
            Codec::Bincode => strict().serialize(value).map_err(|why| CodecError::Encode {
                reason: why.to_string(),
            }),
        }
    }

    /// Decodes a value; all bytes must be used.
    ///
    /// MessagePack says of each scalar what it is, and one of another kind than the type asks for
    /// is refused: an integer is no float, bytes are no string. Integers are taken by value,
    /// whatever their width. bincode says nothing of the kind and reads what it is told to.
    ///
    /// # Errors
    /// [`CodecError::Decode`] if the bytes are not one value of the type.
    pub fn decode<T: DeserializeOwned>(self, bytes: &[u8]) -> Result<T, CodecError> {
        match self {
            Codec::MessagePack => {
                let mut reader = bytes;
                let value = read_named(&mut reader)?;
                match reader.len() {
                    0 => Ok(value),
                    left => Err(CodecError::Decode {
                        reason: format!("{left} bytes are left over"),
                    }),
                }
            }
            Codec::Bincode => strict()
                .deserialize(bytes)
                .map_err(|why| CodecError::Decode {
                    reason: why.to_string(),
                }),
        }
    }

    /// Encodes a value, decodes it and compares: not every type comes back as it went.
    ///
    /// # Errors
    /// [`CodecError::NotRoundTrip`] if another value comes back; the other variants as they are.
    pub fn check<T: Serialize + DeserializeOwned>(self, value: &T) -> Result<(), CodecError> {
        self.checked(value).map(|_| ())
    }

    /// The same; gives what came back.
    pub(crate) fn checked<T: Serialize + DeserializeOwned>(
        self,
        value: &T,
    ) -> Result<T, CodecError> {
        let bytes = self.encode(value)?;
        let back: T = self
            .decode(&bytes)
            .map_err(|why| CodecError::NotRoundTrip {
                type_name: std::any::type_name::<T>(),
                reason: format!("it was written and cannot be read back: {why}"),
            })?;
        if digest::of(value) == digest::of(&back) {
            return Ok(back);
        }
        Err(CodecError::NotRoundTrip {
            type_name: std::any::type_name::<T>(),
            reason: "another value came back".to_owned(),
        })
    }
}

/// Collects bytes whose number is not known before, and gives a vector that has room for no more:
/// what is short, as most values are, is allocated once.
struct Exact {
    short: [u8; 256],
    len: usize,
    long: Vec<u8>,
}

impl Default for Exact {
    fn default() -> Self {
        Self {
            short: [0; 256],
            len: 0,
            long: Vec::new(),
        }
    }
}

impl Exact {
    fn finish(mut self) -> Vec<u8> {
        match self.long.is_empty() {
            true => self.short[..self.len].to_vec(),
            false => {
                self.long.shrink_to_fit();
                self.long
            }
        }
    }
}

impl std::io::Write for Exact {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let end = self.len + bytes.len();
        if let Some(room) = self.short.get_mut(self.len..end)
            && self.long.is_empty()
        {
            room.copy_from_slice(bytes);
            self.len = end;
        } else {
            if self.long.is_empty() {
                self.long.extend_from_slice(&self.short[..self.len]);
            }
            self.long.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn strict() -> impl bincode::Options {
    bincode::DefaultOptions::new()
        .with_fixint_encoding()
        .reject_trailing_bytes()
        .with_limit(MAX_BYTES)
}

fn read_named<T: DeserializeOwned>(reader: &mut &[u8]) -> Result<T, CodecError> {
    let mut decoder = rmp_serde::Deserializer::new(reader);
    T::deserialize(Strict(&mut decoder)).map_err(|why| CodecError::Decode {
        reason: why.to_string(),
    })
}

/// Why a value and its bytes do not go together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The value cannot be written.
    #[error("the value cannot be encoded: {reason}")]
    Encode {
        /// What the codec said.
        reason: String,
    },
    /// The bytes cannot be read.
    #[error("the bytes cannot be decoded: {reason}")]
    Decode {
        /// What the codec said.
        reason: String,
    },
    /// The value can be written, but does not come back as it went.
    #[error(
        "a value of type {type_name} does not survive being stored: {reason}. Use another type, or another codec for the field"
    )]
    NotRoundTrip {
        /// The type.
        type_name: &'static str,
        /// What came back.
        reason: String,
    },
}

/// Takes the items of a collection one by one.
pub struct ItemWriter<'a> {
    codec: Codec,
    sink: &'a mut dyn FnMut(&[u8]),
}

impl std::fmt::Debug for ItemWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ItemWriter")
            .field("codec", &self.codec)
            .finish_non_exhaustive()
    }
}

impl<'a> ItemWriter<'a> {
    pub(crate) fn new(codec: Codec, sink: &'a mut dyn FnMut(&[u8])) -> Self {
        Self { codec, sink }
    }

    /// Takes one item.
    ///
    /// # Errors
    /// [`CodecError::Encode`] if the item cannot be carried.
    pub fn item<T: Serialize>(&mut self, item: &T) -> Result<(), CodecError> {
        let bytes = self.codec.encode(item)?;
        (self.sink)(&bytes);
        Ok(())
    }
}

/// Gives the items of a collection one by one.
#[derive(Debug)]
pub struct ItemReader<'a> {
    codec: Codec,
    bytes: &'a [u8],
    left: u64,
}

impl<'a> ItemReader<'a> {
    pub(crate) fn new(codec: Codec, bytes: &'a [u8], items: u64) -> Self {
        Self {
            codec,
            bytes,
            left: items,
        }
    }

    /// The next item; none at the end.
    ///
    /// # Errors
    /// [`CodecError::Decode`] if the bytes are not an item of the type.
    pub fn item<T: DeserializeOwned>(&mut self) -> Result<Option<T>, CodecError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        match self.codec {
            Codec::MessagePack => read_named(&mut self.bytes).map(Some),
            Codec::Bincode => bincode::DefaultOptions::new()
                .with_fixint_encoding()
                .allow_trailing_bytes()
                .with_limit(MAX_BYTES)
                .deserialize_from(&mut self.bytes)
                .map(Some)
                .map_err(|why| CodecError::Decode {
                    reason: why.to_string(),
                }),
        }
    }

    pub(crate) fn finish(self) -> Result<(), CodecError> {
        if self.left == 0 && self.bytes.is_empty() {
            return Ok(());
        }
        Err(CodecError::Decode {
            reason: format!(
                "{} items and {} bytes are left over",
                self.left,
                self.bytes.len()
            ),
        })
    }
}
