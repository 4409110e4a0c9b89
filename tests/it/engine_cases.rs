//! Situations from the field, through every door, over every store, on one thread and on two.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use milepost::store::MemoryStore;
use milepost::{
    Command, Context, End, Ended, Exits, Graph, NodeError, Policy, Retry, RunError, RunOptions,
    Runner, Snapshot, events, history,
};

use crate::support::{
    Calls, DOORS, Doc, Door, Place, Probe, When, drive, fed, line, listen, on_both, says, thread,
    wander, with,
};

fn start() -> Command<Doc> {
    Command::start(Doc::update())
}

/// Three nodes that take turns of different lengths, then a fourth.
fn merge_order(seed: u64) -> Graph<Doc> {
    let mut g = Graph::builder("merge order");
    let node = |name: &'static str, salt: u64| {
        with((seed, name, salt), async |(seed, name, salt), _, _| {
            wander(seed, salt).await;
            Ok(line(name))
        })
    };
    let a = g.node("a", node("a", 1));
    let b = g.node("b", node("b", 2));
    let c = g.node("c", node("c", 3));
    let j = g.node("j", node("j", 4));
    // The order of the edge does not matter, the order of declaration does.
    g.start(c.and(a).and(b));
    for node in [a, b, c] {
        g.edge(node, j);
    }
    g.edge(j, End);
    g.build().unwrap()
}

/// C01, S024.
#[test]
fn merge_order_never_follows_the_clock() {
    on_both(async || {
        for seed in 0..50 {
            for place in [Place::Nowhere, Place::memory()] {
                let options = RunOptions::new().shuffle(seed);
                let runner = place.runner(merge_order(seed), options);
                for door in DOORS {
                    let at = thread(&format!("{door:?}"));
                    let (ended, state) = drive(door, &runner, &at, start()).await.unwrap();
                    assert_eq!(ended, Ended::Finished);
                    assert_eq!(state.log, ["a", "b", "c", "j"], "seed {seed}, {door:?}");
                }
            }
        }
    });
}

/// C01, S042: the store refuses between b's result and the commit; the next process goes on.
#[test]
fn merge_order_is_kept_over_a_crash_between_two_results() {
    on_both(async || {
        for seed in 0..10 {
            for when in [When::Before, When::After] {
                for at in 1..12 {
                    let memory = MemoryStore::new();
                    let t = thread("t");
                    let failing = Probe::new(memory.clone()).failing(at, when);
                    let runner = Runner::new(merge_order(seed))
                        .options(RunOptions::new().shuffle(seed))
                        .store(failing);
                    let _ = runner.run(&t, start()).await;
                    let next = Runner::new(merge_order(seed + 1)).store(memory);
                    let report = match next.run(&t, Command::go_on()).await {
                        Err(RunError::NotFound { .. }) => next.run(&t, start()).await.unwrap(),
                        report => report.unwrap(),
                    };
                    assert_eq!(
                        report.state.log,
                        ["a", "b", "c", "j"],
                        "{seed} {when:?} {at}"
                    );
                }
            }
        }
    });
}

fn two_writers(first: u64, second: u64, calls: &Calls) -> Graph<Doc> {
    let mut g = Graph::builder("two writers");
    let node = |name: &'static str, value: u64| {
        with(
            (calls.clone(), name, value),
            async |(calls, name, value), _, _| {
                calls.hit(name);
                Ok(line(name).n(value))
            },
        )
    };
    let a = g.node("a", node("a", first));
    let b = g.node("b", node("b", second));
    g.start(a.and(b));
    g.edge(a, End);
    g.edge(b, End);
    g.build().unwrap()
}

