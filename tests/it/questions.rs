//! Questions: what waits keeps waiting, what is answered is answered once, and what has finished
//! beside a question is not run again.

use std::time::Duration;

use milepost::store::Status;
use milepost::{
    Answers, Ask, Command, Context, End, Ended, ErrorClass, Graph, NodeError, OpenQuestion, Output,
    Progress, Question, QuestionId, RunError, RunOptions, Runner, Snapshot, events, history,
    questions,
};
use serde::{Deserialize, Serialize};

use crate::support::{
    Calls, Doc, DocUpdate, Door, Place, drive, fed, lasting, line, listen, on_both, says, thread,
    told, wander, with,
};

/// May this be done?
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Allow {
    what: String,
}

impl Ask for Allow {
    type Answer = Verdict;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Verdict {
    Yes,
    No { why: String },
}

type Asks = Output<DocUpdate, (), Allow>;

fn allow(what: &str) -> Asks {
    let what = what.to_owned();
    Output::ask("allow", Allow { what })
}

/// `call` for each of three names asks, and writes the answer that it got.
fn three(calls: &Calls, seed: u64) -> Graph<Doc> {
    let mut g = Graph::builder("three");
    let plan = g.node("plan", says(calls, "plan"));
    let call = g.worker(
        "call",
        fed(
            (calls.clone(), seed),
            async |(calls, seed): (Calls, u64), name: String, _: Snapshot<Doc>, cx: Context| {
                calls.hit(&name);
                wander(seed, u64::from(cx.index())).await;
                let Some(verdict) = cx.answer::<Allow>("allow")? else {
                    return Ok(allow(&name));
                };
                Ok(Output::Done(line(format!("{name} {verdict:?}")), ()))
            },
        ),
    );
    let done = g.node("done", says(calls, "done"));
    g.start(plan);
    g.edge(
        plan,
        call.each(|_| ["t1", "t2", "t3"].map(str::to_owned).to_vec()),
    );
    g.edge(call, done);
    g.edge(done, End);
    g.build().unwrap()
}

fn no(why: &str) -> Verdict {
    let why = why.to_owned();
    Verdict::No { why }
}

fn ids(open: &[OpenQuestion]) -> Vec<QuestionId> {
    open.iter().map(|question| question.id.clone()).collect()
}

/// C13 (as workers): distinct ids in call order, all answered at once in reverse order, whatever
/// the timing.
#[test]
fn several_questions_are_answered_by_id_and_merged_in_call_order() {
    on_both(async || {
        for seed in 0..50 {
            let calls = Calls::default();
            let place = Place::memory();
            let runner = place.runner(three(&calls, seed), RunOptions::new().shuffle(seed));
            let t = thread("t");
            let start = Command::start(Doc::update());
            let report = runner.run(&t, start).await.unwrap();
            assert_eq!(report.ended, Ended::Paused { questions: 3 });
            let mut open = ids(&report.questions);
            open.sort();
            let texts: Vec<_> = open.iter().map(QuestionId::to_string).collect();
            assert_eq!(
                texts,
                ["2:call[0].allow", "2:call[1].allow", "2:call[2].allow"]
            );
            let stored = questions(&*place.open().unwrap(), &t).await.unwrap();
            assert_eq!(stored, report.questions);

            let answers = Answers::to(open[2].clone(), &no("c"))
                .and(open[1].clone(), &Verdict::Yes)
                .and(open[0].clone(), &no("a"));
            let report = runner.run(&t, Command::answer(answers)).await.unwrap();
            assert_eq!(report.ended, Ended::Finished);
            let log = [
                "plan",
                r#"t1 No { why: "a" }"#,
                "t2 Yes",
                r#"t3 No { why: "c" }"#,
                "done",
            ];
            assert_eq!(report.state.log, log);
            assert_eq!(
                (calls.of("plan"), calls.of("t1"), calls.of("done")),
                (1, 2, 1)
            );
        }
    });
}

/// C13 (2) and (3): a bare answer is ambiguous and changes nothing; one answer answers one.
#[test]
fn one_of_several_can_be_answered_and_a_bare_answer_is_refused() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let calls = Calls::default();
            let t = thread("t");
            let fresh = || place.runner(three(&calls, 7), RunOptions::new());
            let report = fresh()
                .run(&t, Command::start(Doc::update()))
                .await
                .unwrap();
            let mut open = ids(&report.questions);
            open.sort();
            let before = calls.all();
            let bare = Command::answer(Answers::only(&Verdict::Yes));
            let refused = fresh().run(&t, bare).await.unwrap_err();
            assert!(matches!(refused, RunError::AmbiguousAnswer { open, .. } if open.len() == 3));
            assert_eq!(calls.all(), before);

