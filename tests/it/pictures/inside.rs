//! Graphs inside of a run: drawn as clusters, counted over all instances, timed below their node.

use milepost::dot::{Dot, Folded, Mermaid, Overlay, Svg, Timeline};
use milepost::{
    Answers, Append, Ask, Command, Context, End, Event, Exits, Graph, GraphView, NodeError, Output,
    RunOptions, Snapshot, State, events,
};
use serde::{Deserialize, Serialize};

use super::dot::{parse, svg};
use super::golden;
use super::mermaid::understood;
use super::read::Picture;
use super::svg as xml;
use super::timeline::{tracks, with_clock};
use crate::support::{Calls, Doc, DocUpdate, Place, line, says, thread, with};

#[derive(Clone, Debug, Default, State)]
struct Check {
    item: u64,
    #[reduce(Append)]
    notes: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Sure {
    item: u64,
}

impl Ask for Sure {
    type Answer = bool;
}

#[derive(Clone, Copy, Exits)]
enum Spelled {
    Sure,
    Unsure,
}

/// `spell` is sure of even items; of odd ones `judge` asks. Its `look` is a graph of its own.
fn check(calls: &Calls) -> Graph<Check> {
    let mut look = Graph::builder("look");
    let read = look.node("read", async |_: Snapshot<Check>, _: Context| {
        Ok::<_, NodeError>(Check::update().notes(vec!["read".to_owned()]))
    });
    look.start(read);
    look.edge(read, End);

    let mut g = Graph::builder("check");
    let look = g.subgraph(
        "look",
        look.build().unwrap(),
        |check: &Check| Check::update().item(check.item),
        |look| Check::update().notes(look.notes.clone()),
    );
    let spell = async |calls: Calls, check: Snapshot<Check>, _: Context| {
        if calls.hit(&format!("spell {}", check.item)) == 1 && check.item == 2 {
            return Err(NodeError::permanent("unreadable"));
        }
        let exit = if check.item.is_multiple_of(2) {
            Spelled::Sure
        } else {
            Spelled::Unsure
        };
        Ok((Check::update(), exit))
    };
    let spell = g.node("spell", with(calls.clone(), spell));
    let judge = g.node("judge", async |check: Snapshot<Check>, cx: Context| {
        let Some(_) = cx.answer::<Sure>("sure")? else {
            return Ok(Output::ask("sure", Sure { item: check.item }));
        };
        Ok::<_, NodeError>(Output::Done(Check::update(), ()))
    });
    g.start(look);
    g.edge(look, spell);
    g.wire(spell, |exit| match exit {
        Spelled::Sure => End.into(),
        Spelled::Unsure => judge.into(),
    });
    g.edge(judge, End);
    g.build().unwrap()
}

/// `plan`, then `check` for each of these items, then `report`.
fn outer(calls: &Calls, items: Vec<u64>) -> Graph<Doc> {
    let mut g = Graph::builder("outer");
    let plan = g.node("plan", says(calls, "plan"));
    let check = g.subgraph_worker(
        "check",
        check(calls),
        |item: &u64, _: &Doc| Check::update().item(*item),
        |item, check| -> DocUpdate { line(format!("{item} {}", check.notes.join(" "))) },
    );
    let report = g.node("report", says(calls, "report"));
    g.start(plan);
    g.edge(plan, check.each(move |_: &Doc| items.clone()));
    g.edge(check, report);
    g.edge(report, End);
    g.build().unwrap()
}

/// Runs the graph over items, and answers so many questions.
async fn checked(items: &[u64], answers: usize) -> (GraphView, Vec<Event>) {
    let (calls, place, t) = (Calls::default(), Place::memory(), thread("t"));
    let graph = outer(&calls, items.to_vec());
    let runner = place.runner(graph.clone(), RunOptions::new());
    let mut report = runner.run(&t, Command::start(Doc::update())).await;
    for _ in 0..answers {
        let id = report.as_ref().unwrap().questions[0].id.clone();
        let answer = Command::answer(Answers::to(id, &true));
        report = runner.run(&t, answer).await;
    }
    let store = place.open().unwrap();
    let events = events(&*store, &t).await.unwrap();
    (graph.view().clone(), events)
}

/// The labels of nodes and clusters, and what edges say with where they go.
fn labels(picture: &Picture) -> Vec<String> {
    let of = |id: &str| {
        let named = |node: &&(String, String)| node.0.trim_start_matches("cluster_") == id;
        let label = &picture.nodes.iter().find(named).unwrap().1;
        label.split('\n').next().unwrap_or_default().to_owned()
    };
    let nodes = picture
        .nodes
        .iter()
        .map(|(_, label)| label.replace('\n', ", "));
    let edges = picture.edges.iter().map(|(from, to, label)| {
        format!("{} → {}: {}", of(from), of(to), label.replace('\n', ", "))
    });
    nodes.chain(edges).collect()
}

/// S055 with questions inside: what waits is marked inside and around, and is counted over all
/// instances.
#[tokio::test(start_paused = true)]
async fn what_waits_inside_is_marked_there_and_around() {
    let (view, events) = checked(&[0, 1, 3], 1).await;
    let overlay = Overlay::new(&view, &events);
    assert_eq!(overlay.unknown(), [""; 0]);
    assert_eq!(overlay.to_string(), "paused after superstep 1");
    let text = Dot::new(&view).run(&overlay).to_string();
    let told = labels(&parse(&text));
    for expected in [
        "plan, ×1",
        "check, ×2, 1 waits",
        "look, ×3",
        "read, ×3",
        "spell, ×3",
        "judge, ×1, 1 waits",
        "start → end: ×3",
    ] {
        assert!(
            told.iter().any(|told| told == expected) || expected.starts_with("start"),
            "no {expected:?} in {told:#?}"
        );
    }
    for expected in [
        "spell → judge: Unsure, ×2",
        "spell → end: Sure, ×1",
        "judge → end: ×1",
    ] {
        assert!(
            told.iter().any(|told| told == expected),
            "no {expected:?} in {told:#?}"
        );
    }
    let inner = overlay.inner(1).unwrap();
    assert_eq!((inner.node(2).open, inner.node(2).visits), (1, 1));
    assert_eq!(inner.inner(0).unwrap().node(0).visits, 3);
    assert!(overlay.inner(0).is_none() && inner.inner(7).is_none());
    assert_eq!(inner.to_string(), overlay.to_string());
    golden("inside_paused.dot", &text);
    let drawn = Mermaid::new(&view).run(&overlay).to_string();
    golden("inside_paused.mmd", &drawn);
    let framed = Svg::new(&view).run(&overlay).to_string();
    golden("inside_paused.svg", &framed);
    // Other readers see the same nodes, with the same counts.
    let names = |picture: &Picture| {
        let mut names: Vec<_> = picture.nodes.iter().map(|node| node.1.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&xml::parse(&framed)), names(&parse(&text)));
    if let Some(read) = understood(&[drawn]) {
        assert_eq!(names(&read[0]), names(&parse(&text)));
    }
    if let Some(svg) = svg(&text) {
        assert_eq!(svg.matches("class=\"cluster").count(), 2);
    }
}

/// What failed inside is marked there and around; what was taken up again is not.
#[tokio::test(start_paused = true)]
async fn what_failed_inside_is_marked_there_and_around() {
    let (view, events) = checked(&[0, 2], 0).await;
    let overlay = Overlay::new(&view, &events);
    let told = labels(&parse(&Dot::new(&view).run(&overlay).to_string()));
    for expected in [
        "check, ×1, 1 failure, failed: 1 waits",
        "spell, ×1, 1 failure, failed: 1 waits",
    ] {
        assert!(
            told.iter().any(|told| told == expected),
            "no {expected:?} in {told:#?}"
        );
    }
    golden(
        "inside_failed.svg",
        &Svg::new(&view).run(&overlay).to_string(),
    );
    let (_, finished) = checked(&[0, 1], 1).await;
    let overlay = Overlay::new(&view, &finished);
    let inner = overlay.inner(1).unwrap();
    assert_eq!(overlay.to_string(), "finished after superstep 3");
    for place in 0..3 {
        assert!(inner.node(place).open == 0 && !inner.node(place).failed);
    }
    assert_eq!((inner.node(1).visits, inner.node(2).visits), (2, 1));
    // As it was after so many records.
    for end in 0..finished.len() {
        let early = Overlay::new(&view, &finished[..end]);
        let sum = |overlay: &Overlay| overlay.inner(1).unwrap().node(1);
        assert!(
            sum(&early).visits <= 2 && sum(&early).open <= 2,
            "{early:?}"
        );
    }
}

/// A thread of another version of the graph: what has no place is named.
#[tokio::test(start_paused = true)]
async fn what_the_graph_inside_does_not_have_is_named() {
    let (mut view, events) = checked(&[0], 0).await;
    let inner = view.nodes[1].inner.as_mut().unwrap();
    inner.nodes[0].inner = None;
    inner.nodes[1].name = milepost::NodeName::new("read aloud").unwrap();
    let overlay = Overlay::new(&view, &events);
    assert_eq!(
        overlay.unknown(),
        [
            "the graph inside of look",
            "edge look → spell, inside of check",
            "node spell, inside of check",
            "edge spell → end (Sure), inside of check",
        ]
    );
}

/// Rows beneath the row of the node whose graph ran, a lane an instance.
#[tokio::test(start_paused = true)]
async fn a_timeline_has_what_ran_inside_below_its_node() {
    for (items, answers, file) in [
        (&[0, 1, 3][..], 2, "inside_timeline.svg"),
        (&[0, 1], 0, "inside_timeline_paused.svg"),
    ] {
        let (view, events) = checked(items, answers).await;
        let text = Timeline::new(&view, &with_clock(events)).to_string();
        let tracks = tracks(&text);
        let names: Vec<_> = tracks.iter().map(|track| track.0.as_str()).collect();
        let mut expected = vec!["plan", "check", "look", "read", "spell", "judge", "report"];
        if answers == 0 {
            expected.pop();
        }
        assert_eq!(names, expected);
        let read: Vec<_> = tracks[3].1.iter().map(|task| task.0.as_str()).collect();
        let whole = |index: usize| format!("2:check[{index}]/1:look[0]/1:read[0]");
        assert_eq!(read, (0..items.len()).map(whole).collect::<Vec<_>>());
        assert!(!text.contains("NaN") && !text.contains("=\"-"), "{text}");
        golden(file, &text);
    }
}

/// The time of a node whose graph ran is split: what ran inside stands above it.
#[tokio::test(start_paused = true)]
async fn folded_stacks_go_into_graphs_inside() {
    let (view, events) = checked(&[0], 0).await;
    let mut events = with_clock(events);
    for event in &mut events {
        if let milepost::EventKind::TaskFinished { task, tries, .. } = &mut event.kind
            && task.to_string() == "2:check[0]"
        {
            (tries[0].started_ms, tries[0].micros) = (0, 200_000);
        }
    }
    let text = Folded::new(&view, &events).to_string();
    let expected = "outer;check;look;read;try 1: done 40000\n\
                    outer;check;look;try 1: done 40000\n\
                    outer;check;spell;try 1: done 40000\n\
                    outer;check;try 1: done 120000\n\
                    outer;plan;try 1: done 40000\n\
                    outer;report;try 1: done 40000\n";
    assert_eq!(text, expected);
}
