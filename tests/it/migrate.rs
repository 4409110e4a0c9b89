//! A state of another version: lifted from the old one, as a whole, or told (C53); and what a stored
//! frontier does not fit any more (S050).

use milepost::store::Record;
use milepost::{
    Add, Append, Command, Context, End, Ended, Graph, GraphChange, GraphPart, NodeError, Problem,
    RunError, RunOptions, Seq, Snapshot, State, history,
};
use serde::{Deserialize, Serialize};

use crate::support::{DOORS, Place, drive, thread};

/// The first release: money in one text, notes, a kind.
#[derive(Clone, Debug, Default, PartialEq, State)]
struct OrderV1 {
    #[reduce(Append)]
    notes: Vec<String>,
    price: String,
    #[reduce(Add)]
    parts: u64,
    kind: KindV1,
    fails: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
enum KindV1 {
    #[default]
    Plain,
    Named(String),
}

/// The second one: another type, another name, another reducer, a renamed variant.
#[derive(Clone, Debug, Default, PartialEq, State)]
#[state(version = 2, migrate = from_v1)]
struct OrderV2 {
    #[reduce(Append)]
    lines: Vec<(u64, String)>,
    cents: u64,
    parts: u64,
    kind: Kind,
    fails: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
enum Kind {
    #[default]
    Plain,
    Titled(String),
}

fn from_v1(old: OrderV1) -> Result<OrderV2, NodeError> {
    let OrderV1 {
        notes,
        price,
        parts,
        kind,
        fails,
    } = old;
    let cents = match price.strip_suffix(" EUR") {
        Some(euros) => euros.parse::<u64>()? * 100,
        None if price == "panic" => panic!("no such price"),
        None => return Err(NodeError::invalid(format!("no price: {price:?}"))),
    };
    Ok(OrderV2 {
        lines: (1..).zip(notes).collect(),
        cents,
        parts,
        kind: match kind {
            KindV1::Plain => Kind::Plain,
            KindV1::Named(name) => Kind::Titled(name),
        },
        fails,
    })
}

/// The third one.
#[derive(Clone, Debug, Default, PartialEq, State)]
#[state(version = 3, migrate = from_v2)]
struct OrderV3 {
    #[reduce(Append)]
    lines: Vec<(u64, String)>,
    #[required]
    cents: u64,
    shipped: Option<bool>,
    fails: bool,
}

fn from_v2(old: OrderV2) -> Result<OrderV3, String> {
    Ok(OrderV3 {
        lines: old.lines,
        cents: old.cents + 1,
        shipped: None,
        fails: old.fails,
    })
}

/// Two nodes at once, then one more; the first fails while `fails` is set. Each notes its name.
macro_rules! graph {
    ($state:ty, $note:expr) => {{
        let note: fn(&$state, &str) -> <$state as State>::Update = $note;
        let mut g = Graph::<$state>::builder("order");
        let says = |name: &'static str, fails: bool| {
            move |order: Snapshot<$state>, _: Context| async move {
                // The sibling is done first.
                if fails {
                    tokio::task::yield_now().await;
                }
                match fails && order.fails {
                    true => Err(NodeError::permanent("not yet")),
                    false => Ok(note(&order, name)),
                }
            }
        };
        let first = g.node("first", says("first", true));
        let second = g.node("second", says("second", false));
        let last = g.node("last", says("last", false));
        g.start(first.and(second));
        g.edge(first, last);
        g.edge(second, last);
        g.edge(last, End);
        g.build().unwrap()
    }};
}

fn v1() -> Graph<OrderV1> {
    graph!(OrderV1, |_, name| OrderV1::update()
        .notes(vec![name.to_owned()])
        .parts(1))
}

fn v2() -> Graph<OrderV2> {
    graph!(OrderV2, |order, name| OrderV2::update()
        .lines(vec![(order.lines.len() as u64 + 1, name.to_owned())]))
}

fn v3() -> Graph<OrderV3> {
    graph!(OrderV3, |order, name| OrderV3::update()
        .lines(vec![(order.lines.len() as u64 + 1, name.to_owned())]))
}

/// How the first release leaves its thread.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    /// All done.
    Finished,
    /// Before its last node.
    Between,
    /// Inside its first superstep, with the result of one task.
    Inside,
}

