//! A graph as the commands know it.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use clap::ArgMatches;
use futures::future::BoxFuture;
use serde_json::{Map, Value};

use super::ask::{Live, Opening, Typed};
use super::exit::{Exit, Failure};
use super::json;
use crate::store::CheckpointStore;
use crate::{
    BuildError, Command, Graph, GraphView, RunError, RunId, Runner, Seq, Snapshot, State, ThreadId,
};

/// Why flags make no input.
pub type InputError = Box<dyn Error + Send + Sync>;

/// The flags of `run` for one graph, made by `#[derive(clap::Args)]`, and the input they make.
pub trait Input: clap::Args + Send + 'static {
    /// The graph's state.
    type State: State;

    /// Makes the input of a run. What cannot be right (a folder that is not there) is refused here,
    /// before anything is stored.
    ///
    /// # Errors
    /// Whatever is wrong, as a sentence for the one who typed it.
    fn input(self) -> Result<<Self::State as State>::Update, InputError>;

    /// What a finished run has to show, as text for people. Default: nothing.
    fn result(state: &Self::State) -> Option<String> {
        let _ = state;
        None
    }
}

/// Makes the flags of an example run; it is given the folder that `demo --docs` names.
type Example = Box<dyn Fn(Option<&Path>) -> Result<Vec<OsString>, InputError> + Send + Sync>;

/// A graph with its flags: what the commands can run.
pub struct Entry {
    built: Result<Arc<dyn Known>, BuildError>,
    example: Option<Example>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.built.as_ref().map(|known| &known.view().name);
        f.debug_struct("Entry")
            .field("graph", &name)
            .finish_non_exhaustive()
    }
}

impl Entry {
    /// A graph as it was built, under its own name. One that could not be built is reported when
    /// the program starts.
    pub fn new<A: Input>(graph: Result<Graph<A::State>, BuildError>) -> Self {
        let built = graph.map(|graph| {
            let known: Arc<dyn Known> = Arc::new(Flagged::<A> {
                graph,
                types: PhantomData,
            });
            known
        });
        Self {
            built,
            example: None,
        }
    }

    /// Gives the graph an example run for `demo`: its flags, made when it is asked for. It is given
    /// the folder that `--docs` names, if one was named.
    #[must_use]
    pub fn example(
        mut self,
        flags: impl Fn(Option<&Path>) -> Result<Vec<OsString>, InputError> + Send + Sync + 'static,
    ) -> Self {
        self.example = Some(Box::new(flags));
        self
    }

    pub(super) fn known(&self) -> Result<&Arc<dyn Known>, Failure> {
        let refused = |error: &BuildError| Failure::new(Exit::Failed, error.to_string());
        self.built.as_ref().map_err(refused)
    }

    pub(super) fn flags_of_example(
        &self,
        folder: Option<&Path>,
    ) -> Option<Result<Vec<OsString>, InputError>> {
        self.example.as_ref().map(|flags| flags(folder))
    }
}

/// A graph without the types of its state and its flags.
pub(super) trait Known: Send + Sync {
    fn view(&self) -> &GraphView;

    fn fingerprint(&self) -> [u8; 16];

    /// Adds the graph's flags to a command.
    fn flags(&self, command: clap::Command) -> clap::Command;

    /// A start with the flags that were given.
    fn start(
        &self,
        given: &ArgMatches,
        run: Option<RunId>,
        abandon: bool,
    ) -> Result<Opening, Failure>;

    /// A resume.
    fn go_on(&self) -> Opening;

    /// The state at the head of a thread.
    fn state<'a>(
        &'a self,
        store: Arc<dyn CheckpointStore>,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Value, RunError>>;

    /// The state at a checkpoint of a thread.
    fn state_at<'a>(
        &'a self,
        store: Arc<dyn CheckpointStore>,
        thread: &'a ThreadId,
        at: Seq,
    ) -> BoxFuture<'a, Result<Value, RunError>>;
}

struct Flagged<A: Input> {
    graph: Graph<A::State>,
    types: PhantomData<fn() -> A>,
}

impl<A: Input> Flagged<A> {
    fn opening(&self, command: Command<A::State>) -> Opening {
        let graph = self.graph.clone();
        Box::new(move |thread, store, options| {
            let runner = Runner::new(graph).shared_store(store).options(options);
            let live: Box<dyn Live> = Box::new(Typed::<A>::new(runner.stream(thread, command)));
            live
        })
    }
}

impl<A: Input> Known for Flagged<A> {
    fn view(&self) -> &GraphView {
        self.graph.view()
    }

    fn fingerprint(&self) -> [u8; 16] {
        self.graph.fingerprint()
    }

    fn flags(&self, command: clap::Command) -> clap::Command {
        A::augment_args(command)
    }

    fn start(
        &self,
        given: &ArgMatches,
        run: Option<RunId>,
        abandon: bool,
    ) -> Result<Opening, Failure> {
        let flags =
            A::from_arg_matches(given).map_err(|error| Failure::usage(error.to_string()))?;
        let input = flags.input().map_err(|error| {
            let mut what = error.to_string();
            let mut cause = error.source();
            while let Some(error) = cause {
                what = format!("{what}: {error}");
                cause = error.source();
            }
            Failure::usage(what)
        })?;
        let mut command = Command::start(input);
        if let Some(run) = run {
            command = command.run_id(run);
        }
        if abandon {
            command = command.abandon();
        }
        Ok(self.opening(command))
    }

    fn go_on(&self) -> Opening {
        self.opening(Command::go_on())
    }

    fn state<'a>(
        &'a self,
        store: Arc<dyn CheckpointStore>,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Value, RunError>> {
        let runner = Runner::new(self.graph.clone()).shared_store(store);
        Box::pin(async move { Ok(fields(&runner.state(thread).await?)) })
    }

    fn state_at<'a>(
        &'a self,
        store: Arc<dyn CheckpointStore>,
        thread: &'a ThreadId,
        at: Seq,
    ) -> BoxFuture<'a, Result<Value, RunError>> {
        let runner = Runner::new(self.graph.clone()).shared_store(store);
        Box::pin(async move { Ok(fields(&runner.state_at(thread, at).await?)) })
    }
}

/// A state as JSON, field by field.
pub(super) fn fields<S: State>(state: &Snapshot<S>) -> Value {
    let fields = S::fields().iter().map(|field| {
        let value = match field.encode_value(state) {
            Ok(bytes) => json::value(field.codec().number(), &bytes),
            Err(error) => serde_json::json!({"$unencodable": error.to_string()}),
        };
        (field.name().to_owned(), value)
    });
    Value::Object(fields.collect::<Map<_, _>>())
}
