//! Sample records: one of every kind, with every case of every enum in them somewhere.

use super::super::contract::Head;
use super::super::record::{
    AnswerRecord, BaseField, BaseRecord, BaseValue, BegunRecord, BranchRecord, CommitRecord,
    CompensationRecord, DiscardedRecord, FailedTask, FieldRecord, InnerRecord, InputRecord,
    JoinRecord, NodeRecord, OutcomeRecord, OutcomeRef, QuestionRecord, Record, SchemaRecord,
    SegmentRef, StartedRecord, Status, StepRecord, StoppedRecord, StoredAttempt, StoredBase,
    StoredChange, StoredEdge, StoredError, StoredJoin, StoredTask, StoredValue, TimerRecord,
};
use crate::ids::{Branch, Epoch, NodeName, Seq, Step, TaskPath};

/// One record of every kind, the reserved ones included, in the order of their numbers.
///
/// They never change: the golden bytes of the stored format are made from them.
pub fn one_of_each() -> Vec<Record> {
    vec![
        Record::Schema(schema()),
        Record::Input(input()),
        Record::Started(StartedRecord {
            step: 3,
            takeover: 2,
            at_ms: 1_700_000_000_003,
        }),
        Record::Outcome(outcome("study", 7)),
        Record::Commit(commit()),
        Record::Base(base()),
        Record::Stopped(stopped()),
        Record::Step(StepRecord {
            task: "3:pay[0]".into(),
            key: "charge".into(),
            type_name: "shop::Receipt".into(),
            shape: "()".into(),
            value: vec![0xc0],
        }),
        Record::Question(QuestionRecord {
            task: "3:pay[0]".into(),
            key: "approve".into(),
            type_name: "shop::Approve".into(),
            answer: "bool".into(),
            value: vec![0x81, 0xa1, b'n', 7],
            expires_ms: Some(1_700_000_900_000),
            default: Some(vec![0xc2]),
        }),
        Record::Answer(AnswerRecord {
            question: 9,
            value: vec![0xc3],
            at_ms: 1_700_000_000_010,
        }),
        Record::Timer(TimerRecord {
            task: "3:wait[0]".into(),
            key: "remind".into(),
            due_ms: 1_700_000_060_000,
        }),
        Record::Compensation(CompensationRecord {
            task: "3:pay[0]".into(),
            undo: "refund".into(),
            value: vec![0x92, 1, 2],
        }),
        Record::Inner(inner()),
        Record::Branch(BranchRecord {
            branch: 1,
            parent: 0,
            at: 5,
        }),
        Record::Begun(BegunRecord {
            task: "3:pay[0]".into(),
            at_ms: 1_700_000_000_015,
        }),
        Record::Discarded(DiscardedRecord {
            step: 3,
            outcomes: vec![4],
            at_ms: 1_700_000_000_016,
        }),
    ]
}

/// The head that goes with [`one_of_each`]; it never changes either.
pub fn sample_head() -> Head {
    Head {
        graph: "agent".into(),
        fingerprint: [7; 16],
        run: "run-1".into(),
        branch: Branch::new(0),
        seq: Seq::new(5),
        step: 3,
        base: Seq::new(6),
        schema: Seq::new(1),
        status: Status::Failed,
        created_ms: 1_700_000_000_000,
        updated_ms: 1_700_000_000_014,
    }
}

/// A record of the log of a subgraph: the answer to a question of its own.
fn inner() -> InnerRecord {
    let team = NodeName::new("team").expect("a node may have this name");
    let answer = Record::Answer(AnswerRecord {
        question: 3,
        value: vec![0xc3],
        at_ms: 1_700_000_000_011,
    });
    let team = TaskPath::new(Step::new(3), team, 0);
    InnerRecord::of(&team, Seq::new(4), Epoch::new(2), &answer)
        .expect("a record of a few bytes fits into a frame")
}

