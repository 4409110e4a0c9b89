//! What `build` refuses, with its sentence; and big graphs.

use std::time::Duration;

use milepost::{
    Command, Context, End, Exits, Graph, NodeError, Policy, Problem, Retry, RunError, RunOptions,
    Runner, Snapshot, State,
};

use crate::support::{Doc, DocUpdate, line, thread};

async fn nothing(_: Snapshot<Doc>, _: Context) -> Result<DocUpdate, NodeError> {
    Ok(DocUpdate::default())
}

async fn work(_: u64, _: Snapshot<Doc>, _: Context) -> Result<DocUpdate, NodeError> {
    Ok(DocUpdate::default())
}

#[derive(Clone, Copy, Exits)]
enum Way {
    On,
    Out,
}

async fn choosing(_: Snapshot<Doc>, _: Context) -> Result<(DocUpdate, Way), NodeError> {
    Ok((DocUpdate::default(), Way::Out))
}

async fn working(_: u64, _: Snapshot<Doc>, _: Context) -> Result<(DocUpdate, Way), NodeError> {
    Ok((DocUpdate::default(), Way::Out))
}

/// The sentences that the description gives, without the graph's name.
fn said(describe: impl FnOnce(&mut milepost::Builder<Doc>)) -> Vec<String> {
    let mut g = Graph::builder("g");
    describe(&mut g);
    match g.build() {
        Ok(_) => Vec::new(),
        Err(error) => {
            let whole = error.to_string();
            assert!(
                whole.starts_with("graph \"g\" cannot be built\n- "),
                "{whole}"
            );
            error.problems.iter().map(Problem::to_string).collect()
        }
    }
}

/// C07 (5, 6), S020: every problem has its sentence, names the node, and comes alone.
#[test]
fn every_problem_has_its_sentence() {
    assert_eq!(said(|g| g.start(End)), Vec::<String>::new());
    assert_eq!(
        said(|g| {
            let a = g.node("a", nothing);
            g.edge(a, End);
        }),
        [
            "nothing runs first: say so with `start`",
            "node \"a\" cannot be reached from the start"
        ]
    );
    assert_eq!(
        said(|g| {
            let a = g.node("a", nothing);
            g.start(a);
            g.start(a);
            g.edge(a, End);
        }),
        ["`start` was called twice: name several nodes at once with `a.and(b)`"]
    );
    assert_eq!(
        said(|g| {
            let a = g.node("a", nothing);
            g.start(a);
        }),
        ["node \"a\" leads nowhere: give it an edge, or lead it to `End`"]
    );
    assert_eq!(
        said(|g| {
            let a = g.node("a", nothing);
            g.start(a);
            g.edge(a, End);
            g.branch(a, |_| Ok(Way::On), |_| End.into());
        }),
        ["node \"a\" was given its way out twice: name several targets at once with `a.and(b)`"]
    );
    assert_eq!(
        said(|g| {
            let (a, b) = (g.node("a", nothing), g.node("b", nothing));
            g.start(a);
            g.edge(a, End);
            g.edge(b, a);
        }),
        ["node \"b\" cannot be reached from the start"]
    );
    assert_eq!(
        said(|g| {
            let (a, b, c) = (
                g.node("a", nothing),
                g.node("b", nothing),
                g.node("c", choosing),
            );
            g.start(a);
            g.edge(a, b);
            g.edge(b, c);
            g.wire(c, |way| match way {
                Way::On => a.into(),
                Way::Out => b.into(),
            });
        }),
        [
            "the cycle \"a\" → \"b\" → \"c\" cannot be left: lead one of its nodes out of it, by an exit or a branch"
        ]
    );
    assert_eq!(
        said(|g| {
            let a = g.node("a", nothing);
            g.start(a);
            g.edge(a, a);
        }),
        ["the cycle \"a\" cannot be left: lead one of its nodes out of it, by an exit or a branch"]
    );
    assert_eq!(
        said(|g| {
            let (a, b) = (g.node("a", nothing), g.node("a", nothing));
            g.start(a.and(b));
            g.edge(a, End);
            g.edge(b, End);
        }),
        ["two nodes are called \"a\": names tell them apart in records and pictures"]
    );
    assert_eq!(
        said(|g| {
            let (a, b) = (g.node("", nothing), g.node("x".repeat(257), nothing));
            g.start(a.and(b));
            g.edge(a, End);
            g.edge(b, End);
        }),
        [
            "a node of \"g\" has no proper name: a node name must not be empty",
            "a node of \"g\" has no proper name: a node name has at most 256 bytes, this one has 257",
        ]
    );
    assert_eq!(
        said(|g| {
            let w = g.worker("w", working);
            g.start(w.each(|_| vec![1]));
            g.wire(w, |_| End.into());
        }),
        [
            "worker \"w\" has exits, but a fan-out over nothing takes none: say where it leads then, with `.when_empty(..)` after `wire`"
        ]
    );
    assert_eq!(
        said(|g| {
            let a = g.node("a", choosing);
            g.start(a);
            g.wire(a, |_| End.into()).when_empty(End);
        }),
        ["node \"a\" is no worker: `when_empty` makes no sense there"]
    );
}

