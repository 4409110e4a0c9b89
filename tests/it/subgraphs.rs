//! A graph as a node of another: it keeps its own state, asks, fails, stops and goes on under the
//! path of the node that runs it.

use std::sync::Arc;
use std::time::Duration;

use milepost::store::{MemoryStore, Severity, Status, check};
use milepost::{
    Answers, Append, Ask, Cancel, Command, Context, End, Ended, ErrorClass, EventKind, Exits,
    Graph, NodeError, NodeKind, Output, Policy, Progress, Question, QuestionId, Retry, RunError,
    RunOptions, Runner, Snapshot, State, WhyDue, agenda, events, history, questions,
};
use serde::{Deserialize, Serialize};

use crate::support::{
    Calls, DOORS, Doc, DocUpdate, Place, Probe, When, drive, lasting, line, listen, on_both, says,
    thread, told, wander, with,
};

/// What the inner graphs know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, State)]
struct Inner {
    #[reduce(Append)]
    notes: Vec<String>,
    n: u64,
}

fn note(text: impl Into<String>) -> InnerUpdate {
    Inner::update().notes(vec![text.into()])
}

/// A question with a number.
#[derive(Serialize, Deserialize)]
struct Which {
    number: u64,
}

impl Ask for Which {
    type Answer = String;
}

type Asks = Output<InnerUpdate, (), Which>;

