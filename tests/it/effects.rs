//! Irreversible nodes: what nobody knows to have run is not run again unasked.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use milepost::store::{MemoryStore, Severity, Status, check};
use milepost::{
    AfterCrash, Answers, Ask, Builder, Cancel, Command, Context, Effect, End, Ended, ErrorClass,
    EventKind, Exits, Graph, MayHaveRun, NodeError, Output, Policy, Problem, QuestionId, Report,
    Retry, Run, RunError, RunOptions, Runner, Snapshot, ThreadId, events, history, questions,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::support::{
    Calls, DOORS, Doc, DocUpdate, Place, Probe, When, drive, fed, lasting, line, listen, on_both,
    says, thread, told, with,
};

/// What a body does when it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// It pays, and is done.
    Pays,
    /// It says that it is there, and never ends.
    Hangs,
    /// It fails.
    Fails,
}

/// The world outside: how often was paid, and what the body does at each call; the last one stays.
#[derive(Clone, Debug)]
struct World {
    calls: Calls,
    script: Arc<[Does]>,
    hangs: Arc<Notify>,
}

impl World {
    fn new(script: &[Does]) -> Self {
        Self {
            calls: Calls::default(),
            script: script.into(),
            hangs: Arc::default(),
        }
    }

    async fn pay(&self, name: &str, cx: &Context) -> Result<DocUpdate, NodeError> {
        let call = self.calls.hit(name) as usize;
        let last = self.script.len() - 1;
        match self.script[(call - 1).min(last)] {
            Does::Pays => Ok(line(format!("{name}: {:?}", cx.after_crash()))),
            Does::Fails => Err(NodeError::transient("the line went dead")),
            Does::Hangs => {
                self.hangs.notify_one();
                std::future::pending().await
            }
        }
    }
}

fn irreversible() -> Policy {
    Policy::default().effect(Effect::Irreversible)
}

/// before → pay → after.
fn shop(world: &World) -> Graph<Doc> {
    let mut g = Graph::builder("shop");
    let before = g.node("before", says(&world.calls, "before"));
    let pay = with(
        world.clone(),
        async |world: World, _: Snapshot<Doc>, cx: Context| world.pay("pay", &cx).await,
    );
    let pay = g.node("pay", pay);
    g.policy(pay, irreversible());
    let after = g.node("after", says(&world.calls, "after"));
    g.start(before);
    g.edge(before, pay);
    g.edge(pay, after);
    g.edge(after, End);
    g.build().unwrap()
}

/// Drives a run until a body hangs, and then lets go of it, as a process does that dies.
async fn dies(world: &World, runner: Runner<Doc>, t: &ThreadId, command: Command<Doc>) {
    let mut run = runner.open(t, command).await.unwrap();
    tokio::select! {
        ended = run.finish() => panic!("it has not died: {ended:?}"),
        () = world.hangs.notified() => {}
    }
}

fn start() -> Command<Doc> {
    Command::start(Doc::update())
}

fn own(task: &str) -> QuestionId {
    format!("{task}.@after_crash").parse().unwrap()
}

