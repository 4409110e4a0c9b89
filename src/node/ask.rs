//! Questions: what a node asks a person or a program outside, and how the answer is typed.

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::NodeError;
use crate::state::{Codec, CodecError, Shape, shape_of};

/// A question, with the type of its answer.
///
/// A node that asks names the type in what it returns, `Output<Update, Exits, Question>`, so the
/// graph knows what may be asked, and an answer is checked before it is accepted.
///
/// ```
/// use milepost::{Ask, Context, NodeError, Output, Snapshot, State};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Default, State)]
/// struct Order {
///     total: u64,
///     paid: bool,
/// }
///
/// /// May this be paid?
/// #[derive(Serialize, Deserialize)]
/// struct Approve {
///     total: u64,
/// }
///
/// impl Ask for Approve {
///     type Answer = bool;
/// }
///
/// async fn pay(
///     order: Snapshot<Order>,
///     cx: Context,
/// ) -> Result<Output<OrderUpdate, (), Approve>, NodeError> {
///     let Some(paid) = cx.answer::<Approve>("approve")? else {
///         return Ok(Output::ask("approve", Approve { total: order.total }));
///     };
///     Ok(Output::Done(Order::update().paid(paid), ()))
/// }
/// # let _ = pay;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a question",
    label = "this does not say what it is answered with",
    note = "implement `Ask` for it, with the type of its `Answer`"
)]
pub trait Ask: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// What it is answered with.
    type Answer: Serialize + DeserializeOwned + Send + Sync + 'static;
}

/// The question of a node that asks nothing. There is no value of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoQuestion {}

impl Ask for NoQuestion {
    type Answer = NoQuestion;
}

/// One question of a node, with its key and, if it does not wait for ever, its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question<Q> {
    key: String,
    question: Q,
    expires: Option<Duration>,
    default: Option<Result<Vec<u8>, CodecError>>,
}

impl<Q: Ask> Question<Q> {
    /// A question under a key, which tells it from others of the same task: the answer is found
    /// under it when the node is run again.
    pub fn new(key: impl Into<String>, question: Q) -> Self {
        Self {
            key: key.into(),
            question,
            expires: None,
            default: None,
        }
    }

    /// Gives it a time, from when it is recorded. A task whose question has expired without a
    /// default fails with the class [`Expired`](super::ErrorClass::Expired).
    #[must_use]
    pub fn expires(mut self, after: Duration) -> Self {
        self.expires = Some(after);
        self
    }

    /// Takes this for the answer when the time is over.
    #[must_use]
    pub fn or_else(mut self, answer: &Q::Answer) -> Self {
        self.default = Some(Codec::MessagePack.encode(answer));
        self
    }

    /// The question without its type.
    ///
    /// # Errors
    /// [`NodeError`] of the class `invalid` if it cannot be encoded.
    pub(crate) fn erased(self) -> Result<Asked, NodeError> {
        let question = Codec::MessagePack.encode(&self.question);
        Ok(Asked {
            key: self.key,
            question: question.map_err(NodeError::invalid)?,
            expires: self.expires,
            default: self.default.transpose().map_err(NodeError::invalid)?,
        })
    }
}

/// A question as the driver sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) key: String,
    pub(crate) question: Vec<u8>,
    pub(crate) expires: Option<Duration>,
    pub(crate) default: Option<Vec<u8>>,
}

/// What a node may ask, without its type: how its answers are checked.
#[derive(Clone, Copy)]
pub(crate) struct AskCodec {
    /// The question's type.
    pub(crate) question: &'static str,
    /// The answer's type.
    pub(crate) answer: &'static str,
    check: fn(&[u8]) -> Result<(), CodecError>,
    pub(crate) shape: fn() -> String,
    /// The shape of the answer, for those who type one.
    pub(crate) known: fn() -> Shape,
}

impl fmt::Debug for AskCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AskCodec({} -> {})", self.question, self.answer)
    }
}

impl AskCodec {
    /// What is asked by `Q`; nothing for [`NoQuestion`].
    pub(crate) fn of<Q: Ask>() -> Option<Self> {
        let asks = std::any::TypeId::of::<Q>() != std::any::TypeId::of::<NoQuestion>();
        asks.then(|| Self {
            question: std::any::type_name::<Q>(),
            answer: std::any::type_name::<Q::Answer>(),
            check: |bytes| Codec::MessagePack.decode::<Q::Answer>(bytes).map(|_| ()),
            shape: shape_of::<Q::Answer>,
            known: Shape::of::<Q::Answer>,
        })
    }

    /// Whether bytes are an answer.
    ///
    /// # Errors
    /// Why they are none.
    pub(crate) fn check(&self, bytes: &[u8]) -> Result<(), CodecError> {
        (self.check)(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    struct Approve {
        total: u64,
    }

    impl Ask for Approve {
        type Answer = bool;
    }

    #[test]
    fn a_question_carries_what_it_needs_without_its_type() {
        let question = Question::new("ok", Approve { total: 3 })
            .expires(Duration::from_secs(1))
            .or_else(&false);
        let asked = question.erased().expect("it can be encoded");
        assert_eq!(
            (asked.key.as_str(), asked.default),
            ("ok", Some(vec![0xc2]))
        );
        let codec = AskCodec::of::<Approve>().expect("it asks");
        assert!(codec.check(&[0xc3]).is_ok() && codec.check(&[7]).is_err());
        assert!(AskCodec::of::<NoQuestion>().is_none());
    }
}