            let second = Answers::to(open[1].clone(), &Verdict::Yes);
            let report = fresh()
                .run(&t, Command::answer(second.clone()))
                .await
                .unwrap();
            assert_eq!(report.ended, Ended::Paused { questions: 2 });
            let mut left = ids(&report.questions);
            left.sort();
            assert_eq!(left, [open[0].clone(), open[2].clone()]);
            assert_eq!((calls.of("t1"), calls.of("t2"), calls.of("t3")), (1, 2, 1));

            // The same again gets the same reply; another one is refused.
            let report = fresh()
                .run(&t, Command::answer(second.clone()))
                .await
                .unwrap();
            assert_eq!(report.ended, Ended::Paused { questions: 2 });
            let other = Answers::to(open[1].clone(), &no("late"));
            let refused = fresh()
                .run(&t, Command::answer(other.clone()))
                .await
                .unwrap_err();
            assert!(
                matches!(refused, RunError::AlreadyAnswered { .. }),
                "{refused}"
            );
            assert_eq!(calls.of("t2"), 2);

            let rest = Answers::to(open[0].clone(), &Verdict::Yes).and(open[2].clone(), &no("c"));
            let report = fresh().run(&t, Command::answer(rest)).await.unwrap();
            assert_eq!(report.ended, Ended::Finished);
            // Also long after its superstep is closed.
            let report = fresh().run(&t, Command::answer(second)).await.unwrap();
            assert_eq!(report.ended, Ended::Finished);
            let refused = fresh().run(&t, Command::answer(other)).await.unwrap_err();
            assert!(
                matches!(refused, RunError::AlreadyAnswered { .. }),
                "{refused}"
            );
            assert_eq!((calls.of("t2"), calls.of("done")), (2, 1));
        }
    });
}

/// `START→{a, h}→j→END`, where h asks and a counts.
fn beside(calls: &Calls) -> Graph<Doc> {
    let mut g = Graph::builder("beside");
    let a = g.node("a", says(calls, "a"));
    let h = g.node(
        "h",
        with(
            calls.clone(),
            async |calls: Calls, _: Snapshot<Doc>, cx: Context| {
                calls.hit("h");
                Ok(match cx.answer::<Allow>("allow")? {
                    Some(verdict) => Output::Done(line(format!("h {verdict:?}")), ()),
                    None => allow("h"),
                })
            },
        ),
    );
    let j = g.node("j", says(calls, "j"));
    g.start(a.and(h));
    g.edge(a, j);
    g.edge(h, j);
    g.edge(j, End);
    g.build().unwrap()
}

/// C14 (3), C17: what has finished beside a question is not run again; new input is refused while
/// it is open, or gives it up.
#[test]
fn a_sibling_of_a_question_runs_once_and_new_input_waits_or_abandons() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let calls = Calls::default();
            let t = thread("t");
            let fresh = || place.runner(beside(&calls), RunOptions::new());
            let start = || Command::start(Doc::update().n(1));
            fresh().run(&t, start()).await.unwrap();
            let seen = history(&*place.open().unwrap(), &t).await.unwrap();
            let refused = fresh().run(&t, start()).await.unwrap_err();
            assert!(
                matches!(&refused, RunError::PendingInterrupt { open, .. } if open.len() == 1),
                "{refused}"
            );
            assert_eq!(history(&*place.open().unwrap(), &t).await.unwrap(), seen);
            // To go on without an answer goes nowhere, and runs nothing.
            let report = fresh().run(&t, Command::go_on()).await.unwrap();
            assert_eq!(report.ended, Ended::Paused { questions: 1 });
            assert_eq!((calls.of("a"), calls.of("h")), (1, 1));
            let yes = Command::answer(Answers::only(&Verdict::Yes));
            let report = fresh().run(&t, yes).await.unwrap();
            assert_eq!(report.state.log, ["a", "h Yes", "j"]);
            assert_eq!((calls.of("a"), calls.of("h"), calls.of("j")), (1, 2, 1));

            fresh().run(&t, start()).await.unwrap();
            let report = fresh().run(&t, start().abandon()).await.unwrap();
            assert_eq!(report.ended, Ended::Paused { questions: 1 });
            assert_eq!(report.questions[0].id.to_string(), "4:h[0].allow");
            assert_eq!(report.state.log.last().unwrap(), "a");
            // Who answers what was given up answers nothing.
            let late = Answers::to("3:h[0].allow".parse().unwrap(), &Verdict::Yes);
            let refused = fresh().run(&t, Command::answer(late)).await.unwrap_err();
            assert!(matches!(refused, RunError::NoQuestion { .. }), "{refused}");
        }
    });
}