/// A node that asks, and notes the answer.
async fn asks(
    (calls, name): (Calls, &'static str),
    _: Snapshot<Inner>,
    cx: Context,
) -> Result<Asks, NodeError> {
    calls.hit(name);
    let Some(answer) = cx.answer::<Which>("q")? else {
        return Ok(Output::ask("q", Which { number: 1 }));
    };
    Ok(Output::Done(note(format!("{name} {answer}")), ()))
}

/// A node that notes its name.
async fn notes(
    (calls, name): (Calls, &'static str),
    _: Snapshot<Inner>,
    _: Context,
) -> Result<InnerUpdate, NodeError> {
    calls.hit(name);
    Ok(note(name))
}

/// `n1` → `n2` (asks) → `n3` (asks) → `n4`.
fn two_questions(calls: &Calls) -> Graph<Inner> {
    let mut g = Graph::builder("inner");
    let n1 = g.node("n1", with((calls.clone(), "n1"), notes));
    let n2 = g.node("n2", with((calls.clone(), "n2"), asks));
    let n3 = g.node("n3", with((calls.clone(), "n3"), asks));
    let n4 = g.node("n4", with((calls.clone(), "n4"), notes));
    g.start(n1);
    g.edge(n1, n2);
    g.edge(n2, n3);
    g.edge(n3, n4);
    g.edge(n4, End);
    g.build().unwrap()
}

fn enter(_: &Doc) -> InnerUpdate {
    Inner::update()
}

fn leave(inner: &Inner) -> DocUpdate {
    Doc::update().log(inner.notes.clone())
}

#[derive(Clone, Copy, Exits)]
enum Again {
    Again,
    Enough,
}

/// `p` → `sub` → `q`, or twice around where `rounds` is 2.
fn around(calls: &Calls, inner: Graph<Inner>, rounds: u64) -> Graph<Doc> {
    let mut g = Graph::builder("outer");
    let p = g.node("p", says(calls, "p"));
    let sub = g.subgraph("sub", inner, enter, leave);
    let count = async |calls: Calls, doc: Snapshot<Doc>, _: Context| {
        calls.hit("q");
        Ok::<_, NodeError>(line("q").n(doc.n + 1))
    };
    let q = g.node("q", with(calls.clone(), count));
    g.start(p);
    g.edge(p, sub);
    g.edge(sub, q);
    g.branch(
        q,
        move |doc: &Doc| {
            Ok(if doc.n < rounds {
                Again::Again
            } else {
                Again::Enough
            })
        },
        move |again| match again {
            Again::Again => sub.into(),
            Again::Enough => End.into(),
        },
    );
    g.build().unwrap()
}

fn start() -> Command<Doc> {
    Command::start(Doc::update())
}

fn say(answer: &str) -> Command<Doc> {
    Command::answer(Answers::only(answer))
}

/// C25: two questions inside, the process replaced between the answers or not, in every store.
#[test]
fn questions_inside_are_asked_and_answered_one_after_the_other() {
    on_both(async || {
        for (place, fresh) in [
            (Place::memory(), false),
            (Place::memory(), true),
            (Place::sled(), true),
        ] {
            let calls = Calls::default();
            let t = thread("t");
            let graph = || around(&calls, two_questions(&calls), 1);
            let mut runner = place.runner(graph(), RunOptions::new());
            let mut report = runner.run(&t, start()).await.unwrap();
            for (answer, asked) in [("A", "2:sub[0]/2:n2[0].q"), ("B", "2:sub[0]/3:n3[0].q")] {
                assert_eq!(report.ended, Ended::Paused { questions: 1 });
                let [open] = report.questions.as_slice() else {
                    panic!("one question is open, not {:?}", report.questions)
                };
                assert_eq!(open.id.to_string(), asked);
                assert_eq!(open.read::<Which>().unwrap().number, 1);
                if fresh {
                    drop(runner);
                    let stored = questions(&*place.open().unwrap(), &t).await.unwrap();
                    assert_eq!(stored, report.questions);
                    runner = place.runner(graph(), RunOptions::new());
                }
                // Somebody looks by: nothing moves.
                let again = runner.run(&t, Command::go_on()).await.unwrap();
                assert_eq!(again.questions, report.questions);
                report = runner.run(&t, say(answer)).await.unwrap();
            }
            assert_eq!(report.ended, Ended::Finished);
            assert_eq!(report.state.log, ["p", "n1", "n2 A", "n3 B", "n4", "q"]);
            for (name, count) in [
                ("p", 1),
                ("n1", 1),
                ("n2", 2),
                ("n3", 2),
                ("n4", 1),
                ("q", 1),
            ] {
                assert_eq!(calls.of(name), count, "{name}");
            }
            let repeated = Answers::to("2:sub[0]/2:n2[0].q".parse::<QuestionId>().unwrap(), "A");
            let report = runner.run(&t, Command::answer(repeated)).await.unwrap();
            assert_eq!(report.ended, Ended::Finished);
            drop(runner);
            let store = place.open().unwrap();
            let errors = check(&*store, &t).await.findings;
            let errors: Vec<_> = errors
                .iter()
                .filter(|found| found.severity == Severity::Error)
                .collect();
            assert!(errors.is_empty(), "{errors:?}");
        }
    });
}

/// C25 in a loop: four answers arrive in order, under the path of their round.
#[test]
fn each_round_of_a_loop_asks_for_itself() {
    on_both(async || {
        let calls = Calls::default();
        let place = Place::memory();
        let t = thread("t");
        let graph = around(&calls, two_questions(&calls), 2);
        let runner = place.runner(graph, RunOptions::new());
        let mut report = runner.run(&t, start()).await.unwrap();
        let mut asked = Vec::new();
        for answer in ["A", "B", "C", "D"] {
            assert_eq!(report.questions.len(), 1);
            asked.push(report.questions[0].id.to_string());
            report = runner.run(&t, say(answer)).await.unwrap();
        }
        assert_eq!(
            asked,
            [
                "2:sub[0]/2:n2[0].q",
                "2:sub[0]/3:n3[0].q",
                "4:sub[0]/2:n2[0].q",
                "4:sub[0]/3:n3[0].q"
            ]
        );
        let log = [
            "p", "n1", "n2 A", "n3 B", "n4", "q", "n1", "n2 C", "n3 D", "n4", "q",
        ];
        assert_eq!(report.state.log, log);
        assert_eq!(calls.of("n1"), 2);
    });
}

/// C25 without a store: the handle holds what is inside.
#[test]
fn without_a_store_the_handle_holds_what_is_inside() {
    on_both(async || {
        let calls = Calls::default();
        let graph = around(&calls, two_questions(&calls), 1);
        let runner = Place::Nowhere.runner(graph, RunOptions::new());
        let mut run = runner.open(&thread("t"), start()).await.unwrap();
        let report = run.finish().await.unwrap();
        assert_eq!(report.ended, Ended::Paused { questions: 1 });
        run.answer(Answers::only("A")).await.unwrap();
        let report = run.finish().await.unwrap();
        assert_eq!(report.questions[0].id.to_string(), "2:sub[0]/3:n3[0].q");
        run.answer(Answers::only("B")).await.unwrap();
        let report = run.finish().await.unwrap();
        assert_eq!(report.ended, Ended::Finished);
        assert_eq!(report.state.log, ["p", "n1", "n2 A", "n3 B", "n4", "q"]);
        assert_eq!((calls.of("n1"), calls.of("n2"), calls.of("n4")), (1, 2, 1));
    });
}

/// What waits inside goes with the handle that holds it, on every level.
#[test]
fn what_waits_inside_is_dropped_with_its_handle() {
    on_both(async || {
        let held = Arc::new(());
        let gone = Arc::downgrade(&held);
        let mut low = Graph::builder("low");
        let waits = async |_: Arc<()>, _: Snapshot<Inner>, _: Context| {
            Ok::<Asks, NodeError>(Output::ask("q", Which { number: 1 }))
        };
        let waits = low.node("waits", with(held, waits));
        low.start(waits);
        low.edge(waits, End);
        let mut middle = Graph::builder("middle");
        let low = middle.subgraph(
            "low",
            low.build().unwrap(),
            |_: &Inner| Inner::update(),
            |_| Inner::update(),
        );
        middle.start(low);
        middle.edge(low, End);
        let graph = around(&Calls::default(), middle.build().unwrap(), 1);
        let runner = Place::Nowhere.runner(graph, RunOptions::new());
        let mut run = runner.open(&thread("t"), start()).await.unwrap();
        let report = run.finish().await.unwrap();
        assert_eq!(report.ended, Ended::Paused { questions: 1 });
        drop((report, runner));
        assert!(gone.upgrade().is_some(), "the handle holds it");
        drop(run);
        assert!(gone.upgrade().is_none(), "nothing else does");
    });
}

/// An inner graph that counts from where it begins.
fn counter() -> Graph<Inner> {
    let mut g = Graph::builder("counter");
    let add = g.node("add", async |inner: Snapshot<Inner>, _: Context| {
        let n = inner.n + 1;
        Ok::<_, NodeError>(note(n.to_string()).n(n))
    });
    g.start(add);
    g.edge(add, End);
    g.build().unwrap()
}

/// An outer state that keeps an inner one.
#[derive(Clone, Debug, Default, PartialEq, State)]
struct Keeps {
    kept: Inner,
    #[reduce(Append)]
    seen: Vec<u64>,
}

/// C26 (1): each entry begins anew, through every door.
#[test]
fn each_entry_has_a_state_of_its_own() {
    on_both(async || {
        for door in DOORS {
            for place in [Place::Nowhere, Place::memory()] {
                let calls = Calls::default();
                let graph = around(&calls, counter(), 2);
                let runner = place.runner(graph, RunOptions::new());
                let (ended, state) = drive(door, &runner, &thread("t"), start()).await.unwrap();
                assert_eq!(ended, Ended::Finished);
                assert_eq!(state.log, ["p", "1", "q", "1", "q"], "{door:?} {place:?}");
            }
        }
    });
}

/// C26 (2) and (4): a kept state stays over entries and threads' inputs, and travels with the thread.
#[test]
fn a_kept_state_stays_and_travels_with_the_thread() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let graph = || {
                let mut g = Graph::builder("keeps");
                let sub = g.subgraph_kept(
                    "sub",
                    counter(),
                    Keeps::KEPT,
                    |_| Inner::update(),
                    |inner| Keeps::update().seen(vec![inner.n]),
                );
                g.start(sub);
                g.branch(
                    sub,
                    |keeps: &Keeps| {
                        Ok(if keeps.seen.len() % 2 == 1 {
                            Again::Again
                        } else {
                            Again::Enough
                        })
                    },
                    move |again| match again {
                        Again::Again => sub.into(),
                        Again::Enough => End.into(),
                    },
                );
                g.build().unwrap()
            };
            let t = thread("t");
            let start = || Command::start(Keeps::update());
            let runner = place.runner(graph(), RunOptions::new());
            let report = runner.run(&t, start()).await.unwrap();
            assert_eq!(report.state.seen, [1, 2]);
            drop((runner, report));
            let store = place.open().unwrap();
            let runner = Runner::new(graph()).shared_store(store.clone());
            let report = runner.run(&t, start()).await.unwrap();
            assert_eq!(report.state.seen, [1, 2, 3, 4]);
            assert_eq!(report.state.kept.notes, ["1", "2", "3", "4"]);

            let past = history(&*store, &t).await.unwrap();
            runner.fork(&t, past[1].seq).await.unwrap();
            let report = runner.run(&t, Command::go_on()).await.unwrap();
            assert_eq!(report.state.seen, [1, 2]);
            assert_eq!(report.state.kept.notes, ["1", "2"]);
        }
    });
}