/// The question, each of its answers, through every door, and after a second crash.
#[test]
fn after_a_crash_in_its_middle_an_irreversible_node_is_asked_about() {
    on_both(async || {
        for place in [Place::memory, Place::sled] {
            for door in DOORS {
                for (answer, paid, said) in [
                    (AfterCrash::Ran, 1, None),
                    (AfterCrash::DidNotRun, 2, Some("pay: Some(DidNotRun)")),
                    (AfterCrash::Again, 2, Some("pay: Some(Again)")),
                ] {
                    let world = World::new(&[Does::Hangs, Does::Pays]);
                    let (place, t) = (place(), thread("t"));
                    let fresh = || place.runner(shop(&world), RunOptions::new());
                    dies(&world, fresh(), &t, start()).await;
                    for _ in 0..2 {
                        let ended = drive(door, &fresh(), &t, Command::go_on()).await;
                        assert_eq!(ended.unwrap().0, Ended::Paused { questions: 1 });
                        assert_eq!(world.calls.of("pay"), 1);
                    }
                    let store = place.open().unwrap();
                    let head = store.head(&t).await.unwrap().unwrap();
                    assert_eq!(head.status, Status::Paused);
                    let open = questions(&*store, &t).await.unwrap();
                    let [question] = open.as_slice() else {
                        panic!("{open:?}")
                    };
                    assert_eq!(question.id, own("2:pay[0]"));
                    assert!(AfterCrash::answers(&question.id));
                    let asked: MayHaveRun = question.read().unwrap();
                    assert_eq!((asked.node.as_str(), asked.exits.len()), ("pay", 0));
                    assert!(asked.began_ms > 0);
                    drop(store);

                    let wrong = Command::answer(Answers::only("perhaps"));
                    let wrong = drive(door, &fresh(), &t, wrong).await.unwrap_err();
                    assert!(matches!(wrong, RunError::WrongAnswer { .. }), "{wrong}");
                    let answer = Command::answer(Answers::only(&answer));
                    let (ended, state) = drive(door, &fresh(), &t, answer).await.unwrap();
                    assert_eq!(ended, Ended::Finished);
                    let lines: Vec<_> = ["before"]
                        .into_iter()
                        .chain(said)
                        .chain(["after"])
                        .collect();
                    assert_eq!(state.log, lines);
                    assert_eq!(world.calls.of("pay"), paid);
                    assert_eq!((world.calls.of("before"), world.calls.of("after")), (1, 1));
                }
            }
        }
    });
}

/// One that dies again is asked about again, under another id; a repeated answer gets the same reply.
#[test]
fn each_crash_is_a_question_of_its_own() {
    on_both(async || {
        let world = World::new(&[Does::Hangs, Does::Hangs, Does::Pays]);
        let (place, t) = (Place::sled(), thread("t"));
        let fresh = || place.runner(shop(&world), RunOptions::new());
        let answer = |id: &QuestionId, answer| Command::answer(Answers::to(id.clone(), &answer));
        dies(&world, fresh(), &t, start()).await;
        let asked = fresh().run(&t, Command::go_on()).await.unwrap().questions;
        let first = asked[0].id.clone();
        dies(&world, fresh(), &t, answer(&first, AfterCrash::Again)).await;
        let asked = fresh().run(&t, Command::go_on()).await.unwrap().questions;
        assert_eq!(asked.len(), 1);
        let second = asked[0].id.clone();
        assert_eq!(second.to_string(), "2:pay[0].@after_crash_2");
        let other = fresh().run(&t, answer(&first, AfterCrash::Ran)).await;
        assert!(
            matches!(other, Err(RunError::AlreadyAnswered { .. })),
            "{other:?}"
        );
        let same = fresh()
            .run(&t, answer(&first, AfterCrash::Again))
            .await
            .unwrap();
        assert_eq!(same.ended, Ended::Paused { questions: 1 });
        assert_eq!(world.calls.of("pay"), 2);
        let done = fresh()
            .run(&t, answer(&second, AfterCrash::Ran))
            .await
            .unwrap();
        assert_eq!(done.state.log, ["before", "after"]);
        assert_eq!(world.calls.of("pay"), 2);
        let checked = check(&*place.open().unwrap(), &t).await;
        assert!(checked.is_sound(), "{:?}", checked.findings);
    });
}

/// A failure and a cancellation leave it in its middle, too: with a store, and in a handle without.
#[test]
fn a_failed_or_cancelled_one_is_asked_about() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory(), Place::sled()] {
            for does in [Does::Fails, Does::Hangs] {
                let world = World::new(&[does, Does::Pays]);
                let cancel = Cancel::new();
                let options = RunOptions::new().grace(Duration::ZERO);
                let options = options.cancel(cancel.clone());
                let runner = place.runner(shop(&world), options);
                let t = thread(&format!("{does:?}"));
                let mut run = runner.open(&t, start()).await.unwrap();
                let told = async {
                    world.hangs.notified().await;
                    cancel.cancel();
                };
                let ended = tokio::select! {
                    ended = run.finish() => ended,
                    () = async { told.await; std::future::pending().await } => unreachable!(),
                };
                match does {
                    Does::Hangs => assert_eq!(ended.unwrap().ended, Ended::Cancelled),
                    _ => assert!(matches!(ended, Err(RunError::Node { .. }))),
                }
                if let Place::Nowhere = place
                    && does == Does::Fails
                {
                    in_the_same_handle(&world, &mut run).await;
                    continue;
                }
                if let Place::Nowhere = place {
                    // What was cancelled stays so in its handle.
                    continue;
                }
                drop(run);
                drop(runner);
                let runner = place.runner(shop(&world), RunOptions::new());
                let mut run = runner.open(&t, Command::go_on()).await.unwrap();
                in_the_same_handle(&world, &mut run).await;
            }
        }
    });
}