/// C16: an answer without a question is a typed error, and changes nothing.
#[test]
fn an_answer_without_a_question_is_refused() {
    on_both(async || {
        let calls = Calls::default();
        let place = Place::memory();
        let runner = place.runner(beside(&calls), RunOptions::new());
        let yes = || Command::answer(Answers::only(&Verdict::Yes));
        let unknown = runner.run(&thread("nosuch"), yes()).await.unwrap_err();
        assert!(matches!(unknown, RunError::NotFound { .. }), "{unknown}");
        let t = thread("t");
        runner.run(&t, Command::start(Doc::update())).await.unwrap();
        runner.run(&t, yes()).await.unwrap();
        let before = (calls.all(), runner.state(&t).await.unwrap().log.clone());
        let bare = runner.run(&t, yes()).await.unwrap_err();
        assert!(
            matches!(bare, RunError::NoQuestion { id: None, .. }),
            "{bare}"
        );
        let never: QuestionId = "9:h[0].allow".parse().unwrap();
        let never = Command::answer(Answers::to(never, &Verdict::Yes));
        let never = runner.run(&t, never).await.unwrap_err();
        assert!(
            matches!(never, RunError::NoQuestion { id: Some(_), .. }),
            "{never}"
        );
        let after = (calls.all(), runner.state(&t).await.unwrap().log.clone());
        assert_eq!(before, after);
    });
}

/// A wrong answer is refused with what was expected, and the question stays open.
#[test]
fn an_answer_of_another_type_is_refused_and_the_question_stays_open() {
    on_both(async || {
        let calls = Calls::default();
        let place = Place::memory();
        let runner = place.runner(beside(&calls), RunOptions::new());
        let t = thread("t");
        let report = runner.run(&t, Command::start(Doc::update())).await.unwrap();
        let id = report.questions[0].id.clone();
        for wrong in [
            Answers::only(&7),
            Answers::only("Maybe"),
            Answers::only(&()),
        ] {
            let refused = runner.run(&t, Command::answer(wrong)).await.unwrap_err();
            let text = refused.to_string();
            assert!(matches!(refused, RunError::WrongAnswer { .. }), "{text}");
            assert!(
                text.contains("Verdict") && text.contains("still open"),
                "{text}"
            );
        }
        // One wrong one spoils all that come with it.
        let mixed = Answers::to(id.clone(), &Verdict::Yes).and(id.clone(), &no("other"));
        let refused = runner.run(&t, Command::answer(mixed)).await.unwrap_err();
        assert!(
            matches!(refused, RunError::AlreadyAnswered { .. }),
            "{refused}"
        );
        let open = questions(&*place.open().unwrap(), &t).await.unwrap();
        assert_eq!(ids(&open), [id]);
        assert_eq!(
            open[0].read::<Allow>().unwrap(),
            Allow {
                what: "h".to_owned()
            }
        );
        assert_eq!(calls.of("h"), 1);
    });
}

/// A node may ask again under another key, and several at once; what it may not is said.
#[test]
fn a_node_asks_as_often_as_it_needs_and_never_twice_under_one_key() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory(), Place::sled()] {
            let mut g = Graph::builder("rounds");
            let asks = g.node("asks", async |_: Snapshot<Doc>, cx: Context| {
                let both = [cx.answer::<Allow>("one")?, cx.answer::<Allow>("two")?];
                let [Some(_), Some(two)] = both else {
                    let ask = |key: &str| {
                        Question::new(
                            key,
                            Allow {
                                what: key.to_owned(),
                            },
                        )
                    };
                    return Ok::<Asks, NodeError>(Output::ask_all([ask("one"), ask("two")]));
                };
                if two == Verdict::Yes && cx.answer::<Allow>("three")?.is_none() {
                    let what = "three".to_owned();
                    return Ok(Output::ask("three", Allow { what }));
                }
                Ok(Output::Done(line("done"), ()))
            });
            g.start(asks);
            g.edge(asks, End);
            let runner = place.runner(g.build().unwrap(), RunOptions::new());
            let mut run = runner
                .open(&thread("t"), Command::start(Doc::update()))
                .await
                .unwrap();
            let paused = |questions| Progress::Ended(Ended::Paused { questions });
            assert_eq!(run.step().await.unwrap(), paused(2));
            assert_eq!(run.step().await.unwrap(), paused(2));
            let id = |key: &str| QuestionId::new("1:asks[0]".parse().unwrap(), key);
            run.answer(Answers::to(id("two"), &Verdict::Yes))
                .await
                .unwrap();
            assert_eq!(run.step().await.unwrap(), paused(1));
            run.answer(Answers::only(&Verdict::Yes)).await.unwrap();
            assert_eq!(run.step().await.unwrap(), paused(1));
            run.answer(Answers::to(id("three"), &no("enough")))
                .await
                .unwrap();
            let report = run.finish().await.unwrap();
            assert_eq!((report.ended, report.questions.len()), (Ended::Finished, 0));
        }
    });
}

