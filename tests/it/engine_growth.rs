//! How a thread grows on disk, and what it costs to read it.

use std::path::Path;

use milepost::store::{BaseValue, CheckpointStore, MemoryStore, Record, SledStore};
use milepost::{
    Append, Command, Context, End, Graph, NodeError, RunOptions, Runner, Seq, Snapshot, State,
    history,
};

use crate::support::{Probe, thread};

/// The documented most that a load replays: the commits between two bases.
const BASE_EVERY: u64 = 64;

#[derive(Clone, Debug, Default, PartialEq, State)]
struct Chat {
    #[reduce(Append)]
    messages: Vec<String>,
    /// Written by the first turn alone.
    document: String,
    /// Written by every turn.
    turn: u64,
}

/// A text that no other number gives, of exactly so many bytes.
fn text(number: u64, bytes: usize) -> String {
    let mark = format!("<{number:014}>");
    mark.repeat(bytes / mark.len() + 1)[..bytes].to_owned()
}

fn document() -> String {
    text(7_777_777, 100 << 10)
}

async fn answer(chat: Snapshot<Chat>, _: Context) -> Result<ChatUpdate, NodeError> {
    let turn = chat.turn + 1;
    let update = Chat::update().turn(turn);
    Ok(match turn {
        1 => update.document(document()),
        _ => update,
    })
}

fn chat() -> Graph<Chat> {
    let mut g = Graph::builder("chat");
    let answer = g.node("answer", answer);
    g.start(answer);
    g.edge(answer, End);
    g.build().unwrap()
}

/// What a thread is after so many turns.
fn expected(turns: u64) -> Chat {
    Chat {
        messages: (1..=turns).map(|turn| text(turn, 1 << 10)).collect(),
        document: document(),
        turn: turns,
    }
}

async fn talk(runner: &Runner<Chat>, turns: std::ops::RangeInclusive<u64>) {
    for turn in turns {
        let input = Chat::update().messages(vec![text(turn, 1 << 10)]);
        let report = runner.run(&thread("t"), Command::start(input)).await;
        assert_eq!(report.unwrap().state.turn, turn);
    }
}

/// The bytes of a folder, and how many bytes of the document stand in its rows.
fn weigh(path: &Path) -> (u64, usize) {
    let bytes = std::fs::read_dir(path).unwrap().map(|entry| {
        let entry = entry.unwrap().metadata().unwrap();
        if entry.is_file() { entry.len() } else { 0 }
    });
    let bytes = bytes.sum();
    let mark = &document()[..16];
    let db = sled::open(path).unwrap();
    let rows = db.iter().values().map(|row| row.unwrap());
    let marks = rows.map(|row| {
        let rest = row.windows(mark.len());
        rest.filter(|at| *at == mark.as_bytes()).count()
    });
    (bytes, marks.sum::<usize>() * mark.len())
}

/// What reading a checkpoint costs in records and segments, and what it gives.
async fn read(store: &SledStore, at: Option<Seq>) -> (u64, Chat) {
    let probe = Probe::new(store.clone());
    let reader = Runner::new(chat()).store(probe.clone());
    let state = match at {
        Some(at) => reader.state_at(&thread("t"), at).await.unwrap(),
        None => reader.state(&thread("t")).await.unwrap(),
    };
    (probe.read(), (*state).clone())
}

/// C55: 200 turns of 1 KiB, then 400, and a field of 100 KiB that is written once.
#[tokio::test]
async fn a_thread_grows_with_its_turns_and_not_with_their_square() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut weights = Vec::new();
    let mut reads = Vec::new();
    for turns in [1..=200, 201..=400] {
        let last = *turns.end();
        let store = SledStore::open(&path).unwrap();
        talk(&Runner::new(chat()).store(store.clone()), turns).await;
        let (head, state) = read(&store, None).await;
        assert!(state == expected(last), "the head after {last} turns");
        let line = history(&store, &thread("t")).await.unwrap();
        let seventeen = line.iter().find(|point| point.step.get() == 17).unwrap();
        let (old, state) = read(&store, Some(seventeen.seq)).await;
        assert!(state == expected(17), "turn 17 after {last} turns");
        reads.push((head, old));
        drop(store);
        weights.push(weigh(&path));
    }
    let [(bytes_200, big_200), (bytes_400, big_400)] = weights[..] else {
        unreachable!("two rounds");
    };
    assert!(bytes_400 * 10 <= bytes_200 * 23, "{weights:?}");
    // Once as the update that it was, once for all bases; each row that it is cut into may hide a
    // mark at its end.
    let most = 2 * document().len();
    assert!(big_200 <= most && big_200 >= most / 2, "{weights:?}");
    assert_eq!(big_200, big_400, "it is not written again");
    // A base, its segments, and what lies behind it; not more for more turns, but for the one
    // segment that each 64 KiB of messages need.
    let [(head_200, old_200), (head_400, old_400)] = reads[..] else {
        unreachable!("two rounds");
    };
    assert!(head_400 <= 3 * head_200, "{reads:?}");
    for (head, turns) in [(head_200, 200), (head_400, 400)] {
        let segments = turns / 60 + 3;
        assert!(head <= 2 * BASE_EVERY + 8 + segments, "{reads:?}");
    }
    assert!(old_400 <= old_200 + 256, "{reads:?}");
}

