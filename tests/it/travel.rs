//! Time travel: a thread goes back and elsewhere, and nothing that was recorded is ever touched.

use std::sync::Arc;

use milepost::store::{CheckpointStore, MemoryStore, Severity, Status, ThreadArchive, check};
use milepost::{
    Answers, AsNode, Ask, Branch, Checkpoint, Command, Context, End, Ended, EventKind, Exits,
    Graph, NodeError, Output, QuestionId, RunError, RunId, RunOptions, Runner, Seq, Snapshot,
    ThreadId, events, events_until, history, questions,
};
use serde::{Deserialize, Serialize};

use crate::support::{
    Calls, Doc, DocUpdate, Place, Probe, When, fed, line, on_both, says, thread, with,
};

/// May this be done?
#[derive(Serialize, Deserialize)]
struct Allow;

impl Ask for Allow {
    type Answer = bool;
}

type Asks = Output<DocUpdate, (), Allow>;

/// `v` → `h` → `w`: `h` asks, and adds one if it is allowed.
fn asking(calls: &Calls) -> Graph<Doc> {
    let mut g = Graph::builder("asking");
    let v = g.node("v", says(calls, "v"));
    let ask = async |calls: Calls, doc: Snapshot<Doc>, cx: Context| {
        calls.hit("h");
        cx.step("look", async {
            calls.hit("step");
            Ok(())
        })
        .await?;
        let Some(allowed) = cx.answer::<Allow>("allow")? else {
            return Ok(Output::ask("allow", Allow));
        };
        let update = line(format!("h {allowed} {}", cx.idempotency_key("k")));
        Ok::<Asks, NodeError>(Output::Done(update.n(doc.n + u64::from(allowed)), ()))
    };
    let h = g.node("h", with(calls.clone(), ask));
    let w = g.node("w", says(calls, "w"));
    g.start(v);
    g.edge(v, h);
    g.edge(h, w);
    g.edge(w, End);
    g.build().unwrap()
}

fn start() -> Command<Doc> {
    Command::start(Doc::update().n(1))
}

fn answer(allowed: bool) -> Command<Doc> {
    Command::answer(Answers::only(&allowed))
}

/// The checkpoint that closes a superstep of a branch.
async fn after(store: &dyn CheckpointStore, t: &ThreadId, branch: u32, step: u64) -> Seq {
    let all = history(store, t).await.unwrap();
    let is_it = |at: &&Checkpoint| (at.branch.get(), at.step.get()) == (branch, step);
    all.iter().rfind(is_it).unwrap().seq
}

/// The state of every checkpoint there is.
async fn states(runner: &Runner<Doc>, store: &dyn CheckpointStore, t: &ThreadId) -> Vec<Doc> {
    let mut states = Vec::new();
    for at in history(store, t).await.unwrap() {
        states.push((*runner.state_at(t, at.seq).await.unwrap()).clone());
    }
    states
}

async fn is_clean(store: &dyn CheckpointStore, t: &ThreadId) {
    let checked = check(store, t).await;
    let worst = checked.findings.iter().map(|found| found.severity).max();
    assert!(worst <= Some(Severity::Note), "{:#?}", checked.findings);
}

