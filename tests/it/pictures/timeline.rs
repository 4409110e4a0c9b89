//! The time of a run: what the events say of it, and nothing else.

use milepost::dot::{Folded, Timeline};
use milepost::{Event, EventKind, GraphView};
use roxmltree::Document;

use super::golden;
use super::graphs::{QUOTING, WORDS, every_kind, row, web};
use super::overlay::{traveled, wild};
use super::svg::{children, title};

/// Events with the times of a clock that a test can know: every try takes 40 ms, every boundary 5.
pub(super) fn with_clock(mut events: Vec<Event>) -> Vec<Event> {
    let mut now = 1_000;
    for event in &mut events {
        match &mut event.kind {
            EventKind::Started { at_ms, .. }
            | EventKind::Resumed { at_ms, .. }
            | EventKind::Committed { at_ms, .. }
            | EventKind::Ended { at_ms, .. } => {
                now += 5;
                *at_ms = now;
            }
            EventKind::TaskFinished { tries, .. } | EventKind::TaskFailed { tries, .. } => {
                for one in tries {
                    now += 10;
                    (one.started_ms, one.micros) = (now, 40_000);
                    now += 40;
                }
            }
            _ => {}
        }
    }
    events
}

/// The tracks of a timeline, each with the titles and descriptions of its tasks.
pub(super) fn tracks(text: &str) -> Vec<(String, Vec<(String, String)>)> {
    let document = Document::parse(text).unwrap();
    let class = |name| {
        move |node: &roxmltree::Node<'_, '_>| {
            let class = node.attribute("class").unwrap_or_default();
            class == name || class.starts_with(&format!("{name} "))
        }
    };
    let root = document.root_element();
    let track = |track: roxmltree::Node<'_, '_>| {
        let tasks = track.children().filter(class("task")).map(|task| {
            let told = children(task, "desc").next().unwrap();
            (
                title(task).to_owned(),
                told.text().unwrap_or_default().to_owned(),
            )
        });
        let seen: String = children(track, "text")
            .filter(|text| text.attribute("font-size") == Some("12"))
            .filter_map(|text| text.text())
            .collect();
        assert_eq!(seen, title(track).replace('\n', ""));
        (title(track).to_owned(), tasks.collect())
    };
    root.children().filter(class("track")).map(track).collect()
}

/// S055: who ran when, with every try.
#[tokio::test(start_paused = true)]
async fn a_timeline_shows_each_task_with_its_tries() {
    let (view, events) = traveled("tolerated").await;
    let events = with_clock(events);
    let text = Timeline::new(&view, &events).to_string();
    let tracks = tracks(&text);
    let shown: Vec<_> = tracks
        .iter()
        .map(|(name, tasks)| (name.as_str(), tasks.len()))
        .collect();
    // What never ran has no track.
    assert_eq!(shown, [("plan", 2), ("study", 6), ("judge", 2)]);
    let (task, told) = &tracks[2].1[0];
    assert_eq!(task, "3:judge[0]");
    for part in [
        "try 1 failed after 40 ms (transient): no answer",
        "waited 10 ms to be tried again",
        "try 2 took 40 ms; finished",
    ] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    let tolerated = tracks[1]
        .1
        .iter()
        .filter(|(_, told)| told.contains("tolerated (permanent)"));
    assert_eq!(tolerated.count(), 1);
    assert!(
        tracks[1].1[0].1.contains("waited 105 ms for the others"),
        "{tracks:?}"
    );
    golden("timeline_finished.svg", &text);
}

#[tokio::test(start_paused = true)]
async fn a_timeline_of_a_failed_run_shows_what_failed_and_what_is_left() {
    let (view, events) = traveled("failed").await;
    let text = Timeline::new(&view, &with_clock(events)).to_string();
    let tracks = tracks(&text);
    assert!(
        tracks[2].1[1].1.contains("failed (permanent): not today"),
        "{tracks:?}"
    );
    assert!(text.contains(">failed: 1 waits</text>"), "{text}");
    assert!(text.contains("<title>failed</title>"), "{text}");
    golden("timeline_failed.svg", &text);
}

/// C58, C59: whatever the names and the run, and also without any clock.
#[test]
fn a_timeline_keeps_names_as_they_are() {
    for (seed, view) in [row(&QUOTING), row(&WORDS), web(&WORDS), every_kind()]
        .iter()
        .enumerate()
    {
        let events = wild(view, seed as u64);
        let text = Timeline::new(view, &events).to_string();
        let tracks = tracks(&text);
        assert!(!tracks.is_empty());
        let mut names = view.nodes.iter().map(|node| node.name.as_str());
        for (name, tasks) in &tracks {
            // In the order of the graph, each once.
            assert!(names.any(|known| known == name), "{name:?}");
            for (task, _) in tasks {
                assert_eq!(*task, format!("1:{name}[0]"));
            }
        }
        assert_eq!(Timeline::new(view, &events).to_string(), text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeline_has_place_for_what_is_odd() {
    let (view, events) = traveled("none").await;
    let text = Timeline::new(&view, []).to_string();
    assert!(tracks(&text).is_empty() && text.contains("not begun"));
    // Nodes of another version of the graph, records that are pruned, a clock that was set back.
    let bare = GraphView {
        nodes: Vec::new(),
        edges: Vec::new(),
        ..view.clone()
    };
    let mut odd = with_clock(events);
    for event in odd.iter_mut().rev().step_by(3) {
        if let EventKind::TaskFinished { tries, .. } = &mut event.kind {
            tries.iter_mut().for_each(|one| one.started_ms = 0);
        }
    }
    for (view, from) in [(&bare, 0), (&view, 7), (&bare, 3)] {
        let text = Timeline::new(view, &odd[from..]).to_string();
        assert!(
            tracks(&text).iter().any(|(name, _)| name == "judge"),
            "{text}"
        );
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert!(!text.contains("=\"-"), "{text}");
    }
}

/// A flame graph says where the time went: all of it, by node and try.
#[tokio::test(start_paused = true)]
async fn folded_stacks_hold_the_time_of_all_tries() {
    let (view, events) = traveled("tolerated").await;
    let text = Folded::new(&view, &with_clock(events)).to_string();
    let expected = "trip;judge;try 1: done 40000\n\
                    trip;judge;try 1: failed (transient) 40000\n\
                    trip;judge;try 2: done 40000\n\
                    trip;plan;try 1: done 80000\n\
                    trip;study;try 1: done 200000\n\
                    trip;study;try 1: failed (permanent) 40000\n";
    assert_eq!(text, expected);
    assert!(Folded::new(&view, []).is_empty());
    // One stack a line, whatever the names.
    for view in [row(&QUOTING), row(&WORDS)] {
        let mut events = wild(&view, 1);
        for event in &mut events {
            if let EventKind::TaskFinished { tries, .. } = &mut event.kind {
                let (started_ms, micros, error) = (1, 7, None);
                tries.push(milepost::Try {
                    started_ms,
                    micros,
                    error,
                });
            }
        }
        let text = Folded::new(&view, &events).to_string();
        assert!(text.lines().count() > 5);
        for line in text.lines() {
            assert_eq!(line.matches(';').count(), 2, "{line:?}");
            assert!(line.ends_with(" 7"), "{line:?}");
        }
    }
}
