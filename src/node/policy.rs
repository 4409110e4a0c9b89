//! What is to be done around one call of a node: settings only.

use std::time::Duration;

use super::{Effect, ErrorClass, NodeError};

/// Settings around the calls of one node. The default does nothing.
///
/// - `retry`: none
/// - `timeout`: none
/// - `idle_timeout`: none
/// - `concurrency`: as many as the run allows
/// - `blocking`: no
/// - `effect`: not said; run again where its end was not recorded
/// - `step_limit`: what remains of the call's supersteps when the node is entered
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policy {
    /// Tries again after a failure.
    pub retry: Option<Retry>,
    /// Ends one try after this time.
    pub timeout: Option<Duration>,
    /// Ends one try that shows no sign of life for this time.
    pub idle_timeout: Option<Duration>,
    /// How many tasks of this node may run at once.
    pub concurrency: Option<usize>,
    /// Whether the body blocks its thread; it then runs on a thread of its own.
    pub blocking: bool,
    /// What it does to the world outside.
    pub effect: Option<Effect>,
    /// For a node that runs a graph: how many supersteps that graph may execute in one call.
    pub step_limit: Option<u64>,
}

impl Policy {
    /// Sets the retry.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Sets the timeout of one try.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how long one try may show no sign of life. Signs are [`Context::heartbeat`], a token, an
    /// event of the node's own, and a durable step that finished; a durable wait is no idleness. A try
    /// that is idle for so long fails with the class [`Timeout`](ErrorClass::Timeout).
    ///
    /// [`Context::heartbeat`]: super::Context::heartbeat
    #[must_use]
    pub fn idle_timeout(mut self, time: Duration) -> Self {
        self.idle_timeout = Some(time);
        self
    }

    /// Sets how many tasks of this node may run at once; at least 1.
    #[must_use]
    pub fn concurrency(mut self, tasks: usize) -> Self {
        self.concurrency = Some(tasks);
        self
    }

    /// Sets how many supersteps the graph that the node runs may execute in one call. It never gets
    /// more than what remains of the call's own limit when it is entered.
    #[must_use]
    pub fn step_limit(mut self, supersteps: u64) -> Self {
        self.step_limit = Some(supersteps);
        self
    }

    /// Says that the body blocks its thread.
    #[must_use]
    pub fn blocking(mut self) -> Self {
        self.blocking = true;
        self
    }

    /// Says what the node does to the world outside.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = Some(effect);
        self
    }

    /// Whether a task of it must not be run again silently.
    pub(crate) fn is_irreversible(&self) -> bool {
        self.effect == Some(Effect::Irreversible)
    }
}

/// How a failed task is tried again.
///
/// Defaults, as in requirement row S029 and the field's usual settings:
/// - `max_attempts`: 3
/// - `first_wait`: 500 ms
/// - `factor`: 2
/// - `max_wait`: 30 s
/// - `jitter`: 0.5, half of each wait is random
/// - `classes`: other, transient, timeout
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    /// How often a task is tried in all; at least 1.
    pub max_attempts: u32,
    /// How long to wait before the second try.
    pub first_wait: Duration,
    /// By what each further wait is multiplied.
    pub factor: f64,
    /// The longest wait.
    pub max_wait: Duration,
    /// The share of each wait that is random, 0 to 1.
    pub jitter: f64,
    /// The classes that are tried again.
    pub classes: Vec<ErrorClass>,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            first_wait: Duration::from_millis(500),
            factor: 2.0,
            max_wait: Duration::from_secs(30),
            jitter: 0.5,
            classes: vec![
                ErrorClass::Other,
                ErrorClass::Transient,
                ErrorClass::Timeout,
            ],
        }
    }
}

impl Retry {
    /// How long to wait after try number `attempt` failed; none if it is not tried again.
    /// `chance` is a random number from 0 to 1 and decides the random share.
    pub fn wait(&self, attempt: u32, error: &NodeError, chance: f64) -> Option<Duration> {
        if attempt >= self.max_attempts || !self.classes.contains(&error.class()) {
            return None;
        }
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let longest = self.max_wait.as_secs_f64();
        let whole = self.first_wait.as_secs_f64() * self.factor.max(0.0).powi(exponent);
        let whole = if whole.is_finite() {
            whole.clamp(0.0, longest)
        } else {
            longest
        };
        let jitter = if self.jitter.is_finite() {
            self.jitter.clamp(0.0, 1.0)
        } else {
            0.0
        };
        let wait = whole * (1.0 - jitter * chance.clamp(0.0, 1.0));
        Duration::try_from_secs_f64(wait)
            .ok()
            .or(Some(self.max_wait))
    }
}