/// C23 (1): fork before the question, answer it the other way; the old branch stays as it was.
#[test]
fn a_question_is_asked_again_on_a_fork_and_can_be_answered_differently() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let (calls, t) = (Calls::default(), thread("t"));
            let open = place.open().unwrap();
            let store = || Arc::clone(&open);
            let fresh = || Runner::new(asking(&calls)).shared_store(store());
            fresh().run(&t, start()).await.unwrap();
            let report = fresh().run(&t, answer(true)).await.unwrap();
            assert_eq!((report.ended, report.state.n), (Ended::Finished, 2));
            let before = states(&fresh(), &*store(), &t).await;
            let old = history(&*store(), &t).await.unwrap();

            let at = after(&*store(), &t, 0, 1).await;
            let moved = fresh().fork(&t, at).await.unwrap();
            assert_eq!((moved.branch, moved.from), (Branch::new(1), Branch::new(0)));
            assert_eq!((moved.seq, moved.status), (at, Status::Paused));
            assert_eq!(moved.next[0].0.as_str(), "h");
            assert_eq!(questions(&*store(), &t).await.unwrap(), []);
            let report = fresh().run(&t, Command::go_on()).await.unwrap();
            assert_eq!(report.ended, Ended::Paused { questions: 1 });
            assert_eq!(questions(&*store(), &t).await.unwrap(), report.questions);
            let report = fresh().run(&t, answer(false)).await.unwrap();
            assert_eq!((report.ended, report.state.n), (Ended::Finished, 1));

            // Two calls for each branch; `v` ran once, and the step was done again.
            let ran = ["v", "h", "step", "w"].map(|name| calls.of(name));
            assert_eq!(ran, [1, 4, 2, 2]);
            let all = history(&*store(), &t).await.unwrap();
            assert_eq!(all[..old.len()], old);
            let new: Vec<_> = all[old.len()..]
                .iter()
                .map(|at| (at.parent, at.branch))
                .collect();
            let first = all[old.len()].seq;
            let one = Branch::new(1);
            assert_eq!(new, [(Some(at), one), (Some(first), one)]);
            let now = states(&fresh(), &*store(), &t).await;
            assert_eq!(now[..old.len()], before);
            assert_eq!(before.last().unwrap().n, 2);
            // The key of an outside effect is another one on the new branch.
            assert_ne!(now[2].log[1], now[4].log[1].replace("false", "true"));
            let head = store().head(&t).await.unwrap().unwrap();
            assert_eq!((head.branch, Some(head.seq)), (one, report.seq));
            is_clean(&*store(), &t).await;
        }
    });
}

/// C23 (2): going back to where the thread stands asks again, too; without it, nothing changes.
#[test]
fn going_back_to_the_head_begins_its_superstep_anew() {
    on_both(async || {
        let (calls, t, place) = (Calls::default(), thread("t"), Place::memory());
        let runner = place.runner(asking(&calls), RunOptions::new());
        let report = runner.run(&t, start()).await.unwrap();
        let head = report.seq.unwrap();
        let old = report.questions[0].clone();
        let moved = runner.rewind(&t, head).await.unwrap();
        assert_eq!((moved.seq, moved.branch), (head, Branch::new(1)));
        // The question of the old branch cannot be answered here, and is not asked here yet.
        let answers = Answers::to(old.id.clone(), &true);
        let refused = runner.run(&t, Command::answer(answers)).await.unwrap_err();
        assert!(matches!(refused, RunError::NoQuestion { .. }), "{refused}");
        let report = runner.run(&t, Command::go_on()).await.unwrap();
        assert_eq!(report.questions[0].id, old.id);
        assert_ne!(report.questions[0].seq, old.seq);
        assert_eq!(runner.run(&t, answer(false)).await.unwrap().state.n, 1);
        // An answer of this branch, repeated, is accepted again.
        let again = Command::answer(Answers::to(old.id.clone(), &false));
        assert!(runner.run(&t, again).await.unwrap().ended.is_finished());

        // Back on the old branch the question is open as it was, and has no answer.
        let moved = runner.switch(&t, Branch::new(0)).await.unwrap();
        assert_eq!((moved.seq, moved.status), (head, Status::Paused));
        let store = place.open().unwrap();
        assert_eq!(questions(&*store, &t).await.unwrap(), [old]);
        let report = runner.run(&t, answer(true)).await.unwrap();
        assert_eq!((report.ended, report.state.n), (Ended::Finished, 2));
        is_clean(&*store, &t).await;
    });
}

/// A fan-out of three, whose second task fails as long as it is told to.
fn fan(calls: &Calls) -> Graph<Doc> {
    let mut g = Graph::builder("fan");
    let plan = g.node("plan", says(calls, "plan"));
    let study = async |calls: Calls, topic: u64, _: Snapshot<Doc>, _: Context| {
        calls.hit(&format!("study {topic}"));
        if topic == 1 && calls.of("whole") == 0 {
            return Err(NodeError::permanent("not yet"));
        }
        Ok(Doc::update().seen(vec![topic]).sum(topic))
    };
    let study = g.worker("study", fed(calls.clone(), study));
    let done = g.node("done", says(calls, "done"));
    g.start(plan);
    g.edge(plan, study.each(|doc: &Doc| (0..doc.n).collect()));
    g.edge(study, done);
    g.edge(done, End);
    g.build().unwrap()
}

