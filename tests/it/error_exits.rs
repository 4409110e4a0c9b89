//! Error exits: a failure goes where the graph leads it, once, whatever happens in between.

use std::time::Duration;

use milepost::dot::Overlay;
use milepost::store::{MemoryStore, check};
use milepost::{
    Answers, Ask, BuildError, Builder, Cancel, Command, Context, End, Ended, ErrorClass, EventKind,
    Exits, Failure, Graph, NodeError, NodeRef, Output, Policy, Question, Retry, RunError,
    RunOptions, Runner, Snapshot, WorkerRef, events, history, questions,
};
use serde::{Deserialize, Serialize};

use crate::support::{
    Calls, DOORS, Doc, DocUpdate, Place, Probe, When, drive, fed, lasting, line, listen, on_both,
    says, thread, wander, with,
};

type Updated = Result<DocUpdate, NodeError>;

fn start() -> Command<Doc> {
    Command::start(Doc::update())
}

fn error(class: ErrorClass) -> NodeError {
    NodeError::new(class, format!("no {class}"))
}

/// A node that fails, each time with this class.
fn fails(
    calls: &Calls,
    class: ErrorClass,
) -> impl Fn(Snapshot<Doc>, Context) -> futures::future::BoxFuture<'static, Updated>
+ Send
+ Sync
+ 'static {
    let calls = calls.clone();
    move |_, cx| {
        calls.hit(cx.node().as_str());
        Box::pin(std::future::ready(Err(error(class))))
    }
}

/// A worker that notes the failures which it is given.
fn notes(
    calls: &Calls,
) -> impl Fn(Failure, Snapshot<Doc>, Context) -> futures::future::BoxFuture<'static, Updated>
+ Send
+ Sync
+ 'static {
    let calls = calls.clone();
    move |failure: Failure, _, cx: Context| {
        calls.hit(cx.node().as_str());
        let Failure {
            task,
            class,
            message,
            attempts,
            ..
        } = failure;
        let noted = format!("{} {task} {class} {message} {attempts}", cx.task());
        Box::pin(async move { Ok(line(noted)) })
    }
}

fn handled(describe: impl FnOnce(&mut Builder<Doc>)) -> Graph<Doc> {
    let mut g = Graph::builder("handled");
    describe(&mut g);
    g.build().unwrap()
}

/// S029: what has failed after its last try goes to its handler with all that is known of it, and
/// the run goes where the handler leads.
#[test]
fn a_failure_leads_to_its_handler_and_changes_nothing_of_itself() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory(), Place::sled()] {
            for door in DOORS {
                let calls = Calls::default();
                let graph = handled(|g| {
                    let a = g.node("a", fails(&calls, ErrorClass::Transient));
                    let retry = Retry {
                        max_attempts: 3,
                        first_wait: Duration::ZERO,
                        ..Retry::default()
                    };
                    g.policy(a, Policy::default().retry(retry));
                    let (after, h) = (
                        g.node("after", says(&calls, "after")),
                        g.worker("h", notes(&calls)),
                    );
                    let last = g.node("last", says(&calls, "last"));
                    g.start(a);
                    g.edge(a, after);
                    g.edge(after, End);
                    g.on_error(a, h);
                    g.edge(h, last);
                    g.edge(last, End);
                });
                let runner = place.runner(graph, RunOptions::new());
                let t = thread(&format!("{door:?}"));
                let (ended, state) = drive(door, &runner, &t, start()).await.unwrap();
                assert_eq!(ended, Ended::Finished);
                let noted = "2:h[0] 1:a[0] transient no transient 3";
                assert_eq!(state.log, [noted, "last"]);
                assert_eq!((calls.of("a"), calls.of("h"), calls.of("after")), (3, 1, 0));
            }
        }
    });
}

