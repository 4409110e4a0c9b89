//! Research over small folders: what is read, what is passed over, what the report says.

use std::fs;
use std::path::{Path, PathBuf};

use milepost::agent::{Extractive, ModelError, Quote, Reply, Scripted};

use super::research;
use crate::graphs::research::{Library, LibraryError, Limits, SkipReason};

fn bakery() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/docs")
}

#[test]
fn each_kind_of_document_is_read_and_the_rest_is_named_with_its_reason() {
    let library = Library::open(&bakery(), &Limits::default()).unwrap();
    let ids: Vec<_> = library.documents().iter().map(|d| d.id.as_str()).collect();
    assert_eq!(ids, ["flour.html", "guide/ovens.md", "hours.txt"]);
    let skipped: Vec<_> = library
        .skipped()
        .iter()
        .map(|skip| (skip.path.as_str(), skip.reason.clone()))
        .collect();
    assert_eq!(
        skipped,
        [
            ("broken.txt", SkipReason::NotUtf8 { broken: 5 }),
            ("logo.png", SkipReason::NoDocument),
            ("photo.txt", SkipReason::Binary),
        ]
    );
}

#[test]
fn limits_hold_and_say_what_they_are() {
    let limits = Limits {
        files: 1,
        file_bytes: 500,
        ..Limits::default()
    };
    let library = Library::open(&bakery(), &limits).unwrap_err();
    assert!(
        matches!(library, LibraryError::NoDocuments { skipped: 6, .. }),
        "{library:?}"
    );
    let limits = Limits {
        files: 2,
        ..Limits::default()
    };
    let library = Library::open(&bakery(), &limits).unwrap();
    let beyond = |reason: &SkipReason| reason.to_string().contains("limits of a folder (2 files)");
    assert!(library.skipped().iter().any(|skip| beyond(&skip.reason)));
}

#[test]
fn a_folder_that_is_not_there_is_an_error_that_names_it() {
    let error = Library::open(Path::new("/no/such/folder"), &Limits::default()).unwrap_err();
    assert!(error.to_string().contains("/no/such/folder"));
}

#[cfg(unix)]
#[test]
fn links_are_passed_over_so_that_no_loop_is_walked() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "alpha").unwrap();
    std::os::unix::fs::symlink(folder.path(), folder.path().join("loop")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("out.txt")).unwrap();
    let library = Library::open(folder.path(), &Limits::default()).unwrap();
    assert_eq!(library.documents().len(), 1);
    assert!(
        library
            .skipped()
            .iter()
            .all(|skip| skip.reason == SkipReason::Link)
    );
    assert_eq!(library.skipped().len(), 2);
}

#[tokio::test]
async fn a_report_over_three_formats_answers_and_every_citation_holds() {
    let library = Library::open(&bakery(), &Limits::default()).unwrap();
    let query = "What is the default of oven_timeout, how long does rye flour keep, and when does \
                 the shop open? How many loaves has the south oven?";
    let (state, _) = research(query, &bakery(), &library, &Extractive, "").await;
    let report = state.report.unwrap();
    assert_eq!(state.citation_faults, [], "{report}");
    for (words, id) in [
        ("The default is 3 hours.", "guide/ovens.md"),
        ("keeps for six months", "flour.html"),
        ("The shop opens at 6 in the morning.", "hours.txt"),
        ("south | gas | 65", "guide/ovens.md"),
    ] {
        let short = report.split("## Findings").next().unwrap();
        let line = short.lines().find(|line| line.contains(words));
        let line = line.unwrap_or_else(|| panic!("{words} in {report}"));
        let number = line.rsplit_once('[').unwrap().1.trim_end_matches(']');
        assert!(report.contains(&format!("\n{number}. `{id}`")), "{report}");
    }
    assert!(report.contains("`photo.txt`: binary data"), "{report}");
    assert!(
        report.contains("1 files of kinds that are no documents"),
        "{report}"
    );
}

#[tokio::test]
async fn the_same_question_gives_the_same_report() {
    let library = Library::open(&bakery(), &Limits::default()).unwrap();
    let ask = || {
        research(
            "How hot are ovens and flour?",
            Path::new("."),
            &library,
            &Extractive,
            "",
        )
    };
    assert_eq!(ask().await.0.report, ask().await.0.report);
}

#[tokio::test]
async fn a_failed_document_is_tolerated_and_named_and_made_up_quotes_are_dropped() {
    let library = Library::open(&bakery(), &Limits::default()).unwrap();
    let made_up = Reply {
        quotes: vec![Quote {
            source: "0".into(),
            text: "Ovens are made of gold.".into(),
            score: 1.0,
        }],
        ..Reply::default()
    };
    let script = [
        Err(ModelError::Unavailable {
            source: "out of order".into(),
        }),
        Ok(made_up),
    ];
    let model = Scripted::new(script);
    let (state, _) = research("oven and flour", &bakery(), &library, &model, "").await;
    let report = state.report.unwrap();
    assert_eq!(state.errors.len(), 1);
    assert!(report.contains("## Failed"), "{report}");
    assert!(!report.contains("gold"), "{report}");
    assert_eq!(
        state.notes.values().map(|note| note.made_up).sum::<usize>(),
        1
    );
    assert_eq!(state.citation_faults, []);
}

#[tokio::test]
async fn a_required_source_is_read_whatever_its_rank_and_a_missing_one_is_said() {
    let library = Library::open(&bakery(), &Limits::default()).unwrap();
    let require = "./hours.txt#top, gone.md";
    let (state, _) = research("rye flour", &bakery(), &library, &Extractive, require).await;
    assert!(state.notes.contains_key("hours.txt"));
    let report = state.report.unwrap();
    assert!(
        report.contains("The required source `gone.md` could not be used"),
        "{report}"
    );
}

#[tokio::test]
async fn the_repository_documents_itself_and_can_be_asked() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    if !docs.is_dir() {
        return;
    }
    let library = Library::open(&docs, &Limits::default()).unwrap();
    let query = "What is a store, and what is a run?";
    let (state, found) = research(query, &docs, &library, &Extractive, "").await;
    assert_eq!(state.citation_faults, []);
    assert!(found.iter().any(|findings| !findings.is_empty()));
}
