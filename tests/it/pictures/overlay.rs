//! A run laid over its graph: the counts are those of the records, the names are still the names.

use std::time::Duration;

use milepost::dot::{Dot, Mermaid, Overlay, Svg};
use milepost::{
    Cancel, Command, Context, End, Epoch, ErrorText, Event, EventKind, Exits, Graph, GraphView,
    NodeError, NodeName, Point, Policy, Retry, RunOptions, Snapshot, Step, TakenEdge, TaskPath,
    events,
};

use super::dot::{parse, svg};
use super::golden;
use super::graphs::{QUOTING, WORDS, every_kind, random, row, web};
use super::mermaid::understood;
use super::read::Picture;
use super::svg as xml;
use crate::support::{Calls, Doc, Place, fed, line, thread, with};

#[derive(Clone, Copy, Exits)]
enum Judged {
    Again,
    Good,
}

/// Plans, studies three things one after another, judges, and does it all twice; `aside` is never
/// visited. `trouble` says what goes wrong, and where.
fn trip(calls: &Calls, trouble: &'static str, cancel: &Cancel) -> Graph<Doc> {
    let mut g = Graph::builder("trip");
    let plan = g.node("plan", async |_: Snapshot<Doc>, _: Context| {
        Ok::<_, NodeError>(line("plan"))
    });
    let study = fed(
        (calls.clone(), cancel.clone()),
        move |(calls, cancel): (Calls, Cancel), topic: u64, _, _| async move {
            match (calls.hit(&format!("study {topic}")), trouble, topic) {
                (2, "cancelled", 1) => cancel.cancel(),
                // It does not end in its grace time.
                (2, "cancelled", 2) => std::future::pending().await,
                (2, "tolerated", 0) => return Err(NodeError::permanent("unreadable")),
                _ => {}
            }
            Ok(Doc::update().seen(vec![topic]))
        },
    );
    let study = g.worker("study", study);
    g.worker_error(study, |topic, error| line(format!("{topic}: {error}")));
    let judge = with(
        calls.clone(),
        move |calls: Calls, _: Snapshot<Doc>, _: Context| async move {
            match (calls.hit("judge"), trouble) {
                (1, _) => Err(NodeError::transient("no answer")),
                (3, "failed") => Err(NodeError::permanent("not today")),
                (2, _) => Ok((line("judge"), Judged::Again)),
                _ => Ok((line("judge"), Judged::Good)),
            }
        },
    );
    let judge = g.node("judge", judge);
    let aside = g.node("aside", async |_: Snapshot<Doc>, _: Context| {
        Ok::<_, NodeError>(line("aside"))
    });
    let retry = Retry {
        max_attempts: 2,
        first_wait: Duration::from_millis(1),
        ..Retry::default()
    };
    g.policy(judge, Policy::default().retry(retry));
    g.start(plan);
    g.branch(
        plan,
        |_| Ok(Judged::Again),
        |way| match way {
            Judged::Again => study.each(|_| vec![0, 1, 2]),
            Judged::Good => aside.into(),
        },
    );
    g.edge(study, judge);
    g.wire(judge, |way| match way {
        Judged::Again => plan.into(),
        Judged::Good => End.into(),
    });
    g.edge(aside, End);
    g.build().unwrap()
}

/// Runs a trip to where its trouble leads, and gives what its records tell.
pub(super) async fn traveled(trouble: &'static str) -> (GraphView, Vec<Event>) {
    let (calls, cancel, place) = (Calls::default(), Cancel::new(), Place::memory());
    let graph = trip(&calls, trouble, &cancel);
    let options = RunOptions::new()
        .cancel(cancel)
        .grace(Duration::from_secs(1));
    let runner = place.runner(graph.clone(), options);
    // How it ends is told by the events.
    let _ = runner
        .run(&thread("t"), Command::start(Doc::update()))
        .await;
    let store = place.open().unwrap();
    let events = events(&*store, &thread("t")).await.unwrap();
    (graph.view().clone(), events)
}

fn label(view: &GraphView, overlay: &Overlay, node: &str) -> String {
    let picture = parse(&Dot::new(view).run(overlay).to_string());
    let found = picture
        .nodes
        .iter()
        .find(|(_, label)| label == node || label.starts_with(&format!("{node}\n")));
    found.unwrap().1.clone()
}

/// S055: a finished run with a loop, a retry and a tolerated failure.
#[tokio::test(start_paused = true)]
async fn a_finished_run_shows_how_often_each_node_and_edge_was_taken() {
    let (view, events) = traveled("tolerated").await;
    let overlay = Overlay::new(&view, &events);
    assert_eq!(overlay.to_string(), "finished after superstep 6");
    assert_eq!(label(&view, &overlay, "plan"), "plan\n×2");
    assert_eq!(label(&view, &overlay, "study"), "study\n×6, 1 tolerated");
    assert_eq!(label(&view, &overlay, "judge"), "judge\n×2, 1 retry");
    assert_eq!(label(&view, &overlay, "aside"), "aside");
    let taken: Vec<_> = (0..view.edges.len())
        .map(|place| (overlay.edge(place).taken, overlay.edge(place).tasks))
        .collect();
    assert_eq!(
        taken,
        [(1, 1), (2, 6), (0, 0), (2, 2), (1, 1), (1, 1), (0, 0)]
    );
    golden(
        "run_finished.dot",
        &Dot::new(&view).run(&overlay).to_string(),
    );
    golden(
        "run_finished.mmd",
        &Mermaid::new(&view).run(&overlay).to_string(),
    );
    golden(
        "run_finished.svg",
        &Svg::new(&view).run(&overlay).to_string(),
    );
}