/// Writes the thread as the first release, and gives the state that it leaves.
async fn written(place: &Place, left: Left, price: &str, base_every: u32) -> OrderV1 {
    let mut options = RunOptions::new().base_every(base_every);
    if left == Left::Between {
        options = options.step_limit(1);
    }
    let runner = place.runner(v1(), options);
    let input = OrderV1::update()
        .price(price.to_owned())
        .notes(vec!["in".to_owned()])
        .kind(KindV1::Named("x".to_owned()))
        .fails(left == Left::Inside);
    let ended = runner.run(&thread("t"), Command::start(input)).await;
    assert_eq!(ended.is_err(), left == Left::Inside);
    OrderV1::clone(&*runner.state(&thread("t")).await.unwrap())
}

/// C53: a thread of an old version is lifted, wherever its newest base lies, and goes on with the
/// new one through every door; the next boundary writes the new schema and a base. Until then, the
/// old program can still open it.
#[tokio::test(start_paused = true)]
async fn an_old_thread_is_lifted_and_goes_on() {
    for (left, base_every) in [
        (Left::Finished, 64),
        (Left::Finished, 1),
        (Left::Between, 64),
        (Left::Between, 1),
    ] {
        for door in DOORS {
            for place in [Place::memory(), Place::sled()] {
                let t = thread("t");
                let old = written(&place, left, "7 EUR", base_every).await;
                let runner = place.runner(v2(), RunOptions::new());
                let lifted = runner.state(&t).await.unwrap();
                assert_eq!(*lifted, from_v1(old.clone()).unwrap());
                assert_eq!(lifted.kind, Kind::Titled("x".to_owned()));
                drop(runner);
                // Nothing was written by looking.
                let runner = place.runner(v1(), RunOptions::new());
                assert_eq!(*runner.state(&t).await.unwrap(), old);
                drop(runner);

                let runner = place.runner(v2(), RunOptions::new());
                let command = match left {
                    Left::Finished => Command::start(OrderV2::update()),
                    _ => Command::go_on(),
                };
                let (ended, state) = drive(door, &runner, &t, command).await.unwrap();
                assert_eq!(ended, Ended::Finished);
                assert_eq!((state.cents, state.parts), (700, lifted.parts));
                assert_eq!(state.lines[..lifted.lines.len()], lifted.lines);
                assert_eq!(state.lines.last().unwrap().1, "last");
                assert_eq!(*runner.state(&t).await.unwrap(), *state);
                drop(runner);
                let store = place.open().unwrap();
                let head = store.head(&t).await.unwrap().unwrap();
                let first = store.records(&t, head.schema, 3).await.unwrap();
                assert!(matches!(&*first[0].record, Record::Schema(schema) if schema.version == 2));
                assert!(matches!(*first[2].record, Record::Base(_)));

                // What the old version wrote stays readable, and is told as it was.
                let runner = milepost::Runner::new(v2()).shared_store(store.clone());
                let all = history(&*store, &t).await.unwrap();
                for checkpoint in &all {
                    let state = runner.state_at(&t, checkpoint.seq).await.unwrap();
                    assert_eq!(state.cents, 700, "{left:?} {}", checkpoint.seq);
                }
                let input = runner.state_at(&t, Seq::new(2)).await.unwrap();
                assert_eq!(input.lines, [(1, "in".to_owned())]);
                // What was meant for the old version cannot be merged again by the new one.
                let report = runner.replay(&t).await.unwrap();
                assert_eq!(report.differences, []);
                assert!(report.older > 0);
                assert_eq!(report.older + report.checkpoints + 1, all.len() as u64);
                // The old program knows nothing of the new version.
                let runner = milepost::Runner::new(v1()).shared_store(store);
                let error = runner.state(&t).await.unwrap_err();
                assert!(
                    error.to_string().contains("version 2")
                        && error.to_string().contains("version 1"),
                    "{error}"
                );
            }
        }
    }
}

