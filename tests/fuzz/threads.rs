//! What stands inside of sound records: values of fields, updates, payloads, questions, answers,
//! schemas, paths, seqs. A thread of them is put into a store, and everything is asked of it.
//!
//! The store takes only what holds together, so much is refused at its door; the rest is read by the
//! engine, which knows the types.

use std::sync::Arc;

use milepost::store::{
    CheckpointStore, ExportLine, MemoryStore, RecordLine, StoreError, ThreadArchive, check,
};
use milepost::{
    Add, Answers, Append, Ask, Command, Context, End, Exits, Graph, NodeError, Output, RunError,
    RunOptions, Runner, Snapshot, State, ThreadId, agenda, events, history, questions,
};
use serde::{Deserialize, Serialize};

use crate::corpus::{keep, of, play};

#[derive(Clone, Debug, Default, PartialEq, State)]
struct Work {
    #[reduce(Append)]
    log: Vec<String>,
    #[reduce(Add)]
    sum: u64,
    pair: (i32, Option<String>),
    kind: Kind,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
enum Kind {
    #[default]
    Plain,
    Wide {
        x: f64,
        y: Vec<u8>,
    },
}

#[derive(Clone, Copy, Exits)]
enum Next {
    Again,
    Enough,
}

#[derive(Serialize, Deserialize)]
struct How {
    much: u64,
}

impl Ask for How {
    type Answer = u64;
}

/// A loop of workers with a question, a durable step and a graph inside.
fn graph() -> Graph<Work> {
    let mut g = Graph::builder("fuzz");
    let plan = g.node("plan", async |_: Snapshot<Work>, cx: Context| {
        let two = cx.step("two", async { Ok(2u64) }).await?;
        Ok::<_, NodeError>(Work::update().sum(two).pair((1, Some("one".to_owned()))))
    });
    let work = g.worker(
        "work",
        async |item: (u64, String), _: Snapshot<Work>, cx: Context| {
            if item.0 == 1 {
                return Ok::<_, NodeError>(match cx.answer::<How>("how")? {
                    Some(much) => Output::Done(Work::update().sum(much), ()),
                    None => Output::ask("how", How { much: 3 }),
                });
            }
            let wide = Kind::Wide {
                x: 0.5,
                y: vec![1, 2, 3],
            };
            let update = Work::update().log(vec![item.1.repeat(900)]);
            Ok(Output::Done(
                match item.0 {
                    0 => update.kind(wide),
                    _ => update,
                },
                (),
            ))
        },
    );
    let last = g.node("last", async |work: Snapshot<Work>, _: Context| {
        let next = match work.sum < 8 {
            true => Next::Again,
            false => Next::Enough,
        };
        Ok::<_, NodeError>((Work::update().sum(1), next))
    });
    g.start(plan);
    let each = |_: &Work| (0..3).map(|n| (n, format!("item {n}"))).collect();
    g.edge(plan, work.each(each));
    g.edge(work, last);
    g.wire(last, |next| match next {
        Next::Again => plan.into(),
        Next::Enough => End.into(),
    });
    g.build().unwrap()
}

fn runner(store: &Arc<MemoryStore>) -> Runner<Work> {
    Runner::new(graph())
        .options(RunOptions::new().base_every(2).step_limit(20))
        .shared_store(Arc::clone(store) as _)
}

fn thread() -> ThreadId {
    ThreadId::new("fuzz").unwrap()
}

/// A thread that was answered once and waits again.
async fn archive() -> ThreadArchive {
    let store = Arc::new(MemoryStore::new());
    let runner = runner(&store);
    runner
        .run(&thread(), Command::start(Work::update()))
        .await
        .unwrap();
    let open = questions(&*store, &thread()).await.unwrap();
    let answers = Answers::to(open[0].id.clone(), &1u64);
    runner
        .run(&thread(), Command::answer(answers))
        .await
        .unwrap();
    ThreadArchive::read(&*store, &thread())
        .await
        .unwrap()
        .unwrap()
}

/// The lines of an archive, one record or segment each, as JSON.
fn lines(archive: &ThreadArchive) -> Vec<Vec<u8>> {
    ExportLine::of(archive)
        .map(|line| serde_json::to_vec(&line).unwrap())
        .collect()
}

/// Whatever is asked of a thread is answered or refused.
async fn ask_everything(archive: ThreadArchive) {
    let store = Arc::new(MemoryStore::new());
    match store.restore(archive).await {
        Ok(()) => {}
        Err(StoreError::Unsound { .. } | StoreError::Refused { .. }) => return,
        Err(error) => panic!("{error}"),
    }
    let names = store.thread_names().await.unwrap();
    let Some(Ok(t)) = names.into_iter().next() else {
        return;
    };
    let _ = check(&*store, &t).await;
    let runner = runner(&store);
    let told: [Result<(), RunError>; 6] = [
        runner.state(&t).await.map(drop),
        history(&*store, &t)
            .await
            .map(drop)
            .map_err(RunError::Store),
        events(&*store, &t).await.map(drop).map_err(RunError::Store),
        questions(&*store, &t)
            .await
            .map(drop)
            .map_err(RunError::from),
        agenda(&*store, std::time::SystemTime::now())
            .await
            .map(drop)
            .map_err(RunError::from),
        runner.run(&t, Command::go_on()).await.map(drop),
    ];
    for error in told.into_iter().filter_map(Result::err) {
        assert!(!error.to_string().is_empty());
        assert!(error.class() != "panicked", "{error}");
    }
    for at in history(&*store, &t).await.unwrap_or_default() {
        let _ = runner
            .state_at(&t, at.seq)
            .await
            .map_err(|error| error.to_string());
    }
}

/// A new runtime each: what one case spawns must not outlive it.
fn block_on(what: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(what);
}

#[test]
fn threads_of_changed_records() {
    let sound = {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.unwrap().block_on(archive())
    };
    if std::env::var_os("MILEPOST_BLESS").is_some() {
        let inputs: Vec<_> = lines(&sound)
            .into_iter()
            .enumerate()
            .map(|(number, line)| (format!("{number:02}.json"), line))
            .collect();
        keep("thread", &inputs);
    }
    // As it was when it was kept: a thread of an older program is read as any.
    let kept: Vec<ExportLine> = of("thread")
        .iter()
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let whole = |changed: Option<ExportLine>, instead: usize| -> Option<ThreadArchive> {
        let mut archive: Option<ThreadArchive> = None;
        for (number, line) in kept.iter().enumerate() {
            let line = match &changed {
                Some(changed) if number == instead => changed.clone(),
                _ => line.clone(),
            };
            match (line, archive.as_mut()) {
                (ExportLine::Thread(thread), None) => archive = Some(thread.begin()),
                (ExportLine::Record(record), Some(archive)) => {
                    archive.records.push(RecordLine::into(record));
                }
                (ExportLine::Segment(segment), Some(archive)) => {
                    archive.segments.push((segment.id, segment.bytes.into()));
                }
                _ => return None,
            }
        }
        archive
    };
    block_on(ask_everything(whole(None, 0).unwrap()));
    let texts = of("thread");
    play("thread", 4_000, |bytes| {
        // Values are base64 inside of JSON: few changes of the text survive that, so values are
        // changed below; here, names, numbers and shapes are.
        let Ok(line) = serde_json::from_slice::<ExportLine>(bytes) else {
            return;
        };
        let nearest = texts
            .iter()
            .position(|text| text.starts_with(&bytes[..bytes.len().min(30)]))
            .unwrap_or(1);
        if let Some(archive) = whole(Some(line), nearest) {
            block_on(ask_everything(archive));
        }
    });
    values(&kept, &whole);
}

/// Changes the values inside of the records: what is MessagePack there.
fn values(kept: &[ExportLine], whole: &dyn Fn(Option<ExportLine>, usize) -> Option<ThreadArchive>) {
    let values: Vec<serde_json::Value> = kept
        .iter()
        .map(|line| serde_json::to_value(line).unwrap())
        .collect();
    // Every text that is base64 of something, by the line it is in and its place there.
    let mut all = Vec::new();
    for (number, value) in values.iter().enumerate() {
        let mut place = Vec::new();
        texts(value, &mut place, &mut |place, bytes| {
            all.push((number, place.to_vec(), bytes));
        });
    }
    let inputs: Vec<_> = all
        .iter()
        .enumerate()
        .map(|(number, (_, _, bytes))| (format!("{number:03}"), bytes.clone()))
        .collect();
    if std::env::var_os("MILEPOST_BLESS").is_some() {
        keep("value", &inputs);
    }
    let mut turn = 0usize;
    play("value", 3_000, |bytes| {
        turn += 1;
        let (number, place, _) = &all[turn % all.len()];
        let mut value = values[*number].clone();
        let mut at = &mut value;
        for step in place {
            at = match step {
                Step::Name(name) => &mut at[name.as_str()],
                Step::Number(number) => &mut at[*number],
            };
        }
        *at = base64(bytes).into();
        let line: ExportLine = serde_json::from_value(value).unwrap();
        if let Some(archive) = whole(Some(line), *number) {
            block_on(ask_everything(archive));
        }
    });
}

#[derive(Clone, Debug)]
enum Step {
    Name(String),
    Number(usize),
}

/// The fields that hold bytes, by the words of `docs/format.md`.
const BYTES: &[&str] = &[
    "bytes",
    "merges",
    "overwrite",
    "payload",
    "value",
    "whole",
    "tail",
    "default",
];

fn texts(
    value: &serde_json::Value,
    place: &mut Vec<Step>,
    told: &mut impl FnMut(&[Step], Vec<u8>),
) {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                place.push(Step::Name(name.clone()));
                texts(field, place, told);
                place.pop();
            }
        }
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                place.push(Step::Number(number));
                texts(item, place, told);
                place.pop();
            }
        }
        Value::String(text) => {
            let name = place.iter().rev().find_map(|step| match step {
                Step::Name(name) => Some(name.as_str()),
                Step::Number(_) => None,
            });
            // The shape of a payload is a text, too, and no base64.
            let bytes = unbase64(text).filter(|_| name.is_some_and(|name| BYTES.contains(&name)));
            if let Some(bytes) = bytes {
                told(place, bytes);
            }
        }
        _ => {}
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for digit in 0..4 {
            match digit <= chunk.len() {
                true => text.push(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63].into()),
                false => text.push('='),
            }
        }
    }
    text
}

fn unbase64(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| DIGITS.iter().position(|digit| *digit == byte);
    let digits = text.trim_end_matches('=').bytes();
    let digits: Option<Vec<u32>> = digits.map(|byte| Some(digit(byte)? as u32)).collect();
    let digits = digits.filter(|_| text.len().is_multiple_of(4))?;
    let mut bytes = Vec::new();
    for chunk in digits.chunks(4) {
        let bits = (0..4).fold(0, |bits, at| {
            bits << 6 | chunk.get(at).copied().unwrap_or(0)
        });
        bytes.extend_from_slice(&(bits << 8).to_be_bytes()[..chunk.len() - 1]);
    }
    Some(bytes)
}

#[test]
fn base64_goes_both_ways() {
    for len in 0..20u8 {
        let bytes: Vec<u8> = (0..len).map(|byte| byte.wrapping_mul(37)).collect();
        assert_eq!(unbase64(&base64(&bytes)), Some(bytes));
    }
}
