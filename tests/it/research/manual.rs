//! Real questions to a real manual: PostgreSQL's, of 1,169 pages.
//!
//! Runs where the manual is: in the folder named by `MILEPOST_PG_DOCS`, or where Debian's
//! `postgresql-doc-15` puts it.

use std::path::PathBuf;
use std::sync::OnceLock;

use milepost::agent::Extractive;
use milepost::store::MemoryStore;
use milepost::{Command, Runner, ThreadId};

use super::research;
use crate::graphs::research::{Library, Limits, ResearchState, research as graph};

/// A question, the page that answers it, and words of the answer.
type Asked = (&'static str, &'static str, &'static str);

/// The questions with which the ranking was tuned: each must be answered.
const QUESTIONS: &[Asked] = &[
    (
        "What is the default TCP port the server listens on?",
        "runtime-config-connection.html",
        "5432 by default",
    ),
    (
        "What is the default value of max_connections?",
        "runtime-config-connection.html",
        "typically 100 connections",
    ),
    (
        "What is the default of shared_buffers?",
        "runtime-config-resource.html",
        "128 megabytes",
    ),
    (
        "What is the default of work_mem?",
        "runtime-config-resource.html",
        "four megabytes",
    ),
    (
        "Which wal_level is needed for logical replication?",
        "logical-replication-config.html",
        "wal_level must be set to logical",
    ),
    (
        "What is the default transaction isolation level?",
        "transaction-iso.html",
        "Read Committed is the default isolation level",
    ),
    (
        "What is the maximum length of an identifier in bytes?",
        "sql-syntax-lexical.html",
        "63 bytes",
    ),
    (
        "What kind of lock does VACUUM FULL take on the table?",
        "routine-vacuuming.html",
        "ACCESS EXCLUSIVE",
    ),
    (
        "What is the default of autovacuum_naptime?",
        "runtime-config-autovacuum.html",
        "one minute",
    ),
    (
        "What does pg_dump write with the custom format (-Fc)?",
        "app-pgdump.html",
        "custom",
    ),
    (
        "What is the upper limit of the field size?",
        "limits.html",
        "1 GB",
    ),
    (
        "Which index type does CREATE INDEX create by default?",
        "indexes-types.html",
        "B-tree",
    ),
    (
        "What does the RETURNING clause of an INSERT return?",
        "sql-insert.html",
        "RETURNING",
    ),
    (
        "What is the upper limit of columns per table?",
        "limits.html",
        "1,600",
    ),
    (
        "What is the default block size?",
        "runtime-config-preset.html",
        "8192 bytes",
    ),
    (
        "What is the default value of checkpoint_timeout?",
        "runtime-config-wal.html",
        "five minutes",
    ),
    (
        "How many bits does a UUID have?",
        "datatype-uuid.html",
        "128-bit",
    ),
    (
        "What is the default of random_page_cost?",
        "runtime-config-query.html",
        "4.0",
    ),
    (
        "Which file controls client authentication?",
        "auth-pg-hba-conf.html",
        "pg_hba.conf",
    ),
];

/// Questions that the ranking was not tuned for; page and words were fixed before the first run,
/// in which 11 of the first 16 were answered from that page. The last one was given up in tuning.
const NOT_TUNED: &[Asked] = &[
    (
        "What is the default of maintenance_work_mem?",
        "runtime-config-resource.html",
        "64 megabytes",
    ),
    (
        "What does the fsync parameter do?",
        "runtime-config-wal.html",
        "physically written to disk",
    ),
    (
        "How long does deadlock_timeout wait by default?",
        "runtime-config-locks.html",
        "one second",
    ),
    (
        "What is TOAST?",
        "storage-toast.html",
        "Oversized-Attribute Storage Technique",
    ),
    (
        "What does the createdb program do?",
        "app-createdb.html",
        "creates a new PostgreSQL database",
    ),
    (
        "How many bytes does the integer type need?",
        "datatype-numeric.html",
        "4 bytes",
    ),
    (
        "What is the default of effective_cache_size?",
        "runtime-config-query.html",
        "4 gigabytes",
    ),
    (
        "Which lock mode does SELECT FOR UPDATE conflict with?",
        "explicit-locking.html",
        "FOR UPDATE",
    ),
    (
        "What is a partial index?",
        "indexes-partial.html",
        "built over a subset of a table",
    ),
    (
        "What happens when a trigger function returns NULL in a row-level BEFORE trigger?",
        "trigger-definition.html",
        "skip the operation",
    ),
    (
        "What does EXPLAIN ANALYZE do?",
        "using-explain.html",
        "actually executes the query",
    ),
    (
        "What is the default of statement_timeout?",
        "runtime-config-client.html",
        "disables the timeout",
    ),
    (
        "What does pg_basebackup do?",
        "app-pgbasebackup.html",
        "base backup",
    ),
    (
        "What is the default of log_min_messages?",
        "runtime-config-logging.html",
        "WARNING",
    ),
    (
        "What are dead tuples reclaimed by?",
        "sql-vacuum.html",
        "reclaims storage occupied by dead tuples",
    ),
    (
        "How do I reload the configuration without restarting the server?",
        "config-setting.html",
        "SIGHUP",
    ),
    (
        "How many bytes does the bigint type need?",
        "datatype-numeric.html",
        "8 bytes",
    ),
];

/// How many of the questions not tuned for must be answered: what was reached so far.
const NOT_TUNED_ANSWERED: usize = 11;

/// The manual and its folder; `None` where it is not installed.
fn manual() -> Option<&'static (PathBuf, Library)> {
    static MANUAL: OnceLock<Option<(PathBuf, Library)>> = OnceLock::new();
    let open = || {
        let named = std::env::var_os("MILEPOST_PG_DOCS").map(PathBuf::from);
        let usual = PathBuf::from("/usr/share/doc/postgresql-doc-15/html");
        // A folder that is named must be there, the usual one may be missing.
        let folder = named.or_else(|| usual.is_dir().then_some(usual))?;
        let library = Library::open(&folder, &Limits::default()).unwrap();
        Some((folder, library))
    };
    MANUAL.get_or_init(open).as_ref()
}

