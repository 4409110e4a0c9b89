//! Whole threads on their way from one store to another, and what is said of one that is damaged.

use std::sync::Arc;

use milepost::store::conformance::{one_of_each, sample_head};
use milepost::store::{
    BaseField, BaseRecord, BaseValue, CheckpointStore, CommitRecord, ExportLine, Head, InputRecord,
    MemoryStore, OutcomeRecord, OutcomeRef, Record, RunRow, SegmentRef, Severity, Spot, Status,
    StoppedRecord, StoredBase, StoredChange, StoredError, Take, ThreadArchive, ThreadKey, Write,
    check, encode_record, encode_row, segment_id,
};
use milepost::{Branch, RunId, Seq, ThreadId};
use proptest::prelude::*;

use super::store_logs::thread;

/// Something that happens to a thread.
#[derive(Debug, Clone)]
enum Act {
    Commit(String, Vec<u8>),
    Fan(u8, Vec<u8>),
    /// A commit with a base that has these segments.
    Base(Vec<Vec<u8>>),
    Input(String),
    Stop(String),
    OtherWriter,
    Prune,
}

fn text() -> impl Strategy<Value = String> {
    let chars = prop_oneof![any::<char>(), prop::char::range('\0', '"')];
    prop::collection::vec(chars, 0..9).prop_map(String::from_iter)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        (any::<u8>(), 4_000..9_000_usize).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (text(), bytes()).prop_map(|(field, bytes)| Act::Commit(field, bytes)),
        2 => (1..4_u8, bytes()).prop_map(|(tasks, bytes)| Act::Fan(tasks, bytes)),
        2 => prop::collection::vec(bytes(), 0..3).prop_map(Act::Base),
        1 => text().prop_map(Act::Input),
        1 => text().prop_map(Act::Stop),
        1 => Just(Act::OtherWriter),
        1 => Just(Act::Prune),
    ]
}

/// Writes a thread as a driver does.
struct Driver<'d> {
    store: &'d MemoryStore,
    thread: ThreadId,
    epoch: milepost::Epoch,
    next: u64,
    head: Option<Head>,
    runs: u64,
}

impl<'d> Driver<'d> {
    async fn begin(store: &'d MemoryStore, thread: &ThreadId) -> Self {
        let claim = store.claim(thread, Take::IfFree).await.unwrap();
        let mut driver = Self {
            store,
            thread: thread.clone(),
            epoch: claim.epoch,
            next: 1,
            head: None,
            runs: 0,
        };
        driver.input("first").await;
        driver
    }

    async fn act(&mut self, act: Act) {
        let step = self.head.as_ref().unwrap().step + 1;
        match act {
            Act::Commit(field, bytes) => {
                let outcome = OutcomeRef::Inline(outcome(step, &field, bytes));
                self.write(vec![commit(step, vec![outcome])], vec![]).await;
            }
            Act::Fan(tasks, bytes) => {
                let first = self.next;
                for _ in 0..tasks {
                    let outcome = Record::Outcome(outcome(step, "notes", bytes.clone()));
                    self.write(vec![outcome], vec![]).await;
                }
                let all = (first..self.next).map(OutcomeRef::At).collect();
                self.write(vec![commit(step, all)], vec![]).await;
            }
            Act::Base(segments) => {
                let base = base(self.next, &segments);
                self.write(vec![commit(step, vec![]), base], segments).await;
            }
            Act::Input(name) => self.input(&name).await,
            Act::Stop(message) => {
                let stopped = Record::Stopped(StoppedRecord {
                    step,
                    at_ms: u64::MAX,
                    status: Status::Failed,
                    error: Some(StoredError {
                        class: "transient".to_owned(),
                        message,
                    }),
                    failed: Vec::new(),
                });
                self.write(vec![stopped], vec![]).await;
            }
            Act::OtherWriter => {
                let claim = self.store.claim(&self.thread, Take::Replace).await;
                self.epoch = claim.unwrap().epoch;
            }
            Act::Prune => {
                self.store.release(&self.thread, self.epoch);
                self.store.prune(&self.thread).await.unwrap();
                let claim = self.store.claim(&self.thread, Take::IfFree).await;
                self.epoch = claim.unwrap().epoch;
            }
        }
    }

    async fn input(&mut self, name: &str) {
        self.runs += 1;
        let mut records = Vec::new();
        if self.head.is_none() {
            records.push(one_of_each().swap_remove(0));
        }
        records.push(Record::Input(InputRecord {
            run: format!("{name}{}", self.runs),
            at_ms: 0,
            step: self.head.as_ref().map_or(0, |head| head.step),
            closed: Vec::new(),
            settled: Vec::new(),
            update: Vec::new(),
            values: Vec::new(),
            edges: Vec::new().into(),
            frontier: Vec::new().into(),
            status: Status::Running,
        }));
        if self.head.is_none() {
            records.push(base(2, &[]));
        }
        self.write(records, vec![]).await;
    }