/// S309: each class leads where it is led, and to the one for every class if no other has it; no
/// other is tried again.
#[test]
fn the_first_error_exit_that_has_the_class_is_taken() {
    use ErrorClass::{Invalid, Other, Panicked, Permanent, Timeout, Transient};
    on_both(async || {
        for (class, handler) in [
            (Transient, "again"),
            (Timeout, "again"),
            (Panicked, "person"),
            (Permanent, "person"),
            (Invalid, "rest"),
            (Other, "rest"),
        ] {
            let calls = Calls::default();
            let graph = handled(|g| {
                let a = g.node(
                    "a",
                    with(
                        (calls.clone(), class),
                        async |(calls, class): (Calls, ErrorClass), _, _| {
                            calls.hit("a");
                            match class {
                                Panicked => panic!("no panicked"),
                                Timeout => std::future::pending::<()>().await,
                                _ => {}
                            }
                            Err::<DocUpdate, _>(error(class))
                        },
                    ),
                );
                g.policy(a, Policy::default().timeout(Duration::from_millis(20)));
                g.start(a);
                g.edge(a, End);
                let [again, person, rest] =
                    ["again", "person", "rest"].map(|name| g.node(name, says(&calls, name)));
                g.on_error_for(a, [Timeout, Transient], again);
                g.on_error_for(a, [Permanent, Panicked], person);
                g.on_error(a, rest);
                for node in [again, person, rest] {
                    g.edge(node, End);
                }
            });
            let runner = Place::memory().runner(graph, RunOptions::new());
            let report = runner.run(&thread("t"), start()).await.unwrap();
            assert_eq!(report.state.log, [handler], "{class}");
            assert_eq!(calls.of("a"), 1);
        }
    });
}

/// What no error exit has fails the run, as it would without any.
#[test]
fn a_class_that_none_of_them_has_ends_the_call() {
    on_both(async || {
        let calls = Calls::default();
        let graph = handled(|g| {
            let a = g.node("a", fails(&calls, ErrorClass::Invalid));
            let h = g.worker("h", notes(&calls));
            g.start(a);
            g.edge(a, End);
            g.on_error_for(a, [ErrorClass::Transient], h);
            g.edge(h, End);
        });
        let runner = Place::memory().runner(graph, RunOptions::new());
        let failed = runner.run(&thread("t"), start()).await.unwrap_err();
        assert!(matches!(&failed, RunError::Node { task, .. } if task.to_string() == "1:a[0]"));
        assert_eq!(calls.of("h"), 0);
    });
}

#[derive(Clone, Copy, Exits)]
enum Way {
    On,
    Off,
}

/// A worker over four numbers, of which some fail.
async fn member(
    (failing, seed): (Vec<u64>, u64),
    n: u64,
    _: Snapshot<Doc>,
    _: Context,
) -> Result<(DocUpdate, Way), NodeError> {
    wander(seed, n).await;
    let class = match n {
        3 => ErrorClass::Permanent,
        _ => ErrorClass::Transient,
    };
    match failing.contains(&n) {
        true => Err(error(class)),
        false => Ok((Doc::update().seen(vec![n]), Way::On)),
    }
}

/// One handler task for each failed member, in path order; the worker's own way is taken as well.
#[test]
fn each_failed_member_has_a_handler_task_and_the_worker_goes_on() {
    on_both(async || {
        for (failing, on) in [
            (vec![1, 3], "on"),
            (vec![0, 1, 2, 3], "none"),
            (vec![], "on"),
        ] {
            for seed in 0..6 {
                let calls = Calls::default();
                let graph = handled(|g| {
                    let w = g.worker("w", fed((failing.clone(), seed), member));
                    let h = g.worker("h", notes(&calls));
                    let [on, none] = ["on", "none"].map(|name| g.node(name, says(&calls, name)));
                    g.start(w.each(|_| vec![0, 1, 2, 3]));
                    let wiring = g.wire(w, |way| match way {
                        Way::On => on.into(),
                        Way::Off => End.into(),
                    });
                    wiring.when_empty(none);
                    g.on_error_for(w, [ErrorClass::Permanent], h);
                    g.on_error(w, h);
                    for node in [on, none] {
                        g.edge(node, End);
                    }
                    g.edge(h, End);
                });
                let place = Place::memory();
                let runner = place.runner(graph, RunOptions::new().shuffle(seed));
                let report = runner.run(&thread("t"), start()).await.unwrap();
                let noted = failing.iter().enumerate().map(|(place, n)| {
                    let class = if *n == 3 { "permanent" } else { "transient" };
                    format!("2:h[{place}] 1:w[{n}] {class} no {class} 1")
                });
                let expected: Vec<_> = noted.chain([on.to_owned()]).collect();
                assert_eq!(report.state.log, expected);
                let well: Vec<u64> = (0..4).filter(|n| !failing.contains(n)).collect();
                assert_eq!(report.state.seen, well);
            }
        }
    });
}