/// C02 (1, 2), S006: equal values are two writers as well.
#[test]
fn two_writers_of_a_plain_field_are_named_and_nothing_is_committed() {
    on_both(async || {
        for (first, second) in [(1, 2), (7, 7)] {
            for place in [Place::Nowhere, Place::memory()] {
                for door in DOORS {
                    let calls = Calls::default();
                    let runner =
                        place.runner(two_writers(first, second, &calls), RunOptions::new());
                    let t = thread(&format!("{door:?}"));
                    let error = drive(door, &runner, &t, start()).await.unwrap_err();
                    let RunError::Conflict {
                        field,
                        first,
                        second,
                        ..
                    } = &error
                    else {
                        panic!("{error}")
                    };
                    assert_eq!(*field, "n");
                    assert_eq!(
                        (first.to_string(), second.to_string()),
                        ("1:a[0]".into(), "1:b[0]".into())
                    );
                    let text = error.to_string();
                    assert!(
                        text.contains("\"a\"") && text.contains("\"b\"") && text.contains("\"n\"")
                    );
                    if let Some(store) = place.open() {
                        assert_eq!(*runner.state(&t).await.unwrap(), Doc::default());
                        assert_eq!(history(&*store, &t).await.unwrap().len(), 1);
                        // Going on merges again, and runs nothing.
                        let again = drive(door, &runner, &t, Command::go_on())
                            .await
                            .unwrap_err();
                        assert!(matches!(again, RunError::Conflict { .. }), "{again}");
                        assert_eq!((calls.of("a"), calls.of("b")), (1, 1));
                    }
                }
            }
        }
    });
}

/// C02: a thread is never stuck: giving up a superstep that cannot be merged gives up its results.
#[test]
fn a_superstep_that_cannot_be_merged_can_be_abandoned() {
    on_both(async || {
        let place = Place::memory();
        let t = thread("t");
        let broken = place.runner(two_writers(1, 2, &Calls::default()), RunOptions::new());
        broken.run(&t, start()).await.unwrap_err();
        let refused = broken.run(&t, start()).await.unwrap_err();
        assert!(matches!(refused, RunError::Unfinished { .. }), "{refused}");
        let mut g = Graph::builder("two writers");
        let a = g.node("a", async |_: Snapshot<Doc>, _: Context| Ok(line("a").n(1)));
        let b = g.node("b", async |_: Snapshot<Doc>, _: Context| Ok(line("b")));
        g.start(a.and(b));
        g.edge(a, End);
        g.edge(b, End);
        let mended = place.runner(g.build().unwrap(), RunOptions::new());
        let report = mended.run(&t, start().abandon()).await.unwrap();
        assert_eq!((report.ended, report.state.n), (Ended::Finished, 1));
        assert_eq!(report.state.log, ["a", "b"]);
        assert_eq!(*mended.state(&t).await.unwrap(), *report.state);
    });
}

/// C04: what a sibling writes is not seen, whoever is first.
#[test]
fn siblings_do_not_see_each_other() {
    on_both(async || {
        for seed in 0..100 {
            let mut g = Graph::builder("siblings");
            let a = g.node(
                "a",
                with(seed, async |seed, _, _| {
                    wander(seed, 1).await;
                    Ok(Doc::update().n(1))
                }),
            );
            let b = g.node(
                "b",
                with(seed, async |seed, doc: Snapshot<Doc>, _| {
                    wander(seed, 2).await;
                    Ok(Doc::update().seen(vec![doc.n]))
                }),
            );
            g.start(a.and(b));
            g.edge(a, End);
            g.edge(b, End);
            let runner = Runner::new(g.build().unwrap()).options(RunOptions::new().shuffle(seed));
            let report = runner.run(&thread("t"), start()).await.unwrap();
            assert_eq!((report.state.n, &report.state.seen[..]), (1, &[0][..]));
        }
    });
}

/// C04, S032: two nodes that wait do so at the same time: each needs the other to go on.
#[test]
fn nodes_of_one_superstep_run_side_by_side() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory()] {
            let barrier = Arc::new(tokio::sync::Barrier::new(3));
            let mut g = Graph::builder("side by side");
            let node = || {
                with(Arc::clone(&barrier), async |barrier, _, _| {
                    barrier.wait().await;
                    Ok(Doc::update().sum(1))
                })
            };
            let (a, b, c) = (
                g.node("a", node()),
                g.node("b", node()),
                g.node("c", node()),
            );
            g.start(a.and(b).and(c));
            for node in [a, b, c] {
                g.edge(node, End);
            }
            let runner = place.runner(g.build().unwrap(), RunOptions::new());
            assert_eq!(
                runner.run(&thread("t"), start()).await.unwrap().state.sum,
                3
            );
        }
    });
}

