//! S029, S054: error exits are drawn apart from other edges, and a run shows which were taken.

use milepost::dot::{Dot, Mermaid, Svg};
use milepost::{Append, Context, End, ErrorClass, Failure, Graph, NodeError, Snapshot, State};

use super::{dot, golden, read};

#[derive(Clone, Debug, Default, State)]
struct Doc {
    #[reduce(Append)]
    log: Vec<String>,
}

fn graph() -> Graph<Doc> {
    let mut g = Graph::builder("handled");
    let fetch = g.node("fetch", async |_: Snapshot<Doc>, _: Context| {
        Err::<DocUpdate, _>(NodeError::permanent("gone"))
    });
    let read = g.worker("read", async |_: String, _: Snapshot<Doc>, _: Context| {
        Ok::<_, NodeError>(Doc::update())
    });
    let cached = g.node("cached", async |_: Snapshot<Doc>, _: Context| {
        Ok::<_, NodeError>(Doc::update())
    });
    let note = g.worker("note", async |_: Failure, _: Snapshot<Doc>, _: Context| {
        Ok::<_, NodeError>(Doc::update())
    });
    g.start(fetch);
    g.edge(fetch, read.each(|doc| doc.log.clone()));
    g.on_error_for(fetch, [ErrorClass::Timeout, ErrorClass::Transient], cached);
    g.on_error(fetch, note);
    g.edge(read, End);
    g.on_error(read, note);
    g.edge(cached, End);
    g.edge(note, End);
    g.build().unwrap()
}

#[test]
fn an_error_exit_is_drawn_with_its_classes_and_an_arrow_of_its_own() {
    let graph = graph();
    let text = Dot::new(graph.view()).to_string();
    read::assert_shows(&dot::parse(&text), graph.view());
    golden("error_exits.dot", &text);
    golden("error_exits.mmd", &Mermaid::new(graph.view()).to_string());
    golden("error_exits.svg", &Svg::new(graph.view()).to_string());
    if let Some(svg) = dot::svg(&text) {
        assert!(svg.contains("on transient, timeout"), "{svg}");
    }
}

#[cfg(feature = "sled")]
#[tokio::test]
async fn a_run_shows_which_error_exit_it_has_taken() {
    use milepost::dot::{Overlay, Timeline};
    use milepost::store::MemoryStore;
    use milepost::{Command, Runner, ThreadId, events};

    let (graph, store) = (graph(), MemoryStore::new());
    let thread = ThreadId::new("t").unwrap();
    let runner = Runner::new(graph.clone()).store(store.clone());
    let start = Command::start(Doc::update());
    runner.run(&thread, start).await.unwrap();
    let events = events(&store, &thread).await.unwrap();
    let overlay = Overlay::new(graph.view(), &events);
    let text = Dot::new(graph.view()).run(&overlay).to_string();
    dot::parse(&text);
    golden("run_handled.dot", &text);
    golden(
        "run_handled.svg",
        &Svg::new(graph.view()).run(&overlay).to_string(),
    );
    let timeline = Timeline::new(graph.view(), &events).to_string();
    assert!(
        timeline.contains("failed (permanent), handled: gone"),
        "{timeline}"
    );
}