/// A plain edge of a worker is taken once after all its tasks, also where all of them have failed;
/// a gather has the worker and its handler arrive together.
#[test]
fn a_gather_waits_for_what_the_failures_lead_to() {
    on_both(async || {
        for failing in [vec![], vec![2], vec![1, 2]] {
            let calls = Calls::default();
            let graph = handled(|g| {
                let work =
                    async |failing: Vec<u64>, n: u64, _: Snapshot<Doc>, _: Context| match failing
                        .contains(&n)
                    {
                        true => Err(error(ErrorClass::Other)),
                        false => Ok(Doc::update().sum(n)),
                    };
                let w = g.worker("w", fed(failing.clone(), work));
                let h = g.worker("h", notes(&calls));
                let all = g.node("all", says(&calls, "all"));
                g.start(w.each(|_| vec![1, 2]));
                g.on_error(w, h);
                g.gather((w, h), all);
                g.edge(all, End);
            });
            let runner = Place::memory().runner(graph, RunOptions::new());
            let report = runner.run(&thread("t"), start()).await.unwrap();
            assert_eq!(calls.of("all"), 1);
            assert_eq!(report.state.log.last().unwrap(), "all");
            assert_eq!(calls.of("h") as usize, failing.len());
            assert_eq!(report.state.sum, 3 - failing.iter().sum::<u64>());
        }
    });
}

/// A node that fails into a join's place arrives there; one that fails elsewhere never does.
#[test]
fn a_join_knows_who_has_failed_away_from_it() {
    on_both(async || {
        for into in [true, false] {
            let calls = Calls::default();
            let graph = handled(|g| {
                let a = g.node("a", fails(&calls, ErrorClass::Other));
                let [b, c, h] = ["b", "c", "h"].map(|name| g.node(name, says(&calls, name)));
                g.start(a.and(b));
                let place = g.join([a, b], c).place();
                g.edge(a, place);
                g.edge(c, End);
                g.edge(h, End);
                if into {
                    g.on_error_for(a, [ErrorClass::Other], place);
                    g.on_error(a, h);
                } else {
                    g.on_error(a, h);
                }
            });
            let runner = Place::memory().runner(graph, RunOptions::new());
            let ended = runner.run(&thread("t"), start()).await;
            match into {
                true => assert_eq!(ended.unwrap().state.log, ["b", "c"]),
                false => {
                    let failed = ended.unwrap_err();
                    assert_eq!(failed.class(), "unsatisfied_join", "{failed}");
                }
            }
        }
    });
}