async fn in_the_same_handle(world: &World, run: &mut Run<Doc>) {
    let paused = run.finish().await.unwrap();
    assert_eq!(paused.ended, Ended::Paused { questions: 1 });
    assert_eq!(paused.questions[0].id, own("2:pay[0]"));
    assert_eq!(world.calls.of("pay"), 1);
    let again = run.finish().await.unwrap();
    assert_eq!(again.questions, paused.questions);
    run.answer(Answers::only(&AfterCrash::Ran)).await.unwrap();
    let done = run.finish().await.unwrap();
    assert_eq!(done.state.log, ["before", "after"]);
    assert_eq!(world.calls.of("pay"), 1);
}

/// Without a store, a superstep that is cut by its deadline is asked about by the same handle.
#[test]
fn a_deadline_in_its_middle_is_asked_about_without_a_store() {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(async {
            let world = World::new(&[Does::Hangs, Does::Pays]);
            let options = RunOptions::new().superstep_deadline(Duration::from_secs(9));
            let runner = Place::Nowhere.runner(shop(&world), options);
            let mut run = runner.open(&thread("t"), start()).await.unwrap();
            let cut = run.finish().await.unwrap();
            assert!(
                matches!(cut.ended, Ended::Deadline { .. }),
                "{:?}",
                cut.ended
            );
            in_the_same_handle(&world, &mut run).await;
        });
}

#[derive(Clone, Copy, Debug, Exits)]
enum Paid {
    Whole,
    Part,
}

/// "It ran" of a node with exits says by which one.
#[test]
fn a_node_with_exits_is_said_to_have_run_by_one_of_them() {
    on_both(async || {
        let world = World::new(&[Does::Hangs]);
        let mut g = Graph::builder("exits");
        let pay = with(
            world.clone(),
            async |world: World, _: Snapshot<Doc>, cx: Context| {
                Ok((world.pay("pay", &cx).await?, Paid::Whole))
            },
        );
        let pay = g.node("pay", pay);
        g.policy(pay, irreversible());
        let whole = g.node("whole", says(&world.calls, "whole"));
        let part = g.node("part", says(&world.calls, "part"));
        g.start(pay);
        g.wire(pay, |paid| match paid {
            Paid::Whole => whole.into(),
            Paid::Part => part.into(),
        });
        g.edge(whole, End);
        g.edge(part, End);
        let graph = g.build().unwrap();
        let (place, t) = (Place::memory(), thread("t"));
        let fresh = || place.runner(graph.clone(), RunOptions::new());
        dies(&world, fresh(), &t, start()).await;
        let asked = fresh().run(&t, Command::go_on()).await.unwrap();
        let asked: MayHaveRun = asked.questions[0].read().unwrap();
        assert_eq!(asked.exits, ["Whole", "Part"]);
        for (wrong, part) in [
            (AfterCrash::Ran, "by which exit"),
            (AfterCrash::RanBy("Half".to_owned()), "no exit \"Half\""),
        ] {
            let command = Command::answer(Answers::only(&wrong));
            let refused = fresh().run(&t, command).await.unwrap_err();
            assert_eq!(refused.class(), "no_exit");
            let text = refused.to_string();
            assert!(
                text.contains(part) && text.contains("Whole, Part"),
                "{text}"
            );
        }
        let right = Answers::only(&AfterCrash::RanBy("Part".to_owned()));
        let done = fresh().run(&t, Command::answer(right)).await.unwrap();
        assert_eq!((done.ended, world.calls.of("pay")), (Ended::Finished, 1));
        assert_eq!(done.state.log, ["part"]);
    });
}

