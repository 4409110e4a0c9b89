//! One table of situations: each through every door, without a store, in memory and over sled, on
//! one thread and on two. A store on disk is opened anew for every call, as a new process does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use milepost::{
    Busy, Command, Context, End, Ended, Exits, Graph, NodeError, Policy, Progress, ReduceFault,
    Reducer, Retry, Run, RunError, RunOptions, Runner, Snapshot, State, Updates,
};
use tokio::sync::{Notify, Semaphore};

use crate::support::{
    Calls, DOORS, Doc, Door, Place, drive, fed, line, on_both, says, thread, wander, with,
};

/// One door over one place, and what lives in a handle where there is no store.
struct Site<S: State = Doc> {
    door: Door,
    place: Place,
    held: Option<Run<S>>,
}

type Driven<S = Doc> = Result<(Ended, Snapshot<S>), RunError>;

impl<S: State> Site<S> {
    fn new(door: Door, place: Place) -> Self {
        Self {
            door,
            place,
            held: None,
        }
    }

    /// Drives a new input to where it stops.
    async fn start(
        &mut self,
        graph: &Graph<S>,
        options: RunOptions,
        input: S::Update,
    ) -> Driven<S> {
        let (runner, t) = (self.place.runner(graph.clone(), options), thread("t"));
        let command = Command::start(input);
        if !matches!(self.place, Place::Nowhere) || self.door == Door::Stream {
            return drive(self.door, &runner, &t, command).await;
        }
        // Without a store a run that stopped lives in its handle.
        self.held = Some(runner.open(&t, command).await?);
        self.held(None).await
    }

    /// Takes it up again; none where nothing of it is left.
    async fn go_on(&mut self, graph: &Graph<S>, options: RunOptions) -> Option<Driven<S>> {
        if matches!(self.place, Place::Nowhere) {
            self.held.as_ref()?;
            return Some(self.held(Some(options.step_limit)).await);
        }
        let runner = self.place.runner(graph.clone(), options);
        Some(drive(self.door, &runner, &thread("t"), Command::go_on()).await)
    }

    async fn held(&mut self, limit: Option<u64>) -> Driven<S> {
        let run = self.held.as_mut().unwrap();
        if let Some(limit) = limit {
            run.step_limit(limit);
        }
        if self.door == Door::Run {
            let report = run.finish().await?;
            return Ok((report.ended, report.state));
        }
        loop {
            if let Progress::Ended(ended) = run.step().await? {
                return Ok((ended, run.state()));
            }
        }
    }

    /// What a store says of the thread; none without one.
    async fn stored(&self, graph: &Graph<S>) -> Option<Snapshot<S>> {
        self.place.open()?;
        let runner = self.place.runner(graph.clone(), RunOptions::new());
        Some(runner.state(&thread("t")).await.unwrap())
    }

    fn name(&self) -> String {
        format!("{:?}, {:?}", self.door, self.place)
    }
}

/// Runs a situation at every site.
fn everywhere(case: impl AsyncFn(Site)) {
    everywhere_of(case);
}

fn everywhere_of<S: State>(case: impl AsyncFn(Site<S>)) {
    let case = &case;
    on_both(move || async move {
        for door in DOORS {
            for place in [Place::Nowhere, Place::memory(), Place::sled()] {
                case(Site::new(door, place)).await;
            }
        }
    });
}

fn options() -> RunOptions {
    RunOptions::new()
}

#[derive(Clone, Copy, Exits)]
enum Way {
    On,
    Skip,
}

/// C01, S024: declared order, whoever is first.
#[test]
fn updates_merge_in_the_order_of_declaration_everywhere() {
    everywhere(async |mut site| {
        for seed in 0..3 {
            let mut g = Graph::builder("order");
            let node = |name: &'static str, salt: u64| {
                with((seed, name, salt), async |(seed, name, salt), _, _| {
                    wander(seed, salt).await;
                    Ok(line(name))
                })
            };
            let (a, b) = (g.node("a", node("a", 1)), g.node("b", node("b", 2)));
            let (c, j) = (g.node("c", node("c", 3)), g.node("j", node("j", 4)));
            g.start(c.and(b).and(a));
            for node in [a, b, c] {
                g.edge(node, j);
            }
            g.edge(j, End);
            let graph = g.build().unwrap();
            site.place = match site.place {
                Place::Sled(_) => Place::sled(),
                Place::Memory(_) => Place::memory(),
                Place::Nowhere => Place::Nowhere,
            };
            let driven = site.start(&graph, options().shuffle(seed), Doc::update());
            let (ended, state) = driven.await.unwrap();
            assert_eq!(ended, Ended::Finished, "{}", site.name());
            assert_eq!(state.log, ["a", "b", "c", "j"], "{}", site.name());
        }
    });
}