/// A fork at a fan-out whose outcomes are half recorded does all of its tasks; back on the old
/// branch what was recorded there counts.
#[test]
fn outcomes_of_an_open_superstep_stay_on_their_branch() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let (calls, t) = (Calls::default(), thread("t"));
            let fresh = || place.runner(fan(&calls), RunOptions::new().concurrency(1));
            let begin = Command::start(Doc::update().n(3));
            let failed = fresh().run(&t, begin).await.unwrap_err();
            assert!(matches!(failed, RunError::Node { .. }));
            let head = place.open().unwrap().head(&t).await.unwrap().unwrap();
            let studied = calls.all();
            calls.hit("whole");
            fresh().fork(&t, head.seq).await.unwrap();
            let report = fresh().run(&t, Command::go_on()).await.unwrap();
            assert_eq!(
                (report.state.seen.clone(), report.state.sum),
                (vec![0, 1, 2], 3)
            );
            assert_eq!(calls.of("study 0"), 2);

            let moved = fresh().switch(&t, Branch::new(0)).await.unwrap();
            assert_eq!(moved.status, Status::Failed);
            let store = place.open().unwrap();
            let told = events(&*store, &t).await.unwrap();
            let EventKind::Ended { status, error, .. } = &told.last().unwrap().kind else {
                panic!("{told:?}");
            };
            assert_eq!(status, "failed");
            assert!(error.as_ref().unwrap().message.contains("not yet"));
            drop(store);
            let report = fresh().run(&t, Command::go_on()).await.unwrap();
            assert_eq!(report.state.seen, [0, 1, 2]);
            for name in ["study 0", "study 2"] {
                let before = studied.get(name).copied().unwrap_or(0);
                let expected = before + 1 + u32::from(before == 0);
                assert_eq!(calls.of(name), expected, "{name}");
            }
            is_clean(&*place.open().unwrap(), &t).await;
        }
    });
}

/// A fork at the input, one at the end, forks of forks: each has its own past and no other.
#[test]
fn forks_of_forks_begin_anywhere() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let (calls, t) = (Calls::default(), thread("t"));
            calls.hit("whole");
            let fresh = || place.runner(fan(&calls), RunOptions::new());
            let store = || place.open().unwrap();
            let begin = Command::start(Doc::update().n(2));
            let first = fresh().run(&t, begin).await.unwrap();
            let input = after(&*store(), &t, 0, 0).await;
            fresh().fork(&t, input).await.unwrap();
            let second = fresh().run(&t, Command::go_on()).await.unwrap();
            assert_eq!(*second.state, *first.state);
            assert_eq!(
                second.run, first.run,
                "a fork goes on with the run of its checkpoint"
            );

            // At the end: finished at once, and a new input begins a new run there.
            let moved = fresh().fork(&t, first.seq.unwrap()).await.unwrap();
            assert_eq!((moved.status, moved.next.len()), (Status::Finished, 0));
            let report = fresh().run(&t, Command::go_on()).await.unwrap();
            assert_eq!((report.ended, report.seq), (Ended::Finished, first.seq));
            let more = Command::start(Doc::update().n(1));
            let third = fresh().run(&t, more).await.unwrap();
            assert_eq!(third.state.seen, [0, 1, 0]);

            let inside = after(&*store(), &t, 2, 4).await;
            let moved = fresh().fork(&t, inside).await.unwrap();
            assert_eq!((moved.branch.get(), moved.step.get()), (3, 4));
            let fourth = fresh().run(&t, Command::go_on()).await.unwrap();
            assert_eq!(*fourth.state, *third.state);
            let parents: Vec<_> = history(&*store(), &t).await.unwrap();
            let parent = parents
                .iter()
                .find(|at| at.branch.get() == 3)
                .unwrap()
                .parent;
            assert_eq!(parent, Some(inside));

            // A checkpoint of a sibling leads nowhere near the head.
            let aside = after(&*store(), &t, 1, 2).await;
            let refused = fresh().rewind(&t, aside).await.unwrap_err();
            let RunError::OtherLine { branch, head, .. } = refused else {
                panic!("{refused}");
            };
            assert_eq!((branch.get(), head.get()), (1, 3));
            fresh().rewind(&t, input).await.unwrap();
            let fifth = fresh().run(&t, Command::go_on()).await.unwrap();
            assert_eq!(*fifth.state, *first.state);
            is_clean(&*store(), &t).await;
        }
    });
}