/// S055: a run that failed shows where, and what is left.
#[tokio::test(start_paused = true)]
async fn a_failed_run_shows_the_node_that_failed() {
    let (view, events) = traveled("failed").await;
    let overlay = Overlay::new(&view, &events);
    assert_eq!(overlay.to_string(), "failed after superstep 5");
    assert_eq!(
        label(&view, &overlay, "judge"),
        "judge\n×1, 1 retry, 1 failure\nfailed: 1 waits"
    );
    golden("run_failed.dot", &Dot::new(&view).run(&overlay).to_string());
    golden(
        "run_failed.mmd",
        &Mermaid::new(&view).run(&overlay).to_string(),
    );
    golden("run_failed.svg", &Svg::new(&view).run(&overlay).to_string());
}

/// S055: a run cancelled in a fan-out shows how many of its tasks wait.
#[tokio::test(start_paused = true)]
async fn a_run_cancelled_in_a_fan_out_shows_how_many_tasks_wait() {
    let (view, events) = traveled("cancelled").await;
    let overlay = Overlay::new(&view, &events);
    assert_eq!(overlay.to_string(), "cancelled after superstep 4");
    assert_eq!(label(&view, &overlay, "study"), "study\n×5\n1 waits");
    golden(
        "run_cancelled.dot",
        &Dot::new(&view).run(&overlay).to_string(),
    );
}

/// A checkpoint is the run as it was then: what came later is not there, and what was to run is.
#[tokio::test(start_paused = true)]
async fn fewer_events_show_the_run_as_it_was() {
    let (view, events) = traveled("tolerated").await;
    let committed = |event: &&Event| matches!(event.kind, EventKind::Committed { .. });
    let at = events.iter().find(committed).unwrap().seq;
    let overlay = Overlay::new(&view, events.iter().filter(|event| event.seq <= at));
    assert_eq!(overlay.to_string(), "running after superstep 1");
    assert_eq!(label(&view, &overlay, "plan"), "plan\n×1");
    assert_eq!(label(&view, &overlay, "study"), "study\n3 to run");
    assert_eq!(Overlay::new(&view, []).to_string(), "not begun");
    // What is pruned away is not counted, and that is said.
    let late = events.iter().filter(|event| event.seq > at);
    let late = Overlay::new(&view, late);
    assert!(late.is_partial() && !overlay.is_partial());
    assert!(late.to_string().contains("pruned"), "{late}");
}

/// The same records give the same bytes, whatever the clock said; times come only where asked for.
#[tokio::test(start_paused = true)]
async fn the_picture_of_a_thread_has_no_times_unless_asked_for() {
    let (view, mut events) = traveled("none").await;
    let text = Dot::new(&view)
        .run(&Overlay::new(&view, &events))
        .to_string();
    let (_, again) = traveled("none").await;
    assert_eq!(
        text,
        Dot::new(&view)
            .run(&Overlay::new(&view, &again))
            .to_string()
    );
    for event in &mut events {
        if let EventKind::TaskFinished { micros, .. } = &mut event.kind {
            *micros = 1_500;
        }
    }
    let overlay = Overlay::new(&view, &events);
    assert_eq!(Dot::new(&view).run(&overlay).to_string(), text);
    let timed = Dot::new(&view).run(&overlay).times().to_string();
    assert!(timed.contains("plan\\n×2\\nlast 1.5 ms\""), "{timed}");
    let timed = Mermaid::new(&view).run(&overlay).times().to_string();
    assert!(timed.contains("last 1.5 ms"), "{timed}");
}

/// A thread of another version of the graph: what the graph does not have is named, not drawn.
#[tokio::test(start_paused = true)]
async fn what_the_graph_does_not_have_is_named() {
    let (mut view, events) = traveled("none").await;
    view.nodes[2].name = NodeName::new("assess").unwrap();
    let overlay = Overlay::new(&view, &events);
    let unknown = [
        "edge study → judge",
        "node judge",
        "edge judge → plan (Again)",
        "edge judge → end (Good)",
    ];
    assert_eq!(overlay.unknown(), unknown);
    assert_eq!(overlay.node(2).visits, 0);
}

