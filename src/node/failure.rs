//! A failure, as an error exit hands it on.

use serde::{Deserialize, Serialize};

use super::ErrorClass;
use crate::ids::{NodeName, TaskPath};

/// What has failed, and why: the payload of a worker that handles failures.
///
/// A task that has failed after its last try, and whose node has an error exit for the error's
/// class ([`Builder::on_error`](crate::Builder::on_error)), is not run again: its failure is
/// recorded and stored with what runs next, so that a handler gets it whole, also after a crash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// The node.
    pub node: NodeName,
    /// The task; of a worker, its index says which of the payloads it was.
    pub task: TaskPath,
    /// The class of its last error.
    pub class: ErrorClass,
    /// The message of its last error, with its causes.
    pub message: String,
    /// How often it was tried.
    pub attempts: u32,
}