#[test]
fn what_cannot_be_asked_is_the_nodes_error() {
    on_both(async || {
        for (keys, said) in [
            (vec!["a", "a"], "two questions under the key \"a\""),
            (vec![], "asks nothing"),
            (vec![""], "1 to 256 bytes"),
        ] {
            let mut g = Graph::builder("wrong");
            let asks = with(
                keys,
                async |keys: Vec<&'static str>, _: Snapshot<Doc>, _: Context| {
                    let ask = |key: &str| {
                        Question::new(
                            key,
                            Allow {
                                what: String::new(),
                            },
                        )
                    };
                    Ok::<Asks, NodeError>(Output::ask_all(keys.into_iter().map(ask)))
                },
            );
            let asks = g.node("asks", asks);
            g.start(asks);
            g.edge(asks, End);
            let runner = Place::memory().runner(g.build().unwrap(), RunOptions::new());
            let failed = runner
                .run(&thread("t"), Command::start(Doc::update()))
                .await;
            let failed = failed.unwrap_err();
            assert_eq!(failed.class(), ErrorClass::Invalid.name());
            assert!(failed.to_string().contains(said), "{failed}");
        }
        let mut g = Graph::builder("again");
        let asks = g.node("asks", async |_: Snapshot<Doc>, _: Context| {
            Ok::<Asks, NodeError>(allow("always"))
        });
        g.start(asks);
        g.edge(asks, End);
        let runner = Place::memory().runner(g.build().unwrap(), RunOptions::new());
        let t = thread("t");
        runner.run(&t, Command::start(Doc::update())).await.unwrap();
        let yes = Command::answer(Answers::only(&Verdict::Yes));
        let failed = runner.run(&t, yes).await.unwrap_err();
        assert!(
            failed.to_string().contains("again, which is answered"),
            "{failed}"
        );
    });
}