/// C22 (2): at whichever operation the store fails, what is recorded of a failure and of its handler
/// is not done again.
#[test]
fn neither_the_failing_node_nor_its_handler_is_entered_again_after_a_crash() {
    on_both(async || {
        let build = |calls: &Calls| {
            handled(|g| {
                let [a, c, slow] = ["a", "c", "slow"].map(|name| g.node(name, says(calls, name)));
                let b = g.node("b", fails(calls, ErrorClass::Permanent));
                let h = g.worker("h", notes(calls));
                let j = g.node("j", says(calls, "j"));
                g.start(a.and(b).and(c));
                g.edge(a, slow);
                g.on_error(b, h);
                g.edge(b, End);
                g.gather((c, slow, h), j);
                g.edge(j, End);
            })
        };
        let t = thread("t");
        let mut crashed = 0;
        for when in [When::Before, When::After] {
            for at in 1.. {
                let (calls, store) = (Calls::default(), MemoryStore::new());
                let probe = Probe::new(store.clone()).failing(at, when);
                let first = Runner::new(build(&calls)).store(probe);
                let first = first.run(&t, start()).await;
                let told = events(&store, &t).await.unwrap();
                let ended = |node: &str| {
                    told.iter().any(|event| match &event.kind {
                        EventKind::TaskFinished { task, .. } => task.task().node.as_str() == node,
                        EventKind::TaskFailed { task, exit, .. } => {
                            exit.is_some() && task.task().node.as_str() == node
                        }
                        _ => false,
                    })
                };
                let nodes = ["a", "b", "c", "slow", "h", "j"];
                let done = nodes.map(|node| (node, ended(node), calls.of(node)));
                let then = Runner::new(build(&calls)).store(store.clone());
                let report = match then.run(&t, Command::go_on()).await {
                    Err(RunError::NotFound { .. }) => then.run(&t, start()).await,
                    ended => ended,
                };
                let report = report.unwrap();
                let noted = "2:h[0] 1:b[0] permanent no permanent 1";
                assert_eq!(report.state.log, ["a", "c", "slow", noted, "j"]);
                for (node, ended, before) in done {
                    let again = calls.of(node) - before;
                    assert_eq!(again, u32::from(!ended), "{node} at {at} {when:?}");
                }
                assert!(check(&store, &t).await.is_sound());
                let replayed = then.replay(&t).await.unwrap();
                assert_eq!(replayed.differences, []);
                crashed += u32::from(first.is_err());
                if first.is_ok() {
                    break;
                }
            }
        }
        assert!(crashed > 10, "{crashed}");
    });
}

/// A listener hears what a reader of the log sees; the failure is told as one that was handled.
#[test]
fn a_handled_failure_is_told_as_such() {
    on_both(async || {
        let calls = Calls::default();
        let graph = handled(|g| {
            let a = g.node("a", fails(&calls, ErrorClass::Permanent));
            let b = g.node("b", says(&calls, "b"));
            let h = g.worker("h", notes(&calls));
            g.start(a.and(b));
            g.edge(a, End);
            g.edge(b, End);
            g.on_error_for(a, [ErrorClass::Timeout, ErrorClass::Permanent], h);
            g.edge(h, End);
        });
        let store = MemoryStore::new();
        let runner = Runner::new(graph.clone()).store(store.clone());
        let t = thread("t");
        let (heard, ended) = listen(&runner, &t, start()).await;
        ended.unwrap();
        let told = events(&store, &t).await.unwrap();
        assert_eq!(lasting(&heard), told);
        let failed = told.iter().find_map(|event| match &event.kind {
            EventKind::TaskFailed {
                task, exit, error, ..
            } => Some((task.to_string(), exit.clone(), error.class.clone())),
            _ => None,
        });
        let exit = Some("on timeout, permanent".to_owned());
        assert_eq!(
            failed,
            Some(("1:a[0]".to_owned(), exit, "permanent".to_owned()))
        );
        let taken = told.iter().find_map(|event| match &event.kind {
            EventKind::Committed { edges, .. } => Some(edges[0].clone()),
            _ => None,
        });
        let taken = taken.unwrap();
        assert_eq!(
            (taken.label.as_str(), taken.tasks),
            ("on timeout, permanent", 1)
        );
        let overlay = Overlay::new(graph.view(), &told);
        let a = overlay.node(0);
        assert_eq!(
            (a.visits, a.handled, a.failures, a.failed),
            (1, 1, 0, false)
        );
        assert_eq!(overlay.unknown(), [] as [String; 0]);
        let led = graph.view().edges.iter().position(|edge| edge.on_error);
        assert_eq!(overlay.edge(led.unwrap()).taken, 1);
        let all = history(&store, &t).await.unwrap();
        assert_eq!(all[1].ran, [("a".to_owned(), 1), ("b".to_owned(), 1)]);
        assert_eq!(all[1].next, [("h".to_owned(), 1)]);
    });
}

