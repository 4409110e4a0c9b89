//! What runs after what, and in which order it is merged.

use milepost::{Command, Context, End, Ended, Exits, Graph, NodeError, RunOptions, Snapshot};

use crate::support::{
    Calls, DOORS, Doc, Place, drive, fed, line, on_both, says, thread, wander, with,
};

fn start() -> Command<Doc> {
    Command::start(Doc::update())
}

#[derive(Clone, Copy, Exits, PartialEq)]
enum Way {
    Left,
    Both,
    Out,
}

/// Runs the graph through every door, with shuffled starts, and compares log and calls.
fn always(graph: impl Fn(&Calls) -> Graph<Doc>, log: &[&str], calls: &[(&str, u32)]) {
    on_both(async || {
        for place in [Place::Nowhere, Place::memory()] {
            for door in DOORS {
                for seed in 0..6 {
                    let counted = Calls::default();
                    let runner = place.runner(graph(&counted), RunOptions::new().shuffle(seed));
                    let t = thread(&format!("{door:?}{seed}"));
                    let (ended, state) = drive(door, &runner, &t, start()).await.unwrap();
                    assert_eq!(ended, Ended::Finished);
                    assert_eq!(state.log, log, "{door:?} {seed}");
                    for (name, count) in calls {
                        assert_eq!(counted.of(name), *count, "{name}");
                    }
                }
            }
        }
    });
}

/// A worker that appends its payload, after as many turns as it likes.
fn worker(
    calls: &Calls,
    name: &'static str,
) -> impl Fn(
    u64,
    Snapshot<Doc>,
    Context,
) -> futures::future::BoxFuture<'static, Result<crate::support::DocUpdate, NodeError>>
+ Send
+ Sync
+ 'static {
    let calls = calls.clone();
    move |item, _, _| {
        calls.hit(name);
        Box::pin(async move {
            wander(item, 7).await;
            Ok(line(format!("{name}{item}")))
        })
    }
}

/// C10 (4): two fan-outs of one superstep to one worker: by source as declared, then by item; the
/// worker is left once.
#[test]
fn two_fan_outs_to_one_worker_come_in_the_order_of_their_sources() {
    always(
        |calls| {
            let mut g = Graph::builder("two fans");
            let a = g.node("a", says(calls, "a"));
            let b = g.node("b", says(calls, "b"));
            let w = g.worker("w", worker(calls, "w"));
            let j = g.node("j", says(calls, "j"));
            g.start(b.and(a));
            g.edge(b, w.each(|_| vec![3, 4]));
            g.edge(a, w.each(|_| vec![1, 2]));
            g.edge(w, j);
            g.edge(j, End);
            g.build().unwrap()
        },
        &["a", "b", "w1", "w2", "w3", "w4", "j"],
        &[("w", 4), ("j", 1)],
    );
}

/// An empty fan-out beside one that is not: the worker is left once, after its tasks.
#[test]
fn an_empty_fan_out_beside_a_full_one_adds_nothing() {
    always(
        |calls| {
            let mut g = Graph::builder("empty and full");
            let a = g.node("a", says(calls, "a"));
            let b = g.node("b", says(calls, "b"));
            let w = g.worker("w", worker(calls, "w"));
            let j = g.node("j", says(calls, "j"));
            g.start(a.and(b));
            g.edge(a, w.each(|_| vec![]));
            g.edge(b, w.each(|_| vec![5]));
            g.edge(w, j);
            g.edge(j, End);
            g.build().unwrap()
        },
        &["a", "b", "w5", "j"],
        &[("w", 1), ("j", 1)],
    );
}