/// What is told of a thread is one line: siblings are left out, also of an older checkpoint.
#[test]
fn events_follow_the_line_of_the_head() {
    on_both(async || {
        let (calls, t, place) = (Calls::default(), thread("t"), Place::memory());
        let runner = place.runner(asking(&calls), RunOptions::new());
        let store = place.open().unwrap();
        runner.run(&t, start()).await.unwrap();
        let old = runner.run(&t, answer(true)).await.unwrap();
        let whole = events(&*store, &t).await.unwrap();
        let at = after(&*store, &t, 0, 1).await;
        let mut reader = milepost::EventReader::new(t.clone());
        assert_eq!(reader.poll(&*store).await.unwrap(), whole);
        runner.fork(&t, at).await.unwrap();
        runner.run(&t, Command::go_on()).await.unwrap();
        let told = events(&*store, &t).await.unwrap();
        let shared = told
            .iter()
            .take_while(|event| event.seq <= Some(at))
            .count();
        assert_eq!(told[..shared], whole[..shared]);
        let branched = EventKind::Branched {
            branch: Branch::new(1),
            parent: Branch::new(0),
            at,
        };
        assert_eq!(told[shared].kind, branched);
        let EventKind::Resumed { run, .. } = &told[shared + 1].kind else {
            panic!("{told:?}");
        };
        assert_eq!(*run, old.run);
        // Who followed is told what came.
        assert_eq!(reader.poll(&*store).await.unwrap(), told[shared..]);
        let until = events_until(&*store, &t, old.seq.unwrap()).await.unwrap();
        assert_eq!(until, whole);
    });
}

/// How a node is left.
#[derive(Clone, Copy, Exits)]
enum Verdict {
    Good,
    Again,
}

/// `draft` → `review` → `publish`, or back to `draft`; `route` is a branch over the state.
fn desk(calls: &Calls) -> Graph<Doc> {
    let mut g = Graph::builder("desk");
    let draft = g.node("draft", says(calls, "draft"));
    let review = g.node(
        "review",
        with(
            calls.clone(),
            async |calls: Calls, _: Snapshot<Doc>, _| match calls.hit("review") {
                1 => Err(NodeError::permanent("no reviewer")),
                _ => Ok((line("review"), Verdict::Good)),
            },
        ),
    );
    let publish = g.node("publish", says(calls, "publish"));
    let audit = g.node("audit", says(calls, "audit"));
    g.start(draft);
    g.edge(draft, review);
    g.wire(review, |verdict| match verdict {
        Verdict::Good => publish.into(),
        Verdict::Again => draft.into(),
    });
    g.branch(
        publish,
        |doc: &Doc| {
            Ok(if doc.n > 9 {
                Verdict::Again
            } else {
                Verdict::Good
            })
        },
        |verdict| match verdict {
            Verdict::Good => End.into(),
            Verdict::Again => audit.into(),
        },
    );
    g.edge(audit, End);
    g.build().unwrap()
}

/// A failed thread is patched as the node that failed, by each of its exits; a finished one goes on.
#[test]
fn a_patch_stands_for_a_node_and_its_way_out_is_taken() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let (calls, t) = (Calls::default(), thread("t"));
            let fresh = || place.runner(desk(&calls), RunOptions::new());
            let store = || place.open().unwrap();
            fresh()
                .run(&t, Command::start(Doc::update()))
                .await
                .unwrap_err();
            let review = || AsNode::new("review");
            for (node, wrong) in [
                (review(), "by which exit"),
                (review().exit("Bad"), "Good, Again"),
                (AsNode::new("draft").exit("Good"), "one way out"),
                (AsNode::new("nobody"), "\"draft\", \"review\""),
            ] {
                let refused = fresh().patch(&t, Doc::update(), node).await.unwrap_err();
                assert!(refused.to_string().contains(wrong), "{refused}");
            }
            assert_eq!(
                history(&*store(), &t).await.unwrap().len(),
                2,
                "nothing was stored"
            );

            let update = line("by hand").sum(2);
            let moved = fresh()
                .patch(&t, update, review().exit("Good"))
                .await
                .unwrap();
            assert_eq!((moved.branch.get(), moved.step.get()), (1, 2));
            assert_eq!(moved.next[0].0.as_str(), "publish");
            let report = fresh().run(&t, Command::go_on()).await.unwrap();
            assert_eq!(report.ended, Ended::Finished);
            assert_eq!(report.state.log, ["draft", "by hand", "publish"]);
            assert_eq!((report.state.sum, calls.of("review")), (2, 1));

            // A finished thread: a decision is made again, on the patched state, past its reducer.
            let update = Doc::update()
                .n(10)
                .overwrite(Doc::LOG, vec!["new".to_owned()]);
            let moved = fresh()
                .patch(&t, update, AsNode::new("publish"))
                .await
                .unwrap();
            assert_eq!((moved.status, moved.next.len()), (Status::Paused, 1));
            let report = fresh().run(&t, Command::go_on()).await.unwrap();
            assert_eq!(report.state.log, ["new", "audit"]);
            // One that leads to the end is finished at once.
            let moved = fresh()
                .patch(&t, Doc::update().n(3), AsNode::new("audit"))
                .await
                .unwrap();
            assert_eq!((moved.status, moved.next.len()), (Status::Finished, 0));
            let report = fresh().run(&t, Command::go_on()).await.unwrap();
            assert_eq!((report.ended, report.state.n), (Ended::Finished, 3));

            // The old branches are as they were: the failed one fails no more, and goes on.
            fresh().switch(&t, Branch::new(0)).await.unwrap();
            let report = fresh().run(&t, Command::go_on()).await.unwrap();
            assert_eq!(report.state.log, ["draft", "review", "publish"]);
            let all = history(&*store(), &t).await.unwrap();
            let patched: Vec<_> = all.iter().filter(|at| at.patched).collect();
            let ran: Vec<_> = patched.iter().map(|at| at.ran[0].0.as_str()).collect();
            assert_eq!(ran, ["review", "publish", "audit"]);
            is_clean(&*store(), &t).await;
        }
    });
}