/// A handler that fails is a failed node like any other, with error exits of its own.
#[test]
fn a_handler_that_fails_has_its_own_error() {
    on_both(async || {
        for handled_too in [false, true] {
            let calls = Calls::default();
            let graph = handled(|g| {
                let a = g.node("a", fails(&calls, ErrorClass::Permanent));
                let h = g.worker("h", async |_: Failure, _: Snapshot<Doc>, _: Context| {
                    Err::<DocUpdate, _>(error(ErrorClass::Invalid))
                });
                let last = g.worker("last", notes(&calls));
                g.start(a);
                g.edge(a, End);
                g.on_error_for(a, [ErrorClass::Permanent], h);
                g.on_error_for(a, [ErrorClass::Expired], last);
                g.edge(h, End);
                g.edge(last, End);
                if handled_too {
                    g.on_error(h, last);
                }
            });
            let runner = Place::memory().runner(graph, RunOptions::new());
            let ended = runner.run(&thread("t"), start()).await;
            if handled_too {
                let noted = ["3:last[0] 2:h[0] invalid no invalid 1"];
                assert_eq!(ended.unwrap().state.log, noted);
                continue;
            }
            let failed = ended.unwrap_err();
            assert!(matches!(&failed, RunError::Node { task, .. } if task.to_string() == "2:h[0]"));
            assert_eq!(calls.of("a"), 1);
            runner
                .run(&thread("t"), Command::go_on())
                .await
                .unwrap_err();
            assert_eq!(calls.of("a"), 1);
        }
    });
}

/// May this be done?
#[derive(Serialize, Deserialize)]
struct Allow;

impl Ask for Allow {
    type Answer = bool;
}

type Asks = Output<DocUpdate, (), Allow>;

/// `a` asks, beside `b` that asks too and does not expire.
fn asking(calls: &Calls, expires: bool) -> Graph<Doc> {
    handled(|g| {
        let ask = async |(calls, expires): (Calls, bool), _: Snapshot<Doc>, cx: Context| {
            calls.hit(cx.node().as_str());
            if let Some(allowed) = cx.answer::<Allow>("allow")? {
                return Ok::<Asks, NodeError>(Output::Done(line(format!("{allowed}")), ()));
            }
            let question = Question::new("allow", Allow);
            Ok(Output::ask_all([match expires {
                true => question.expires(Duration::ZERO),
                false => question,
            }]))
        };
        let a = g.node("a", with((calls.clone(), expires), ask));
        let b = g.node("b", with((calls.clone(), false), ask));
        let h = g.worker("h", notes(calls));
        g.start(a.and(b));
        g.edge(a, End);
        g.edge(b, End);
        g.on_error(a, h);
        g.edge(h, End);
    })
}

/// A question that waits is no failure; one that was not answered in time is.
#[test]
fn a_question_is_caught_only_when_it_has_expired() {
    on_both(async || {
        for reload in [false, true] {
            let (calls, place, t) = (Calls::default(), Place::memory(), thread("t"));
            let runner = |expires| place.runner(asking(&calls, expires), RunOptions::new());
            let report = runner(false).run(&thread("waits"), start()).await.unwrap();
            assert_eq!(report.ended, Ended::Paused { questions: 2 });

            let runner = runner(true);
            let mut run = runner.open(&t, start()).await.unwrap();
            let report = run.finish().await.unwrap();
            assert_eq!(report.ended, Ended::Paused { questions: 2 });
            let a = report.questions[0].id.clone();
            if reload {
                drop(run);
                run = runner.open(&t, Command::go_on()).await.unwrap();
            }
            // The failure is recorded, and the other question still waits.
            let report = run.finish().await.unwrap();
            assert_eq!(report.ended, Ended::Paused { questions: 1 });
            assert_eq!(report.questions[0].id.task().to_string(), "1:b[0]");
            drop(run);
            let store = place.open().unwrap();
            assert_eq!(questions(&*store, &t).await.unwrap(), report.questions);
            let late = runner.run(&t, Command::answer(Answers::to(a, &true))).await;
            assert!(matches!(late, Err(RunError::NoQuestion { .. })));
            let report = runner
                .run(&t, Command::answer(Answers::only(&true)))
                .await
                .unwrap();
            let noted = "2:h[0] 1:a[0] expired its question \"allow\" was not answered in time 1";
            assert_eq!(report.state.log, ["true", noted]);
            let replayed = runner.replay(&t).await.unwrap();
            assert_eq!(replayed.differences, []);
        }
    });
}