/// C53: a lift leads over the versions between, and over those that are read as they are.
#[tokio::test(start_paused = true)]
async fn lifts_are_chained() {
    let (place, t) = (Place::memory(), thread("t"));
    written(&place, Left::Between, "7 EUR", 64).await;
    let runner = place.runner(v3(), RunOptions::new());
    assert_eq!(runner.graph().view().versions, [3, 2, 1]);
    assert_eq!(runner.state(&t).await.unwrap().cents, 701);
    // The second release goes on with it; then there is one lift less.
    let second = place.runner(v2(), RunOptions::new());
    second.run(&t, Command::go_on()).await.unwrap();
    let report = runner
        .run(&t, Command::start(OrderV3::update().shipped(Some(true))))
        .await
        .unwrap();
    assert_eq!(
        (report.state.cents, report.state.shipped),
        (701, Some(true))
    );
    assert_eq!(report.state.lines.len(), 1 + 3 + 3);
    // Old checkpoints of both.
    for seq in [2, report.seq.unwrap().get()] {
        let state = runner.state_at(&t, Seq::new(seq)).await.unwrap();
        assert_eq!(state.cents, 701);
    }
}

/// C53: a lift that refuses or panics is a typed error, and the thread is as it was.
#[tokio::test(start_paused = true)]
async fn a_lift_that_fails_touches_nothing() {
    for (price, why) in [("dear", "no price: \"dear\""), ("panic", "no such price")] {
        let (place, t) = (Place::memory(), thread("t"));
        let old = written(&place, Left::Between, price, 64).await;
        let runner = place.runner(v2(), RunOptions::new());
        let commands = [
            Command::go_on(),
            Command::start(OrderV2::update()).abandon(),
        ];
        for command in commands {
            let error = runner.run(&t, command).await.unwrap_err();
            assert!(
                matches!(&error, RunError::Migrate { from: 1, to: 2, .. }),
                "{error}"
            );
            assert!(error.to_string().contains(why), "{error}");
        }
        let runner = place.runner(v1(), RunOptions::new());
        assert_eq!(*runner.state(&t).await.unwrap(), old);
        runner.run(&t, Command::go_on()).await.unwrap();
    }
}

/// Results that an old version recorded for an open superstep are meant for its reducers: nothing
/// goes on over them by mistake. They are merged by the old program, or given up by a fork.
#[tokio::test(start_paused = true)]
async fn open_results_of_an_old_version_are_never_lost_by_mistake() {
    let (place, t) = (Place::memory(), thread("t"));
    let old = written(&place, Left::Inside, "7 EUR", 64).await;
    let runner = place.runner(v2(), RunOptions::new());
    let commands = [
        Command::go_on(),
        Command::start(OrderV2::update()).abandon(),
    ];
    for command in commands {
        let error = runner.run(&t, command).await.unwrap_err();
        let RunError::OlderOutcomes {
            at,
            task,
            stored: 1,
            program: 2,
            ..
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!((at.get(), &*task.to_string()), (2, "1:second[0]"));
    }
    assert_eq!(*runner.state(&t).await.unwrap(), from_v1(old).unwrap());
    let head = runner.state_at(&t, Seq::new(2)).await.unwrap();
    assert_eq!(head.lines.len(), 1);
    // A fork at the head has the tasks run again.
    let copy = thread("copy");
    let store = place.open().unwrap();
    store.copy_thread(&t, &copy).await.unwrap();
    runner.fork(&copy, Seq::new(2)).await.unwrap();
    let anew = Command::start(OrderV2::update().fails(false)).abandon();
    let report = runner.run(&copy, anew).await.unwrap();
    let names: Vec<_> = report.state.lines.iter().map(|(_, name)| &**name).collect();
    assert_eq!(names, ["in", "first", "second", "last"]);
    // The old program can do what it could.
    let first = place.runner(v1(), RunOptions::new());
    let anew = Command::start(OrderV1::update().fails(false)).abandon();
    let report = first.run(&t, anew).await.unwrap();
    assert_eq!(
        report.state.notes,
        ["in", "second", "first", "second", "last"]
    );
}

/// A lift from a version that does not come before its own is refused where a graph is built.
#[test]
fn a_lift_leads_forwards() {
    #[derive(Clone, Default, State)]
    #[state(version = 2, migrate = back)]
    struct Late {
        n: u64,
    }
    #[derive(Clone, Default, State)]
    #[state(version = 2)]
    struct Same {
        n: u64,
    }
    fn back(old: Same) -> Result<Late, NodeError> {
        Ok(Late { n: old.n })
    }
    let mut g = Graph::<Late>::builder("late");
    let a = g.node("a", async |late: Snapshot<Late>, _: Context| {
        Ok(Late::update().n(late.n))
    });
    g.start(a);
    g.edge(a, End);
    let error = g.build().unwrap_err();
    assert!(matches!(
        error.problems[..],
        [Problem::Lift {
            own: 2,
            older: 2,
            ..
        }]
    ));
}

mod renamed {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq, State)]
    pub(super) struct Before {
        #[reduce(Append)]
        pub(super) list: Vec<String>,
        pub(super) n: u64,
        #[reduce(Longest)]
        pub(super) best: String,
        pub(super) stop: bool,
    }

    #[derive(Clone, Debug, Default, PartialEq, State)]
    pub(super) struct After {
        #[reduce(Append)]
        #[field(alias = lines, alias = list)]
        pub(super) entries: Vec<String>,
        #[required]
        #[field(alias = n)]
        pub(super) number: u64,
        #[reduce(Longest)]
        #[field(alias = best)]
        pub(super) longest: String,
        pub(super) stop: bool,
    }

    /// Both names, as fields of their own.
    #[derive(Clone, Debug, Default, PartialEq, State)]
    pub(super) struct Between {
        #[reduce(Append)]
        pub(super) list: Vec<String>,
        #[reduce(Append)]
        pub(super) entries: Vec<String>,
        pub(super) n: u64,
        #[reduce(Longest)]
        pub(super) best: String,
        pub(super) stop: bool,
    }

    /// Keeps the longest text; its results are stored by value.
    pub(super) struct Longest;

    impl milepost::Reducer<String> for Longest {
        type Update = String;
        fn reduce(
            value: &mut String,
            updates: milepost::Updates<String>,
        ) -> Result<(), milepost::ReduceFault> {
            for update in updates {
                if update.len() > value.len() {
                    *value = update;
                }
            }
            Ok(())
        }
    }
}