/// A patch on a branch that was just begun is the first thing on it, and no second branch.
#[test]
fn an_older_checkpoint_is_forked_and_patched_on_one_branch() {
    on_both(async || {
        let (calls, t, place) = (Calls::default(), thread("t"), Place::memory());
        calls.hit("whole");
        let runner = place.runner(fan(&calls), RunOptions::new());
        let store = place.open().unwrap();
        runner
            .run(&t, Command::start(Doc::update().n(1)))
            .await
            .unwrap();
        let at = after(&*store, &t, 0, 1).await;
        runner.fork(&t, at).await.unwrap();
        let more = Doc::update().n(4);
        let moved = runner.patch(&t, more, AsNode::new("plan")).await.unwrap();
        assert_eq!((moved.branch.get(), moved.step.get()), (1, 2));
        let next: Vec<_> = moved
            .next
            .iter()
            .map(|(node, n)| (node.as_str(), *n))
            .collect();
        assert_eq!(next, [("study", 4)]);
        let report = runner.run(&t, Command::go_on()).await.unwrap();
        assert_eq!(report.state.seen, [0, 1, 2, 3]);
        // A patch that is refused by its way out changes nothing.
        let before = history(&*store, &t).await.unwrap();
        let worker = AsNode::new("study");
        let moved = runner.patch(&t, line("as a worker"), worker).await.unwrap();
        assert_eq!(moved.next[0].0.as_str(), "done");
        assert_eq!(history(&*store, &t).await.unwrap().len(), before.len() + 1);
        is_clean(&*store, &t).await;
    });
}

#[test]
fn what_cannot_be_gone_back_to_is_refused_in_words() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let (calls, t) = (Calls::default(), thread("t"));
            calls.hit("whole");
            let open = place.open().unwrap();
            let store = || Arc::clone(&open);
            let options = RunOptions::new().base_every(2);
            let fresh = || {
                let runner = Runner::new(fan(&calls)).shared_store(store());
                runner.options(options.clone())
            };
            for _ in 0..4 {
                fresh()
                    .run(&t, Command::start(Doc::update().n(2)))
                    .await
                    .unwrap();
            }
            let first = history(&*store(), &t).await.unwrap()[1].seq;
            store().prune(&t).await.unwrap();
            let no_checkpoint = |error: &RunError| matches!(error, RunError::NoCheckpoint { .. });
            for (seq, expected) in [
                (0, no_checkpoint as fn(&RunError) -> bool),
                (100_000, no_checkpoint),
                (first.get(), |error| {
                    matches!(error, RunError::Pruned { .. })
                }),
            ] {
                for told in [
                    fresh().fork(&t, Seq::new(seq)).await,
                    fresh().rewind(&t, Seq::new(seq)).await,
                ] {
                    let refused = told.unwrap_err();
                    assert!(expected(&refused), "{seq}: {refused}");
                }
            }
            let head = store().head(&t).await.unwrap().unwrap();
            let between = Seq::new(head.seq.get() - 1);
            let refused = fresh().fork(&t, between).await.unwrap_err();
            assert!(no_checkpoint(&refused), "an outcome: {refused}");
            let refused = fresh().switch(&t, Branch::new(7)).await.unwrap_err();
            let RunError::NoBranch { known, .. } = &refused else {
                panic!("{refused}");
            };
            assert_eq!(*known, [Branch::new(0)]);
            let unknown = thread("unknown");
            let none = [
                fresh().fork(&unknown, head.seq).await,
                fresh().switch(&unknown, Branch::new(0)).await,
                fresh()
                    .patch(&unknown, Doc::update(), AsNode::new("plan"))
                    .await,
                Runner::new(fan(&calls)).fork(&t, head.seq).await,
            ];
            for told in none {
                assert!(matches!(told, Err(RunError::NotFound { .. })), "{told:?}");
            }
            let other = Runner::new(desk(&calls)).shared_store(store());
            let refused = other.fork(&t, head.seq).await.unwrap_err();
            assert!(matches!(refused, RunError::OtherGraph { .. }), "{refused}");
            assert_eq!(store().head(&t).await.unwrap().unwrap(), head);
        }
    });
}