/// C26 (3): many instances at once, each with its own state; what they give comes in item order.
#[test]
fn many_instances_run_side_by_side() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory(), Place::sled()] {
            for seed in 0..8 {
                let graph = fan_out(seed, &Calls::default(), false);
                let runner = place.runner(graph, RunOptions::new().shuffle(seed));
                let t = thread(&format!("t{seed}"));
                let (events, ended) = listen(&runner, &t, start()).await;
                let (_, state) = ended.unwrap();
                assert_eq!(state.log, ["p", "x: x x2", "y: y y2", "z: z z2", "q"]);
                let mut spaces: Vec<_> = events
                    .iter()
                    .filter_map(|event| Some(event.within.as_ref()?.to_string()))
                    .collect();
                spaces.sort();
                spaces.dedup();
                assert_eq!(spaces, ["2:sub[0]", "2:sub[1]", "2:sub[2]"]);
            }
        }
    });
}

/// `p` → `sub` for each of three items → `q`; with a question inside of the second node, or not.
fn fan_out(seed: u64, calls: &Calls, ask: bool) -> Graph<Doc> {
    let mut inner = Graph::builder("inner");
    let first = inner.node(
        "first",
        with(
            (seed, calls.clone()),
            async |(seed, calls): (u64, Calls), inner: Snapshot<Inner>, cx: Context| {
                let item = inner.notes[0].clone();
                calls.hit(&format!("first {item}"));
                wander(seed, u64::from(cx.task().levels()[0].index)).await;
                Ok::<_, NodeError>(Inner::update().n(2))
            },
        ),
    );
    let second = inner.node(
        "second",
        with(
            (ask, calls.clone()),
            async |(ask, calls): (bool, Calls), inner: Snapshot<Inner>, cx: Context| {
                let item = inner.notes[0].clone();
                calls.hit(&format!("second {item}"));
                if !ask {
                    return Ok::<Asks, NodeError>(Output::Done(
                        note(format!("{item}{}", inner.n)),
                        (),
                    ));
                }
                let Some(answer) = cx.answer::<Which>("q")? else {
                    return Ok(Output::ask("q", Which { number: inner.n }));
                };
                Ok(Output::Done(note(format!("{item}{answer}")), ()))
            },
        ),
    );
    inner.start(first);
    inner.edge(first, second);
    inner.edge(second, End);

    let mut g = Graph::builder("outer");
    let p = g.node("p", says(calls, "p"));
    let sub = g.subgraph_worker(
        "sub",
        inner.build().unwrap(),
        |item: &String, _: &Doc| note(item.clone()),
        |item, inner| line(format!("{item}: {}", inner.notes.join(" "))),
    );
    let q = g.node("q", says(calls, "q"));
    g.start(p);
    g.edge(p, sub.each(|_| ["x", "y", "z"].map(str::to_owned).to_vec()));
    g.edge(sub, q);
    g.edge(q, End);
    g.build().unwrap()
}

