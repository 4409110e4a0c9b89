//! Two programs over one store: what a later one may change, and what it is told.

use milepost::store::Record;
use milepost::{
    Command, Context, End, Ended, Exits, Graph, NodeError, RunError, RunOptions, Seq, Snapshot,
    State,
};

use crate::support::{Place, thread};

/// The first release.
mod v1 {
    use milepost::{Append, State};
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub(super) enum Kind {
        #[default]
        Plain,
        Named {
            name: String,
            deep: Option<Box<Kind>>,
        },
    }

    #[derive(Clone, Debug, Default, PartialEq, State)]
    pub(super) struct Order {
        pub(super) a: u64,
        pub(super) c: String,
        pub(super) kind: Kind,
        #[reduce(Append)]
        pub(super) list: Vec<String>,
        pub(super) stop: bool,
    }
}

macro_rules! release {
    ($(#[$doc:meta])* $name:ident { $($body:tt)* }) => {
        $(#[$doc])*
        mod $name {
            #[allow(unused_imports, reason = "not every release uses all")]
            use super::v1::Kind;
            #[allow(unused_imports, reason = "not every release uses all")]
            use milepost::{Append, Replace, State, Union};
            $($body)*
        }
    };
}

release!(same { #[derive(Clone, Debug, Default, PartialEq, State)] pub(super) struct Order { pub(super) a: u64, pub(super) c: String, pub(super) kind: Kind, #[reduce(Append)] pub(super) list: Vec<String>, pub(super) stop: bool } });
release!(reordered { #[derive(Clone, Debug, Default, PartialEq, State)] pub(super) struct Order { pub(super) stop: bool, #[reduce(Append)] pub(super) list: Vec<String>, pub(super) kind: Kind, pub(super) c: String, pub(super) a: u64 } });
release!(added { #[derive(Clone, Debug, Default, PartialEq, State)] pub(super) struct Order { pub(super) a: u64, pub(super) b: Option<u32>, pub(super) c: String, pub(super) kind: Kind, #[reduce(Append)] pub(super) list: Vec<String>, pub(super) stop: bool } });
release!(required { #[derive(Clone, Debug, Default, PartialEq, State)] pub(super) struct Order { pub(super) a: u64, pub(super) c: String, pub(super) kind: Kind, #[reduce(Append)] pub(super) list: Vec<String>, pub(super) stop: bool, #[required] pub(super) d: u64 } });
release!(dropped { #[derive(Clone, Debug, Default, PartialEq, State)] pub(super) struct Order { pub(super) a: u64, pub(super) kind: Kind, #[reduce(Append)] pub(super) list: Vec<String>, pub(super) stop: bool } });
release!(other_type { #[derive(Clone, Debug, Default, PartialEq, State)] pub(super) struct Order { pub(super) a: String, pub(super) c: String, pub(super) kind: Kind, #[reduce(Append)] pub(super) list: Vec<String>, pub(super) stop: bool } });
release!(other_width { #[derive(Clone, Debug, Default, PartialEq, State)] pub(super) struct Order { pub(super) a: u32, pub(super) c: String, pub(super) kind: Kind, #[reduce(Append)] pub(super) list: Vec<String>, pub(super) stop: bool } });
release!(other_codec { #[derive(Clone, Debug, Default, PartialEq, State)] pub(super) struct Order { #[codec(Bincode)] pub(super) a: u64, pub(super) c: String, pub(super) kind: Kind, #[reduce(Append)] pub(super) list: Vec<String>, pub(super) stop: bool } });
release!(other_reducer { #[derive(Clone, Debug, Default, PartialEq, State)] pub(super) struct Order { pub(super) a: u64, pub(super) c: String, pub(super) kind: Kind, #[reduce(Replace)] pub(super) list: Vec<String>, pub(super) stop: bool } });
release!(other_variant {
    #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
    pub(super) enum Sort { #[default] Plain, Titled { name: String, deep: Option<Box<Sort>> } }
    #[derive(Clone, Debug, Default, PartialEq, State)] pub(super) struct Order { pub(super) a: u64, pub(super) c: String, pub(super) kind: Sort, #[reduce(Append)] pub(super) list: Vec<String>, pub(super) stop: bool } });

/// Two siblings, then one more node; the first sibling fails while `stop` is set.
macro_rules! graph {
    ($state:ty) => {
        graph!($state, "order", "first")
    };
    ($state:ty, $name:literal, $first:literal) => {{
        let mut g = Graph::<$state>::builder($name);
        let first = g.node($first, async |order: Snapshot<$state>, _: Context| {
            // The sibling is done first.
            tokio::task::yield_now().await;
            match order.stop {
                true => Err(NodeError::permanent("not yet")),
                false => Ok(<$state>::update().list(vec!["first".to_owned()])),
            }
        });
        let second = g.node("second", async |_: Snapshot<$state>, _: Context| {
            Ok(<$state>::update().list(vec!["second".to_owned()]))
        });
        let last = g.node("last", async |_: Snapshot<$state>, _: Context| {
            Ok(<$state>::update().list(vec!["last".to_owned()]))
        });
        g.start(first.and(second));
        g.edge(first, last);
        g.edge(second, last);
        g.edge(last, End);
        g.build().unwrap()
    }};
}

fn deep() -> v1::Kind {
    let inner = v1::Kind::Named {
        name: "inner".into(),
        deep: None,
    };
    v1::Kind::Named {
        name: "outer".into(),
        deep: Some(Box::new(inner)),
    }
}

/// How the first release leaves its thread.
#[derive(Clone, Copy, Debug)]
enum Left {
    /// All done; the newest base lies before the head, or at it.
    Finished { base_every: u32 },
    /// Inside a superstep, one sibling recorded.
    Open { base_every: u32 },
}

async fn written(place: &Place, left: Left) {
    let (base_every, stop) = match left {
        Left::Finished { base_every } => (base_every, false),
        Left::Open { base_every } => (base_every, true),
    };
    let runner = place.runner(graph!(v1::Order), RunOptions::new().base_every(base_every));
    let input = v1::Order::update()
        .a(7)
        .c("see".into())
        .kind(deep())
        .list(vec!["in".into()])
        .stop(stop);
    let ended = runner.run(&thread("t"), Command::start(input)).await;
    assert_eq!(ended.is_err(), stop);
}

/// The thread is as it was: the first release goes on as if nothing had been.
async fn untouched(place: &Place, left: Left) {
    let runner = place.runner(graph!(v1::Order), RunOptions::new());
    let state = runner.state(&thread("t")).await.unwrap();
    assert_eq!((state.a, &*state.c, &state.kind), (7, "see", &deep()));
    let expected = match left {
        Left::Finished { .. } => vec!["in", "first", "second", "last"],
        Left::Open { .. } => vec!["in"],
    };
    assert_eq!(state.list, expected);
    if let Left::Open { .. } = left {
        let anew = Command::start(v1::Order::update().stop(false)).abandon();
        let report = runner.run(&thread("t"), anew).await.unwrap();
        assert_eq!(
            report.state.list,
            ["in", "second", "first", "second", "last"]
        );
    }
}

const LEFT: [Left; 4] = [
    Left::Finished { base_every: 64 },
    Left::Finished { base_every: 1 },
    Left::Open { base_every: 64 },
    Left::Open { base_every: 1 },
];

/// C53 (1, 3, 6): what fits is read, and the next boundary writes the new schema and a base.
#[tokio::test(start_paused = true)]
async fn what_fits_is_read_and_followed_by_a_base() {
    macro_rules! fits {
        ($state:ty, $changed:literal, $check:expr) => {
            for left in LEFT {
                let place = Place::memory();
                written(&place, left).await;
                let runner = place.runner(graph!($state), RunOptions::new());
                let state = runner.state(&thread("t")).await.unwrap();
                let check: fn(&$state) -> bool = $check;
                assert!(state.a == 7 && check(&state), "{left:?} {state:?}");
                let store = place.open().unwrap();
                let before = store.head(&thread("t")).await.unwrap().unwrap();
                let anew = Command::start(<$state>::update().stop(false)).abandon();
                let report = runner.run(&thread("t"), anew).await.unwrap();
                assert_eq!(report.ended, Ended::Finished);
                assert_eq!(report.state.a, 7);
                let after = store.head(&thread("t")).await.unwrap().unwrap();
                assert_eq!(after.schema > before.schema, $changed);
                if $changed {
                    let stored = store.records(&thread("t"), after.schema, 3).await.unwrap();
                    assert!(matches!(*stored[0].record, Record::Schema(_)));
                    assert!(matches!(*stored[2].record, Record::Base(_)));
                    assert_eq!(stored[2].seq, after.base);
                }
                assert_eq!(*runner.state(&thread("t")).await.unwrap(), *report.state);
                // The states of the old schema stay readable.
                let old = runner.state_at(&thread("t"), Seq::new(2)).await.unwrap();
                assert_eq!((old.a, &old.list[..]), (7, &["in".to_owned()][..]));
            }
        };
    }
    fits!(same::Order, false, |state| state.c == "see"
        && state.kind == deep());
    fits!(reordered::Order, true, |state| state.c == "see"
        && state.kind == deep());
    fits!(added::Order, true, |state| state.b.is_none()
        && state.c == "see"
        && state.kind == deep());
    fits!(dropped::Order, true, |state| state.kind == deep());
}

/// C53 (2, 4, 5): what does not fit is told, with both sides, and nothing is touched.
#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_told_with_both_sides() {
    macro_rules! refuses {
        ($state:ty, $field:literal, $stored:literal, $program:literal) => {
            for left in LEFT {
                let place = Place::memory();
                written(&place, left).await;
                let runner = place.runner(graph!($state), RunOptions::new());
                let commands = [
                    Command::go_on(),
                    Command::start(<$state>::update()),
                    Command::start(<$state>::update()).abandon(),
                ];
                for command in commands {
                    let error = runner.run(&thread("t"), command).await.unwrap_err();
                    let RunError::SchemaMismatch {
                        field,
                        stored,
                        program,
                        at,
                        ..
                    } = &error
                    else {
                        panic!("{left:?}: {error}")
                    };
                    assert_eq!(field, $field);
                    assert!(at.get() > 0);
                    assert!(
                        stored.contains($stored) && program.contains($program),
                        "{error}"
                    );
                }
                assert!(matches!(
                    runner.state(&thread("t")).await,
                    Err(RunError::SchemaMismatch { .. })
                ));
                drop(runner);
                untouched(&place, left).await;
            }
        };
    }
    refuses!(required::Order, "d", "no such field", "required");
    refuses!(other_type::Order, "a", "u64", "str");
    refuses!(other_width::Order, "a", "u64", "u32");
    refuses!(other_codec::Order, "a", "codec 1", "codec 2");
    refuses!(other_variant::Order, "kind", "Named", "Titled");
}

/// C53: updates that were meant for another reducer are never merged by the new one; where there
/// are none, the value is kept, items and all.
#[tokio::test(start_paused = true)]
async fn another_reducer_takes_over_values_and_never_updates() {
    for left in LEFT {
        let place = Place::memory();
        written(&place, left).await;
        let runner = place.runner(graph!(other_reducer::Order), RunOptions::new());
        let found = runner.state(&thread("t")).await;
        match left {
            Left::Finished { base_every: 1 } => {
                // Two nodes of one superstep write what now takes one writer: only the values count.
                match found {
                    Ok(state) => assert_eq!(state.list, ["in", "first", "second", "last"]),
                    Err(error) => assert!(
                        matches!(&error, RunError::SchemaMismatch { field, .. } if field == "list"),
                        "{error}"
                    ),
                }
            }
            _ => {
                let error = runner
                    .run(&thread("t"), Command::go_on())
                    .await
                    .unwrap_err();
                let RunError::SchemaMismatch {
                    field,
                    stored,
                    program,
                    ..
                } = &error
                else {
                    panic!("{left:?} {error}")
                };
                assert_eq!(field, "list");
                assert!(
                    stored.contains("append") && program.contains("replace"),
                    "{error}"
                );
            }
        }
        drop(runner);
        untouched(&place, left).await;
    }
}

/// S050: a frontier that does not fit the graph.
#[tokio::test(start_paused = true)]
async fn a_graph_that_does_not_fit_is_told_with_both_sides() {
    let left = Left::Open { base_every: 64 };
    let place = Place::memory();
    written(&place, left).await;
    let renamed = place.runner(graph!(v1::Order, "order", "premier"), RunOptions::new());
    let error = renamed
        .run(&thread("t"), Command::go_on())
        .await
        .unwrap_err();
    let RunError::UnknownNode { node, known, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(node, "first");
    assert_eq!(
        known.iter().map(|name| name.as_str()).collect::<Vec<_>>(),
        ["premier", "second", "last"]
    );
    let other = place.runner(graph!(v1::Order, "invoice", "first"), RunOptions::new());
    let error = other.run(&thread("t"), Command::go_on()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "thread t belongs to graph \"order\", not to \"invoice\""
    );
    drop((renamed, other));
    untouched(&place, left).await;
}

#[derive(Clone, Copy, Exits)]
enum Way {
    Left,
    Right,
}

/// S050, C53: a node that became a worker, a worker that became a node, other payloads, exits that
/// came, went or were renamed: never another path, never a silent default.
#[tokio::test(start_paused = true)]
async fn a_node_of_another_kind_is_told() {
    use crate::support::{Doc, line};
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Sort {
        Plain,
        Exits,
        Worker,
        OtherWorker,
    }
    let graph = |sort: Sort, fails: bool| {
        let mut g = Graph::<Doc>::builder("kinds");
        let z = g.node("z", async move |_: Snapshot<Doc>, _: Context| Ok(line("z")));
        let fail = g.node(
            "fail",
            crate::support::with(fails, async |fails: bool, _: Snapshot<Doc>, _: Context| {
                // The siblings are done first.
                tokio::task::yield_now().await;
                match fails {
                    true => Err(NodeError::permanent("no")),
                    false => Ok(line("fail")),
                }
            }),
        );
        g.edge(fail, End);
        g.edge(z, End);
        match sort {
            Sort::Plain => {
                let x = g.node("x", async |_: Snapshot<Doc>, _: Context| Ok(line("x")));
                g.start(x.and(fail).and(z));
                g.edge(x, End);
            }
            Sort::Exits => {
                let x = g.node("x", async |_: Snapshot<Doc>, _: Context| {
                    Ok((line("x"), Way::Right))
                });
                g.start(x.and(fail).and(z));
                g.wire(x, |way| match way {
                    Way::Left => z.into(),
                    Way::Right => End.into(),
                });
            }
            Sort::Worker => {
                let x = g.worker("x", async |_: u64, _: Snapshot<Doc>, _: Context| {
                    Ok(line("x"))
                });
                g.start(x.each(|_| vec![1]).and(fail).and(z));
                g.edge(x, End);
            }
            Sort::OtherWorker => {
                let x = g.worker("x", async |_: String, _: Snapshot<Doc>, _: Context| {
                    Ok(line("x"))
                });
                g.start(x.each(|_| vec!["a".to_owned()]).and(fail).and(z));
                g.edge(x, End);
            }
        }
        g.build().unwrap()
    };
    let sorts = [Sort::Plain, Sort::Exits, Sort::Worker, Sort::OtherWorker];
    for old in sorts {
        for new in sorts {
            let (place, t) = (Place::memory(), thread("t"));
            let first = place.runner(graph(old, true), RunOptions::new());
            first
                .run(&t, Command::start(Doc::update()))
                .await
                .unwrap_err();
            let next = place.runner(graph(new, false), RunOptions::new());
            match next.run(&t, Command::go_on()).await {
                Ok(report) => {
                    assert_eq!(old, new);
                    assert_eq!(report.state.log, ["z", "fail", "x"]);
                }
                Err(RunError::SchemaMismatch {
                    field,
                    stored,
                    program,
                    ..
                }) => {
                    assert_ne!(old, new);
                    assert_eq!(field, "x");
                    assert_ne!(stored, program);
                }
                Err(other) => panic!("{old:?} {new:?}: {other}"),
            }
            // The old program still can.
            if old != new {
                let again = place.runner(graph(old, false), RunOptions::new());
                let report = again.run(&t, Command::go_on()).await.unwrap();
                assert_eq!(report.state.log, ["z", "fail", "x"]);
            }
        }
    }
}

/// C52: numbers that JSON cannot carry come back to the bit, from updates and from bases.
#[tokio::test(start_paused = true)]
async fn numbers_come_back_to_the_bit() {
    #[derive(Clone, Debug, Default, State)]
    struct Numbers {
        floats: Vec<f64>,
        small: Vec<f32>,
        unsigned: Vec<u64>,
        signed: Vec<i64>,
        keyed: std::collections::BTreeMap<i32, Vec<u8>>,
        wide: Option<i128>,
    }
    let floats = [
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        1e308,
        5e-324,
        f64::from_bits(0x7ff8_0000_0000_0001),
    ];
    let mut g = Graph::<Numbers>::builder("numbers");
    let a = g.node("a", async |_: Snapshot<Numbers>, _: Context| {
        Ok(Numbers::update())
    });
    g.start(a);
    g.edge(a, End);
    let graph = g.build().unwrap();
    for base_every in [1, 64] {
        let place = Place::memory();
        let runner = place.runner(graph.clone(), RunOptions::new().base_every(base_every));
        let input = || {
            Numbers::update()
                .floats(floats.to_vec())
                .small(vec![f32::NAN, -0.0, f32::MIN_POSITIVE])
                .unsigned(vec![u64::MAX, (1 << 53) + 1])
                .signed(vec![i64::MIN, -1])
                .keyed([(-5, vec![0, 255, 128])].into_iter().collect())
        };
        runner
            .run(&thread("t"), Command::start(input()))
            .await
            .unwrap();
        let state = runner.state(&thread("t")).await.unwrap();
        let bits: Vec<_> = state.floats.iter().map(|float| float.to_bits()).collect();
        assert_eq!(bits, floats.map(f64::to_bits));
        assert_eq!(
            state
                .small
                .iter()
                .map(|float| float.to_bits())
                .collect::<Vec<_>>(),
            [f32::NAN, -0.0, f32::MIN_POSITIVE].map(f32::to_bits)
        );
        assert_eq!(
            (&state.unsigned[..], &state.signed[..]),
            (&[u64::MAX, (1 << 53) + 1][..], &[i64::MIN, -1][..])
        );
        assert_eq!(state.keyed[&-5], [0, 255, 128]);
        // Wider numbers round-trip or are refused, never changed; a refused input leaves no trace.
        for wide in [i128::MIN, i128::MAX, 5] {
            let t = thread(&format!("wide {wide}"));
            match runner
                .run(&t, Command::start(input().wide(Some(wide))))
                .await
            {
                Ok(_) => assert_eq!(runner.state(&t).await.unwrap().wide, Some(wide)),
                Err(RunError::Encode { field, .. }) => {
                    assert_eq!(field, "wide");
                    assert!(matches!(
                        runner.state(&t).await,
                        Err(RunError::NotFound { .. })
                    ));
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
}

/// C52: a node's value that cannot be stored stops the superstep, and its siblings keep theirs.
#[tokio::test(start_paused = true)]
async fn a_value_that_cannot_be_stored_costs_its_siblings_nothing() {
    /// Reads back as something else.
    #[derive(Clone, Debug, PartialEq)]
    struct Forgetful(u64);
    impl serde::Serialize for Forgetful {
        fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            match self.0 {
                13 => Err(serde::ser::Error::custom("13 cannot be written")),
                n => to.serialize_u64(n),
            }
        }
    }
    impl<'de> serde::Deserialize<'de> for Forgetful {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let n = u64::deserialize(from)?;
            Ok(Self(if n == 14 { 0 } else { n }))
        }
    }
    #[derive(Clone, Debug, Default, State)]
    struct Odd {
        value: Option<Forgetful>,
        #[reduce(milepost::Append)]
        seen: Vec<u64>,
    }
    for bad in [13, 14] {
        for siblings in [1, 4] {
            let (place, t, calls) = (
                Place::memory(),
                thread("t"),
                crate::support::Calls::default(),
            );
            let mut g = Graph::<Odd>::builder("odd");
            let w = crate::support::fed(
                calls.clone(),
                async |calls: crate::support::Calls, item: u64, _: Snapshot<Odd>, _: Context| {
                    let tried = calls.hit(&format!("w{item}"));
                    let update = Odd::update().seen(vec![item]);
                    Ok(if tried == 1 && item > 10 {
                        update.value(Some(Forgetful(item)))
                    } else {
                        update
                    })
                },
            );
            let w = g.worker("w", w);
            g.start(w.each(move |_| (1..siblings).chain([bad]).collect()));
            g.edge(w, End);
            let runner = place.runner(g.build().unwrap(), RunOptions::new());
            let error = runner
                .run(&t, Command::start(Odd::update()))
                .await
                .unwrap_err();
            let RunError::Encode { field, origin, .. } = &error else {
                panic!("{error}")
            };
            assert_eq!(
                (&**field, &**origin),
                ("value", &*format!("task 1:w[{}]", siblings - 1))
            );
            assert_eq!(runner.state(&t).await.unwrap().seen.len(), 0);
            let report = runner.run(&t, Command::go_on()).await.unwrap();
            assert_eq!(
                report.state.seen,
                (1..siblings).chain([bad]).collect::<Vec<_>>()
            );
            for item in 1..siblings {
                assert_eq!(calls.of(&format!("w{item}")), 1);
            }
            assert_eq!(calls.of(&format!("w{bad}")), 2);
        }
    }
}