/// A task that cannot ask what it asks has failed, and a task alone in its superstep as well.
#[test]
fn a_question_that_cannot_be_asked_is_caught() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory()] {
            let calls = Calls::default();
            let graph = handled(|g| {
                let a = g.node("a", async |_: Snapshot<Doc>, _: Context| {
                    Ok::<Asks, NodeError>(Output::ask("", Allow))
                });
                let h = g.worker("h", notes(&calls));
                g.start(a);
                g.edge(a, End);
                g.on_error(a, h);
                g.edge(h, End);
            });
            let runner = place.runner(graph, RunOptions::new());
            let report = runner.run(&thread("t"), start()).await.unwrap();
            let noted = &report.state.log[0];
            assert!(
                noted.starts_with("2:h[0] 1:a[0] invalid a question's key"),
                "{noted}"
            );
        }
    });
}

/// S037: a cancellation, a deadline and a step limit are no errors. A node that ends with an error
/// because it was told to end has not failed of itself, and is run again.
#[test]
fn what_ends_a_call_is_never_caught() {
    on_both(async || {
        for beside in [false, true] {
            let (calls, place, t) = (Calls::default(), Place::memory(), thread("t"));
            let build = || {
                let held = calls.clone();
                handled(|g| {
                    let a = g.node(
                        "a",
                        with(held, async |calls: Calls, _, cx: Context| {
                            if calls.hit("a") == 1 {
                                cx.cancelled().await;
                                return Err(error(ErrorClass::Permanent));
                            }
                            Ok(line("a"))
                        }),
                    );
                    let b = g.node("b", says(&calls, "b"));
                    let h = g.worker("h", notes(&calls));
                    match beside {
                        true => g.start(a.and(b)),
                        false => g.start(a),
                    }
                    g.edge(a, b);
                    g.edge(b, End);
                    g.on_error(a, h);
                    g.edge(h, End);
                })
            };
            let cancel = Cancel::new();
            let options = RunOptions::new().cancel(cancel.clone());
            let runner = place.runner(build(), options);
            let stop = async {
                while calls.of("a") == 0 {
                    tokio::task::yield_now().await;
                }
                cancel.cancel();
            };
            let (report, ()) = tokio::join!(runner.run(&t, start()), stop);
            assert_eq!(report.unwrap().ended, Ended::Cancelled);
            let limited = place.runner(build(), RunOptions::new().step_limit(0));
            let report = limited.run(&t, Command::go_on()).await.unwrap();
            assert_eq!(report.ended, Ended::StepLimit { limit: 0 });
            let late = place.runner(build(), RunOptions::new().deadline(Duration::ZERO));
            let report = late.run(&t, Command::go_on()).await.unwrap();
            assert_eq!(
                report.ended,
                Ended::Deadline {
                    after: Duration::ZERO
                }
            );
            let report = place
                .runner(build(), RunOptions::new())
                .run(&t, Command::go_on())
                .await;
            assert_eq!(report.unwrap().state.log.last().unwrap(), "b");
            assert_eq!((calls.of("a"), calls.of("h")), (2, 0));
        }
    });
}