/// C04: what a sibling writes is not seen.
#[test]
fn siblings_do_not_see_each_other_anywhere() {
    everywhere(async |mut site| {
        for seed in [1, 2] {
            let mut g = Graph::builder("siblings");
            let a = with(seed, async |seed, _, _| {
                wander(seed, 1).await;
                Ok(Doc::update().n(1))
            });
            let b = with(seed, async |seed, doc: Snapshot<Doc>, _| {
                wander(seed, 2).await;
                Ok(Doc::update().seen(vec![doc.n]))
            });
            let (a, b) = (g.node("a", a), g.node("b", b));
            g.start(a.and(b));
            g.edge(a, End);
            g.edge(b, End);
            let graph = g.build().unwrap();
            let input = Doc::update().n(0).overwrite(Doc::SEEN, Vec::new());
            let driven = site.start(&graph, options().shuffle(seed), input);
            let (_, state) = driven.await.unwrap();
            assert_eq!((state.n, &state.seen[..]), (1, &[0][..]), "{}", site.name());
        }
    });
}

/// C08, what is left of it where nothing can be sent beside an edge: an exit leads where it leads
/// and nowhere else, two edges into one node run it once; the same after a resume.
#[test]
fn an_exit_replaces_the_other_ways_and_two_edges_run_a_node_once() {
    everywhere(async |mut site| {
        let calls = Calls::default();
        let mut g = Graph::builder("skip");
        let a = g.node("a", async |_: Snapshot<Doc>, _: Context| {
            Ok((line("a"), Way::Skip))
        });
        let b = g.node("b", says(&calls, "b"));
        let c = with(calls.clone(), async |calls: Calls, _, _| {
            match calls.hit("c") {
                1 => Err(NodeError::permanent("cut")),
                _ => Ok(line("c")),
            }
        });
        let c = g.node("c", c);
        let d = g.node("d", says(&calls, "d"));
        let (e, f) = (
            g.node("e", says(&calls, "e")),
            g.node("f", says(&calls, "f")),
        );
        g.start(a);
        g.wire(a, |way| match way {
            Way::On => b.into(),
            Way::Skip => c.into(),
        });
        g.edge(b, c);
        g.edge(c, e.and(f));
        g.edge(e, d);
        g.edge(f, d);
        g.edge(d, End);
        let graph = g.build().unwrap();
        let cut = site
            .start(&graph, options(), Doc::update())
            .await
            .unwrap_err();
        assert!(matches!(cut, RunError::Node { .. }), "{cut}");
        let Some(driven) = site.go_on(&graph, options()).await else {
            return;
        };
        let state = driven.unwrap().1;
        assert_eq!(state.log, ["a", "c", "e", "f", "d"], "{}", site.name());
        assert_eq!((calls.of("b"), calls.of("c"), calls.of("d")), (0, 2, 1));
    });
}

