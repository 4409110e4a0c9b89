//! Error exits: where a node leads whose task has failed.

use std::sync::{Mutex, PoisonError};

use super::builder::Builder;
use super::compiled::Entry;
use super::error::Problem;
use super::join::JoinRef;
use super::target::{Dest, End, IntoTarget, NodeRef, Place, Target, WorkerRef};
use crate::node::{ErrorClass, Failure};
use crate::state::State;

/// What an error exit can lead to: a worker of [`Failure`]s, or whatever an edge can lead to.
#[diagnostic::on_unimplemented(
    message = "an error exit of a `{S}` graph cannot lead to `{Self}`",
    label = "not a handler of failures",
    note = "an error exit leads to a worker whose payload is `Failure`, to a node of the same graph, to `End`, or to several with `a.and(b)`"
)]
pub trait IntoHandler<S> {
    #[doc(hidden)]
    fn into_handler(self) -> Target<S>;
}

impl<S, E> IntoHandler<S> for WorkerRef<S, Failure, E> {
    fn into_handler(self) -> Target<S> {
        Target {
            dests: vec![(Some(self.at.builder), Dest::Caught(self.at.node))],
        }
    }
}

// Not for every `IntoTarget`: whoever has a state of his own could make a worker one.
impl<S> IntoHandler<S> for Target<S> {
    fn into_handler(self) -> Target<S> {
        self
    }
}

impl<S, E> IntoHandler<S> for NodeRef<S, E> {
    fn into_handler(self) -> Target<S> {
        self.into_target()
    }
}

impl<S> IntoHandler<S> for JoinRef<S> {
    fn into_handler(self) -> Target<S> {
        self.into()
    }
}

impl<S> IntoHandler<S> for End {
    fn into_handler(self) -> Target<S> {
        self.into_target()
    }
}

/// An error exit of a node.
pub(crate) struct Catch {
    /// The classes that it catches; none for every class.
    classes: Option<Vec<ErrorClass>>,
    /// What its edges are called.
    pub(crate) label: &'static str,
    pub(crate) target: u32,
}

impl<S: State> Builder<S> {
    /// Leads a node that has failed to a handler, whatever the class of its error.
    ///
    /// A task that has failed after its last try then counts as ended: its failure is recorded, it
    /// changes nothing and is never run again, its superstep closes as any other, and the run goes
    /// on at the handler instead of at what the node leads to. The handler is a task like any other:
    /// a worker of [`Failure`]s, which is run once for each of them, or a node, or whatever else an
    /// edge can lead to. Where it leads, the run goes; if it fails, that is its own error, with
    /// error exits of its own.
    ///
    /// Of a worker each failed task takes the exit, in path order. The worker's own way is taken all
    /// the same: its edge once after all its tasks, its exits by those that did not fail, and
    /// [`when_empty`](super::Wiring::when_empty) if there is none of these.
    ///
    /// Panics, timeouts and questions that expire are failures, too. A question that waits, a
    /// cancellation, a step limit and the deadline of a call are none and are never caught; nor is
    /// an error that comes after the node was told to end, which is run again by the next call.
    ///
    /// Of several error exits of a node, the first one that has the class is taken.
    ///
    /// ```
    /// use milepost::{
    ///     Append, Command, Context, End, Failure, Graph, NodeError, Runner, Snapshot, State, ThreadId,
    /// };
    ///
    /// #[derive(Clone, Debug, Default, State)]
    /// struct Doc {
    ///     #[reduce(Append)]
    ///     log: Vec<String>,
    /// }
    ///
    /// async fn fetch(_: Snapshot<Doc>, _: Context) -> Result<DocUpdate, NodeError> {
    ///     Err(NodeError::permanent("the site is gone"))
    /// }
    ///
    /// async fn note(failure: Failure, _: Snapshot<Doc>, _: Context) -> Result<DocUpdate, NodeError> {
    ///     Ok(Doc::update().log(vec![format!("{}: {}", failure.node, failure.message)]))
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut g = Graph::builder("handled");
    /// let fetch = g.node("fetch", fetch);
    /// let note = g.worker("note", note);
    /// g.start(fetch);
    /// g.edge(fetch, End);
    /// g.on_error(fetch, note);
    /// g.edge(note, End);
    ///
    /// let runner = Runner::new(g.build()?);
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// let report = runtime.block_on(runner.run(&ThreadId::random(), Command::start(Doc::update())))?;
    /// assert_eq!(report.state.log, ["fetch: the site is gone"]);
    /// # Ok(()) }
    /// ```
    pub fn on_error(&mut self, node: impl Place<S>, handler: impl IntoHandler<S>) {
        self.catch(node, None, handler.into_handler());
    }