/// C55: without a change a long value costs a reference; where it changes, only that; it may
/// become short and long again, and every state is what it was.
#[tokio::test(start_paused = true)]
async fn a_long_value_is_written_once_for_each_time_it_changes() {
    let long = |number| text(number, 100 << 10);
    let values = [
        long(1),
        long(1),
        String::new(),
        long(1),
        text(2, 4 << 10),
        text(2, 200 << 10),
        text(2, 200 << 10) + "more",
        "short".to_owned(),
    ];
    for base_every in [1, 2, 64] {
        let memory = MemoryStore::new();
        let probe = Probe::new(memory.clone());
        let mut g = Graph::builder("chat");
        let keep = g.node("keep", async |chat: Snapshot<Chat>, _: Context| {
            Ok(Chat::update().turn(chat.turn + 1))
        });
        g.start(keep);
        g.edge(keep, End);
        let graph = g.build().unwrap();
        let options = RunOptions::new().base_every(base_every);
        for value in &values {
            // A new runner knows only what the store says.
            let runner = Runner::new(graph.clone()).options(options.clone());
            let input = Chat::update().document(value.clone());
            let runner = runner.store(probe.clone());
            let report = runner
                .run(&thread("t"), Command::start(input))
                .await
                .unwrap();
            assert!(*runner.state(&thread("t")).await.unwrap() == *report.state);
        }
        let runner = Runner::new(graph).store(memory.clone());
        let line = history(&memory, &thread("t")).await.unwrap();
        assert_eq!(line.len(), 2 * values.len());
        for (point, value) in line
            .iter()
            .zip(values.iter().flat_map(|value| [value, value]))
        {
            let state = runner.state_at(&thread("t"), point.seq).await.unwrap();
            assert!(state.document == *value, "record {}", point.seq);
        }
        let mut sealed = 0;
        for write in probe.writes() {
            sealed += write
                .segments
                .iter()
                .map(|(_, bytes)| bytes.len())
                .sum::<usize>();
            for record in &write.records {
                let Record::Base(base) = record else { continue };
                for field in &base.fields {
                    let kept = match &field.value {
                        BaseValue::Whole(bytes) => bytes.len(),
                        BaseValue::Items { tail, .. } => tail.len(),
                    };
                    assert!(kept <= 4 << 10, "{} bytes of {}", kept, field.field);
                }
            }
        }
        // 100 KiB twice, because it was forgotten between; 4 KiB and its head; 200 KiB; its end.
        assert!(sealed <= (100 + 100 + 5 + 200 + 64) << 10, "{sealed}");
    }
}

/// C55, C53: a base of pieces is read where the reducer has become one that keeps items.
#[tokio::test(start_paused = true)]
async fn a_long_value_is_read_where_its_reducer_now_keeps_items() {
    mod before {
        #[derive(Clone, Debug, Default, PartialEq, milepost::State)]
        pub(super) struct List {
            pub(super) list: Vec<String>,
        }
    }
    mod after {
        #[derive(Clone, Debug, Default, PartialEq, milepost::State)]
        pub(super) struct List {
            #[reduce(milepost::Append)]
            pub(super) list: Vec<String>,
        }
    }
    macro_rules! graph {
        ($state:ty) => {{
            let mut g = Graph::builder("list");
            let node = g.node("node", async |_: Snapshot<$state>, _: Context| {
                Ok(<$state>::update())
            });
            g.start(node);
            g.edge(node, End);
            g.build().unwrap()
        }};
    }
    let memory = MemoryStore::new();
    let list: Vec<_> = (0..100).map(|number| text(number, 1 << 10)).collect();
    let first = Runner::new(graph!(before::List))
        .options(RunOptions::new().base_every(1))
        .store(memory.clone());
    let input = before::List::update().list(list.clone());
    first
        .run(&thread("t"), Command::start(input))
        .await
        .unwrap();
    let second = Runner::new(graph!(after::List)).store(memory.clone());
    assert_eq!(second.state(&thread("t")).await.unwrap().list, list);
    let input = after::List::update().list(vec!["more".to_owned()]);
    let report = second
        .run(&thread("t"), Command::start(input))
        .await
        .unwrap();
    assert_eq!(report.state.list.len(), 101);
    assert_eq!(*second.state(&thread("t")).await.unwrap(), *report.state);
}

/// C55: a prune keeps the pieces that the newest base is made of.
#[tokio::test]
async fn a_long_value_outlives_a_prune() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path().join("s")).unwrap();
    let runner = Runner::new(chat())
        .options(RunOptions::new().base_every(2))
        .store(store.clone());
    talk(&runner, 1..=9).await;
    store.prune(&thread("t")).await.unwrap();
    assert!(*runner.state(&thread("t")).await.unwrap() == expected(9));
    talk(&runner, 10..=12).await;
    store
        .copy_thread(&thread("t"), &thread("copy"))
        .await
        .unwrap();
    assert!(*runner.state(&thread("copy")).await.unwrap() == expected(12));
}