#[derive(Clone, Copy, Exits)]
enum Side {
    Left,
    Right,
}

fn left_first(calls: &Calls, left_fails: bool) -> Graph<Doc> {
    let mut g = Graph::builder("router");
    let a = g.node("a", says(calls, "a"));
    let left = with(
        (calls.clone(), left_fails),
        async |(calls, left_fails), _, _| {
            if calls.hit("left") == 1 && left_fails {
                return Err(NodeError::permanent("cut"));
            }
            Ok(line("left"))
        },
    );
    let left = g.node("left", left);
    let right = g.node("right", says(calls, "right"));
    let asked = calls.clone();
    g.start(a);
    g.branch(
        a,
        move |_| {
            Ok(if asked.hit("router") == 1 {
                Side::Left
            } else {
                Side::Right
            })
        },
        |side| match side {
            Side::Left => left.into(),
            Side::Right => right.into(),
        },
    );
    g.edge(left, End);
    g.edge(right, End);
    g.build().unwrap()
}

/// C05, S021: the same nodes, checkpoints and steps whichever door is used.
#[test]
fn a_branch_is_asked_once_through_every_door() {
    on_both(async || {
        let mut seen = Vec::new();
        for door in DOORS {
            let calls = Calls::default();
            let place = Place::memory();
            let runner = place.runner(left_first(&calls, false), RunOptions::new());
            let t = thread("t");
            let (ended, state) = drive(door, &runner, &t, start()).await.unwrap();
            assert_eq!(
                (ended, &state.log[..]),
                (Ended::Finished, &["a".to_owned(), "left".into()][..])
            );
            assert_eq!(calls.of("router"), 1);
            let history = history(&*place.open().unwrap(), &t).await.unwrap();
            let steps: Vec<_> = history
                .iter()
                .map(|point| (point.seq, point.step, point.ran.clone(), point.status))
                .collect();
            seen.push(steps);
        }
        assert_eq!(seen[0], seen[1]);
        assert_eq!(seen[0], seen[2]);
    });
}

/// C05: the decision is part of the checkpoint.
#[test]
fn a_branch_is_not_asked_again_after_a_failure_behind_it() {
    on_both(async || {
        for door in DOORS {
            let (calls, place, t) = (Calls::default(), Place::memory(), thread("t"));
            let runner = place.runner(left_first(&calls, true), RunOptions::new());
            drive(door, &runner, &t, start()).await.unwrap_err();
            let next = place.runner(left_first(&calls, true), RunOptions::new());
            let (_, state) = drive(door, &next, &t, Command::go_on()).await.unwrap();
            assert_eq!(state.log, ["a", "left"]);
            assert_eq!(
                (calls.of("router"), calls.of("left"), calls.of("a")),
                (1, 2, 1)
            );
        }
    });
}

/// C05, S041: the same over sled, opened anew.
#[tokio::test]
async fn a_branch_is_not_asked_again_after_the_store_is_reopened() {
    let (calls, place, t) = (Calls::default(), Place::sled(), thread("t"));
    let runner = place.runner(left_first(&calls, true), RunOptions::new());
    runner.run(&t, start()).await.unwrap_err();
    drop(runner);
    let next = place.runner(left_first(&calls, true), RunOptions::new());
    let report = next.run(&t, Command::go_on()).await.unwrap();
    assert_eq!(report.state.log, ["a", "left"]);
    assert_eq!(
        (calls.of("router"), calls.of("left"), calls.of("a")),
        (1, 2, 1)
    );
}