    /// Leads a node that has failed with an error of one of these classes to a handler, as
    /// [`on_error`](Self::on_error) does for all classes.
    pub fn on_error_for(
        &mut self,
        node: impl Place<S>,
        classes: impl IntoIterator<Item = ErrorClass>,
        handler: impl IntoHandler<S>,
    ) {
        let named: Vec<_> = classes.into_iter().collect();
        // Always in one order: the label is part of what is stored.
        let classes = ErrorClass::ALL.iter().copied();
        let classes = classes.filter(|class| named.contains(class)).collect();
        self.catch(node, Some(classes), handler.into_handler());
    }

    fn catch(&mut self, node: impl Place<S>, classes: Option<Vec<ErrorClass>>, handler: Target<S>) {
        let target = self.target(handler);
        let label = label(classes.as_deref());
        if let Some(entry) = self.entry(node.at()) {
            entry.catches.push(Catch {
                classes,
                label,
                target,
            });
        }
    }
}

impl<S: State> Entry<S> {
    /// The error exit that catches errors of a class, by its place.
    pub(crate) fn caught_by(&self, class: ErrorClass) -> Option<u32> {
        let catches = |catch: &Catch| {
            let classes = catch.classes.as_ref();
            classes.is_none_or(|classes| classes.contains(&class))
        };
        let place = self.catches.iter().position(catches);
        place.map(|place| place as u32)
    }
}

/// Checks the error exits of a node.
pub(super) fn check<S: State>(node: &Entry<S>, problems: &mut Vec<Problem>) {
    let mut wrong = |reason: String| {
        problems.push(Problem::ErrorExit {
            node: node.name.clone(),
            reason,
        });
    };
    if node.tolerate.is_some() && !node.catches.is_empty() {
        wrong("its failures are tolerated by `worker_error`, so none is left for them".to_owned());
    }
    let mut caught: Vec<ErrorClass> = Vec::new();
    let mut all = false;
    for catch in &node.catches {
        match &catch.classes {
            None if all => wrong("two of them catch every class".to_owned()),
            None => all = true,
            Some(classes) if classes.is_empty() => wrong("one of them names no class".to_owned()),
            Some(_) if all => wrong(format!(
                "\"{}\" comes after the one that catches every class, so it is never taken: name \
                 it before that one",
                catch.label
            )),
            Some(classes) => {
                for class in classes {
                    match caught.contains(class) {
                        true => wrong(format!("two of them catch the class \"{class}\"")),
                        false => caught.push(*class),
                    }
                }
            }
        }
    }
}

/// What the edges of an error exit are called. Labels of edges live as long as the program; of these
/// there is at most one for each set of classes.
fn label(classes: Option<&[ErrorClass]>) -> &'static str {
    static LABELS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let Some(classes) = classes else {
        return "on error";
    };
    let names: Vec<_> = classes.iter().map(|class| class.name()).collect();
    let text = format!("on {}", names.join(", "));
    let mut labels = LABELS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = labels.iter().find(|known| **known == text) {
        return known;
    }
    let label: &'static str = text.leak();
    labels.push(label);
    label
}