/// A failure that is recorded belongs to an error exit: a program that has none shows both sides.
#[test]
fn an_open_superstep_whose_error_exit_is_gone_is_refused_with_both_sides() {
    on_both(async || {
        let build = |has_exit: bool| {
            handled(|g| {
                let a = g.node("a", fails(&Calls::default(), ErrorClass::Permanent));
                let b = g.node("b", fails(&Calls::default(), ErrorClass::Permanent));
                let h = g.worker("h", notes(&Calls::default()));
                g.start(a.and(b));
                g.edge(a, End);
                g.edge(b, End);
                g.edge(h, End);
                match has_exit {
                    true => g.on_error(a, h),
                    false => g.on_error_for(a, [ErrorClass::Timeout], h),
                }
            })
        };
        let (place, t) = (Place::memory(), thread("t"));
        assert_ne!(build(true).fingerprint(), build(false).fingerprint());
        let collects = RunOptions::new().siblings(milepost::Siblings::Collect);
        let runner = place.runner(build(true), collects);
        runner.run(&t, start()).await.unwrap_err();
        let other = place.runner(build(false), RunOptions::new());
        let refused = other.run(&t, Command::go_on()).await.unwrap_err();
        let RunError::SchemaMismatch {
            stored, program, ..
        } = &refused
        else {
            panic!("{refused}")
        };
        assert!(
            stored.contains("failed (permanent), left by error exit \"on error\""),
            "{stored}"
        );
        assert_eq!(program, r#"its error exits are ["on timeout"]"#);
    });
}

fn said(describe: impl FnOnce(&mut Builder<Doc>)) -> Vec<String> {
    let mut g = Graph::builder("g");
    describe(&mut g);
    let Err(BuildError { problems, .. }) = g.build() else {
        return Vec::new();
    };
    problems.iter().map(ToString::to_string).collect()
}

/// What makes no sense is said with the names of nodes and classes.
#[test]
fn error_exits_that_make_no_sense_are_refused() {
    use ErrorClass::{Permanent, Timeout};
    async fn ok(_: Snapshot<Doc>, _: Context) -> Updated {
        Ok(Doc::update())
    }
    async fn handler(_: Failure, _: Snapshot<Doc>, _: Context) -> Updated {
        Ok(Doc::update())
    }
    let wrong = |reason: &str| {
        vec![format!(
            "the error exits of node \"a\" make no sense: {reason}"
        )]
    };
    type Wire = fn(&mut Builder<Doc>, NodeRef<Doc, ()>, WorkerRef<Doc, Failure, ()>);
    let with = |exits: Wire| {
        said(|g| {
            let (a, h) = (g.node("a", ok), g.worker("h", handler));
            g.start(a);
            g.edge(a, End);
            g.edge(h, End);
            exits(g, a, h);
        })
    };
    assert_eq!(with(|g, a, h| g.on_error(a, h)), Vec::<String>::new());
    assert_eq!(
        with(|g, a, h| {
            g.on_error_for(a, [Permanent, Timeout], h);
            g.on_error_for(a, [Timeout], End);
        }),
        wrong("two of them catch the class \"timeout\"")
    );
    assert_eq!(
        with(|g, a, h| {
            g.on_error(a, h);
            g.on_error(a, End);
        }),
        wrong("two of them catch every class")
    );
    assert_eq!(
        with(|g, a, h| {
            g.on_error(a, h);
            g.on_error_for(a, [Timeout], End);
        }),
        wrong(
            "\"on timeout\" comes after the one that catches every class, so it is never taken: \
             name it before that one"
        )
    );
    assert_eq!(
        with(|g, a, h| {
            g.on_error_for(a, [], h);
        }),
        wrong("one of them names no class")
    );
    assert_eq!(
        with(|_, _, _| {}),
        ["node \"h\" cannot be reached from the start"]
    );
    assert_eq!(
        said(|g| {
            let w = g.worker("a", async |_: u64, _: Snapshot<Doc>, _: Context| {
                Ok::<_, NodeError>(Doc::update())
            });
            let h = g.worker("h", handler);
            g.start(w.each(|_| vec![1]));
            g.edge(w, End);
            g.edge(h, End);
            g.worker_error(w, |_, _| Doc::update());
            g.on_error(w, h);
        }),
        wrong("its failures are tolerated by `worker_error`, so none is left for them")
    );
    // Nothing leads out of a cycle whose nodes only fail into each other.
    assert_eq!(
        said(|g| {
            let (a, b) = (g.node("a", ok), g.node("b", ok));
            g.start(a);
            g.edge(a, b);
            g.edge(b, a);
            g.on_error(a, b);
        }),
        [
            "the cycle \"a\" → \"b\" cannot be left: lead one of its nodes out of it, by an exit or a branch"
        ]
    );
    let mut other = Graph::<Doc>::builder("other");
    let foreign = other.worker("h", handler);
    assert_eq!(
        said(|g| {
            let a = g.node("a", ok);
            g.start(a);
            g.edge(a, End);
            g.on_error(a, foreign);
        }),
        ["a node of another graph was used: a node belongs to the builder that made it"]
    );
    // A handler with exits is not fanned out to, so it is never over nothing.
    assert_eq!(
        said(|g| {
            let a = g.node("a", ok);
            let h = g.worker("h", async |_: Failure, _: Snapshot<Doc>, _: Context| {
                Ok::<_, NodeError>((Doc::update(), Way::Off))
            });
            g.start(a);
            g.edge(a, End);
            g.on_error(a, h);
            g.wire(h, |way| match way {
                Way::On => a.into(),
                Way::Off => End.into(),
            });
        }),
        Vec::<String>::new()
    );
}

/// A graph inside of a node that fails is a failed task of its node, and its handler is outside. What
/// waits inside is no failure.
#[test]
fn a_graph_that_fails_inside_is_caught_outside() {
    on_both(async || {
        for (fails_inside, place) in [
            (true, Place::Nowhere),
            (true, Place::memory()),
            (false, Place::memory()),
        ] {
            let calls = Calls::default();
            let mut inner = Graph::builder("inner");
            let x = inner.node("x", says(&calls, "x"));
            let y = inner.node(
                "y",
                with(
                    fails_inside,
                    async |fails: bool, _: Snapshot<Doc>, cx: Context| {
                        if fails {
                            return Err(error(ErrorClass::Permanent));
                        }
                        match cx.answer::<Allow>("allow")? {
                            Some(_) => Ok::<Asks, _>(Output::Done(Doc::update(), ())),
                            None => Ok(Output::ask("allow", Allow)),
                        }
                    },
                ),
            );
            inner.start(x);
            inner.edge(x, y);
            inner.edge(y, End);
            let inner = inner.build().unwrap();
            let graph = handled(|g| {
                let sub = g.subgraph(
                    "sub",
                    inner,
                    |_: &Doc| Doc::update(),
                    |inner: &Doc| Doc::update().log(inner.log.clone()),
                );
                let h = g.worker("h", notes(&calls));
                g.start(sub);
                g.edge(sub, End);
                g.on_error_for(sub, [ErrorClass::Permanent], h);
                g.edge(h, End);
            });
            let runner = place.runner(graph, RunOptions::new());
            let report = runner.run(&thread("t"), start()).await.unwrap();
            if !fails_inside {
                assert_eq!(report.ended, Ended::Paused { questions: 1 });
                let limited = runner.open(&thread("l"), start()).await;
                let mut limited = limited.unwrap();
                limited.step_limit(1);
                let ended = limited.finish().await.unwrap().ended;
                assert_eq!(ended, Ended::StepLimit { limit: 1 });
                assert_eq!(calls.of("h"), 0);
                continue;
            }
            assert_eq!(report.state.log.len(), 1);
            let noted = &report.state.log[0];
            assert!(noted.starts_with("2:h[0] 1:sub[0] permanent"), "{noted}");
            assert!(noted.contains("no permanent"), "{noted}");
            assert_eq!((calls.of("x"), calls.of("h")), (1, 1));
        }
    });
}