/// Questions of several instances: answered one by one, out of order, by new processes.
#[test]
fn instances_that_ask_are_answered_each_for_itself() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let calls = Calls::default();
            let t = thread("t");
            let fresh = || place.runner(fan_out(3, &calls, true), RunOptions::new());
            let report = fresh().run(&t, start()).await.unwrap();
            assert_eq!(report.ended, Ended::Paused { questions: 3 });
            let bare = fresh().run(&t, say("no")).await.unwrap_err();
            assert!(matches!(bare, RunError::AmbiguousAnswer { open, .. } if open.len() == 3));
            let of = |index: u32| -> QuestionId {
                format!("2:sub[{index}]/2:second[0].q").parse().unwrap()
            };
            let wrong = Command::answer(Answers::to(of(1), &7));
            let wrong = fresh().run(&t, wrong).await.unwrap_err();
            assert!(matches!(wrong, RunError::WrongAnswer { .. }), "{wrong}");

            let to = |index: u32, text: &str| Command::answer(Answers::to(of(index), text));
            let report = fresh().run(&t, to(1, "B")).await.unwrap();
            assert_eq!(report.ended, Ended::Paused { questions: 2 });
            assert_eq!((calls.of("second x"), calls.of("second y")), (1, 2));
            let other = fresh().run(&t, to(1, "C")).await.unwrap_err();
            assert!(matches!(other, RunError::AlreadyAnswered { .. }), "{other}");
            let both = Answers::to(of(2), "C").and(of(0), "A");
            let report = fresh().run(&t, Command::answer(both)).await.unwrap();
            assert_eq!(report.ended, Ended::Finished);
            assert_eq!(
                report.state.log,
                ["p", "x: x xA", "y: y yB", "z: z zC", "q"]
            );
            for item in ["x", "y", "z"] {
                assert_eq!(calls.of(&format!("first {item}")), 1);
                assert_eq!(calls.of(&format!("second {item}")), 2);
            }
        }
    });
}

/// A store that fails at any of its operations, before or after it was carried out: a new process
/// goes on inside, and what was finished there is not lost.
#[test]
fn a_crash_at_any_store_operation_loses_nothing_inside() {
    on_both(async || {
        for when in [When::Before, When::After] {
            for at in 1.. {
                let calls = Calls::default();
                let t = thread("t");
                let store = MemoryStore::new();
                let probe = Probe::new(store.clone()).failing(at, when);
                let broken = Runner::new(fan_out(at, &calls, true)).store(probe.clone());
                let mut failed = broken.run(&t, start()).await.is_err();
                for index in 0..3 {
                    if !failed {
                        failed = broken.run(&t, to(index)).await.is_err();
                    }
                }
                drop(broken);
                let finished = calls.all();
                let runner = Runner::new(fan_out(at, &calls, true)).store(store.clone());
                let mut report = match runner.run(&t, Command::go_on()).await {
                    Err(RunError::NotFound { .. }) => runner.run(&t, start()).await.unwrap(),
                    other => other.unwrap(),
                };
                while let Some(open) = report.questions.first() {
                    let index = open.id.task().levels()[0].index;
                    report = runner.run(&t, to(index)).await.unwrap();
                }
                assert_eq!(report.ended, Ended::Finished, "{at} {when:?}");
                assert_eq!(
                    report.state.log,
                    ["p", "x: x x0", "y: y y1", "z: z z2", "q"],
                    "{at} {when:?}"
                );
                for item in ["x", "y", "z"] {
                    let again = calls.of(&format!("first {item}"));
                    assert!(again <= 2, "{at} {when:?}: {again} times");
                }
                if !failed {
                    assert_eq!(calls.all(), finished, "an undisturbed run has nothing left");
                    assert!(at > 20, "{at} operations are all that were tried");
                    break;
                }
                let found = check(&store, &t).await.findings;
                let errors = found.iter().filter(|one| one.severity == Severity::Error);
                assert_eq!(errors.count(), 0, "{at} {when:?}: {found:?}");
            }
        }
    });
}

fn to(index: u32) -> Command<Doc> {
    let id: QuestionId = format!("2:sub[{index}]/2:second[0].q").parse().unwrap();
    Command::answer(Answers::to(id, &index.to_string()))
}