/// Two empty fan-outs lead on once; a chain of empty ones leads through.
#[test]
fn empty_fan_outs_lead_on_once() {
    always(
        |calls| {
            let mut g = Graph::builder("empties");
            let a = g.node("a", says(calls, "a"));
            let b = g.node("b", says(calls, "b"));
            let v = g.worker("v", worker(calls, "v"));
            let w = g.worker("w", worker(calls, "w"));
            let j = g.node("j", says(calls, "j"));
            g.start(a.and(b));
            g.edge(a, v.each(|_| vec![]));
            g.edge(b, v.each(|_| vec![]));
            g.edge(v, w.each(|_| vec![]));
            g.edge(w, j);
            g.edge(j, End);
            g.build().unwrap()
        },
        &["a", "b", "j"],
        &[("v", 0), ("w", 0), ("j", 1)],
    );
}

/// An empty fan-out that, passing on, gives tasks to a worker that was fanned out to over nothing.
#[test]
fn a_worker_that_gets_tasks_by_way_of_an_empty_one_is_left_once() {
    for first in [true, false] {
        always(
            |calls| {
                let mut g = Graph::builder("by way");
                let a = g.node("a", says(calls, "a"));
                let v = g.worker("v", worker(calls, "v"));
                let w = g.worker("w", worker(calls, "w"));
                let j = g.node("j", says(calls, "j"));
                g.start(a);
                let (to_v, to_w) = (v.each(|_| vec![]), w.each(|_| vec![]));
                g.edge(
                    a,
                    if first {
                        to_v.and(to_w)
                    } else {
                        to_w.and(to_v)
                    },
                );
                g.edge(v, w.each(|_| vec![1]));
                g.edge(w, j);
                g.edge(j, End);
                g.build().unwrap()
            },
            &["a", "w1", "j"],
            &[("w", 1), ("j", 1)],
        );
    }
}

/// `and` of several fan-outs and nodes: each its tasks, in the order of declaration.
#[test]
fn several_targets_at_once_run_in_the_order_of_declaration() {
    always(
        |calls| {
            let mut g = Graph::builder("several");
            let a = g.node("a", says(calls, "a"));
            let v = g.worker("v", worker(calls, "v"));
            let b = g.node("b", says(calls, "b"));
            let w = g.worker("w", worker(calls, "w"));
            g.start(a);
            g.edge(
                a,
                w.each(|_| vec![1, 0])
                    .and(b)
                    .and(v.each(|_| vec![9, 8]))
                    .and(w.each(|_| vec![2]))
                    .and(b),
            );
            g.edge(v, End);
            g.edge(w, End);
            g.edge(b, End);
            g.build().unwrap()
        },
        &["a", "v9", "v8", "b", "w1", "w0", "w2"],
        &[("b", 1), ("w", 3)],
    );
}

/// A node that two edges lead to in one superstep runs once.
#[test]
fn a_node_reached_twice_in_one_superstep_runs_once() {
    always(
        |calls| {
            let mut g = Graph::builder("twice");
            let a = g.node("a", says(calls, "a"));
            let b = g.node("b", says(calls, "b"));
            let z = g.node("z", says(calls, "z"));
            g.start(a);
            g.edge(a, b.and(b).and(z));
            g.edge(b, z);
            g.edge(z, End);
            g.build().unwrap()
        },
        &["a", "b", "z", "z"],
        &[("b", 1), ("z", 2)],
    );
}

/// The exits of a worker's tasks: all their targets, by path, each node once.
#[test]
fn the_exits_of_a_worker_are_taken_together() {
    always(
        |calls| {
            let mut g = Graph::builder("exits");
            let w = fed(
                calls.clone(),
                async |calls: Calls, item: u64, _: Snapshot<Doc>, _: Context| {
                    calls.hit("w");
                    wander(item, 3).await;
                    let way = match item % 3 {
                        0 => Way::Both,
                        1 => Way::Left,
                        _ => Way::Out,
                    };
                    Ok((line(format!("w{item}")), way))
                },
            );
            let w = g.worker("w", w);
            let x = g.node("x", says(calls, "x"));
            let y = g.node("y", says(calls, "y"));
            let e = g.node("e", says(calls, "e"));
            g.start(w.each(|_| vec![2, 0, 1, 4, 3]));
            g.wire(w, |way| match way {
                Way::Left => x.into(),
                Way::Both => y.and(x),
                Way::Out => End.into(),
            })
            .when_empty(e);
            g.edge(x, End);
            g.edge(y, End);
            g.edge(e, End);
            g.build().unwrap()
        },
        &["w2", "w0", "w1", "w4", "w3", "x", "y"],
        &[("x", 1), ("y", 1), ("e", 0)],
    );
}