fn many(world: &World) -> Graph<Doc> {
    let mut g = Graph::builder("many");
    let pay = fed(
        world.clone(),
        async |world: World, name: String, _: Snapshot<Doc>, cx: Context| {
            // Those that are done are done before the others hang.
            if name.starts_with("ok") {
                world.calls.hit(&name);
                return Ok(line(name));
            }
            world.pay(&name, &cx).await
        },
    );
    let pay = g.worker("pay", pay);
    g.policy(pay, irreversible());
    let after = g.node("after", says(&world.calls, "after"));
    let names = || ["ok a", "b", "ok c", "d"].map(str::to_owned).to_vec();
    g.start(pay.each(move |_| names()));
    g.edge(pay, after);
    g.edge(after, End);
    g.build().unwrap()
}

/// Each task of a fan-out asks for itself; what its siblings have finished is kept.
#[test]
fn each_irreversible_task_of_a_fan_out_asks_for_itself() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let world = World::new(&[Does::Hangs, Does::Pays]);
            let t = thread("t");
            let fresh = || place.runner(many(&world), RunOptions::new());
            let store = place.open().unwrap();
            let runner = Runner::new(many(&world)).shared_store(Arc::clone(&store));
            let mut run = runner.open(&t, start()).await.unwrap();
            let done = async || {
                let all = events(&*store, &t).await.unwrap();
                let done = all
                    .iter()
                    .filter(|event| matches!(event.kind, EventKind::TaskFinished { .. }));
                done.count()
            };
            let both = async {
                while world.calls.of("b") + world.calls.of("d") < 2 || done().await < 2 {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                ended = run.finish() => panic!("{ended:?}"),
                () = both => {}
            }
            drop((run, runner));
            // What is cut lets go of the store in its own time.
            while Arc::strong_count(&store) > 1 {
                tokio::task::yield_now().await;
            }
            drop(store);
            let paused = fresh().run(&t, Command::go_on()).await.unwrap();
            let ids: Vec<_> = paused.questions.iter().map(|one| one.id.clone()).collect();
            assert_eq!(ids, [own("1:pay[1]"), own("1:pay[3]")]);
            let one = Answers::to(ids[0].clone(), &AfterCrash::DidNotRun);
            let half = fresh().run(&t, Command::answer(one)).await.unwrap();
            assert_eq!(half.ended, Ended::Paused { questions: 1 });
            let other = Answers::to(ids[1].clone(), &AfterCrash::Ran);
            let done = fresh().run(&t, Command::answer(other)).await.unwrap();
            assert_eq!(
                done.state.log,
                ["ok a", "b: Some(DidNotRun)", "ok c", "after"]
            );
            let all = ["ok a", "b", "ok c", "d", "after"].map(|name| world.calls.of(name));
            assert_eq!(all, [1, 2, 1, 1, 1]);
        }
    });
}

/// May this be paid?
#[derive(Serialize, Deserialize)]
struct Approve;

impl Ask for Approve {
    type Answer = bool;
}

