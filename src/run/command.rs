//! What a caller asks of a thread.

use std::any::Any;

use serde::Serialize;

use crate::ids::{QuestionId, RunId, TaskPath};
use crate::node::RunContext;
use crate::state::{Codec, CodecError, State};

/// What a caller asks of a thread.
#[derive(Debug)]
pub struct Command<S: State> {
    pub(super) what: What<S>,
    /// What is given for this call only.
    pub(super) context: RunContext,
}

#[derive(Debug)]
pub(super) enum What<S: State> {
    Start {
        input: S::Update,
        run: Option<RunId>,
        abandon: bool,
    },
    GoOn(Taking),
}

/// How a thread is taken up where it stands.
#[derive(Debug)]
pub(super) enum Taking {
    /// As it stands.
    Up,
    /// After its questions were answered.
    In(Answers),
    /// After what these tasks had brought was discarded.
    Back(Vec<TaskPath>),
}

/// Answers to open questions.
///
/// ```
/// use milepost::{Answers, QuestionId};
///
/// let id: QuestionId = "3:review[0].approve".parse()?;
/// let answers = Answers::to(id, &true).and("3:review[1].approve".parse()?, &false);
/// let only = Answers::only(&true);
/// # let _ = (answers, only);
/// # Ok::<(), milepost::IdError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Answers {
    pub(super) given: Vec<Given>,
}

/// One answer.
#[derive(Debug, Clone)]
pub(super) struct Given {
    /// The question; none for the only one that is open.
    pub(super) id: Option<QuestionId>,
    /// The answer as MessagePack with names, or why it cannot be that.
    pub(super) answer: Result<Vec<u8>, CodecError>,
}

impl Answers {
    /// The answer to the only question that is open. With several open ones it is refused.
    pub fn only(answer: &(impl Serialize + ?Sized)) -> Self {
        Self {
            given: vec![Given::new(None, answer)],
        }
    }

    /// The answer to one question.
    pub fn to(id: QuestionId, answer: &(impl Serialize + ?Sized)) -> Self {
        Self {
            given: vec![Given::new(Some(id), answer)],
        }
    }

    /// Answers another question as well. All are accepted, or none.
    #[must_use]
    pub fn and(mut self, id: QuestionId, answer: &(impl Serialize + ?Sized)) -> Self {
        self.given.push(Given::new(Some(id), answer));
        self
    }
}

impl Given {
    fn new(id: Option<QuestionId>, answer: &(impl Serialize + ?Sized)) -> Self {
        let answer = Codec::MessagePack.encode(answer);
        Self { id, answer }
    }
}

impl<S: State> Command<S> {
    /// Starts a run with an input, which is merged into the thread's state by the reducers before
    /// any node starts.
    pub fn start(input: S::Update) -> Self {
        Self {
            what: What::Start {
                input,
                run: None,
                abandon: false,
            },
            context: RunContext::new(),
        }
    }

    /// Goes on where the thread stands: after a crash, a failure, a cancellation, a limit. A
    /// finished thread is left as it is, and its state comes back.
    pub fn go_on() -> Self {
        Self {
            what: What::GoOn(Taking::Up),
            context: RunContext::new(),
        }
    }

    /// Answers open questions, and goes on with what they have held up.
    pub fn answer(answers: Answers) -> Self {
        Self {
            what: What::GoOn(Taking::In(answers)),
            context: RunContext::new(),
        }
    }

    /// Discards what tasks of the open superstep have brought, and goes on: they run again, as does
    /// all that is left anyway. Named are tasks that have ended or are left; the others of the
    /// superstep keep what they have. Their [steps](crate::Context::step) and answers stay, too.
    ///
    /// For a superstep that failed when it was merged or decided, or whose siblings failed: what a
    /// task has brought is kept whatever happens, until somebody says otherwise here.
    pub fn retry(tasks: impl IntoIterator<Item = TaskPath>) -> Self {
        Self {
            what: What::GoOn(Taking::Back(tasks.into_iter().collect())),
            context: RunContext::new(),
        }
    }

    /// Gives a value for this call, by type: nodes read it by
    /// [`Context::run_context`](crate::Context::run_context). It goes before one of the same type that
    /// [`RunOptions::context`](super::RunOptions::context) gives, and is never stored or shown.
    #[must_use]
    pub fn context<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.context = self.context.and(value);
        self
    }

    /// Names the run. A start that is repeated with the same id gives the same run: goes on with
    /// it, or returns how it ended.
    #[must_use]
    pub fn run_id(mut self, id: RunId) -> Self {
        if let What::Start { run, .. } = &mut self.what {
            *run = Some(id);
        }
        self
    }

    /// Gives up the superstep that a failed, crashed or limited run has left open, and starts
    /// anew. What its tasks have finished is kept, what they have not is dropped.
    #[must_use]
    pub fn abandon(mut self) -> Self {
        if let What::Start { abandon, .. } = &mut self.what {
            *abandon = true;
        }
        self
    }
}