/// A node belongs to its builder, wherever it is used.
#[test]
fn a_node_of_another_graph_is_refused() {
    let foreign = "a node of another graph was used: a node belongs to the builder that made it";
    let mut other = Graph::<Doc>::builder("other");
    let (node, worker) = (other.node("a", nothing), other.worker("w", work));
    type Use<'u> = Box<dyn Fn(&mut milepost::Builder<Doc>) + 'u>;
    let uses: [Use<'_>; 7] = [
        Box::new(|g| g.start(node)),
        Box::new(|g| g.start(worker.each(|_| vec![1]))),
        Box::new(|g| g.edge(node, End)),
        Box::new(|g| g.kind(node, milepost::NodeKind::Model)),
        Box::new(|g| g.policy(worker, Policy::default())),
        Box::new(|g| g.worker_error(worker, |_, _| line("no"))),
        Box::new(|g| g.branch(node, |_| Ok(Way::On), |_| End.into())),
    ];
    for use_it in uses {
        let said = said(|g| {
            let a = g.node("a", nothing);
            g.edge(a, End);
            use_it(g);
        });
        assert!(said.iter().any(|problem| problem == foreign), "{said:?}");
    }
}

/// Policies that can never run anything.
#[test]
fn a_policy_that_makes_no_sense_is_refused() {
    let retry = Retry::default;
    let cases = [
        (
            Policy::default().concurrency(0),
            "a concurrency of 0 never runs anything",
        ),
        (
            Policy::default().retry(Retry {
                max_attempts: 0,
                ..retry()
            }),
            "0 attempts never run anything",
        ),
        (
            Policy::default().retry(Retry {
                factor: -1.0,
                ..retry()
            }),
            "the factor of the waits is not a number of 0 or more",
        ),
        (
            Policy::default().retry(Retry {
                factor: f64::NAN,
                ..retry()
            }),
            "the factor of the waits is not a number of 0 or more",
        ),
        (
            Policy::default().retry(Retry {
                jitter: 1.5,
                ..retry()
            }),
            "the jitter is not between 0 and 1",
        ),
        (
            Policy::default().retry(Retry {
                jitter: f64::NAN,
                ..retry()
            }),
            "the jitter is not between 0 and 1",
        ),
    ];
    for (policy, reason) in cases {
        let said = said(|g| {
            let a = g.node("a", nothing);
            g.policy(a, policy);
            g.start(a);
            g.edge(a, End);
        });
        assert_eq!(
            said,
            [format!("the policy of node \"a\" makes no sense: {reason}")]
        );
    }
}

/// A state whose default cannot be stored is found at build, and a graph without a name.
#[test]
fn a_default_that_cannot_be_stored_is_refused() {
    #[derive(Clone, Debug, State)]
    struct Twice {
        twice: Option<Option<u8>>,
    }
    impl Default for Twice {
        fn default() -> Self {
            Self { twice: Some(None) }
        }
    }
    let mut g = Graph::<Twice>::builder("");
    let a = g.node("a", async |_: Snapshot<Twice>, _: Context| {
        Ok(Twice::update().twice(None))
    });
    g.start(a);
    g.edge(a, End);
    let error = g.build().unwrap_err();
    let [Problem::NoName, Problem::Field { field: "twice", .. }] = &error.problems[..] else {
        panic!("{error}")
    };
    let first = "graph \"\" cannot be built\n- the graph has no name: give one to `Graph::builder`\n- field \"twice\" of the state cannot be stored: ";
    assert!(error.to_string().starts_with(first), "{error}");
}

macro_rules! by_hand {
    ($name:ident, $all:expr, $index:expr, $label:expr) => {
        #[derive(Clone, Copy)]
        struct $name(usize);
        impl Exits for $name {
            const ALL: &'static [Self] = $all;
            fn index(self) -> usize {
                let index: fn(usize) -> usize = $index;
                index(self.0)
            }
            fn label(self) -> &'static str {
                let label: fn(usize) -> &'static str = $label;
                label(self.0)
            }
        }
    };
}

by_hand!(None_, &[], |it| it, |_| "one");
by_hand!(Shifted, &[Shifted(0), Shifted(1)], |it| it + 1, |it| [
    "a", "b"
][it]);
by_hand!(Unlabelled, &[Unlabelled(0), Unlabelled(1)], |it| it, |_| "");
by_hand!(Alike, &[Alike(0), Alike(1)], |it| it, |_| "same");
by_hand!(Stray, &[Stray(0), Stray(1)], |it| it, |it| ["a", "b", "c"]
    [it]);