/// A thread that a call holds is neither forked nor patched, and the call goes on undisturbed.
#[test]
fn a_thread_in_use_is_busy() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let (calls, t) = (Calls::default(), thread("t"));
            let store = place.open().unwrap();
            let runner = Runner::new(asking(&calls)).shared_store(store);
            let mut run = runner.open(&t, start()).await.unwrap();
            run.step().await.unwrap();
            let seq = Seq::new(2);
            for told in [
                runner.fork(&t, seq).await,
                runner.rewind(&t, seq).await,
                runner.switch(&t, Branch::new(0)).await,
                runner.patch(&t, Doc::update(), AsNode::new("v")).await,
            ] {
                let refused = told.unwrap_err().to_string();
                assert!(refused.contains("busy"), "{refused}");
            }
            assert_eq!(
                run.finish().await.unwrap().ended,
                Ended::Paused { questions: 1 }
            );
        }
    });
}

/// Many forks and runs at once: each is taken whole or refused, and every branch can be read.
#[test]
fn forks_and_runs_at_once_leave_a_sound_thread() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (calls, t) = (Calls::default(), thread("t"));
        calls.hit("whole");
        let store = MemoryStore::new();
        let runner = Runner::new(fan(&calls)).store(store.clone());
        runner
            .run(&t, Command::start(Doc::update().n(2)))
            .await
            .unwrap();
        let at = after(&store, &t, 0, 1).await;
        let tasks = (0..12).map(|number| {
            let (runner, t) = (runner.clone(), t.clone());
            tokio::spawn(async move {
                let told = match number % 2 {
                    0 => runner.fork(&t, at).await.map(drop),
                    _ => runner.run(&t, Command::go_on()).await.map(drop),
                };
                told.map_err(|error| error.to_string())
            })
        });
        for told in futures::future::join_all(tasks).await {
            let told = told.unwrap();
            assert!(
                told.is_ok() || told.as_ref().unwrap_err().contains("busy"),
                "{told:?}"
            );
        }
        let report = runner.run(&t, Command::go_on()).await.unwrap();
        assert_eq!(report.state.seen, [0, 1]);
        states(&runner, &store, &t).await;
        is_clean(&store, &t).await;
    });
}

/// The run's row follows the head: a repeated start gives how the run ended on the branch that the
/// thread is on.
#[test]
fn a_repeated_start_gives_the_end_on_the_branch_of_the_head() {
    on_both(async || {
        let (calls, t, place) = (Calls::default(), thread("t"), Place::memory());
        let runner = place.runner(asking(&calls), RunOptions::new());
        let id = RunId::new("once").unwrap();
        let begin = || start().run_id(id.clone());
        runner.run(&t, begin()).await.unwrap();
        let old = runner.run(&t, answer(true)).await.unwrap();
        let at = after(&*place.open().unwrap(), &t, 0, 1).await;
        runner.fork(&t, at).await.unwrap();
        // The run has not ended here.
        let report = runner.run(&t, begin()).await.unwrap();
        assert_eq!(report.ended, Ended::Paused { questions: 1 });
        let new = runner.run(&t, answer(false)).await.unwrap();
        let report = runner.run(&t, begin()).await.unwrap();
        assert_eq!((report.seq, report.state.n), (new.seq, 1));
        runner.switch(&t, Branch::new(0)).await.unwrap();
        let report = runner.run(&t, begin()).await.unwrap();
        assert_eq!((report.seq, report.state.n), (old.seq, 2));
    });
}