/// What is told live is what the log tells, with the same places and the same paths.
#[test]
fn a_listener_and_a_reader_of_the_log_see_the_same() {
    on_both(async || {
        let calls = Calls::default();
        let place = Place::memory();
        let t = thread("t");
        let runner = place.runner(around(&calls, two_questions(&calls), 1), RunOptions::new());
        let mut heard = Vec::new();
        for command in [start(), say("A"), say("B")] {
            let (mut events, ended) = listen(&runner, &t, command).await;
            ended.unwrap();
            heard.append(&mut events);
        }
        let read = events(&*place.open().unwrap(), &t).await.unwrap();
        assert_eq!(told(&lasting(&heard)), told(&read));
        assert_eq!(lasting(&heard), read);
        let inside = read.iter().filter(|event| event.within.is_some());
        let inside: Vec<_> = inside.cloned().collect();
        assert_eq!(told(&inside)[0], "started, next [\"n1\"]");
        assert_eq!(told(&inside)[1], "done 2:sub[0]/1:n1[0] (1)");
        assert!(told(&inside).contains(&"ended finished after 4".to_owned()));
    });
}

/// C28, without a model: what a node streams, here and inside, is what the state keeps; the node is
/// called once, starts and ends are as many, and the order is start, text, update, checkpoint.
#[test]
fn what_was_streamed_is_what_was_kept() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory()] {
            let calls = Calls::default();
            let speaks = async |calls: Calls, _: Snapshot<Inner>, cx: Context| {
                let text = format!("answer #{}", calls.hit("speaks"));
                for piece in text.split_inclusive(' ') {
                    cx.token(piece).await;
                }
                Ok::<_, NodeError>(note(text))
            };
            let mut inner = Graph::builder("inner");
            let model = inner.node("model", with(calls.clone(), speaks));
            inner.start(model);
            inner.edge(model, End);
            let graph = around(&calls, inner.build().unwrap(), 1);
            let runner = place.runner(graph, RunOptions::new());
            let (events, ended) = listen(&runner, &thread("t"), start()).await;
            let (_, state) = ended.unwrap();
            assert_eq!(calls.of("speaks"), 1);
            assert_eq!(state.log[1], "answer #1");
            let tokens = events.iter().filter_map(|event| match &event.kind {
                EventKind::Token { task, text } => Some((task.to_string(), text.as_str())),
                _ => None,
            });
            let (tasks, texts): (Vec<_>, Vec<_>) = tokens.unzip();
            assert_eq!(texts.concat(), state.log[1]);
            assert_eq!(tasks, ["2:sub[0]/1:model[0]"; 2]);
            let of_model = |event: &&milepost::Event| match &event.kind {
                EventKind::TaskStarted { task, .. }
                | EventKind::Token { task, .. }
                | EventKind::TaskFinished { task, .. } => task.levels().len() == 2,
                EventKind::Committed { .. } => event.within.is_some(),
                _ => false,
            };
            let of_model: Vec<_> = events.iter().filter(of_model).cloned().collect();
            let order = [
                "try 1 of 2:sub[0]/1:model[0]",
                "token answer ",
                "token #1",
                "done 2:sub[0]/1:model[0] (1)",
                "committed 1, next []",
            ];
            assert_eq!(told(&of_model), order);
            let count =
                |is: fn(&EventKind) -> bool| events.iter().filter(|one| is(&one.kind)).count();
            assert_eq!(
                count(|kind| matches!(kind, EventKind::TaskStarted { .. })),
                count(|kind| matches!(kind, EventKind::TaskFinished { .. }))
            );
        }
    });
}

/// An inner node that fails leaves what was finished inside; resume and retry go on behind it.
#[test]
fn a_failure_inside_costs_only_the_node_that_failed() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory(), Place::sled()] {
            for retry in [false, true] {
                let calls = Calls::default();
                let graph = || {
                    let mut inner = Graph::builder("inner");
                    let n1 = inner.node("n1", with((calls.clone(), "n1"), notes));
                    let fails = async |calls: Calls, _: Snapshot<Inner>, _: Context| match calls
                        .hit("n2")
                    {
                        1 => Err(NodeError::transient("not now")),
                        _ => Ok(note("n2")),
                    };
                    let n2 = inner.node("n2", with(calls.clone(), fails));
                    inner.start(n1);
                    inner.edge(n1, n2);
                    inner.edge(n2, End);
                    let mut g = Graph::builder("outer");
                    let sub = g.subgraph("sub", inner.build().unwrap(), enter, leave);
                    g.start(sub);
                    g.edge(sub, End);
                    if retry {
                        let retry = Retry {
                            first_wait: Duration::from_millis(1),
                            ..Retry::default()
                        };
                        g.policy(sub, Policy::default().retry(retry));
                    }
                    g.build().unwrap()
                };
                let t = thread(if retry { "retried" } else { "resumed" });
                let runner = place.runner(graph(), RunOptions::new());
                let mut run = runner.open(&t, start()).await.unwrap();
                let mut ended = run.finish().await;
                if !retry {
                    let error = ended.unwrap_err();
                    let RunError::Node { task, error, .. } = &error else {
                        panic!("{error}")
                    };
                    assert_eq!(task.to_string(), "1:sub[0]");
                    assert_eq!(error.class(), ErrorClass::Transient);
                    assert!(error.full().contains("2:n2[0]"), "{}", error.full());
                    assert!(error.full().contains("not now"), "{}", error.full());
                    if let Place::Nowhere = place {
                        ended = run.finish().await;
                    } else {
                        drop((run, runner));
                        let runner = place.runner(graph(), RunOptions::new());
                        ended = runner.run(&t, Command::go_on()).await;
                    }
                }
                assert_eq!(ended.unwrap().state.log, ["n1", "n2"]);
                assert_eq!((calls.of("n1"), calls.of("n2")), (1, 2));
            }
        }
    });
}

