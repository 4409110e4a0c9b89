//! What a caller gives for one call: read by nodes, and found nowhere else.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use milepost::store::SledStore;
use milepost::{
    Answers, Ask, Call, Command, Context, End, Ended, ErrorClass, Graph, Layer, Next, Node,
    NodeError, NodeName, Output, Policy, Retry, RunContext, RunError, RunOptions, Runner, Snapshot,
    State, dot, events,
};
use serde::{Deserialize, Serialize};

use crate::support::{Calls, DOORS, Doc, DocUpdate, Place, drive, line, on_both, thread, with};

const CANARY: &str = "sk-CANARY-1";

/// What a caller gives. Its `Debug` shows it, so that whoever prints it is found out.
#[derive(Debug)]
struct Tenant {
    key: String,
}

impl Tenant {
    fn canary() -> Self {
        let key = CANARY.to_owned();
        Self { key }
    }
}

/// May the provider be asked?
#[derive(Debug, Serialize, Deserialize)]
struct Approve;

impl Ask for Approve {
    type Answer = bool;
}

/// A client with a key of its own.
#[derive(Debug)]
struct Provider {
    key: String,
    calls: Calls,
}

#[async_trait]
impl Node<Doc> for Provider {
    type Output = Output<DocUpdate, (), Approve>;

    async fn run(&self, _: Snapshot<Doc>, cx: Context) -> Result<Self::Output, NodeError> {
        let tenant = cx.run_context::<Tenant>()?;
        assert_eq!((self.key.as_str(), tenant.key.as_str()), (CANARY, CANARY));
        if cx.answer::<Approve>("approve")?.is_none() {
            return Ok(Output::ask("approve", Approve));
        }
        cx.token("thinking").await;
        cx.emit("asked", &"the provider").await?;
        cx.step("once", async { Ok(1_u64) }).await?;
        if self.calls.hit("provider") == 1 {
            return Err(NodeError::permanent("401: the key was refused"));
        }
        Ok(Output::Done(line("answered"), ()))
    }
}

fn graph(calls: &Calls) -> Graph<Doc> {
    let mut g = Graph::builder("secret");
    let provider = g.object(
        "provider",
        Provider {
            key: CANARY.to_owned(),
            calls: calls.clone(),
        },
    );
    // It does not need what the caller gives.
    let last = g.node("last", async |_: Snapshot<Doc>, cx: Context| {
        let found = cx.run_context::<Tenant>().is_ok();
        Ok(line(format!("given: {found}")))
    });
    g.start(provider);
    g.edge(provider, last);
    g.edge(last, End);
    g.build().unwrap()
}

/// Shows everything that a layer sees.
#[derive(Clone, Default)]
struct Listens(Arc<Mutex<String>>);

#[async_trait]
impl Layer for Listens {
    async fn call(&self, call: &Call, next: Next<'_>) -> Result<(), NodeError> {
        writeln!(self.0.lock().unwrap(), "{call:?} {next:?}").unwrap();
        next.run(call).await
    }
}

/// Everything in a folder, as bytes.
fn files(folder: &Path, all: &mut Vec<u8>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, all),
            false => all.extend(std::fs::read(path).unwrap_or_default()),
        }
    }
}