/// `plan` fans out over `items`; `j` runs after all.
fn fan(
    calls: &Calls,
    items: Vec<u64>,
    seed: u64,
    policy: Policy,
    most: &Arc<AtomicUsize>,
) -> Graph<Doc> {
    let mut g = Graph::builder("fan");
    let plan = g.node("plan", says(calls, "plan"));
    let active = Arc::new(AtomicUsize::new(0));
    let held = (calls.clone(), Arc::clone(most), active, seed);
    let w = fed(
        held,
        async |(calls, most, active, seed), item: u64, _, _| {
            calls.hit("w");
            most.fetch_max(active.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            wander(seed, item).await;
            active.fetch_sub(1, Ordering::SeqCst);
            Ok(Doc::update().seen(vec![item]))
        },
    );
    let w = g.worker("w", w);
    g.policy(w, policy);
    let j = g.node("j", says(calls, "j"));
    g.start(plan);
    g.edge(plan, w.each(move |_| items.clone()));
    g.edge(w, j);
    g.edge(j, End);
    g.build().unwrap()
}

/// C10 (1, 2): over nothing the collector runs once, through every door.
#[test]
fn a_fan_out_over_nothing_and_over_one_leads_on_once() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory()] {
            for (items, calls_of_w) in [(vec![], 0), (vec![1], 1)] {
                for door in DOORS {
                    let calls = Calls::default();
                    let graph = fan(&calls, items.clone(), 0, Policy::default(), &Arc::default());
                    let runner = place.runner(graph, RunOptions::new());
                    let t = thread(&format!("{door:?} {}", items.len()));
                    let (ended, state) = drive(door, &runner, &t, start()).await.unwrap();
                    assert_eq!(ended, Ended::Finished);
                    assert_eq!(state.seen, items);
                    assert_eq!((calls.of("w"), calls.of("j")), (calls_of_w, 1));
                    assert_eq!(state.log, ["plan", "j"]);
                }
            }
        }
    });
}

/// C10 (3), S022, S033: the node's own limit and the run's.
#[test]
fn a_fan_out_of_200_keeps_to_its_limit_and_its_order() {
    on_both(async || {
        let items: Vec<u64> = (0..200).rev().collect();
        let runs = [
            (Policy::default().concurrency(4), RunOptions::new()),
            (Policy::default(), RunOptions::new().concurrency(4)),
            (
                Policy::default().concurrency(9),
                RunOptions::new().concurrency(4),
            ),
        ];
        for (policy, options) in runs {
            for place in [Place::Nowhere, Place::memory()] {
                let (calls, most) = (Calls::default(), Arc::default());
                let graph = fan(&calls, items.clone(), 5, policy.clone(), &most);
                let runner = place.runner(graph, options.clone().shuffle(3));
                let report = runner.run(&thread("t"), start()).await.unwrap();
                assert_eq!(report.state.seen, items);
                assert_eq!((calls.of("w"), calls.of("j")), (200, 1));
                assert!(most.load(Ordering::SeqCst) <= 4, "{most:?}");
            }
        }
    });
}

/// C04, S029, S025: a member that fails once is tried again, alone as in a fan-out.
#[test]
fn policies_act_the_same_alone_and_in_a_fan_out() {
    on_both(async || {
        for items in [vec![1u64], vec![1, 2, 3]] {
            let calls = Calls::default();
            let mut g = Graph::builder("retried");
            let w = fed(calls.clone(), async |calls, item: u64, _, cx: Context| {
                let tried = calls.hit(&format!("w{item}"));
                assert_eq!(tried, cx.attempt());
                if tried == 1 {
                    return Err(NodeError::transient("busy"));
                }
                Ok(Doc::update().seen(vec![item]))
            });
            let w = g.worker("w", w);
            let retry = Retry {
                max_attempts: 2,
                first_wait: Duration::from_millis(1),
                ..Retry::default()
            };
            g.policy(w, Policy::default().retry(retry));
            let all = items.clone();
            g.start(w.each(move |_| all.clone()));
            g.edge(w, End);
            let runner = Runner::new(g.build().unwrap()).store(MemoryStore::new());
            let report = runner.run(&thread("t"), start()).await.unwrap();
            assert_eq!(report.state.seen, items);
            for item in items {
                assert_eq!(calls.of(&format!("w{item}")), 2);
            }
        }
    });
}

/// Three nodes that each add one; the second fails the first time.
fn chain(calls: &Calls) -> Graph<Doc> {
    let mut g = Graph::builder("chain");
    let node = |name: &'static str| {
        with((calls.clone(), name), async |(calls, name), _, _| {
            if calls.hit(name) == 1 && name == "b" {
                return Err(NodeError::permanent("cut"));
            }
            Ok(Doc::update().sum(1))
        })
    };
    let (a, b, c) = (
        g.node("a", node("a")),
        g.node("b", node("b")),
        g.node("c", node("c")),
    );
    g.start(a);
    g.edge(a, b);
    g.edge(b, c);
    g.edge(c, End);
    g.build().unwrap()
}