/// A node around a graph that takes too long is tried again, and goes on where it was cut, with a
/// store and without one.
#[test]
fn a_timeout_cuts_a_graph_inside_where_it_stands() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory()] {
            let calls = Calls::default();
            let mut inner = Graph::builder("inner");
            let n1 = inner.node("n1", with((calls.clone(), "n1"), notes));
            let hangs = async |calls: Calls, _: Snapshot<Inner>, _: Context| {
                if calls.hit("n2") == 1 {
                    std::future::pending::<()>().await;
                }
                Ok::<_, NodeError>(note("n2"))
            };
            let n2 = inner.node("n2", with(calls.clone(), hangs));
            inner.start(n1);
            inner.edge(n1, n2);
            inner.edge(n2, End);
            let mut g = Graph::builder("outer");
            let sub = g.subgraph("sub", inner.build().unwrap(), enter, leave);
            g.start(sub);
            g.edge(sub, End);
            let retry = Retry {
                first_wait: Duration::from_millis(1),
                ..Retry::default()
            };
            let policy = Policy::default().retry(retry);
            g.policy(sub, policy.timeout(Duration::from_millis(50)));
            let runner = place.runner(g.build().unwrap(), RunOptions::new());
            let report = runner.run(&thread("t"), start()).await.unwrap();
            assert_eq!(report.state.log, ["n1", "n2"], "{place:?}");
            assert_eq!((calls.of("n1"), calls.of("n2")), (1, 2), "{place:?}");
        }
    });
}

/// A question inside whose time is over is answered by its default, when the thread is taken up.
#[test]
fn a_question_inside_expires_with_its_default() {
    on_both(async || {
        let place = Place::memory();
        let calls = Calls::default();
        let t = thread("t");
        let mut inner = Graph::builder("inner");
        let asks = async |calls: Calls, _: Snapshot<Inner>, cx: Context| {
            calls.hit("asks");
            let Some(answer) = cx.answer::<Which>("q")? else {
                let question = Question::new("q", Which { number: 1 });
                let nobody = "nobody".to_owned();
                let question = question.expires(Duration::ZERO).or_else(&nobody);
                return Ok(Output::ask_all([question]));
            };
            Ok::<Asks, NodeError>(Output::Done(note(answer), ()))
        };
        let n = inner.node("n", with(calls.clone(), asks));
        inner.start(n);
        inner.edge(n, End);
        let graph = around(&calls, inner.build().unwrap(), 1);
        let runner = place.runner(graph, RunOptions::new());
        let mut report = runner.run(&t, start()).await.unwrap();
        if !report.ended.is_finished() {
            let store = place.open().unwrap();
            let due = agenda(&*store, std::time::SystemTime::now()).await.unwrap();
            assert_eq!(due.due[0].why, WhyDue::Expired);
            report = runner.run(&t, Command::go_on()).await.unwrap();
        }
        assert_eq!(report.state.log, ["p", "nobody", "q"]);
        assert_eq!(calls.of("asks"), 2);
    });
}

/// C65 (3): a loop inside that never ends stops at the limit, which says whose it is; own limits and
/// those of the call both hold, and the next call goes on.
#[test]
fn an_endless_loop_inside_stops_at_its_limit() {
    on_both(async || {
        for (place, own, call, limit) in [
            (Place::memory(), None, 5, 5),
            (Place::sled(), Some(3), 5, 3),
            (Place::memory(), Some(9), 5, 5),
            (Place::Nowhere, Some(3), 5, 3),
        ] {
            let calls = Calls::default();
            let mut inner = Graph::builder("inner");
            let spin = async |calls: Calls, _: Snapshot<Inner>, cx: Context| {
                calls.hit(&cx.remaining_steps().to_string());
                Ok::<_, NodeError>((Inner::update(), Again::Again))
            };
            let spin = inner.node("spin", with(calls.clone(), spin));
            inner.start(spin);
            inner.wire(spin, move |again| match again {
                Again::Again => spin.into(),
                Again::Enough => End.into(),
            });
            let mut g = Graph::builder("outer");
            let sub = g.subgraph("sub", inner.build().unwrap(), enter, leave);
            if let Some(own) = own {
                g.policy(sub, Policy::default().step_limit(own));
            }
            g.start(sub);
            g.edge(sub, End);
            let runner = place.runner(g.build().unwrap(), RunOptions::new().step_limit(call));
            let mut run = runner.open(&thread("t"), start()).await.unwrap();
            let report = run.finish().await.unwrap();
            assert_eq!(report.ended, Ended::StepLimit { limit });
            assert_eq!(report.limited.unwrap().to_string(), "1:sub[0]");
            let seen: Vec<_> = (1..=limit).map(|left| left.to_string()).collect();
            assert_eq!(calls.all().into_keys().collect::<Vec<_>>(), seen);
            drop(run);
            if !matches!(place, Place::Nowhere) {
                let report = runner.run(&thread("t"), Command::go_on()).await.unwrap();
                assert_eq!(report.ended, Ended::StepLimit { limit });
                assert_eq!(calls.of("1"), 2);
            }
        }
    });
}

