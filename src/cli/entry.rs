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
use super::flags::Flags;
use super::json;
use super::shell;
use crate::store::CheckpointStore;
use crate::{
    Answers, AsNode, Branch, BuildError, Command, Graph, GraphView, Moved, ReplayReport, RunError,
    RunId, Runner, Seq, Snapshot, State, TaskPath, ThreadId,
};

/// Why flags make no input.
pub type InputError = Box<dyn Error + Send + Sync>;

/// The flags of `run` for one graph, made by `#[derive(clap::Args)]`, and the input they make.
///
/// For an input that needs checks or work of its own; [`Entry::of`] makes one flag a field and
/// needs none of this.
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
    /// A graph as it was built, under its own name, with one flag for each field of its state. One
    /// that could not be built is reported when the program starts.
    ///
    /// A field `max_size` is given by `--max-size`; its doc comment is the flag's help. A text is
    /// taken as it is typed, also numbers, `true`, `false` and the names of an enum's variants;
    /// a list of those takes the flag several times; everything else is JSON. `@FILE` is the
    /// content of a file, `-` is what is piped in, and `--input` takes all fields as one JSON
    /// object. What is given is what the field's reducer is given: items for
    /// [`Append`](crate::Append), a number to add for [`Add`](crate::Add).
    pub fn of<S: State>(graph: Result<Graph<S>, BuildError>) -> Self {
        Self::showing(graph, |_| None)
    }

    /// Like [`of`](Self::of), and says what a finished run has to show, as text for people.
    pub fn showing<S: State>(
        graph: Result<Graph<S>, BuildError>,
        result: fn(&S) -> Option<String>,
    ) -> Self {
        Self::held(graph.map(|graph| {
            let flags = Flags::of::<S>(&graph.view().name, &shell::taken());
            (graph, Box::new(flags) as Box<dyn Inlet<S>>, result)
        }))
    }

    /// A graph as it was built, under its own name, with flags of one's own. One that could not be
    /// built is reported when the program starts.
    pub fn new<A: Input>(graph: Result<Graph<A::State>, BuildError>) -> Self {
        Self::held(graph.map(|graph| {
            let inlet: Box<dyn Inlet<A::State>> = Box::new(OwnArgs::<A>(PhantomData));
            (graph, inlet, A::result as fn(&A::State) -> Option<String>)
        }))
    }

    fn held<S: State>(parts: Result<Parts<S>, BuildError>) -> Self {
        let built = parts.map(|(graph, inlet, result)| {
            let known: Arc<dyn Known> = Arc::new(Held {
                graph,
                inlet,
                result,
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
        let refused = |error: &BuildError| {
            Failure::new(Exit::Failed, error.to_string()).next("mend the graph, and build it again")
        };
        self.built.as_ref().map_err(refused)
    }

    pub(super) fn has_example(&self) -> bool {
        self.example.is_some()
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

    /// The words that start a run with a field that was missing.
    fn words_for(&self, field: &str) -> String;

    /// A start with the flags that were given. What comes next is said without the program's name.
    fn start(
        &self,
        given: &ArgMatches,
        run: Option<RunId>,
        abandon: bool,
    ) -> Result<Opening, Failure>;

    /// A resume.
    fn go_on(&self) -> Opening;

    /// A resume after what these tasks had brought was discarded.
    fn retry(&self, tasks: Vec<TaskPath>) -> Opening;

    /// A resume after answers.
    fn answer(&self, answers: Answers) -> Opening;

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

    /// Moves a thread.
    fn travel<'a>(
        &'a self,
        store: Arc<dyn CheckpointStore>,
        thread: &'a ThreadId,
        way: Way,
    ) -> BoxFuture<'a, Result<Moved, RunError>>;

    /// Adds a flag for each field to a command.
    fn fields(&self, command: clap::Command) -> clap::Command;

    /// A patch with the flags that were given.
    fn patch(
        &self,
        given: &ArgMatches,
        clear: &[String],
        node: AsNode,
    ) -> Result<Patching, Failure>;

    /// Merges and decides again what a thread has recorded.
    fn replay<'a>(
        &'a self,
        store: Arc<dyn CheckpointStore>,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ReplayReport, RunError>>;
}

/// Where a thread is to go.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    Fork(Seq),
    Rewind(Seq),
    Switch(Branch),
}

/// A patch that waits for its thread.
pub(super) type Patching = Box<
    dyn FnOnce(Arc<dyn CheckpointStore>, ThreadId) -> BoxFuture<'static, Result<Moved, RunError>>
        + Send,
>;

/// Where the input of a run comes from.
trait Inlet<S: State>: Send + Sync {
    fn flags(&self, command: clap::Command) -> clap::Command;

    /// Reads the input of a run of this graph. What comes next is said without the program's name.
    fn input(&self, graph: &str, given: &ArgMatches) -> Result<S::Update, Failure>;

    /// The words that give a field, where they are known.
    fn words_for(&self, _field: &str) -> Option<String> {
        None
    }
}

/// Flags of the user's own.
struct OwnArgs<A>(PhantomData<fn() -> A>);

impl<A: Input> Inlet<A::State> for OwnArgs<A> {
    fn flags(&self, command: clap::Command) -> clap::Command {
        A::augment_args(command)
    }

    fn input(
        &self,
        graph: &str,
        given: &ArgMatches,
    ) -> Result<<A::State as State>::Update, Failure> {
        let help = help(graph);
        let flags = A::from_arg_matches(given)
            .map_err(|error| Failure::usage(error.to_string()).next(&help))?;
        flags
            .input()
            .map_err(|error| Failure::usage(causes(&*error)).next(&help))
    }
}

impl<S: State> Inlet<S> for Flags {
    fn flags(&self, command: clap::Command) -> clap::Command {
        self.add_to(command)
    }

    fn input(&self, _: &str, given: &ArgMatches) -> Result<S::Update, Failure> {
        let mut update = S::update();
        merge::<S>(self, given, &mut update)?;
        Ok(update)
    }

    fn words_for(&self, field: &str) -> Option<String> {
        Flags::words_for(self, field)
    }
}

/// Adds what was given for the fields to an update.
fn merge<S: State>(
    flags: &Flags,
    given: &ArgMatches,
    update: &mut S::Update,
) -> Result<(), Failure> {
    for (place, bytes) in flags.read(given)? {
        S::fields()[place]
            .merge_named(update, &bytes)
            .map_err(|error| flags.refused(place, &error))?;
    }
    Ok(())
}

/// What an entry is made of.
type Parts<S> = (Graph<S>, Box<dyn Inlet<S>>, fn(&S) -> Option<String>);

struct Held<S: State> {
    graph: Graph<S>,
    inlet: Box<dyn Inlet<S>>,
    result: fn(&S) -> Option<String>,
}

impl<S: State> Held<S> {
    /// A flag for each field, also where runs have flags of their own.
    fn by_field(&self) -> Flags {
        Flags::of::<S>(&self.view().name, &shell::taken())
    }

    fn opening(&self, command: Command<S>) -> Opening {
        let (graph, result) = (self.graph.clone(), self.result);
        Box::new(move |thread, store, options| {
            let runner = Runner::new(graph).shared_store(store).options(options);
            let live: Box<dyn Live> = Box::new(Typed::new(runner.stream(thread, command), result));
            live
        })
    }
}

impl<S: State> Known for Held<S> {
    fn view(&self) -> &GraphView {
        self.graph.view()
    }

    fn fingerprint(&self) -> [u8; 16] {
        self.graph.fingerprint()
    }

    fn flags(&self, command: clap::Command) -> clap::Command {
        self.inlet.flags(command)
    }

    fn words_for(&self, field: &str) -> String {
        let words = self.inlet.words_for(field);
        words.unwrap_or_else(|| help(&self.view().name))
    }

    fn start(
        &self,
        given: &ArgMatches,
        run: Option<RunId>,
        abandon: bool,
    ) -> Result<Opening, Failure> {
        let mut command = Command::start(self.inlet.input(&self.view().name, given)?);
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

    fn retry(&self, tasks: Vec<TaskPath>) -> Opening {
        self.opening(Command::retry(tasks))
    }

    fn answer(&self, answers: Answers) -> Opening {
        self.opening(Command::answer(answers))
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

    fn travel<'a>(
        &'a self,
        store: Arc<dyn CheckpointStore>,
        thread: &'a ThreadId,
        way: Way,
    ) -> BoxFuture<'a, Result<Moved, RunError>> {
        let runner = Runner::new(self.graph.clone()).shared_store(store);
        Box::pin(async move {
            match way {
                Way::Fork(seq) => runner.fork(thread, seq).await,
                Way::Rewind(seq) => runner.rewind(thread, seq).await,
                Way::Switch(branch) => runner.switch(thread, branch).await,
            }
        })
    }

    fn fields(&self, command: clap::Command) -> clap::Command {
        self.by_field().add_to(command)
    }

    fn patch(
        &self,
        given: &ArgMatches,
        clear: &[String],
        node: AsNode,
    ) -> Result<Patching, Failure> {
        let mut update = S::update();
        for name in clear {
            let found = S::fields().iter().find(|field| field.name() == name);
            let Some(field) = found else {
                let known: Vec<_> = S::fields().iter().map(|field| field.name()).collect();
                let what = format!("there is no field {name}; there are {}", known.join(", "));
                return Err(Failure::usage(what).next(help(&self.view().name)));
            };
            field.clear(&mut update);
        }
        merge::<S>(&self.by_field(), given, &mut update)?;
        let graph = self.graph.clone();
        Ok(Box::new(move |store, thread| {
            let runner = Runner::new(graph).shared_store(store);
            Box::pin(async move { runner.patch(&thread, update, node).await })
        }))
    }

    fn replay<'a>(
        &'a self,
        store: Arc<dyn CheckpointStore>,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ReplayReport, RunError>> {
        let runner = Runner::new(self.graph.clone()).shared_store(store);
        Box::pin(async move { runner.replay(thread).await })
    }
}

/// An error with its causes, on one line.
pub(super) fn causes(error: &(dyn Error + 'static)) -> String {
    let mut what = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        what = format!("{what}: {error}");
        cause = error.source();
    }
    what
}

/// The words that show the flags of a graph.
fn help(graph: &str) -> String {
    format!("run {} --help", shell::quoted(graph))
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