/// C19, C16 (3), S036.
#[test]
fn a_thread_goes_on_where_it_stands_and_a_finished_one_stays_as_it_is() {
    on_both(async || {
        for door in DOORS {
            let (calls, place, t) = (Calls::default(), Place::memory(), thread("t"));
            let runner = || place.runner(chain(&calls), RunOptions::new());
            let unknown = drive(door, &runner(), &t, Command::go_on())
                .await
                .unwrap_err();
            assert!(matches!(unknown, RunError::NotFound { .. }), "{unknown}");
            drive(door, &runner(), &t, start()).await.unwrap_err();
            assert_eq!(runner().state(&t).await.unwrap().sum, 1);
            let (ended, state) = drive(door, &runner(), &t, Command::go_on()).await.unwrap();
            assert_eq!((ended, state.sum), (Ended::Finished, 3));
            let store = place.open().unwrap();
            let before = (
                history(&*store, &t).await.unwrap(),
                events(&*store, &t).await.unwrap(),
            );
            let (ended, state) = drive(door, &runner(), &t, Command::go_on()).await.unwrap();
            assert_eq!((ended, state.sum), (Ended::Finished, 3));
            let after = (
                history(&*store, &t).await.unwrap(),
                events(&*store, &t).await.unwrap(),
            );
            assert_eq!(before, after);
            assert_eq!((calls.of("a"), calls.of("b"), calls.of("c")), (1, 2, 1));
        }
    });
}

/// C20: the node is not run again, its update counts once; with and without a store.
#[test]
fn a_failed_decision_is_asked_again_without_its_node() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory()] {
            let calls = Calls::default();
            let mut g = Graph::builder("decision");
            let a = with(calls.clone(), async |calls, _, _| {
                calls.hit("a");
                Ok(Doc::update().sum(1))
            });
            let a = g.node("a", a);
            let sink = g.node("sink", says(&calls, "sink"));
            let asked = calls.clone();
            g.start(a);
            g.branch(
                a,
                move |doc: &Doc| {
                    assert_eq!(doc.sum, 1);
                    match asked.hit("router") {
                        1 => Err(NodeError::transient("no answer")),
                        _ => Ok(()),
                    }
                },
                |()| sink.into(),
            );
            g.edge(sink, End);
            let runner = place.runner(g.build().unwrap(), RunOptions::new());
            let t = thread("t");
            let mut run = runner.open(&t, start()).await.unwrap();
            let error = run.step().await.unwrap_err();
            assert!(
                matches!(&error, RunError::Route { node: Some(node), .. } if node.as_str() == "a")
            );
            assert_eq!(
                error.to_string(),
                "the way out of node \"a\" could not be decided (thread t, superstep 1): no answer"
            );
            let report = match place {
                Place::Nowhere => run.finish().await.unwrap(),
                _ => {
                    drop(run);
                    runner.run(&t, Command::go_on()).await.unwrap()
                }
            };
            assert_eq!((report.ended, report.state.sum), (Ended::Finished, 1));
            assert_eq!(
                (calls.of("a"), calls.of("router"), calls.of("sink")),
                (1, 2, 1)
            );
        }
    });
}

/// C22 (1), S042: finished siblings are kept, and only what is left runs.
#[test]
fn when_one_of_three_fails_the_others_are_not_run_again() {
    on_both(async || {
        for door in DOORS {
            for seed in 0..8 {
                let (calls, place, t) = (Calls::default(), Place::memory(), thread("t"));
                let mut g = Graph::builder("three");
                let node = |name: &'static str, salt: u64| {
                    let held = (calls.clone(), seed, name, salt);
                    with(held, async |(calls, seed, name, salt), _, _| {
                        let tried = calls.hit(name);
                        wander(seed, salt).await;
                        if name == "b" && tried == 1 {
                            return Err(NodeError::permanent("not today"));
                        }
                        Ok(line(name))
                    })
                };
                let (a, b, c) = (
                    g.node("a", node("a", 1)),
                    g.node("b", node("b", 2)),
                    g.node("c", node("c", 3)),
                );
                let j = g.node("j", node("j", 4));
                g.start(a.and(b).and(c));
                for node in [a, b, c] {
                    g.edge(node, j);
                }
                g.edge(j, End);
                let runner = place.runner(g.build().unwrap(), RunOptions::new().shuffle(seed));
                let error = drive(door, &runner, &t, start()).await.unwrap_err();
                let RunError::Node {
                    task,
                    attempts: 1,
                    others,
                    ..
                } = &error
                else {
                    panic!("{error}")
                };
                assert_eq!(task.to_string(), "1:b[0]");
                assert!(others.is_empty());
                let (_, state) = drive(door, &runner, &t, Command::go_on()).await.unwrap();
                assert_eq!(state.log, ["a", "b", "c", "j"]);
                assert_eq!((calls.of("b"), calls.of("j")), (2, 1));
                assert_eq!((calls.of("a"), calls.of("c")), (1, 1));
            }
        }
    });
}

