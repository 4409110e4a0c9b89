//! A model that says what a test wrote down.
//!
//! In come replies in the order they are to be given; out go those replies, and the prompts that
//! were asked can be read back. It never thinks, and never repeats its last reply.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use super::model::{ChatModel, ModelError, Prompt, Reply};

/// Gives written replies, one a call, and remembers what it was asked.
#[derive(Debug, Default)]
pub struct Scripted {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    left: VecDeque<Result<Reply, ModelError>>,
    replies: usize,
    asked: Vec<Prompt>,
}

impl Scripted {
    /// A model with this script.
    pub fn new(script: impl IntoIterator<Item = Result<Reply, ModelError>>) -> Self {
        let left: VecDeque<_> = script.into_iter().collect();
        let replies = left.len();
        Self {
            inner: Mutex::new(Inner {
                left,
                replies,
                asked: Vec::new(),
            }),
        }
    }

    /// The prompts so far, in the order they came.
    pub fn asked(&self) -> Vec<Prompt> {
        self.lock().asked.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // The data is a log and a queue: a panic elsewhere leaves both whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ChatModel for Scripted {
    async fn reply(&self, prompt: &Prompt) -> Result<Reply, ModelError> {
        let mut inner = self.lock();
        inner.asked.push(prompt.clone());
        let (replies, call) = (inner.replies, inner.asked.len());
        inner
            .left
            .pop_front()
            .unwrap_or(Err(ModelError::ScriptEnded { replies, call }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_script_is_given_in_order_and_its_end_is_an_error() {
        let hello = Reply {
            text: "hello".into(),
            ..Reply::default()
        };
        let model = Scripted::new([Ok(hello.clone()), Err(ModelError::EmptyPrompt)]);
        let prompt = Prompt {
            user: "say it".into(),
            ..Prompt::default()
        };
        assert_eq!(model.reply(&prompt).await.expect("the first reply"), hello);
        assert!(matches!(
            model.reply(&prompt).await,
            Err(ModelError::EmptyPrompt)
        ));
        assert!(matches!(
            model.reply(&prompt).await,
            Err(ModelError::ScriptEnded {
                replies: 2,
                call: 3
            })
        ));
        assert_eq!(model.asked().len(), 3);
    }
}
