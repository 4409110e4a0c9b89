//! S054: joins are drawn, and what nodes say that they read and write.

use milepost::dot::{Dot, Mermaid, Svg};
use milepost::{Append, Context, End, Exits, Graph, Snapshot, State};

use super::{dot, golden, read};

#[derive(Clone, Default, State)]
struct Doc {
    #[reduce(Append)]
    log: Vec<String>,
    title: String,
}

#[derive(Clone, Copy, Exits)]
enum Found {
    Enough,
    Little,
}

fn graph() -> Graph<Doc> {
    let mut g = Graph::builder("joins");
    let search = g.node("search", async |_: Snapshot<Doc>, _: Context| {
        Ok((Doc::update(), Found::Enough))
    });
    let ask = g.node(
        "ask",
        async |_: Snapshot<Doc>, _: Context| Ok(Doc::update()),
    );
    let read = g.worker("read", async |_: String, _: Snapshot<Doc>, _: Context| {
        Ok(Doc::update())
    });
    let note = g.node("note", async |_: Snapshot<Doc>, _: Context| {
        Ok(Doc::update())
    });
    let write = g.node("write", async |_: Snapshot<Doc>, _: Context| {
        Ok(Doc::update())
    });
    g.reads(note, (Doc::LOG, Doc::TITLE));
    g.writes(note, [Doc::LOG]);
    g.writes(write, ());
    g.start(search.and(ask).and(note));
    let all = g
        .join((search, ask, read), write)
        .at_least(2)
        .must([ask])
        .timeout(std::time::Duration::from_secs(60))
        .place();
    g.wire(search, |found| match found {
        Found::Enough => read.each(|doc: &Doc| doc.log.clone()).and(all),
        Found::Little => all.into(),
    });
    g.gather((note, write), End);
    g.build().unwrap()
}

#[test]
fn a_join_is_drawn_as_a_place_of_its_own() {
    let graph = graph();
    let text = Dot::new(graph.view()).to_string();
    read::assert_shows(&dot::parse(&text), graph.view());
    golden("joins.dot", &text);
    golden("joins.mmd", &Mermaid::new(graph.view()).to_string());
    golden("joins.svg", &Svg::new(graph.view()).to_string());
    if let Some(svg) = dot::svg(&text) {
        assert!(svg.contains("2 of 3, with ask, at most 60s"), "{svg}");
    }
}