fn rounds(calls: &Calls, rounds: u32) -> Graph<Doc> {
    let mut g = Graph::builder("rounds");
    let again = with(
        (calls.clone(), rounds),
        async |(calls, rounds), _, cx: Context| {
            let side = if calls.hit("again") < rounds {
                Side::Left
            } else {
                Side::Right
            };
            Ok((
                Doc::update()
                    .seen(vec![cx.remaining_steps()])
                    .sum(cx.superstep().get()),
                side,
            ))
        },
    );
    let again = g.node("again", again);
    g.start(again);
    g.wire(again, |side| match side {
        Side::Left => again.into(),
        Side::Right => End.into(),
    });
    g.build().unwrap()
}

/// C64, S026, S013: a limit of L allows exactly L supersteps; the rest is there after the limit.
#[test]
fn a_limit_allows_exactly_so_many_supersteps() {
    on_both(async || {
        for door in DOORS {
            for (rounds_wanted, limit, ended) in [
                (2, 2, Ended::Finished),
                (2, 1, Ended::StepLimit { limit: 1 }),
                (2, 0, Ended::StepLimit { limit: 0 }),
                (7, 7, Ended::Finished),
                (7, 6, Ended::StepLimit { limit: 6 }),
            ] {
                let (calls, place, t) = (Calls::default(), Place::memory(), thread("t"));
                let limited = place.runner(
                    rounds(&calls, rounds_wanted),
                    RunOptions::new().step_limit(limit),
                );
                let (found, state) = drive(door, &limited, &t, start()).await.unwrap();
                assert_eq!(found, ended);
                assert_eq!(
                    u64::from(calls.of("again")),
                    limit.min(rounds_wanted.into())
                );
                assert_eq!(
                    *place
                        .runner(rounds(&calls, rounds_wanted), RunOptions::new())
                        .state(&t)
                        .await
                        .unwrap(),
                    *state
                );
                let free = place.runner(rounds(&calls, rounds_wanted), RunOptions::new());
                let (found, state) = drive(door, &free, &t, Command::go_on()).await.unwrap();
                assert_eq!(found, Ended::Finished);
                assert_eq!(calls.of("again"), rounds_wanted);
                // The step counts on over a resume: 1 + 2 + … + n.
                let n = u64::from(rounds_wanted);
                assert_eq!(state.sum, n * (n + 1) / 2);
            }
        }
    });
}

/// C64: an endless loop ends at its limit without a store, too, and the handle goes on with more.
#[test]
fn a_handle_goes_on_after_its_limit() {
    on_both(async || {
        let calls = Calls::default();
        let runner = Runner::new(rounds(&calls, 5)).options(RunOptions::new().step_limit(3));
        let mut run = runner.open(&thread("t"), start()).await.unwrap();
        assert_eq!(
            run.finish().await.unwrap().ended,
            Ended::StepLimit { limit: 3 }
        );
        run.step_limit(5);
        let report = run.finish().await.unwrap();
        assert_eq!(
            (report.ended, report.state.seen.len()),
            (Ended::Finished, 5)
        );
    });
}