/// The questions whose short answer has the words from the page, after checking all citations.
async fn answered(asked: &[Asked]) -> Option<Vec<&'static str>> {
    let (folder, library) = manual()?;
    let mut answered = Vec::new();
    for (question, page, words) in asked {
        let (state, found) = research(question, folder, library, &Extractive, "").await;
        let report = state.report.unwrap();
        assert_eq!(state.citation_faults, [], "{report}");
        for menu in ["Prev", "Next", "Home"] {
            assert!(!report.contains(&format!("“{menu}")), "{report}");
        }
        let short = found[0].iter().take(3);
        if short
            .clone()
            .any(|one| one.id == *page && one.quote.contains(words))
        {
            answered.push(*question);
        }
    }
    Some(answered)
}

#[test]
fn all_pages_of_the_manual_are_read_and_none_is_skipped() {
    let Some((_, library)) = manual() else { return };
    assert_eq!(library.documents().len(), 1_169);
    assert!(
        library
            .skipped()
            .iter()
            .all(|skip| !skip.path.ends_with(".html"))
    );
}

#[tokio::test]
async fn questions_to_the_manual_are_answered_from_the_right_page() {
    let Some(answered) = answered(QUESTIONS).await else {
        return;
    };
    let asked: Vec<_> = QUESTIONS.iter().map(|(question, ..)| *question).collect();
    assert_eq!(answered, asked);
}

#[tokio::test]
async fn questions_not_tuned_for_are_answered_no_less_than_before() {
    let Some(answered) = answered(NOT_TUNED).await else {
        return;
    };
    assert!(answered.len() >= NOT_TUNED_ANSWERED, "{answered:#?}");
}

#[tokio::test]
async fn the_graph_answers_questions_to_the_manual_as_the_plain_calls_do() {
    let Some((folder, library)) = manual() else {
        return;
    };
    let runner = Runner::new(graph().unwrap()).store(MemoryStore::new());
    for (question, ..) in &QUESTIONS[..3] {
        let input = ResearchState::update()
            .query((*question).to_owned())
            .docs(folder.display().to_string());
        let thread = ThreadId::new(question).unwrap();
        let done = runner.run(&thread, Command::start(input)).await.unwrap();
        let (by_hand, _) = research(question, folder, library, &Extractive, "").await;
        assert_eq!(done.state.report, by_hand.report);
        assert_eq!(done.state.notes, by_hand.notes);
    }
}