    async fn write(&mut self, records: Vec<Record>, segments: Vec<Vec<u8>>) {
        let mut head = self.head.clone().unwrap_or_else(sample_head);
        let mut run = None;
        for (record, seq) in records.iter().zip(self.next..) {
            let seq = Seq::new(seq);
            match record {
                Record::Input(input) => {
                    (head.seq, head.step, head.run) = (seq, input.step, input.run.as_str().into());
                    let row = RunRow {
                        input: seq,
                        end: None,
                        status: Status::Running,
                    };
                    run = Some((RunId::new(&input.run).unwrap(), row));
                }
                Record::Commit(commit) => (head.seq, head.step) = (seq, commit.step),
                Record::Base(_) => head.base = seq,
                _ => {}
            }
        }
        let count = records.len() as u64;
        let write = Write {
            fulfils: None,
            thread: self.thread.clone(),
            epoch: self.epoch,
            branch: Branch::new(0),
            expected: self.head.as_ref().map(|head| head.seq).unwrap_or_default(),
            first: Seq::new(self.next),
            records,
            segments: segments
                .into_iter()
                .map(|bytes| (segment_id(&bytes), bytes))
                .collect(),
            head: head.clone(),
            run,
        };
        self.store.append(write).await.unwrap();
        self.next += count;
        self.head = Some(head);
    }
}

fn outcome(step: u64, field: &str, bytes: Vec<u8>) -> OutcomeRecord {
    OutcomeRecord {
        step,
        node: field.into(),
        index: 0,
        exit: None,
        tolerated: false,
        changes: vec![StoredChange {
            field: field.into(),
            codec: 1,
            base: StoredBase::Overwrite(bytes.clone()),
            merges: vec![bytes, Vec::new()].into(),
        }]
        .into(),
        attempts: Vec::new().into(),
        caught: None,
    }
}

fn commit(step: u64, outcomes: Vec<OutcomeRef>) -> Record {
    Record::Commit(CommitRecord {
        step,
        at_ms: 0,
        outcomes: outcomes.into(),
        values: Vec::new(),
        edges: Vec::new().into(),
        frontier: Vec::new().into(),
        joins: Vec::new(),
        timers: Vec::new(),
        status: Status::Running,
    })
}

fn base(at: u64, segments: &[Vec<u8>]) -> Record {
    let sealed = segments.iter().map(|bytes| SegmentRef {
        id: segment_id(bytes),
        items: 1,
        bytes: bytes.len() as u32,
    });
    Record::Base(BaseRecord {
        at,
        fields: vec![BaseField {
            field: "notes".to_owned(),
            codec: 1,
            value: BaseValue::Items {
                sealed: sealed.collect(),
                tail: Vec::new(),
                tail_items: 0,
            },
        }],
    })
}

async fn lived(acts: Vec<Act>) -> ThreadArchive {
    let store = MemoryStore::new();
    let id = thread("lived");
    let mut driver = Driver::begin(&store, &id).await;
    for act in acts {
        driver.act(act).await;
    }
    ThreadArchive::read(&store, &id).await.unwrap().unwrap()
}

/// Puts an archive into lines of JSON and makes one of them again.
fn through_lines(archive: &ThreadArchive) -> ThreadArchive {
    let mut read: Option<ThreadArchive> = None;
    for line in ExportLine::of(archive) {
        let text = serde_json::to_string(&line).unwrap();
        assert!(!text.contains('\n'), "{text}");
        let again: ExportLine = serde_json::from_str(&text).unwrap();
        assert_eq!(again, line);
        match (again, &mut read) {
            (ExportLine::Thread(thread), None) => read = Some(thread.begin()),
            (ExportLine::Record(record), Some(read)) => read.records.push(record.into()),
            (ExportLine::Segment(segment), Some(read)) => {
                read.segments.push((segment.id, segment.bytes.into()));
            }
            (line, _) => panic!("{line:?}"),
        }
    }
    read.unwrap()
}

fn frames(archive: &ThreadArchive) -> Vec<Vec<u8>> {
    let key = ThreadKey::of(&archive.thread);
    let frame = |stored: &milepost::store::Stored| {
        encode_record(key, stored.seq, stored.branch, stored.epoch, &stored.record).unwrap()
    };
    archive.records.iter().map(frame).collect()
}