/// Without tasks, or with none that took an exit, a worker with exits leads where it says.
#[test]
fn a_worker_without_exits_taken_leads_where_it_is_told() {
    for items in [vec![], vec![1, 2]] {
        let mut log: Vec<String> = items.iter().map(|item| format!("no {item}")).collect();
        log.push("e".into());
        let log: Vec<&str> = log.iter().map(String::as_str).collect();
        always(
            |calls| {
                let mut g = Graph::builder("none taken");
                let w = g.worker("w", async |item: u64, _: Snapshot<Doc>, _: Context| {
                    if item > 0 {
                        return Err(NodeError::permanent("no"));
                    }
                    Ok((line("w"), Way::Left))
                });
                g.worker_error(w, |item, error| line(format!("{error} {item}")));
                let x = g.node("x", says(calls, "x"));
                let e = g.node("e", says(calls, "e"));
                let items = items.clone();
                g.start(w.each(move |_| items.clone()));
                g.wire(w, |_| x.into()).when_empty(e);
                g.edge(x, End);
                g.edge(e, End);
                g.build().unwrap()
            },
            &log,
            &[("x", 0), ("e", 1)],
        );
    }
}

/// A branch of a worker is asked once, on the merged state of all its tasks.
#[test]
fn a_branch_of_a_worker_is_asked_once_on_what_all_have_written() {
    for items in [vec![], vec![1, 2, 3]] {
        let mut log: Vec<String> = items.iter().map(|item| format!("w{item}")).collect();
        log.push("x".into());
        let log: Vec<&str> = log.iter().map(String::as_str).collect();
        always(
            |calls| {
                let mut g = Graph::builder("branch of a worker");
                let w = g.worker("w", worker(calls, "w"));
                let x = g.node("x", says(calls, "x"));
                let (given, counted) = (items.clone(), calls.clone());
                let expected = items.len();
                g.start(w.each(move |_| given.clone()));
                g.branch(
                    w,
                    move |doc: &Doc| {
                        counted.hit("asked");
                        assert_eq!(doc.log.len(), expected);
                        Ok(Way::Left)
                    },
                    |way| match way {
                        Way::Left => x.into(),
                        Way::Both | Way::Out => End.into(),
                    },
                );
                g.edge(x, End);
                g.build().unwrap()
            },
            &log,
            &[("asked", 1), ("x", 1)],
        );
    }
}

/// S001, S007: the four kinds of edges in one graph, and a struct as a node.
#[test]
fn a_struct_is_a_node_like_any_other() {
    struct Says(Calls);
    #[async_trait::async_trait]
    impl milepost::Node<Doc> for Says {
        type Output = (crate::support::DocUpdate, Way);
        async fn run(&self, _: Snapshot<Doc>, _: Context) -> Result<Self::Output, NodeError> {
            self.0.hit("object");
            tokio::task::yield_now().await;
            Ok((line("object"), Way::Both))
        }
    }
    always(
        |calls| {
            let mut g = Graph::builder("object");
            let object = g.object("object", Says(calls.clone()));
            let left = g.node("left", says(calls, "left"));
            let right = g.node(
                "right",
                with((), async |(), doc: Snapshot<Doc>, _| {
                    Ok(line(format!("right of {}", doc.log.len())))
                }),
            );
            g.start(object);
            g.wire(object, |way| match way {
                Way::Left => left.into(),
                Way::Both => right.and(left),
                Way::Out => End.into(),
            });
            g.edge(left, End);
            g.edge(right, End);
            g.build().unwrap()
        },
        &["object", "left", "right of 1"],
        &[("object", 1)],
    );
}