/// A graph of one irreversible node.
fn alone<Fut, R>(node: impl Fn(Snapshot<Doc>, Context) -> Fut + Send + Sync + 'static) -> Graph<Doc>
where
    Fut: Future<Output = Result<R, NodeError>> + Send + 'static,
    R: milepost::IntoOutput<Doc, Exits = ()>,
{
    let mut g = Graph::builder("alone");
    let node = g.node("pay", node);
    g.policy(node, irreversible());
    g.start(node);
    g.edge(node, End);
    g.build().unwrap()
}

/// One that is left to ask a question of its own is not in its middle; after the answer it is.
#[test]
fn a_question_of_its_own_is_no_crash() {
    on_both(async || {
        let world = World::new(&[Does::Hangs, Does::Pays]);
        let node = async |world: World, _: Snapshot<Doc>, cx: Context| match cx
            .answer::<Approve>("approve")?
        {
            None => Ok(Output::ask("approve", Approve)),
            Some(_) => Ok(Output::Done(world.pay("pay", &cx).await?, ())),
        };
        let graph = alone(with(world.clone(), node));
        for place in [Place::memory(), Place::sled()] {
            world.calls.forget("pay");
            let t = thread("t");
            let fresh = || place.runner(graph.clone(), RunOptions::new());
            let asked = fresh().run(&t, start()).await.unwrap();
            assert_eq!(asked.questions[0].id.key(), "approve");
            let again = fresh().run(&t, Command::go_on()).await.unwrap();
            assert_eq!(again.questions, asked.questions);
            let yes = Command::answer(Answers::only(&true));
            dies(&world, fresh(), &t, yes).await;
            let asked = fresh().run(&t, Command::go_on()).await.unwrap();
            let [question] = asked.questions.as_slice() else {
                panic!("{:?}", asked.questions)
            };
            assert_eq!(question.id, own("1:pay[0]"));
            let again = Command::answer(Answers::only(&AfterCrash::Again));
            let done = fresh().run(&t, again).await.unwrap();
            assert_eq!(done.state.log, ["pay: Some(Again)"]);
        }
    });
}

/// No question of an author's can have the engine's key.
#[test]
fn the_keys_of_the_engine_are_its_own() {
    on_both(async || {
        for key in ["@after_crash", "@after_crash_2", "@"] {
            let graph = alone(move |_: Snapshot<Doc>, _: Context| async move {
                Ok(Output::<DocUpdate, (), Approve>::ask(key, Approve))
            });
            let runner = Place::memory().runner(graph, RunOptions::new());
            let refused = runner.run(&thread("t"), start()).await.unwrap_err();
            assert_eq!(refused.class(), ErrorClass::Invalid.name());
            assert!(refused.to_string().contains("begins with @"), "{refused}");
        }
    });
}

/// While it waits for a time it is not in its middle, whether its process is free or not; when it
/// has gone on, it is.
#[test]
fn a_wait_is_no_crash_and_what_follows_it_is() {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            for parks in [true, false] {
                for place in [Place::memory(), Place::sled()] {
                    let world = World::new(&[Does::Hangs, Does::Pays]);
                    let until = SystemTime::now() + Duration::from_millis(100);
                    let node = async |(world, until): (World, SystemTime),
                                      _: Snapshot<Doc>,
                                      cx: Context| {
                        cx.sleep_until("nap", until).await?;
                        world.pay("pay", &cx).await
                    };
                    let graph = alone(with((world.clone(), until), node));
                    let park_after = if parks { 0 } else { 3600 };
                    let options = RunOptions::new().park_after(Duration::from_secs(park_after));
                    let fresh = || place.runner(graph.clone(), options.clone());
                    let t = thread("t");
                    if parks {
                        let mut command = start();
                        loop {
                            let runner = fresh();
                            let mut run = runner.open(&t, command).await.unwrap();
                            let parked = tokio::select! {
                                ended = run.finish() => ended.unwrap(),
                                () = world.hangs.notified() => break,
                            };
                            let ended = parked.ended;
                            assert!(matches!(ended, Ended::Parked { .. }), "{ended:?}");
                            tokio::time::sleep(Duration::from_millis(10)).await;
                            command = Command::go_on();
                        }
                    } else {
                        dies(&world, fresh(), &t, start()).await;
                    }
                    let asked = fresh().run(&t, Command::go_on()).await.unwrap();
                    assert_eq!(asked.ended, Ended::Paused { questions: 1 });
                    assert_eq!(world.calls.of("pay"), 1);
                    let again = Command::answer(Answers::only(&AfterCrash::Again));
                    let done = fresh().run(&t, again).await.unwrap();
                    assert_eq!(done.state.log, ["pay: Some(Again)"]);
                }
            }
        });
}

#[test]
fn a_retry_beside_an_irreversible_effect_is_refused() {
    let mut g: Builder<Doc> = Graph::builder("retry");
    let pay = g.node("pay", async |_: Snapshot<Doc>, _| Ok(line("paid")));
    let nap = g.node("nap", async |_: Snapshot<Doc>, _| Ok(line("slept")));
    g.policy(pay, irreversible().retry(Retry::default()));
    g.policy(nap, Policy::default().idle_timeout(Duration::ZERO));
    g.start(pay);
    g.edge(pay, nap);
    g.edge(nap, End);
    let error = g.build().unwrap_err();
    let names = error.problems.iter().map(|problem| match problem {
        Problem::Policy { node, .. } => node.as_str(),
        other => panic!("{other:?}"),
    });
    assert_eq!(names.collect::<Vec<_>>(), ["pay", "nap"]);
    let text = error.to_string();
    assert!(
        text.contains("\"pay\"") && text.contains("irreversible"),
        "{text}"
    );
    assert!(text.contains("an idle timeout of 0"), "{text}");
}

