//! The research graph at work: its loop, its failed members, its refused reports.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use milepost::agent::{ChatModel, Extractive, ModelError, Prompt, Reply};
use milepost::store::{CheckpointStore, MemoryStore};
use milepost::{
    Answers, Cancel, Command, Ended, EventKind, Point, Report, RunError, RunOptions, Runner,
    ThreadId, events,
};
use tempfile::TempDir;

use crate::graphs::research::{
    Desk, Missing, ResearchState, ResearchStateUpdate, Review, Verdict, research, research_with,
};

/// Questions with one word that the folder has and one that nobody has: coverage stays low.
const ASKED: &str =
    "What is alpha zonk? What is beta zork? What is gamma zurk? What is delta zark?";

/// Four subjects, five documents each; the last ones are long, and so found last.
fn subjects() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for subject in ["alpha", "beta", "gamma", "delta"] {
        for number in 0..5 {
            let filler = "Much more is said here about nothing at all.\n".repeat(number * 4);
            let text = format!("# Part {number}\n\nThe {subject} has {number} wheels.\n\n{filler}");
            fs::write(folder.path().join(format!("{subject}{number}.md")), text).unwrap();
        }
    }
    folder
}

fn ask(query: &str, docs: &Path) -> ResearchStateUpdate {
    ResearchState::update()
        .query(query.to_owned())
        .docs(docs.display().to_string())
}

fn thread() -> ThreadId {
    ThreadId::new("research").unwrap()
}

/// Fails on some documents, stops the run after some replies, and otherwise quotes.
#[derive(Default)]
struct Moody {
    fails_on: Vec<&'static str>,
    stop_after: Option<(usize, Cancel)>,
    replies: AtomicUsize,
}

#[async_trait]
impl ChatModel for Moody {
    async fn reply(&self, prompt: &Prompt) -> Result<Reply, ModelError> {
        let text = &prompt.sources[0].text;
        if self.fails_on.iter().any(|words| text.contains(words)) {
            return Err(ModelError::Unavailable {
                source: "timed out".into(),
            });
        }
        let reply = self.replies.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some((after, cancel)) = &self.stop_after
            && reply == *after
        {
            cancel.cancel();
        }
        Extractive.reply(prompt).await
    }
}

/// What ran, superstep by superstep, and every edge taken.
async fn trace(
    store: &MemoryStore,
    thread: &ThreadId,
) -> (
    Vec<String>,
    BTreeSet<(Option<String>, String, Option<String>)>,
) {
    let (mut ran, mut edges) = (Vec::new(), BTreeSet::new());
    let mut tasks: Vec<String> = Vec::new();
    for event in events(store, thread).await.unwrap() {
        match event.kind {
            EventKind::Started { next, .. } => {
                for node in next {
                    edges.insert((None, String::new(), Some(node.to_string())));
                }
            }
            EventKind::TaskFinished { task, .. } => tasks.push(task.task().node.to_string()),
            EventKind::Committed { edges: taken, .. } => {
                tasks.dedup();
                ran.append(&mut tasks);
                let name = |node: Option<milepost::NodeName>| node.map(|node| node.to_string());
                for edge in taken {
                    edges.insert((name(edge.from), edge.label, name(edge.to)));
                }
            }
            _ => {}
        }
    }
    (ran, edges)
}

async fn asked(
    desk: Desk,
    store: &Arc<MemoryStore>,
    input: ResearchStateUpdate,
) -> Result<Report<ResearchState>, RunError> {
    let runner = Runner::new(research_with(desk).unwrap()).shared_store(store.clone());
    runner.run(&thread(), Command::start(input)).await
}

