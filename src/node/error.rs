//! Why a node failed.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What kind of failure it is; decides whether a retry makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorClass {
    /// Not classified: any error that came by `?`. Retried where a retry is declared.
    Other,
    /// It may work the next time: a lost connection, a busy service. Retried.
    Transient,
    /// The node took longer than its timeout. Retried.
    Timeout,
    /// It will not work the next time either: a refused permission, a missing document.
    Permanent,
    /// What came in makes no sense: a bad argument, a field that is not set.
    Invalid,
    /// The node panicked.
    Panicked,
    /// Its question was not answered in time.
    Expired,
    /// The caller did not give a value that it needs:
    /// [`Context::run_context`](super::Context::run_context).
    MissingContext,
}

impl ErrorClass {
    /// Every class.
    pub(crate) const ALL: [ErrorClass; 7] = [
        ErrorClass::Other,
        ErrorClass::Transient,
        ErrorClass::Timeout,
        ErrorClass::Permanent,
        ErrorClass::Invalid,
        ErrorClass::Panicked,
        ErrorClass::Expired,
    ];

    /// The class with a name; none if this version has no such class.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// The name under which the class is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorClass::Other => "other",
            ErrorClass::Transient => "transient",
            ErrorClass::Timeout => "timeout",
            ErrorClass::Permanent => "permanent",
            ErrorClass::Invalid => "invalid",
            ErrorClass::Panicked => "panicked",
            ErrorClass::Expired => "expired",
            ErrorClass::MissingContext => "missing_context",
        }
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A node's error: the user's own, whole, with a class.
///
/// Every error type converts with `?` (class [`Other`](ErrorClass::Other)); the constructors give
/// another class. Node, task and step are added by the engine.
///
/// ```
/// use milepost::NodeError;
///
/// fn read() -> Result<String, NodeError> {
///     Ok(std::fs::read_to_string("no such file")?)
/// }
/// assert_eq!(read().unwrap_err().class().name(), "other");
/// assert_eq!(NodeError::permanent("no access").to_string(), "no access");
/// ```
#[derive(Clone)]
pub struct NodeError {
    class: ErrorClass,
    source: Arc<dyn Error + Send + Sync>,
}

impl NodeError {
    /// An error of a class, from an error or a text.
    pub fn new(class: ErrorClass, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            class,
            source: source.into().into(),
        }
    }

    /// An error that may not come again.
    pub fn transient(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(ErrorClass::Transient, source)
    }

    /// An error that will come again.
    pub fn permanent(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(ErrorClass::Permanent, source)
    }

    /// An error about what came in.
    pub fn invalid(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(ErrorClass::Invalid, source)
    }

    /// The class.
    pub fn class(&self) -> ErrorClass {
        self.class
    }

    /// The user's own error.
    pub fn inner(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.source
    }

    /// The message with all its causes.
    pub fn full(&self) -> String {
        let mut text = self.source.to_string();
        let mut cause = self.source.source();
        while let Some(error) = cause {
            let more = error.to_string();
            if !text.contains(&more) {
                text.push_str(": ");
                text.push_str(&more);
            }
            cause = error.source();
        }
        text
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for NodeError {
    fn from(error: E) -> Self {
        Self::new(ErrorClass::Other, error)
    }
}

/// An error of a node where any error is taken.
#[derive(Debug)]
struct Carried(NodeError);

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Carried {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.inner().source()
    }
}

impl From<NodeError> for Box<dyn Error + Send + Sync> {
    fn from(error: NodeError) -> Self {
        Box::new(Carried(error))
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl fmt::Debug for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeError({}: {:?})", self.class, self.source)
    }
}