/// A branch has no memory of what began on another one: it runs again there. The branch that was
/// left still asks.
#[test]
fn a_fork_runs_it_again() {
    on_both(async || {
        let world = World::new(&[Does::Hangs, Does::Pays]);
        let (place, t) = (Place::memory(), thread("t"));
        let runner = place.runner(shop(&world), RunOptions::new());
        dies(&world, runner.clone(), &t, start()).await;
        let store = place.open().unwrap();
        let at = history(&*store, &t).await.unwrap().last().unwrap().seq;
        let moved = runner.fork(&t, at).await.unwrap();
        let done = runner.run(&t, Command::go_on()).await.unwrap();
        assert_eq!(done.state.log, ["before", "pay: None", "after"]);
        runner.switch(&t, milepost::Branch::new(0)).await.unwrap();
        let asked = runner.run(&t, Command::go_on()).await.unwrap();
        assert_eq!(asked.ended, Ended::Paused { questions: 1 });
        assert_eq!((moved.branch.get(), world.calls.of("pay")), (1, 2));
        // What was recorded is sound, can be replayed, and a prune keeps what is open.
        assert!(runner.replay(&t).await.unwrap().differences.is_empty());
        store.prune(&t).await.unwrap();
        let checked = check(&*store, &t).await;
        let worst = checked
            .findings
            .iter()
            .map(|finding| finding.severity)
            .max();
        assert!(worst <= Some(Severity::Note), "{:?}", checked.findings);
        assert_eq!(questions(&*store, &t).await.unwrap().len(), 1);
        let ran = Command::answer(Answers::only(&AfterCrash::Ran));
        let done = runner.run(&t, ran).await.unwrap();
        assert_eq!(done.state.log, ["before", "after"]);
        assert!(runner.replay(&t).await.unwrap().differences.is_empty());
    });
}

/// The record is there before the body starts, and what a listener hears is what the log tells.
#[test]
fn that_it_begins_is_durable_before_its_body_starts() {
    on_both(async || {
        let memory = MemoryStore::new();
        let t = thread("t");
        let node = async |memory: MemoryStore, _: Snapshot<Doc>, cx: Context| {
            let known = events(&memory, cx.thread()).await?;
            Ok(Doc::update().log(told(&known)))
        };
        let graph = alone(with(memory.clone(), node));
        let runner = Runner::new(graph.clone()).store(memory.clone());
        let (heard, ended) = listen(&runner, &t, start()).await;
        let (_, state) = ended.unwrap();
        let [.., last] = state.log.as_slice() else {
            panic!("nothing is told")
        };
        assert!(last.starts_with("Begun { task: 1:pay[0]"), "{last}");
        assert_eq!(lasting(&heard), events(&memory, &t).await.unwrap());
        // Without a store, a listener hears of it all the same.
        let (heard, _) = listen(&Runner::new(graph), &t, start()).await;
        let begun = told(&heard)
            .iter()
            .filter(|line| line.starts_with("Begun"))
            .count();
        assert_eq!(begun, 1);
    });
}