/// C65 (1, 4): each call has its own budget; what is left falls by one a superstep, for all its
/// tasks alike.
#[test]
fn each_call_has_its_own_budget() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory()] {
            let t = thread("t");
            for turn in 0..4 {
                let calls = Calls::default();
                let runner = place.runner(rounds(&calls, 4), RunOptions::new().step_limit(5));
                let report = runner.run(&t, start()).await.unwrap();
                assert_eq!(report.ended, Ended::Finished, "turn {turn}");
                assert_eq!(
                    report.state.seen[report.state.seen.len() - 4..],
                    [5, 4, 3, 2]
                );
            }
        }
    });
}

/// C65 (4), S013: what two siblings know of their run.
#[test]
fn siblings_see_the_same_step_and_the_same_budget() {
    on_both(async || {
        let mut g = Graph::builder("budget");
        let w = g.worker("w", async |_: u8, _: Snapshot<Doc>, cx: Context| {
            Ok(Doc::update()
                .seen(vec![cx.remaining_steps()])
                .log(vec![cx.task().to_string()]))
        });
        let z = g.worker("z", async |_: u8, _: Snapshot<Doc>, cx: Context| {
            Ok(Doc::update()
                .seen(vec![cx.remaining_steps()])
                .log(vec![format!("{}#{}", cx.node(), cx.index())]))
        });
        g.start(w.each(|_| vec![0, 0]));
        g.edge(w, z.each(|_| vec![0, 0]));
        g.edge(z, End);
        let runner =
            Runner::new(g.build().unwrap()).options(RunOptions::new().step_limit(5).shuffle(9));
        let report = runner.run(&thread("t"), start()).await.unwrap();
        assert_eq!(report.state.seen, [5, 5, 4, 4]);
        assert_eq!(report.state.log, ["1:w[0]", "1:w[1]", "z#0", "z#1"]);
    });
}

/// S011, S043: a new input is merged into what the thread knows; another thread knows nothing.
#[test]
fn an_input_adds_to_a_thread_and_to_no_other() {
    on_both(async || {
        let (calls, place) = (Calls::default(), Place::memory());
        let runner = place.runner(chain(&calls), RunOptions::new());
        calls.hit("b");
        let input = |text: &str| Command::start(line(text));
        runner.run(&thread("one"), input("hello")).await.unwrap();
        let second = place.runner(chain(&calls), RunOptions::new());
        let report = second.run(&thread("one"), input("again")).await.unwrap();
        assert_eq!(
            (report.state.sum, &report.state.log[..]),
            (6, &["hello".to_owned(), "again".into()][..])
        );
        assert_eq!(report.step.get(), 6);
        let other = second.run(&thread("two"), input("hi")).await.unwrap();
        assert_eq!(
            (other.state.sum, &other.state.log[..]),
            (3, &["hi".to_owned()][..])
        );
    });
}

/// S037: the same graph and input, the same events, whatever the seed of the schedule.
#[tokio::test(start_paused = true)]
async fn running_a_graph_twice_gives_the_same_log() {
    let mut logs = Vec::new();
    for _ in 0..2 {
        let (calls, place) = (Calls::default(), Place::memory());
        let graph = fan(
            &calls,
            (0..9).collect(),
            4,
            Policy::default(),
            &Arc::default(),
        );
        let runner = place.runner(graph, RunOptions::new().shuffle(1));
        let (events, _) = listen(&runner, &thread("t"), start()).await;
        logs.push(crate::support::told(&events));
    }
    assert_eq!(logs[0], logs[1]);
}