/// Every head can be loaded after a prune, and the rest is gone.
#[test]
fn a_prune_keeps_the_head_of_every_branch() {
    on_both(async || {
        for place in [Place::memory(), Place::sled()] {
            let (calls, t) = (Calls::default(), thread("t"));
            calls.hit("whole");
            let fresh = || place.runner(fan(&calls), RunOptions::new().base_every(2));
            let store = || place.open().unwrap();
            for n in 1..4 {
                fresh()
                    .run(&t, Command::start(Doc::update().n(n)))
                    .await
                    .unwrap();
            }
            let old = after(&*store(), &t, 0, 4).await;
            fresh().fork(&t, old).await.unwrap();
            fresh().run(&t, Command::go_on()).await.unwrap();
            for n in 1..4 {
                fresh()
                    .run(&t, Command::start(Doc::update().n(n)))
                    .await
                    .unwrap();
            }
            let older = after(&*store(), &t, 0, 2).await;
            fresh().fork(&t, older).await.unwrap();
            let mut heads = Vec::new();
            for branch in [2, 0, 1] {
                let moved = fresh().switch(&t, Branch::new(branch)).await.unwrap();
                let state = fresh().state_at(&t, moved.seq).await.unwrap();
                heads.push((branch, moved.seq, (*state).clone()));
            }
            let before = check(&*store(), &t).await.records;
            store().prune(&t).await.unwrap();
            let after = check(&*store(), &t).await.records;
            assert!(after < before, "{after} of {before} are left");
            is_clean(&*store(), &t).await;
            for (branch, seq, state) in &heads {
                let moved = fresh().switch(&t, Branch::new(*branch)).await.unwrap();
                assert_eq!(moved.seq, *seq);
                assert_eq!(*fresh().state(&t).await.unwrap(), *state, "branch {branch}");
                assert!(
                    fresh()
                        .run(&t, Command::go_on())
                        .await
                        .unwrap()
                        .ended
                        .is_finished()
                );
                is_clean(&*store(), &t).await;
            }
            store().prune(&t).await.unwrap();
            is_clean(&*store(), &t).await;
        }
    });
}

/// A thread with branches goes through an archive and a copy as it is.
#[test]
fn a_thread_with_branches_is_moved_whole() {
    on_both(async || {
        let (calls, t, place) = (Calls::default(), thread("t"), Place::sled());
        let runner = place.runner(asking(&calls), RunOptions::new());
        runner.run(&t, start()).await.unwrap();
        runner.run(&t, answer(true)).await.unwrap();
        runner.fork(&t, Seq::new(2)).await.unwrap();
        runner.run(&t, Command::go_on()).await.unwrap();
        drop(runner);
        let store = place.open().unwrap();
        let archive = ThreadArchive::read(&*store, &t).await.unwrap().unwrap();
        archive.check().unwrap();
        let other = MemoryStore::new();
        other.restore(archive.clone()).await.unwrap();
        let again = ThreadArchive::read(&other, &t).await.unwrap().unwrap();
        assert_eq!(again, archive);
        let runner = Runner::new(asking(&calls)).store(other.clone());
        assert_eq!(runner.run(&t, answer(false)).await.unwrap().state.n, 1);
        runner.switch(&t, Branch::new(0)).await.unwrap();
        assert_eq!(runner.state(&t).await.unwrap().n, 2);
        is_clean(&other, &t).await;
    });
}

/// Goes back, patches and switches, with a run behind each.
async fn wanders(runner: &Runner<Doc>, t: &ThreadId) -> Result<(), RunError> {
    let done = |moved: Result<_, RunError>| moved.map(drop);
    done(runner.fork(t, Seq::new(4)).await)?;
    runner.run(t, Command::go_on()).await?;
    runner.run(t, answer(false)).await?;
    done(runner.patch(t, line("by hand"), AsNode::new("h")).await)?;
    runner.run(t, Command::go_on()).await?;
    done(runner.switch(t, Branch::new(0)).await)?;
    runner.run(t, Command::go_on()).await?;
    Ok(())
}