/// C10: over nothing, one and many; never more bodies at once than the limit; from two sources.
#[test]
fn a_fan_out_is_the_same_everywhere() {
    everywhere(async |site| {
        let Site { door, place, .. } = site;
        for items in [vec![], vec![1], (0..40u64).rev().collect()] {
            let (calls, most) = (Calls::default(), Arc::new(AtomicUsize::new(0)));
            let active = Arc::new(AtomicUsize::new(0));
            let mut g = Graph::builder("fan");
            let plan = g.node("plan", says(&calls, "plan"));
            let held = (calls.clone(), Arc::clone(&most), active);
            let w = fed(held, async |(calls, most, active), item: u64, _, _| {
                calls.hit("w");
                most.fetch_max(active.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                wander(3, item).await;
                active.fetch_sub(1, Ordering::SeqCst);
                Ok(Doc::update().seen(vec![item]))
            });
            let w = g.worker("w", w);
            g.policy(w, Policy::default().concurrency(4));
            let other = g.node("other", says(&calls, "other"));
            let j = g.node("j", says(&calls, "j"));
            g.start(plan.and(other));
            let (one, two) = (items.clone(), items.clone());
            g.edge(plan, w.each(move |_| one.clone()));
            g.edge(other, w.each(move |_| two.clone()));
            g.edge(w, j);
            g.edge(j, End);
            let graph = g.build().unwrap();
            let t = thread(&format!("of {}", items.len()));
            let runner = place.runner(graph, options().shuffle(5));
            let driven = drive(door, &runner, &t, Command::start(Doc::update())).await;
            let (ended, state) = driven.unwrap();
            let name = format!("{door:?}, {place:?}, {}", items.len());
            assert_eq!(ended, Ended::Finished, "{name}");
            assert_eq!(
                state.seen,
                [items.clone(), items.clone()].concat(),
                "{name}"
            );
            assert_eq!(state.log, ["plan", "other", "j"], "{name}");
            assert_eq!(calls.of("w") as usize, 2 * items.len());
            assert!(most.load(Ordering::SeqCst) <= 4, "{name}");
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
    let (a, b) = (g.node("a", node("a")), g.node("b", node("b")));
    let c = g.node("c", node("c"));
    g.start(a);
    g.edge(a, b);
    g.edge(b, c);
    g.edge(c, End);
    g.build().unwrap()
}

/// C19, S036: it goes on where it stands; when it is done, going on does nothing.
#[test]
fn a_run_goes_on_where_it_stands_everywhere() {
    everywhere(async |mut site| {
        let calls = Calls::default();
        let graph = chain(&calls);
        site.start(&graph, options(), Doc::update())
            .await
            .unwrap_err();
        if let Some(state) = site.stored(&graph).await {
            assert_eq!(state.sum, 1);
        }
        for _ in 0..2 {
            let Some(driven) = site.go_on(&graph, options()).await else {
                return;
            };
            let (ended, state) = driven.unwrap();
            assert_eq!((ended, state.sum), (Ended::Finished, 3), "{}", site.name());
            let all = (calls.of("a"), calls.of("b"), calls.of("c"));
            assert_eq!(all, (1, 2, 1), "{}", site.name());
        }
    });
}

/// C20: a decision that failed is asked again, its node is not.
#[test]
fn a_failed_decision_is_asked_again_everywhere() {
    everywhere(async |mut site| {
        let calls = Calls::default();
        let mut g = Graph::builder("decision");
        let a = g.node(
            "a",
            with(calls.clone(), async |calls, _, _| {
                calls.hit("a");
                Ok(Doc::update().sum(1))
            }),
        );
        let sink = g.node("sink", says(&calls, "sink"));
        let asked = calls.clone();
        g.start(a);
        g.branch(
            a,
            move |_| match asked.hit("router") {
                1 => Err(NodeError::transient("no answer")),
                _ => Ok(()),
            },
            |()| sink.into(),
        );
        g.edge(sink, End);
        let graph = g.build().unwrap();
        let failed = site.start(&graph, options(), Doc::update()).await;
        let error = failed.unwrap_err();
        assert!(
            matches!(&error, RunError::Route { node: Some(node), .. } if node.as_str() == "a"),
            "{error}"
        );
        let Some(driven) = site.go_on(&graph, options()).await else {
            return;
        };
        let (ended, state) = driven.unwrap();
        assert_eq!((ended, state.sum), (Ended::Finished, 1), "{}", site.name());
        let all = (calls.of("a"), calls.of("router"), calls.of("sink"));
        assert_eq!(all, (1, 2, 1), "{}", site.name());
    });
}

/// C22 (1), S042: finished siblings are kept.
#[test]
fn when_one_of_three_fails_the_others_are_kept_everywhere() {
    everywhere(async |mut site| {
        let calls = Calls::default();
        let mut g = Graph::builder("three");
        let node = |name: &'static str, salt: u64| {
            with(
                (calls.clone(), name, salt),
                async |(calls, name, salt), _, _| {
                    let tried = calls.hit(name);
                    wander(7, salt).await;
                    if name == "b" && tried == 1 {
                        return Err(NodeError::permanent("not today"));
                    }
                    Ok(line(name))
                },
            )
        };
        let (a, b) = (g.node("a", node("a", 1)), g.node("b", node("b", 2)));
        let (c, j) = (g.node("c", node("c", 3)), g.node("j", node("j", 4)));
        g.start(a.and(b).and(c));
        for node in [a, b, c] {
            g.edge(node, j);
        }
        g.edge(j, End);
        let graph = g.build().unwrap();
        let failed = site
            .start(&graph, options().shuffle(7), Doc::update())
            .await;
        let RunError::Node { task, .. } = failed.unwrap_err() else {
            panic!("{}", site.name())
        };
        assert_eq!(task.to_string(), "1:b[0]");
        let Some(driven) = site.go_on(&graph, options()).await else {
            return;
        };
        assert_eq!(
            driven.unwrap().1.log,
            ["a", "b", "c", "j"],
            "{}",
            site.name()
        );
        let all = (calls.of("a"), calls.of("b"), calls.of("c"), calls.of("j"));
        assert_eq!(all, (1, 2, 1, 1), "{}", site.name());
    });
}

/// Says that it is gone: with the last graph that holds it, and so with the run.
struct Gone(Arc<Notify>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// C29: the reader goes away while b runs. What runs may end, nothing new starts, and a resume
/// gives what an undisturbed run gives.
#[test]
fn a_reader_that_goes_away_stops_the_run_everywhere() {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory(), Place::sled()] {
            let (calls, t) = (Calls::default(), thread("t"));
            let (entered, gate) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
            let ended = Arc::new(Notify::new());
            let graph = |gone: Option<Gone>| {
                let mut g = Graph::builder("reader");
                let held = (calls.clone(), Arc::new(gone));
                let a = with(
                    held,
                    async |(calls, _gone): (Calls, Arc<Option<Gone>>), _, _| {
                        calls.hit("a");
                        Ok(line("a"))
                    },
                );
                let a = g.node("a", a);
                let held = (calls.clone(), Arc::clone(&entered), Arc::clone(&gate));
                let b = with(held, async |(calls, entered, gate), _, _| {
                    calls.hit("b");
                    entered.notify_one();
                    gate.acquire().await?.forget();
                    Ok(line("b"))
                });
                let b = g.node("b", b);
                let c = g.node("c", says(&calls, "c"));
                g.start(a);
                g.edge(a, b);
                g.edge(b, c);
                g.edge(c, End);
                g.build().unwrap()
            };
            let store = place.open();
            let over = |graph: Graph<Doc>, options: RunOptions| {
                let runner = Runner::new(graph).options(options);
                match &store {
                    Some(store) => runner.shared_store(Arc::clone(store)),
                    None => runner,
                }
            };
            let runner = over(graph(Some(Gone(Arc::clone(&ended)))), options());
            let mut stream = runner.stream(&t, Command::start(Doc::update()));
            stream.next().await.unwrap();
            entered.notified().await;
            drop((stream, runner));
            gate.add_permits(1);
            ended.notified().await;
            assert_eq!((calls.of("b"), calls.of("c")), (1, 0), "{place:?}");
            if matches!(place, Place::Nowhere) {
                continue;
            }
            // Whatever had ended is there: b was within its grace time.
            let patient = options().busy(Busy::Wait(Duration::from_secs(60)));
            let next = over(graph(None), patient);
            assert_eq!(next.state(&t).await.unwrap().log, ["a", "b"], "{place:?}");
            let report = next.run(&t, Command::go_on()).await.unwrap();
            assert_eq!(report.state.log, ["a", "b", "c"], "{place:?}");
            assert_eq!(calls.of("b"), 1, "{place:?}");
        }
    });
}

/// Panics at 14.
struct Careful;

impl Reducer<u64> for Careful {
    type Update = u64;
    fn reduce(value: &mut u64, updates: Updates<u64>) -> Result<(), ReduceFault> {
        for update in updates {
            assert_ne!(update, 14, "not fourteen");
            *value += update;
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Default, PartialEq, State)]
struct Sum {
    #[reduce(Careful)]
    careful: u64,
    n: u64,
}

/// C62 (1–4): a panic of a node, a member, a reducer and a decision is typed; nothing of it counts,
/// and the same graph and store serve another thread.
#[test]
fn a_panic_is_typed_everywhere() {
    everywhere_of::<Sum>(async |mut site| {
        for spot in ["node", "member", "reducer", "decision"] {
            let calls = Calls::default();
            let mut g = Graph::builder("panics");
            let held = (calls.clone(), spot);
            let a = with(
                held.clone(),
                async |(calls, spot): (Calls, &str), _, _| match (calls.hit("a"), spot) {
                    (1, "node") => panic!("out of paper"),
                    (_, "reducer") => Ok(Sum::update().careful(14)),
                    _ => Ok(Sum::update().careful(1)),
                },
            );
            let a = g.node("a", a);
            let w = fed(
                held,
                async |(calls, spot): (Calls, &str), item: u64, _, _| {
                    if spot == "member" && item == 1 && calls.hit("w1") == 1 {
                        std::panic::panic_any(7u8);
                    }
                    Ok(Sum::update().careful(1))
                },
            );
            let w = g.worker("w", w);
            g.start(a);
            let asked = calls.clone();
            g.branch(
                a,
                move |_| {
                    if spot == "decision" && asked.hit("decision") == 1 {
                        panic!("out of ink");
                    }
                    Ok(())
                },
                |()| w.each(|_| vec![0, 1, 2]),
            );
            g.edge(w, End);
            let graph = g.build().unwrap();
            let input = || Command::start(Sum::update().overwrite(Sum::CAREFUL, 0));
            let runner = site.place.runner(graph.clone(), options());
            let t = thread(spot);
            let error = drive(site.door, &runner, &t, input()).await;
            let error = error.unwrap_err();
            assert_eq!(error.class(), "panicked", "{spot}, {}", site.name());
            if !matches!(site.place, Place::Nowhere) {
                let state = runner.state(&t).await.unwrap();
                let closed = if spot == "member" { 1 } else { 0 };
                assert_eq!(state.careful, closed, "{spot}, {}", site.name());
            }
            if spot == "reducer" {
                continue;
            }
            let other = drive(site.door, &runner, &thread("other"), input()).await;
            assert_eq!(other.unwrap().1.careful, 4, "{spot}, {}", site.name());
            drop(runner);
            if !matches!(site.place, Place::Nowhere) {
                let next = site.place.runner(graph, options());
                let driven = drive(site.door, &next, &t, Command::go_on()).await;
                assert_eq!(driven.unwrap().1.careful, 4, "{spot}, {}", site.name());
            }
        }
        site.held = None;
    });
}

/// A loop that ends itself after so many rounds, and says what it knows of its budget.
fn rounds(calls: &Calls, rounds: u32) -> Graph<Doc> {
    let mut g = Graph::builder("rounds");
    let again = with(
        (calls.clone(), rounds),
        async |(calls, rounds), _, cx: Context| {
            let way = match calls.hit("again") < rounds {
                true => Way::On,
                false => Way::Skip,
            };
            Ok((Doc::update().seen(vec![cx.remaining_steps()]), way))
        },
    );
    let again = g.node("again", again);
    g.start(again);
    g.wire(again, |way| match way {
        Way::On => again.into(),
        Way::Skip => End.into(),
    });
    g.build().unwrap()
}

/// C64, S026, S034: a limit of L allows exactly L supersteps, and what was done is kept.
#[test]
fn a_limit_allows_exactly_so_many_supersteps_everywhere() {
    everywhere(async |site| {
        let Site { door, place, .. } = site;
        for (wanted, limit) in [(2, 2), (2, 1), (2, 0), (5, 5), (5, 4)] {
            let calls = Calls::default();
            let graph = rounds(&calls, wanted);
            let place = match place {
                Place::Nowhere => Place::Nowhere,
                Place::Memory(_) => Place::memory(),
                Place::Sled(_) => Place::sled(),
            };
            let mut site = Site::new(door, place);
            let driven = site.start(&graph, options().step_limit(limit), Doc::update());
            let (ended, state) = driven.await.unwrap();
            let whole = u64::from(wanted) <= limit;
            let expected = match whole {
                true => Ended::Finished,
                false => Ended::StepLimit { limit },
            };
            assert_eq!(ended, expected, "{}", site.name());
            assert_eq!(u64::from(calls.of("again")), limit.min(wanted.into()));
            assert_eq!(state.seen.len() as u64, limit.min(wanted.into()));
            if let Some(stored) = site.stored(&graph).await {
                assert_eq!(*stored, *state);
            }
            if let Some(driven) = site.go_on(&graph, options().step_limit(9)).await {
                let (ended, state) = driven.unwrap();
                assert_eq!(ended, Ended::Finished, "{}", site.name());
                assert_eq!(state.seen.len(), wanted as usize);
                assert_eq!(calls.of("again"), wanted, "{}", site.name());
            }
        }
    });
}

/// C65 (1, 2, 4): each call has its own budget; what is left is the same for both nodes of a
/// superstep, falls by one, and begins anew with a resume.
#[test]
fn what_is_left_falls_by_one_for_all_tasks_alike_everywhere() {
    everywhere(async |mut site| {
        let calls = Calls::default();
        let mut g = Graph::builder("budget");
        let node = |name: &'static str| {
            with(
                (calls.clone(), name),
                async |(calls, name), _, cx: Context| {
                    if name == "x" && calls.hit("x") == 1 {
                        return Err(NodeError::permanent("once"));
                    }
                    Ok(Doc::update().seen(vec![cx.remaining_steps()]))
                },
            )
        };
        let (a, b) = (g.node("a", node("a")), g.node("b", node("b")));
        let (c, d) = (g.node("c", node("c")), g.node("d", node("d")));
        let (x, y) = (g.node("x", node("x")), g.node("y", node("y")));
        g.start(a.and(b));
        g.edge(a, c);
        g.edge(b, d);
        g.edge(c, x);
        g.edge(d, x);
        g.edge(x, y);
        g.edge(y, End);
        let graph = g.build().unwrap();
        let limit = || options().step_limit(4);
        let failed = site.start(&graph, limit(), Doc::update()).await;
        assert!(failed.is_err(), "{}", site.name());
        if let Some(driven) = site.go_on(&graph, limit()).await {
            let seen = &driven.unwrap().1.seen;
            // A handle goes on with what is left of its budget: it is the same call.
            let rest = match site.place {
                Place::Nowhere => [2, 1],
                _ => [4, 3],
            };
            assert_eq!(
                seen[..],
                [&[4, 4, 3, 3][..], &rest].concat(),
                "{}",
                site.name()
            );
        }
        // Four more inputs on the same thread: each has all of it.
        for turn in 0..4 {
            let input = Doc::update().overwrite(Doc::SEEN, Vec::new());
            let (ended, state) = site
                .start(&graph, limit(), input)
                .await
                .unwrap_or_else(|error| panic!("{turn}, {}: {error}", site.name()));
            assert_eq!(ended, Ended::Finished, "{}", site.name());
            assert_eq!(state.seen, [4, 4, 3, 3, 2, 1], "{}", site.name());
        }
    });
}

/// S029, S031, C04: a member that fails once is tried again, alone as among others.
#[test]
fn a_policy_acts_the_same_everywhere() {
    everywhere(async |site| {
        let Site { door, place, .. } = site;
        for items in [vec![1u64], vec![1, 2, 3]] {
            let calls = Calls::default();
            let mut g = Graph::builder("retried");
            let w = fed(calls.clone(), async |calls, item: u64, _, _| {
                match calls.hit(&format!("w{item}")) {
                    1 => Err(NodeError::transient("busy")),
                    _ => Ok(Doc::update().seen(vec![item])),
                }
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
            let runner = place.runner(g.build().unwrap(), options());
            let t = thread(&items.len().to_string());
            let driven = drive(door, &runner, &t, Command::start(Doc::update())).await;
            assert_eq!(driven.unwrap().1.seen, items, "{door:?}, {place:?}");
            for item in items {
                assert_eq!(calls.of(&format!("w{item}")), 2, "{door:?}, {place:?}");
            }
        }
    });
}