macro_rules! two_nodes {
    ($state:ty, $update:expr) => {{
        let update: fn() -> <$state as State>::Update = $update;
        let mut g = Graph::<$state>::builder("renamed");
        let a = g.node("a", move |state: Snapshot<$state>, _: Context| async move {
            tokio::task::yield_now().await;
            match state.stop {
                true => Err(NodeError::permanent("not yet")),
                false => Ok(<$state>::update()),
            }
        });
        let b = g.node("b", move |_: Snapshot<$state>, _: Context| async move {
            Ok(update())
        });
        g.start(a.and(b));
        g.edge(a, End);
        g.edge(b, End);
        g.build().unwrap()
    }};
}

/// A renamed field is found under its old name: in bases and their segments, in inputs and
/// outcomes, in values, in what is recorded of an open superstep, and in exports.
#[tokio::test(start_paused = true)]
async fn a_renamed_field_is_found_under_its_old_name() {
    use renamed::{After, Before, Between};
    let before = || {
        two_nodes!(Before, || Before::update()
            .list(vec!["b".to_owned()])
            .best("longer".to_owned()))
    };
    let after = || {
        two_nodes!(After, || After::update()
            .entries(vec!["b".to_owned()])
            .longest("longest of all".to_owned()))
    };
    let big = "x".repeat(100_000);
    for (base_every, stop) in [(64, false), (1, false), (64, true), (1, true)] {
        let (place, t) = (Place::memory(), thread("t"));
        let first = place.runner(before(), RunOptions::new().base_every(base_every));
        let input = Before::update()
            .list(vec![big.clone()])
            .n(7)
            .best("short".to_owned())
            .stop(stop);
        let ended = first.run(&t, Command::start(input)).await;
        assert_eq!(ended.is_err(), stop);
        let next = place.runner(after(), RunOptions::new());
        let state = next.state(&t).await.unwrap();
        let done = usize::from(!stop);
        assert_eq!((state.number, state.entries.len()), (7, 1 + done));
        assert_eq!(state.longest, ["short", "longer"][done]);
        // What is open goes on with what was recorded under the old names.
        let anew = Command::start(After::update().stop(false)).abandon();
        let report = next.run(&t, anew).await.unwrap();
        assert_eq!((report.state.number, report.state.entries.len()), (7, 3));
        assert_eq!(report.state.longest, "longest of all");
        assert_eq!(*next.state(&t).await.unwrap(), *report.state);
        let store = place.open().unwrap();
        for checkpoint in history(&*store, &t).await.unwrap() {
            let state = next.state_at(&t, checkpoint.seq).await.unwrap();
            assert_eq!(state.number, 7);
        }
        assert_eq!(next.replay(&t).await.unwrap().differences, []);
        // The records move to another store as they are.
        let elsewhere = Place::memory();
        let (from, to) = (store, elsewhere.open().unwrap());
        let archive = milepost::store::ThreadArchive::read(&*from, &t)
            .await
            .unwrap();
        to.restore(archive.unwrap()).await.unwrap();
        let there = elsewhere.runner(after(), RunOptions::new());
        assert_eq!(*there.state(&t).await.unwrap(), *report.state);
        assert_eq!(
            there.state_at(&t, Seq::new(2)).await.unwrap().entries,
            [&*big]
        );
    }
    // One name for two stored fields would lose one of them.
    let (place, t) = (Place::memory(), thread("t"));
    let both = two_nodes!(Between, Between::update);
    let between = place.runner(both, RunOptions::new());
    between
        .run(&t, Command::start(Between::update()))
        .await
        .unwrap();
    let next = place.runner(after(), RunOptions::new());
    let error = next.state(&t).await.unwrap_err();
    assert!(
        matches!(&error, RunError::SchemaMismatch { field, stored, .. }
            if field == "entries" && stored == "both \"list\" and \"entries\""),
        "{error}"
    );
}