proptest! {
    #[test]
    fn any_thread_goes_through_lines_and_stores_and_stays_the_same(
        acts in prop::collection::vec(act(), 0..24)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let archive = lived(acts).await;
            archive.check().unwrap();
            let read = through_lines(&archive);
            assert_eq!(read, archive);
            assert_eq!(frames(&read), frames(&archive));
            let store = MemoryStore::new();
            store.restore(read).await.unwrap();
            let again = ThreadArchive::read(&store, &archive.thread).await.unwrap();
            assert_eq!(again.unwrap(), archive);
            let checked = check(&store, &archive.thread).await;
            let worst = checked.findings.iter().map(|finding| finding.severity).max();
            assert!(worst <= Some(Severity::Note), "{:?}", checked.findings);
        });
    }
}

#[test]
fn every_record_kind_has_its_line() {
    let kept = include_str!("../data/lines.jsonl");
    let lines: Vec<_> = kept.lines().collect();
    assert_eq!(lines.len(), 16, "a line that is there never changes");
    for (line, (record, seq)) in lines.iter().zip(one_of_each().into_iter().zip(1..)) {
        let read: ExportLine = serde_json::from_str(line).unwrap();
        let ExportLine::Record(read) = read else {
            panic!("{line}");
        };
        assert_eq!((read.seq, &read.body), (Seq::new(seq), &record));
        let written = serde_json::to_string(&ExportLine::Record(read)).unwrap();
        assert_eq!(&written, line);
    }
}