/// A question whose time is over has its default answer, or fails its task; a late answer still
/// puts that right.
#[test]
fn a_question_expires_with_a_default_or_an_error() {
    on_both(async || {
        for default in [true, false] {
            let mut g = Graph::builder("expires");
            let asks = with(
                default,
                async |default: bool, _: Snapshot<Doc>, cx: Context| {
                    if let Some(verdict) = cx.answer::<Allow>("allow")? {
                        return Ok(Output::Done(line(format!("{verdict:?}")), ()));
                    }
                    let what = "soon".to_owned();
                    let question = Question::new("allow", Allow { what }).expires(Duration::ZERO);
                    let question = match default {
                        true => question.or_else(&Verdict::Yes),
                        false => question,
                    };
                    Ok::<Asks, NodeError>(Output::ask_all([question]))
                },
            );
            let asks = g.node("asks", asks);
            g.start(asks);
            g.edge(asks, End);
            let place = Place::memory();
            let runner = place.runner(g.build().unwrap(), RunOptions::new());
            let t = thread("t");
            let report = runner.run(&t, Command::start(Doc::update())).await.unwrap();
            assert_eq!(report.ended, Ended::Paused { questions: 1 });
            assert!(report.questions[0].expires_ms.is_some());
            if default {
                let report = runner.run(&t, Command::go_on()).await.unwrap();
                assert_eq!(report.state.log, ["Yes"]);
                continue;
            }
            for _ in 0..2 {
                let failed = runner.run(&t, Command::go_on()).await.unwrap_err();
                assert_eq!(failed.class(), ErrorClass::Expired.name());
            }
            let late = Command::answer(Answers::only(&no("late")));
            let report = runner.run(&t, late).await.unwrap();
            assert_eq!(report.state.log, [r#"No { why: "late" }"#]);
        }
    });
}

/// Every door pauses, and a listener hears what a reader of the log sees.
#[test]
fn a_pause_looks_the_same_through_every_door() {
    on_both(async || {
        let calls = Calls::default();
        let place = Place::memory();
        let runner = place.runner(beside(&calls), RunOptions::new());
        for (door, name) in [(Door::Run, "r"), (Door::Stream, "s"), (Door::Step, "p")] {
            let t = thread(name);
            let (ended, _) = drive(door, &runner, &t, Command::start(Doc::update()))
                .await
                .unwrap();
            assert_eq!(ended, Ended::Paused { questions: 1 });
            let yes = Command::answer(Answers::only(&Verdict::Yes));
            let (ended, state) = drive(door, &runner, &t, yes).await.unwrap();
            assert_eq!((ended, state.log.len()), (Ended::Finished, 3));
        }
        let t = thread("heard");
        let (mut heard, _) = listen(&runner, &t, Command::start(Doc::update())).await;
        let store = place.open().unwrap();
        assert_eq!(
            store.head(&t).await.unwrap().unwrap().status,
            Status::Paused
        );
        let yes = Command::answer(Answers::only(&Verdict::Yes));
        heard.extend(listen(&runner, &t, yes).await.0);
        let told_by_log = events(&*store, &t).await.unwrap();
        assert_eq!(lasting(&heard), told_by_log, "{:#?}", told(&heard));
        assert!(told(&heard).iter().any(|line| line.contains("Asked")));
        assert!(told(&heard).iter().any(|line| line.contains("Answered")));
    });
}

/// Pauses before and after named nodes, at the boundary and durable with it.
#[test]
fn a_run_pauses_before_and_after_named_nodes() {
    on_both(async || {
        let mut g = Graph::builder("line");
        let calls = Calls::default();
        let [a, b, c] = ["a", "b", "c"].map(|name| g.node(name, says(&calls, name)));
        g.start(a);
        g.edge(a, b);
        g.edge(b, c);
        g.edge(c, End);
        let graph = g.build().unwrap();
        let options = RunOptions::new()
            .pause_before(["a", "b"])
            .pause_after(["b"]);
        for place in [Place::memory(), Place::sled()] {
            let t = thread("t");
            let fresh = || place.runner(graph.clone(), options.clone());
            let paused = Ended::Paused { questions: 0 };
            let mut command = Command::start(Doc::update());
            for log in [&[][..], &["a"], &["a", "b"]] {
                let report = fresh().run(&t, command).await.unwrap();
                assert_eq!(report.ended, paused);
                assert_eq!(report.state.log, log);
                let head = place.open().unwrap().head(&t).await.unwrap().unwrap();
                assert_eq!(head.status, Status::Paused);
                command = Command::go_on();
            }
            let report = fresh().run(&t, command).await.unwrap();
            assert_eq!((report.ended, report.state.log.len()), (Ended::Finished, 3));
        }
        let runner = Runner::new(graph.clone()).options(options);
        let mut run = runner
            .open(&thread("t"), Command::start(Doc::update()))
            .await
            .unwrap();
        let mut pauses = 0;
        while run.finish().await.unwrap().ended != Ended::Finished {
            pauses += 1;
        }
        assert_eq!((pauses, run.state().log.len()), (3, 3));

        let never = RunOptions::new().pause_before(["nosuch"]);
        let runner = Runner::new(graph).options(never);
        let refused = runner
            .run(&thread("t"), Command::start(Doc::update()))
            .await
            .unwrap_err();
        assert!(refused.to_string().contains("\"nosuch\""), "{refused}");
    });
}

/// A repeated start of a paused run gives the same pause.
#[test]
fn a_repeated_start_of_a_waiting_run_waits() {
    on_both(async || {
        let calls = Calls::default();
        let place = Place::memory();
        let runner = place.runner(beside(&calls), RunOptions::new());
        let t = thread("t");
        let run = milepost::RunId::new("order-7").unwrap();
        for _ in 0..3 {
            let start = Command::start(Doc::update()).run_id(run.clone());
            let report = runner.run(&t, start).await.unwrap();
            assert_eq!(report.ended, Ended::Paused { questions: 1 });
            assert_eq!(ids(&report.questions).len(), 1);
        }
        assert_eq!((calls.of("a"), calls.of("h")), (1, 1));
    });
}
