//! Real questions to a real manual: PostgreSQL's.
use std::path::PathBuf;

use milepost::agent::Extractive;

use super::research;
use crate::graphs::research::{Library, Limits};

const QUESTIONS: &[(&str, &str, &str)] = &[
    ("What is the default TCP port the server listens on?", "runtime-config-connection.html", "5432 by default"),
    ("What is the default value of max_connections?", "runtime-config-connection.html", "typically 100 connections"),
    ("What is the default of shared_buffers?", "runtime-config-resource.html", "128 megabytes"),
    ("What is the default of work_mem?", "runtime-config-resource.html", "four megabytes"),
    ("Which wal_level is needed for logical replication?", "logical-replication-config.html", "wal_level must be set to logical"),
    ("What is the default transaction isolation level?", "transaction-iso.html", "Read Committed is the default isolation level"),
    ("What is the maximum length of an identifier in bytes?", "sql-syntax-lexical.html", "63 bytes"),
    ("What kind of lock does VACUUM FULL take on the table?", "routine-vacuuming.html", "ACCESS EXCLUSIVE"),
    ("What is the default of autovacuum_naptime?", "runtime-config-autovacuum.html", "one minute"),
    ("What does pg_dump write with the custom format (-Fc)?", "app-pgdump.html", "custom"),
    ("What is the upper limit of the field size?", "limits.html", "1 GB"),
    ("Which index type does CREATE INDEX create by default?", "indexes-types.html", "B-tree"),
    ("What does the RETURNING clause of an INSERT return?", "sql-insert.html", "RETURNING"),
    ("What is the upper limit of columns per table?", "limits.html", "1,600"),
    ("What is the default block size?", "runtime-config-preset.html", "8192 bytes"),
    ("What is the default value of checkpoint_timeout?", "runtime-config-wal.html", "five minutes"),
    ("How many bits does a UUID have?", "datatype-uuid.html", "128-bit"),
    ("What is the default of random_page_cost?", "runtime-config-query.html", "4.0"),
    ("Which file controls client authentication?", "auth-pg-hba-conf.html", "pg_hba.conf"),
    ("How many bytes does the bigint type need?", "datatype-numeric.html", "8 bytes"),
];

/// Written after the ranking was tuned and never used to tune it.
const UNSEEN: &[(&str, &str, &str)] = &[
    ("What is the default of maintenance_work_mem?", "runtime-config-resource.html", "64 megabytes"),
    ("What does the fsync parameter do?", "runtime-config-wal.html", "physically written to disk"),
    ("How long does deadlock_timeout wait by default?", "runtime-config-locks.html", "one second"),
    ("What is TOAST?", "storage-toast.html", "Oversized-Attribute Storage Technique"),
    ("What does the createdb program do?", "app-createdb.html", "creates a new PostgreSQL database"),
    ("How many bytes does the integer type need?", "datatype-numeric.html", "4 bytes"),
    ("What is the default of effective_cache_size?", "runtime-config-query.html", "4 gigabytes"),
    ("Which lock mode does SELECT FOR UPDATE conflict with?", "explicit-locking.html", "FOR UPDATE"),
    ("What is a partial index?", "indexes-partial.html", "built over a subset of a table"),
    ("What happens when a trigger function returns NULL in a row-level BEFORE trigger?", "trigger-definition.html", "skip the operation"),
    ("What does EXPLAIN ANALYZE do?", "using-explain.html", "actually executes the query"),
    ("What is the default of statement_timeout?", "runtime-config-client.html", "disables the timeout"),
    ("What does pg_basebackup do?", "app-pgbasebackup.html", "base backup"),
    ("What is the default of log_min_messages?", "runtime-config-logging.html", "WARNING"),
    ("What are dead tuples reclaimed by?", "sql-vacuum.html", "reclaims storage occupied by dead tuples"),
    ("How do I reload the configuration without restarting the server?", "config-setting.html", "SIGHUP"),
];

fn folder() -> PathBuf {
    std::env::var_os("MILEPOST_PG_DOCS")
        .map_or_else(|| "/usr/share/doc/postgresql-doc-15/html".into(), PathBuf::from)
}

#[tokio::test]
async fn probe() {
    let folder = folder();
    let start = std::time::Instant::now();
    let library = Library::open(&folder, &Limits::default()).unwrap();
    println!("open {:?}, {} docs {} passages {} skipped", start.elapsed(), library.documents().len(), library.index().passages(), library.skipped().len());
    for s in library.skipped().iter().take(10) { println!("{s:?}"); }
    let mut right = 0; let mut first = 0;
    for (q, page, words) in QUESTIONS.iter().chain(UNSEEN) {
        let start = std::time::Instant::now();
        let (state, found) = research(q, &folder, &library, &Extractive, "").await;
        let top: Vec<_> = found[0].iter().take(3).collect();
        let at = top.iter().position(|f| f.id == *page && f.quote.contains(words));
        right += at.is_some() as u32; first += (at == Some(0)) as u32;
        println!("\n{} {q} {:?} cov {:.2} rounds {} notes {} faults {:?}", if at.is_some() {"OK"} else {"--"}, start.elapsed(), state.coverage.as_ref().unwrap().score, state.rounds, state.notes.len(), state.citation_faults);
        if at != Some(0) {
            println!("   cands {:?}", state.candidates.iter().map(|c| (&*c.id, (c.score*100.0) as u32)).collect::<Vec<_>>());
            for f in &top { println!("   {:.3} {} | {} | {}", f.score, f.id, f.heading.join(" > "), f.quote); }
            for f in found[0].iter().skip(3).filter(|f| f.id == *page) { println!("      .. {:.3} {} | {} | {}", f.score, f.id, f.heading.join(" > "), f.quote); }
        }
    }
    println!("right {right} first {first} of {}", QUESTIONS.len() + UNSEEN.len());
}