/// S415, S416, S418: two rounds, in the order that coverage asks for, and a report whose citations do not
/// hold is refused.
#[tokio::test]
async fn every_edge_is_taken_and_a_refused_report_goes_on_when_the_document_is_put_right() {
    let folder = subjects();
    let out = folder.path().join("report.md");
    let store = Arc::new(MemoryStore::new());
    let runner = Runner::new(research().unwrap()).shared_store(store.clone());
    let input = ask(ASKED, folder.path()).out(Some(out.display().to_string()));
    // Eleven supersteps end with the report's text; its citations are not checked yet.
    let half = runner.clone().options(RunOptions::new().step_limit(11));
    let stopped = half.run(&thread(), Command::start(input)).await.unwrap();
    assert_eq!(stopped.ended, Ended::StepLimit { limit: 11 });
    assert!(stopped.state.report.is_some());
    let cited = folder.path().join("alpha0.md");
    let right = fs::read(&cited).unwrap();
    fs::write(&cited, "Rewritten.").unwrap();
    let asked = runner.run(&thread(), Command::go_on()).await.unwrap();
    assert_eq!(asked.ended, Ended::Paused { questions: 1 });
    assert!(!asked.state.citation_faults.is_empty() && asked.state.pending_approval);
    let question = &asked.questions[0];
    assert_eq!(question.id.task().task().node.as_str(), "review");
    let Review { faults } = question.read().unwrap();
    assert!(faults[0].contains("are not in alpha0.md"), "{faults:?}");
    assert!(!out.exists(), "a refused report is not saved");
    // What a person says decides, on copies of the thread as it waits.
    let mut taken_elsewhere = BTreeSet::new();
    for (name, verdict, saved) in [
        ("no", Verdict::Refuse, false),
        ("yes", Verdict::Publish, true),
    ] {
        let copy = ThreadId::new(name).unwrap();
        store.copy_thread(&thread(), &copy).await.unwrap();
        let answer = Command::answer(Answers::only(&verdict));
        let ended = runner.run(&copy, answer).await.unwrap();
        assert_eq!(ended.ended, Ended::Finished);
        assert_eq!((out.exists(), ended.state.pending_approval), (saved, false));
        taken_elsewhere.extend(trace(&store, &copy).await.1);
    }
    fs::remove_file(&out).unwrap();
    fs::write(&cited, right).unwrap();
    let check = Command::answer(Answers::only(&Verdict::Check));
    let done = runner.run(&thread(), check).await.unwrap();
    assert_eq!(done.ended, Ended::Finished);
    assert_eq!(
        fs::read_to_string(&out).unwrap(),
        *done.state.report.as_ref().unwrap()
    );
    assert!(done.state.citation_faults.is_empty());
    let (ran, mut taken) = trace(&store, &thread()).await;
    taken.extend(taken_elsewhere);
    assert_eq!(
        ran,
        [
            "planner", "discover", "analyse", "coverage", "analyse", "coverage", "discover",
            "coverage", "discover", "coverage", "report", "check", "review", "check", "save"
        ]
    );
    // The same question over good documents takes the one edge that is left.
    let answered = ask("How many wheels has alpha?", folder.path());
    let again = runner
        .run(&thread(), Command::start(answered))
        .await
        .unwrap();
    assert_eq!(again.ended, Ended::Finished);
    assert_eq!(again.state.report_path, Some(out.display().to_string()));
    taken.extend(trace(&store, &thread()).await.1);
    let graph = research().unwrap();
    let view = graph.view();
    let name = |point: Point| match point {
        Point::Node(node) => Some(view.nodes[node].name.to_string()),
        _ => None,
    };
    for edge in &view.edges {
        let edge = (name(edge.from), edge.label.to_owned(), name(edge.to));
        assert!(taken.contains(&edge), "not taken: {edge:?}");
    }
}

#[tokio::test]
async fn a_second_question_starts_with_nothing_of_the_first() {
    let folder = subjects();
    let store = Arc::new(MemoryStore::new());
    let desk = || Desk::new(Arc::new(Extractive));
    asked(desk(), &store, ask(ASKED, folder.path()))
        .await
        .unwrap();
    let input = || ask("How many wheels has beta?", folder.path());
    let second = asked(desk(), &store, input()).await.unwrap();
    let alone = asked(desk(), &Arc::new(MemoryStore::new()), input())
        .await
        .unwrap();
    assert_eq!(*second.state, *alone.state);
    assert_eq!(second.state.rounds, 1);
}