pub(super) fn schema() -> SchemaRecord {
    SchemaRecord {
        graph: "agent".into(),
        fingerprint: [7; 16],
        state: "Desk".into(),
        version: 1,
        fields: vec![FieldRecord {
            name: "notes".into(),
            shape: "seq<string>".into(),
            codec: 1,
            reducer: "append".into(),
            reducer_version: 1,
            required: true,
        }],
        nodes: vec![NodeRecord {
            name: "study".into(),
            kind: "function".into(),
            exits: vec!["Done".into(), "More".into()],
            payload: Some("str".into()),
            answer: None,
        }],
        joins: vec![JoinRecord {
            name: "write".into(),
            members: vec!["study".into()],
            rule: "all".into(),
        }],
    }
}

fn input() -> InputRecord {
    InputRecord {
        run: "run-1".into(),
        at_ms: 1_700_000_000_000,
        step: 0,
        closed: vec![2, 3],
        settled: vec![change(StoredBase::Clear)],
        update: vec![
            change(StoredBase::Keep),
            change(StoredBase::Overwrite(vec![0x90])),
        ],
        values: vec![StoredValue {
            field: "score".into(),
            codec: 2,
            bytes: vec![0, 0, 0x80, 0x3f],
        }],
        edges: vec![edge()].into(),
        frontier: vec![task()].into(),
        status: Status::Running,
    }
}

pub(super) fn outcome(node: &str, index: u32) -> OutcomeRecord {
    OutcomeRecord {
        step: 3,
        node: node.into(),
        index,
        exit: Some("done".into()),
        tolerated: false,
        changes: vec![change(StoredBase::Keep)].into(),
        attempts: vec![
            StoredAttempt {
                started_ms: 1_700_000_000_001,
                micros: 1_500,
                error: Some(error()),
                cached: false,
            },
            StoredAttempt {
                started_ms: 1_700_000_000_002,
                micros: 900,
                error: None,
                cached: true,
            },
        ]
        .into(),
        caught: Some(error()),
    }
}

fn commit() -> CommitRecord {
    CommitRecord {
        step: 3,
        at_ms: 1_700_000_000_004,
        outcomes: vec![
            OutcomeRef::At(4),
            OutcomeRef::Inline(OutcomeRecord {
                exit: None,
                tolerated: true,
                caught: None,
                ..outcome("plan", 0)
            }),
        ]
        .into(),
        values: Vec::new(),
        edges: vec![edge()].into(),
        frontier: vec![task()].into(),
        joins: vec![StoredJoin {
            node: "merge".into(),
            arrived: vec!["a".into(), "b".into()],
            entry: 1,
        }],
        timers: vec![11],
        status: Status::Finished,
    }
}

fn base() -> BaseRecord {
    BaseRecord {
        at: 5,
        fields: vec![
            BaseField {
                field: "score".into(),
                codec: 2,
                value: BaseValue::Whole(vec![1, 2]),
            },
            BaseField {
                field: "notes".into(),
                codec: 1,
                value: BaseValue::Items {
                    sealed: vec![SegmentRef {
                        id: [9; 16],
                        items: 3,
                        bytes: 12,
                    }],
                    tail: vec![0xa1, b'x'],
                    tail_items: 1,
                },
            },
        ],
    }
}

fn stopped() -> StoppedRecord {
    StoppedRecord {
        step: 4,
        at_ms: 1_700_000_000_005,
        status: Status::Failed,
        error: Some(error()),
        failed: vec![FailedTask {
            node: "study".into(),
            index: 1,
            attempts: Vec::new(),
        }],
    }
}

fn change(base: StoredBase) -> StoredChange {
    StoredChange {
        field: "notes".into(),
        codec: 1,
        base,
        merges: vec![vec![0xa2, b'h', b'i'], Vec::new()].into(),
    }
}

fn task() -> StoredTask {
    StoredTask {
        node: "study".into(),
        index: 7,
        from: "plan".into(),
        by: "more".into(),
        payload: Some(vec![0x01]),
    }
}

fn edge() -> StoredEdge {
    StoredEdge {
        from: "plan".into(),
        label: "more".into(),
        to: "study".into(),
        tasks: 8,
    }
}

fn error() -> StoredError {
    StoredError {
        class: "transient".into(),
        message: "the line is busy".into(),
    }
}