/// C61, S043: of twenty callers of one thread, those that get it count; twenty threads run side
/// by side.
#[test]
fn twenty_callers_of_one_thread_never_lose_an_update() {
    on_both(async || {
        let mut g = Graph::builder("inc");
        let inc = g.node("inc", async |doc: Snapshot<Doc>, _: Context| {
            wander(3, doc.n).await;
            tokio::task::yield_now().await;
            Ok(Doc::update().n(doc.n + 1))
        });
        g.start(inc);
        g.edge(inc, End);
        let graph = g.build().unwrap();
        let place = Place::memory();
        let call = |name: &str| {
            let runner = place.runner(graph.clone(), RunOptions::new());
            let t = thread(name);
            tokio::spawn(async move { runner.run(&t, start()).await })
        };
        let mut well = Vec::new();
        for call in (0..20).map(|_| call("one")).collect::<Vec<_>>() {
            match call.await.unwrap() {
                Ok(report) => well.push(report.seq.unwrap()),
                Err(RunError::Store(milepost::store::StoreError::Busy { .. })) => {}
                Err(other) => panic!("{other}"),
            }
        }
        assert!(!well.is_empty());
        let runner = place.runner(graph.clone(), RunOptions::new());
        assert_eq!(
            runner.state(&thread("one")).await.unwrap().n,
            well.len() as u64
        );
        let line = history(&*place.open().unwrap(), &thread("one"))
            .await
            .unwrap();
        assert!(
            well.iter()
                .all(|seq| line.iter().any(|point| point.seq == *seq))
        );
        assert_eq!(line.len(), 2 * well.len());
        for call in (0..20)
            .map(|n| call(&format!("own {n}")))
            .collect::<Vec<_>>()
        {
            assert_eq!(call.await.unwrap().unwrap().state.n, 1);
        }
        // Who waits gets its turn.
        let waiting: Vec<_> = (0..20)
            .map(|_| {
                let options = RunOptions::new().busy(milepost::Busy::Wait(Duration::from_secs(60)));
                let runner = place.runner(graph.clone(), options);
                tokio::spawn(async move { runner.run(&thread("patient"), start()).await })
            })
            .collect();
        for call in waiting {
            call.await.unwrap().unwrap();
        }
        assert_eq!(runner.state(&thread("patient")).await.unwrap().n, 20);
    });
}

/// C67: text that looks like the engine's own marks is text.
#[test]
fn text_that_looks_like_a_mark_is_text() {
    on_both(async || {
        let marks = [
            "__start__",
            "__end__",
            "__interrupt__",
            "START",
            "END",
            "goto: left",
            "1:w[0]",
            "a/b:c[0]|%2F",
            "{\"goto\":\"right\",\"update\":{}}",
            "\u{0}",
            "\u{85}\u{c1}",
            "MPST",
            "remove-all",
            "",
        ];
        let place = Place::memory();
        for door in DOORS {
            let calls = Calls::default();
            let runner = place.runner(left_first(&calls, false), RunOptions::new().base_every(1));
            for mark in marks.iter().filter(|mark| !mark.is_empty()) {
                let t = thread(&format!("{mark}{door:?}"));
                let calls = Calls::default();
                let runner = place.runner(left_first(&calls, false), RunOptions::new());
                drive(door, &runner, &t, Command::start(line(*mark)))
                    .await
                    .unwrap();
                assert_eq!(runner.state(&t).await.unwrap().log, [mark, "a", "left"]);
            }
            let t = thread(&format!("all {door:?}"));
            let all: Vec<String> = marks.iter().map(|mark| (*mark).to_owned()).collect();
            drive(
                door,
                &runner,
                &t,
                Command::start(Doc::update().log(all.clone())),
            )
            .await
            .unwrap();
            assert_eq!(runner.state(&t).await.unwrap().log[..all.len()], all);
        }
    });
}

/// C67: nodes and threads may be called anything.
#[test]
fn a_node_may_be_called_like_a_mark() {
    on_both(async || {
        let names = [
            "START",
            "END",
            "__start__",
            "a/b:c[0]|%2F",
            "\u{0}",
            "?",
            "1:w[0]",
            "é",
            "e\u{301}",
        ];
        let mut g = Graph::builder("names");
        let mut nodes = Vec::new();
        for name in names {
            let node = async |_: Snapshot<Doc>, cx: Context| Ok(line(cx.node().as_str()));
            nodes.push(g.node(name, node));
        }
        g.start(nodes[0]);
        for pair in nodes.windows(2) {
            g.edge(pair[0], pair[1]);
        }
        g.edge(nodes[names.len() - 1], End);
        let graph = g.build().unwrap();
        let place = Place::memory();
        // One superstep a call: every name passes the frontier of the store.
        let runner = place.runner(graph, RunOptions::new().step_limit(1));
        let t = thread("t");
        let mut ended = runner.run(&t, start()).await.unwrap().ended;
        while ended != Ended::Finished {
            ended = drive(Door::Run, &runner, &t, Command::go_on())
                .await
                .unwrap()
                .0;
        }
        assert_eq!(runner.state(&t).await.unwrap().log, names);
    });
}