/// S417: failed members are tolerated and listed.
#[tokio::test]
async fn two_of_twenty_sources_fail_and_eighteen_are_used() {
    let folder = subjects();
    let model = Moody {
        fails_on: vec!["The alpha has 1", "The delta has 4"],
        ..Moody::default()
    };
    let store = Arc::new(MemoryStore::new());
    let desk = Desk::new(Arc::new(model));
    let done = asked(desk, &store, ask(ASKED, folder.path()))
        .await
        .unwrap();
    assert_eq!(done.ended, Ended::Finished);
    assert_eq!(done.state.candidates.len(), 20);
    assert_eq!(done.state.notes.len(), 18);
    let mut failed: Vec<_> = done
        .state
        .errors
        .iter()
        .map(|e| e.source.as_str())
        .collect();
    failed.sort_unstable();
    assert_eq!(failed, ["alpha1.md", "delta4.md"]);
    let report = done.state.report.as_ref().unwrap();
    for id in failed {
        assert!(report.contains(id), "{report}");
    }
    let tolerated = events(&*store, &thread()).await.unwrap();
    let tolerated = tolerated.iter().filter(|event| {
        matches!(
            &event.kind,
            EventKind::TaskFinished {
                tolerated: Some(_),
                ..
            }
        )
    });
    assert_eq!(tolerated.count(), 2);
}

/// S417: a required source that fails sends the run back.
#[tokio::test]
async fn a_required_source_that_fails_sends_the_run_to_discover_again() {
    let folder = subjects();
    let model = Moody {
        fails_on: vec!["The delta has 4"],
        ..Moody::default()
    };
    let mut input = ask("How many wheels has alpha?", folder.path());
    input = input.constraints([("require".to_owned(), "delta4.md".to_owned())].into());
    let store = Arc::new(MemoryStore::new());
    let done = asked(Desk::new(Arc::new(model)), &store, input)
        .await
        .unwrap();
    assert_eq!(done.state.rounds, 3);
    let missing = &done.state.coverage.as_ref().unwrap().missing;
    assert_eq!(*missing, [Missing::Source("delta4.md".to_owned())]);
    assert_eq!(
        done.state.errors.len(),
        3,
        "a required source is tried again"
    );
}

#[tokio::test]
async fn a_run_stopped_in_its_fan_out_reads_only_the_documents_that_are_left() {
    let folder = subjects();
    let undisturbed = Arc::new(Moody::default());
    let store = Arc::new(MemoryStore::new());
    let desk = Desk::new(undisturbed.clone());
    let whole = asked(desk, &store, ask(ASKED, folder.path()))
        .await
        .unwrap();

    let cancel = Cancel::new();
    let first = Arc::new(Moody {
        stop_after: Some((3, cancel.clone())),
        ..Moody::default()
    });
    let store = Arc::new(MemoryStore::new());
    let graph = research_with(Desk::new(first.clone())).unwrap();
    let runner = Runner::new(graph)
        .shared_store(store.clone())
        .options(RunOptions::new().cancel(cancel).grace(Duration::ZERO));
    let start = Command::start(ask(ASKED, folder.path()));
    let stopped = runner.run(&thread(), start).await.unwrap();
    assert_eq!(stopped.ended, Ended::Cancelled);
    assert!(stopped.state.notes.is_empty(), "the superstep is open");
    let second = Arc::new(Moody::default());
    let runner = Runner::new(research_with(Desk::new(second.clone())).unwrap());
    let runner = runner.shared_store(store.clone());
    let done = runner.run(&thread(), Command::go_on()).await.unwrap();
    assert_eq!(*done.state, *whole.state);
    let mut finished = BTreeSet::new();
    for event in events(&*store, &thread()).await.unwrap() {
        if let EventKind::TaskFinished { task, .. } = event.kind {
            assert!(finished.insert(task.to_string()), "twice: {task}");
        }
    }
    let replies = |model: &Moody| model.replies.load(Ordering::SeqCst);
    assert!(replies(&first) >= 3);
    assert!(replies(&second) < replies(&undisturbed));
}

#[tokio::test]
async fn a_question_of_nothing_fails_and_says_so() {
    let folder = subjects();
    let store = Arc::new(MemoryStore::new());
    let desk = Desk::new(Arc::new(Extractive));
    let error = asked(desk, &store, ask("?", folder.path()))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("nothing to search for"),
        "{error}"
    );
    assert!(error.to_string().contains("\"planner\""), "{error}");
}