/// Goes on to the end, and lets the tasks of which nobody knows be run again.
async fn to_the_end(
    runner: &Runner<Doc>,
    t: &ThreadId,
    asked: &mut u32,
) -> Result<Snapshot<Doc>, RunError> {
    for _ in 0..50 {
        let report: Report<Doc> = match runner.run(t, Command::go_on()).await {
            Err(RunError::NotFound { .. }) => runner.run(t, start()).await?,
            report => report?,
        };
        match report.ended {
            Ended::Finished => return Ok(report.state),
            Ended::Paused { .. } => {
                *asked += 1;
                let question = report.questions[0].id.clone();
                let answers = Answers::to(question, &AfterCrash::Again);
                runner.run(t, Command::answer(answers)).await?;
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("it does not come to an end");
}

/// S042: the store fails once, at any of its operations; no body is run twice without somebody having
/// said so.
#[test]
fn a_store_that_fails_anywhere_runs_nothing_irreversible_twice_unasked() {
    on_both(async || {
        let t = thread("t");
        let mut asked_ever = 0;
        for when in [When::Before, When::After] {
            for at in 1.. {
                let memory = MemoryStore::new();
                let probe = Probe::new(memory.clone()).failing(at, when);
                let world = World::new(&[Does::Pays]);
                let mut asked = 0;
                let failing = Runner::new(many(&world)).store(probe.clone());
                let first = to_the_end(&failing, &t, &mut asked).await;
                let next = Runner::new(many(&world)).store(memory.clone());
                let state = to_the_end(&next, &t, &mut asked).await.unwrap();
                assert_eq!(state.log.len(), 5, "{when:?} {at}");
                let calls = ["ok a", "b", "ok c", "d"].map(|name| world.calls.of(name));
                let more = calls.iter().map(|calls| calls - 1).sum::<u32>();
                assert!(more <= asked, "{when:?} {at}: {calls:?}, {asked} asked");
                assert!(check(&memory, &t).await.is_sound(), "{when:?} {at}");
                asked_ever += asked;
                if probe.operations() < at {
                    assert!(first.is_ok() && at > 5, "{when:?} {at}");
                    break;
                }
            }
        }
        assert!(asked_ever > 0, "no failure has hit one in its middle");
    });
}

/// The shop with exits, inside of a node of another graph.
fn nested(world: &World) -> Graph<Doc> {
    let mut inner = Graph::builder("inner");
    let pay = with(
        world.clone(),
        async |world: World, _: Snapshot<Doc>, cx: Context| {
            let who = cx.run_context::<String>()?;
            let paid = world.pay("pay", &cx).await?;
            Ok((paid.log(vec![who.to_string()]), Paid::Whole))
        },
    );
    let pay = inner.node("pay", pay);
    inner.policy(pay, irreversible());
    let whole = inner.node("whole", says(&world.calls, "whole"));
    let part = inner.node("part", says(&world.calls, "part"));
    inner.start(pay);
    inner.wire(pay, |paid| match paid {
        Paid::Whole => whole.into(),
        Paid::Part => part.into(),
    });
    inner.edge(whole, End);
    inner.edge(part, End);
    let mut g = Graph::builder("outer");
    let shop = g.subgraph(
        "shop",
        inner.build().unwrap(),
        |_: &Doc| Doc::update(),
        |inner| Doc::update().log(inner.log.clone()),
    );
    g.start(shop);
    g.edge(shop, End);
    g.build().unwrap()
}

/// Inside of a subgraph it is the same: the question has its whole path, the answer is checked
/// there, and what the caller gives is given there, too.
#[test]
fn an_irreversible_node_inside_of_a_subgraph_is_asked_about() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let world = World::new(&[Does::Hangs, Does::Pays]);
            let t = thread("t");
            let fresh = || place.runner(nested(&world), RunOptions::new());
            let given = |command: Command<Doc>| command.context("ada".to_owned());
            dies(&world, fresh(), &t, given(start())).await;
            let asked = fresh().run(&t, given(Command::go_on())).await.unwrap();
            let [question] = asked.questions.as_slice() else {
                panic!("{:?}", asked.questions)
            };
            assert_eq!(question.id, own("1:shop[0]/1:pay[0]"));
            let bare = Command::answer(Answers::only(&AfterCrash::Ran));
            let refused = fresh().run(&t, given(bare)).await.unwrap_err();
            assert_eq!(refused.class(), "no_exit");
            let again = Command::answer(Answers::only(&AfterCrash::Again));
            // Without what it needs it fails, after it began: that is asked about, too.
            fresh().run(&t, again).await.unwrap_err();
            let asked = fresh().run(&t, given(Command::go_on())).await.unwrap();
            assert_eq!(asked.questions[0].id.key(), "@after_crash_2");
            let again = Command::answer(Answers::only(&AfterCrash::DidNotRun));
            let done = fresh().run(&t, given(again)).await.unwrap();
            assert_eq!(done.ended, Ended::Finished);
            assert_eq!(done.state.log, ["pay: Some(DidNotRun)", "ada", "whole"]);
            assert_eq!(world.calls.of("pay"), 2);
            let checked = check(&*place.open().unwrap(), &t).await;
            assert!(checked.is_sound(), "{:?}", checked.findings);
        }
        // Without a store, in one handle.
        let world = World::new(&[Does::Fails, Does::Pays]);
        let runner = Place::Nowhere.runner(nested(&world), RunOptions::new());
        let command = start().context("ada".to_owned());
        let mut run = runner.open(&thread("t"), command).await.unwrap();
        run.finish().await.unwrap_err();
        let asked = run.finish().await.unwrap();
        assert_eq!(asked.questions[0].id, own("1:shop[0]/1:pay[0]"));
        let ran = AfterCrash::RanBy("Part".to_owned());
        run.answer(Answers::only(&ran)).await.unwrap();
        assert_eq!(run.finish().await.unwrap().state.log, ["part"]);
        assert_eq!(world.calls.of("pay"), 1);
    });
}