/// C23, its subgraph part: back to before the subgraph, it asks again, and its earlier nodes are not
/// entered again where the thread stands inside.
#[test]
fn going_back_asks_again_inside() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let calls = Calls::default();
            let t = thread("t");
            let store = place.open().unwrap();
            let graph = around(&calls, two_questions(&calls), 1);
            let runner = Runner::new(graph).shared_store(store.clone());
            runner.run(&t, start()).await.unwrap();
            runner.run(&t, say("A")).await.unwrap();
            let report = runner.run(&t, say("B")).await.unwrap();
            assert_eq!(report.ended, Ended::Finished);
            let past = history(&*store, &t).await.unwrap();
            let before = past[1].seq;
            runner.fork(&t, before).await.unwrap();
            let report = runner.run(&t, Command::go_on()).await.unwrap();
            assert_eq!(report.questions.len(), 1, "asked again on the new branch");
            assert_eq!(report.questions[0].id.to_string(), "2:sub[0]/2:n2[0].q");
            let report = runner.run(&t, say("C")).await.unwrap();
            assert_eq!(report.questions[0].id.to_string(), "2:sub[0]/3:n3[0].q");
            assert_eq!(calls.of("n1"), 2);
            let report = runner.run(&t, say("D")).await.unwrap();
            assert_eq!(report.state.log, ["p", "n1", "n2 C", "n3 D", "n4", "q"]);
            let old = past.last().unwrap().seq;
            let old = runner.state_at(&t, old).await.unwrap();
            assert_eq!(old.log, ["p", "n1", "n2 A", "n3 B", "n4", "q"]);
        }
    });
}

/// A subgraph in a subgraph: questions, steps and crashes on the innermost level.
#[test]
fn a_subgraph_may_run_a_subgraph() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory(), Place::sled()] {
            let calls = Calls::default();
            let graph = || {
                let mut middle = Graph::builder("middle");
                let m1 = middle.node("m1", with((calls.clone(), "m1"), notes));
                let low = middle.subgraph(
                    "low",
                    two_questions(&calls),
                    |_: &Inner| Inner::update(),
                    |low| Inner::update().notes(low.notes.clone()),
                );
                let m2 = middle.node("m2", with((calls.clone(), "m2"), asks));
                middle.start(m1);
                middle.edge(m1, low.and(m2));
                middle.edge(low, End);
                middle.edge(m2, End);
                around(&calls, middle.build().unwrap(), 1)
            };
            let t = thread("t");
            let answers: [(&str, &str); 3] = [
                ("2:sub[0]/2:m2[0].q", "M"),
                ("2:sub[0]/2:low[0]/2:n2[0].q", "A"),
                ("2:sub[0]/2:low[0]/3:n3[0].q", "B"),
            ];
            let mut open = 2;
            let finished = if let Place::Nowhere = place {
                let runner = place.runner(graph(), RunOptions::new());
                let mut run = runner.open(&t, start()).await.unwrap();
                for (id, answer) in answers {
                    let report = run.finish().await.unwrap();
                    assert_eq!(report.ended, Ended::Paused { questions: open });
                    let id: QuestionId = id.parse().unwrap();
                    run.answer(Answers::to(id, answer)).await.unwrap();
                    open = 1;
                }
                run.finish().await.unwrap()
            } else {
                let fresh = || place.runner(graph(), RunOptions::new());
                let mut report = fresh().run(&t, start()).await.unwrap();
                for (id, answer) in answers {
                    assert_eq!(report.ended, Ended::Paused { questions: open }, "{id}");
                    let id: QuestionId = id.parse().unwrap();
                    let answer = Command::answer(Answers::to(id, answer));
                    report = fresh().run(&t, answer).await.unwrap();
                    open = 1;
                }
                report
            };
            assert_eq!(finished.ended, Ended::Finished);
            assert_eq!(
                finished.state.log,
                ["p", "m1", "n1", "n2 A", "n3 B", "n4", "m2 M", "q"]
            );
            for (name, count) in [("m1", 1), ("n1", 1), ("n2", 2), ("n4", 1), ("m2", 2)] {
                assert_eq!(calls.of(name), count, "{name} {place:?}");
            }
        }
    });
}

/// A node that sleeps inside parks the thread; whoever asks for what is due finds it.
#[test]
fn a_sleep_inside_parks_the_thread() {
    on_both(async || {
        let calls = Calls::default();
        let place = Place::memory();
        let t = thread("t");
        let mut inner = Graph::builder("inner");
        let naps = async |calls: Calls, _: Snapshot<Inner>, cx: Context| {
            calls.hit("naps");
            cx.sleep_until(
                "nap",
                std::time::SystemTime::now() + Duration::from_secs(3600),
            )
            .await?;
            Ok::<_, NodeError>(note("rested"))
        };
        let n1 = inner.node("n1", with((calls.clone(), "n1"), notes));
        let nap = inner.node("nap", with(calls.clone(), naps));
        inner.start(n1);
        inner.edge(n1, nap);
        inner.edge(nap, End);
        let runner = place.runner(around(&calls, inner.build().unwrap(), 1), RunOptions::new());
        let report = runner.run(&t, start()).await.unwrap();
        let Ended::Parked { due_ms } = report.ended else {
            panic!("{}", report.ended)
        };
        assert_eq!(calls.of("naps"), 1);
        let again = runner.run(&t, Command::go_on()).await.unwrap();
        assert_eq!(again.ended, report.ended);
        assert_eq!(calls.of("naps"), 1, "it is not woken early");
        let store = place.open().unwrap();
        let now = std::time::UNIX_EPOCH + Duration::from_millis(due_ms);
        let early = agenda(&*store, now - Duration::from_secs(60))
            .await
            .unwrap();
        assert!(early.due.is_empty());
        assert_eq!(early.next, Some(now));
        let due = agenda(&*store, now).await.unwrap();
        assert_eq!(due.due[0].why, WhyDue::Woken);
    });
}