#[derive(Clone, Debug, Default, State)]
struct Work {
    #[reduce(Append)]
    done: Vec<u64>,
}

/// Payloads of one release, and of the next, whose bytes would decode.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Job {
    id: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct LargerJob {
    id: u64,
    #[serde(default)]
    urgent: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct NamedJob {
    id: u64,
    name: String,
}

macro_rules! workers {
    ($payload:ty, $last:expr, $make:expr) => {{
        let make: fn(u64) -> $payload = $make;
        let mut g = Graph::<Work>::builder("work");
        let plan = g.node("plan", async |_: Snapshot<Work>, _: Context| {
            Ok(Work::update())
        });
        let work = g.worker(
            "work",
            async |job: $payload, _: Snapshot<Work>, _: Context| {
                Ok(Work::update().done(vec![job.id]))
            },
        );
        g.start(plan);
        g.edge(plan, work.each(move |_| vec![make(1), make(2)]));
        let last: Option<&str> = $last;
        match last {
            Some(name) => {
                let last = g.node(name, async |_: Snapshot<Work>, _: Context| {
                    Ok(Work::update())
                });
                g.edge(work, last);
                g.edge(last, End);
            }
            None => g.edge(work, End),
        }
        g.build().unwrap()
    }};
}

/// S050: a payload of another shape is told with both shapes, though its bytes would decode.
#[tokio::test(start_paused = true)]
async fn a_payload_of_another_shape_is_told_before_it_is_decoded() {
    let (place, t) = (Place::memory(), thread("t"));
    let small = || workers!(Job, None, |id| Job { id });
    let large = workers!(LargerJob, None, |id| LargerJob { id, urgent: true });
    let first = place.runner(small(), RunOptions::new().step_limit(1));
    first.run(&t, Command::start(Work::update())).await.unwrap();
    let next = place.runner(large.clone(), RunOptions::new());
    let error = next.run(&t, Command::go_on()).await.unwrap_err();
    let RunError::SchemaMismatch {
        field,
        stored,
        program,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(field, "work");
    assert_eq!(stored, "a worker of struct{id: u64}");
    assert_eq!(program, "a worker of struct{id: u64, urgent: bool}");
    assert!(next.replay(&t).await.is_err());
    // The old one still can; then nothing of another shape is stored.
    let first = place.runner(small(), RunOptions::new());
    let report = first.run(&t, Command::go_on()).await.unwrap();
    assert_eq!(report.state.done, [1, 2]);
    let report = next.run(&t, Command::start(Work::update())).await.unwrap();
    assert_eq!(report.state.done, [1, 2, 1, 2]);
}

/// S050: a pinned run goes on with the graph that wrote it, and with no other, and says what
/// differs; one that is not pinned goes on.
#[tokio::test(start_paused = true)]
async fn a_pinned_run_goes_on_with_the_graph_that_wrote_it() {
    let graph = |last: &'static str| workers!(Job, Some(last), |id| Job { id });
    let (place, t) = (Place::memory(), thread("t"));
    let first = place.runner(graph("last"), RunOptions::new().step_limit(1));
    first.run(&t, Command::start(Work::update())).await.unwrap();
    let renamed = place.runner(graph("end"), RunOptions::new().pin());
    let commands: [fn() -> Command<Work>; 2] =
        [Command::go_on, || Command::start(Work::update()).abandon()];
    for command in commands {
        for door in DOORS {
            let error = drive(door, &renamed, &t, command()).await.unwrap_err();
            let RunError::GraphVersionMismatch {
                stored,
                program,
                changes,
                ..
            } = &error
            else {
                panic!("{error}")
            };
            assert_eq!(*stored, first.graph().fingerprint());
            assert_eq!(*program, renamed.graph().fingerprint());
            let part = GraphPart::Node;
            assert_eq!(
                *changes,
                [
                    GraphChange::Dropped {
                        part,
                        name: "last".to_owned()
                    },
                    GraphChange::Added {
                        part,
                        name: "end".to_owned()
                    },
                ]
            );
            assert!(
                error
                    .to_string()
                    .ends_with("\n- node \"last\" is gone\n- node \"end\" is new"),
                "{error}"
            );
        }
    }
    let same = place.runner(graph("last"), RunOptions::new().pin().step_limit(1));
    same.run(&t, Command::go_on()).await.unwrap();
    // What is to run next is not there under its new name.
    let error = renamed.run(&t, Command::go_on()).await.unwrap_err();
    assert_eq!(error.class(), "graph_version_mismatch");
    let unpinned = place.runner(graph("end"), RunOptions::new());
    let error = unpinned.run(&t, Command::go_on()).await.unwrap_err();
    assert_eq!(error.class(), "unknown_node");
    same.run(&t, Command::go_on()).await.unwrap();
    // A finished thread has nothing that has to go on with the old one.
    let report = renamed
        .run(&t, Command::start(Work::update()))
        .await
        .unwrap();
    assert_eq!(report.state.done, [1, 2, 1, 2]);
}

/// What is changed inside of parts, and what only leads elsewhere.
#[tokio::test(start_paused = true)]
async fn what_differs_is_listed_part_by_part() {
    let changes = async |old: Graph<Work>, new: Graph<Work>| {
        let (place, t) = (Place::memory(), thread("t"));
        let first = place.runner(old, RunOptions::new().step_limit(1));
        first.run(&t, Command::start(Work::update())).await.unwrap();
        let next = place.runner(new, RunOptions::new().pin());
        match next.run(&t, Command::go_on()).await {
            Err(RunError::GraphVersionMismatch { changes, .. }) => {
                changes.iter().map(ToString::to_string).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    };
    let small = || workers!(Job, None, |id| Job { id });
    assert_eq!(
        changes(
            small(),
            workers!(NamedJob, None, |id| NamedJob {
                id,
                name: String::new()
            })
        )
        .await,
        [
            "node \"work\" was a function node, a worker of struct{id: u64}, and is a function node, a worker of struct{id: u64, name: str}"
        ]
    );
    let led = |to_end: bool| {
        let mut g = Graph::<Work>::builder("work");
        let node = async |_: Snapshot<Work>, _: Context| Ok(Work::update());
        let (a, b) = (g.node("a", node), g.node("b", node));
        g.start(a.and(b));
        match to_end {
            true => g.edge(a, End),
            false => g.edge(a, b),
        }
        g.edge(b, End);
        g.build().unwrap()
    };
    assert_eq!(
        changes(led(false), led(true)).await,
        ["the edges lead elsewhere, or a graph inside is another one"]
    );
    let joined = |quorum: bool| {
        let mut g = Graph::<Work>::builder("work");
        let node = async |_: Snapshot<Work>, _: Context| Ok(Work::update());
        let (a, b, c) = (g.node("a", node), g.node("b", node), g.node("c", node));
        g.start(a.and(b));
        match quorum {
            true => g.join([a, b], c).at_least(1),
            false => g.join([a, b], c),
        };
        g.edge(c, End);
        g.build().unwrap()
    };
    let joins = changes(joined(false), joined(true)).await;
    assert!(
        joins[0].starts_with("join \"join c\" was all of 2"),
        "{joins:?}"
    );
}

/// S050: a join that was reached at the start and is gone is told, in words of both sides.
#[tokio::test(start_paused = true)]
async fn a_join_that_was_reached_and_is_gone_is_told() {
    let graph = |joins: bool| {
        let mut g = Graph::<Work>::builder("work");
        let wait = g.node("wait", async |work: Snapshot<Work>, _: Context| match work
            .done
            .is_empty()
        {
            true => Err(NodeError::permanent("not yet")),
            false => Ok(Work::update()),
        });
        let work = g.worker("work", async |_: u64, _: Snapshot<Work>, _: Context| {
            Ok(Work::update())
        });
        let last = g.node("last", async |_: Snapshot<Work>, _: Context| {
            Ok(Work::update())
        });
        // Nothing to do: the worker's way out is taken at once.
        g.start(wait.and(work.each(|_: &Work| Vec::<u64>::new())));
        match joins {
            true => {
                g.join((wait, work), last);
            }
            false => {
                g.edge(wait, last);
                g.edge(work, last);
            }
        }
        g.edge(last, End);
        g.build().unwrap()
    };
    let (place, t) = (Place::memory(), thread("t"));
    let first = place.runner(graph(true), RunOptions::new());
    let failed = first.run(&t, Command::start(Work::update())).await;
    assert!(matches!(failed, Err(RunError::Node { .. })));
    let next = place.runner(graph(false), RunOptions::new());
    let error = next.run(&t, Command::go_on()).await.unwrap_err();
    let RunError::SchemaMismatch {
        field,
        stored,
        program,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (&**field, &**stored, &**program),
        ("join last", "a join that was reached", "no such join")
    );
}

/// A part that serde skips is gone after a reload: what would lose one is refused, with a store, and
/// the value without it is not.
#[tokio::test(start_paused = true)]
async fn a_value_that_would_lose_a_part_is_refused() {
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Login {
        name: String,
        #[serde(skip)]
        secret: String,
    }
    /// Not to be compared: nobody can tell.
    #[derive(Clone, Debug, Default, Serialize, Deserialize)]
    struct Opaque {
        #[serde(skip)]
        #[expect(dead_code, reason = "nobody reads what is not there")]
        secret: String,
    }
    #[derive(Clone, Debug, Default, State)]
    struct Desk {
        login: Login,
        #[reduce(Append)]
        all: Vec<Login>,
        opaque: Opaque,
        ratio: f64,
    }
    let login = |secret: &str| Login {
        name: "ada".to_owned(),
        secret: secret.to_owned(),
    };
    let lost = [
        Desk::update().login(login("x")),
        Desk::update().all(vec![login("")]).all(vec![login("x")]),
        Desk::update().overwrite(Desk::LOGIN, login("x")),
    ];
    let kept = [
        Desk::update()
            .login(login(""))
            .all(vec![login("")])
            .ratio(f64::NAN),
        Desk::update().clear(Desk::LOGIN).opaque(Opaque {
            secret: "x".to_owned(),
        }),
    ];
    let mut g = Graph::<Desk>::builder("desk");
    let a = g.node(
        "a",
        async |_: Snapshot<Desk>, _: Context| Ok(Desk::update()),
    );
    g.start(a);
    g.edge(a, End);
    let graph = g.build().unwrap();
    let place = Place::memory();
    let runner = place.runner(graph.clone(), RunOptions::new());
    for update in lost {
        let error = runner
            .run(&thread("lost"), Command::start(update))
            .await
            .unwrap_err();
        assert!(
            matches!(&error, RunError::Encode { field, .. } if field == "login" || field == "all"),
            "{error}"
        );
        assert!(error.to_string().contains("serde(skip)"), "{error}");
    }
    for (number, update) in kept.into_iter().enumerate() {
        let t = thread(&format!("kept {number}"));
        runner.run(&t, Command::start(update)).await.unwrap();
    }
    // Without a store, nothing is reloaded.
    let nowhere = Place::Nowhere.runner(graph, RunOptions::new());
    let start = Command::start(Desk::update().login(login("x")));
    let report = nowhere.run(&thread("t"), start).await.unwrap();
    assert_eq!(report.state.login.secret, "x");
}