/// Some run over a graph, the same for the same seed: every node and edge gets something to say.
pub(super) fn wild(view: &GraphView, seed: u64) -> Vec<Event> {
    let name = |point| match point {
        Point::Node(place) => Some(view.nodes[place].name.clone()),
        Point::Join(_) | Point::Start | Point::End => None,
    };
    let taken = |place: usize| TakenEdge {
        from: name(view.edges[place].from),
        label: view.edges[place].label.to_owned(),
        to: name(view.edges[place].to),
        tasks: 1 + (seed as u32 + place as u32) % 3,
    };
    let mut kinds = Vec::new();
    for (place, node) in view.nodes.iter().enumerate() {
        let task = TaskPath::new(Step::new(1), node.name.clone(), 0);
        let error = ErrorText {
            class: "other".to_owned(),
            message: "\"];".to_owned(),
        };
        kinds.push(match (seed + place as u64) % 4 {
            0 => continue,
            1 => EventKind::TaskFailed {
                task,
                attempts: 2,
                tries: Vec::new(),
                error,
                exit: None,
            },
            tolerated => EventKind::TaskFinished {
                task,
                attempts: 3,
                micros: 12,
                tries: Vec::new(),
                exit: None,
                tolerated: (tolerated == 2).then_some(error),
                update: Vec::new(),
            },
        });
    }
    let edges = (0..view.edges.len()).filter(|place| !(seed as usize + place).is_multiple_of(3));
    let edges = edges.map(taken).collect();
    let (step, next) = (Step::new(1), Vec::new());
    kinds.insert(
        kinds.len() / 2,
        EventKind::Committed {
            step,
            at_ms: 0,
            edges,
            next,
        },
    );
    let event = |kind| Event {
        within: None,
        epoch: Epoch::new(1),
        seq: None,
        kind,
    };
    kinds.into_iter().map(event).collect()
}

/// C58, C59: nodes and edges are those of the plain picture, each label with lines of counts below.
fn assert_same_but_for_counts(laid: &Picture, plain: &Picture) {
    let counts = |laid: &str, plain: &str| {
        let lines = laid
            .strip_prefix(plain)
            .unwrap_or_else(|| panic!("{laid:?}, {plain:?}"));
        // A label of its own needs no line break before the counts.
        assert!(plain.is_empty() || lines.is_empty() || lines.starts_with('\n'));
        for line in lines.split('\n') {
            let known = |c: char| c.is_ascii_alphanumeric() || "×,.: ".contains(c);
            assert!(line.chars().all(known), "{line:?}");
        }
    };
    assert_eq!(laid.nodes.len(), plain.nodes.len());
    for ((id, text), (plain_id, name)) in laid.nodes.iter().zip(&plain.nodes) {
        assert_eq!(id, plain_id);
        counts(text, name);
    }
    assert_eq!(laid.edges.len(), plain.edges.len());
    for ((from, to, text), (plain_from, plain_to, label)) in laid.edges.iter().zip(&plain.edges) {
        assert_eq!((from, to), (plain_from, plain_to));
        counts(text, label);
    }
}

fn all_views() -> Vec<GraphView> {
    let mut views: Vec<_> = (0..60).map(random).collect();
    views.extend([row(&QUOTING), row(&WORDS), web(&WORDS), every_kind()]);
    views
}

#[test]
fn names_and_labels_are_kept_under_any_run() {
    for (seed, view) in all_views().iter().enumerate() {
        let overlay = Overlay::new(view, &wild(view, seed as u64));
        assert!(overlay.unknown().is_empty(), "{:?}", overlay.unknown());
        let text = Dot::new(view).run(&overlay).times().to_string();
        assert_same_but_for_counts(&parse(&text), &parse(&Dot::new(view).to_string()));
        let text = Svg::new(view).run(&overlay).times().to_string();
        let plain = xml::parse(&Svg::new(view).to_string());
        assert_same_but_for_counts(&xml::parse(&text), &plain);
        let text = Mermaid::new(view).run(&overlay).times().to_string();
        for line in text.lines() {
            assert!(matches!(line.matches('"').count(), 0 | 2), "{line}");
        }
    }
}

#[test]
fn graphviz_and_mermaid_accept_any_run() {
    let views = all_views();
    for (seed, view) in views.iter().enumerate().step_by(5) {
        let overlay = Overlay::new(view, &wild(view, seed as u64));
        let Some(svg) = svg(&Dot::new(view).run(&overlay).to_string()) else {
            break;
        };
        assert_eq!(svg.matches("class=\"node ").count(), view.nodes.len() + 2);
        assert_eq!(svg.matches("class=\"edge\"").count(), view.edges.len());
    }
    let laid: Vec<_> = views
        .iter()
        .enumerate()
        .map(|(seed, view)| {
            let overlay = Overlay::new(view, &wild(view, seed as u64));
            Mermaid::new(view).run(&overlay).to_string()
        })
        .collect();
    let plain: Vec<_> = views
        .iter()
        .map(|view| Mermaid::new(view).to_string())
        .collect();
    let (Some(laid), Some(plain)) = (understood(&laid), understood(&plain)) else {
        return;
    };
    for (laid, plain) in laid.iter().zip(&plain) {
        assert_same_but_for_counts(laid, plain);
    }
}