#[test]
fn what_a_line_does_not_know_is_refused() {
    for wrong in [
        r#"{"segment":{"id":"00112233445566778899aabbccddeeff","bytes":"AA=="},"more":1}"#,
        r#"{"segment":{"id":"00112233445566778899aabbccddeeff","bytes":"AA==","more":1}}"#,
        r#"{"segment":{"id":"00112233445566778899AABBCCDDEEFF","bytes":"AA=="}}"#,
        r#"{"segment":{"id":"+0112233445566778899aabbccddeeff","bytes":"AA=="}}"#,
        r#"{"segment":{"id":"11","bytes":"AA=="}}"#,
        r#"{"segment":{"id":"00112233445566778899aabbccddeeff","bytes":"AB=="}}"#,
        r#"{"segment":{"id":"00112233445566778899aabbccddeeff","bytes":[0]}}"#,
        r#"{"nosuch":{}}"#,
    ] {
        assert!(
            serde_json::from_str::<ExportLine>(wrong).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn names_and_hashes_in_rows_are_the_same_bytes_as_ever() {
    // The helpers that write hashes as text for people write arrays for frames.
    let id = segment_id(b"x");
    let row = SegmentRef {
        id,
        items: 0,
        bytes: 0,
    };
    let key = ThreadKey::of(&thread("golden"));
    let header = milepost::store::FrameHeader::row(milepost::store::FrameKind::Run);
    let frame = encode_row(key, header, &row).unwrap();
    assert_eq!(frame[48..64], id);
}

/// Threads whose findings are known.
#[tokio::test]
async fn what_is_odd_or_wasted_is_told_and_is_no_error() {
    let store = MemoryStore::new();
    let id = thread("odd");
    let mut driver = Driver::begin(&store, &id).await;
    for act in [
        Act::Base(vec![b"old".to_vec()]),
        Act::Commit("notes".to_owned(), vec![1]),
        Act::Base(vec![b"new".to_vec()]),
    ] {
        driver.act(act).await;
    }
    // A segment that no base refers to, and a superstep that was left out.
    driver
        .write(vec![commit(9, vec![])], vec![b"lost".to_vec()])
        .await;
    let checked = check(&store, &id).await;
    assert!(checked.is_sound());
    assert_eq!((checked.records, checked.segments), (9, 3));
    let told: Vec<_> = checked
        .findings
        .iter()
        .map(|found| (found.severity, found.place.clone(), found.what.as_str()))
        .collect();
    let record = Spot::Record(Seq::new(9));
    assert_eq!(
        told,
        [
            (
                Severity::Warning,
                record,
                "it stands at superstep 9, the position before at 3"
            ),
            (
                Severity::Note,
                Spot::Thread,
                "1 segments of 4 bytes are not referred to by any record"
            ),
            (
                Severity::Note,
                Spot::Thread,
                "4 records are of older checkpoints only"
            ),
        ]
    );
    let unknown = check(&store, &thread("unknown")).await;
    assert_eq!((unknown.head, unknown.findings.len()), (None, 0));
}

#[cfg(feature = "sled")]
mod on_disk {
    use std::fs;
    use std::path::Path;

    use milepost::store::{Finding, SledStore};

    use super::*;

    /// An archive with every class of rows, some of several rows.
    async fn sample(name: &str) -> ThreadArchive {
        let long = vec![7; 9_000];
        let archive = lived(vec![
            Act::Base(vec![long.clone(), b"short".to_vec()]),
            Act::Input("second".to_owned()),
            Act::OtherWriter,
            Act::Fan(2, long),
            Act::Base(vec![b"short".to_vec()]),
            Act::Commit("notes".to_owned(), vec![1]),
        ])
        .await;
        ThreadArchive {
            thread: thread(name),
            ..archive
        }
    }

    fn copy(from: &Path, to: &Path) {
        fs::create_dir(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => copy(&entry.path(), &target),
                false => drop(fs::copy(entry.path(), target).unwrap()),
            }
        }
    }

    async fn findings(store: &SledStore, name: &str) -> Vec<Finding> {
        let all = check(store, &thread(name)).await.findings;
        all.into_iter().filter(Finding::is_error).collect()
    }

    #[tokio::test]
    async fn a_damaged_row_of_any_class_is_found_and_the_other_thread_is_not_blamed() {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("whole");
        {
            let store = SledStore::open(&whole).unwrap();
            for name in ["a", "b"] {
                store.restore(sample(name).await).await.unwrap();
                assert_eq!(findings(&store, name).await, []);
            }
        }
        let rows: Vec<Vec<u8>> = {
            let db = sled::open(&whole).unwrap();
            let prefix = *ThreadKey::of(&thread("a")).as_bytes();
            let rows = db.scan_prefix(prefix).map(|row| row.unwrap().0.to_vec());
            rows.collect()
        };
        assert!(rows.len() > 25, "{} rows", rows.len());
        for (number, key) in rows.iter().enumerate() {
            let path = folder.path().join("damaged");
            copy(&whole, &path);
            {
                let db = sled::open(&path).unwrap();
                let mut row = db.get(key).unwrap().unwrap().to_vec();
                if number % 3 == 0 {
                    db.remove(key).unwrap();
                } else {
                    let place = (number * 37) % row.len();
                    row[place] ^= 1 << (number % 8);
                    db.insert(key.as_slice(), row).unwrap();
                }
                db.flush().unwrap();
            }
            let store = SledStore::open(&path).unwrap();
            let names = store.thread_names().await.unwrap();
            assert_eq!(names.len(), 2);
            assert_eq!(findings(&store, "b").await, []);
            let found = findings(&store, "a").await;
            assert!(!found.is_empty(), "row {key:?}");
            if key[16] == 3 {
                let seq = u64::from_be_bytes(key[17..25].try_into().unwrap());
                let here = Spot::Record(Seq::new(seq));
                assert_eq!(found[0].place, here, "{found:?}");
                // A record that cannot be read is the one thing that is told.
                assert_eq!(found.len(), 1, "{found:?}");
            }
            // It can be gone on without.
            store.delete_thread(&thread("a")).await.unwrap();
            store.restore(sample("a").await).await.unwrap();
            assert_eq!(findings(&store, "a").await, []);
            drop(store);
            fs::remove_dir_all(&path).unwrap();
        }
    }

    #[tokio::test]
    async fn several_damaged_records_are_all_found() {
        let folder = tempfile::tempdir().unwrap();
        {
            let store = SledStore::open(folder.path()).unwrap();
            store.restore(sample("a").await).await.unwrap();
        }
        let damaged = [2_u64, 7, 8, 11];
        {
            let db = sled::open(folder.path()).unwrap();
            for seq in damaged {
                let mut key = ThreadKey::of(&thread("a")).as_bytes().to_vec();
                key.push(3);
                key.extend_from_slice(&seq.to_be_bytes());
                key.extend_from_slice(&[0, 0]);
                let mut row = db.get(&key).unwrap().unwrap().to_vec();
                row[50] ^= 1;
                db.insert(key, row).unwrap();
            }
            db.flush().unwrap();
        }
        let store = SledStore::open(folder.path()).unwrap();
        let found = findings(&store, "a").await;
        let places: Vec<_> = found.iter().map(|found| found.place.clone()).collect();
        let expected = damaged.map(|seq| Spot::Record(Seq::new(seq)));
        assert_eq!(places, expected, "{found:?}");
        let refused = ThreadArchive::read(&store, &thread("a")).await;
        assert!(refused.is_err());
    }

    #[tokio::test]
    async fn a_large_thread_is_restored_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = SledStore::open(folder.path()).unwrap();
        let acts = (0..40_u8).map(|number| Act::Base(vec![vec![number; 300_000]]));
        let archive = lived(acts.collect()).await;
        store.restore(archive.clone()).await.unwrap();
        drop(store);
        let store = SledStore::open(folder.path()).unwrap();
        let read = ThreadArchive::read(&store, &archive.thread).await.unwrap();
        assert!(read.unwrap() == archive);
        let read = Arc::new(store);
        assert!(check(&*read, &archive.thread).await.is_sound());
    }
}
