//! What people and programs hand to the commands: words, inputs as JSON, answers, patches, files to
//! import. Whatever it is, a command ends with one of its codes, and not because it broke.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use milepost::cli::{self, Entry, Exit};
use milepost::{Add, Append, Ask, Context, End, Graph, NodeError, Output, Snapshot, State};
use serde::{Deserialize, Serialize};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::corpus::{keep, play};

/// The state of a form: one field of each common kind.
#[derive(Clone, Debug, Default, PartialEq, State)]
struct Form {
    name: String,
    #[reduce(Append)]
    words: Vec<String>,
    #[reduce(Add)]
    sum: u64,
    ratio: f32,
    maybe: Option<i16>,
    kind: Kind,
    pairs: Vec<(u8, bool)>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
enum Kind {
    #[default]
    Plain,
    Sized(u32),
    Named {
        first: String,
        last: Option<char>,
    },
}

#[derive(Serialize, Deserialize)]
struct Fill {
    what: String,
}

impl Ask for Fill {
    type Answer = Kind;
}

fn graph() -> Result<Graph<Form>, milepost::BuildError> {
    let mut g = Graph::builder("form");
    let fill = g.node("fill", async |form: Snapshot<Form>, cx: Context| {
        Ok::<_, NodeError>(match (form.sum, cx.answer::<Fill>("fill")?) {
            (0, None) => Output::ask(
                "fill",
                Fill {
                    what: "kind".to_owned(),
                },
            ),
            (_, kind) => Output::Done(Form::update().kind(kind.unwrap_or_default()), ()),
        })
    });
    g.start(fill);
    g.edge(fill, End);
    g.build()
}

/// Counts panics: the commands tell them as an event, and catch them.
#[derive(Default)]
struct Panics;

static PANICS: AtomicU64 = AtomicU64::new(0);

impl Subscriber for Panics {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        struct Named(bool);
        impl Visit for Named {
            fn record_debug(&mut self, field: &Field, _: &dyn std::fmt::Debug) {
                self.0 |= field.name() == "panic";
            }
        }
        let mut named = Named(false);
        event.record(&mut named);
        PANICS.fetch_add(u64::from(named.0), Ordering::SeqCst);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Runs a command in this process. Returns how it ended.
fn run<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Exit {
    // The first one counts for the whole process.
    let _ = tracing::subscriber::set_global_default(Panics);
    let words = words.into_iter().map(Into::into);
    let exit = cli::run(
        [Entry::of(graph())],
        [OsString::from("form")].into_iter().chain(words),
    );
    assert_eq!(PANICS.load(Ordering::SeqCst), 0, "it broke");
    exit
}

fn word(bytes: &[u8]) -> OsString {
    // What a program is started with has no zero bytes.
    OsString::from_vec(bytes.iter().copied().filter(|byte| *byte != 0).collect())
}

fn named(inputs: &[&str]) -> Vec<(String, Vec<u8>)> {
    let inputs = inputs.iter().enumerate();
    inputs
        .map(|(number, text)| (format!("{number:02}"), text.as_bytes().to_vec()))
        .collect()
}

#[test]
fn a_panic_of_a_command_is_noticed() {
    let _ = tracing::subscriber::set_global_default(Panics);
    std::panic::set_hook(Box::new(|panic| tracing::debug!(%panic, "a panic")));
    let broken = std::panic::catch_unwind(|| panic!("on purpose"));
    assert!(broken.is_err());
    assert_eq!(PANICS.load(Ordering::SeqCst), 1);
}

#[test]
fn inputs_of_a_run() {
    keep(
        "input",
        &named(&[
            r#"{"name":"n","words":["a","b"],"sum":3,"ratio":0.5,"maybe":null}"#,
            r#"{"kind":{"named":{"first":"x","last":"y"}},"pairs":[[1,true],[2,false]]}"#,
            r#"{"kind":{"sized":7},"maybe":-5,"sum":18446744073709551615}"#,
            r#"{"kind":"plain","words":[],"ratio":1e300}"#,
        ]),
    );
    play("input", 400, |bytes| {
        let start = ["--store", "memory", "--json", "run", "form", "--input"];
        let exit = run(start.map(OsString::from).into_iter().chain([word(bytes)]));
        assert!(
            matches!(exit, Exit::Done | Exit::Waiting | Exit::Usage),
            "{exit:?}"
        );
    });
}

#[test]
fn words_of_a_command_line() {
    keep(
        "words",
        &named(&[
            "--store\0memory\0run\0form\0--name\0n\0--sum\x003\0--words\0a\0--words\0b",
            "--store\0memory\0--json\0run\0form\0--kind\0{\"sized\":3}\0--ratio\0-1.5",
            "--store\0memory\0run\0form\0--pairs\0[[1,true]]\0--thread\0t\0--step-limit\x007",
            "--store\0memory\0threads\0--json",
            "graphs\0show\0form",
            "dot\0form\0--format\0mermaid",
            "--store\0nosuch\0show\0t\0--at\x005",
            "--store\0nosuch\0diff\0t\x001\x002",
            "--store\0nosuch\0answer\0t\x001:fill.fill\0yes",
            "completions\0bash",
        ]),
    );
    let folder = tempfile::tempdir().unwrap();
    std::env::set_current_dir(folder.path()).unwrap();
    play("words", 800, |bytes| {
        let words: Vec<_> = bytes.split(|byte| *byte == 0).map(word).collect();
        // A worker waits for ever, and so does a question on a terminal or a piped input.
        let waits = |word: &OsString| {
            let word = word.to_string_lossy();
            ["worker", "follow", "demo", "new", "-"]
                .iter()
                .any(|one| *one == word)
                || word.starts_with("--f")
                || word == "-"
        };
        if !words.iter().any(waits) {
            run(words);
        }
    });
}

/// A store with a thread that waits for an answer.
fn asked(folder: &Path) -> String {
    let store = folder.join("store").to_str().unwrap().to_owned();
    let start = [
        "--store", &store, "run", "form", "--thread", "t", "--sum", "0",
    ];
    assert_eq!(run(start), Exit::Waiting);
    store
}

#[test]
fn answers() {
    keep(
        "answer",
        &named(&[
            r#""plain""#,
            "plain",
            r#"{"sized":4294967295}"#,
            r#"{"named":{"first":"x","last":null}}"#,
        ]),
    );
    let folder = tempfile::tempdir().unwrap();
    let store = asked(folder.path());
    play("answer", 120, |bytes| {
        let start = ["--store", &store, "--json", "answer", "t", "--"];
        match run(start.map(OsString::from).into_iter().chain([word(bytes)])) {
            // Answered: ask once more.
            Exit::Done => assert_eq!(
                run([
                    "--store", &store, "run", "form", "--thread", "t", "--sum", "0"
                ]),
                Exit::Waiting
            ),
            exit => assert!(matches!(exit, Exit::Usage | Exit::Waiting), "{exit:?}"),
        }
    });
}

#[test]
fn patches() {
    let folder = tempfile::tempdir().unwrap();
    let store = asked(folder.path());
    play("input", 120, |bytes| {
        let start = [
            "--store", &store, "--json", "patch", "t", "--as", "fill", "--input",
        ];
        let exit = run(start.map(OsString::from).into_iter().chain([word(bytes)]));
        assert!(
            matches!(
                exit,
                Exit::Done | Exit::Waiting | Exit::Usage | Exit::Failed
            ),
            "{exit:?}"
        );
    });
}

#[test]
fn files_to_import() {
    let folder = tempfile::tempdir().unwrap();
    let store = asked(folder.path());
    let file = folder.path().join("export.jsonl");
    let path = file.to_str().unwrap().to_owned();
    assert_eq!(
        run(["--store", &store, "export", "--all", "--out", &path]),
        Exit::Done
    );
    if std::env::var_os("MILEPOST_BLESS").is_some() {
        keep(
            "export",
            &[("00.jsonl".to_owned(), std::fs::read(&file).unwrap())],
        );
    }
    let into = folder.path().join("into").to_str().unwrap().to_owned();
    let mut imported = 0;
    play("export", 600, |bytes| {
        std::fs::write(&file, bytes).unwrap();
        match run(["--store", &into, "import", &path, "--json"]) {
            Exit::Done => {
                imported += 1;
                assert_eq!(run(["--store", &into, "doctor"]), Exit::Done);
                std::fs::remove_dir_all(&into).unwrap();
            }
            exit => assert!(matches!(exit, Exit::Usage), "{exit:?}"),
        }
    });
    assert!(imported > 0, "the sound one is taken");
}