/// Exits that were written by hand, and badly: refused at build where it can be seen, a typed
/// error where it cannot.
#[test]
fn exits_written_by_hand_are_checked() {
    fn wired<E: Exits>(g: &mut milepost::Builder<Doc>, exit: E) {
        let a = g.node(
            "a",
            crate::support::with(exit, async |exit: E, _, _| Ok((Doc::update(), exit))),
        );
        g.start(a);
        g.wire(a, |_| End.into());
    }
    fn chosen<E: Exits>(g: &mut milepost::Builder<Doc>, exit: E) {
        let a = g.node("a", nothing);
        g.start(a);
        g.branch(a, move |_| Ok(exit), |_| End.into());
    }
    let no = |reason: &str| format!("the exits of node \"a\" make no sense: {reason}. Derive them");
    assert!(said(|g| wired(g, None_(0))).contains(&no("there is none, so it could never be left")));
    assert!(
        said(|g| chosen(g, None_(0))).contains(&no("there is none, so it could never be left"))
    );
    assert_eq!(
        said(|g| wired(g, Shifted(0))),
        [no("`index` is not the place in `ALL`")]
    );
    assert_eq!(
        said(|g| chosen(g, Shifted(0))),
        [no("`index` is not the place in `ALL`")]
    );
    assert_eq!(said(|g| wired(g, Unlabelled(0))), [no("one has no label")]);
    assert_eq!(
        said(|g| wired(g, Alike(0))),
        [no("two have the same label")]
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    for describe in [wired::<Stray>, chosen::<Stray>] {
        let mut g = Graph::builder("stray");
        describe(&mut g, Stray(2));
        let runner = Runner::new(g.build().unwrap());
        let t = thread("t");
        let run = runner.run(&t, Command::start(Doc::update()));
        let error = runtime.block_on(run).unwrap_err();
        assert!(matches!(error, RunError::Route { .. }), "{error}");
    }
}

/// A graph of so many nodes, each leading to the next; the last one leads where it is told.
fn chain(
    nodes: usize,
    last: impl FnOnce(&mut milepost::Builder<Doc>, &[milepost::NodeRef<Doc, ()>]),
) -> milepost::Builder<Doc> {
    let mut g = Graph::builder("chain");
    let nodes: Vec<_> = (0..nodes)
        .map(|number| g.node(format!("n{number}"), nothing))
        .collect();
    g.start(nodes[0]);
    for pair in nodes.windows(2) {
        g.edge(pair[0], pair[1]);
    }
    last(&mut g, &nodes);
    g
}

/// A chain that is longer than a stack is deep, and a cycle of it.
#[test]
fn a_chain_of_100_000_nodes_is_built() {
    let g = chain(100_000, |g, nodes| g.edge(nodes[99_999], End));
    assert_eq!(g.build().unwrap().view().nodes.len(), 100_000);
    let g = chain(100_000, |g, nodes| g.edge(nodes[99_999], nodes[50_000]));
    let error = g.build().unwrap_err();
    assert!(
        matches!(&error.problems[..], [Problem::EndlessCycle { nodes }] if nodes.len() == 50_000)
    );
}

/// The checks do not grow with the square: ten times the nodes in far less than a hundred times.
#[test]
fn a_wide_graph_of_10_000_nodes_is_built_and_runs() {
    let mut g = Graph::<Doc>::builder("wide");
    let nodes: Vec<_> = (0..10_000)
        .map(|number| g.node(format!("n{number}"), async |_, _| Ok(Doc::update().sum(1))))
        .collect();
    let target = nodes[1..]
        .iter()
        .fold(milepost::Target::from(nodes[0]), |all, node| all.and(*node));
    g.start(target);
    let last = g.node("last", nothing);
    for node in &nodes {
        g.edge(*node, last);
    }
    g.edge(last, End);
    let graph = g.build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let runner = Runner::new(graph).options(RunOptions::new().deadline(Duration::from_secs(60)));
    let report = runtime
        .block_on(runner.run(&thread("t"), Command::start(Doc::update())))
        .unwrap();
    assert_eq!((report.state.sum, report.step.get()), (10_000, 2));
}

/// S050: the same description, the same fingerprint; every change of what positions depend on
/// gives another; closures and policies do not.
#[test]
fn a_fingerprint_is_that_of_the_description() {
    let describe = |change: &str| {
        let mut g = Graph::<Doc>::builder(if change == "graph" { "other" } else { "g" });
        let a = g.node(if change == "name" { "b" } else { "a" }, choosing);
        let w = g.worker("w", work);
        let z = g.node("z", nothing);
        g.start(a);
        let empty = if change == "payloads" {
            vec![1]
        } else {
            vec![]
        };
        g.wire(a, |way| match way {
            Way::On => {
                let payloads = empty.clone();
                w.each(move |_| payloads.clone())
            }
            Way::Out if change == "wiring" => z.into(),
            Way::Out => End.into(),
        });
        if change == "edge" {
            g.edge(w, z.and(z));
        } else {
            g.edge(w, z);
        }
        if change == "kind" {
            g.kind(z, milepost::NodeKind::Summary);
        }
        if change == "policy" {
            g.policy(z, Policy::default().concurrency(3));
        }
        g.edge(z, End);
        g.build().unwrap().fingerprint()
    };
    for same in ["", "payloads", "policy"] {
        assert_eq!(describe(same), describe(""), "{same}");
    }
    for other in ["graph", "name", "wiring", "edge", "kind"] {
        assert_ne!(describe(other), describe(""), "{other}");
    }
}