/// A node that runs a graph is none that could be run twice: those inside are.
#[test]
fn a_subgraph_is_not_irreversible_as_a_whole() {
    let mut inner: Builder<Doc> = Graph::builder("inner");
    let node = inner.node("node", async |_: Snapshot<Doc>, _| Ok(line("done")));
    inner.start(node);
    inner.edge(node, End);
    let mut g: Builder<Doc> = Graph::builder("outer");
    let all = |_: &Doc| Doc::update();
    let shop = g.subgraph("shop", inner.build().unwrap(), all, |_| Doc::update());
    g.policy(shop, irreversible());
    g.start(shop);
    g.edge(shop, End);
    let text = g.build().unwrap_err().to_string();
    assert!(
        text.contains("\"shop\"") && text.contains("nodes inside"),
        "{text}"
    );
}

/// An outcome that is discarded does not make it run again unasked: neither its own, nor one that a
/// person has given; in the same handle, and by the log.
#[test]
fn a_retry_by_hand_asks_about_what_is_irreversible() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            for same_handle in [false, true] {
                let world = World::new(&[Does::Fails]);
                let t = thread(&format!("t {same_handle}"));
                let fresh = || place.runner(many(&world), RunOptions::new());
                let mut report = fresh().run(&t, start()).await;
                // Each of two fails once, and is asked about.
                while !matches!(&report, Ok(report) if report.questions.len() == 2) {
                    report = fresh().run(&t, Command::go_on()).await;
                }
                let ran = Answers::to(own("1:pay[1]"), &AfterCrash::Ran);
                let half = fresh().run(&t, Command::answer(ran)).await.unwrap();
                assert_eq!(half.ended, Ended::Paused { questions: 1 });
                let both = || ["1:pay[0]", "1:pay[1]"].map(|task| task.parse().unwrap());
                let runner = fresh();
                let asked = match same_handle {
                    true => {
                        let mut run = runner.open(&t, Command::go_on()).await.unwrap();
                        run.retry(both()).await.unwrap();
                        run.finish().await.unwrap().questions
                    }
                    false => {
                        let retried = Command::retry(both());
                        drop(runner.open(&t, retried).await.unwrap());
                        let paused = runner.run(&t, Command::go_on()).await;
                        paused.unwrap().questions
                    }
                };
                let mut ids: Vec<_> = asked.iter().map(|one| one.id.to_string()).collect();
                ids.sort();
                assert_eq!(
                    ids,
                    [
                        "1:pay[0].@after_crash",
                        "1:pay[1].@after_crash_2",
                        "1:pay[3].@after_crash"
                    ],
                );
                let answers = Answers::to(own("1:pay[0]"), &AfterCrash::Again)
                    .and("1:pay[1].@after_crash_2".parse().unwrap(), &AfterCrash::Ran)
                    .and(own("1:pay[3]"), &AfterCrash::Ran);
                let done = runner.run(&t, Command::answer(answers)).await.unwrap();
                assert_eq!(done.state.log, ["ok a", "ok c", "after"]);
                let all = ["ok a", "b", "ok c", "d"].map(|name| world.calls.of(name));
                assert_eq!(all, [2, 1, 1, 1]);
            }
        }
    });
}