/// A cancelled run goes on inside where it was.
#[test]
fn a_cancel_reaches_what_is_inside() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let calls = Calls::default();
            let cancel = Cancel::new();
            let graph = |cancel: &Cancel| {
                let mut inner = Graph::builder("inner");
                let n1 = inner.node("n1", with((calls.clone(), "n1"), notes));
                let waits =
                    async |(calls, cancel): (Calls, Cancel), _: Snapshot<Inner>, cx: Context| {
                        if calls.hit("n2") == 1 {
                            cancel.cancel();
                            cx.cancelled().await;
                            std::future::pending::<()>().await;
                        }
                        Ok::<_, NodeError>(note("n2"))
                    };
                let n2 = inner.node("n2", with((calls.clone(), cancel.clone()), waits));
                inner.start(n1);
                inner.edge(n1, n2);
                inner.edge(n2, End);
                around(&calls, inner.build().unwrap(), 1)
            };
            let t = thread("t");
            let options = RunOptions::new()
                .cancel(cancel.clone())
                .grace(Duration::from_millis(20));
            let runner = place.runner(graph(&cancel), options);
            let report = runner.run(&t, start()).await.unwrap();
            assert_eq!(report.ended, Ended::Cancelled);
            drop((runner, report));
            let runner = place.runner(graph(&Cancel::new()), RunOptions::new());
            let report = runner.run(&t, Command::go_on()).await.unwrap();
            assert_eq!(report.state.log, ["p", "n1", "n2", "q"]);
            assert_eq!((calls.of("n1"), calls.of("n2")), (1, 2));
        }
    });
}

/// A key for an outside effect differs between instances and entries, and is the same when tried
/// again.
#[test]
fn keys_for_effects_inside_are_of_their_instance() {
    on_both(async || {
        let mut inner = Graph::builder("inner");
        let key = inner.node("key", async |_: Snapshot<Inner>, cx: Context| {
            Ok::<_, NodeError>(note(format!("{} {}", cx.task(), cx.idempotency_key("k"))))
        });
        inner.start(key);
        inner.edge(key, End);
        let graph = around(&Calls::default(), inner.build().unwrap(), 2);
        let runner = Place::memory().runner(graph, RunOptions::new());
        let report = runner.run(&thread("t"), start()).await.unwrap();
        let keys: Vec<_> = report
            .state
            .log
            .iter()
            .filter(|line| line.contains("key[0]"))
            .collect();
        assert_eq!(keys.len(), 2);
        assert!(keys[0].starts_with("2:sub[0]/1:key[0] "), "{}", keys[0]);
        assert!(keys[1].starts_with("4:sub[0]/1:key[0] "), "{}", keys[1]);
        assert_ne!(
            keys[0].split(' ').next_back(),
            keys[1].split(' ').next_back()
        );
    });
}

/// What a picture and a table need: the kind, and the graph inside.
#[test]
fn a_view_has_the_graph_inside() {
    let graph = around(&Calls::default(), counter(), 1);
    let node = &graph.view().nodes[1];
    assert_eq!(node.kind, NodeKind::Subgraph);
    let inner = node.inner.as_deref().unwrap();
    assert_eq!((inner.name.as_str(), inner.nodes.len()), ("counter", 1));
    let other = around(&Calls::default(), two_questions(&Calls::default()), 1);
    assert_ne!(graph.fingerprint(), other.fingerprint());
}

/// The thread itself says how it stands, step by step, and its subgraph is one superstep to it.
#[test]
fn a_subgraph_is_one_superstep_of_the_graph_around_it() {
    on_both(async || {
        let place = Place::memory();
        let calls = Calls::default();
        let t = thread("t");
        let runner = place.runner(around(&calls, two_questions(&calls), 1), RunOptions::new());
        let mut run = runner.open(&t, start()).await.unwrap();
        assert!(matches!(run.step().await.unwrap(), Progress::Committed(_)));
        let paused = run.step().await.unwrap();
        assert_eq!(paused, Progress::Ended(Ended::Paused { questions: 1 }));
        drop(run);
        let store = place.open().unwrap();
        let head = store.head(&t).await.unwrap().unwrap();
        assert_eq!((head.step, head.status), (1, Status::Paused));
        let read = events(&*store, &t).await.unwrap();
        let commits = read.iter().filter(|event| {
            event.within.is_none() && matches!(event.kind, EventKind::Committed { .. })
        });
        assert_eq!(commits.count(), 1);
    });
}