/// S042: the store fails once, at any operation of a fork, a patch or a switch: the thread stands
/// before it or after it, and nothing of it is lost.
#[test]
fn a_store_that_fails_anywhere_leaves_the_thread_before_or_after() {
    on_both(async || {
        for when in [When::Before, When::After] {
            for at in 1.. {
                let (calls, t, memory) = (Calls::default(), thread("t"), MemoryStore::new());
                let sound = Runner::new(asking(&calls)).store(memory.clone());
                sound.run(&t, start()).await.unwrap();
                let end = sound.run(&t, answer(true)).await.unwrap();
                let old = history(&memory, &t).await.unwrap();
                let states_before = states(&sound, &memory, &t).await;
                let probe = Probe::new(memory.clone()).failing(at, when);
                let failing = Runner::new(asking(&calls)).store(probe.clone());
                let first = wanders(&failing, &t).await;

                let head = memory.head(&t).await.unwrap().unwrap();
                let all = history(&memory, &t).await.unwrap();
                assert_eq!(all[..old.len()], old);
                let is_there = all.iter().any(|at| at.seq == head.seq);
                assert!(is_there, "{when:?} {at}: {head:?}");
                is_clean(&memory, &t).await;
                let states_after = states(&sound, &memory, &t).await;
                assert_eq!(states_after[..old.len()], states_before);
                // All of it can be done from here, wherever that is.
                wanders(&sound, &t).await.unwrap();
                assert_eq!(sound.state(&t).await.unwrap().n, end.state.n);
                if first.is_ok() {
                    assert!(at > 20 && probe.operations() < at);
                    break;
                }
            }
        }
    });
}

/// The id of the question of `h`.
#[test]
fn a_question_has_the_same_id_on_every_branch_and_only_the_heads_is_answered() {
    on_both(async || {
        let (calls, t, place) = (Calls::default(), thread("t"), Place::memory());
        let runner = place.runner(asking(&calls), RunOptions::new());
        let id: QuestionId = "2:h[0].allow".parse().unwrap();
        runner.run(&t, start()).await.unwrap();
        runner.fork(&t, Seq::new(4)).await.unwrap();
        runner.run(&t, Command::go_on()).await.unwrap();
        let open = questions(&*place.open().unwrap(), &t).await.unwrap();
        assert_eq!((open.len(), &open[0].id), (1, &id));
        runner
            .run(&t, Command::answer(Answers::to(id.clone(), &true)))
            .await
            .unwrap();
        runner.switch(&t, Branch::new(0)).await.unwrap();
        let open = questions(&*place.open().unwrap(), &t).await.unwrap();
        assert_eq!((open.len(), &open[0].id), (1, &id));
        // Another answer than the sibling's is no contradiction here.
        let report = runner
            .run(&t, Command::answer(Answers::to(id, &false)))
            .await
            .unwrap();
        assert_eq!(report.state.n, 1);
    });
}

/// A join that waits at a checkpoint waits there again on every branch that leaves it, for those
/// who had not arrived.
#[test]
fn a_join_is_met_anew_on_each_branch_that_leaves_while_it_waits() {
    on_both(async || {
        let calls = Calls::default();
        let mut g = Graph::builder("join");
        let [a, b, b2, c] = ["a", "b", "b2", "c"].map(|name| g.node(name, says(&calls, name)));
        g.start(a.and(b));
        g.edge(b, b2);
        g.join([a, b2], c);
        g.edge(c, End);
        let graph = g.build().unwrap();
        for place in [Place::memory(), Place::sled()] {
            let runner = place.runner(graph.clone(), RunOptions::new());
            let t = thread("t");
            let report = runner.run(&t, start()).await.unwrap();
            let whole = ["a", "b", "b2", "c"];
            assert_eq!(report.state.log, whole);
            // The checkpoint at which `a` has arrived, and `b2` has not.
            let waits = report.seq.unwrap().get() - 2;
            runner.fork(&t, Seq::new(waits)).await.unwrap();
            let again = runner.run(&t, Command::go_on()).await.unwrap();
            assert_eq!(
                (again.ended, &again.state.log[..]),
                (Ended::Finished, &report.state.log[..])
            );
            let replayed = runner.replay(&t).await.unwrap();
            assert!(
                replayed.differences.is_empty(),
                "{:?}",
                replayed.differences
            );
            // What is patched there arrives in place of the node.
            runner.rewind(&t, Seq::new(waits)).await.unwrap();
            runner
                .patch(&t, line("by hand"), AsNode::new("b2"))
                .await
                .unwrap();
            let patched = runner.run(&t, Command::go_on()).await.unwrap();
            assert_eq!(patched.state.log, ["a", "b", "by hand", "c"]);
        }
        assert_eq!((calls.of("a"), calls.of("b2"), calls.of("c")), (2, 4, 6));
    });
}