/// C68: a secret that is given for a run occurs in nothing that is stored, told, drawn or printed;
/// without it, what needs it says so, and what does not goes on.
#[test]
fn what_a_caller_gives_is_found_nowhere() {
    on_both(async || {
        let folder = tempfile::tempdir().unwrap();
        let (calls, heard) = (Calls::default(), Listens::default());
        let t = thread("t");
        let mut shown = String::new();
        let open = |context: bool| {
            let store = SledStore::open(folder.path().join("s")).unwrap();
            let options = RunOptions::new().layer(heard.clone());
            let options = match context {
                true => options.context(Tenant::canary()),
                false => options,
            };
            (Runner::new(graph(&calls)).store(store), options)
        };
        // The runner gives it, then the command, then nobody.
        let (runner, options) = open(true);
        write!(shown, "{options:?}{options:#?}").unwrap();
        let runner = runner.options(options);
        write!(
            shown,
            "{runner:?}{:?}{:?}",
            runner.graph(),
            runner.graph().view()
        )
        .unwrap();
        let start = Command::start(Doc::update());
        let mut stream = runner.stream(&t, start);
        write!(shown, "{stream:?}").unwrap();
        while let Some(event) = futures::StreamExt::next(&mut stream).await {
            writeln!(shown, "{event:?}{}", serde_json::to_string(&event).unwrap()).unwrap();
        }
        let paused = stream.report().await.unwrap();
        assert_eq!(paused.ended, Ended::Paused { questions: 1 });
        writeln!(shown, "{paused:?}").unwrap();
        drop(runner);

        let (runner, options) = open(false);
        let runner = runner.options(options);
        let answer = || Command::answer(Answers::only(&true)).context(Tenant::canary());
        write!(shown, "{:?}{:#?}", answer(), answer()).unwrap();
        let mut run = runner.open(&t, answer()).await.unwrap();
        let failed = run.finish().await.unwrap_err();
        assert!(failed.to_string().contains("401"), "{failed}");
        write!(shown, "{run:?}{failed:?}{failed}").unwrap();
        drop(run);

        // Nobody gives it: no copy was kept.
        let missing = runner.run(&t, Command::go_on()).await.unwrap_err();
        let RunError::Node {
            error, attempts, ..
        } = &missing
        else {
            panic!("{missing:?}")
        };
        assert_eq!((error.class(), *attempts), (ErrorClass::MissingContext, 1));
        assert_eq!(missing.class(), "missing_context");
        let text = missing.to_string();
        for part in [
            "\"provider\"",
            "Tenant",
            "Command::context",
            "RunOptions::context",
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        write!(shown, "{missing:?}{text}").unwrap();

        let again = Command::go_on().context(Tenant::canary());
        let mut run = runner.open(&t, again).await.unwrap();
        run.step().await.unwrap();
        drop(run);
        // What is left does not need it.
        let done = runner.run(&t, Command::go_on()).await.unwrap();
        assert_eq!(done.state.log, ["answered", "given: false"]);
        writeln!(shown, "{done:?}").unwrap();
        drop(runner);

        let store = SledStore::open(folder.path().join("s")).unwrap();
        let told = events(&store, &t).await.unwrap();
        let built = graph(&calls);
        let run = dot::Overlay::new(built.view(), &told);
        let drawn = dot::Dot::new(built.view()).run(&run).to_string();
        write!(shown, "{told:?}{drawn}").unwrap();
        write!(shown, "{}", dot::Mermaid::new(built.view())).unwrap();
        write!(shown, "{}", dot::Svg::new(built.view())).unwrap();
        shown.push_str(&heard.0.lock().unwrap());
        drop(store);
        assert!(shown.contains("provider") && drawn.contains("digraph"));
        assert!(!shown.contains(CANARY), "{shown}");
        let mut kept = Vec::new();
        files(folder.path(), &mut kept);
        assert!(kept.windows(8).any(|bytes| bytes == b"provider"));
        let canary = CANARY.as_bytes();
        assert!(!kept.windows(canary.len()).any(|bytes| bytes == canary));
    });
}

/// The command's value goes before the runner's of the same type, for that call, by every door.
#[test]
fn a_call_gives_other_values_than_its_runner() {
    on_both(async || {
        for door in DOORS {
            for place in [Place::Nowhere, Place::memory()] {
                let mut g = Graph::builder("who");
                let who = g.node("who", async |_: Snapshot<Doc>, cx: Context| {
                    let (who, number) = (cx.run_context::<String>()?, cx.run_context::<u64>()?);
                    Ok(line(format!("{who} {number}")))
                });
                g.start(who);
                g.edge(who, End);
                let options = RunOptions::new()
                    .context("runner".to_owned())
                    .context(7_u64);
                let runner = place.runner(g.build().unwrap(), options);
                for (number, own, expected) in [(1, Some("call"), "call 7"), (2, None, "runner 7")]
                {
                    let start = Command::start(Doc::update());
                    let start = match own {
                        Some(own) => start.context(own.to_owned()),
                        None => start,
                    };
                    let t = thread(&format!("t{number}"));
                    let (_, state) = drive(door, &runner, &t, start).await.unwrap();
                    assert_eq!(state.log, [expected], "{door:?}");
                }
            }
        }
    });
}

/// A node that lacks its value is not tried again, and one is tested with a value outside of a run.
#[test]
fn a_missing_value_is_not_tried_again() {
    on_both(async || {
        let calls = Calls::default();
        let mut g = Graph::builder("who");
        let node = async |calls: Calls, _: Snapshot<Doc>, cx: Context| {
            calls.hit("who");
            Ok(line(cx.run_context::<String>()?.as_str()))
        };
        let who = g.node("who", with(calls.clone(), node));
        g.policy(who, Policy::default().retry(Retry::default()));
        g.start(who);
        g.edge(who, End);
        let runner = Runner::new(g.build().unwrap());
        let start = Command::start(Doc::update());
        let missing = runner.run(&thread("t"), start).await.unwrap_err();
        assert_eq!((missing.class(), calls.of("who")), ("missing_context", 1));

        let name = || NodeName::new("who").unwrap();
        let given = RunContext::new().and("tested".to_owned());
        let cx = Context::detached_with(name(), given);
        let update = node(calls.clone(), Snapshot::new(Doc::default()), cx).await;
        let doc = Doc::default().apply(update.unwrap()).unwrap();
        assert_eq!(doc.log, ["tested"]);
        let lacks = node(
            calls,
            Snapshot::new(Doc::default()),
            Context::detached(name()),
        );
        assert_eq!(lacks.await.unwrap_err().class(), ErrorClass::MissingContext);
    });
}
